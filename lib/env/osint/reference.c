#include "env/osint/reference.h"

#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static double sigmoid(double x)
{
	return x >= 0 ? 1 / (1 + exp(-x)) : exp(x) / (1 + exp(x));
}

static double clip(double x, double lo, double hi)
{
	return x < lo ? lo : x > hi ? hi : x;
}

/* ---- what the graph says about relations and nodes ---- */

static int32_t *kind_count(const struct spar_osint_reference *r, int32_t rel, int src_kind, int dst_kind)
{
	return &r->of_kind[(rel * SPAR_OSINT_KINDS + src_kind) * SPAR_OSINT_KINDS + dst_kind];
}

void spar_osint_reference_init(struct spar_osint_reference *r, const struct spar_osint_graph *g)
{
	size_t n_rel = (size_t)g->relations.n, n_nodes = (size_t)g->nodes.n;
	*r = (struct spar_osint_reference){
	    .graph = g,
	    .idf = spar_calloc(n_rel + 1, sizeof *r->idf),
	    .hub = spar_calloc(n_nodes + 1, sizeof *r->hub),
	    .count = spar_calloc(n_rel + 1, sizeof *r->count),
	    .of_kind = spar_calloc(n_rel * SPAR_OSINT_KINDS * SPAR_OSINT_KINDS + 1, sizeof *r->of_kind)};
	for (int32_t i = 0; i < g->n_edges; i++) {
		struct spar_osint_edge e = g->edges[i];
		r->count[e.rel]++;
		(*kind_count(r, e.rel, g->kinds[e.src], g->kinds[e.dst]))++;
		r->hub[e.src]++;
		r->hub[e.dst]++;
	}
	double all = g->n_edges > 1 ? g->n_edges : 1;
	for (size_t i = 0; i < n_rel; i++) {
		r->idf[i] = log((1 + all) / (1 + r->count[i])) + 1;
		r->idf_max = fmax(r->idf_max, r->idf[i]);
	}
	for (size_t i = 0; i < n_nodes; i++) {
		r->hub[i] = log(1 + r->hub[i]);
		r->hub_max = fmax(r->hub_max, r->hub[i]);
	}
}

void spar_osint_reference_release(struct spar_osint_reference *r)
{
	free(r->idf);
	free(r->hub);
	free(r->count);
	free(r->of_kind);
	*r = (struct spar_osint_reference){0};
}

static int32_t node(const struct spar_osint_reference *r, const char *name)
{
	return spar_osint_node(r->graph, name, strlen(name));
}

static int32_t relation(const struct spar_osint_reference *r, const char *name)
{
	return spar_osint_relation(r->graph, name, strlen(name));
}

static double relation_info(const struct spar_osint_reference *r, const struct spar_osint_triple *e)
{
	int32_t rel = relation(r, e->rel);
	return (rel < 0 ? 1.0 : r->idf[rel]) / fmax(1e-6, r->idf_max);
}

static double hub(const struct spar_osint_reference *r, const char *name)
{
	int32_t i = node(r, name);
	return i < 0 ? 0 : r->hub[i];
}

static double entity_info(const struct spar_osint_reference *r, const struct spar_osint_triple *e)
{
	return 1 - (hub(r, e->src) + hub(r, e->dst)) / 2 / fmax(1e-6, r->hub_max);
}

/* ---- edges as texts ---- */

bool spar_osint_triple_equal(const struct spar_osint_triple *a, const struct spar_osint_triple *b)
{
	return !strcmp(a->src, b->src) && !strcmp(a->rel, b->rel) && !strcmp(a->dst, b->dst);
}

static bool among(const struct spar_osint_triple *e, const struct spar_osint_triple *set, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (spar_osint_triple_equal(e, &set[i]))
			return true;
	return false;
}

/* Members of `a`, each once; if `in` is not NULL only those that are in it. */
static size_t distinct(const struct spar_osint_triple *a, size_t n, const struct spar_osint_triple *in, size_t n_in)
{
	size_t count = 0;
	for (size_t i = 0; i < n; i++)
		count += !among(&a[i], a, i) && (!in || among(&a[i], in, n_in));
	return count;
}

