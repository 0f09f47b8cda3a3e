#include "rl/metric.h"
#include "rl/advantage.h"
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

void spar_metric_int(struct spar_str *m, const char *name, uint64_t value)
{
	spar_str_addf(m, ",\"%s\":%" PRIu64, name, value);
}

void spar_metric_double(struct spar_str *m, const char *name, double value)
{
	spar_str_addf(m, ",\"%s\":", name);
	spar_str_add_double(m, value);
}

void spar_metric_counts(struct spar_str *m, const struct spar_step_counts *c)
{
	spar_metric_int(m, "sequences", c->sequences);
	spar_metric_int(m, "loss_tokens", c->loss_tokens);
	spar_metric_int(m, "tokens", c->tokens);
	spar_metric_int(m, "tokens_distinct", c->distinct);
	spar_metric_int(m, "micro_batches", c->micro_batches);
}

/* How often the ratio met its bound: what TRL reports for the loss type. */
static void clipping(struct spar_str *m, const struct spar_objective_sums *q, const struct spar_objective *o)
{
	switch (o->loss) {
	case SPAR_LOSS_CISPO:
		spar_metric_double(m, "cispo_clip_ratio", q->capped / q->units);
		return;
	case SPAR_LOSS_VESPO:
		spar_metric_double(m, "vespo/phi_seq_mean", q->phi / q->sequences);
		return;
	case SPAR_LOSS_SAPO:
		return;
	default:
		spar_metric_double(m, "clip_ratio/low_mean", q->clip_low / q->units);
		spar_metric_double(m, "clip_ratio/low_min", q->clip_low_min);
		spar_metric_double(m, "clip_ratio/high_mean", q->clip_high / q->units);
		spar_metric_double(m, "clip_ratio/high_max", q->clip_high_max);
		spar_metric_double(m, "clip_ratio/region_mean", (q->clip_low + q->clip_high) / q->units);
	}
}

static void sampling(struct spar_str *m, const struct spar_objective_sums *q)
{
	if (!q->diff_tokens)
		return;
	spar_metric_double(m, "sampling/sampling_logp_difference/mean", q->diff_sum / q->diff_tokens);
	spar_metric_double(m, "sampling/sampling_logp_difference/max", q->diff_max);
	if (!q->is_units)
		return;
	spar_metric_double(m, "sampling/importance_sampling_ratio/min", q->is_min);
	spar_metric_double(m, "sampling/importance_sampling_ratio/mean", q->is_sum / q->is_units);
	spar_metric_double(m, "sampling/importance_sampling_ratio/max", q->is_max);
}

void spar_metric_sums(struct spar_str *m, const struct spar_objective_sums *q, const struct spar_objective *o)
{
	spar_metric_double(m, "loss", q->loss);
	if (q->entropy_tokens > 0)
		spar_metric_double(m, "entropy", q->entropy / q->entropy_tokens);
	if (o->entropy_coef > 0) {
		spar_metric_double(m, "policy_loss", q->loss - q->bonus);
		spar_metric_double(m, "entropy_coef", o->entropy_coef);
	}
	if (spar_loss_is_sft(o->loss))
		return;
	if (o->beta > 0)
		spar_metric_double(m, "kl", q->kl / q->tokens);
	spar_metric_double(m, "ppo_kl", q->old_kl / q->tokens);
	clipping(m, q, o);
	if (o->off_policy_mask > 0)
		spar_metric_double(m, "off_policy_mask_ratio", q->off_policy / q->sequences);
	spar_metric_int(m, "bounded_tokens", (uint64_t)q->bounded);
	sampling(m, q);
}

/* A member whose name holds what a user wrote. */
static void add_quoted(struct spar_str *m, const char *name, size_t n, double value)
{
	spar_str_addc(m, ',');
	spar_str_add_json(m, name, n);
	spar_str_addc(m, ':');
	spar_str_add_double(m, value);
}

void spar_metric_step_times(struct spar_str *m, jv batch)
{
	jv_object_foreach(batch, key, v)
	{
		const char *name = jv_string_value(key);
		if (!strncmp(name, "step_time/", 10) && jv_get_kind(v) == JV_KIND_NUMBER)
			add_quoted(m, name, (size_t)jv_string_length_bytes(jv_copy(key)), jv_number_value(v));
		jv_free(key);
		jv_free(v);
	}
}

static int by_group(const void *a, const void *b)
{
	const struct spar_episode *x = *(struct spar_episode *const *)a, *y = *(struct spar_episode *const *)b;
	return strcmp(x->group, y->group);
}

