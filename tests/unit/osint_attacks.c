/* The ways in which the studied original's self-play could be farmed: under `sound` none pays more than honest play. Prints the
 * figures of both profiles. */
#include "osint_scored.h"

/* An attack beside honest play: `sound` pays it no more. Returns what the original pays for both. */
struct paid {
	double honest, attack;
};
static struct paid compare(const char *what, enum spar_osint_role role, const char *attack, const char *judge)
{
	double good = score_with(role, SPAR_OSINT_SOUND, false, honest[role].data, judge),
	       bad = score_with(role, SPAR_OSINT_SOUND, false, attack, judge);
	struct paid p = {score_with(role, SPAR_OSINT_REFERENCE, false, honest[role].data, judge),
			 score_with(role, SPAR_OSINT_REFERENCE, false, attack, judge)};
	printf("%-44s sound %7.4f, honest %7.4f | reference %7.4f, honest %7.4f\n", what, bad, good, p.attack,
	       p.honest);
	CHECK(bad <= good);
	return p;
}

/* The honest text with `more` as a further member. */
static char *with(enum spar_osint_role role, const char *more)
{
	struct spar_str s = SPAR_STR_INIT;
	spar_str_add(&s, honest[role].data, honest[role].len - 1);
	spar_str_addf(&s, ",%s}", more);
	return spar_str_detach(&s);
}

#define CLAIMS(s, c, b) \
	"\"orchestrator\":{\"spawn_count\":" s ",\"finished_subtasks\":" s ",\"critical_steps\":" c ",\"breadth\":" b \
	"}"

/* ---- on the generator's reward ---- */

static void attack_with_stories(void)
{
	const enum spar_osint_role g = SPAR_OSINT_GENERATOR;
	char *told = with(g, CLAIMS("1000", "1", "1000")),
	     *noted = with(g, "\"subagent_outputs\":[\"one two three four\"]");
	struct paid p = compare("W5 generator: invented team work", g, told, WRONG);
	CHECK(p.attack > p.honest + 0.05);
	p = compare("W6 notes of any words", g, noted, WRONG);
	CHECK(p.attack > p.honest + 0.1);
	free(told);
	free(noted);
}

static void attack_with_copies(void)
{
	const char *same[4] = {honest[1].data, honest[1].data, honest[1].data, honest[1].data};
	double paid[2][4];
	for (int profile = 0; profile < 2; profile++) {
		struct spar_osint_scorer *s = scorer(SPAR_OSINT_GENERATOR, (enum spar_osint_profile)profile, false);
		jv scored = score_group(s, records[1].data, same, 4, WRONG);
		for (int i = 0; i < 4; i++)
			paid[profile][i] = reward_at(scored, i);
		jv_free(scored);
		spar_osint_scorer_free(s);
	}
	printf("%-44s sound %7.4f four times | reference %7.4f, then %7.4f\n", "W3 one task four times in a group",
	       paid[0][0], paid[1][0], paid[1][1]);
	for (int i = 1; i < 4; i++) {
		CHECK(paid[0][i] == paid[0][0]);
		CHECK(paid[1][i] < 0 && paid[1][0] > 0);
	}
	CHECK(paid[0][0] <= score_with(SPAR_OSINT_GENERATOR, SPAR_OSINT_SOUND, false, honest[1].data, WRONG));
}

/* What stands in the prompt, copied: there is no filled example. The original's prompt held one, made of the candidate. */
static void attack_with_prompt(void)
{
	jv record = jv_parse(records[1].data), messages = jv_object_get(record, jv_string("messages"));
	jv_array_foreach(messages, i, message)
	{
		jv content = jv_object_get(message, jv_string("content"));
		double paid =
		    score_with(SPAR_OSINT_GENERATOR, SPAR_OSINT_SOUND, false, jv_string_value(content), WRONG);
		printf("%-44s sound %7.4f | reference %7.4f: its example was the candidate\n", "W2 the prompt copied",
		       paid, score_with(SPAR_OSINT_GENERATOR, SPAR_OSINT_REFERENCE, false, honest[1].data, WRONG));
		CHECK(paid < 0.45);
		jv_free(content);
	}
	jv_free(messages);
}

static void attack_with_wrong_truth(void)
{
	struct spar_str wrong = SPAR_STR_INIT;
	const char *end = strstr(honest[1].data, ",\"question\"");
	spar_str_addf(&wrong, "{%s,\"answer\":\"user_none\"%s", truth.data, end);
	compare("W4 a wrong answer stated as the truth", SPAR_OSINT_GENERATOR, wrong.data, WRONG);
	double legacy = score_with(SPAR_OSINT_GENERATOR, SPAR_OSINT_REFERENCE, true, wrong.data, WRONG);
	printf("%-44s reference, legacy %7.4f\n", "W4 the same", legacy);
	CHECK(legacy > 0.8);
	spar_str_release(&wrong);
	spar_str_addf(&wrong, "{%s,\"answer\":\"x\",\"question\":\"What is it that nobody knows?\"}", truth.data);
	compare("W4 an unanswerable question", SPAR_OSINT_GENERATOR, wrong.data, WRONG);
	spar_str_release(&wrong);
	compare("W9 an empty completion", SPAR_OSINT_GENERATOR, "", WRONG);
	legacy = score_with(SPAR_OSINT_GENERATOR, SPAR_OSINT_REFERENCE, true, "anything", WRONG);
	printf("%-44s reference, legacy %7.4f\n", "W9 any text", legacy);
}

