#include "rl/trainer.h"
#include "base/file.h"
#include "base/philox.h"
#include "rl/episode.h"
#include "rl/metric.h"
#include "rl/policy.h"
#include "rl/prompt.h"
#include "rl/step.h"
#include "rl/train_state.h"
#include "tensor/tensor.h"
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *const spar_schedule_names[] = {"linear", "cosine", "constant", "auto", NULL};

#define SFT_BATCH 8                    /* sequences of a micro step, TRL's default */
#define SMALL_STATE ((size_t)32 << 20) /* a trainer state that is saved with every version */
#define SAVE_STEPS_LARGE 10
#define SAVE_STEPS_CHECKPOINT 100
#define KEEP_VERSIONS 3 /* a sampler may still be opening the one before the latest */

struct spar_trainer {
	struct spar_trainer_opt opt;
	struct spar_trainer_events on;
	struct spar_model model, reference_model; /* reference_model: only with opt.reference */
	struct spar_tokenizer *tokenizer;
	struct spar_chat *chat;
	struct spar_lora_config lora;
	struct spar_graph *graph, *reference; /* graph NULL: dry run; reference NULL: beta is 0, or LoRA */
	struct spar_policy *policy;
	struct spar_episode_rules rules;
	struct spar_train_state at;
	/* records: of the batch that is being gathered; with SFT all of them */
	struct spar_episode **episodes;
	size_t n, cap;
	struct spar_str step_times; /* what earlier stages took for the batch: members of its first metric */
	uint64_t to_skip;           /* batches of the input that a resumed run has behind it */
	uint64_t total;             /* steps, 0: not known */
	uint64_t per_epoch;         /* SFT: steps */
	uint64_t n_taken, n_other, n_cut, n_other_prompt;
	bool has_batches; /* the input has batch records */
};

void spar_trainer_opt_init(struct spar_trainer_opt *o)
{
	*o = (struct spar_trainer_opt){.num_iterations = 1,
				       .completion_only = true,
				       .accumulation = 1,
				       .micro_tokens = 8192,
				       .num_epochs = 1,
				       .shuffle = true,
				       .learning_rate = -1,
				       .beta1 = 0.9,
				       .beta2 = 0.999,
				       .adam_eps = 1e-8,
				       .max_grad_norm = 1,
				       .schedule = SPAR_SCHEDULE_AUTO,
				       .device = "cpu",
				       .dtype = SPAR_F32};
	spar_objective_init(&o->objective);
}

static bool is_sft(const struct spar_trainer *t)
{
	return spar_loss_is_sft(t->opt.objective.loss);
}

/* A warning to the caller. */
static void note(const struct spar_trainer *t, const char *fmt, ...) SPAR_PRINTF(2, 3);
static void note(const struct spar_trainer *t, const char *fmt, ...)
{
	char text[512];
	va_list ap;
	va_start(ap, fmt);
	vsnprintf(text, sizeof text, fmt, ap);
	va_end(ap);
	t->on.warn(t->on.ctx, text);
}

/* ---- opening ---- */

static int check_options(const struct spar_trainer_opt *o, struct spar_err *err)
{
	bool sft = spar_loss_is_sft(o->objective.loss);
	if (!o->model)
		return spar_fail(err, SPAR_USAGE, "--model is missing");
	if (!o->out && !o->policy && !o->dry_run)
		return spar_fail(err, SPAR_USAGE, "nowhere to write: give --out or --policy");
	if (o->policy && sft)
		return spar_fail(err, SPAR_USAGE, "--policy is for rollouts, not for --loss-type=%s",
				 spar_loss_names[o->objective.loss]);
	if (o->policy && (o->checkpoint || o->resume))
		return spar_fail(err, SPAR_USAGE, "--policy keeps its own trainer state: no --checkpoint, no --resume");
	if (o->resume && !o->checkpoint)
		return spar_fail(err, SPAR_USAGE, "--resume needs --checkpoint, the folder to go on from");
	if (!sft &&
	    (o->schedule == SPAR_SCHEDULE_LINEAR || o->schedule == SPAR_SCHEDULE_COSINE || o->warmup_ratio > 0) &&
	    !o->max_steps)
		return spar_fail(err, SPAR_USAGE, "a schedule over a stream needs its length: give --max-steps");
	return 0;
}