double spar_osint_reference_f1(const struct spar_osint_triple *a, size_t n_a, const struct spar_osint_triple *b,
			       size_t n_b)
{
	if (!n_a && !n_b)
		return 1;
	if (!n_a || !n_b)
		return 0;
	return 2.0 * (double)distinct(a, n_a, b, n_b) / (double)(distinct(a, n_a, NULL, 0) + distinct(b, n_b, NULL, 0));
}

/* Whether a walk along `edges`, in any direction, leads from one name to the other. */
static bool connected(const char *from, const char *to, const struct spar_osint_triple *edges, size_t n)
{
	bool *used = spar_calloc(n + 1, sizeof *used), found = !strcmp(from, to);
	const char **reached = spar_malloc((2 * n + 1) * sizeof *reached);
	size_t n_reached = 1;
	reached[0] = from;
	for (size_t at = 0; at < n_reached && !found; at++)
		for (size_t i = 0; i < n && !found; i++) {
			bool out = !strcmp(edges[i].src, reached[at]), in = !strcmp(edges[i].dst, reached[at]);
			if (used[i] || !(out || in))
				continue;
			used[i] = true;
			reached[n_reached++] = out ? edges[i].dst : edges[i].src;
			found = !strcmp(reached[n_reached - 1], to);
		}
	free(used);
	free(reached);
	return found;
}

/* ---- names of entities in a text ---- */

static bool is_word(char c)
{
	return isalnum((unsigned char)c) || c == '_';
}

size_t spar_osint_reference_entity(const char *text, size_t *at)
{
	static const char *const prefixes[] = {"alias_", "user_", "org_", "loc_", "post_", "thr_", "thread_", "event_"};
	for (size_t i = *at; text[i];) {
		size_t n = 0;
		while (is_word(text[i + n]))
			n++;
		for (size_t p = 0; n && p < sizeof prefixes / sizeof *prefixes; p++) {
			size_t len = strlen(prefixes[p]);
			if (n > len && !strncmp(text + i, prefixes[p], len)) {
				*at = i;
				return n;
			}
		}
		i += n ? n : 1;
	}
	return 0;
}

/* The distinct entities of the question, and last the truth, as strings of their own; returns how many. */
static size_t seeds(const char *question, const char *truth, char ***out)
{
	char **names = NULL;
	size_t n = 0, len, at = 0;
	for (; (len = spar_osint_reference_entity(question, &at)); at += len) {
		char *name = spar_calloc(len + 1, 1);
		memcpy(name, question + at, len);
		bool known = truth && !strcmp(name, truth);
		for (size_t i = 0; i < n && !known; i++)
			known = !strcmp(names[i], name);
		if (known) {
			free(name);
			continue;
		}
		names = spar_realloc(names, (n + 1) * sizeof *names);
		names[n++] = name;
	}
	if (truth) {
		names = spar_realloc(names, (n + 1) * sizeof *names);
		names[n++] = spar_strdup(truth);
	}
	*out = names;
	return n;
}

static void free_names(char **names, size_t n)
{
	for (size_t i = 0; i < n; i++)
		free(names[i]);
	free(names);
}

/* ---- answers ---- */

/* In [-1, 1]: how many of question's entities and truth hang together in the predicted edges. */
static double connectivity(const struct spar_osint_reply *reply)
{
	char **names;
	size_t n = seeds(reply->question, reply->truth, &names), most = 1;
	for (size_t i = 0; i < n; i++) {
		size_t c = 0;
		for (size_t j = 0; j < n; j++)
			c += connected(names[i], names[j], reply->predicted, reply->n_predicted);
		most = c > most ? c : most;
	}
	free_names(names, n);
	double lo = -floor((double)n / 2), hi = ceil((double)n / 2) - 1;
	if (n <= 1 || hi <= lo)
		return 0;
	return 2 * (lo + (double)most - 1 - lo) / (hi - lo) - 1;
}

