/* small_model.h - a model folder with random weights, for tests of training. */
#ifndef SPAR_TESTS_SMALL_MODEL_H
#define SPAR_TESTS_SMALL_MODEL_H

#include "base/file.h"
#include "base/philox.h"
#include "model/model.h"
#include "unit.h"
#include <stdlib.h>

/* Write `config` (config.json's text) and weights into `dir` (exists): matrices normal with deviation 0.3; norms 1, or
 * normal around 1 with the same deviation. */
static inline void small_model(const char *dir, const char *config, bool norms_vary, const struct spar_rng *rng)
{
	struct spar_err err = {0};
	char *path = spar_path_join(dir, "config.json");
	struct spar_config c;
	size_t n;
	CHECK(spar_file_write(path, config, strlen(config), &err) == 0);
	CHECK(spar_config_load(&c, dir, &err) == 0);
	struct spar_param *params = spar_config_params(&c, &n);
	float **values = spar_calloc(n, sizeof *values);
	for (size_t i = 0; i < n; i++) {
		size_t elements = spar_param_elements(&params[i]);
		values[i] = spar_malloc(elements * sizeof **values);
		for (size_t k = 0; k < elements; k++) {
			double noise = 0.3 * spar_rng_normal(rng, 1, (uint32_t)i, (uint32_t)k, 0);
			values[i][k] = (float)(params[i].cols ? noise : norms_vary ? 1 + noise : 1);
		}
	}
	CHECK(spar_model_write_weights(dir, &c, values, SPAR_F32, &err) == 0);
	for (size_t i = 0; i < n; i++)
		free(values[i]);
	free(values);
	free(params);
	free(path);
}

#endif
