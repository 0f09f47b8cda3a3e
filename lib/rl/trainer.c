/* trainer.c - records in, optimizer steps in their order: rollouts batch by batch, sft records epoch by epoch; see trainer.h */
#include "base/philox.h"
#include "rl/metric.h"
#include "rl/trainer_parts.h"
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- rollouts: a step at the end of each batch ---- */

static void drop_episodes(struct spar_trainer *t)
{
	for (size_t i = 0; i < t->n; i++)
		spar_episode_free(t->episodes[i]);
	t->n = 0;
}

static int end_batch(struct spar_trainer *t, struct spar_err *err)
{
	int rc = 0;
	if (t->to_skip) {
		t->to_skip--;
	} else {
		rc = spar_trainer_step(t, t->episodes, t->n, err);
		t->at.batches++;
		if (rc == 0)
			rc = spar_trainer_save(t, t->at.batches, err);
	}
	drop_episodes(t);
	return rc;
}

/* A batch record of a live stream must be the one that the policy waits for. */
static int check_batch(const struct spar_trainer *t, jv record, struct spar_err *err)
{
	uint64_t step;
	int rc = t->policy ? spar_get_u64(record, "", "step", &step, err) : 0;
	if (rc == 0 && t->policy && step != t->at.batches)
		return spar_fail(err, SPAR_INPUT, ".step: batch %" PRIu64 ", but the policy has seen %" PRIu64, step,
				 t->at.batches);
	return rc;
}

static void keep(struct spar_trainer *t, struct spar_episode *e)
{
	if (t->n == t->cap) {
		t->cap = t->cap ? 2 * t->cap : 64;
		t->episodes = spar_realloc(t->episodes, t->cap * sizeof *t->episodes);
	}
	t->episodes[t->n++] = e;
	t->n_taken++;
}

/* Whether a step is full that no batch record will end. The record may be the very next one. */
static bool is_full(const struct spar_trainer *t)
{
	return !t->has_batches && t->opt.batch_size && t->n >= (size_t)(t->opt.batch_size * t->opt.accumulation);
}

static int take_rollout(struct spar_trainer *t, jv record, struct spar_err *err)
{
	struct spar_episode *e;
	int rc = is_full(t) ? end_batch(t, err) : 0;
	if (rc == 0)
		rc = spar_episode_from_rollout(&e, &t->rules, record, err);
	if (rc <= 0)
		return rc == 0 ? 1 : rc;
	if (t->n && e->temperature != t->episodes[0]->temperature) {
		rc = spar_fail(err, SPAR_INPUT, ".sampling.temperature: %g, but %s of this step has %g", e->temperature,
			       t->episodes[0]->name, t->episodes[0]->temperature);
		spar_episode_free(e);
		return rc;
	}
	keep(t, e);
	return 0;
}

static int take_sft(struct spar_trainer *t, const struct spar_record *rec, struct spar_err *err)
{
	struct spar_episode *e;
	int rc = spar_episode_from_sft(&e, &t->rules, rec->value, err);
	if (rc < 0)
		return rc;
	struct spar_str name = SPAR_STR_INIT;
	spar_str_addf(&name, "line %zu", rec->line);
	e->name = spar_str_detach(&name);
	t->n_cut += e->cut;
	if (e->other_prompt && !t->n_other_prompt++)
		spar_listener_warn(
		    &t->on,
		    "%s: .prompt is not what this model's template makes of .messages: the messages are trained",
		    e->name);
	keep(t, e);
	return 0;
}

int spar_trainer_take(struct spar_trainer *t, const struct spar_record *rec, struct spar_err *err)
{
	if (!*rec->type || spar_record_is(rec, is_sft(t) ? "sft" : "rollout"))
		return is_sft(t) ? take_sft(t, rec, err) : take_rollout(t, rec->value, err);
	if (!is_sft(t) && spar_record_is(rec, "batch")) {
		t->has_batches = true;
		int rc = check_batch(t, rec->value, err);
		spar_str_clear(&t->step_times);
		spar_metric_step_times(&t->step_times, rec->value);
		return rc < 0 ? rc : end_batch(t, err);
	}
	t->n_other++;
	return 0;
}

