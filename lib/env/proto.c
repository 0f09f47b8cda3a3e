/* proto.c - see proto.h; the protocol itself is told in spar-env(7) */
#include "env/proto.h"
#include "base/json.h"
#include "env/action.h"
#include "env/lines.h"
#include "record/record.h"
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define PROTOCOL 1

enum { BUCKETS = 4096, NAME_MAX_BYTES = 64 };

struct session {
	struct session *next; /* in its bucket */
	char name[NAME_MAX_BYTES];
	size_t name_len;
	void *state;
};

struct server {
	const struct spar_proto_env *env;
	const struct spar_proto_options *opt;
	struct session *buckets[BUCKETS];
	int64_t n_sessions;
};

/* What a handler gets and gives. It returns NULL, or the error's code with err filled. */
struct request {
	jv value;
	struct session *session; /* NULL: no such session */
	struct spar_str *body;   /* members to add to the reply, each with a comma in front */
	struct spar_err *err;
};
typedef const char *handler(struct server *, const struct request *);

#define REFUSE(rq, code, ...) (spar_fail((rq)->err, SPAR_INPUT, __VA_ARGS__), (code))

/* ---- sessions ---- */

static struct session **session_find(struct server *sv, const char *name, size_t n)
{
	uint32_t hash = 2166136261u; /* FNV-1a */
	for (size_t i = 0; i < n; i++)
		hash = (hash ^ (unsigned char)name[i]) * 16777619u;
	struct session **at = &sv->buckets[hash % BUCKETS];
	while (*at && ((*at)->name_len != n || memcmp((*at)->name, name, n) != 0))
		at = &(*at)->next;
	return at;
}

static struct session *session_make(struct server *sv, const char *name, size_t n)
{
	struct session *s = spar_calloc(1, sizeof *s);
	memcpy(s->name, name, n);
	s->name_len = n;
	s->state = spar_calloc(1, sv->env->session_size);
	*session_find(sv, name, n) = s;
	sv->n_sessions++;
	return s;
}

static void session_drop(struct server *sv, struct session **at)
{
	struct session *s = *at;
	*at = s->next;
	if (sv->env->release)
		sv->env->release(s->state);
	free(s->state);
	free(s);
	sv->n_sessions--;
}

/* ---- requests ---- */

static bool same(const char *name, const char *text, size_t n)
{
	return strlen(name) == n && !memcmp(name, text, n);
}

static bool policy_open(const struct server *sv, const struct spar_proto_policy *p)
{
	return sv->opt->oracle || !p->needs_truth;
}

static void add_names(struct spar_str *out, const char *key, const char *const *names)
{
	spar_str_addf(out, ",\"%s\":[", key);
	for (size_t i = 0; names[i]; i++)
		spar_str_addf(out, "%s\"%s\"", i ? "," : "", names[i]);
	spar_str_adds(out, "]");
}

static const char *do_describe(struct server *sv, const struct request *rq)
{
	const struct spar_proto_env *env = sv->env;
	if (spar_has(rq->value, "protocol")) {
		jv versions;
		if (spar_get_kind(rq->value, "", "protocol", JV_KIND_ARRAY, &versions, rq->err) < 0)
			return "bad_request";
		bool common = false;
		jv_array_foreach(versions, i, v)
		{
			common |= jv_get_kind(v) == JV_KIND_NUMBER && jv_number_value(v) == PROTOCOL;
			jv_free(v);
		}
		jv_free(versions);
		if (!common)
			return REFUSE(rq, "bad_version", ".protocol: only version %d is spoken here", PROTOCOL);
	}
	spar_str_addf(rq->body, ",\"protocol\":%d,\"env\":\"%s\",\"version\":\"%s\",\"oracle\":%s,\"policies\":[",
		      PROTOCOL, env->name, env->version, sv->opt->oracle ? "true" : "false");
	const char *comma = "";
	for (const struct spar_proto_policy *p = env->policies; p && p->name; p++) {
		if (!policy_open(sv, p))
			continue;
		spar_str_addf(rq->body, "%s\"%s\"", comma, p->name);
		comma = ",";
	}
	spar_str_addf(rq->body, "],\"max_sessions\":%" PRId64, sv->opt->max_sessions);
	add_names(rq->body, "difficulties", env->difficulties);
	spar_str_addf(rq->body,
		      ",\"defaults\":{\"difficulty\":\"%s\",\"max_steps\":%" PRId64 ",\"seed\":\"%" PRIu64 "\"}",
		      env->difficulties[sv->opt->difficulty], sv->opt->max_steps, env->default_seed);
	spar_str_adds(rq->body, ",\"actions\":");
	env->schema(rq->body);
	spar_str_adds(rq->body, ",\"system\":");
	if (env->system)
		spar_str_add_json(rq->body, env->system, strlen(env->system));
	else
		spar_str_adds(rq->body, "null");
	return NULL;
}

