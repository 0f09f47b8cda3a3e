/* init.c - random weights for any config. */
#include "model/model.h"

#include "base/philox.h"
#include <stdlib.h>
#include <string.h>

/* Each parameter draws from its own key, so a weight does not depend on the others' shapes. */
static float *random_param(const struct spar_config *c, const struct spar_param *p, uint64_t seed)
{
	size_t n = p->rows * (p->cols ? p->cols : 1);
	float *w = spar_malloc(n * sizeof *w);
	struct spar_rng rng;
	spar_rng_init(&rng, seed, p->name, strlen(p->name));
	for (size_t i = 0; i < n; i++)
		w[i] = p->kind == SPAR_PARAM_NORM ? 1
		       : p->kind == SPAR_PARAM_BIAS
			   ? 0
			   : (float)(c->initializer_range * spar_rng_normal(&rng, (uint32_t)i, 0, 0, 0));
	return w;
}

int spar_model_init(const char *from, uint64_t seed, const char *dir, struct spar_err *err)
{
	struct spar_config c;
	size_t n;
	int rc = spar_config_load(&c, from, err);
	if (rc == 0)
		rc = spar_model_copy_side_files(from, dir, err);
	if (rc < 0)
		return rc;
	struct spar_param *params = spar_config_params(&c, &n);
	float **weights = spar_calloc(n, sizeof *weights);
	for (size_t i = 0; i < n; i++)
		weights[i] = random_param(&c, &params[i], seed);
	rc = spar_model_write_weights(dir, &c, weights, SPAR_F32, err);
	for (size_t i = 0; i < n; i++)
		free(weights[i]);
	free(weights);
	free(params);
	return rc;
}
