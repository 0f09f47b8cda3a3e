/* What the studied original pays, by its own figures (appendix A of the study). */
#include "rl/osint_original.h"
#include "rl/osint_text.h"
#include "osint_toy.h"
#include "unit.h"
#include <string.h>

#define COUNT(a) (sizeof(a) / sizeof *(a))
#define NEAR(got, want) CHECK_NEAR(got, want, 1.5e-6)

#define EDGES \
	"\"supporting_edges\":[{\"src\":\"alias_0_111\",\"rel\":\"alias_of\",\"dst\":\"user_0\"}," \
	"{\"src\":\"user_0\",\"rel\":\"connected_to\",\"dst\":\"user_1\"},{\"src\":\"user_1\",\"rel\":\"works_at\"," \
	"\"dst\":\"org_a\"}]"

static struct spar_osint_graph graph;
static struct spar_osint_reference formulas;
static char question[256];

static void build(void)
{
	struct spar_osint_edge path[3];
	struct spar_osint_signature q;
	struct spar_str s = SPAR_STR_INIT;
	build_toy(&graph, path);
	CHECK(spar_osint_signature_of(path, 3, &q));
	spar_osint_question(&graph, &q, &s);
	snprintf(question, sizeof question, "%s", s.data);
	spar_str_release(&s);
	spar_osint_reference_init(&formulas, &graph);
}

static double generator(struct spar_osint_original *o, const char *text, const char *judge)
{
	unsigned why;
	return spar_osint_original_generator(o, text, strlen(text), judge, &why);
}

/* The text of 629 characters of the study is not ours: its notes and telemetry are, and enough blanks to reach the cap of what
 * is paid for looks. */
static void write_valid(char *out, size_t size)
{
	snprintf(out, size,
		 "{\"question\":\"%s\",\"answer\":\"org_a\",\"task_type\":\"swarm_v2_3hop_trace\"," EDGES
		 ",\"tool_trace\":[],"
		 "\"subagent_outputs\":[\"path agent found alias owner\",\"question agent wrote text\"],"
		 "\"orchestrator\":{\"spawn_count\":3,\"finished_subtasks\":3,\"critical_steps\":2,\"breadth\":3,"
		 "\"depth\":1}}",
		 question);
}

static void test_valid(void)
{
	char text[2048];
	unsigned why;
	write_valid(text, sizeof text);
	struct spar_osint_original o = {.formulas = &formulas, .opt = SPAR_OSINT_ORIGINAL};
	double looks = 0.05 * fmin(1, spar_osint_text_signal(text, strlen(text)) / 0.25);
	NEAR(spar_osint_original_generator(&o, text, strlen(text), "user_9", &why) - looks, 0.967905 - 0.05);
	CHECK(why == 0);
	NEAR(generator(&o, text, "user_9"), -0.02); /* the same text again */
	spar_osint_original_release(&o);
	NEAR(generator(&o, text, "org_a") - looks, 0.767905 - 0.05);
	spar_osint_original_release(&o);
	o.opt.legacy = true;
	NEAR(generator(&o, text, "user_9"), 1.0);
	NEAR(generator(&o, text, "user_9"), 0.85);
	NEAR(generator(&o, "", "user_9"), -0.11);
	spar_osint_original_release(&o);
}

static void test_invalid(void)
{
	struct spar_osint_original o = {.formulas = &formulas, .opt = SPAR_OSINT_ORIGINAL};
	NEAR(generator(&o, "not json", ""), -0.8965);
	NEAR(generator(&o, "", ""), -1.15);
	NEAR(generator(&o, "{}", ""), -0.8385);
	/* more of a task is worth more, up to the gate */
	double last = -2;
	const char *const more[] = {"prose", "{\"question\":\"Who?\",\"answer\":\"org_a\"}",
				    "{\"question\":\"Who?\",\"answer\":\"org_a\"," EDGES "}"};
	for (size_t i = 0; i < COUNT(more); i++) {
		double now = generator(&o, more[i], "");
		CHECK(now > last && now < 0);
		last = now;
	}
	spar_osint_original_release(&o);
}

static double answerer(const char *text, double *f1)
{
	struct spar_osint_original o = {.formulas = &formulas, .opt = SPAR_OSINT_ORIGINAL};
	struct spar_osint_reply task = {
	    .question = "Which node is reached from alias_0_111 by alias_of -> connected_to -> works_at in 3 hops?",
	    .truth = "org_a",
	    .support = toy,
	    .n_support = 3,
	    .difficulty = SPAR_OSINT_HARD};
	bool right;
	o.opt.agents = 3;
	double reward = spar_osint_original_answerer(&o, text, strlen(text), task, f1, &right);
	CHECK(right == (strstr(text, "org_a\"") != NULL));
	return reward;
}