/* What depends on other options. */
static void settle_options(struct spar_trainer *t)
{
	const struct spar_trainer_opt *o = &t->opt;
	if (is_sft(t))
		t->opt.objective.beta = 0;
	if (t->opt.learning_rate < 0)
		t->opt.learning_rate = is_sft(t) ? 2e-5 : 1e-6;
	if (t->opt.schedule == SPAR_SCHEDULE_AUTO)
		t->opt.schedule = is_sft(t) || o->max_steps ? SPAR_SCHEDULE_LINEAR : SPAR_SCHEDULE_CONSTANT;
	if (o->dry_run)
		t->opt.out = t->opt.policy = t->opt.checkpoint = NULL;
	t->total = (uint64_t)o->max_steps;
}

/* Tokenizer and template: needed to read sft records; for rollouts only the tokenizer's size counts. */
static int open_text(struct spar_trainer *t, struct spar_err *err)
{
	struct spar_config *c = &t->model.config;
	char *path = spar_path_join(t->model.base_dir, "tokenizer.json");
	bool needed = is_sft(t) || spar_file_exists(path), fallback = false;
	int rc = needed ? spar_tokenizer_load(&t->tokenizer, t->model.base_dir, err) : 0;
	free(path);
	if (rc == 0 && is_sft(t))
		rc = spar_chat_load(&t->chat, t->model.base_dir, &fallback, err);
	if (rc == 0 && t->tokenizer)
		rc = spar_config_add_eos(c, spar_tokenizer_eos(t->tokenizer), err);
	if (rc < 0)
		return rc;
	if (*t->model.note)
		note(t, "%s: %s", t->opt.model, t->model.note);
	if (is_sft(t) && c->eos < 0)
		return spar_fail(err, SPAR_INPUT, "%s: names no end token to train completions to end with",
				 t->model.base_dir);
	if (fallback)
		note(t, "%s: " SPAR_PROMPT_NO_TEMPLATE, t->model.base_dir);
	size_t limit = t->tokenizer ? spar_tokenizer_size(t->tokenizer) : c->vocab_size;
	t->rules =
	    (struct spar_episode_rules){.max_length = t->opt.max_length ? (size_t)t->opt.max_length : c->max_position,
					.vocab_size = limit < c->vocab_size ? limit : c->vocab_size,
					.tokenizer = t->tokenizer,
					.chat = t->chat,
					.end_id = c->eos,
					.whole_text = !t->opt.completion_only,
					.truncation = (enum spar_truncation)t->opt.truncation};
	return 0;
}

/* A model of its own that the KL is taken to. */
static int open_reference(struct spar_trainer *t, struct spar_graph_opt *how, struct spar_err *err)
{
	struct spar_model *m = &t->reference_model;
	int rc = spar_model_open(m, t->opt.reference, err);
	if (rc < 0)
		return rc;
	how->lora = NULL;
	if (m->config.vocab_size != t->model.config.vocab_size)
		return spar_fail(err, SPAR_INPUT, "%s: vocab_size is %zu, of %s %zu: no KL between them",
				 t->opt.reference, m->config.vocab_size, t->opt.model, t->model.config.vocab_size);
	return spar_graph_new(&t->reference, m, how, err);
}

static int open_graphs(struct spar_trainer *t, struct spar_err *err)
{
	int rc = t->opt.lora ? spar_lora_parse(&t->lora, t->opt.lora, err) : 0;
	if (rc < 0 || t->opt.dry_run)
		return rc;
	if (!is_sft(t))
		t->lora.dropout = 0; /* the policy that is trained must be the one that was sampled */
	struct spar_graph_opt how = {.device = t->opt.device,
				     .dtype = (enum spar_dtype)t->opt.dtype,
				     .threads = (int)t->opt.threads,
				     .checkpointing = t->opt.checkpointing,
				     .lora = t->opt.lora ? &t->lora : NULL,
				     .seed = t->opt.seed,
				     .vocab_limit =
					 t->rules.vocab_size < t->model.config.vocab_size ? t->rules.vocab_size : 0};
	if ((rc = spar_graph_new(&t->graph, &t->model, &how, err)) < 0)
		return rc;
	if (spar_tensor_blas_fights())
		note(t,
		     "OpenBLAS is its pthread build, whose threads fight with OpenMP: steps take several times as long "
		     "(Debian: install libopenblas0-openmp)");
	if (t->opt.lora && spar_graph_lora(t->graph)->all_linear && !t->lora.all_linear)
		note(t, "the model has none of the modules that --lora names: all linear layers are adapted");
	if (t->opt.objective.beta == 0 || (t->opt.lora && !t->opt.reference))
		return 0;
	how.frozen = true;
	return t->opt.reference ? open_reference(t, &how, err) : spar_graph_new(&t->reference, &t->model, &how, err);
}

