/* sampler.c - see sampler.h */
#include "rl/sampler.h"
#include "base/process.h"
#include "record/record.h"
#include "rl/sampler_parts.h"
#include <inttypes.h>
#include <math.h>
#include <omp.h>
#include <stdlib.h>
#include <string.h>

#define HELD_PER_SLOT 4
#define PARALLEL_MIN ((size_t)1 << 18) /* logits of a step that are worth waking other threads for */

const char *const spar_sampler_dtypes[] = {"float32", "bfloat16", NULL};
static const enum spar_dtype dtypes[] = {SPAR_F32, SPAR_BF16};

/* ---- opening ---- */

static int add_eos(struct spar_sampler *s, struct spar_err *err)
{
	return spar_config_add_eos(&s->model.config, spar_tokenizer_eos(s->prompter.tokenizer), err);
}

/* Tokenizer and template of a folder with a config; the limits that follow from both. */
static int load_text(struct spar_sampler *s, const char *dir, struct spar_err *err)
{
	size_t own = s->model.config.max_position, asked = (size_t)s->opt.max_length;
	int rc = spar_prompter_load(&s->prompter, dir, err);
	if (rc < 0 || (rc = add_eos(s, err)) < 0)
		return rc;
	s->prompter.limit = asked && asked < own ? asked : own;
	if (s->prompter.no_template)
		spar_listener_warn(&s->opt.on, "%s: " SPAR_PROMPT_NO_TEMPLATE, dir);
	return 0;
}

static int check_forced(const struct spar_sampler *s, struct spar_err *err)
{
	size_t size = spar_tokenizer_size(s->prompter.tokenizer), vocab = s->model.config.vocab_size;
	for (size_t i = 0; i < s->opt.n_forced; i++)
		if ((size_t)s->opt.forced[i] >= (size < vocab ? size : vocab))
			return spar_fail(err, SPAR_USAGE, "the model has no token %" PRId32, s->opt.forced[i]);
	return 0;
}

static int make_engine(struct spar_sampler *s, struct spar_err *err)
{
	struct spar_engine_opt opt = {
	    .dtype = dtypes[s->opt.dtype],
	    .threads = (int)s->opt.threads,
	    .kv_cache_size = (size_t)s->opt.kv_cache_mib << 20,
	    .new_device = s->opt.new_device,
	    .device = s->opt.device,
	    .vocab_limit = spar_tokenizer_size(s->prompter.tokenizer),
	};
	size_t vocab = s->model.config.vocab_size;
	if (opt.vocab_limit >= vocab)
		opt.vocab_limit = 0;
	s->logits = malloc(s->n_slots * vocab * sizeof *s->logits);
	s->scratch = malloc((size_t)s->threads * 2 * vocab * sizeof *s->scratch);
	if (!s->logits || !s->scratch)
		return spar_fail(err, SPAR_FAIL, "no memory for the logits of %zu sequences", s->n_slots);
	int rc = spar_engine_new(&s->engine, &s->model, &opt, err);
	spar_model_leave(&s->model);
	return rc;
}

static int reload(struct spar_sampler *s, struct spar_err *err)
{
	int rc = spar_engine_reload(s->engine, &s->model, err);
	spar_model_leave(&s->model);
	return rc;
}

int spar_sampler_load(struct spar_sampler *s, const char *dir, struct spar_err *err)
{
	int rc = s->has_model ? spar_model_next(&s->model, dir, err) : spar_model_open(&s->model, dir, err);
	if (rc < 0)
		return rc;
	s->has_model = true;
	if (s->engine)
		return (rc = add_eos(s, err)) < 0 ? rc : reload(s, err);
	if (*s->model.note)
		spar_listener_warn(&s->opt.on, "%s: %s", dir, s->model.note);
	if ((rc = load_text(s, s->model.base_dir, err)) < 0 || (rc = check_forced(s, err)) < 0)
		return rc;
	return make_engine(s, err);
}

/* The config and the tokenizer are enough to encode. */
static int load_for_encoding(struct spar_sampler *s, const char *dir, struct spar_err *err)
{
	char *base;
	int rc = spar_model_base_dir(&base, dir, err);
	if (rc == 0 && (rc = spar_config_load(&s->model.config, base, err)) == 0)
		rc = load_text(s, base, err);
	free(base);
	return rc;
}

int spar_sampler_settle_device(const struct spar_sampler_opt *o, const char *tool, char **argv, struct spar_err *err)
{
	char twin[64];
	if (o->new_device || strcmp(o->device, "cpu") == 0)
		return 0;
	snprintf(twin, sizeof twin, "../spar-torch/%s", tool);
	return spar_process_become(twin, argv, err);
}