#define TELEMETRY(s, f, c, b, d) \
	"\"orchestrator\":{\"spawn_count\":" #s ",\"finished_subtasks\":" #f ",\"critical_steps\":" #c \
	",\"breadth\":" #b ",\"depth\":" #d "}"

static void test_answerer(void)
{
	double f1;
	NEAR(answerer("{\"answer\":\"org_a\"," EDGES ",\"orchestrator\":{}}", &f1), 0.824913);
	NEAR(f1, 1);
	NEAR(answerer("{\"answer\":\"org_a\"}", &f1), 0.657067);
	NEAR(f1, 0);
	NEAR(answerer("{\"answer\":\"org_b\"," TELEMETRY(9, 9, 1, 30, 1) "}", &f1), 0.781947);
	NEAR(answerer("{\"answer\":\"org_b\"," TELEMETRY(2, 2, 1, 2, 1) "}", &f1), 0.670493);
}

static void test_similarity(void)
{
	const struct spar_osint_edge hops[] = {graph.edges[0], graph.edges[1], graph.edges[2]};
	struct spar_osint_signature q;
	struct spar_str two = SPAR_STR_INIT;
	CHECK(spar_osint_signature_of(hops, 3, &q));
	q.hops = 2;
	q.relations[1] = q.relations[2]; /* alias_of, works_at */
	spar_osint_question(&graph, &q, &two);
	NEAR(spar_osint_original_similarity(&graph, question, question), 1);
	NEAR(spar_osint_original_similarity(&graph, question, two.data), 0.783333);
	NEAR(spar_osint_text_jaccard("Who owns alias_1?", "who OWNS it"), 0.5);
	spar_str_release(&two);
}

static void test_extraction(void)
{
	static const char *const cases[][2] = {
	    {"The answer is: user_7.", "The answer is: user_7"},
	    {"```json\n{\"answer\": \"user_7\"}\n```", "user_7"},
	    {"{\"answer\":\"user_7\",\"supporting_edges\":[", "{\"answer\":\"user_7\",\"supporting_edges\":["},
	    {"ANSWER = 'user_7'", "user_7"},
	    {"{\"a\":{\"answer\":\"inner\"}}", "inner"},
	    {"{\"answer\":null}", "None"},
	    {"{\"answer\":true}", "True"},
	    {"quote \" here {\"answer\":\"x\"}", "x"},
	    {"{\"broken \" {\"answer\":\"y\"}", "y"},
	    {"", ""}};
	for (size_t i = 0; i < COUNT(cases); i++) {
		struct spar_str s = SPAR_STR_INIT;
		spar_osint_text_answer(cases[i][0], strlen(cases[i][0]), &s);
		CHECK_STR(s.data, cases[i][1]);
		spar_str_release(&s);
	}
	static const char *const keys[] = {"question", "answer", NULL};
	const char *two = "{\"x\":1} and {\"question\":\"q\",\"answer\":\"a\"} or {\"answer\":2}";
	jv best = spar_osint_text_object(two, strlen(two), keys);
	CHECK(jv_get_kind(best) == JV_KIND_OBJECT && jv_object_has(jv_copy(best), jv_string("question")));
	jv_free(best);
}

static void test_telemetry(void)
{
	static const struct {
		const char *json;
		double want;
	} cases[] = {{"\"none\"", 0},  {"\"N/A\"", 0}, {"true", 1}, {"\"2 agents\"", 2}, {"null", 0},
		     {"\"1e999\"", 0}, {"-5", 0},      {"2.9", 2},  {"[]", 0},           {"1e400", 0}};
	for (size_t i = 0; i < COUNT(cases); i++) {
		jv o = jv_object_set(jv_object(), jv_string("spawn_count"), jv_parse(cases[i].json));
		double got = spar_osint_text_telemetry(o).spawned;
		CHECK(isfinite(got));
		if (strcmp(cases[i].json, "1e400") != 0)
			NEAR(got, cases[i].want);
		jv_free(o);
	}
	CHECK(spar_osint_text_telemetry(jv_null()).critical == 1);
}

int main(void)
{
	build();
	test_valid();
	test_invalid();
	test_answerer();
	test_similarity();
	test_extraction();
	test_telemetry();
	spar_osint_reference_release(&formulas);
	spar_osint_graph_release(&graph);
	return unit_done();
}
