/* claim.c - what a model wrote, and whether it holds; see osint.h */
#include "env/osint/osint.h"
#include "env/osint/token.h"
#include "record/record.h"
#include <stdlib.h>
#include <string.h>

/* ---- reading ---- */

static bool blank(char c)
{
	return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

/* Cut bytes of `set` off both ends. */
static void strip(struct spar_str *s, const char *set)
{
	size_t from = 0, to = s->len;
	while (from < to && strchr(set, s->data[from]) && s->data[from])
		from++;
	while (to > from && strchr(set, s->data[to - 1]) && s->data[to - 1])
		to--;
	if (!s->len)
		return;
	memmove(s->data, s->data + from, to - from);
	s->len = to - from;
	s->data[s->len] = 0;
}

void spar_osint_normalize(struct spar_str *s)
{
	size_t n = 0;
	strip(s, " \t\r\n");
	strip(s, "\"");
	strip(s, "'");
	for (size_t i = 0; i < s->len; i++)
		if (!blank(s->data[i]) || (n && s->data[n - 1] != ' '))
			s->data[n++] = (char)(blank(s->data[i]) ? ' ' : s->data[i]);
	while (n && (s->data[n - 1] == '.' || s->data[n - 1] == ' '))
		n--;
	if (s->len)
		s->data[s->len = n] = 0;
}

static void read_text(jv object, const char *key, struct spar_str *out)
{
	const char *text;
	size_t n;
	if (spar_has(object, key) && spar_get_str(object, "", key, &text, &n, NULL) == 0)
		spar_str_add(out, text, n);
	spar_osint_normalize(out);
}

static void read_edges(struct spar_osint_claim *c, const struct spar_osint_graph *g, jv object)
{
	jv list = jv_object_get(jv_copy(object), jv_string("supporting_edges"));
	if (jv_get_kind(list) == JV_KIND_ARRAY) {
		int n = jv_array_length(jv_copy(list));
		c->has_edges = true;
		c->edges = spar_calloc((size_t)n + 1, sizeof *c->edges);
		for (int i = 0; i < n; i++) {
			jv value = jv_array_get(jv_copy(list), i);
			if (spar_osint_edge_read(g, value, &c->edges[c->n_edges]))
				c->n_edges++;
			else
				c->n_malformed++;
			jv_free(value);
		}
	}
	jv_free(list);
}

void spar_osint_claim_read(struct spar_osint_claim *c, const struct spar_osint_graph *g, jv object)
{
	*c = (struct spar_osint_claim){.question = SPAR_STR_INIT, .answer = SPAR_STR_INIT};
	c->json = jv_get_kind(object) == JV_KIND_OBJECT;
	if (c->json) {
		read_text(object, "question", &c->question);
		read_text(object, "answer", &c->answer);
		read_edges(c, g, object);
	}
	jv_free(object);
}

void spar_osint_claim_release(struct spar_osint_claim *c)
{
	spar_str_release(&c->question);
	spar_str_release(&c->answer);
	free(c->edges);
	c->edges = NULL;
}

/* ---- answers ---- */

bool spar_osint_answered(const struct spar_osint_graph *g, const struct spar_osint_claim *c, int32_t answer)
{
	struct spar_str name = SPAR_STR_INIT;
	spar_str_adds(&name, spar_osint_node_name(g, answer));
	spar_osint_normalize(&name);
	bool same = answer >= 0 && name.len == c->answer.len && !memcmp(name.data, c->answer.data, name.len);
	spar_str_release(&name);
	return same;
}

bool spar_osint_task_answered(const struct spar_osint_graph *g, const struct spar_osint_claim *c,
			      const struct spar_osint_task *t)
{
	bool right = spar_osint_answered(g, c, t->answer);
	for (size_t i = 0; i < t->n_answers && !right; i++)
		right = spar_osint_answered(g, c, t->answers[i]);
	return right;
}

static int compare_edges(const void *a, const void *b)
{
	return memcmp(a, b, sizeof(struct spar_osint_edge));
}

/* The stated edges without those stated twice, sorted; the caller frees. Edges that hold an unknown name are taken for
 * different: nothing is known about them. */
static struct spar_osint_edge *distinct(const struct spar_osint_claim *c, size_t *n)
{
	struct spar_osint_edge *edges = spar_malloc((c->n_edges + 1) * sizeof *edges);
	*n = 0;
	if (c->n_edges)
		memcpy(edges, c->edges, c->n_edges * sizeof *edges);
	qsort(edges, c->n_edges, sizeof *edges, compare_edges);
	for (size_t i = 0; i < c->n_edges; i++) {
		bool unknown = edges[i].src < 0 || edges[i].rel < 0 || edges[i].dst < 0;
		if (unknown || *n == 0 || compare_edges(&edges[i], &edges[*n - 1]) != 0)
			edges[(*n)++] = edges[i];
	}
	return edges;
}

double spar_osint_f1(const struct spar_osint_graph *g, const struct spar_osint_claim *c, const int32_t *support,
		     int n_support)
{
	size_t n, hits = 0;
	struct spar_osint_edge *edges = distinct(c, &n);
	for (int i = 0; i < n_support; i++)
		hits += bsearch(&g->edges[support[i]], edges, n, sizeof *edges, compare_edges) != NULL;
	free(edges);
	n += c->n_malformed;
	if (n + (size_t)n_support == 0)
		return 1;
	return 2 * (double)hits / (double)(n + (size_t)n_support);
}

double spar_osint_answer_reward(bool answered, bool right, double f1, int difficulty)
{
	static const double weight[] = {[SPAR_OSINT_EASY] = 0.15, [SPAR_OSINT_MEDIUM] = 0.35, [SPAR_OSINT_HARD] = 0.55};
	return (!answered ? -0.1 : right ? 1 : 0) + weight[difficulty] * f1;
}

/* ---- tasks ---- */

const char *const spar_osint_rungs[] = {"not_json", "json",   "schema",   "known", "contiguous",
					"ends",     "unique", "unleaked", "valid", NULL};

const char *spar_osint_reason(unsigned bit)
{
	static const char *const names[] = {"not_json",
					    "missing_question_or_answer",
					    "malformed_support_edges",
					    "unseen_nodes_or_edges",
					    "not_contiguous",
					    "question_mismatch",
					    "answer_not_path_end",
					    "non_unique_end",
					    "answer_leakage",
					    "context_or_support_budget_overflow"};
	for (size_t i = 0; i < sizeof names / sizeof *names; i++)
		if (bit == 1u << i)
			return names[i];
	return "";
}

/* Whether `word` stands in the text as whole tokens. */
static bool says(const struct spar_str *text, const struct spar_str *word)
{
	if (!word->len)
		return false;
	for (size_t i = 0; i + word->len <= text->len; i++) {
		bool starts = i == 0 || !spar_osint_token_byte(text->data[i - 1]);
		size_t end = i + word->len;
		if (starts && !memcmp(text->data + i, word->data, word->len) &&
		    (end == text->len || !spar_osint_token_byte(text->data[end])))
			return true;
	}
	return false;
}

static unsigned check_edges(const struct spar_osint_graph *g, const struct spar_osint_limits *limits,
			    const struct spar_osint_claim *c, struct spar_osint_verdict *v)
{
	unsigned reasons = 0;
	size_t n_distinct;
	free(distinct(c, &n_distinct));
	if (!c->n_edges || c->n_malformed || n_distinct != c->n_edges)
		reasons |= SPAR_OSINT_R_MALFORMED;
	for (size_t i = 0; i < c->n_edges; i++) {
		bool known = spar_osint_edge_find(g, c->edges[i]) >= 0;
		if (!known)
			reasons |= SPAR_OSINT_R_UNSEEN;
		else if (i == 0 || c->edges[i - 1].dst == c->edges[i].src)
			v->n_true_on_path++;
	}
	if (!spar_osint_signature_of(c->edges, c->n_edges, &v->signature))
		reasons |= SPAR_OSINT_R_BROKEN;
	if (c->n_edges > (size_t)limits->max_hops || c->n_edges + 1 > (size_t)limits->max_nodes)
		reasons |= SPAR_OSINT_R_OVERFLOW;
	return reasons;
}

/* Whether the question is, but for blanks, what this library would ask for the path: word for word. If the names
 * in it were enough, a generator would sooner or later put them into any sentence. */
static bool asks_for(const struct spar_osint_graph *g, const struct spar_osint_claim *c,
		     const struct spar_osint_signature *path)
{
	struct spar_str text = SPAR_STR_INIT;
	bool known = path->hops && path->start >= 0;
	for (int i = 0; i < path->hops; i++)
		known &= path->relations[i] >= 0;
	if (known)
		spar_osint_question(g, path, &text);
	spar_osint_normalize(&text);
	bool same = text.len && text.len == c->question.len && !memcmp(text.data, c->question.data, text.len);
	spar_str_release(&text);
	return same;
}

static unsigned check_question(const struct spar_osint_graph *g, const struct spar_osint_claim *c,
			       const struct spar_osint_verdict *v)
{
	unsigned reasons = 0;
	struct spar_osint_ends ends;
	if (!asks_for(g, c, &v->signature))
		reasons |= SPAR_OSINT_R_OTHER_QUESTION;
	if (!c->n_edges || !spar_osint_answered(g, c, c->edges[c->n_edges - 1].dst))
		reasons |= SPAR_OSINT_R_WRONG_END;
	spar_osint_solve(g, &v->signature, &ends);
	if (ends.n_ends != 1)
		reasons |= SPAR_OSINT_R_AMBIGUOUS;
	if (says(&c->question, &c->answer))
		reasons |= SPAR_OSINT_R_LEAKED;
	return reasons;
}

void spar_osint_check(const struct spar_osint_graph *g, const struct spar_osint_limits *limits,
		      const struct spar_osint_claim *c, struct spar_osint_verdict *v)
{
	/* What keeps a task on each rung from the next one. */
	static const unsigned stops[] = {[SPAR_OSINT_NOT_JSON] = SPAR_OSINT_R_NOT_JSON,
					 [SPAR_OSINT_JSON] = SPAR_OSINT_R_MISSING | SPAR_OSINT_R_MALFORMED,
					 [SPAR_OSINT_SCHEMA] = SPAR_OSINT_R_UNSEEN,
					 [SPAR_OSINT_KNOWN] = SPAR_OSINT_R_BROKEN | SPAR_OSINT_R_OTHER_QUESTION,
					 [SPAR_OSINT_CONTIGUOUS] = SPAR_OSINT_R_WRONG_END,
					 [SPAR_OSINT_ENDS] = SPAR_OSINT_R_AMBIGUOUS,
					 [SPAR_OSINT_UNIQUE] = SPAR_OSINT_R_LEAKED,
					 [SPAR_OSINT_UNLEAKED] = SPAR_OSINT_R_OVERFLOW};
	*v = (struct spar_osint_verdict){.signature.start = -1};
	if (!c->json) {
		v->reasons = SPAR_OSINT_R_NOT_JSON;
		return;
	}
	if (!c->question.len || !c->answer.len)
		v->reasons |= SPAR_OSINT_R_MISSING;
	v->reasons |= check_edges(g, limits, c, v);
	v->reasons |= check_question(g, c, v);
	v->rung = SPAR_OSINT_JSON;
	while (v->rung < SPAR_OSINT_VALID && !(v->reasons & stops[v->rung]))
		v->rung++;
}
