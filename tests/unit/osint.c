/* osint.c - graphs, tasks, contexts, claims and the ladder of env-osint. */
#include "env/osint/osint.h"
#include "unit.h"
#include <stdlib.h>

static int32_t name(struct spar_osint_graph *g, const char *s)
{
	return spar_osint_graph_name(g, s, strlen(s));
}

static bool edge(struct spar_osint_graph *g, const char *src, const char *rel, const char *dst)
{
	struct spar_osint_edge e = {name(g, src), spar_osint_graph_relation(g, rel, strlen(rel)), name(g, dst)};
	return spar_osint_graph_add(g, e, 1);
}

/* Two users of one employer; one alias with one owner, another that the graph gives two. */
static void toy(struct spar_osint_graph *g)
{
	spar_osint_graph_init(g);
	edge(g, "alias_7", "alias_of", "user_1");
	edge(g, "user_1", "connected_to", "user_2");
	edge(g, "user_1", "works_at", "org_b");
	edge(g, "user_2", "works_at", "org_a");
	edge(g, "user_2", "located_in", "loc_x");
	edge(g, "user_3", "works_at", "org_a");
	edge(g, "alias_8", "alias_of", "user_2");
	edge(g, "alias_8", "alias_of", "user_3");
	edge(g, "org_a", "operates_in", "loc_x");
	spar_osint_graph_index(g);
}

static struct spar_osint_signature ask(const struct spar_osint_graph *g, const char *text)
{
	struct spar_osint_signature q;
	spar_osint_question_read(g, text, strlen(text), &q);
	return q;
}

static struct spar_osint_ends answer(const struct spar_osint_graph *g, const char *text)
{
	struct spar_osint_signature q = ask(g, text);
	struct spar_osint_ends ends;
	spar_osint_solve(g, &q, &ends);
	return ends;
}

static void test_graph(void)
{
	struct spar_osint_graph g;
	toy(&g);
	CHECK(g.n_edges == 9);
	CHECK(!edge(&g, "user_1", "works_at", "org_b"));
	CHECK(g.n_edges == 9);
	CHECK(spar_osint_node(&g, "user_1", 6) >= 0);
	CHECK(spar_osint_node(&g, "user_12", 7) < 0);
	CHECK(spar_osint_node(&g, "user_1", 5) < 0);
	CHECK(spar_osint_node(&g, "alias_of", 8) < 0);
	CHECK(spar_osint_relation(&g, "alias_of", 8) >= 0);
	CHECK(g.kinds[spar_osint_node(&g, "loc_x", 5)] == SPAR_OSINT_LOCATION);
	CHECK(g.kinds[name(&g, "thr_1")] == SPAR_OSINT_THREAD);
	CHECK(g.kinds[name(&g, "event_1")] == SPAR_OSINT_EVENT);
	CHECK(g.kinds[name(&g, "anything")] == SPAR_OSINT_USER);
	char long_name[300];
	memset(long_name, 'a', sizeof long_name);
	CHECK(spar_osint_graph_name(&g, long_name, 256) >= 0);
	CHECK(spar_osint_graph_name(&g, long_name, 257) < 0);
	CHECK(spar_osint_graph_name(&g, "a\0b", 3) < 0);
	CHECK(!spar_osint_graph_add(&g, (struct spar_osint_edge){-1, 0, 0}, 1));
	CHECK(spar_osint_edge_find(&g, (struct spar_osint_edge){-1, -1, -1}) < 0);
	spar_osint_graph_release(&g);
	/* Nothing in it: everything is unknown, nothing fails. */
	CHECK(spar_osint_node(&g, "a", 1) < 0 && spar_osint_edge_find(&g, (struct spar_osint_edge){0, 0, 0}) < 0);
	spar_osint_graph_index(&g);
	CHECK(answer(&g, "Which node is reached from a by b?").n_ends == 0);
	spar_osint_graph_release(&g);
}