/* Their mean and spread over the batch, and how many of them are in groups that teach nothing by comparison. */
static void rewards(struct spar_str *m, struct spar_episode *const *episodes, size_t n)
{
	const struct spar_episode **sorted = spar_malloc(n * sizeof *sorted);
	double *reward = spar_malloc(n * sizeof *reward), sum = 0;
	size_t n_zero = 0;
	for (size_t i = 0; i < n; i++)
		sorted[i] = episodes[i];
	qsort(sorted, n, sizeof *sorted, by_group);
	for (size_t i = 0; i < n; i++) {
		reward[i] = sorted[i]->reward;
		sum += reward[i];
	}
	for (size_t begin = 0, end; begin < n; begin = end) {
		for (end = begin + 1; end < n && !strcmp(sorted[end]->group, sorted[begin]->group);)
			end++;
		n_zero += spar_reward_std(reward + begin, end - begin, false) == 0 ? end - begin : 0;
	}
	spar_metric_double(m, "reward", sum / (double)n);
	spar_metric_double(m, "reward_std", spar_reward_std(reward, n, false));
	spar_metric_double(m, "frac_reward_zero_std", (double)n_zero / (double)n);
	free(reward);
	free(sorted);
}

static double reward_called(const struct spar_episode *e, const char *name)
{
	for (size_t i = 0; i < e->n_rewards; i++)
		if (!strcmp(e->rewards[i].name, name))
			return e->rewards[i].value;
	return NAN;
}

static bool has_reward(const struct spar_episode *e, const char *name)
{
	for (size_t i = 0; i < e->n_rewards; i++)
		if (!strcmp(e->rewards[i].name, name))
			return true;
	return false;
}

static void add_named(struct spar_str *m, const char *name, const char *what, double value)
{
	struct spar_str key = SPAR_STR_INIT;
	spar_str_addf(&key, "rewards/%s/%s", name, what);
	add_quoted(m, key.data, key.len, value);
	spar_str_release(&key);
}

/* Of those that did not abstain; `values` has room for all. */
static void named_reward(struct spar_str *m, struct spar_episode *const *e, size_t n, const char *name, double *values)
{
	double sum = 0;
	size_t counted = 0;
	for (size_t i = 0; i < n; i++) {
		double v = reward_called(e[i], name);
		if (isnan(v))
			continue;
		values[counted++] = v;
		sum += v;
	}
	add_named(m, name, "mean", counted ? sum / (double)counted : NAN);
	add_named(m, name, "std", counted ? spar_reward_std(values, counted, false) : NAN);
}

/* Each name once, where it first occurs: mostly all are those of the first episode. */
static void named_rewards(struct spar_str *m, struct spar_episode *const *e, size_t n)
{
	double *values = spar_malloc(n * sizeof *values);
	for (size_t i = 0; i < n; i++)
		for (size_t k = 0; k < e[i]->n_rewards; k++) {
			size_t first = 0;
			while (first < i && !has_reward(e[first], e[i]->rewards[k].name))
				first++;
			if (first == i)
				named_reward(m, e, n, e[i]->rewards[k].name, values);
		}
	free(values);
}

/* Trained tokens of episodes. */
struct lengths {
	size_t n, sum, shortest, longest;
};

static void count_length(struct lengths *l, size_t n_tokens)
{
	l->shortest = l->n && l->shortest < n_tokens ? l->shortest : n_tokens;
	l->longest = l->longest > n_tokens ? l->longest : n_tokens;
	l->sum += n_tokens;
	l->n++;
}

static void lengths(struct spar_str *m, struct spar_episode *const *episodes, size_t n)
{
	struct lengths all = {0}, ended = {0};
	for (size_t i = 0; i < n; i++) {
		count_length(&all, episodes[i]->n_loss);
		if (!episodes[i]->truncated)
			count_length(&ended, episodes[i]->n_loss);
	}
	spar_metric_double(m, "completions/mean_length", (double)all.sum / (double)n);
	spar_metric_int(m, "completions/min_length", all.shortest);
	spar_metric_int(m, "completions/max_length", all.longest);
	spar_metric_double(m, "completions/clipped_ratio", (double)(n - ended.n) / (double)n);
	spar_metric_double(m, "completions/mean_terminated_length", ended.n ? (double)ended.sum / (double)ended.n : 0);
	spar_metric_int(m, "completions/min_terminated_length", ended.shortest);
	spar_metric_int(m, "completions/max_terminated_length", ended.longest);
}

void spar_metric_rollouts(struct spar_str *m, struct spar_episode *const *episodes, size_t n)
{
	if (!n)
		return;
	rewards(m, episodes, n);
	named_rewards(m, episodes, n);
	lengths(m, episodes, n);
}
