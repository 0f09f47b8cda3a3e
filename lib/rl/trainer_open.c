/* trainer_open.c - a trainer from its options: models, tokenizer, the policy or checkpoint to go on from; see trainer.h */
#include "base/file.h"
#include "rl/prompt.h"
#include "rl/trainer_parts.h"
#include "tensor/tensor.h"
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define SFT_BATCH 8 /* sequences of a micro step, TRL's default */

const char *const spar_schedule_names[] = {"linear", "cosine", "constant", "auto", NULL};

void spar_trainer_opt_init(struct spar_trainer_opt *o)
{
	*o = (struct spar_trainer_opt){.num_iterations = 1,
				       .completion_only = true,
				       .accumulation = 1,
				       .micro_tokens = 8192,
				       .num_epochs = 3,
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
	struct spar_trainer_opt *o = &t->opt;
	bool sft = is_sft(t);
	if (sft)
		o->objective.beta = 0;
	if (sft && !o->batch_size)
		o->batch_size = SFT_BATCH;
	if (o->learning_rate < 0)
		o->learning_rate = sft ? 2e-5 : 1e-6;
	if (o->schedule == SPAR_SCHEDULE_AUTO)
		o->schedule = sft || o->max_steps ? SPAR_SCHEDULE_LINEAR : SPAR_SCHEDULE_CONSTANT;
	if (o->dry_run)
		o->out = o->policy = o->checkpoint = NULL;
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
		spar_listener_warn(&t->on, "%s: %s", t->opt.model, t->model.note);
	if (is_sft(t) && c->eos < 0)
		return spar_fail(err, SPAR_INPUT, "%s: names no end token to train completions to end with",
				 t->model.base_dir);
	if (fallback)
		spar_listener_warn(&t->on, "%s: " SPAR_PROMPT_NO_TEMPLATE, t->model.base_dir);
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
		spar_listener_warn(
		    &t->on,
		    "OpenBLAS is its pthread build, whose threads fight with OpenMP: steps take several times as long "
		    "(Debian: install libopenblas0-openmp)");
	if (t->opt.lora && spar_graph_lora(t->graph)->all_linear && !t->lora.all_linear)
		spar_listener_warn(
		    &t->on, "the model has none of the modules that --lora names: all linear layers are adapted");
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
		rc = t->metric(t->metric_ctx, line, (size_t)(stop - line), err);
		line = stop + 1;
	}
	return rc < 0 ? rc : 0;
}

static int resume(struct spar_trainer *t, const char *dir, struct spar_err *err)
{
	int rc = spar_train_state_load(&t->at, t->graph, dir, err);
	return rc < 0 ? rc : replay(t, err);
}

static int open_policy(struct spar_trainer *t, struct spar_err *err)
{
	int64_t version;
	int rc = spar_policy_claim(&t->policy, t->opt.policy, &version, err);
	if (rc == 0 && version < 0) {
		rc = spar_trainer_publish(t, err);
	} else if (rc == 0) {
		struct spar_str dir = SPAR_STR_INIT;
		spar_str_addf(&dir, "%s/v%06" PRId64 "/trainer", t->opt.policy, version);
		rc = resume(t, dir.data, err);
		spar_str_release(&dir);
	}
	return rc == 0 ? spar_policy_ready(t->policy, (int64_t)t->at.batches, err) : rc;
}

int spar_trainer_new(struct spar_trainer **out, const struct spar_trainer_opt *opt, const struct spar_listener *on,
		     spar_metric_fn metric, void *ctx, struct spar_err *err)
{
	*out = NULL;
	int rc = check_options(opt, err);
	if (rc < 0)
		return rc;
	struct spar_trainer *t = *out = spar_calloc(1, sizeof *t);
	t->opt = *opt;
	t->on = *on;
	t->metric = metric;
	t->metric_ctx = ctx;
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