static void attack_with_looks(void)
{
	struct spar_str padded = SPAR_STR_INIT;
	spar_str_adds(&padded, "prose {{ x }} [[[[ ]]]] \"question\" \"answer\" \"tool_trace\" ");
	for (int i = 0; i < 200; i++)
		spar_str_addf(&padded, "word%d ", i);
	struct paid p = compare("W8 brackets, keys and length in prose", SPAR_OSINT_GENERATOR, padded.data, WRONG);
	double plain = score_with(SPAR_OSINT_GENERATOR, SPAR_OSINT_REFERENCE, false, "prose", WRONG);
	CHECK(p.attack > plain + 0.1);
	CHECK(score_with(SPAR_OSINT_GENERATOR, SPAR_OSINT_SOUND, false, padded.data, WRONG) == 0);
	spar_str_release(&padded);
}

static void attack_with_junk(void)
{
	struct spar_str junk = SPAR_STR_INIT;
	for (int role = 0; role < 2; role++) {
		spar_str_clear(&junk);
		spar_str_add(&junk, honest[role].data, strlen("{\"supporting_edges\":["));
		for (int i = 0; i < 17; i++)
			spar_str_addf(&junk, "[\"user_x%d\",\"works_at\",\"org_y\"],", i);
		spar_str_adds(&junk, honest[role].data + strlen("{\"supporting_edges\":["));
		compare(role ? "W1 generator: junk edges" : "W1 answerer: junk edges", (enum spar_osint_role)role,
			junk.data, WRONG);
	}
	spar_str_release(&junk);
}

/* ---- on the answerer's reward ---- */

static void attack_answerer(void)
{
	const enum spar_osint_role a = SPAR_OSINT_ANSWERER;
	const char *right = spar_osint_node_name(&graph, task.answer);
	struct spar_str s = SPAR_STR_INIT;
	char *told = with(a, CLAIMS("9", "1", "30"));
	struct paid p = compare("W5 answerer: invented team work", a, told, NULL);
	CHECK(p.attack > p.honest + 0.2);
	free(told);

	spar_str_addf(&s, "{\"answer\":\"%s\"," CLAIMS("2", "1", "2") "}", right);
	p = compare("E2 evidence dropped, the example's team work", a, s.data, NULL);
	CHECK(p.attack > p.honest); /* the original pays more for it than for the evidence */

	spar_str_clear(&s);
	for (int i = 0; i < task.n_support; i++) {
		const struct spar_osint_edge e = graph.edges[task.support[i]];
		spar_str_addf(&s, "%s %s %s, ", spar_osint_node_name(&graph, e.src),
			      spar_osint_relation_name(&graph, e.rel), spar_osint_node_name(&graph, e.dst));
	}
	spar_str_addf(&s, "answer: %s", right);
	p = compare("W7 evidence by mention", a, s.data, NULL);
	CHECK_NEAR(p.attack, p.honest, 1e-12); /* prose is as good as stated edges there */

	spar_str_clear(&s);
	spar_str_add(&s, honest[0].data, (size_t)(strstr(honest[0].data, "],\"answer\"") - honest[0].data));
	for (int i = 0; i < task.n_context; i++) {
		spar_str_addc(&s, ',');
		spar_osint_edge_array(&graph, graph.edges[task.context[i]], &s);
	}
	spar_str_adds(&s, strstr(honest[0].data, "],\"answer\""));
	p = compare("W7 the whole context as evidence", a, s.data, NULL);
	CHECK_NEAR(p.attack, p.honest, 1e-12); /* what is too much is cut off there */

	p = compare("W9 any text as an answer", a, "I do not know", NULL);
	CHECK(p.attack > score_with(a, SPAR_OSINT_REFERENCE, false, "", NULL));
	p = compare("W10 nothing at all: constants are paid", a, "", NULL);
	CHECK(p.attack > 0.25); /* efficiency and latency, and the sigmoid's middle */
	CHECK(score_with(a, SPAR_OSINT_SOUND, false, "", NULL) < 0);
	spar_str_release(&s);
}

/* Right against wrong: one whole point, which the original squeezes. */
static void test_contrast(void)
{
	struct spar_str wrong = SPAR_STR_INIT;
	const char *other = spar_osint_node_name(&graph, graph.edges[task.support[0]].src);
	spar_str_addf(&wrong, "{%s,\"answer\":\"%s\"}", truth.data, other);
	double sound = score_with(0, SPAR_OSINT_SOUND, false, honest[0].data, NULL) -
		       score_with(0, SPAR_OSINT_SOUND, false, wrong.data, NULL),
	       original = score_with(0, SPAR_OSINT_REFERENCE, false, honest[0].data, NULL) -
			  score_with(0, SPAR_OSINT_REFERENCE, false, wrong.data, NULL);
	printf("%-44s sound %7.4f | reference %7.4f\n", "W11 right answer over wrong one", sound, original);
	CHECK_NEAR(sound, 1, 1e-12);
	CHECK(original < 0.45);
	struct spar_str bare = SPAR_STR_INIT;
	spar_str_addf(&bare, "{\"answer\":\"%s\"}", spar_osint_node_name(&graph, task.answer));
	CHECK_NEAR(score_with(0, SPAR_OSINT_SOUND, false, bare.data, NULL), 1, 1e-12);
	CHECK(score_with(0, SPAR_OSINT_SOUND, false, wrong.data, NULL) < 1);
	CHECK_NEAR(score_with(0, SPAR_OSINT_SOUND, false, "prose", NULL), -0.1, 1e-12);
	spar_str_release(&wrong);
	spar_str_release(&bare);
}

int main(void)
{
	build();
	attack_with_stories();
	attack_with_copies();
	attack_with_prompt();
	attack_with_wrong_truth();
	attack_with_looks();
	attack_with_junk();
	attack_answerer();
	test_contrast();
	release();
	return unit_done();
}
