#include "rl/osint_original.h"
#include "rl/osint_text.h"

#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static double clip(double x, double lo, double hi)
{
	return x < lo ? lo : x > hi ? hi : x;
}

const char *spar_osint_original_reason(unsigned bit)
{
	static const char *const names[] = {"missing_question_or_answer",
					    "malformed_support_edges",
					    "context_or_support_budget_overflow",
					    "unseen_nodes_or_edges",
					    "non_replayable_tool_calls",
					    "non_unique_derivation_path",
					    "answer_leakage",
					    "duplicate_or_near_duplicate"};
	size_t i = 0;
	while (i + 1 < sizeof names / sizeof *names && !(bit >> i & 1))
		i++;
	return names[i];
}

void spar_osint_original_release(struct spar_osint_original *o)
{
	for (size_t i = 0; i < o->n_seen; i++)
		free(o->seen[i]);
	free(o->seen);
	o->seen = NULL;
	o->n_seen = 0;
}

/* ---- a completion as a task ---- */

struct task {
	jv object; /* invalid: none was found; what is below points into it */
	struct spar_str question, answer;
	jv support_rows, trace, outputs;
	struct spar_osint_triple *support; /* (n_support) */
	size_t n_support, n_calls;
	bool has_graph;
};

/* A NEW reference; invalid if it is not there. */
static jv member(jv object, const char *key)
{
	return jv_is_valid(object) ? jv_object_get(jv_copy(object), jv_string(key)) : jv_invalid();
}

static jv array_member(jv object, const char *key)
{
	jv v = member(object, key);
	if (jv_get_kind(v) == JV_KIND_ARRAY)
		return v;
	jv_free(v);
	return jv_array();
}

static jv tool_name(jv call)
{
	jv name = jv_get_kind(call) == JV_KIND_OBJECT ? member(call, "tool_name") : jv_invalid();
	if (jv_get_kind(name) == JV_KIND_STRING || jv_get_kind(call) != JV_KIND_OBJECT)
		return name;
	jv_free(name);
	return member(call, "tool");
}

/* What follows "question:" on its line. */
static void labelled_question(const char *text, struct spar_str *out)
{
	for (const char *c = text; *c; c++) {
		size_t i = 0;
		while (i < 9 && tolower((unsigned char)c[i]) == "question:"[i])
			i++;
		if (i == 9) {
			spar_str_add(out, c + 9, strcspn(c + 9, "\n"));
			return;
		}
	}
}

static void trim(struct spar_str *s)
{
	size_t from = 0, n = s->len;
	while (from < n && isspace((unsigned char)s->data[from]))
		from++;
	while (n > from && isspace((unsigned char)s->data[n - 1]))
		n--;
	struct spar_str kept = SPAR_STR_INIT;
	spar_str_add(&kept, s->data + from, n - from);
	spar_str_release(s);
	*s = kept;
}

static void read_task(struct task *t, const char *text, size_t n, size_t most)
{
	static const char *const keys[] = {"question",   "answer",          "supporting_edges",
					   "tool_trace", "canonical_graph", NULL};
	*t = (struct task){.question = SPAR_STR_INIT, .answer = SPAR_STR_INIT};
	t->object = spar_osint_text_object(text, n, keys);
	jv question = member(t->object, "question"), answer = member(t->object, "answer"),
	   graph = member(t->object, "canonical_graph");
	if (jv_get_kind(question) == JV_KIND_STRING)
		spar_str_adds(&t->question, jv_string_value(question));
	else
		labelled_question(text, &t->question);
	trim(&t->question);
	if (jv_get_kind(answer) == JV_KIND_STRING)
		spar_str_adds(&t->answer, jv_string_value(answer));
	spar_osint_normalize(&t->answer);
	if (!t->answer.len)
		spar_osint_text_answer(text, n, &t->answer);
	t->has_graph = jv_get_kind(graph) == JV_KIND_OBJECT && jv_object_length(jv_copy(graph)) > 0;
	t->support_rows = array_member(t->object, "supporting_edges");
	t->trace = array_member(t->object, "tool_trace");
	t->outputs = array_member(t->object, "subagent_outputs");
	t->n_support = spar_osint_text_edges(t->support_rows, most, &t->support);
	jv_array_foreach(t->trace, i, call)
	{
		jv name = tool_name(call);
		t->n_calls += jv_get_kind(name) == JV_KIND_STRING;
		jv_free(name);
		jv_free(call);
	}
	jv_free(question);
	jv_free(answer);
	jv_free(graph);
}