int spar_sampler_new(struct spar_sampler **out, const struct spar_sampler_opt *opt, struct spar_err *err)
{
	struct spar_sampler *s = *out = spar_calloc(1, sizeof *s);
	int rc = 0;
	s->opt = *opt;
	s->n_slots = (size_t)opt->concurrency;
	s->slots = spar_calloc(s->n_slots, sizeof *s->slots);
	s->waiting = spar_calloc(s->n_slots, sizeof *s->waiting);
	s->rows = spar_calloc(s->n_slots, sizeof *s->rows);
	s->seqs = spar_calloc(s->n_slots, sizeof *s->seqs);
	s->threads = opt->threads ? (int)opt->threads : omp_get_max_threads();
	s->cut = opt->sampling.temperature > 0 &&
		 (opt->sampling.top_p < 1 || opt->sampling.top_k > 0 || opt->sampling.min_p > 0);
	if (opt->model)
		rc = opt->encode_only ? load_for_encoding(s, opt->model, err) : spar_sampler_load(s, opt->model, err);
	if (rc < 0) {
		spar_sampler_free(s);
		*out = NULL;
	}
	return rc;
}

void spar_sampler_free(struct spar_sampler *s)
{
	if (!s)
		return;
	for (size_t i = 0; i < s->n_slots; i++)
		if (s->slots[i].seq)
			spar_seq_free(s->slots[i].seq);
	while (s->first) {
		struct spar_play *p = s->first;
		s->first = p->next;
		spar_play_free(p);
	}
	if (s->env)
		spar_env_close(s->env);
	spar_engine_free(s->engine);
	spar_prompter_release(&s->prompter);
	if (s->has_model)
		spar_model_close(&s->model);
	free(s->slots);
	free(s->waiting);
	free(s->rows);
	free(s->seqs);
	free(s->logits);
	free(s->scratch);
	free(s);
}

const char *spar_sampler_hash(const struct spar_sampler *s)
{
	return s->has_model ? s->model.hash : "";
}

const char *spar_sampler_env_name(const struct spar_sampler *s)
{
	const char *name = "env";
	size_t len;
	if (s->env)
		spar_get_str(spar_env_about(s->env), "", "env", &name, &len, NULL);
	return name;
}

uint64_t spar_sampler_tokens(const struct spar_sampler *s)
{
	return s->n_tokens;
}

/* ---- plays ---- */

size_t spar_sampler_held(const struct spar_sampler *s)
{
	return s->n_held;
}

bool spar_sampler_full(const struct spar_sampler *s)
{
	return s->n_live + s->n_queued >= s->n_slots || s->n_held >= HELD_PER_SLOT * s->n_slots;
}

static bool is_done(const struct spar_sampler *s, const struct spar_play *p)
{
	if (p == s->next)
		return false;
	for (size_t i = 0; i < s->n_slots; i++)
		if (s->slots[i].play == p)
			return false;
	return true;
}

struct spar_play *spar_sampler_take(struct spar_sampler *s)
{
	struct spar_play *p = s->first;
	if (!p || !is_done(s, p))
		return NULL;
	s->first = p->next;
	if (!s->first)
		s->last = NULL;
	s->n_held--;
	return p;
}

void spar_slot_leave(struct spar_sampler *s, struct spar_slot *slot)
{
	if (slot->seq)
		spar_seq_free(slot->seq);
	*slot = (struct spar_slot){.state = SPAR_SLOT_FREE};
	s->n_live--;
}

/* The episode cannot go on; `err` says why and is used up. */
void spar_slot_fail(struct spar_sampler *s, struct spar_slot *slot, struct spar_err *err)
{
	struct spar_play *p = slot->play;
	if (p->n_turns && !jv_is_valid(p->turns[p->n_turns - 1].reply))
		p->turns[p->n_turns - 1].tokens.finish = SPAR_FINISH_ERROR;
	p->error = spar_strdup(err->msg);
	p->code = err->code;
	*err = (struct spar_err){0};
	spar_slot_leave(s, slot);
}

/* ---- prompts ---- */

static int encode_turn(const struct spar_sampler *s, const struct spar_play *p, jv prompt, struct spar_ids *ids,
		       struct spar_err *err)
{
	if (!p->n_turns)
		return spar_prompt_encode(&s->prompter, prompt, NULL, ids, err);
	const struct spar_play_turn *last = &p->turns[p->n_turns - 1];
	jv shown = p->n_turns > 1 ? last[-1].reply : p->first;
	jv before = jv_object_get(jv_copy(shown), jv_string("messages"));
	int rc = spar_prompt_extend(&s->prompter, before, &last->tokens, &last->text, prompt, ids, err);
	jv_free(before);
	return rc < 0 ? spar_fail_at(err, "turn %zu", p->n_turns) : 0;
}

