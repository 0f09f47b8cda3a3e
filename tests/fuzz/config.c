/* config.c - whatever stands in config.json, it is a shape whose weights can be counted or is refused with a message. */
#include "model/config.h"
#include "fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
	struct spar_config c;
	struct spar_err err = {0};
	size_t n_params;
	if (spar_config_load(&c, fuzz_dir("config.json", data, n), &err) < 0) {
		if (!*err.msg)
			abort();
		return 0;
	}
	struct spar_param *params = spar_config_params(&c, &n_params);
	for (size_t i = 0; i < n_params; i++)
		if (!spar_param_elements(&params[i]) || !*params[i].name)
			abort();
	free(params);
	for (size_t i = 0; i < c.n_end; i++)
		if (c.end_ids[i] < 0 || (size_t)c.end_ids[i] >= c.vocab_size)
			abort();
	return 0;
}