/* Thousands of names and edges: the tables grow, the index agrees with the list. */
static void test_large_graph(void)
{
	struct spar_osint_graph g;
	char a[16], b[16], r[16];
	size_t by_out = 0, by_in = 0;
	spar_osint_graph_init(&g);
	for (int i = 0; i < 20000; i++) {
		snprintf(a, sizeof a, "user_%d", i * 7919 % 3001);
		snprintf(b, sizeof b, "org_%d", i * 104729 % 997);
		snprintf(r, sizeof r, "rel_%d", i % 13);
		edge(&g, a, r, b);
	}
	spar_osint_graph_index(&g);
	for (int32_t i = 0; i < g.n_edges; i++) {
		int32_t n;
		const int32_t *out = spar_osint_out(&g, g.edges[i].src, g.edges[i].rel, &n);
		for (int32_t k = 0; k < n; k++)
			by_out += out[k] == i;
		const int32_t *in = spar_osint_in(&g, g.edges[i].dst, g.edges[i].rel, &n);
		for (int32_t k = 0; k < n; k++)
			by_in += in[k] == i;
	}
	CHECK(g.n_edges > 15000);
	CHECK(by_out == (size_t)g.n_edges && by_in == (size_t)g.n_edges);
	spar_osint_graph_release(&g);
}

static void test_questions(void)
{
	struct spar_osint_graph g;
	toy(&g);
	struct spar_osint_ends e = answer(&g, "Which node is reached from alias_7 by alias_of then works_at?");
	CHECK(e.n_ends == 1 && e.n_paths == 1);
	CHECK_STR(spar_osint_node_name(&g, e.end), "org_b");
	/* two owners, one employer: one end, two ways; and two ends */
	e = answer(&g, "Which node is reached from alias_8 by alias_of then works_at?");
	CHECK(e.n_ends == 1 && e.n_paths == 2);
	e = answer(&g, "Which node is reached from alias_8 by alias_of?");
	CHECK(e.n_ends == 2);
	e = answer(&g, "Which node leads to org_b by works_at?");
	CHECK(e.n_ends == 1);
	CHECK_STR(spar_osint_node_name(&g, e.end), "user_1");
	CHECK(answer(&g, "Which node leads to org_a by works_at?").n_ends == 2);
	CHECK(answer(&g, "Which node is reached from org_b by works_at?").n_ends == 0);
	/* other wordings, and what is no question */
	CHECK(ask(&g, "go from user_1 along connected_to, located_in").hops == 2);
	CHECK(ask(&g, "works_at: user_1").hops == 1);
	CHECK(ask(&g, "").hops == 0);
	CHECK(ask(&g, "user_1").hops == 0);
	CHECK(ask(&g, "alias_of works_at").hops == 0);
	CHECK(ask(&g, "from user_1 or user_2 by works_at").hops == 0);
	CHECK(ask(&g, "from user_12 by works_at").hops == 0);
	CHECK(ask(&g, "Which node leads to org_a by works_at then works_at?").hops == 0);
	struct spar_str longest = SPAR_STR_INIT;
	spar_str_adds(&longest, "user_1");
	for (int i = 0; i < SPAR_OSINT_HOPS_MAX; i++)
		spar_str_adds(&longest, " works_at");
	CHECK(ask(&g, longest.data).hops == SPAR_OSINT_HOPS_MAX);
	spar_str_adds(&longest, " works_at");
	CHECK(ask(&g, longest.data).hops == 0);
	spar_str_release(&longest);
	spar_osint_graph_release(&g);
}

/* A clique of 40 nodes has 40^8 walks of eight hops: they are not counted one by one. */
static void test_many_walks(void)
{
	struct spar_osint_graph g;
	char a[16], b[16];
	spar_osint_graph_init(&g);
	for (int i = 0; i < 40; i++) {
		for (int k = 0; k < 40; k++) {
			snprintf(a, sizeof a, "user_%d", i);
			snprintf(b, sizeof b, "user_%d", k);
			edge(&g, a, "knows", b);
		}
		edge(&g, a, "knows_nobody", a);
	}
	spar_osint_graph_index(&g);
	CHECK(answer(&g, "user_0 knows knows knows knows knows knows knows knows_nobody").n_ends == 2);
	/* walks that all die at the last hop */
	struct spar_osint_signature q = ask(&g, "user_0 knows knows knows knows knows knows knows");
	struct spar_osint_ends ends;
	q.relations[q.hops++] = -1;
	spar_osint_solve(&g, &q, &ends);
	CHECK(ends.n_ends == 2);
	spar_osint_graph_release(&g);
}

/* ---- tasks ---- */