void spar_slot_begin_turn(struct spar_sampler *s, struct spar_slot *slot, jv prompt)
{
	struct spar_err err = {0};
	struct spar_ids ids = {0};
	if (encode_turn(s, slot->play, prompt, &ids, &err) < 0) {
		free(ids.data);
		spar_slot_fail(s, slot, &err);
		return;
	}
	size_t room = s->prompter.limit - ids.n, most = (size_t)s->opt.max_completion;
	slot->most = most < room ? most : room;
	struct spar_turn *t = &spar_play_turn(slot->play, slot->most, s->cut)->tokens;
	t->prompt_ids = ids.data;
	t->n_prompt = ids.n;
	slot->seq = spar_seq_new(s->engine);
	spar_seq_append(slot->seq, ids.data, ids.n);
	slot->state = SPAR_SLOT_SAMPLE;
}

/* ---- sampling ---- */

/* log-softmax(logits / temperature)[id], as spar_sample gives it; temperature 1 when greedy. The largest logit's own term of
 * the sum is 1. */
static float logprob_of(const float *logits, size_t n, double temperature, int32_t id)
{
	double others = 0, t = temperature > 0 ? temperature : 1;
	size_t best = 0;
	for (size_t i = 1; i < n; i++)
		best = logits[i] > logits[best] ? i : best;
	for (size_t i = 0; i < n; i++)
		others += i == best ? 0 : exp((logits[i] - logits[best]) / t);
	return (float)((logits[id] - logits[best]) / t - log1p(others));
}

static void draw(const struct spar_sampler *s, struct spar_drawn *row, float *scratch)
{
	const struct spar_slot *slot = row->slot;
	const struct spar_play *p = slot->play;
	size_t vocab = s->model.config.vocab_size, at = p->turns[p->n_turns - 1].tokens.n_completion;
	double u = spar_rng_uniform(&slot->rng, (uint32_t)p->sample, (uint32_t)(p->n_turns - 1), (uint32_t)at, 0);
	row->failed = spar_sample(row->logits, vocab, &s->opt.sampling, u, scratch, &row->got);
	if (at < s->opt.n_forced) {
		row->got.id = s->opt.forced[at];
		row->got.logprob = logprob_of(row->logits, vocab, s->opt.sampling.temperature, row->got.id);
	}
}

/* A row whose episode has just been put back to its start has lost its sequence. */
static bool is_row_alive(const struct spar_sampler *s, size_t i)
{
	return s->rows[i].slot->seq == s->seqs[i];
}

static void draw_rows(struct spar_sampler *s, size_t n)
{
	size_t vocab = s->model.config.vocab_size;
	bool worth_it = n * vocab >= PARALLEL_MIN;
#pragma omp parallel for num_threads(s->threads) schedule(dynamic) if (worth_it)
	for (size_t i = 0; i < n; i++)
		if (is_row_alive(s, i))
			draw(s, &s->rows[i], s->scratch + (size_t)omp_get_thread_num() * 2 * vocab);
}

/* The end token is a part of the ids, not of the text. */
static int end_turn(struct spar_sampler *s, struct spar_slot *slot, enum spar_finish finish, struct spar_err *err)
{
	struct spar_play *p = slot->play;
	struct spar_play_turn *t = &p->turns[p->n_turns - 1];
	t->tokens.finish = finish;
	spar_tokenizer_decode(s->prompter.tokenizer, t->tokens.completion_ids,
			      t->tokens.n_completion - (finish == SPAR_FINISH_STOP), SPAR_DECODE_SKIP_SPECIAL,
			      &t->text);
	spar_seq_free(slot->seq);
	slot->seq = NULL;
	if (jv_is_valid(p->task->reset))
		return spar_slot_send_step(s, slot, err);
	spar_slot_leave(s, slot);
	return 0;
}

static int accept(struct spar_sampler *s, struct spar_drawn *row, struct spar_err *err)
{
	struct spar_slot *slot = row->slot;
	struct spar_play *p = slot->play;
	struct spar_turn *t = &p->turns[p->n_turns - 1].tokens;
	if (row->failed < 0 || !isfinite(row->got.logprob))
		return spar_fail(err, SPAR_FAIL, "task %s sample %" PRId64 ": logits are not finite", p->task->id,
				 p->sample);
	t->completion_ids[t->n_completion] = row->got.id;
	t->logprobs[t->n_completion] = fminf(row->got.logprob, 0);
	if (t->kept_mass)
		t->kept_mass[t->n_completion] = row->got.kept_mass;
	t->n_completion++;
	s->n_tokens++;
	if (spar_config_is_end(&s->model.config, row->got.id))
		return end_turn(s, slot, SPAR_FINISH_STOP, err);
	if (t->n_completion == slot->most)
		return end_turn(s, slot, SPAR_FINISH_LENGTH, err);
	spar_seq_append(slot->seq, &row->got.id, 1);
	return 0;
}