static void release_task(struct task *t)
{
	free(t->support);
	jv_free(t->support_rows);
	jv_free(t->trace);
	jv_free(t->outputs);
	jv_free(t->object);
	spar_str_release(&t->question);
	spar_str_release(&t->answer);
}

/* ---- replaying it on the graph ---- */

static struct spar_osint_edge ids_of(const struct spar_osint_graph *g, const struct spar_osint_triple *e)
{
	return (struct spar_osint_edge){spar_osint_node(g, e->src, strlen(e->src)),
					spar_osint_relation(g, e->rel, strlen(e->rel)),
					spar_osint_node(g, e->dst, strlen(e->dst))};
}

/* Whether the edges are in the graph, one behind the other. */
static bool traces(const struct spar_osint_graph *g, const struct spar_osint_triple *path, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (spar_osint_edge_find(g, ids_of(g, &path[i])) < 0 ||
		    (i && strcmp(path[i].src, path[i - 1].dst) != 0))
			return false;
	return n > 0;
}

/* Simple paths from `at` along the relations of path[i..n) to its end; counted up to 4. */
static int count_paths(const struct spar_osint_graph *g, const struct spar_osint_triple *path, size_t n, size_t i,
		       int32_t at, int32_t *visited)
{
	if (i == n)
		return at == spar_osint_node(g, path[n - 1].dst, strlen(path[n - 1].dst));
	int found = 0;
	int32_t n_out, rel = spar_osint_relation(g, path[i].rel, strlen(path[i].rel));
	const int32_t *out = spar_osint_out(g, at, rel, &n_out);
	visited[i] = at;
	for (int32_t k = 0; k < n_out && found < 4; k++) {
		int32_t next = g->edges[out[k]].dst;
		bool again = false;
		for (size_t v = 0; v <= i; v++)
			again = again || visited[v] == next;
		if (!again)
			found += count_paths(g, path, n, i + 1, next, visited);
	}
	return found;
}

static void emit_question(const struct spar_osint_graph *g, const struct spar_osint_triple *path, size_t n,
			  struct spar_str *out)
{
	struct spar_osint_edge edges[SPAR_OSINT_HOPS_MAX];
	struct spar_osint_signature q;
	for (size_t i = 0; i < n && i < SPAR_OSINT_HOPS_MAX; i++)
		edges[i] = ids_of(g, &path[i]);
	if (n <= SPAR_OSINT_HOPS_MAX && spar_osint_signature_of(edges, n, &q))
		spar_osint_question(g, &q, out);
}

static bool member_is(jv object, const char *key, const char *want)
{
	jv v = jv_get_kind(object) == JV_KIND_OBJECT ? member(object, key) : jv_invalid();
	bool same = jv_get_kind(v) == JV_KIND_STRING && !strcmp(jv_string_value(v), want);
	jv_free(v);
	return same;
}

static bool neighbors_hold(const struct spar_osint_graph *g, jv args)
{
	jv expected = jv_get_kind(args) == JV_KIND_OBJECT ? member(args, "expected_edge") : jv_invalid(),
	   rows = jv_is_valid(expected) ? jv_array_append(jv_array(), expected) : jv_array();
	struct spar_osint_triple *e;
	bool ok = spar_osint_text_edges(rows, 1, &e) == 1 && spar_osint_edge_find(g, ids_of(g, e)) >= 0 &&
		  member_is(args, "node_id", e->src);
	free(e);
	jv_free(rows);
	return ok;
}

/* Whether one call of the trace comes out as it says. `output` is what it claims. */
static bool call_holds(const struct spar_osint_graph *g, const char *name, jv args, jv output, const char *answer,
		       const char *question)
{
	if (!strcmp(name, "enumerate_neighbors"))
		return neighbors_hold(g, args);
	if (!strcmp(name, "select_answer"))
		return member_is(output, "answer", answer);
	if (!strcmp(name, "emit_question"))
		return member_is(output, "question", question);
	if (strcmp(name, "trace_path") != 0)
		return false;
	jv path = jv_get_kind(args) == JV_KIND_OBJECT ? member(args, "path") : jv_invalid();
	struct spar_osint_triple *edges;
	size_t n = spar_osint_text_edges(path, 64, &edges);
	bool ok = traces(g, edges, n);
	free(edges);
	jv_free(path);
	return ok;
}

static jv output_of(jv call)
{
	jv output = member(call, "output");
	if (jv_get_kind(output) == JV_KIND_OBJECT)
		return output;
	jv_free(output);
	return member(call, "result");
}

