/* Scorers of self-play: the ladder, hostile completions, and the ways in which the studied original could be farmed: under
 * `sound` none pays more than honest play. Prints the figures of both profiles. */
#include "base/file.h"
#include "rl/osint_score.h"
#include "unit.h"
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define COUNT(a) (sizeof(a) / sizeof *(a))

static struct spar_osint_graph graph;
static struct spar_osint_task task;
static struct spar_str records[2]; /* the task's record for each role */
static struct spar_str honest[2];  /* what an ideal model answers */
static struct spar_str truth;      /* the honest evidence, as it stands in both */

static void write_record(const struct spar_osint_task *t, enum spar_osint_role role, const char *id,
			 struct spar_str *out)
{
	static const char source[] = "{\"seed\":\"11\",\"split\":\"train\"}";
	const struct spar_osint_record r = {
	    .graph = &graph, .graph_json = source, .task = t, .role = role, .id = id, .source = "environment"};
	spar_osint_record_write(&r, out);
}

static void build(void)
{
	struct spar_osint_source source = SPAR_OSINT_SOURCE(11, SPAR_OSINT_TRAIN);
	struct spar_osint_want want = {.seed = 5, .difficulty = SPAR_OSINT_HARD, .hops = 3};
	spar_osint_graph_init(&graph);
	spar_osint_generate(&graph, &source);
	CHECK(spar_osint_task_make(&task, &graph, &want, NULL) == 0);
	CHECK(task.hops == 3);
	for (int role = 0; role < 2; role++) {
		spar_str_init(&records[role]);
		spar_str_init(&honest[role]);
		write_record(&task, (enum spar_osint_role)role, "t", &records[role]);
		spar_osint_ideal((enum spar_osint_role)role, &graph, &task, &honest[role]);
	}
	spar_str_init(&truth);
	spar_str_add(&truth, honest[0].data + 1, (size_t)(strstr(honest[0].data, ",\"answer\"") - honest[0].data) - 1);
}

/* ---- scoring ---- */

static void write_rollout(const char *record, const char *text, size_t n, const char *judge, size_t sample, size_t size,
			  struct spar_str *out)
{
	spar_str_clear(out);
	spar_str_addf(out, "{\"type\":\"rollout\",\"group\":\"t\",\"sample\":%zu,\"group_size\":%zu,\"task\":%s",
		      sample, size, record);
	spar_str_adds(out, ",\"turns\":[{\"completion\":");
	spar_str_add_json(out, text, n);
	spar_str_adds(out, "}]");
	if (judge) {
		spar_str_adds(out, ",\"judge\":");
		spar_str_adds(out, judge);
	}
	spar_str_addc(out, '}');
}

/* Of this process: a busy machine changes nothing. */
static double cpu_s(void)
{
	return (double)clock() / CLOCKS_PER_SEC;
}

/* The scored records of one group, as one array. */
static jv score_group(struct spar_osint_scorer *s, const char *record, const char *const *texts, size_t n,
		      const char *judge)
{
	struct spar_groups groups = {.unscored = true};
	struct spar_group *group = NULL;
	struct spar_str line = SPAR_STR_INIT;
	struct spar_err err = {0};
	jv out = jv_array();
	for (size_t i = 0; i < n; i++) {
		struct spar_record rec;
		spar_record_init(&rec);
		write_rollout(record, texts[i], strlen(texts[i]), judge, i, n, &line);
		CHECK(spar_record_parse(&rec, line.data, line.len, &err) == 0);
		CHECK(spar_groups_add(&groups, &rec, &group, &err) == 0);
		spar_record_release(&rec);
	}
	if (!group)
		return out;
	CHECK(spar_osint_scorer_group(s, group, &err) == 0);
	CHECK_STR(err.msg, "");
	for (size_t i = 0; i < n; i++) {
		spar_str_clear(&line);
		spar_record_text(&group->members[i].rec, &line);
		out = jv_array_append(out, jv_parse(line.data));
	}
	spar_str_release(&line);
	spar_groups_release(&groups);
	return out;
}