static int start_plays(struct spar_sampler *s, struct spar_err *err)
{
	int rc = 0;
	for (struct spar_slot *slot = s->slots; rc == 0 && s->next && slot < s->slots + s->n_slots; slot++) {
		if (slot->state != SPAR_SLOT_FREE)
			continue;
		const struct spar_task *task = s->next->task;
		if (jv_is_valid(task->reset) && (rc = spar_sampler_open_env(s, task, err)) == 0 &&
		    slot - s->slots >= s->max_sessions)
			break;
		slot->play = s->next;
		s->next = s->next->next;
		s->n_queued--;
		s->n_live++;
		spar_rng_init(&slot->rng, s->opt.seed, task->id, strlen(task->id));
		if (!jv_is_valid(task->reset))
			spar_slot_begin_turn(s, slot, task->prompt);
		else if (rc == 0)
			rc = spar_slot_send_reset(s, slot, err);
	}
	return rc;
}

/* The forward pass of every sequence that is under way; the environment works meanwhile. */
static int run_rows(struct spar_sampler *s, size_t *n, struct spar_err *err)
{
	*n = 0;
	for (struct spar_slot *slot = s->slots; slot < s->slots + s->n_slots; slot++) {
		if (slot->state != SPAR_SLOT_SAMPLE)
			continue;
		s->rows[*n] = (struct spar_drawn){.slot = slot, .logits = s->logits + *n * s->model.config.vocab_size};
		s->seqs[(*n)++] = slot->seq;
	}
	return *n ? spar_engine_run(s->engine, s->seqs, *n, s->logits, err) : 0;
}

int spar_sampler_step(struct spar_sampler *s, struct spar_err *err)
{
	size_t n;
	int rc = start_plays(s, err);
	if (rc < 0)
		return rc;
	if (!s->n_live)
		return s->next != NULL;
	if ((rc = run_rows(s, &n, err)) < 0 || (rc = spar_sampler_hear(s, !n, err)) < 0)
		return rc;
	draw_rows(s, n);
	for (size_t i = 0; rc == 0 && i < n; i++)
		if (is_row_alive(s, i))
			rc = accept(s, &s->rows[i], err);
	return rc < 0 ? rc : 1;
}

/* ---- the rest ---- */

int spar_sampler_add(struct spar_sampler *s, const struct spar_task *task, int64_t sample, struct spar_err *err)
{
	int rc = 0;
	if (!jv_is_valid(task->reset)) {
		if (s->opt.actor)
			return spar_fail(err, SPAR_INPUT, "the policy %s plays in an environment only", s->opt.actor);
	} else if (!s->opt.env) {
		return spar_fail(err, SPAR_INPUT, ".%s: the task needs an environment (--env)",
				 task->env ? "env" : "seed");
	} else if ((rc = spar_sampler_open_env(s, task, err)) < 0 || (rc = spar_sampler_check_env(s, task, err)) < 0) {
		return rc;
	}
	struct spar_play *p = spar_play_new(task, sample);
	if (s->last)
		s->last->next = p;
	else
		s->first = p;
	s->last = p;
	s->next = s->next ? s->next : p;
	s->n_held++;
	s->n_queued++;
	return 0;
}

int spar_sampler_encode(struct spar_sampler *s, const struct spar_task *task, struct spar_str *text,
			struct spar_ids *ids, struct spar_err *err)
{
	jv prompt = jv_copy(task->prompt);
	int rc = 0;
	if (jv_is_valid(task->reset))
		rc = s->opt.env ? spar_sampler_first_messages(s, task, &prompt, err)
				: spar_fail(err, SPAR_INPUT, "the task needs an environment (--env)");
	if (rc == 0)
		rc = spar_prompt_encode(&s->prompter, prompt, text, ids, err);
	jv_free(prompt);
	return rc;
}

void spar_sampler_json(const struct spar_sampler *s, struct spar_str *out)
{
	const struct spar_sampling *how = &s->opt.sampling;
	spar_str_adds(out, "\"sampling\":{\"temperature\":");
	spar_str_add_double(out, how->temperature);
	spar_str_adds(out, ",\"top_p\":");
	spar_str_add_double(out, how->top_p);
	spar_str_addf(out, ",\"top_k\":%" PRId64 ",\"min_p\":", how->top_k);
	spar_str_add_double(out, how->min_p);
	spar_str_addf(out, ",\"seed\":\"%" PRIu64 "\",\"max_completion_length\":%" PRId64 ",\"dtype\":\"%s\"}",
		      s->opt.seed, s->opt.max_completion, spar_sampler_dtypes[s->opt.dtype]);
}
