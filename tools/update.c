/* spar update - train a model on records: sft from oracle steps, or GRPO and its kin from rollouts with advantages. */
#include "base/opt.h"
#include "base/progress.h"
#include "record/record.h"
#include "rl/trainer.h"

static const struct spar_usage usage = {
    "update", "--model=DIR --out=DIR [options] [FILE] <records >metrics",
    "Train a model: on sft records, or on rollouts that carry an advantage, with a step at every batch record. "
    "Metrics are written as records, one for each optimizer step. With --policy each step's weights are published "
    "for a sampler that follows, and a run that was killed goes on from the newest saved version."};

static const char *const dtype_names[] = {"float32", "bfloat16", NULL};
static const int dtypes[] = {SPAR_F32, SPAR_BF16};

struct work {
	struct spar_filter f;
	struct spar_progress progress;
	struct spar_trainer_opt opt;
	bool no_lora;
	int dtype; /* index into dtype_names */
};

/* Metrics are few and watched: each is out at once. */
static int put_metric(void *ctx, const char *line, size_t n, struct spar_err *err)
{
	struct work *w = ctx;
	int rc = spar_filter_put_line(&w->f, line, n);
	if (rc == 0)
		rc = spar_writer_flush(w->f.out, &w->f.err);
	if (rc < 0)
		*err = w->f.err;
	return rc;
}

static int take(struct work *w, struct spar_trainer *t, const struct spar_record *rec)
{
	int rc = spar_trainer_take(t, rec, &w->f.err);
	if (rc == -(int)SPAR_INPUT)
		return spar_filter_reject(&w->f, rec);
	if (rc > 0)
		spar_filter_complain(&w->f, rec);
	return rc < 0 ? rc : 0;
}

/* Train on all records, or up to --max-steps. A live stream is then read to its end, so that the tools before this one
 * finish properly. */
static int run(struct work *w, const char *path)
{
	const struct spar_listener on = spar_progress_listener(&w->progress);
	struct spar_trainer *t = NULL;
	struct spar_record *rec;
	int rc = spar_filter_open(&w->f, path);
	if (rc >= 0)
		rc = spar_trainer_new(&t, &w->opt, &on, put_metric, w, &w->f.err);
	while (rc >= 0 && !spar_trainer_done(t) && (rc = spar_filter_next(&w->f, &rec)) > 0)
		rc = take(w, t, rec);
	if (rc >= 0)
		rc = spar_trainer_finish(t, &w->f.err);
	while (rc >= 0 && w->opt.policy && (rc = spar_filter_next(&w->f, &rec)) > 0)
		;
	spar_progress_end(&w->progress);
	spar_trainer_free(t);
	return spar_filter_finish(&w->f, rc);
}