/* The episode as it stands, as members of the reply. */
static const char *add_view(const struct server *sv, const struct session *s, const struct request *rq)
{
	spar_str_adds(rq->body, ",");
	sv->env->view(s->state, sv->opt->oracle, rq->body);
	return NULL;
}

static int read_difficulty(const struct server *sv, const struct request *rq)
{
	const char *name;
	size_t n;
	if (!spar_has(rq->value, "difficulty"))
		return sv->opt->difficulty;
	if (spar_get_str(rq->value, "", "difficulty", &name, &n, rq->err) < 0)
		return -1;
	for (int i = 0; sv->env->difficulties[i]; i++)
		if (same(sv->env->difficulties[i], name, n))
			return i;
	spar_fail(rq->err, SPAR_INPUT, ".difficulty: there is no such difficulty");
	return -1;
}

/* Read what the episode begins from; how->options becomes a NEW reference in any case. */
static const char *read_reset(const struct server *sv, const struct request *rq, struct spar_proto_reset *how)
{
	how->max_steps = sv->opt->max_steps;
	how->options = jv_object();
	if (spar_get_u64(rq->value, "", "seed", &how->seed, rq->err) < 0)
		return "bad_request";
	how->difficulty = read_difficulty(sv, rq);
	if (how->difficulty < 0)
		return "bad_request";
	if (spar_has(rq->value, "max_steps") && spar_get_i64(rq->value, "", "max_steps", &how->max_steps, rq->err) < 0)
		return "bad_request";
	if (how->max_steps < 1 || how->max_steps > sv->env->max_steps_limit)
		return REFUSE(rq, "bad_request", ".max_steps: must be 1 to %" PRId64, sv->env->max_steps_limit);
	if (!spar_has(rq->value, "options"))
		return NULL;
	jv options;
	if (spar_get_kind(rq->value, "", "options", JV_KIND_OBJECT, &options, rq->err) < 0)
		return "bad_request";
	jv_free(how->options);
	how->options = options;
	if (!sv->env->takes_options && jv_object_length(jv_copy(options)))
		return REFUSE(rq, "bad_request", ".options: this environment takes none");
	return NULL;
}

static const char *do_reset(struct server *sv, const struct request *rq)
{
	struct spar_proto_reset how;
	struct session *s = rq->session;
	const char *name, *code = read_reset(sv, rq, &how);
	size_t n;
	spar_get_str(rq->value, "", "session", &name, &n, NULL);
	if (!code && !s && sv->n_sessions >= sv->opt->max_sessions)
		code = REFUSE(rq, "session_limit", "%" PRId64 " sessions are open already", sv->n_sessions);
	if (!code && !s)
		s = session_make(sv, name, n);
	if (!code && sv->env->reset(s->state, sv->env->world, &how, rq->err) < 0) {
		code = "bad_request";
		if (!rq->session)
			session_drop(sv, session_find(sv, name, n));
	}
	jv_free(how.options);
	return code ? code : add_view(sv, s, rq);
}

/* A session that takes an action next, or the error's code in *code. */
static struct session *open_session(const struct server *sv, const struct request *rq, const char **code)
{
	if (!rq->session)
		*code = REFUSE(rq, "no_session", ".session: was never reset, or was closed");
	else if (sv->env->done(rq->session->state))
		*code = REFUSE(rq, "episode_over", "the episode is over: reset or close the session");
	else
		return rq->session;
	return NULL;
}