/* The metric records of the steps that the run before took, given again. */
static int replay(struct spar_trainer *t, struct spar_err *err)
{
	const char *line = t->at.metrics.data, *end = line + t->at.metrics.len;
	int rc = 0;
	while (rc >= 0 && line < end) {
		const char *stop = memchr(line, '\n', (size_t)(end - line));
		if (!stop)
			break;
		rc = t->on.metric(t->on.ctx, line, (size_t)(stop - line), err);
		line = stop + 1;
	}
	return rc < 0 ? rc : 0;
}

static int resume(struct spar_trainer *t, const char *dir, struct spar_err *err)
{
	int rc = spar_train_state_load(&t->at, t->graph, dir, err);
	return rc < 0 ? rc : replay(t, err);
}

/* ---- writing ---- */

static int64_t save_steps(const struct spar_trainer *t)
{
	if (t->opt.save_steps)
		return t->opt.save_steps;
	if (!t->policy)
		return SAVE_STEPS_CHECKPOINT;
	return spar_train_state_bytes(t->graph) < SMALL_STATE ? 1 : SAVE_STEPS_LARGE;
}

static int save_model(const struct spar_trainer *t, const char *dir, bool merge, struct spar_err *err)
{
	return spar_graph_save(t->graph, dir, merge, (enum spar_dtype)t->opt.dtype, t->model.base_dir, err);
}

static int save_out(const struct spar_trainer *t, struct spar_err *err)
{
	char *tmp = spar_dir_begin(t->opt.out, err);
	if (!tmp)
		return -(int)SPAR_FAIL;
	int rc = save_model(t, tmp, t->opt.merge, err);
	if (rc == 0)
		rc = spar_dir_commit(tmp, t->opt.out, err);
	if (rc < 0)
		spar_dir_remove(tmp, NULL);
	free(tmp);
	return rc;
}

static int save_checkpoint(const struct spar_trainer *t, struct spar_err *err)
{
	char *tmp = spar_dir_begin(t->opt.checkpoint, err);
	if (!tmp)
		return -(int)SPAR_FAIL;
	int rc = spar_train_state_save(&t->at, t->graph, tmp, err);
	if (rc == 0)
		rc = spar_dir_commit(tmp, t->opt.checkpoint, err);
	if (rc < 0)
		spar_dir_remove(tmp, NULL);
	free(tmp);
	return rc;
}

/* The policy after `batches` batches, with the trainer's state when it is due. */
static int publish(struct spar_trainer *t, struct spar_err *err)
{
	int64_t version = (int64_t)t->at.batches;
	char *tmp = spar_policy_begin(t->policy, version, err);
	if (!tmp)
		return -(int)SPAR_FAIL;
	int rc = save_model(t, tmp, false, err);
	if (rc == 0 && (version % save_steps(t) == 0 || spar_trainer_done(t))) {
		char *state = spar_path_join(tmp, "trainer");
		rc = spar_dir_make(state, err);
		if (rc == 0)
			rc = spar_train_state_save(&t->at, t->graph, state, err);
		free(state);
	}
	if (rc == 0)
		return spar_policy_publish(t->policy, tmp, version, KEEP_VERSIONS, t->opt.save_steps, err);
	spar_dir_remove(tmp, NULL);
	free(tmp);
	return rc;
}

static int open_policy(struct spar_trainer *t, struct spar_err *err)
{
	int64_t version;
	int rc = spar_policy_claim(&t->policy, t->opt.policy, &version, err);
	if (rc == 0 && version < 0) {
		rc = publish(t, err);
	} else if (rc == 0) {
		struct spar_str dir = SPAR_STR_INIT;
		spar_str_addf(&dir, "%s/v%06" PRId64 "/trainer", t->opt.policy, version);
		rc = resume(t, dir.data, err);
		spar_str_release(&dir);
	}
	return rc == 0 ? spar_policy_ready(t->policy, (int64_t)t->at.batches, err) : rc;
}

