/* The studied original's formulas: its own figures on a toy graph (appendix A of the study), and the exploits that they pay
 * for. */
#include "osint_toy.h"
#include "unit.h"

#define COUNT(a) (sizeof(a) / sizeof *(a))
#define NEAR(got, want) CHECK_NEAR(got, want, 1.5e-6)

static const struct spar_osint_triple *const path = toy; /* its first three edges */
static const char question[] =
    "Which node is reached from alias_0_111 by alias_of -> connected_to -> works_at in 3 hops?";

static double answer(const struct spar_osint_reference *r, const char *text, size_t n_edges, int difficulty)
{
	struct spar_osint_reply reply = {.question = question,
					 .answer = text,
					 .truth = "org_a",
					 .predicted = path,
					 .n_predicted = n_edges,
					 .support = path,
					 .n_support = 3,
					 .tool_dump = "",
					 .step = 1,
					 .difficulty = difficulty};
	struct spar_osint_reference_parts parts;
	spar_osint_reference_answer(r, &reply, &parts);
	return parts.total;
}

static void test_answers(const struct spar_osint_reference *r)
{
	static const struct {
		const char *text;
		size_t n_edges;
		double want[3];
	} cases[] = {{"org_a", 3, {0.676996, 0.756760, 0.774913}},
		     {"org_a", 0, {0.676996, 0.621284, 0.607067}},
		     {"org_b", 0, {0.417025, 0.358933, 0.345247}},
		     {"", 0, {0.335146, 0.282925, 0.270912}}};
	for (size_t i = 0; i < COUNT(cases); i++)
		for (int d = 0; d < 3; d++)
			NEAR(answer(r, cases[i].text, cases[i].n_edges, d), cases[i].want[d]);
}

static void test_parts(const struct spar_osint_reference *r)
{
	const struct spar_osint_triple other[] = {toy[0], toy[1], toy[5]};
	struct spar_osint_reply reply = {.question = question,
					 .answer = "org_a",
					 .truth = "org_a",
					 .predicted = other,
					 .n_predicted = 3,
					 .support = path,
					 .n_support = 3,
					 .tool_dump = "[{\"profile\":\"USER_0\",\"org\":\"org_a\"}]",
					 .step = 4,
					 .difficulty = SPAR_OSINT_HARD};
	struct spar_osint_reference_parts p;
	spar_osint_reference_answer(r, &reply, &p);
	NEAR(p.indexing, 0.128571);
	NEAR(p.connectivity, -0.30);
	NEAR(p.graph_f1, 0.366667);
	NEAR(p.efficiency, 0.03);
	NEAR(p.relation, 0.048381);
	NEAR(p.entity, -0.041699);
	NEAR(p.total, 0.734185);
	reply.predicted = path;
	spar_osint_reference_answer(r, &reply, &p);
	NEAR(p.format, 0.15);
	NEAR(p.correctness, 1.15);
	NEAR(p.carrier, 0.5);
	NEAR(p.connectivity, 0);
	NEAR(p.graph_f1, 0.55);
	NEAR(p.entity, -0.045850);
}

static void test_edges(const struct spar_osint_reference *r)
{
	static const struct spar_osint_triple plausible = {"user_0", "works_at", "org_a"},
					      nonsense = {"nobody", "likes", "nothing"};
	static const double want[4][3] = {{0.610639, 0.645656, 0.658136},
					  {0.462570, 0.469413, 0.476591},
					  {0.462570, 0.437823, 0.453917},
					  {0.462570, 0.475021, 0.483761}};
	for (int d = 0; d < 3; d++) {
		NEAR(spar_osint_reference_edge(r, &path[0], true, NULL, 0, 1, d), want[0][d]);
		NEAR(spar_osint_reference_edge(r, &plausible, false, NULL, 0, 1, d), want[1][d]);
		NEAR(spar_osint_reference_edge(r, &nonsense, false, NULL, 0, 1, d), want[2][d]);
		NEAR(spar_osint_reference_edge(r, &toy[5], false, NULL, 0, 1, d), want[3][d]);
	}
	NEAR(spar_osint_reference_edge(r, &path[1], true, path, 1, 2, SPAR_OSINT_HARD), 0.645275);
}

/* W1: seventeen invented edges and a wrong answer are paid several times what an honest solution is. */
static void test_junk_edges_pay(const struct spar_osint_reference *r)
{
	struct spar_osint_triple junk[17];
	char names[17][16];
	double farmed = answer(r, "org_b", 0, SPAR_OSINT_HARD), honest = answer(r, "org_a", 3, SPAR_OSINT_HARD);
	for (int i = 0; i < 17; i++) {
		snprintf(names[i], sizeof names[i], "nobody_%d", i);
		junk[i] = (struct spar_osint_triple){names[i], "likes", "nothing"};
		farmed += spar_osint_reference_edge(r, &junk[i], false, junk, (size_t)i, i + 1, SPAR_OSINT_HARD);
	}
	for (size_t i = 0; i < 3; i++)
		honest += spar_osint_reference_edge(r, &path[i], true, path, i, (int)i + 1, SPAR_OSINT_HARD);
	CHECK(farmed > 7 && honest < 3);
}

static void test_parl(void)
{
	static const struct {
		struct spar_osint_telemetry t;
		int hint;
		double want;
	} cases[] = {{{2, 2, 1, 2, 1}, 3, 0.325246}, {{8, 8, 1, 20, 1}, 3, 0.434502},
		     {{0, 0, 1, 0, 0}, 3, 0.05},     {{4, 4, 3, 3, 2}, 4, 0.342043},
		     {{3, 3, 2, 3, 1}, 4, 0.331612}, {{1000, 1000, 1, 1000, 1}, 3, 0.44}};
	for (size_t i = 0; i < COUNT(cases); i++)
		NEAR(spar_osint_reference_parl(&cases[i].t, cases[i].hint).aux, cases[i].want);
}

int main(void)
{
	struct spar_osint_graph g;
	struct spar_osint_reference r;
	build_toy(&g, NULL);
	spar_osint_reference_init(&r, &g);
	NEAR(r.idf_max, 2.386294);
	NEAR(r.idf[spar_osint_relation(&g, "works_at", 8)], 1.693147);
	NEAR(r.idf[spar_osint_relation(&g, "located_in", 10)], 1.980829);
	NEAR(r.hub[spar_osint_node(&g, "user_2", 6)], 1.098612);
	test_answers(&r);
	test_parts(&r);
	test_edges(&r);
	test_junk_edges_pay(&r);
	test_parl();
	spar_osint_reference_release(&r);
	spar_osint_graph_release(&g);
	return unit_done();
}
