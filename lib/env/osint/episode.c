/* episode.c - the rules, see episode.h */
#include "env/osint/episode.h"
#include "env/osint/pay.h"
#include "record/record.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

const char *const spar_osint_verbs[] = {"CALL_TOOL", "ADD_EDGE", "ANSWER", "PROPOSE", NULL};

/* ---- begin and end ---- */

void spar_osint_episode_release(struct spar_osint_episode *e)
{
	if (!e->max_steps)
		return;
	spar_osint_graph_release(&e->own);
	spar_osint_graph_release(&e->working);
	spar_osint_task_release(&e->task);
	if (e->views_made)
		spar_osint_views_release(&e->views);
	for (size_t i = 0; i < e->n_calls; i++) {
		spar_str_release(&e->calls[i].args);
		spar_str_release(&e->calls[i].output);
	}
	for (int i = 0; i < e->step; i++)
		spar_str_release(&e->deeds[i].payload);
	e->max_steps = 0;
}

static int read_choice(jv options, const char *key, const char *const *names, int *out, struct spar_err *err)
{
	const char *name;
	size_t n;
	if (!spar_has(options, key))
		return 0;
	if (spar_get_str(options, "options", key, &name, &n, err) < 0)
		return -SPAR_INPUT;
	int i = spar_osint_choice(names, name, n);
	if (i < 0)
		return spar_fail(err, SPAR_INPUT, ".options.%s: there is no such %s", key, key);
	*out = i;
	return 0;
}

/* Options that are misspelt must not pass for defaults. */
static int check_options(jv options, struct spar_err *err)
{
	static const char *const known[] = {"role",    "split",         "graph_seed", "context",
					    "n_users", "alias_density", "max_edges",  NULL};
	int rc = 0;
	jv_object_foreach(options, key, value)
	{
		jv_free(value);
		if (rc == 0 && spar_osint_choice(known, jv_string_value(key), strlen(jv_string_value(key))) < 0)
			rc = spar_fail(err, SPAR_INPUT, ".options: there is no option %.40s", jv_string_value(key));
		jv_free(key);
	}
	return rc;
}

static int read_options(struct spar_osint_game *g, jv options, struct spar_err *err)
{
	static const char *const contexts[] = {"shown", "hidden", NULL};
	int role = g->role, hidden = g->hidden;
	int64_t max_edges = g->max_edges;
	if (check_options(options, err) < 0 || read_choice(options, "role", spar_osint_roles, &role, err) < 0 ||
	    read_choice(options, "context", contexts, &hidden, err) < 0)
		return -SPAR_INPUT;
	if (spar_osint_source_read(&g->source, options, err) < 0)
		return spar_fail_at(err, ".options");
	if (spar_has(options, "graph_seed")) {
		if (spar_get_u64(options, "options", "graph_seed", &g->source.seed, err) < 0)
			return -SPAR_INPUT;
		g->one_graph = true;
	}
	if (spar_has(options, "max_edges") && spar_get_i64(options, "options", "max_edges", &max_edges, err) < 0)
		return -SPAR_INPUT;
	if (max_edges < 8 || max_edges > SPAR_OSINT_CONTEXT_MAX)
		return spar_fail(err, SPAR_INPUT, ".options.max_edges: must be 8 to %d", SPAR_OSINT_CONTEXT_MAX);
	g->role = (enum spar_osint_role)role;
	g->hidden = hidden;
	g->max_edges = (int)max_edges;
	return 0;
}

/* A graph of the episode's own, and a task of it. */
static int make_task(struct spar_osint_episode *e, int difficulty, struct spar_err *err)
{
	struct spar_osint_want want = {e->seed, difficulty, e->how.max_edges, 0};
	if (e->how.metaqa) {
		e->graph = &e->how.metaqa->graph;
		return spar_osint_metaqa_task(&e->task, e->how.metaqa, &want, err);
	}
	e->graph = &e->own;
	if (!e->how.one_graph)
		e->how.source.seed = e->seed;
	spar_osint_generate(&e->own, &e->how.source);
	if (e->how.role == SPAR_OSINT_GENERATOR) /* never a question against the arrow */
		want.hops = 2 + (difficulty == SPAR_OSINT_MIXED ? (int)(e->seed % 3) : difficulty);
	return spar_osint_task_make(&e->task, &e->own, &want, err);
}

