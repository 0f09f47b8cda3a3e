/* sampler_env.c - the sampler's conversation with the environment. */
#include "record/record.h"
#include "rl/sampler_parts.h"
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define LOSSES_MAX 3 /* environments lost in a row before giving up */

static const char *session_of(const struct spar_sampler *s, const struct spar_slot *slot, char name[24])
{
	snprintf(name, 24, "%zu", (size_t)(slot - s->slots));
	return name;
}

/* `request` is consumed. */
static int send(struct spar_sampler *s, struct spar_slot *slot, enum spar_slot_state state, jv request,
		struct spar_err *err)
{
	char session[24];
	struct spar_str what = SPAR_STR_INIT;
	spar_str_addf(&what, "task %s sample %" PRId64, slot->play->task->id, slot->play->sample);
	request = jv_object_set(request, jv_string("session"), jv_string(session_of(s, slot, session)));
	int rc = spar_env_send(s->env, request, what.data, err);
	spar_str_release(&what);
	slot->state = state;
	s->waiting[s->n_waiting++] = slot;
	return rc;
}

int spar_sampler_open_env(struct spar_sampler *s, const struct spar_task *task, struct spar_err *err)
{
	if (s->env)
		return 0;
	int rc = spar_env_open(&s->env, s->opt.env, s->opt.env_timeout_s, err);
	if (rc < 0)
		return spar_fail_at(err, "task %s", task->id);
	s->max_sessions = INT64_MAX;
	spar_get_i64(spar_env_about(s->env), "", "max_sessions", &s->max_sessions, NULL);
	return 0;
}

int spar_sampler_check_env(const struct spar_sampler *s, const struct spar_task *task, struct spar_err *err)
{
	const char *name;
	size_t len;
	if (!task->env || spar_get_str(spar_env_about(s->env), "", "env", &name, &len, NULL) < 0 ||
	    !strcmp(name, task->env))
		return 0;
	return spar_fail(err, SPAR_INPUT, ".env: the task is for %s, the environment is %s", task->env, name);
}

int spar_slot_send_step(struct spar_sampler *s, struct spar_slot *slot, struct spar_err *err)
{
	const struct spar_str *text = spar_play_text(slot->play);
	jv request = jv_object_set(jv_object(), jv_string("op"), jv_string("step"));
	request = jv_object_set(request, jv_string("text"), jv_string_sized(text->data, (int)text->len));
	return send(s, slot, SPAR_SLOT_STEP, request, err);
}

static int send_ask(struct spar_sampler *s, struct spar_slot *slot, struct spar_err *err)
{
	jv request = jv_object_set(jv_object(), jv_string("op"), jv_string("oracle"));
	return send(s, slot, SPAR_SLOT_ASK, jv_object_set(request, jv_string("policy"), jv_string(s->opt.actor)), err);
}

static bool reply_done(jv reply)
{
	bool done = false;
	return spar_get_bool(reply, "", "done", &done, NULL) == 0 && done;
}

/* What the environment shows now is answered, by the model or by the actor; nothing is left to do when it is done. */
static int next_turn(struct spar_sampler *s, struct spar_slot *slot, jv reply, struct spar_err *err)
{
	struct spar_err why = {0};
	bool late = slot->play->n_turns >= (size_t)s->opt.max_turns;
	if (reply_done(reply) || (late && s->opt.cut_long)) {
		s->losses = 0;
		spar_slot_leave(s, slot);
		return 0;
	}
	if (late) {
		spar_fail(&why, SPAR_FAIL, "not done after %zu turns", slot->play->n_turns);
		spar_slot_fail(s, slot, &why);
		return 0;
	}
	if (s->opt.actor)
		return send_ask(s, slot, err);
	jv messages = jv_object_get(jv_copy(reply), jv_string("messages"));
	spar_slot_begin_turn(s, slot, messages);
	jv_free(messages);
	return 0;
}