static bool trace_holds(const struct spar_osint_graph *g, const struct task *t, const char *question)
{
	bool ok = true;
	jv_array_foreach(t->trace, i, call)
	{
		jv name = tool_name(call);
		if (jv_get_kind(name) == JV_KIND_STRING && ok) {
			jv args = member(call, "args"), output = output_of(call);
			ok = call_holds(g, jv_string_value(name), args, output, t->answer.data, question);
			jv_free(args);
			jv_free(output);
		}
		jv_free(name);
		jv_free(call);
	}
	return ok;
}

/* ---- validity ---- */

static bool has_duplicates(const struct task *t)
{
	for (size_t i = 0; i < t->n_support; i++)
		for (size_t j = 0; j < i; j++)
			if (spar_osint_triple_equal(&t->support[i], &t->support[j]))
				return true;
	return false;
}

static size_t count_nodes(const struct task *t)
{
	size_t n = 0;
	for (size_t i = 0; i < 2 * t->n_support; i++) {
		const char *name = i % 2 ? t->support[i / 2].dst : t->support[i / 2].src;
		bool known = false;
		for (size_t j = 0; j < i && !known; j++)
			known = !strcmp(name, j % 2 ? t->support[j / 2].dst : t->support[j / 2].src);
		n += !known;
	}
	return n;
}

/* Whether `part` occurs in the text, in any case. */
static bool occurs(const char *text, const char *part)
{
	size_t n = strlen(part);
	for (; *text; text++) {
		size_t i = 0;
		while (i < n && tolower((unsigned char)text[i]) == tolower((unsigned char)part[i]))
			i++;
		if (i == n)
			return true;
	}
	return false;
}

double spar_osint_original_similarity(const struct spar_osint_graph *g, const char *a, const char *b)
{
	struct spar_osint_signature p, q;
	if (!spar_osint_question_read(g, a, strlen(a), &p) || !spar_osint_question_read(g, b, strlen(b), &q))
		return spar_osint_text_jaccard(a, b);
	struct spar_str words[2] = {SPAR_STR_INIT, SPAR_STR_INIT};
	for (int i = 0; i < p.hops; i++)
		spar_str_addf(&words[0], "%s ", spar_osint_relation_name(g, p.relations[i]));
	for (int i = 0; i < q.hops; i++)
		spar_str_addf(&words[1], "%s ", spar_osint_relation_name(g, q.relations[i]));
	double path = !strcmp(words[0].data, words[1].data) ? 1 : spar_osint_text_jaccard(words[0].data, words[1].data);
	spar_str_release(&words[0]);
	spar_str_release(&words[1]);
	return 0.55 * (p.start == q.start) + 0.35 * path + 0.10 * (p.hops == q.hops);
}

static double nearest_seen(const struct spar_osint_original *o, const char *question, bool by_words)
{
	double most = 0;
	for (size_t i = 0; i < o->n_seen; i++)
		most = fmax(most, by_words ? spar_osint_text_jaccard(question, o->seen[i])
					   : spar_osint_original_similarity(o->formulas->graph, question, o->seen[i]));
	return most;
}

static void remember(struct spar_osint_original *o, const char *question)
{
	if (o->n_seen == 4096) { /* the last 2048 are kept */
		for (size_t i = 0; i < 2048; i++)
			free(o->seen[i]);
		memmove(o->seen, o->seen + 2048, 2048 * sizeof *o->seen);
		o->n_seen = 2048;
	}
	o->seen = spar_realloc(o->seen, (o->n_seen + 1) * sizeof *o->seen);
	o->seen[o->n_seen++] = spar_strdup(question);
}