bool spar_trainer_done(const struct spar_trainer *t)
{
	return t->opt.max_steps && t->at.step >= (uint64_t)t->opt.max_steps && !is_sft(t);
}

/* ---- SFT: all of the data set, epoch by epoch ---- */

/* FNV-1a over all ids: tells whether a resumed run is given the same data. */
static void hash_data(const struct spar_trainer *t, char out[17])
{
	uint64_t h = 14695981039346656037u;
	for (size_t i = 0; i < t->n; i++)
		for (size_t k = 0; k < t->episodes[i]->paths[0].n; k++)
			h = (h ^ (uint32_t)t->episodes[i]->paths[0].ids[k]) * 1099511628211u;
	snprintf(out, 17, "%016" PRIx64, h);
}

/* The order of an epoch. */
static void order_epoch(const struct spar_trainer *t, uint64_t epoch, size_t *order)
{
	struct spar_rng rng;
	spar_rng_init(&rng, t->opt.seed, "epoch", 5);
	if (t->opt.shuffle) {
		spar_rng_permutation(&rng, (uint32_t)epoch, order, t->n);
		return;
	}
	for (size_t i = 0; i < t->n; i++)
		order[i] = i;
}

static int train_epochs(struct spar_trainer *t, struct spar_err *err)
{
	size_t batch = (size_t)(t->opt.batch_size * t->opt.accumulation);
	t->per_epoch = (t->n + batch - 1) / batch;
	if (!t->total)
		t->total = (uint64_t)ceil(t->opt.num_epochs * (double)t->per_epoch);
	char data[17];
	hash_data(t, data);
	if (*t->at.data && strcmp(t->at.data, data) != 0)
		return spar_fail(err, SPAR_INPUT, "%s: made with other data", t->opt.checkpoint);
	memcpy(t->at.data, data, sizeof data);

	size_t *order = spar_malloc(t->n * sizeof *order);
	struct spar_episode **e = spar_malloc(batch * sizeof *e);
	uint64_t ordered = UINT64_MAX;
	int rc = 0;
	while (rc == 0 && t->at.step < t->total) {
		uint64_t epoch = t->at.step / t->per_epoch;
		size_t begin = (size_t)(t->at.step % t->per_epoch) * batch, n = 0;
		if (epoch != ordered)
			order_epoch(t, ordered = epoch, order);
		for (; n < batch && begin + n < t->n; n++)
			e[n] = t->episodes[order[begin + n]];
		rc = spar_trainer_step(t, e, n, err);
		t->at.batches++;
		if (rc == 0)
			rc = spar_trainer_save(t, t->at.step, err);
	}
	free(e);
	free(order);
	return rc;
}

int spar_trainer_finish(struct spar_trainer *t, struct spar_err *err)
{
	int rc = 0;
	if (t->n_other_prompt > 1)
		spar_listener_warn(&t->on,
				   "%" PRIu64 " records have a .prompt that their .messages are not rendered to",
				   t->n_other_prompt);
	if (t->n_cut)
		spar_listener_warn(&t->on, "%" PRIu64 " of %" PRIu64 " sequences were cut to the length limit",
				   t->n_cut, t->n_taken);
	if (t->n_other)
		spar_listener_warn(&t->on, "%" PRIu64 " records of other types took no part", t->n_other);
	if (!t->n_taken && !t->at.step)
		return spar_fail(err, SPAR_INPUT, "no %s records: nothing to train on", is_sft(t) ? "sft" : "rollout");
	if (is_sft(t))
		rc = train_epochs(t, err);
	else if (t->n && !spar_trainer_done(t))
		rc = end_batch(t, err);
	return rc < 0 ? rc : spar_trainer_save_end(t, err);
}