static const char *do_step(struct server *sv, const struct request *rq)
{
	const char *text, *code = NULL;
	size_t n;
	bool has_text = spar_has(rq->value, "text"), has_action = spar_has(rq->value, "action");
	jv action = jv_invalid();
	if (has_text == has_action)
		return REFUSE(rq, "bad_request", "step takes either .text or .action");
	if (has_text && spar_get_str(rq->value, "", "text", &text, &n, rq->err) < 0)
		return "bad_request";
	if (has_action && spar_get_kind(rq->value, "", "action", JV_KIND_OBJECT, &action, rq->err) < 0)
		return "bad_request";
	struct session *s = open_session(sv, rq, &code);
	if (!s) {
		jv_free(action);
		return code;
	}
	sv->env->step(s->state, has_text ? spar_action_find(text, n) : action);
	return add_view(sv, s, rq);
}

static const char *do_state(struct server *sv, const struct request *rq)
{
	if (!rq->session)
		return REFUSE(rq, "no_session", ".session: was never reset, or was closed");
	return add_view(sv, rq->session, rq);
}

static const char *do_oracle(struct server *sv, const struct request *rq)
{
	const char *name = sv->env->policies->name, *code = NULL;
	size_t n = strlen(name);
	if (spar_has(rq->value, "policy") && spar_get_str(rq->value, "", "policy", &name, &n, rq->err) < 0)
		return "bad_request";
	const struct spar_proto_policy *p = sv->env->policies;
	while (p->name && !same(p->name, name, n))
		p++;
	if (!p->name)
		return REFUSE(rq, "bad_request", ".policy: there is no such policy");
	if (!policy_open(sv, p))
		return REFUSE(rq, "forbidden", ".policy: %s is answered only with --oracle", p->name);
	struct session *s = open_session(sv, rq, &code);
	if (!s)
		return code;
	struct spar_str text = SPAR_STR_INIT;
	p->act(s->state, &text);
	spar_str_addf(rq->body, ",\"action\":%s,\"text\":", text.data);
	spar_str_add_json(rq->body, text.data, text.len);
	spar_str_release(&text);
	return NULL;
}

static const char *do_close(struct server *sv, const struct request *rq)
{
	if (!rq->session)
		return REFUSE(rq, "no_session", ".session: was never reset, or was closed");
	session_drop(sv, session_find(sv, rq->session->name, rq->session->name_len));
	return NULL;
}

static const struct {
	const char *name;
	handler *run;
	bool needs_session;
} ops[] = {{"describe", do_describe, false}, {"reset", do_reset, true},   {"step", do_step, true},
	   {"state", do_state, true},        {"oracle", do_oracle, true}, {"close", do_close, true}};

/* ---- a line and its reply ---- */

static const char *dispatch(struct server *sv, struct request *rq)
{
	const char *op, *name;
	size_t n;
	if (spar_get_str(rq->value, "", "op", &op, &n, rq->err) < 0)
		return "bad_request";
	jv id = jv_object_get(jv_copy(rq->value), jv_string("id"));
	bool good_id = !jv_is_valid(id) || jv_get_kind(id) == JV_KIND_STRING || jv_get_kind(id) == JV_KIND_NUMBER ||
		       jv_get_kind(id) == JV_KIND_NULL;
	jv_free(id);
	if (!good_id)
		return REFUSE(rq, "bad_request", ".id: expected string, number or null");
	for (size_t i = 0; i < sizeof ops / sizeof *ops; i++) {
		if (!same(ops[i].name, op, n) || (ops[i].run == do_oracle && !sv->env->policies))
			continue;
		if (ops[i].needs_session) {
			if (spar_get_str(rq->value, "", "session", &name, &n, rq->err) < 0)
				return "bad_request";
			if (n < 1 || n > NAME_MAX_BYTES)
				return REFUSE(rq, "bad_request", ".session: must have 1 to %d bytes", NAME_MAX_BYTES);
			rq->session = *session_find(sv, name, n);
		}
		return ops[i].run(sv, rq);
	}
	return REFUSE(rq, "unknown_op", ".op: there is no such request");
}

