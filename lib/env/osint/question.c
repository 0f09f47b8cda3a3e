/* question.c - questions as text and back, see osint.h */
#include "env/osint/osint.h"
#include "env/osint/token.h"
#include <string.h>

void spar_osint_question(const struct spar_osint_graph *g, const struct spar_osint_signature *q, struct spar_str *out)
{
	spar_str_addf(out, "Which node %s %s by ", q->inverse ? "leads to" : "is reached from",
		      spar_osint_node_name(g, q->start));
	for (int i = 0; i < q->hops; i++)
		spar_str_addf(out, "%s%s", i ? " then " : "", spar_osint_relation_name(g, q->relations[i]));
	spar_str_addc(out, '?');
}

bool spar_osint_question_read(const struct spar_osint_graph *g, const char *text, size_t n,
			      struct spar_osint_signature *q)
{
	struct spar_osint_token t = {text, n, NULL, 0};
	bool leads = false;
	*q = (struct spar_osint_signature){.start = -1};
	int hops = 0;
	while (spar_osint_token_next(&t)) {
		int32_t node = spar_osint_node(g, t.at, t.len), rel = spar_osint_relation(g, t.at, t.len);
		if (node >= 0 && q->start >= 0)
			return false;
		if (node >= 0)
			q->start = node;
		else if (rel >= 0 && hops == SPAR_OSINT_HOPS_MAX)
			return false;
		else if (rel >= 0)
			q->relations[hops++] = rel;
		else if (q->start < 0)
			leads |= t.len == 5 && !memcmp(t.at, "leads", 5);
	}
	q->inverse = leads;
	if (q->start >= 0 && (!leads || hops == 1))
		q->hops = hops;
	return q->hops > 0;
}
