#include "rl/episode.h"
#include "record/record.h"
#include "record/rollout.h"
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

const char *const spar_truncation_names[] = {"refuse", "keep_start", "keep_end", NULL};

void spar_episode_free(struct spar_episode *e)
{
	if (!e)
		return;
	for (size_t i = 0; i < e->n_paths; i++) {
		free(e->paths[i].ids);
		free(e->paths[i].mask);
	}
	free(e->paths);
	free(e->sampled);
	free(e->kept);
	spar_rewards_free(e->rewards, e->n_rewards);
	free(e->group);
	free(e->name);
	free(e);
}

/* Add prompt and completion as one path, trained from `from` on. Takes nothing over. */
static int add_path(struct spar_episode *e, const struct spar_episode_rules *rules, const int32_t *prompt,
		    size_t n_prompt, const int32_t *completion, size_t n_completion, size_t from, struct spar_err *err)
{
	size_t n = n_prompt + n_completion;
	if (!n_prompt)
		return spar_fail(err, SPAR_INPUT,
				 "the prompt has no token: the first of a completion has nothing to be "
				 "predicted from");
	if (n > rules->max_length)
		return spar_fail(err, SPAR_INPUT, "%zu tokens (%zu of the prompt), more than the limit of %zu", n,
				 n_prompt, rules->max_length);
	e->paths = spar_realloc(e->paths, (e->n_paths + 1) * sizeof *e->paths);
	struct spar_token_path *p = &e->paths[e->n_paths++];
	*p = (struct spar_token_path){spar_malloc(n * sizeof *p->ids), spar_calloc(n, 1), n};
	memcpy(p->ids, prompt, n_prompt * sizeof *prompt);
	if (n_completion)
		memcpy(p->ids + n_prompt, completion, n_completion * sizeof *completion);
	memset(p->mask + from, 1, n - from);
	e->n_tokens += n;
	e->n_loss += n - from;
	for (size_t i = 0; i < n; i++)
		if ((size_t)p->ids[i] >= rules->vocab_size)
			return spar_fail(err, SPAR_INPUT, "id %" PRId32 " is beyond the vocabulary of %zu", p->ids[i],
					 rules->vocab_size);
	return 0;
}

/* ---- sft ---- */

static int encode_messages(struct spar_episode *e, const struct spar_episode_rules *rules, jv record,
			   struct spar_ids *ids, struct spar_err *err)
{
	struct spar_str rendered = SPAR_STR_INIT;
	const char *text;
	size_t n;
	jv messages;
	int rc = spar_get_kind(record, "", "messages", JV_KIND_ARRAY, &messages, err);
	if (rc < 0)
		return rc;
	rc = spar_chat_encode(rules->chat, rules->tokenizer, messages, true, false, &rendered, ids, err);
	if (rc == 0 && spar_get_str(record, "", "prompt", &text, &n, NULL) == 0)
		e->other_prompt = n != rendered.len || memcmp(text, rendered.data, n) != 0;
	jv_free(messages);
	spar_str_release(&rendered);
	return rc < 0 ? spar_fail_at(err, ".messages") : 0;
}

static int encode_prompt(struct spar_episode *e, const struct spar_episode_rules *rules, jv record,
			 struct spar_ids *ids, struct spar_err *err)
{
	const char *text;
	size_t n;
	int rc;
	if (spar_has(record, "messages"))
		return encode_messages(e, rules, record, ids, err);
	if ((rc = spar_get_str(record, "", "prompt", &text, &n, err)) < 0)
		return rc;
	return spar_tokenizer_encode(rules->tokenizer, text, n, NULL, SPAR_ENCODE_MARKERS, ids, err);
}

static int encode_completion(const struct spar_episode_rules *rules, jv record, struct spar_ids *ids,
			     struct spar_err *err)
{
	const char *text, *finish = "";
	size_t n, n_finish;
	int rc = spar_get_str(record, "", "completion", &text, &n, err);
	if (rc >= 0)
		rc = spar_tokenizer_encode(rules->tokenizer, text, n, NULL, 0, ids, err);
	if (rc >= 0 && spar_has(record, "finish_reason"))
		rc = spar_get_str(record, "", "finish_reason", &finish, &n_finish, err);
	if (rc >= 0 && strcmp(finish, spar_finish_name(SPAR_FINISH_LENGTH)) != 0)
		spar_ids_add(ids, &rules->end_id, 1);
	return rc;
}

/* Cut ids to the limit, if that is wanted and leaves a prompt and something to train on. */
static void cut(struct spar_episode *e, const struct spar_episode_rules *rules, struct spar_ids *prompt,
		struct spar_ids *completion)
{
	size_t n = prompt->n + completion->n, over = n > rules->max_length ? n - rules->max_length : 0;
	if (over && rules->truncation == SPAR_TRUNCATION_KEEP_START && over < completion->n) {
		completion->n -= over;
		e->cut = true;
	} else if (over && rules->truncation == SPAR_TRUNCATION_KEEP_END && over < prompt->n) {
		prompt->n -= over;
		memmove(prompt->data, prompt->data + over, prompt->n * sizeof *prompt->data);
		e->cut = true;
	}
}

