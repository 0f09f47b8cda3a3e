/* gguf_blocks.h - the types of tensors in GGUF files: blocks of numbers, and what they stand for. Internal to lib/model. */
#ifndef SPAR_MODEL_GGUF_BLOCKS_H
#define SPAR_MODEL_GGUF_BLOCKS_H

#include <stddef.h>
#include <stdint.h>

struct spar_gguf_block {
	const char *name;
	size_t elements, bytes;                           /* of a block */
	void (*decode)(const uint8_t *block, float *out); /* NULL: not supported */
};

/*! By the format's number; of one that is not known the name is "unknown" and decode NULL. */
const struct spar_gguf_block *spar_gguf_block(uint32_t type);

#endif