static double reward_at(jv scored, int i)
{
	jv v = jv_object_get(jv_array_get(jv_copy(scored), i), jv_string("reward"));
	double d = jv_get_kind(v) == JV_KIND_NUMBER ? jv_number_value(v) : NAN;
	jv_free(v);
	return d;
}

static struct spar_osint_scorer *scorer(enum spar_osint_role role, enum spar_osint_profile profile, bool legacy)
{
	struct spar_osint_scorer_opt opt = SPAR_OSINT_SCORER_DEFAULTS;
	struct spar_osint_scorer *s = NULL;
	opt.role = role;
	opt.profile = profile;
	opt.legacy = legacy;
	CHECK(spar_osint_scorer_new(&s, &opt, NULL) == 0);
	return s;
}

static double score_with(enum spar_osint_role role, enum spar_osint_profile profile, bool legacy, const char *text,
			 const char *judge)
{
	struct spar_osint_scorer *s = scorer(role, profile, legacy);
	jv scored = score_group(s, records[role].data, &text, 1, judge);
	double d = reward_at(scored, 0);
	jv_free(scored);
	spar_osint_scorer_free(s);
	return d;
}

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

#define WRONG "[{\"completion\":\"{\\\"answer\\\":\\\"nobody\\\"}\"}]"
#define CLAIMS(s, c, b) \
	"\"orchestrator\":{\"spawn_count\":" s ",\"finished_subtasks\":" s ",\"critical_steps\":" c ",\"breadth\":" b \
	"}"

/* ---- attacks on the generator's reward ---- */

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

/* A task that the judge always, never, or sometimes solves. */
static void hardness(void)
{
	struct spar_str judge = SPAR_STR_INIT, right = SPAR_STR_INIT;
	const double want[] = {0.5, 0.75, 1, 0.75, 0};
	spar_str_add_json(&right, honest[0].data, honest[0].len);
	for (int n_right = 0; n_right <= 4; n_right++) {
		spar_str_clear(&judge);
		spar_str_addc(&judge, '[');
		for (int i = 0; i < 4; i++)
			spar_str_addf(&judge, "%s{\"completion\":%s}", i ? "," : "",
				      i < n_right ? right.data : "\"prose\"");
		spar_str_addc(&judge, ']');
		double v = score_with(SPAR_OSINT_GENERATOR, SPAR_OSINT_SOUND, false, honest[1].data, judge.data);
		CHECK_NEAR(v, 0.45 + 0.20 * want[n_right] + 0.15 + 0.20, 1e-12);
	}
	CHECK_NEAR(score_with(SPAR_OSINT_GENERATOR, SPAR_OSINT_SOUND, false, honest[1].data, NULL), 0.80, 1e-12);
	spar_str_release(&judge);
	spar_str_release(&right);
}