static bool deducible(const struct spar_osint_reply *reply)
{
	if (strcmp(reply->answer, reply->truth) != 0)
		return false;
	if (distinct(reply->predicted, reply->n_predicted, reply->support, reply->n_support))
		return true;
	char **names;
	size_t n = seeds(reply->question, NULL, &names);
	bool found = false;
	for (size_t i = 0; i < n && !found; i++)
		found = connected(names[i], reply->answer, reply->predicted, reply->n_predicted);
	free_names(names, n);
	return found;
}

static char *lower(const char *s)
{
	char *copy = spar_strdup(s);
	for (char *c = copy; *c; c++)
		*c = (char)tolower((unsigned char)*c);
	return copy;
}

/* Share of the names in answer and support that occur in the tools' outputs. */
static double recall(const struct spar_osint_reply *reply)
{
	size_t n = 0, n_found = 0, cap = 3 * reply->n_support + 1;
	char **terms = spar_malloc(cap * sizeof *terms), *dump = lower(reply->tool_dump);
	for (size_t i = 0; i < cap; i++) {
		const struct spar_osint_triple *e = i ? &reply->support[(i - 1) / 3] : NULL;
		char *term = lower(!e ? reply->truth : (i - 1) % 3 == 0 ? e->src : (i - 1) % 3 == 1 ? e->rel : e->dst);
		bool known = false;
		for (size_t j = 0; j < n && !known; j++)
			known = !strcmp(terms[j], term);
		if (known) {
			free(term);
			continue;
		}
		n_found += strstr(dump, term) != NULL;
		terms[n++] = term;
	}
	free_names(terms, n);
	free(dump);
	return (double)n_found / (double)n;
}

static double repetition(const struct spar_osint_reply *reply)
{
	size_t n = 0;
	if (reply->n_predicted <= 1)
		return 0;
	for (size_t i = 0; i < reply->n_predicted; i++) {
		bool known = false;
		for (size_t j = 0; j < i && !known; j++)
			known = !strcmp(reply->predicted[i].rel, reply->predicted[j].rel);
		n += !known;
	}
	return 1 - (double)n / (double)reply->n_predicted;
}

/* Mean over the predicted edges, less a half; 0 without edges. */
static double mean_info(const struct spar_osint_reference *r, const struct spar_osint_reply *reply,
			double (*info)(const struct spar_osint_reference *, const struct spar_osint_triple *))
{
	double sum = 0;
	if (!reply->n_predicted)
		return 0;
	for (size_t i = 0; i < reply->n_predicted; i++)
		sum += info(r, &reply->predicted[i]);
	return sum / (double)reply->n_predicted - 0.5;
}

void spar_osint_reference_answer(const struct spar_osint_reference *r, const struct spar_osint_reply *reply,
				 struct spar_osint_reference_parts *out)
{
	/* easy, medium, hard */
	static const double carrier[] = {0, 1, 1}, indexing[] = {0.25, 0.45, 0.45}, connection[] = {0, 0.18, 0.30},
			    evidence[] = {0, 0.35, 0.55}, speed[] = {0.18, 0.12, 0.12}, excess[] = {0, -0.04, -0.05},
			    information[] = {0, 0, 0.12}, repeats[] = {0, 0, -0.10};
	int d = reply->difficulty;
	double more = (double)reply->n_predicted - (double)reply->n_support;
	*out = (struct spar_osint_reference_parts){
	    .format = *reply->answer ? 0.15 : -0.55,
	    .correctness = !strcmp(reply->answer, reply->truth) ? 1.15 : -1.0,
	    .carrier = carrier[d] * (deducible(reply) ? 0.50 : -0.25),
	    .indexing = indexing[d] * recall(reply),
	    .connectivity = connection[d] * connectivity(reply),
	    .graph_f1 = evidence[d] *
			spar_osint_reference_f1(reply->predicted, reply->n_predicted, reply->support, reply->n_support),
	    .efficiency = speed[d] / (reply->step > 1 ? reply->step : 1),
	    .compactness = excess[d] * fmax(0, more),
	    .relation = information[d] * mean_info(r, reply, relation_info),
	    .entity = information[d] * mean_info(r, reply, entity_info),
	    .repetition = repeats[d] * repetition(reply)};
	out->total =
	    sigmoid((out->format + out->correctness + out->carrier + out->indexing + out->connectivity + out->graph_f1 +
		     out->efficiency + out->compactness + out->relation + out->entity + out->repetition) /
		    2);
}

