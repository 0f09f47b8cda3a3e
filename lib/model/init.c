/* init.c - random weights for any config; see model.h */
#include "base/philox.h"
#include "model/model.h"
#include <string.h>

struct random_weights {
	uint64_t seed;
	double deviation;
	float norm; /* the weight that leaves what is normed alone */
};

/* Each parameter draws from its own key, so a weight does not depend on the others' shapes. */
static int make_random(const void *from, const struct spar_param *p, float *out, struct spar_err *err)
{
	const struct random_weights *w = from;
	size_t n = spar_param_elements(p);
	struct spar_rng rng;
	(void)err;
	spar_rng_init(&rng, w->seed, p->name, strlen(p->name));
#pragma omp parallel for
	for (size_t i = 0; i < n; i++) {
		if (p->kind == SPAR_PARAM_NORM)
			out[i] = w->norm;
		else if (p->kind == SPAR_PARAM_BIAS)
			out[i] = 0;
		else
			out[i] = (float)(w->deviation * spar_rng_normal(&rng, (uint32_t)i, (uint32_t)(i >> 32), 0, 0));
	}
	return 0;
}

int spar_model_init(const char *from, uint64_t seed, const char *dir, struct spar_err *err)
{
	struct spar_config c;
	int rc = spar_config_load(&c, from, err);
	if (rc < 0 || (rc = spar_model_copy_side_files(from, dir, err)) < 0)
		return rc;
	struct random_weights w = {seed, c.initializer_range, c.norm == SPAR_NORM_RMS_PLUS_ONE ? 0 : 1};
	return spar_model_write_made(dir, &c, SPAR_F32, make_random, &w, err);
}