int spar_osint_episode_reset(struct spar_osint_episode *e, const struct spar_osint_game *game,
			     const struct spar_proto_reset *how, struct spar_err *err)
{
	struct spar_osint_game g = *game;
	if (read_options(&g, how->options, err) < 0)
		return -SPAR_INPUT;
	if (g.metaqa && (g.role == SPAR_OSINT_GENERATOR || g.source.split != game->source.split))
		return spar_fail(err, SPAR_INPUT, ".options: MetaQA has one role and the split it was read for");
	spar_osint_episode_release(e);
	memset(e, 0, sizeof *e);
	e->how = g;
	e->seed = how->seed;
	e->max_steps = (int)how->max_steps;
	e->verdict.reasons = SPAR_OSINT_R_NOT_JSON;
	spar_osint_graph_init(&e->own);
	spar_osint_graph_init(&e->working);
	return make_task(e, how->difficulty, err);
}

/* ---- actions ---- */

struct action {
	int verb; /* -1: not known */
	int tool;
	jv payload; /* an object, or invalid */
};

static jv member(jv object, const char *key)
{
	return jv_object_get(jv_copy(object), jv_string(key));
}

static enum spar_osint_invalid refuse(struct spar_osint_episode *e, enum spar_osint_invalid kind, const char *why)
{
	snprintf(e->last, sizeof e->last, "%s", why);
	return kind;
}

/* The verb that the object names, or means by what it holds. */
static int read_verb(const struct spar_osint_episode *e, jv object)
{
	const char *name;
	size_t n;
	if (e->how.role == SPAR_OSINT_GENERATOR)
		return SPAR_OSINT_PROPOSE;
	if (spar_has(object, "action_type")) {
		int verb = spar_get_str(object, "", "action_type", &name, &n, NULL) < 0
			       ? -1
			       : spar_osint_choice(spar_osint_verbs, name, n);
		return verb == SPAR_OSINT_PROPOSE ? -1 : verb;
	}
	if (spar_has(object, "tool") || spar_has(object, "tool_name"))
		return SPAR_OSINT_CALL;
	if (spar_has(object, "answer") || spar_has(object, "supporting_edges"))
		return SPAR_OSINT_ANSWER;
	return spar_has(object, "src") ? SPAR_OSINT_ADD : -1;
}

static enum spar_osint_invalid read_tool(struct spar_osint_episode *e, struct action *a)
{
	const char *name, *key = spar_has(a->payload, "tool_name") ? "tool_name" : "tool";
	size_t n;
	if (!spar_has(a->payload, key))
		return refuse(e, SPAR_OSINT_PARAMETER, "tool_name is missing");
	if (spar_get_str(a->payload, "", key, &name, &n, NULL) < 0)
		return refuse(e, SPAR_OSINT_PARAMETER, "tool_name is not a text");
	a->tool = spar_osint_tool(name, n);
	return a->tool < 0 ? refuse(e, SPAR_OSINT_ACTION, "there is no such tool") : SPAR_OSINT_OK;
}

static enum spar_osint_invalid read_action(struct spar_osint_episode *e, jv object, struct action *a)
{
	*a = (struct action){-1, -1, jv_invalid()};
	if (jv_get_kind(object) != JV_KIND_OBJECT)
		return refuse(e, SPAR_OSINT_PARSE, "no JSON object found");
	a->verb = read_verb(e, object);
	if (a->verb < 0)
		return refuse(e, SPAR_OSINT_ACTION,
			      spar_has(object, "action_type") ? "action_type is unknown" : "action_type is missing");
	bool enclosed = a->verb != SPAR_OSINT_PROPOSE && spar_has(object, "payload");
	a->payload = enclosed ? member(object, "payload") : jv_copy(object);
	if (jv_get_kind(a->payload) != JV_KIND_OBJECT)
		return refuse(e, SPAR_OSINT_PARAMETER, "payload is not an object");
	return a->verb == SPAR_OSINT_CALL ? read_tool(e, a) : SPAR_OSINT_OK;
}