int spar_trainer_new(struct spar_trainer **out, const struct spar_trainer_opt *opt,
		     const struct spar_trainer_events *on, struct spar_err *err)
{
	*out = NULL;
	int rc = check_options(opt, err);
	if (rc < 0)
		return rc;
	struct spar_trainer *t = *out = spar_calloc(1, sizeof *t);
	t->opt = *opt;
	t->on = *on;
	spar_str_init(&t->step_times);
	spar_train_state_init(&t->at);
	t->at.seed = opt->seed;
	settle_options(t);
	if ((rc = spar_model_open(&t->model, opt->model, err)) < 0 || (rc = open_text(t, err)) < 0 ||
	    (rc = open_graphs(t, err)) < 0)
		goto fail;
	if (t->opt.policy)
		rc = open_policy(t, err);
	else if (opt->resume && t->opt.checkpoint && spar_dir_exists(opt->checkpoint))
		rc = resume(t, opt->checkpoint, err);
	t->to_skip = t->policy ? 0 : t->at.batches;
	if (rc == 0)
		return 0;
fail:
	spar_trainer_free(t);
	*out = NULL;
	return rc;
}

void spar_trainer_free(struct spar_trainer *t)
{
	if (!t)
		return;
	for (size_t i = 0; i < t->n; i++)
		spar_episode_free(t->episodes[i]);
	free(t->episodes);
	spar_policy_close(t->policy);
	spar_graph_free(t->graph);
	spar_graph_free(t->reference);
	spar_lora_release(&t->lora);
	spar_chat_free(t->chat);
	spar_tokenizer_free(t->tokenizer);
	spar_model_close(&t->model);
	spar_model_close(&t->reference_model);
	spar_train_state_release(&t->at);
	spar_str_release(&t->step_times);
	free(t);
}

/* ---- one optimizer step ---- */

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
	int rc = t->on.metric(t->on.ctx, m->data, m->len, err);
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
		note(t, "step %" PRIu64 " skipped: no token to train on in its %zu episodes", t->at.step, n);
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
		note(t, "step %" PRIu64 " changed no weight", t->at.step);
	char text[96];
	snprintf(text, sizeof text, "loss %.4f, %.0f tok/s", sums.objective.loss, (double)counts.tokens / step_s);
	t->on.progress(t->on.ctx, t->at.step, t->total, text);
	return end_metric(t, &m, err);
}

/* num_iterations optimizer steps on these episodes; the first keeps the log-probabilities that the others divide by. */
static int train(struct spar_trainer *t, struct spar_episode *const *e, size_t n, struct spar_err *err)
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
		uint64_t batch = t->at.batches;
		rc = train(t, t->episodes, t->n, err);
		t->at.batches = batch + 1;
		if (rc == 0 && t->policy)
			rc = publish(t, err);
		else if (rc == 0 && t->opt.checkpoint && t->at.batches % (uint64_t)save_steps(t) == 0)
			rc = save_checkpoint(t, err);
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
		note(t, "%s: .prompt is not what this model's template makes of .messages: the messages are trained",
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
	if (!t->opt.batch_size)
		t->opt.batch_size = SFT_BATCH;
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
		rc = train(t, e, n, err);
		t->at.batches++;
		if (rc == 0 && t->opt.checkpoint && t->at.step % (uint64_t)save_steps(t) == 0)
			rc = save_checkpoint(t, err);
	}
	free(e);
	free(order);
	return rc;
}

int spar_trainer_finish(struct spar_trainer *t, struct spar_err *err)
{
	int rc = 0;
	if (t->n_other_prompt > 1)
		note(t, "%" PRIu64 " records have a .prompt that their .messages are not rendered to",
		     t->n_other_prompt);
	if (t->n_cut)
		note(t, "%" PRIu64 " of %" PRIu64 " sequences were cut to the length limit", t->n_cut, t->n_taken);
	if (t->n_other)
		note(t, "%" PRIu64 " records of other types took no part", t->n_other);
	if (!t->n_taken && !t->at.step)
		return spar_fail(err, SPAR_INPUT, "no %s records: nothing to train on", is_sft(t) ? "sft" : "rollout");
	if (is_sft(t))
		rc = train_epochs(t, err);
	else if (t->n && !spar_trainer_done(t))
		rc = end_batch(t, err);
	if (rc == 0 && t->opt.checkpoint)
		rc = save_checkpoint(t, err);
	if (rc == 0 && t->policy)
		rc = spar_policy_end(t->policy, err);
	if (rc == 0 && t->opt.out)
		rc = save_out(t, err);
	return rc;
}