static int act(struct spar_sampler *s, struct spar_slot *slot, jv reply, struct spar_err *err)
{
	const char *text;
	size_t len;
	int rc = spar_get_str(reply, "", "text", &text, &len, err);
	if (rc < 0)
		return spar_fail_at(err, "task %s: reply to oracle", slot->play->task->id);
	struct spar_play_turn *t = spar_play_turn(slot->play, 0, false);
	t->tokens.finish = SPAR_FINISH_ENV;
	spar_str_add(&t->text, text, len);
	return spar_slot_send_step(s, slot, err);
}

/* `reply` is consumed. */
static int on_reply(struct spar_sampler *s, struct spar_slot *slot, jv reply, struct spar_err *err)
{
	struct spar_play *p = slot->play;
	enum spar_slot_state state = slot->state;
	int rc;
	if (state == SPAR_SLOT_ASK) {
		rc = act(s, slot, reply, err);
		jv_free(reply);
		return rc;
	}
	if (state == SPAR_SLOT_RESET)
		p->first = jv_copy(reply);
	else
		p->turns[p->n_turns - 1].reply = jv_copy(reply);
	rc = next_turn(s, slot, reply, err);
	jv_free(reply);
	return rc;
}

int spar_slot_send_reset(struct spar_sampler *s, struct spar_slot *slot, struct spar_err *err)
{
	return send(s, slot, SPAR_SLOT_RESET, jv_copy(slot->play->task->reset), err);
}

/* The environment is of no more use. The episode it failed at ends; the others that were in it start again. */
static int lose_env(struct spar_sampler *s, struct spar_err *err)
{
	struct spar_err why = *err;
	struct spar_slot *guilty = s->waiting[0];
	const struct spar_task *task = guilty->play->task;
	int rc = 0;
	*err = (struct spar_err){0};
	spar_env_close(s->env);
	s->env = NULL;
	s->n_waiting = 0;
	if (++s->losses >= LOSSES_MAX) {
		*err = why;
		return spar_fail_at(err, "the environment failed %d times in a row, the last time", LOSSES_MAX);
	}
	spar_slot_fail(s, guilty, &why);
	for (struct spar_slot *slot = s->slots; rc == 0 && slot < s->slots + s->n_slots; slot++) {
		if (slot->state == SPAR_SLOT_FREE || !jv_is_valid(slot->play->task->reset))
			continue;
		if (slot->seq)
			spar_seq_free(slot->seq);
		slot->seq = NULL;
		spar_play_rewind(slot->play);
		if ((rc = spar_sampler_open_env(s, task, err)) == 0)
			rc = spar_slot_send_reset(s, slot, err);
	}
	return rc;
}

int spar_sampler_hear(struct spar_sampler *s, bool wait, struct spar_err *err)
{
	while (s->n_waiting) {
		jv reply;
		int rc = spar_env_recv(s->env, &reply, wait, err);
		if (rc == 0)
			return 0;
		if (rc < 0 && err->code != SPAR_INPUT)
			return lose_env(s, err);
		struct spar_slot *slot = s->waiting[0];
		memmove(s->waiting, s->waiting + 1, --s->n_waiting * sizeof *s->waiting);
		if (rc < 0)
			spar_slot_fail(s, slot, err);
		else if ((rc = on_reply(s, slot, reply, err)) < 0)
			return rc;
		wait = false;
	}
	return 0;
}

int spar_sampler_first_messages(struct spar_sampler *s, const struct spar_task *task, jv *prompt, struct spar_err *err)
{
	jv request = jv_object_set(jv_copy(task->reset), jv_string("session"), jv_string("0")), reply;
	int rc = spar_sampler_open_env(s, task, err);
	if (rc < 0 || (rc = spar_sampler_check_env(s, task, err)) < 0) {
		jv_free(request);
		return rc;
	}
	if ((rc = spar_env_send(s->env, request, task->id, err)) < 0 ||
	    (rc = spar_env_recv(s->env, &reply, true, err)) < 0)
		return rc;
	*prompt = jv_object_get(reply, jv_string("messages"));
	return 0;
}