static bool has(const int32_t *list, int n, int32_t x)
{
	for (int i = 0; i < n; i++)
		if (list[i] == x)
			return true;
	return false;
}

/* Of every (source, relation) in the context all edges are in it. */
static bool closed(const struct spar_osint_graph *g, const struct spar_osint_task *t)
{
	for (int i = 0; i < t->n_context; i++) {
		int32_t n;
		const struct spar_osint_edge *e = &g->edges[t->context[i]];
		const int32_t *siblings = spar_osint_out(g, e->src, e->rel, &n);
		for (int32_t k = 0; k < n; k++)
			if (!has(t->context, t->n_context, siblings[k]))
				return false;
	}
	return true;
}

static void check_task(const struct spar_osint_graph *g, const struct spar_osint_task *t)
{
	struct spar_osint_ends ends;
	struct spar_osint_signature read;
	spar_osint_solve(g, &t->signature, &ends);
	CHECK(ends.n_ends == 1 && ends.n_paths == 1 && ends.end == t->answer);
	CHECK(memcmp(ends.path, t->support, (size_t)t->hops * sizeof *t->support) == 0);
	CHECK(spar_osint_question_read(g, t->question.data, t->question.len, &read));
	CHECK(read.start == t->signature.start && read.hops == t->hops && read.inverse == t->signature.inverse);
	CHECK(t->signature.start != t->answer);
	CHECK(closed(g, t));
	CHECK(t->n_context <= SPAR_OSINT_CONTEXT);
	for (int i = 0; i < t->n_support; i++)
		CHECK(has(t->context, t->n_context, t->support[i]));
	for (int i = 0; i < t->n_context; i++)
		CHECK(!has(t->context, i, t->context[i]));
	CHECK(t->difficulty == spar_osint_difficulty(t->hops, t->n_decoys));
}

/* Every task is sound; together they are varied, and the answer's edges stand anywhere in the context. */
static void test_tasks(void)
{
	enum { N = 600 };
	int few_decoys = 0, first = 0, inverse = 0, hops[5] = {0};
	for (uint64_t seed = 0; seed < N; seed++) {
		struct spar_osint_graph g;
		struct spar_osint_task t;
		struct spar_osint_want want = {.seed = seed, .difficulty = SPAR_OSINT_MIXED};
		spar_osint_graph_init(&g);
		spar_osint_generate(&g, &SPAR_OSINT_SOURCE(seed, SPAR_OSINT_TRAIN));
		CHECK(spar_osint_task_make(&t, &g, &want, NULL) == 0);
		check_task(&g, &t);
		CHECK(t.difficulty == (int)(seed % 3));
		few_decoys += t.n_decoys < 2;
		first += t.context[0] == t.support[0];
		inverse += t.signature.inverse;
		hops[t.hops]++;
		spar_osint_task_release(&t);
		spar_osint_graph_release(&g);
	}
	CHECK(few_decoys <= N / 100);
	CHECK(first > N / 40 && first < N / 5);
	CHECK(inverse > 5);
	for (int i = 1; i <= 4; i++)
		CHECK(hops[i] > N / 12);
}

/* The smallest graphs and budgets: easier tasks, no failure. */
static void test_poor_graphs(void)
{
	for (uint64_t seed = 0; seed < 100; seed++) {
		struct spar_osint_graph g;
		struct spar_osint_task t;
		struct spar_osint_source source = {.seed = seed, .split = SPAR_OSINT_TEST, .n_users = 4};
		struct spar_osint_want want = {seed, SPAR_OSINT_HARD, 8, 0};
		spar_osint_graph_init(&g);
		spar_osint_generate(&g, &source);
		CHECK(spar_osint_task_make(&t, &g, &want, NULL) == 0);
		check_task(&g, &t);
		CHECK(t.n_context <= 8);
		spar_osint_task_release(&t);
		spar_osint_graph_release(&g);
	}
	struct spar_osint_graph empty;
	struct spar_osint_task t;
	struct spar_err err = {0};
	spar_osint_graph_init(&empty);
	spar_osint_graph_index(&empty);
	CHECK(spar_osint_task_make(&t, &empty, &(struct spar_osint_want){0}, &err) == -SPAR_FAIL);
	spar_osint_task_release(&t);
	spar_osint_graph_release(&empty);
}