/* Edges of the generator's own count unless the graph is fixed; then the task's graph is written out with them. */
static void test_own_edges(void)
{
	struct spar_osint_edge path[4] = {{0}};
	struct spar_osint_signature q;
	struct spar_str text = SPAR_STR_INIT, asked = SPAR_STR_INIT, posed = SPAR_STR_INIT, line = SPAR_STR_INIT;
	for (int i = 0; i < 3; i++)
		path[i] = graph.edges[task.support[i]];
	int32_t other = 0; /* a node that is not on the way */
	while (other == path[0].src || other == path[1].src || other == path[2].src || other == path[2].dst)
		other++;
	path[3] = (struct spar_osint_edge){path[2].dst, path[0].rel, other};
	CHECK(spar_osint_edge_find(&graph, path[3]) < 0);
	CHECK(spar_osint_signature_of(path, 4, &q));
	spar_osint_question(&graph, &q, &asked);
	for (int part = 0; part < 2; part++) { /* the new edge alone, then the whole path */
		spar_str_adds(&text, part ? "]},\"supporting_edges\":[" : "{\"canonical_graph\":{\"edges\":[");
		for (int i = part ? 0 : 3; i < 4; i++) {
			spar_osint_edge_array(&graph, path[i], &text);
			spar_str_adds(&text, i < 3 ? "," : "");
		}
	}
	spar_str_addf(&text, "],\"answer\":\"%s\",\"question\":\"%s\"}", spar_osint_node_name(&graph, path[3].dst),
		      asked.data);
	const char *texts[] = {text.data};
	for (int fixed = 0; fixed < 2; fixed++) {
		struct spar_osint_scorer_opt opt = SPAR_OSINT_SCORER_DEFAULTS;
		const struct spar_osint_pose_opt how = {.fixed = fixed, .limits = opt.limits, .max_edges = 32};
		struct spar_osint_graph_cache graphs = {0};
		struct spar_osint_scorer *s = NULL;
		opt.role = SPAR_OSINT_GENERATOR;
		opt.fixed = fixed;
		CHECK(spar_osint_scorer_new(&s, &opt, NULL) == 0);
		jv scored = score_group(s, records[1].data, texts, 1, WRONG);
		CHECK(fixed ? reward_at(scored, 0) < 0.45 : reward_at(scored, 0) > 0.65);
		write_rollout(records[1].data, text.data, text.len, NULL, 0, 1, &line);
		jv rollout = jv_parse(line.data);
		spar_str_clear(&posed);
		CHECK(spar_osint_pose(&how, &graphs, rollout, &posed, NULL) == !fixed);
		CHECK(!strstr(posed.data, "\"seed\"") && !strstr(posed.data, "canonical_graph"));
		jv_free(rollout);
		jv_free(scored);
		spar_osint_graph_cache_release(&graphs);
		spar_osint_scorer_free(s);
	}
	spar_str_release(&text);
	spar_str_release(&asked);
	spar_str_release(&posed);
	spar_str_release(&line);
}

/* ---- attacks on the answerer's reward ---- */

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