int spar_episode_from_sft(struct spar_episode **out, const struct spar_episode_rules *rules, jv record,
			  struct spar_err *err)
{
	struct spar_ids prompt = {0}, completion = {0};
	struct spar_episode *e = spar_calloc(1, sizeof *e);
	*out = NULL;
	int rc = encode_prompt(e, rules, record, &prompt, err);
	if (rc >= 0)
		rc = encode_completion(rules, record, &completion, err);
	cut(e, rules, &prompt, &completion);
	if (rc >= 0)
		rc = add_path(e, rules, prompt.data, prompt.n, completion.data, completion.n,
			      rules->whole_text ? 1 : prompt.n, err);
	if (rc >= 0 && !e->n_loss)
		rc = spar_fail(err, SPAR_INPUT, ".completion: empty, and cut off: nothing to train on");
	free(prompt.data);
	free(completion.data);
	if (rc < 0) {
		spar_episode_free(e);
		return rc;
	}
	*out = e;
	return 1;
}

/* ---- rollouts ---- */

/* The numbers that the sampler recorded with a turn's tokens, put behind those of the turns before. */
static void add_sampled(struct spar_episode *e, const struct spar_turn *t)
{
	size_t at = e->n_loss - t->n_completion;
	e->sampled = spar_realloc(e->sampled, e->n_loss * sizeof *e->sampled);
	for (size_t i = 0; i < t->n_completion; i++)
		e->sampled[at + i] = (double)t->logprobs[i];
	if (!t->kept_mass && !e->kept)
		return;
	bool fresh = !e->kept;
	e->kept = spar_realloc(e->kept, e->n_loss * sizeof *e->kept);
	for (size_t i = 0; fresh && i < at; i++)
		e->kept[i] = 1;
	for (size_t i = 0; i < t->n_completion; i++)
		e->kept[at + i] = t->kept_mass ? (double)t->kept_mass[i] : 1;
}

static int add_turn(struct spar_episode *e, const struct spar_episode_rules *rules, const struct spar_turn *t,
		    struct spar_err *err)
{
	e->truncated |= t->finish == SPAR_FINISH_LENGTH;
	if (!t->n_completion)
		return 0;
	int rc = add_path(e, rules, t->prompt_ids, t->n_prompt, t->completion_ids, t->n_completion, t->n_prompt, err);
	if (rc == 0)
		add_sampled(e, t);
	return rc;
}

static char *name_of(const struct spar_rollout *r)
{
	struct spar_str s = SPAR_STR_INIT;
	spar_str_addf(&s, "group %s sample %" PRId64, r->group ? r->group : "?", r->sample);
	return spar_str_detach(&s);
}

/* 1: usable, 0: not, err says why. */
static int usable(const struct spar_rollout *r, struct spar_err *err)
{
	size_t n = 0;
	for (size_t i = 0; i < r->n_turns; i++)
		n += r->turns[i].n_completion;
	const char *why = r->failed ? "the episode failed" : !r->has_reward ? "no reward" : !n ? "no completion" : NULL;
	if (why) {
		spar_fail(err, SPAR_INPUT, "left out: %s", why);
		return 0;
	}
	if (!r->has_advantage)
		return spar_fail(err, SPAR_INPUT, ".advantage: missing; let the records pass through spar advantage");
	if (r->temperature <= 0)
		return spar_fail(err, SPAR_INPUT, ".sampling.temperature: greedy samples have no ratio");
	return 1;
}

int spar_episode_from_rollout(struct spar_episode **out, const struct spar_episode_rules *rules, jv record,
			      struct spar_err *err)
{
	struct spar_rollout r;
	*out = NULL;
	int rc = spar_rollout_read(&r, record, err);
	if (rc < 0)
		return rc;
	struct spar_episode *e = spar_calloc(1, sizeof *e);
	e->name = name_of(&r);
	rc = usable(&r, err);
	for (size_t i = 0; rc > 0 && i < r.n_turns; i++)
		if (add_turn(e, rules, &r.turns[i], err) < 0)
			rc = spar_fail_at(err, ".turns[%zu]", i);
	if (rc > 0) {
		e->group = spar_strdup(r.group ? r.group : "");
		e->reward = r.reward;
		e->rewards = r.rewards;
		e->n_rewards = r.n_rewards;
		r.rewards = NULL;
		r.n_rewards = 0;
		e->advantage = r.advantage;
		e->temperature = r.temperature;
		e->version = r.version;
		*out = e;
	} else {
		spar_fail_at(err, "%s", e->name);
		spar_episode_free(e);
	}
	spar_rollout_release(&r);
	return rc;
}
