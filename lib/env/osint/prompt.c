/* prompt.c - what a model is shown, and what an ideal one answers; see osint.h */
#include "env/osint/osint.h"
#include "env/osint/tools.h"
#include <string.h>

static const char answerer_system[] = "Answer the question from the edges. An edge is [from, relation, to].\n"
				      "Reply with one JSON object: {\"supporting_edges\":[...],\"answer\":A}\n"
				      "supporting_edges: the edges that lead to the answer, in order";

static const char tools_system[] = "Answer the question with the help of tools. An edge is [from, relation, to].\n"
				   "Reply with one JSON object: {\"tool\":T,\"args\":{...}} to call a tool,\n"
				   "at the end {\"supporting_edges\":[...],\"answer\":A}\n"
				   "supporting_edges: the edges that lead to the answer, in order\n"
				   "tools and their arguments:";

static const char generator_system[] =
    "Write a question about the edges that is hard and has one answer. An edge is [from, relation, to].\n"
    "Reply with one JSON object: {\"supporting_edges\":[...],\"answer\":A,\"question\":Q}\n"
    "supporting_edges: a path, each edge begins where the one before ends\n"
    "answer: the end of the path\n"
    "question: Which node is reached from START by RELATION then RELATION?";

static const char own_graph_line[] = "\ncanonical_graph: {\"edges\":[...]}, edges of your own, if the path uses any";

static void add_message(struct spar_str *out, const char *role, const struct spar_str *content)
{
	spar_str_addf(out, "{\"role\":\"%s\",\"content\":", role);
	spar_str_add_json(out, content->data, content->len);
	spar_str_addc(out, '}');
}

static void add_edges(const struct spar_osint_prompt *p, struct spar_str *out)
{
	for (int i = 0; i < p->n_context; i++) {
		spar_osint_edge_array(p->graph, p->graph->edges[p->context[i]], out);
		spar_str_addc(out, '\n');
	}
}

static void ask_for_task(const struct spar_osint_prompt *p, struct spar_str *out)
{
	size_t n = p->n_avoid < SPAR_OSINT_AVOID_MAX ? p->n_avoid : SPAR_OSINT_AVOID_MAX;
	for (size_t i = 0; i < n; i++)
		spar_str_addf(out, "%s%s\n", i ? "" : "asked before:\n", p->avoid[i]);
	if (p->hops)
		spar_str_addf(out, "write a question of %d hop%s", p->hops, p->hops > 1 ? "s" : "");
	else
		spar_str_adds(out, "write a question");
}

void spar_osint_prompt(const struct spar_osint_prompt *p, struct spar_str *out)
{
	bool generator = p->role == SPAR_OSINT_GENERATOR;
	struct spar_str system = SPAR_STR_INIT, user = SPAR_STR_INIT;
	spar_str_adds(&system, generator ? generator_system : p->tools ? tools_system : answerer_system);
	if (generator && p->own_graph)
		spar_str_adds(&system, own_graph_line);
	if (!generator && p->tools)
		spar_osint_tool_list(&system);
	else
		add_edges(p, &user);
	if (p->packets)
		spar_str_addf(&user, "%s\n", p->packets);
	if (generator)
		ask_for_task(p, &user);
	else
		spar_str_adds(&user, p->question);
	spar_str_addc(out, '[');
	add_message(out, "system", &system);
	spar_str_addc(out, ',');
	add_message(out, "user", &user);
	spar_str_addc(out, ']');
	spar_str_release(&system);
	spar_str_release(&user);
}

void spar_osint_ideal(enum spar_osint_role role, const struct spar_osint_graph *g, const struct spar_osint_task *t,
		      struct spar_str *out)
{
	const char *answer = spar_osint_node_name(g, t->answer);
	spar_str_adds(out, "{\"supporting_edges\":[");
	for (int i = 0; i < t->n_support; i++) {
		spar_str_adds(out, i ? "," : "");
		spar_osint_edge_array(g, g->edges[t->support[i]], out);
	}
	spar_str_adds(out, "],\"answer\":");
	spar_str_add_json(out, answer, strlen(answer));
	if (role == SPAR_OSINT_GENERATOR) {
		spar_str_adds(out, ",\"question\":");
		spar_str_add_json(out, t->question.data, t->question.len);
	}
	spar_str_addc(out, '}');
}