/* ---- carrying them out ---- */

static const struct spar_osint_views *views(struct spar_osint_episode *e)
{
	if (e->how.metaqa)
		return &e->how.metaqa->views;
	if (!e->views_made)
		spar_osint_views_make(&e->views, e->graph, e->how.source.seed, &e->how.noise);
	e->views_made = true;
	return &e->views;
}

static enum spar_osint_invalid call_tool(struct spar_osint_episode *e, const struct action *a)
{
	struct spar_osint_call *c = &e->calls[e->n_calls];
	jv args = member(a->payload, "args");
	bool given = jv_is_valid(args) && jv_get_kind(args) != JV_KIND_NULL;
	enum spar_osint_invalid invalid = SPAR_OSINT_OK;
	*c = (struct spar_osint_call){spar_osint_tool_name(a->tool), SPAR_STR_INIT, SPAR_STR_INIT};
	struct spar_osint_desk desk = {views(e), e->calls, e->n_calls, e->task.context, e->task.n_context};
	if (given && jv_get_kind(args) != JV_KIND_OBJECT)
		invalid = refuse(e, SPAR_OSINT_PARAMETER, "args is not an object");
	else if (!spar_osint_tool_call(a->tool, &desk, args, &c->output, e->last))
		invalid = SPAR_OSINT_PARAMETER;
	if (invalid) {
		jv_free(args);
		return invalid;
	}
	jv text = jv_dump_string(given ? args : jv_object(), JV_PRINT_SORTED);
	if (!given)
		jv_free(args);
	spar_str_add(&c->args, jv_string_value(text), (size_t)jv_string_length_bytes(jv_copy(text)));
	jv_free(text);
	bool again = false;
	for (size_t i = 0; i < e->n_calls; i++)
		again |= e->calls[i].tool == c->tool && !strcmp(e->calls[i].args.data, c->args.data);
	e->n_calls++;
	e->n_redundant += again;
	spar_osint_pay_call(e, again);
	return SPAR_OSINT_OK;
}

static enum spar_osint_invalid add_edge(struct spar_osint_episode *e, const struct action *a)
{
	static const char *const keys[] = {"src", "rel", "dst"};
	int32_t names[3];
	for (int i = 0; i < 3; i++) {
		const char *name;
		size_t n = 0;
		bool text = spar_has(a->payload, keys[i]) && !spar_get_str(a->payload, "", keys[i], &name, &n, NULL);
		names[i] = !text || !n ? -1
			   : i == 1    ? spar_osint_graph_relation(&e->working, name, n)
				       : spar_osint_graph_name(&e->working, name, n);
		if (names[i] < 0) {
			snprintf(e->last, sizeof e->last, "%s is missing, too long or not a text", keys[i]);
			return SPAR_OSINT_PARAMETER;
		}
	}
	if (!spar_osint_graph_add(&e->working, (struct spar_osint_edge){names[0], names[1], names[2]}, 1))
		return refuse(e, SPAR_OSINT_PRECONDITION, "the edge is there already");
	spar_osint_pay_edge(e);
	return SPAR_OSINT_OK;
}

/* The edges of the working graph join those that a claim states. */
static void add_working(const struct spar_osint_episode *e, struct spar_osint_claim *c)
{
	size_t n = (size_t)e->working.n_edges;
	c->edges = spar_realloc(c->edges, (c->n_edges + n + 1) * sizeof *c->edges);
	for (size_t i = 0; i < n; i++) {
		struct spar_osint_edge w = e->working.edges[i];
		const char *src = spar_osint_node_name(&e->working, w.src),
			   *rel = spar_osint_relation_name(&e->working, w.rel),
			   *dst = spar_osint_node_name(&e->working, w.dst);
		c->edges[c->n_edges++] = (struct spar_osint_edge){spar_osint_node(e->graph, src, strlen(src)),
								  spar_osint_relation(e->graph, rel, strlen(rel)),
								  spar_osint_node(e->graph, dst, strlen(dst))};
	}
}