/* Equal seeds give equal graphs; of two splits or seeds no two graphs share many edges. */
static void test_splits(void)
{
	struct spar_osint_graph g[4];
	struct spar_str json[2] = {SPAR_STR_INIT, SPAR_STR_INIT};
	const struct spar_osint_source sources[4] = {
	    SPAR_OSINT_SOURCE(1, SPAR_OSINT_TRAIN), SPAR_OSINT_SOURCE(1, SPAR_OSINT_TRAIN),
	    SPAR_OSINT_SOURCE(1, SPAR_OSINT_TEST), SPAR_OSINT_SOURCE(2, SPAR_OSINT_TRAIN)};
	for (int i = 0; i < 4; i++) {
		spar_osint_graph_init(&g[i]);
		spar_osint_generate(&g[i], &sources[i]);
	}
	spar_osint_graph_json(&g[0], &json[0]);
	spar_osint_graph_json(&g[1], &json[1]);
	CHECK_STR(json[0].data, json[1].data);
	for (int i = 2; i < 4; i++) {
		int shared = 0;
		for (int32_t k = 0; k < g[i].n_edges; k++) {
			struct spar_str edge_json = SPAR_STR_INIT;
			spar_osint_edge_object(&g[i], g[i].edges[k], &edge_json);
			edge_json.data[--edge_json.len] = 0; /* without its brace: there is more behind */
			shared += strstr(json[0].data, edge_json.data) != NULL;
			spar_str_release(&edge_json);
		}
		CHECK(shared < g[i].n_edges / 20);
	}
	for (int i = 0; i < 4; i++)
		spar_osint_graph_release(&g[i]);
	spar_str_release(&json[0]);
	spar_str_release(&json[1]);
}

/* ---- JSON ---- */

static int read_graph(struct spar_osint_graph *g, const char *text, struct spar_err *err)
{
	jv object = jv_parse(text);
	spar_osint_graph_init(g);
	int rc = spar_osint_graph_from(g, object, err);
	jv_free(object);
	return rc;
}

static void test_json(void)
{
	struct spar_osint_graph g, copy;
	struct spar_str a = SPAR_STR_INIT, b = SPAR_STR_INIT;
	struct spar_err err = {0};
	toy(&g);
	spar_osint_graph_json(&g, &a);
	CHECK(read_graph(&copy, a.data, &err) == 0);
	spar_osint_graph_json(&copy, &b);
	CHECK_STR(b.data, a.data);
	spar_osint_graph_release(&copy);
	spar_str_clear(&a);
	spar_osint_source_json(&SPAR_OSINT_SOURCE(7, SPAR_OSINT_TEST), &a);
	CHECK_STR(a.data, "{\"seed\":\"7\",\"split\":\"test\",\"n_users\":24,\"alias_density\":0.35}");
	CHECK(read_graph(&copy, a.data, &err) == 0 && copy.n_edges > 100);
	spar_osint_graph_release(&copy);
	static const char *const wrong[][2] = {
	    {"{}", "a graph has either .edges or a .seed to be made from"},
	    {"{\"nodes\":null,\"edges\":null}", "a graph has either .edges or a .seed to be made from"},
	    {"{\"nodes\":5,\"edges\":[]}", ".nodes: expected array, got number"},
	    {"{\"nodes\":[5],\"edges\":[]}", ".nodes[0]: expected object, got number"},
	    {"{\"nodes\":[{\"id\":\"\"}],\"edges\":[]}", ".nodes[0].id: is empty or too long"},
	    {"{\"nodes\":[{\"id\":\"a\",\"kind\":\"x\"}],\"edges\":[]}", ".nodes[0].kind: there is no such kind"},
	    {"{\"edges\":[[\"a\",\"b\"]]}", ".edges[0]: expected an edge: src, rel and dst"},
	    {"{\"edges\":[[\"a\",\"b\",null]]}", ".edges[0]: expected an edge: src, rel and dst"},
	    {"{\"edges\":[{\"src\":\"a\",\"rel\":\"b\",\"dst\":\"c\",\"confidence\":\"high\"}]}",
	     ".edges[0].confidence: expected number, got string"},
	    {"{\"seed\":\"7\",\"split\":\"dev\"}", ".split: must be train, validation or test"},
	};
	for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
		CHECK(read_graph(&copy, wrong[i][0], &err) == -SPAR_INPUT);
		CHECK_STR(err.msg, wrong[i][1]);
		spar_osint_graph_release(&copy);
	}
	spar_osint_graph_release(&g);
	spar_str_release(&a);
	spar_str_release(&b);
}

