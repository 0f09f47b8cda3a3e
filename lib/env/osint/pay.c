/* pay.c - see pay.h. The sound profile pays for the end alone and takes for what is refused or repeated; the reference
 * profile pays as the original did (see reference.h). */
#include "env/osint/pay.h"
#include "env/osint/reference.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

static void pay(struct spar_osint_episode *e, const char *name, double value)
{
	e->parts[e->n_parts++] = (struct spar_osint_part){name, round(value * 1e6) / 1e6};
}

static bool original(const struct spar_osint_episode *e)
{
	return e->how.profile == SPAR_OSINT_REFERENCE;
}

void spar_osint_pay_refusal(struct spar_osint_episode *e, bool duplicate)
{
	if (!original(e))
		pay(e, "invalid", -0.05);
	else if (duplicate)
		pay(e, "duplicate_edge_penalty", -0.15);
	else
		pay(e, "invalid_tool_penalty", -0.25);
}

void spar_osint_pay_proposal(struct spar_osint_episode *e)
{
	pay(e, "validity", (double)e->verdict.rung / SPAR_OSINT_VALID);
}

/* ---- the original's ---- */

static struct spar_osint_triple triple(const struct spar_osint_graph *g, struct spar_osint_edge e)
{
	return (struct spar_osint_triple){spar_osint_node_name(g, e.src), spar_osint_relation_name(g, e.rel),
					  spar_osint_node_name(g, e.dst)};
}

/* Edges of a graph as triples; the caller frees. `edges` NULL: the first `n` of them. */
static struct spar_osint_triple *triples(const struct spar_osint_graph *g, const int32_t *edges, size_t n)
{
	struct spar_osint_triple *out = spar_calloc(n + 1, sizeof *out);
	for (size_t i = 0; i < n; i++)
		out[i] = triple(g, g->edges[edges ? edges[i] : (int32_t)i]);
	return out;
}

static void add_lower(struct spar_str *out, const char *text)
{
	for (; *text; text++)
		spar_str_addc(out, *text >= 'A' && *text <= 'Z' ? *text + 'a' - 'A' : *text);
}

/* Share of the task's clues (answer and the names of its edges) that the output of a call holds. */
static double relevance(const struct spar_osint_episode *e, const struct spar_str *output)
{
	const char *clues[3 * SPAR_OSINT_SUPPORT_MAX + 1];
	size_t n = 0, found = 0;
	struct spar_str text = SPAR_STR_INIT;
	clues[n++] = spar_osint_node_name(e->graph, e->task.answer);
	for (int i = 0; i < e->task.n_support; i++) {
		struct spar_osint_triple t = triple(e->graph, e->graph->edges[e->task.support[i]]);
		const char *const names[] = {t.src, t.rel, t.dst};
		for (int k = 0; k < 3; k++) {
			size_t at = 0;
			while (at < n && strcmp(clues[at], names[k]) != 0)
				at++;
			if (at == n)
				clues[n++] = names[k];
		}
	}
	add_lower(&text, output->data);
	for (size_t i = 0; i < n; i++) {
		struct spar_str clue = SPAR_STR_INIT;
		add_lower(&clue, clues[i]);
		found += strstr(text.data, clue.data) != NULL;
		spar_str_release(&clue);
	}
	spar_str_release(&text);
	return (double)found / (double)n;
}

void spar_osint_pay_call(struct spar_osint_episode *e, bool again)
{
	if (original(e)) {
		pay(e, "tool_novelty", again ? -0.20 : 0.05);
		pay(e, "tool_relevance", 0.08 * relevance(e, &e->calls[e->n_calls - 1].output));
	} else if (again) {
		pay(e, "redundant", -0.05);
	}
}

void spar_osint_pay_edge(struct spar_osint_episode *e)
{
	if (!original(e))
		return;
	size_t n = (size_t)e->working.n_edges - 1;
	bool truth = false;
	struct spar_osint_reference ref;
	struct spar_osint_triple *added = triples(&e->working, NULL, n + 1);
	struct spar_osint_triple *support = triples(e->graph, e->task.support, (size_t)e->task.n_support);
	for (int i = 0; i < e->task.n_support; i++)
		truth |= spar_osint_triple_equal(&support[i], &added[n]);
	spar_osint_reference_init(&ref, e->graph);
	pay(e, "edge", spar_osint_reference_edge(&ref, &added[n], truth, added, n, e->step + 1, e->task.difficulty));
	spar_osint_reference_release(&ref);
	free(added);
	free(support);
}

/* The components as they are weighted, and what squashing their sum makes of it. */
static void pay_original_answer(struct spar_osint_episode *e, const struct spar_osint_claim *c)
{
	struct spar_osint_reference ref;
	struct spar_osint_reference_parts parts;
	struct spar_str dump = SPAR_STR_INIT;
	for (size_t i = 0; i < e->n_calls; i++)
		spar_str_addf(&dump, "%s\n", e->calls[i].output.data);
	struct spar_osint_triple *added = triples(&e->working, NULL, (size_t)e->working.n_edges);
	struct spar_osint_triple *support = triples(e->graph, e->task.support, (size_t)e->task.n_support);
	struct spar_osint_reply reply = {.question = e->task.question.data,
					 .answer = c->answer.data,
					 .truth = spar_osint_node_name(e->graph, e->task.answer),
					 .predicted = added,
					 .n_predicted = (size_t)e->working.n_edges,
					 .support = support,
					 .n_support = (size_t)e->task.n_support,
					 .tool_dump = dump.data,
					 .step = e->step + 1,
					 .difficulty = e->task.difficulty};
	spar_osint_reference_init(&ref, e->graph);
	spar_osint_reference_answer(&ref, &reply, &parts);
	spar_osint_reference_release(&ref);
	pay(e, "answer", parts.total);
	free(added);
	free(support);
	spar_str_release(&dump);
}

/* ---- the end ---- */

void spar_osint_pay_answer(struct spar_osint_episode *e, const struct spar_osint_claim *c)
{
	if (original(e)) {
		pay_original_answer(e, c);
		return;
	}
	double plain = spar_osint_answer_reward(c->answer.len > 0, e->success, 0, e->task.difficulty);
	pay(e, "answer", plain);
	pay(e, "evidence", spar_osint_answer_reward(c->answer.len > 0, e->success, e->f1, e->task.difficulty) - plain);
}

void spar_osint_pay_timeout(struct spar_osint_episode *e, const struct spar_osint_claim *c)
{
	if (original(e))
		pay(e, "timeout", -0.3);
	else if (e->how.role == SPAR_OSINT_ANSWERER)
		spar_osint_pay_answer(e, c);
}
