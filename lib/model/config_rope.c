/* config_rope.c - rotary positions as config.json tells them: rope_theta beside rope_scaling, or (newer files) all in
 * rope_parameters, there also once for each kind of layer. */
#include "model/config_read.h"
#include "record/record.h"
#include <math.h>
#include <string.h>

static int read_type(struct spar_reading *r, enum spar_rope_type *type, struct spar_err *err)
{
	static const char *const names[] = {"default", "linear", "llama3", "yarn"};
	const char *old, *name;
	int rc;
	if ((rc = spar_reading_str(r, "type", "default", &old, err)) < 0 ||
	    (rc = spar_reading_str(r, "rope_type", old, &name, err)) < 0)
		return rc;
	for (size_t i = 0; i < sizeof names / sizeof *names; i++)
		if (!strcmp(name, names[i])) {
			*type = (enum spar_rope_type)i;
			return 0;
		}
	return spar_reading_fail(r, spar_has(r->obj, "rope_type") ? "rope_type" : "type", err,
				 "'%.40s' is not supported (default, linear, llama3 and yarn are)", name);
}

static int read_llama3(struct spar_rope *rope, struct spar_reading *r, struct spar_err *err)
{
	int rc;
	if ((rc = spar_reading_positive(r, "low_freq_factor", 0, &rope->low_freq_factor, err)) < 0 ||
	    (rc = spar_reading_positive(r, "high_freq_factor", 0, &rope->high_freq_factor, err)) < 0)
		return rc;
	if (rope->high_freq_factor <= rope->low_freq_factor)
		return spar_reading_fail(r, "high_freq_factor", err, "%g is not above .low_freq_factor",
					 rope->high_freq_factor);
	return 0;
}

/* 0.1 m ln(s) + 1: how much sharper attention must get when positions are s times closer. */
static double sharpness(double scale, double m)
{
	return scale <= 1 ? 1 : 0.1 * m * log(scale) + 1;
}

static int read_yarn(struct spar_rope *rope, struct spar_reading *r, struct spar_err *err)
{
	double m, m_all;
	int rc;
	if ((rc = spar_reading_positive(r, "beta_fast", 32, &rope->beta_fast, err)) < 0 ||
	    (rc = spar_reading_positive(r, "beta_slow", 1, &rope->beta_slow, err)) < 0 ||
	    (rc = spar_reading_flag(r, "truncate", true, &rope->truncate, err)) < 0 ||
	    (rc = spar_reading_positive_or_none(r, "mscale", 0, &m, err)) < 0 ||
	    (rc = spar_reading_positive_or_none(r, "mscale_all_dim", 0, &m_all, err)) < 0)
		return rc;
	double implied = m > 0 && m_all > 0 ? sharpness(rope->factor, m) / sharpness(rope->factor, m_all)
					    : sharpness(rope->factor, 1);
	return spar_reading_positive(r, "attention_factor", implied, &rope->attention_factor, err);
}

/* One description of rotary positions. What it does not say stays as it is in `rope`. */
static int read_rope(struct spar_rope *rope, struct spar_reading *r, size_t max_position, struct spar_err *err)
{
	static const char *const none[] = {NULL};
	double partial;
	int rc;
	if ((rc = spar_reading_positive(r, "rope_theta", rope->theta, &rope->theta, err)) < 0 ||
	    (rc = read_type(r, &rope->type, err)) < 0 ||
	    (rc = spar_reading_positive(r, "partial_rotary_factor", 1, &partial, err)) < 0)
		return rc;
	if (partial != 1)
		return spar_reading_fail(r, "partial_rotary_factor", err, "%g is not supported (only 1 is)", partial);
	if (rope->type != SPAR_ROPE_DEFAULT && (rc = spar_reading_positive(r, "factor", 0, &rope->factor, err)) < 0)
		return rc;
	if ((rope->type == SPAR_ROPE_LLAMA3 || rope->type == SPAR_ROPE_YARN) &&
	    (rc = spar_reading_positive(r, "original_max_position_embeddings", (double)max_position,
					&rope->original_context, err)) < 0)
		return rc;
	if ((rope->type == SPAR_ROPE_LLAMA3 && (rc = read_llama3(rope, r, err)) < 0) ||
	    (rope->type == SPAR_ROPE_YARN && (rc = read_yarn(rope, r, err)) < 0))
		return rc;
	return spar_reading_end(r, none, err);
}

/* Member `key` of r, if it is there, as a description. `path` is how messages name it. */
static int read_member(struct spar_rope *rope, struct spar_reading *r, const char *key, const char *path,
		       size_t max_position, struct spar_err *err)
{
	struct spar_reading inner = {.path = path};
	if (!spar_reading_has(r, key))
		return 0;
	int rc = spar_get_kind(r->obj, r->path, key, JV_KIND_OBJECT, &inner.obj, err);
	if (rc < 0)
		return rc;
	rc = read_rope(rope, &inner, max_position, err);
	jv_free(inner.obj);
	return rc;
}

/* rope_parameters with a description for full layers and one for windowed ones. */
static int read_pair(struct spar_config *c, struct spar_reading *r, struct spar_err *err)
{
	static const char *const none[] = {NULL};
	struct spar_reading pair = {.path = "rope_parameters"};
	int rc = spar_get_kind(r->obj, r->path, "rope_parameters", JV_KIND_OBJECT, &pair.obj, err);
	if (rc < 0)
		return rc;
	if ((rc = read_member(&c->ropes[0], &pair, "full_attention", "rope_parameters.full_attention", c->max_position,
			      err)) == 0 &&
	    (rc = read_member(&c->ropes[1], &pair, "sliding_attention", "rope_parameters.sliding_attention",
			      c->max_position, err)) == 0)
		rc = spar_reading_end(&pair, none, err);
	jv_free(pair.obj);
	return rc;
}

int spar_config_read_ropes(struct spar_config *c, struct spar_reading *r, double theta, double local_theta,
			   struct spar_err *err)
{
	struct spar_rope *rope = &c->ropes[0], *local = &c->ropes[1];
	int rc;
	if ((rc = spar_reading_positive(r, "rope_theta", theta, &rope->theta, err)) < 0 ||
	    (rc = read_member(rope, r, "rope_scaling", "rope_scaling", c->max_position, err)) < 0)
		return rc;
	if (local_theta <= 0) {
		rc = read_member(rope, r, "rope_parameters", "rope_parameters", c->max_position, err);
		*local = *rope;
		return rc;
	}
	if ((rc = spar_reading_positive(r, "rope_local_base_freq", local_theta, &local->theta, err)) < 0)
		return rc;
	return spar_reading_has(r, "rope_parameters") ? read_pair(c, r, err) : 0;
}