/* ---- claims ---- */

static struct spar_osint_claim claim(const struct spar_osint_graph *g, const char *text)
{
	struct spar_osint_claim c;
	spar_osint_claim_read(&c, g, jv_parse(text));
	return c;
}

static double f1(const struct spar_osint_graph *g, const char *edges)
{
	static const int32_t support[] = {0, 1};
	struct spar_str text = SPAR_STR_INIT;
	spar_str_addf(&text, "{\"supporting_edges\":%s}", edges);
	struct spar_osint_claim c = claim(g, text.data);
	double v = spar_osint_f1(g, &c, support, 2);
	spar_osint_claim_release(&c);
	spar_str_release(&text);
	return v;
}

static void test_evidence(void)
{
	struct spar_osint_graph g;
	toy(&g);
#define ONE "[\"alias_7\",\"alias_of\",\"user_1\"]"
#define TWO "{\"src\":\"user_1\",\"rel\":\"connected_to\",\"dst\":\"user_2\"}"
	CHECK_NEAR(f1(&g, "[" ONE "," TWO "]"), 1, 0);
	CHECK_NEAR(f1(&g, "[" TWO "," ONE "," ONE "]"), 1, 0);
	CHECK_NEAR(f1(&g, "[" ONE "]"), 2.0 / 3, 1e-12);
	CHECK_NEAR(f1(&g, "[" ONE "," TWO ",[\"user_1\",\"works_at\",\"org_b\"]]"), 0.8, 1e-12);
	/* what does not exist counts too, each time it is said, and so does what is no edge */
	CHECK_NEAR(f1(&g, "[" ONE "," TWO ",[\"x\",\"y\",\"z\"],[\"x\",\"y\",\"z\"]]"), 4.0 / 6, 1e-12);
	CHECK_NEAR(f1(&g, "[" ONE "," TWO ",null]"), 0.8, 1e-12);
	CHECK_NEAR(f1(&g, "[]"), 0, 0);
	CHECK_NEAR(f1(&g, "null"), 0, 0);
	CHECK_NEAR(f1(&g, "\"alias_7 alias_of user_1 connected_to user_2\""), 0, 0);
	/* order of the reward: right with evidence, right, wrong with all evidence, wrong, none */
	double ladder[] = {spar_osint_answer_reward(true, true, 1, SPAR_OSINT_HARD),
			   spar_osint_answer_reward(true, true, 0, SPAR_OSINT_HARD),
			   spar_osint_answer_reward(true, false, 1, SPAR_OSINT_HARD),
			   spar_osint_answer_reward(true, false, 0, SPAR_OSINT_HARD),
			   spar_osint_answer_reward(false, false, 0, SPAR_OSINT_HARD)};
	for (int i = 0; i < 4; i++)
		CHECK(ladder[i] > ladder[i + 1]);
	spar_osint_graph_release(&g);
}

static void test_normalize(void)
{
	static const char *const pairs[][2] = {{"  user_7.\n", "user_7"},
					       {"\"'user_7'\"", "user_7"},
					       {"a \t b", "a b"},
					       {"...", ""},
					       {"", ""},
					       {"\" \"", ""}};
	for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
		struct spar_str s = SPAR_STR_INIT;
		spar_str_adds(&s, pairs[i][0]);
		spar_osint_normalize(&s);
		CHECK_STR(s.data, pairs[i][1]);
		CHECK(s.len == strlen(pairs[i][1]));
		spar_str_release(&s);
	}
}

static struct spar_osint_verdict check(const struct spar_osint_graph *g, int max_hops, const char *question,
				       const char *edges, const char *answer_)
{
	struct spar_osint_verdict v;
	struct spar_osint_limits limits = {max_hops, 14};
	struct spar_str text = SPAR_STR_INIT;
	spar_str_addf(&text, "{\"question\":\"%s\",\"supporting_edges\":%s,\"answer\":\"%s\"}", question, edges,
		      answer_);
	struct spar_osint_claim c = claim(g, text.data);
	spar_osint_check(g, &limits, &c, &v);
	CHECK((v.reasons == 0) == (v.rung == SPAR_OSINT_VALID));
	spar_osint_claim_release(&c);
	spar_str_release(&text);
	return v;
}

