/* safetensors_parts.h - what the files that read safetensors share; see safetensors.h. Internal to lib/model. */
#ifndef SPAR_MODEL_SAFETENSORS_PARTS_H
#define SPAR_MODEL_SAFETENSORS_PARTS_H

#include "base/file.h"
#include "model/safetensors.h"
#include <jv.h>

struct spar_safetensors {
	struct spar_map *maps; /* one for each file */
	size_t n_maps;
	struct spar_tensor_view *views; /* sorted by name; the names are ours */
	size_t n, cap;
	jv meta; /* __metadata__ of the first file that has one; an object */
};

/*! Check a file's header and its layout, and add its tensors to `s`, which keeps their names also after a failure. `map` must
 *  stay. */
int spar_safetensors_read_header(struct spar_safetensors *s, const struct spar_map *map, struct spar_err *err);

#endif
