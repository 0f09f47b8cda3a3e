/* osint_replay.c - see osint_replay.h */
#include "rl/osint_replay.h"
#include "rl/osint_text.h"

#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- a completion as a task ---- */

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

void spar_osint_original_read(struct spar_osint_original_task *t, const char *text, size_t n, size_t most)
{
	static const char *const keys[] = {"question",   "answer",          "supporting_edges",
					   "tool_trace", "canonical_graph", NULL};
	*t = (struct spar_osint_original_task){.question = SPAR_STR_INIT, .answer = SPAR_STR_INIT};
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

void spar_osint_original_task_release(struct spar_osint_original_task *t)
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

struct spar_osint_edge spar_osint_original_ids(const struct spar_osint_graph *g, const struct spar_osint_triple *e)
{
	return (struct spar_osint_edge){spar_osint_node(g, e->src, strlen(e->src)),
					spar_osint_relation(g, e->rel, strlen(e->rel)),
					spar_osint_node(g, e->dst, strlen(e->dst))};
}

/* Whether the edges are in the graph, one behind the other. */
static bool traces(const struct spar_osint_graph *g, const struct spar_osint_triple *path, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (spar_osint_edge_find(g, spar_osint_original_ids(g, &path[i])) < 0 ||
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
		edges[i] = spar_osint_original_ids(g, &path[i]);
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
	bool ok = spar_osint_text_edges(rows, 1, &e) == 1 &&
		  spar_osint_edge_find(g, spar_osint_original_ids(g, e)) >= 0 && member_is(args, "node_id", e->src);
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

static bool trace_holds(const struct spar_osint_graph *g, const struct spar_osint_original_task *t,
			const char *question)
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

static bool has_duplicates(const struct spar_osint_original_task *t)
{
	for (size_t i = 0; i < t->n_support; i++)
		for (size_t j = 0; j < i; j++)
			if (spar_osint_triple_equal(&t->support[i], &t->support[j]))
				return true;
	return false;
}

size_t spar_osint_original_nodes(const struct spar_osint_original_task *t)
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

bool spar_osint_original_occurs(const char *text, const char *part)
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

double spar_osint_original_nearest(const struct spar_osint_original *o, const char *question, bool by_words)
{
	double most = 0;
	for (size_t i = 0; i < o->n_seen; i++)
		most = fmax(most, by_words ? spar_osint_text_jaccard(question, o->seen[i])
					   : spar_osint_original_similarity(o->formulas->graph, question, o->seen[i]));
	return most;
}

unsigned spar_osint_original_validate(const struct spar_osint_original *o, const struct spar_osint_original_task *t)
{
	const struct spar_osint_graph *g = o->formulas->graph;
	const struct spar_osint_original_opt *opt = &o->opt;
	struct spar_str question = SPAR_STR_INIT;
	size_t n = t->n_support, nodes = spar_osint_original_nodes(t);
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
		if (spar_osint_edge_find(g, spar_osint_original_ids(g, &t->support[i])) < 0)
			why |= SPAR_OSINT_O_UNSEEN;
	if (!replays)
		why |= SPAR_OSINT_O_NOT_REPLAYABLE;
	if (!traces(g, t->support, n) || n > 64 ||
	    count_paths(g, t->support, n, 0, spar_osint_original_ids(g, t->support).src, visited) != 1)
		why |= SPAR_OSINT_O_NOT_UNIQUE;
	if (t->answer.len && spar_osint_original_occurs(t->question.data, t->answer.data))
		why |= SPAR_OSINT_O_LEAKAGE;
	if (t->question.len && spar_osint_original_nearest(o, t->question.data, false) >= opt->duplicate)
		why |= SPAR_OSINT_O_DUPLICATE;
	spar_str_release(&question);
	return why;
}