static void test_ladder(void)
{
	struct spar_osint_graph g;
	struct spar_osint_verdict v;
	toy(&g);
	edge(&g, "loc_x", "near", "user_1");
	spar_osint_graph_index(&g);
	v = check(&g, 4, "Which node is reached from user_1 by connected_to then works_at?",
		  "[[\"user_1\",\"connected_to\",\"user_2\"],[\"user_2\",\"works_at\",\"org_a\"]]", "org_a");
	CHECK(v.rung == SPAR_OSINT_VALID && v.n_true_on_path == 2 && v.signature.hops == 2);
	v = check(&g, 1, "Which node is reached from user_1 by connected_to then works_at?",
		  "[[\"user_1\",\"connected_to\",\"user_2\"],[\"user_2\",\"works_at\",\"org_a\"]]", "org_a");
	CHECK(v.rung == SPAR_OSINT_UNLEAKED && v.reasons == SPAR_OSINT_R_OVERFLOW);
	/* the walk can end elsewhere */
	v = check(&g, 4, "Which node is reached from alias_8 by alias_of?", "[[\"alias_8\",\"alias_of\",\"user_2\"]]",
		  "user_2");
	CHECK(v.rung == SPAR_OSINT_ENDS && v.reasons == SPAR_OSINT_R_AMBIGUOUS);
	/* two ways to one end are one answer */
	v = check(&g, 4, "Which node is reached from alias_8 by alias_of then works_at?",
		  "[[\"alias_8\",\"alias_of\",\"user_2\"],[\"user_2\",\"works_at\",\"org_a\"]]", "org_a");
	CHECK(v.rung == SPAR_OSINT_VALID);
	/* a walk that ends where it began has its answer in the question */
	v = check(&g, 4, "Which node is reached from user_1 by connected_to then located_in then near?",
		  "[[\"user_1\",\"connected_to\",\"user_2\"],[\"user_2\",\"located_in\",\"loc_x\"],[\"loc_x\",\"near\","
		  "\"user_1\"]]",
		  "user_1");
	CHECK(v.rung == SPAR_OSINT_UNIQUE && v.reasons == SPAR_OSINT_R_LEAKED);
	/* a wrong answer, though it is a node */
	v = check(&g, 4, "Which node is reached from user_1 by works_at?", "[[\"user_1\",\"works_at\",\"org_b\"]]",
		  "org_a");
	CHECK(v.rung == SPAR_OSINT_CONTIGUOUS && v.reasons == SPAR_OSINT_R_WRONG_END);
	/* user_1 is no part of user_12 */
	v = check(&g, 4, "Which node is reached from user_12 by works_at?", "[[\"user_1\",\"works_at\",\"org_b\"]]",
		  "org_b");
	CHECK(v.rung == SPAR_OSINT_KNOWN && v.reasons == SPAR_OSINT_R_OTHER_QUESTION);
	v = check(&g, 4, "", "[]", "");
	CHECK(v.rung == SPAR_OSINT_JSON && (v.reasons & SPAR_OSINT_R_MISSING) && (v.reasons & SPAR_OSINT_R_MALFORMED));
	struct spar_osint_claim none;
	spar_osint_claim_read(&none, &g, jv_invalid());
	spar_osint_check(&g, &SPAR_OSINT_LIMITS, &none, &v);
	CHECK(v.rung == SPAR_OSINT_NOT_JSON && v.reasons == SPAR_OSINT_R_NOT_JSON);
	spar_osint_claim_release(&none);
	for (int bit = 0; bit < 10; bit++)
		CHECK(strlen(spar_osint_reason(1u << bit)) > 0);
	CHECK_STR(spar_osint_reason(1u << 10), "");
	spar_osint_graph_release(&g);
}

int main(void)
{
	test_graph();
	test_large_graph();
	test_questions();
	test_many_walks();
	test_tasks();
	test_poor_graphs();
	test_splits();
	test_json();
	test_evidence();
	test_normalize();
	test_ladder();
	return unit_done();
}