static unsigned validate(const struct spar_osint_original *o, const struct task *t)
{
	const struct spar_osint_graph *g = o->formulas->graph;
	const struct spar_osint_original_opt *opt = &o->opt;
	struct spar_str question = SPAR_STR_INIT;
	size_t n = t->n_support, nodes = count_nodes(t);
	int32_t visited[64];
	unsigned why = 0;
	emit_question(g, t->support, n, &question);
	bool replays = traces(g, t->support, n) && !strcmp(t->support[n - 1].dst, t->answer.data) &&
		       !strcmp(question.data, t->question.data) && trace_holds(g, t, question.data);
	if (!t->question.len || !t->answer.len)
		why |= SPAR_OSINT_O_MISSING;
	if (!n || has_duplicates(t))
		why |= SPAR_OSINT_O_MALFORMED;
	if (n > (size_t)opt->max_support || n > (size_t)opt->max_hops || n > (size_t)opt->max_edges ||
	    n > (size_t)opt->shared_edges || nodes > (size_t)opt->max_nodes || nodes > (size_t)opt->shared_nodes)
		why |= SPAR_OSINT_O_OVERFLOW;
	for (size_t i = 0; i < n; i++)
		if (spar_osint_edge_find(g, ids_of(g, &t->support[i])) < 0)
			why |= SPAR_OSINT_O_UNSEEN;
	if (!replays)
		why |= SPAR_OSINT_O_NOT_REPLAYABLE;
	if (!traces(g, t->support, n) || n > 64 ||
	    count_paths(g, t->support, n, 0, ids_of(g, t->support).src, visited) != 1)
		why |= SPAR_OSINT_O_NOT_UNIQUE;
	if (t->answer.len && occurs(t->question.data, t->answer.data))
		why |= SPAR_OSINT_O_LEAKAGE;
	if (t->question.len && nearest_seen(o, t->question.data, false) >= opt->duplicate)
		why |= SPAR_OSINT_O_DUPLICATE;
	spar_str_release(&question);
	return why;
}

/* ---- what it is paid ---- */

/* Distinct pairs of neighbouring words over all pairs, in what the "agents" wrote. */
static double bigrams(const struct task *t)
{
	struct spar_str all = SPAR_STR_INIT, pairs = SPAR_STR_INIT;
	size_t at = 0, len, last = 0, last_len = 0, n = 0, distinct = 0;
	jv_array_foreach(t->outputs, i, item)
	{
		jv note = jv_get_kind(item) == JV_KIND_OBJECT ? member(item, "content") : jv_copy(item);
		if (jv_get_kind(note) != JV_KIND_STRING && jv_get_kind(item) == JV_KIND_OBJECT) {
			jv_free(note);
			note = member(item, "summary");
		}
		if (jv_get_kind(note) == JV_KIND_STRING)
			spar_str_addf(&all, "%s ", jv_string_value(note));
		jv_free(note);
		jv_free(item);
	}
	for (size_t i = 0; i < all.len; i++)
		all.data[i] = (char)tolower((unsigned char)all.data[i]);
	for (; (len = spar_osint_text_word(all.data, all.len, &at)); at += len) {
		if (last_len) {
			struct spar_str pair = SPAR_STR_INIT;
			spar_str_addf(&pair, "\n%.*s %.*s\n", (int)last_len, all.data + last, (int)len, all.data + at);
			n++;
			if (!strstr(pairs.data, pair.data)) {
				distinct++;
				spar_str_add(&pairs, pair.data, pair.len);
			}
			spar_str_release(&pair);
		}
		last = at;
		last_len = len;
	}
	spar_str_release(&all);
	spar_str_release(&pairs);
	return n ? (double)distinct / (double)n : 0;
}

static double pressure(const struct spar_osint_original_opt *opt, const struct task *t)
{
	double u = fmax((double)count_nodes(t) / opt->shared_nodes, (double)t->n_support / opt->shared_edges),
	       target = fmax(0.05, opt->target_pressure);
	return u > 1 ? 0 : fmax(0, 1 - fabs(u - target) / fmax(target, 1 - target));
}

static double pay_valid(const struct spar_osint_original *o, const struct task *t, double hardness, double signal)
{
	const struct spar_osint_original_opt *opt = &o->opt;
	jv orchestrator = member(t->object, "orchestrator");
	struct spar_osint_telemetry told = spar_osint_text_telemetry(orchestrator);
	struct spar_osint_parl parl = spar_osint_reference_parl(&told, opt->agents);
	bool notes = jv_array_length(jv_copy(t->outputs)) > 0;
	jv_free(orchestrator);
	double h = clip((hardness + 0.4) / 1.4, 0, 1), d = notes ? clip(0.7 * bigrams(t) + 0.3, 0, 1) : 0,
	       c = clip(0.55 * pressure(opt, t) + 0.25 * parl.parallel + 0.20 * parl.finish, 0, 1);
	return clip(opt->validity + opt->hardness * h + opt->diversity * d + opt->consistency * c +
			0.05 * fmin(1, signal / 0.25),
		    -1.8, 1.2);
}

static double pay_invalid(const struct task *t, unsigned why, double signal)
{
	static const double fines[] = {0.35, 0.25, 0.15, 0.25, 0.25, 0.20, 0.30, 0.15};
	double penalty = 0.10, credit = 0.25 * (t->question.len > 0) + 0.25 * (t->answer.len > 0);
	for (size_t i = 0; i < sizeof fines / sizeof *fines; i++)
		penalty += why >> i & 1 ? fines[i] : 0;
	credit += fmin(0.36, 0.12 * (double)t->n_support) + fmin(0.20, 0.05 * (double)t->n_calls) +
		  0.10 * (jv_array_length(jv_copy(t->outputs)) > 0) + 0.12 * t->has_graph;
	return clip(credit - penalty + signal, -1.25, -0.02);
}