/* An answer, with `payload` invalid: none, as the steps ran out. */
static enum spar_osint_invalid answer(struct spar_osint_episode *e, jv payload)
{
	struct spar_osint_claim c;
	bool timeout = !jv_is_valid(payload);
	spar_osint_claim_read(&c, e->graph, jv_copy(payload));
	if (!timeout && !c.answer.len) {
		spar_osint_claim_release(&c);
		return refuse(e, SPAR_OSINT_PARAMETER, "answer is missing, empty or not a text");
	}
	add_working(e, &c);
	e->success = spar_osint_task_answered(e->graph, &c, &e->task);
	e->f1 = spar_osint_f1(e->graph, &c, e->task.support, e->task.n_support);
	if (timeout)
		spar_osint_pay_timeout(e, &c);
	else
		spar_osint_pay_answer(e, &c);
	e->end = timeout ? SPAR_OSINT_OUT_OF_STEPS : SPAR_OSINT_ANSWERED;
	spar_osint_claim_release(&c);
	return SPAR_OSINT_OK;
}

static enum spar_osint_invalid propose(struct spar_osint_episode *e, jv payload)
{
	struct spar_osint_claim c;
	spar_osint_claim_read(&c, e->graph, jv_copy(payload));
	spar_osint_check(e->graph, &SPAR_OSINT_LIMITS, &c, &e->verdict);
	e->success = e->verdict.rung == SPAR_OSINT_VALID;
	e->end = SPAR_OSINT_PROPOSED;
	spar_osint_pay_proposal(e);
	spar_osint_claim_release(&c);
	return SPAR_OSINT_OK;
}

static enum spar_osint_invalid perform(struct spar_osint_episode *e, const struct action *a)
{
	switch (a->verb) {
	case SPAR_OSINT_CALL:
		return call_tool(e, a);
	case SPAR_OSINT_ADD:
		return add_edge(e, a);
	case SPAR_OSINT_ANSWER:
		return answer(e, a->payload);
	default:
		return propose(e, a->payload);
	}
}

/* Keep what was done for the observation. */
static void note(struct spar_osint_episode *e, const struct action *a)
{
	struct spar_osint_deed *d = &e->deeds[e->step++];
	*d = (struct spar_osint_deed){e->invalid == SPAR_OSINT_PARSE ? -1 : a->verb, SPAR_STR_INIT, e->reward};
	if (a->verb < 0 || jv_get_kind(a->payload) != JV_KIND_OBJECT) {
		spar_str_adds(&d->payload, "null");
		return;
	}
	jv text = jv_dump_string(jv_copy(a->payload), 0);
	spar_str_add(&d->payload, jv_string_value(text), (size_t)jv_string_length_bytes(jv_copy(text)));
	jv_free(text);
}

void spar_osint_episode_step(struct spar_osint_episode *e, jv object)
{
	struct action a;
	e->n_parts = 0;
	snprintf(e->last, sizeof e->last, "ok");
	e->invalid = read_action(e, object, &a);
	if (!e->invalid)
		e->invalid = perform(e, &a);
	if (e->invalid)
		spar_osint_pay_refusal(e, e->invalid == SPAR_OSINT_PRECONDITION);
	if (!e->end && e->step + 1 == e->max_steps)
		answer(e, jv_invalid());
	e->reward = 0;
	for (int i = 0; i < e->n_parts; i++)
		e->reward += e->parts[i].value;
	e->reward = round(e->reward * 1e6) / 1e6;
	e->total = round((e->total + e->reward) * 1e6) / 1e6;
	note(e, &a);
	jv_free(a.payload);
	jv_free(object);
}