/* The value of a member as it came, so that an id of 1.0 or of twenty digits comes back unchanged. */
static void add_raw(struct spar_str *out, const char *line, size_t n, const char *key)
{
	struct spar_json_members m;
	const char *value = "null";
	size_t value_len = 4;
	spar_json_members_init(&m, line, n);
	while (spar_json_members_next(&m)) {
		if (!same(key, m.key, m.key_len))
			continue;
		bool scalar = m.value[0] != '{' && m.value[0] != '[';
		value = scalar ? m.value : "null";
		value_len = scalar ? m.value_len : 4;
	}
	spar_str_add(out, value, value_len);
}

static void add_error(struct spar_str *out, const char *code, const char *message)
{
	spar_str_addf(out, ",\"error\":{\"code\":\"%s\",\"message\":", code);
	spar_str_add_json(out, message, strlen(message));
	if (!strcmp(code, "bad_version"))
		spar_str_addf(out, ",\"supported\":[%d]", PROTOCOL);
	spar_str_adds(out, "}");
}

/* Append the reply to a request line. */
static void answer(struct server *sv, const char *line, size_t n, struct spar_str *out)
{
	const char *what;
	struct spar_err err = {0};
	struct spar_str body = SPAR_STR_INIT;
	struct request rq = {.value = spar_lines_object(line, n, &what), .body = &body, .err = &err};
	if (!jv_is_valid(rq.value)) {
		spar_str_adds(out, "{\"id\":null,\"op\":null,\"session\":null");
		add_error(out, "bad_json", what);
		spar_str_adds(out, "}\n");
		return;
	}
	const char *code = dispatch(sv, &rq);
	static const char *const heads[] = {"{\"id\":", ",\"op\":", ",\"session\":"};
	static const char *const keys[] = {"id", "op", "session"};
	for (int i = 0; i < 3; i++) {
		spar_str_adds(out, heads[i]);
		add_raw(out, line, n, keys[i]);
	}
	if (code) {
		add_error(out, code, err.msg);
	} else {
		spar_str_adds(out, ",\"error\":null");
		spar_str_add(out, body.data, body.len);
	}
	spar_str_adds(out, "}\n");
	spar_str_release(&body);
	jv_free(rq.value);
}

static int write_all(int fd, const struct spar_str *s, struct spar_err *err)
{
	for (size_t done = 0; done < s->len;) {
		ssize_t put = write(fd, s->data + done, s->len - done);
		if (put < 0 && errno == EINTR)
			continue;
		if (put < 0)
			return spar_fail(err, SPAR_FAIL, "<stdout>: %s", strerror(errno));
		done += (size_t)put;
	}
	return 0;
}

int spar_proto_serve(const struct spar_proto_env *env, const struct spar_proto_options *opt, int in, int out,
		     struct spar_err *err)
{
	struct server sv = {.env = env, .opt = opt};
	struct spar_lines lines = SPAR_LINES_INIT;
	struct spar_str reply = SPAR_STR_INIT;
	const char *line;
	size_t n;
	int got, rc = 0;
	while (rc == 0) {
		while (rc == 0 && (got = spar_lines_next(&lines, &line, &n)) != 0) {
			spar_str_clear(&reply);
			if (got > 0) {
				answer(&sv, line, n, &reply);
			} else {
				spar_str_adds(&reply, "{\"id\":null,\"op\":null,\"session\":null");
				add_error(&reply, "too_long", "a request line has at most 1 MiB");
				spar_str_adds(&reply, "}\n");
			}
			rc = write_all(out, &reply, err);
		}
		if (rc < 0 || lines.ended)
			break;
		if (spar_lines_fill(&lines, in) < 0)
			rc = spar_fail(err, SPAR_FAIL, "<stdin>: %s", strerror(errno));
	}
	for (size_t i = 0; i < BUCKETS; i++)
		while (sv.buckets[i])
			session_drop(&sv, &sv.buckets[i]);
	spar_lines_release(&lines);
	spar_str_release(&reply);
	return rc;
}