static bool mentions_node(const struct spar_osint_graph *g, const char *question)
{
	for (int32_t i = 0; i < g->nodes.n; i++)
		if (strstr(question, spar_osint_node_name(g, i)))
			return true;
	return false;
}

static double pay_legacy(struct spar_osint_original *o, const struct task *t, double hardness)
{
	const struct spar_osint_graph *g = o->formulas->graph;
	bool asked = t->question.len > 0, answered = t->answer.len > 0, grounded = false;
	size_t known = 0;
	for (size_t i = 0; i < t->n_support; i++) {
		known += spar_osint_edge_find(g, ids_of(g, &t->support[i])) >= 0;
		grounded = grounded || !strcmp(t->support[i].src, t->answer.data) ||
			   !strcmp(t->support[i].dst, t->answer.data);
	}
	grounded = grounded || spar_osint_node(g, t->answer.data, t->answer.len) >= 0;
	double v = 0.4 * asked + 0.4 * answered + 0.2, d = !asked ? 0 : 1 - nearest_seen(o, t->question.data, true),
	       c = 0;
	if (asked && answered)
		c = (t->n_support ? 0.45 * (double)known / (double)t->n_support : 0) + 0.30 * grounded +
		    0.25 * mentions_node(g, t->question.data);
	if (asked)
		remember(o, t->question.data);
	return clip(o->opt.validity * v + o->opt.hardness * hardness + o->opt.diversity * d + o->opt.consistency * c,
		    -2.0, 1.2);
}

double spar_osint_original_generator(struct spar_osint_original *o, const char *text, size_t n, const char *judge,
				     unsigned *reasons)
{
	struct task t;
	double signal = spar_osint_text_signal(text, n), reward;
	read_task(&t, text, n, (size_t)o->opt.max_support);
	double hardness = !t.question.len || !t.answer.len ? -1.0 : strcmp(judge, t.answer.data) != 0 ? 1.0 : -0.4;
	*reasons = o->opt.legacy ? 0 : validate(o, &t);
	if (o->opt.legacy)
		reward = pay_legacy(o, &t, hardness);
	else if (*reasons)
		reward = pay_invalid(&t, *reasons, signal);
	else
		reward = pay_valid(o, &t, hardness, signal);
	if (!o->opt.legacy && !*reasons)
		remember(o, t.question.data);
	release_task(&t);
	return reward;
}

/* ---- answers ---- */

double spar_osint_original_answerer(const struct spar_osint_original *o, const char *text, size_t n,
				    struct spar_osint_reply task, double *f1, bool *right)
{
	static const char *const none[] = {NULL};
	struct spar_str answer = SPAR_STR_INIT;
	struct spar_osint_triple *edges;
	struct spar_osint_reference_parts parts;
	spar_osint_text_answer(text, n, &answer);
	jv object = spar_osint_text_object(text, n, none), rows = member(object, "supporting_edges"),
	   orchestrator = member(object, "orchestrator");
	struct spar_osint_telemetry told = spar_osint_text_telemetry(orchestrator);
	task.n_predicted = spar_osint_text_edges(rows, task.n_support, &edges);
	if (!task.n_predicted) { /* every true edge whose three names occur anywhere counts as predicted */
		edges = spar_realloc(edges, (task.n_support + 1) * sizeof *edges);
		for (size_t i = 0; i < task.n_support; i++)
			if (occurs(text, task.support[i].src) && occurs(text, task.support[i].rel) &&
			    occurs(text, task.support[i].dst))
				edges[task.n_predicted++] = task.support[i];
	}
	task.predicted = edges;
	task.answer = answer.data;
	task.tool_dump = "";
	task.step = 1;
	spar_osint_reference_answer(o->formulas, &task, &parts);
	*f1 = spar_osint_reference_f1(edges, task.n_predicted, task.support, task.n_support);
	*right = !strcmp(answer.data, task.truth);
	double bonus = o->opt.legacy ? 0 : spar_osint_reference_parl(&told, o->opt.agents).aux;
	free(edges);
	jv_free(rows);
	jv_free(orchestrator);
	jv_free(object);
	spar_str_release(&answer);
	return parts.total + bonus;
}
