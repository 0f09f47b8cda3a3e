/* safetensors.c - whatever stands in the file, it opens or is refused with a message, and an open one reads to its end. */
#include "model/safetensors.h"
#include "fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
	struct spar_safetensors *s;
	struct spar_err err = {0};
	int rc = spar_safetensors_open(&s, fuzz_file(data, n), &err);
	if ((rc < 0) != (s == NULL) || (rc < 0 && !*err.msg))
		abort();
	for (size_t i = 0; s && i < spar_safetensors_count(s); i++) {
		const struct spar_tensor_view *v = spar_safetensors_at(s, i);
		float *out = malloc(v->n_elements * sizeof *out + 1);
		spar_tensor_view_f32(v, out, NULL);
		free(out);
	}
	spar_safetensors_close(s);
	return 0;
}