/* Worker agents that ran are worth something, and only with a right answer; those that did not finish, less. */
static void test_workers(void)
{
	static const char agent[] = "{\"completion\":\"x\",\"turns\":[{\"finish_reason\":\"%s\"}]}";
	double paid[3];
	for (int i = 0; i < 3; i++) {
		struct spar_str record = SPAR_STR_INIT, one = SPAR_STR_INIT;
		struct spar_osint_scorer *s = scorer(SPAR_OSINT_ANSWERER, SPAR_OSINT_SOUND, false);
		const char *texts[] = {honest[0].data, "prose"};
		spar_str_addf(&one, agent, i == 1 ? "length" : "stop");
		spar_str_add(&record, records[0].data, records[0].len - 1);
		spar_str_addf(&record, i ? ",\"workers\":[%s,%s]}" : "}", one.data, one.data);
		jv scored = score_group(s, record.data, texts, 2, NULL);
		paid[i] = reward_at(scored, 0);
		CHECK_NEAR(reward_at(scored, 1), -0.1, 1e-12);
		jv_free(scored);
		spar_osint_scorer_free(s);
		spar_str_release(&record);
		spar_str_release(&one);
	}
	CHECK(paid[1] > paid[0] && paid[2] > paid[1] && paid[2] <= paid[0] + 0.05);
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

/* ---- the ladder ---- */

static void test_ladder(void)
{
	const char *q = strstr(honest[1].data, ",\"question\""), *first_end = strchr(truth.data, ']') + 1;
	struct spar_str rungs[7];
	double last = -1;
	for (size_t i = 0; i < COUNT(rungs); i++)
		spar_str_init(&rungs[i]);
	spar_str_adds(&rungs[0], "no object");
	spar_str_adds(&rungs[1], "{\"question\":\"\"}");
	spar_str_adds(&rungs[2], "{\"supporting_edges\":[[\"a\",\"b\",\"c\"]],\"answer\":\"c\",\"question\":\"q\"}");
	spar_str_addf(&rungs[3], "{%.*s],\"answer\":\"c\",\"question\":\"q\"}", (int)(first_end - truth.data),
		      truth.data);
	spar_str_addf(&rungs[4], "{%s,\"answer\":\"c\"%s", truth.data, q);
	spar_str_adds(&rungs[5], honest[1].data);
	for (size_t i = 0; i < 6; i++) {
		double v = score_with(SPAR_OSINT_GENERATOR, SPAR_OSINT_SOUND, false, rungs[i].data, WRONG);
		CHECK(v > last);
		last = v;
	}
	for (size_t i = 0; i < COUNT(rungs); i++)
		spar_str_release(&rungs[i]);
}

/* ---- hostile completions: a finite reward and a reason each, in time that is linear ---- */

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

/* ---- a batch: its order does not matter, and it is quick ---- */

static void test_order(void)
{
	const char *texts[3] = {honest[1].data, "prose", honest[1].data},
		   *turned[3] = {"prose", honest[1].data, honest[1].data};
	struct spar_osint_scorer *s = scorer(SPAR_OSINT_GENERATOR, SPAR_OSINT_SOUND, false);
	jv a = score_group(s, records[1].data, texts, 3, WRONG), b = score_group(s, records[1].data, turned, 3, WRONG);
	CHECK(reward_at(a, 0) == reward_at(b, 1) && reward_at(a, 1) == reward_at(b, 0) &&
	      reward_at(a, 2) == reward_at(b, 2));
	jv_free(a);
	jv_free(b);
	spar_osint_scorer_free(s);
}

static void test_frozen(void)
{
	char path[] = "/tmp/spar-frozen-XXXXXX";
	int fd = mkstemp(path);
	struct spar_str all = SPAR_STR_INIT;
	struct spar_osint_scorer_opt opt = SPAR_OSINT_SCORER_DEFAULTS;
	struct spar_osint_scorer *s = NULL;
	const char *texts[8];
	CHECK(fd >= 0);
	close(fd);
	for (uint64_t i = 0; i < 2048; i++) {
		struct spar_osint_task t;
		struct spar_osint_want want = {
		    .seed = i + 100, .difficulty = SPAR_OSINT_MIXED, .hops = 2 + (int)(i % 3)};
		CHECK(spar_osint_task_make(&t, &graph, &want, NULL) == 0);
		write_record(i ? &t : &task, SPAR_OSINT_ANSWERER, "f", &all);
		spar_str_addc(&all, '\n');
		spar_osint_task_release(&t);
	}
	CHECK(spar_file_write(path, all.data, all.len, NULL) == 0);
	opt.role = SPAR_OSINT_GENERATOR;
	opt.frozen = path;
	CHECK(spar_osint_scorer_new(&s, &opt, NULL) == 0);
	unlink(path);
	for (int i = 0; i < 8; i++)
		texts[i] = honest[1].data;
	double start = cpu_s();
	for (int i = 0; i < 64; i++) {
		jv scored = score_group(s, records[1].data, texts, 8, WRONG);
		CHECK_NEAR(reward_at(scored, 0), 0.45 + 0.20 * 0.5 + 0.20,
			   1e-12); /* asked before: nothing for novelty */
		jv_free(scored);
	}
	double took = cpu_s() - start;
	printf("512 completions beside 2048 frozen tasks: %.3f s\n", took);
	CHECK(took < 2); /* 0.2 s on an idle machine without sanitizers */
	spar_osint_scorer_free(s);
	spar_str_release(&all);
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
	test_own_edges();
	test_workers();
	hardness();
	test_ladder();
	test_hostile();
	test_order();
	test_frozen();
	for (int role = 0; role < 2; role++) {
		spar_str_release(&records[role]);
		spar_str_release(&honest[role]);
	}
	spar_str_release(&truth);
	spar_osint_task_release(&task);
	spar_osint_graph_release(&graph);
	return unit_done();
}