int main(int argc, char **argv)
{
	struct work w = {.f = SPAR_FILTER_INIT("update")};
	struct spar_trainer_opt *o = &w.opt;
	spar_trainer_opt_init(o);
	const struct spar_opt table[] = {
	    SPAR_OPT_GROUP("model"),
	    SPAR_OPT_STR("model", 'm', &o->model, "DIR", "model folder to start from, also a PEFT adapter"),
	    SPAR_OPT_STR("reference", 0, &o->reference, "DIR", "with --beta: the KL is taken to this model (--model)"),
	    SPAR_OPT_STR("out", 'o', &o->out, "DIR", "write the trained model here when all is done"),
	    SPAR_OPT_STR("policy", 'p', &o->policy, "DIR",
			 "publish every version here; goes on where a killed run stopped"),
	    SPAR_OPT_STR("lora", 0, &o->lora, "SPEC",
			 "train an adapter: r=16,alpha=32,dropout=0.05,targets=q_proj+k_proj+..."),
	    SPAR_OPT_FLAG("no-lora", 0, &w.no_lora, "train every weight (default)"),
	    SPAR_OPT_FLAG("merge", 0, &o->merge, "--out is a full checkpoint, the adapter added in"),
	    SPAR_OPT_GROUP("objective"),
	    SPAR_OBJECTIVE_OPTIONS(o->objective),
	    SPAR_OPT_INT("num-iterations", 0, &o->num_iterations, 1, 1000, "N", "optimizer steps on each batch (1)"),
	    SPAR_OPT_FLAG("mask-truncated-completions", 0, &o->mask_truncated,
			  "no loss on episodes cut off by their length"),
	    SPAR_OPT_FLAG("completion-only-loss", 0, &o->completion_only,
			  "sft: train completions, not prompts (on; --no-completion-only-loss)"),
	    SPAR_OPT_GROUP("batches"),
	    SPAR_OPT_DOUBLE("num-train-epochs", 0, &o->num_epochs, 0, 1e6, "X", "sft: passes over the data (3)"),
	    SPAR_OPT_INT("max-steps", 0, &o->max_steps, 0, 1e15, "N", "stop after N optimizer steps; 0: do not (0)"),
	    SPAR_OPT_INT("per-device-train-batch-size", 'b', &o->batch_size, 0, 1e9, "N",
			 "sequences of a micro step; rollouts of a step without batch records (8; all)"),
	    SPAR_OPT_INT("gradient-accumulation-steps", 0, &o->accumulation, 1, 1e6, "N", "micro steps of a step (1)"),
	    SPAR_OPT_INT("micro-batch-tokens", 0, &o->micro_tokens, 1, 1e9, "N",
			 "distinct tokens of a pass: memory, not result (8192)"),
	    SPAR_OPT_INT("max-length", 0, &o->max_length, 0, 1e9, "N",
			 "tokens of a sequence, longer ones are refused; 0: the model's limit (0)"),
	    SPAR_OPT_CHOICE("truncation-mode", 0, &o->truncation, spar_truncation_names, "MODE",
			    "sft: what of a longer one is kept, if it is not refused (refuse)"),
	    SPAR_OPT_FLAG("shuffle-dataset", 0, &o->shuffle,
			  "sft: a new order in each epoch (on; --no-shuffle-dataset)"),
	    SPAR_OPT_GROUP("optimizer"),
	    SPAR_OPT_DOUBLE("learning-rate", 0, &o->learning_rate, 0, 1e3, "X",
			    "highest learning rate (sft 2e-5, else 1e-6; take 10 times that with --lora)"),
	    SPAR_OPT_CHOICE("lr-scheduler-type", 0, &o->schedule, spar_schedule_names, "TYPE",
			    "auto is linear, or constant when the number of steps is not known (auto)"),
	    SPAR_OPT_INT("warmup-steps", 0, &o->warmup_steps, 0, 1e15, "N", "steps of a linear rise from 0 (0)"),
	    SPAR_OPT_DOUBLE("warmup-ratio", 0, &o->warmup_ratio, 0, 1, "X", "the same as a share of all steps (0)"),
	    SPAR_OPT_DOUBLE("adam-beta1", 0, &o->beta1, 0, 1, "X", "AdamW (0.9)"),
	    SPAR_OPT_DOUBLE("adam-beta2", 0, &o->beta2, 0, 1, "X", "AdamW (0.999)"),
	    SPAR_OPT_DOUBLE("adam-epsilon", 0, &o->adam_eps, 0, 1, "X", "AdamW (1e-8)"),
	    SPAR_OPT_DOUBLE("weight-decay", 0, &o->weight_decay, 0, 1e3, "X", "decoupled, on matrices only (0)"),
	    SPAR_OPT_DOUBLE("max-grad-norm", 0, &o->max_grad_norm, 0, 1e9, "X",
			    "clip the gradient's norm; 0: do not (1)"),
	    SPAR_OPT_GROUP("saving"),
	    SPAR_OPT_STR("checkpoint", 0, &o->checkpoint, "DIR", "keep the trainer's state here"),
	    SPAR_OPT_FLAG("resume", 0, &o->resume, "go on from --checkpoint, if it is there"),
	    SPAR_OPT_INT("save-steps", 0, &o->save_steps, 0, 1e15, "N",
			 "save the state every N steps (checkpoint 100; policy 1 if below 32 MiB, else 10)"),
	    SPAR_OPT_FLAG("dry-run", 0, &o->dry_run, "count tokens, train nothing, write nothing"),
	    SPAR_OPT_GROUP("machine"),
	    SPAR_OPT_STR("device", 0, &o->device, "NAME", "cpu, cuda or cuda:N (cpu)"),
	    SPAR_OPT_CHOICE("dtype", 0, &w.dtype, dtype_names, "TYPE",
			    "of matrix products and written weights; the master weights are float32 (float32)"),
	    SPAR_OPT_FLAG("gradient-checkpointing", 0, &o->checkpointing,
			  "keep the layers' inputs only and run each layer twice: memory, not result"),
	    SPAR_OPT_INT("threads", 't', &o->threads, 0, 4096, "N", "0: all cores (0)"),
	    SPAR_OPT_U64("seed", 's', &o->seed, "N", "of the order of data, of new adapters and of dropout (0)"),
	    SPAR_FILTER_OPTIONS(w.f),
	    SPAR_OPT_END};
	int rest = spar_opt_parse(&usage, table, argc, argv);
	if (rest < 0)
		return -1 - rest;
	if (rest + 1 < argc)
		return spar_usage_error(&usage, "one input file at most, got '%s' too", argv[rest + 1]);
	if (w.no_lora)
		o->lora = NULL;
	o->dtype = dtypes[w.dtype];
	spar_progress_begin(&w.progress, usage.tool, "steps", 0, w.f.quiet);
	return run(&w, argv[rest]);
}
