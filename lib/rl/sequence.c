#include "rl/sequence.h"
#include "record/record.h"
#include "record/rollout.h"
#include <stdlib.h>
#include <string.h>

/* No log-probability or advantage comes near it; below, no loss overflows. */
#define NUMBER_MAX 1e9

void spar_sequence_release(struct spar_sequence_record *r)
{
	const double *arrays[] = {r->seq.logp, r->seq.old, r->seq.sampled, r->seq.kept, r->seq.ref, r->seq.entropy};
	for (size_t i = 0; i < sizeof arrays / sizeof *arrays; i++)
		free((void *)arrays[i]);
	free(r->at);
	*r = (struct spar_sequence_record){0};
}

/* The places of the loss tokens. */
static int read_mask(struct spar_sequence_record *r, jv object, struct spar_err *err)
{
	double *mask = NULL;
	size_t n = r->n;
	int rc = spar_has(object, "mask") ? spar_get_doubles(object, "", "mask", &mask, &n, err) : 0;
	if (rc == 0 && n != r->n)
		rc = spar_fail(err, SPAR_INPUT, ".mask: %zu numbers, but .logprobs has %zu", n, r->n);
	r->at = spar_malloc((r->n + 1) * sizeof *r->at);
	for (size_t i = 0; rc == 0 && i < n; i++) {
		if (mask && mask[i] != 0 && mask[i] != 1)
			rc = spar_fail(err, SPAR_INPUT, ".mask[%zu]: expected 0 or 1, got %.9g", i, mask[i]);
		else if (!mask || mask[i] == 1)
			r->at[r->seq.n++] = i;
	}
	free(mask);
	return rc;
}

/* An array of the record, the loss tokens' numbers only. NULL if it is not there. */
static int read_array(const struct spar_sequence_record *r, jv object, const char *key, bool needed, const double **out,
		      struct spar_err *err)
{
	double *all;
	size_t n;
	if (!needed && !spar_has(object, key))
		return 0;
	int rc = spar_get_doubles(object, "", key, &all, &n, err);
	if (rc < 0)
		return rc;
	if (n != r->n) {
		free(all);
		return spar_fail(err, SPAR_INPUT, ".%s: %zu numbers, but .logprobs has %zu", key, n, r->n);
	}
	*out = all;
	for (size_t i = 0; i < r->seq.n; i++) {
		all[i] = all[r->at[i]];
		if (fabs(all[i]) > NUMBER_MAX)
			return spar_fail(err, SPAR_INPUT, ".%s[%zu]: %.9g is out of range", key, r->at[i], all[i]);
	}
	return 0;
}

static int check_kept(const struct spar_sequence_record *r, struct spar_err *err)
{
	for (size_t i = 0; r->seq.kept && i < r->seq.n; i++)
		if (!(r->seq.kept[i] > 0 && r->seq.kept[i] <= 1))
			return spar_fail(err, SPAR_INPUT, ".kept_mass[%zu]: expected a number in (0, 1], got %.9g",
					 r->at[i], r->seq.kept[i]);
	return 0;
}

static int read_finish(struct spar_sequence_record *r, jv object, struct spar_err *err)
{
	const char *finish;
	size_t n;
	if (!spar_has(object, "finish_reason"))
		return 0;
	int rc = spar_get_str(object, "", "finish_reason", &finish, &n, err);
	r->truncated = rc == 0 && !strcmp(finish, spar_finish_name(SPAR_FINISH_LENGTH));
	return rc;
}

static int read_all(struct spar_sequence_record *r, const struct spar_objective *o, jv object, struct spar_err *err)
{
	struct spar_sequence *s = &r->seq;
	bool advantage = !spar_loss_is_sft(o->loss), entropies = o->entropy_coef > 0 || spar_objective_masks_entropy(o);
	double *logprobs;
	int rc = spar_get_doubles(object, "", "logprobs", &logprobs, &r->n, err);
	if (rc < 0)
		return rc;
	free(logprobs); /* for their number */
	if ((rc = read_mask(r, object, err)) < 0 || (rc = read_array(r, object, "logprobs", true, &s->logp, err)) < 0 ||
	    (rc = read_array(r, object, "old_logprobs", false, &s->old, err)) < 0 ||
	    (rc = read_array(r, object, "sampling_logprobs", false, &s->sampled, err)) < 0 ||
	    (rc = read_array(r, object, "kept_mass", false, &s->kept, err)) < 0 || (rc = check_kept(r, err)) < 0 ||
	    (rc = read_array(r, object, "entropies", entropies, &s->entropy, err)) < 0)
		return rc;
	if (o->beta > 0 && (rc = read_array(r, object, "ref_logprobs", true, &s->ref, err)) < 0)
		return rc;
	if (advantage && (rc = spar_get_double(object, "", "advantage", &s->advantage, err)) < 0)
		return rc;
	if (fabs(s->advantage) > NUMBER_MAX)
		return spar_fail(err, SPAR_INPUT, ".advantage: %.9g is out of range", s->advantage);
	return read_finish(r, object, err);
}

int spar_sequence_read(struct spar_sequence_record *r, const struct spar_objective *o, jv object, struct spar_err *err)
{
	*r = (struct spar_sequence_record){0};
	int rc = read_all(r, o, object, err);
	if (rc < 0)
		spar_sequence_release(r);
	return rc;
}

void spar_sequence_spread(const struct spar_sequence_record *r, const double *values, struct spar_str *out)
{
	spar_str_addc(out, '[');
	for (size_t i = 0, k = 0; i < r->n; i++) {
		bool counts = k < r->seq.n && r->at[k] == i;
		if (i)
			spar_str_addc(out, ',');
		spar_str_add_double(out, counts ? values[k++] : 0);
	}
	spar_str_addc(out, ']');
}
