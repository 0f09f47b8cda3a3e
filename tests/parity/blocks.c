/* The numbers of GGUF blocks for comparison with other implementations.
 *	blocks TYPE N <bytes >raw
 * TYPE is the format's number; the bytes hold N elements, which are written as little-endian float32. */
#include "base/file.h"
#include "base/str.h"
#include "model/gguf.h"
#include <stdio.h>
#include <stdlib.h>

int main(int argc, char **argv)
{
	struct spar_err err = {0};
	struct spar_str bytes = SPAR_STR_INIT;
	if (argc != 3)
		return 2;
	if (spar_file_read("/dev/stdin", SIZE_MAX, &bytes, &err) < 0)
		return spar_die("blocks", &err);
	struct spar_gguf_tensor t = {.type = (uint32_t)strtoul(argv[1], NULL, 10),
				     .n_elements = strtoul(argv[2], NULL, 10),
				     .data = (const uint8_t *)bytes.data};
	float *out = spar_malloc(t.n_elements * sizeof *out);
	if (spar_gguf_f32(&t, out, &err) < 0)
		return spar_die("blocks", &err);
	fwrite(out, sizeof *out, t.n_elements, stdout);
	free(out);
	spar_str_release(&bytes);
	return fflush(stdout) ? 1 : 0;
}
