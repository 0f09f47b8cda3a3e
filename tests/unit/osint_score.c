/* Scorers of self-play: what is paid for a task by its hardness, edges of one's own, team work, the ladder; and that the order of
 * a batch does not matter, and its size little. */
#include "base/file.h"
#include "osint_scored.h"
#include <unistd.h>

/* A task that the judge always, never, or sometimes solves. */
static void test_hardness(void)
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
	test_hardness();
	test_own_edges();
	test_workers();
	test_ladder();
	test_order();
	test_frozen();
	release();
	return unit_done();
}
