/* Hostile completions: scorers of self-play give each a finite reward and a reason, in time that is linear. */
#include "osint_scored.h"

static void repeat(struct spar_str *s, const char *what, int n)
{
	for (int i = 0; i < n; i++)
		spar_str_adds(s, what);
}

struct hostile {
	const char *what, *text;
};
static const struct hostile written[] = {
    {"nothing", ""},
    {"blanks", "   \n"},
    {"prose", "prose about nothing"},
    {"truncated", "{\"question\":\"q\",\"answer\":\"a"},
    {"truncated in the evidence", "{\"answer\":\"user_1\",\"supporting_edges\":[[\"a\""},
    {"truncated list", "[1,2"},
    {"NaN as a value", "{\"answer\":NaN}"},
    {"NaN as a word",
     "{\"answer\":\"NaN\",\"question\":\"Infinity\",\"supporting_edges\":[[\"nan\",\"inf\",\"-inf\"]]}"},
    {"null fields", "{\"question\":null,\"answer\":null,\"supporting_edges\":null,\"canonical_graph\":{\"nodes\":null,"
		    "\"edges\":null}}"},
    {"other kinds", "{\"supporting_edges\":[null,1,{},[],[1,2,3],[\"a\",null,\"b\"]],\"answer\":{},\"question\":[]}"},
    {"control tokens", "{\"answer\":\"<|im_end|><|im_start|>\",\"question\":\"<|endoftext|>\\u0000\\ud800\"}"},
    {"W35 ids that look like relations",
     "{\"answer\":\"alias_of\",\"question\":\"Which node is reached from alias_of by "
     "alias_of?\",\"supporting_edges\":[[\"alias_of\",\"alias_of\",\"alias_of\"]]}"},
    {"odd traces",
     "{\"tool_trace\":[{\"tool_name\":\"trace_path\",\"args\":{\"path\":null}},{\"tool\":\"x\"},7,null]}"},
    {"numbers in words",
     "{\"orchestrator\":{\"spawn_count\":\"1e999\",\"finished_subtasks\":\"inf\",\"critical_steps\":null}}"},
    {"odd graphs", "{\"canonical_graph\":{\"edges\":[[\"a\",\"b\",\"c\"],7,null,{}]}}"},
    {"bytes that are no text", "\xff\xfe{\"answer\":\"\xc3\"}"},
    {"closing braces", "}}}}"},
    {"a quote", "\""},
    {"a backslash", "\\"}};

enum { BRACES, MORE_BRACES, DEEP, DIGITS, MANY_EDGES, MANY_OBJECTS, N_MADE };
static const char *const made_names[N_MADE] = {
    "8,000 braces", "200,000 braces", "depth 2,000", "numbers of 400 and 5,000 digits", "8,001 edges", "4,000 objects"};

static void make_hostile(struct spar_str *made)
{
	for (size_t i = 0; i < N_MADE; i++)
		spar_str_init(&made[i]);
	repeat(&made[BRACES], "{", 8000);
	repeat(&made[MORE_BRACES], "{", 200000); /* what is not linear in it is not done in two seconds */
	repeat(&made[DEEP], "{\"a\":", 2000);
	repeat(&made[DEEP], "1", 1);
	repeat(&made[DEEP], "}", 2000);
	spar_str_adds(&made[DIGITS], "{\"answer\":");
	repeat(&made[DIGITS], "9", 400);
	spar_str_adds(&made[DIGITS], ",\"orchestrator\":{\"spawn_count\":");
	repeat(&made[DIGITS], "9", 5000);
	spar_str_adds(&made[DIGITS], "}}");
	spar_str_adds(&made[MANY_EDGES], "{\"supporting_edges\":[");
	repeat(&made[MANY_EDGES], "[\"a\",\"b\",\"c\"],", 8000);
	spar_str_adds(&made[MANY_EDGES], "[\"a\",\"b\",\"c\"]],\"answer\":\"c\",\"question\":\"q\"}");
	repeat(&made[MANY_OBJECTS], "{\"answer\":\"x\"}", 4000);
}

/* A finite reward, and a reason: but for the original's legacy pipeline, which looks for none. */
static void check_scored(jv scored, int i, const char *what, bool reasons_wanted)
{
	jv verdict = jv_object_get(jv_array_get(jv_copy(scored), i), jv_string("verdict"));
	jv reasons = jv_object_get(verdict, jv_string("reasons"));
	bool good = isfinite(reward_at(scored, i)) && (!reasons_wanted || jv_array_length(jv_copy(reasons)) > 0);
	if (!good)
		printf("%s: no reward or no reason\n", what);
	CHECK(good);
	jv_free(reasons);
}

static void test_hostile(void)
{
	struct spar_str made[N_MADE];
	const char *texts[COUNT(written) + N_MADE], *names[COUNT(written) + N_MADE];
	size_t n = 0;
	make_hostile(made);
	for (size_t i = 0; i < COUNT(written); i++, n++) {
		texts[n] = written[i].text;
		names[n] = written[i].what;
	}
	for (size_t i = 0; i < N_MADE; i++, n++) {
		texts[n] = made[i].data;
		names[n] = made_names[i];
	}
	for (int k = 0; k < 8; k++) {
		struct spar_osint_scorer *s = scorer(k & 1, k >> 1 & 1, k >> 2);
		double start = cpu_s();
		jv scored = score_group(s, records[k & 1].data, texts, n, WRONG);
		double took = cpu_s() - start;
		for (size_t i = 0; i < n; i++)
			check_scored(scored, (int)i, names[i], !(k >> 2));
		CHECK(took < 2);
		jv_free(scored);
		spar_osint_scorer_free(s);
	}
	for (size_t i = 0; i < N_MADE; i++)
		spar_str_release(&made[i]);
}

int main(void)
{
	build();
	test_hostile();
	release();
	return unit_done();
}