/* ---- edges ---- */

/* In [0, 1]: how plausible the edge is by the graph. */
static double plausibility(const struct spar_osint_reference *r, const struct spar_osint_triple *e)
{
	struct spar_osint_edge ids = {node(r, e->src), relation(r, e->rel), node(r, e->dst)};
	if (ids.src < 0 || ids.dst < 0)
		return 0;
	if (spar_osint_edge_find(r->graph, ids) >= 0)
		return 1;
	const uint8_t *kinds = r->graph->kinds;
	double prior = ids.rel < 0 || !r->count[ids.rel]
			   ? 0
			   : (double)*kind_count(r, ids.rel, kinds[ids.src], kinds[ids.dst]) / r->count[ids.rel];
	bool owned = !strcmp(e->rel, "alias_of") && !strncmp(e->src, "alias_", 6) && !strncmp(e->dst, "user_", 5);
	return clip(0.1 + 0.65 * prior + 0.2 * owned + 0.1 * (ids.rel >= 0), 0, 1);
}

static bool same_prefix(const char *a, const char *b)
{
	size_t n = strcspn(a, "_");
	return n == strcspn(b, "_") && !strncmp(a, b, n);
}

/* Cosine of two edges' signatures: 2 for the relation, 1 for the kind of source, 1 for that of the end. A source and an end
 * of one kind are different features. */
static double likeness(const struct spar_osint_triple *a, const struct spar_osint_triple *b)
{
	return (4.0 * !strcmp(a->rel, b->rel) + same_prefix(a->src, b->src) + same_prefix(a->dst, b->dst)) / 6;
}

double spar_osint_reference_edge(const struct spar_osint_reference *r, const struct spar_osint_triple *edge, bool truth,
				 const struct spar_osint_triple *earlier, size_t n_earlier, int step, int difficulty)
{
	bool easy = difficulty == SPAR_OSINT_EASY, hard = difficulty == SPAR_OSINT_HARD;
	double sum = truth ? (easy ? 0.75 : 0.85) : (easy ? -0.45 : -0.55);
	sum += (easy ? 0.15 : 0.10) / (step > 1 ? step : 1);
	if (!easy) {
		sum += 0.30 * ((truth ? 1 : plausibility(r, edge)) - 0.5);
		sum += !strcmp(edge->src, edge->dst)                         ? -0.06
		       : connected(edge->src, edge->dst, earlier, n_earlier) ? -0.03
									     : 0.10;
	}
	if (hard) {
		double alike = 0;
		for (size_t i = 0; i < n_earlier; i++)
			alike += likeness(edge, &earlier[i]);
		sum += n_earlier ? 0.14 * (1 - alike / (double)n_earlier - 0.5) : 0.08;
		sum += 0.12 * (relation_info(r, edge) - 0.5) + 0.12 * (entity_info(r, edge) - 0.5);
	}
	return sigmoid(sum / 2);
}

/* ---- team work, as it is claimed ---- */

struct spar_osint_parl spar_osint_reference_parl(const struct spar_osint_telemetry *t, int hint)
{
	struct spar_osint_parl p = {0};
	if (t->spawned > 0) {
		p.parallel = tanh(t->spawned / 4) * (hint > 0 ? 0.7 + 0.3 * fmin(1, t->spawned / hint) : 1);
		p.finish = fmin(1, t->finished / t->spawned);
	}
	p.aux = 0.15 * p.parallel + 0.20 * p.finish + 0.05 / fmax(1, t->critical);
	if (t->breadth > 0)
		p.aux += 0.04 * tanh(t->breadth / 6);
	if (t->depth > 0)
		p.aux -= 0.03 * tanh(fmax(0, t->depth - 1) / 4);
	return p;
}
