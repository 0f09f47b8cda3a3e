/* trainer_step.c - one optimizer step and its metric record; see trainer_parts.h */
#include "rl/metric.h"
#include "rl/step.h"
#include "rl/trainer_parts.h"
#include <inttypes.h>
#include <math.h>

/* Learning rate of step number `step`, from 0. */
static double rate(const struct spar_trainer *t, uint64_t step)
{
	double total = (double)t->total, k = (double)step;
	double warmup = t->opt.warmup_steps ? (double)t->opt.warmup_steps : ceil(t->opt.warmup_ratio * total);
	if (k < warmup)
		return t->opt.learning_rate * k / warmup;
	double progress = total > warmup ? fmin((k - warmup) / (total - warmup), 1) : 1;
	switch (t->opt.schedule) {
	case SPAR_SCHEDULE_LINEAR:
		return t->opt.learning_rate * (1 - progress);
	case SPAR_SCHEDULE_COSINE:
		return t->opt.learning_rate * (1 + cos(acos(-1) * progress)) / 2;
	default:
		return t->opt.learning_rate;
	}
}

/* What every metric record begins with; `step` counts from 1. */
static void begin_metric(const struct spar_trainer *t, struct spar_str *m, const struct spar_step_counts *counts)
{
	spar_str_addf(m, "{\"type\":\"metric\",\"step\":%" PRIu64 ",\"loss_type\":\"%s\"", t->at.step,
		      spar_loss_names[t->opt.objective.loss]);
	if (is_sft(t))
		spar_metric_double(m, "epoch", (double)t->at.step / (double)t->per_epoch);
	else
		spar_metric_int(m, "batch", t->at.batches);
	spar_metric_counts(m, counts);
	spar_metric_int(m, "num_tokens", t->at.num_tokens);
}

static int end_metric(struct spar_trainer *t, struct spar_str *m, struct spar_err *err)
{
	spar_str_add(m, t->step_times.data, t->step_times.len);
	spar_str_clear(&t->step_times);
	spar_str_addc(m, '}');
	int rc = t->metric(t->metric_ctx, m->data, m->len, err);
	spar_str_addc(m, '\n');
	spar_str_add(&t->at.metrics, m->data, m->len);
	spar_str_release(m);
	return rc < 0 ? rc : 0;
}

/* A step in which nothing is trained: weights and moments stay as they are. */
static int empty_step(struct spar_trainer *t, struct spar_step *s, struct spar_episode *const *e, size_t n,
		      struct spar_err *err)
{
	struct spar_str m = SPAR_STR_INIT;
	struct spar_step_counts counts = spar_step_counts(s);
	t->at.step++;
	begin_metric(t, &m, &counts);
	if (!is_sft(t))
		spar_metric_rollouts(&m, e, n);
	spar_str_adds(&m, t->opt.dry_run ? ",\"dry_run\":true" : ",\"skipped\":true");
	if (!t->opt.dry_run)
		spar_listener_warn(&t->on, "step %" PRIu64 " skipped: no token to train on in its %zu episodes",
				   t->at.step, n);
	return end_metric(t, &m, err);
}

static int optimizer_step(struct spar_trainer *t, struct spar_step *s, struct spar_episode *const *e, size_t n,
			  struct spar_err *err)
{
	double begin_s = spar_clock_s(), temperature = is_sft(t) ? 1 : e[0]->temperature;
	struct spar_step_counts counts = spar_step_counts(s);
	struct spar_step_sums sums;
	struct spar_step_report report;
	struct spar_adamw how = {.learning_rate = rate(t, t->at.step),
				 .beta1 = t->opt.beta1,
				 .beta2 = t->opt.beta2,
				 .eps = t->opt.adam_eps,
				 .weight_decay = t->opt.weight_decay,
				 .max_grad_norm = t->opt.max_grad_norm,
				 .step = t->at.adam_step + 1};
	spar_graph_reseed(t->graph, t->at.step);
	int rc = spar_step_gradient(s, t->graph, t->reference, &t->opt.objective, temperature, &sums, err);
	if (rc == 0)
		rc = spar_graph_step(t->graph, &how, &report, err);
	if (rc < 0)
		return spar_fail_at(err, "step %" PRIu64, t->at.step + 1);
	if (!report.finite || !isfinite(sums.objective.loss))
		return spar_fail(err, SPAR_FAIL, "step %" PRIu64 ": the gradient is not finite; nothing was changed",
				 t->at.step + 1);
	t->at.step++;
	t->at.adam_step++;

	struct spar_str m = SPAR_STR_INIT;
	begin_metric(t, &m, &counts);
	spar_metric_sums(&m, &sums.objective, &t->opt.objective);
	if (is_sft(t))
		spar_metric_double(&m, "mean_token_accuracy", sums.n_best / (double)counts.loss_tokens);
	if (!is_sft(t))
		spar_metric_rollouts(&m, e, n);
	spar_metric_double(&m, "grad_norm", report.grad_norm);
	spar_metric_double(&m, "learning_rate", how.learning_rate);
	spar_metric_int(&m, "weights_changed", report.n_changed);
	double step_s = spar_clock_s() - begin_s;
	spar_metric_double(&m, "step_time", step_s);
	if (!report.n_changed)
		spar_listener_warn(&t->on, "step %" PRIu64 " changed no weight", t->at.step);
	spar_listener_progress(&t->on, t->at.step, t->total, "loss %.4f, %.0f tok/s", sums.objective.loss,
			       (double)counts.tokens / step_s);
	return end_metric(t, &m, err);
}

/* The first step keeps the log-probabilities that the others divide by. */
int spar_trainer_step(struct spar_trainer *t, struct spar_episode *const *e, size_t n, struct spar_err *err)
{
	struct spar_step_rules rules = {.micro_tokens = (size_t)t->opt.micro_tokens,
					.micro_sequences = is_sft(t) ? (size_t)t->opt.batch_size : 0,
					.mask_truncated = t->opt.mask_truncated,
					.accuracy = is_sft(t),
					.share = true,
					.version = t->policy ? (int64_t)t->at.batches : -1};
	struct spar_step *s = spar_step_new(e, n, &rules);
	int rc = 0;
	for (size_t i = 0; i < n; i++)
		t->at.num_tokens += e[i]->n_tokens;
	if (!spar_step_counts(s).loss_tokens || t->opt.dry_run)
		rc = empty_step(t, s, e, n, err);
	else
		for (int64_t i = 0; rc == 0 && i < t->opt.num_iterations && !spar_trainer_done(t); i++)
			rc = optimizer_step(t, s, e, n, err);
	spar_step_free(s);
	return rc;
}
