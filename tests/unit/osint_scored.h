/* osint_scored.h - a task of three hops, what an ideal model answers to it in either role, and what scorers pay for other answers. */
#ifndef SPAR_OSINT_SCORED_H
#define SPAR_OSINT_SCORED_H

#include "rl/osint_score.h"
#include "unit.h"
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define COUNT(a) (sizeof(a) / sizeof *(a))

static struct spar_osint_graph graph;
static struct spar_osint_task task;
static struct spar_str records[2]; /* the task's record for each role */
static struct spar_str honest[2];  /* what an ideal model answers */
static struct spar_str truth;      /* the honest evidence, as it stands in both */

static inline void write_record(const struct spar_osint_task *t, enum spar_osint_role role, const char *id,
				struct spar_str *out)
{
	static const char source[] = "{\"seed\":\"11\",\"split\":\"train\"}";
	const struct spar_osint_record r = {
	    .graph = &graph, .graph_json = source, .task = t, .role = role, .id = id, .source = "environment"};
	spar_osint_record_write(&r, out);
}

static inline void build(void)
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

static inline void release(void)
{
	for (int role = 0; role < 2; role++) {
		spar_str_release(&records[role]);
		spar_str_release(&honest[role]);
	}
	spar_str_release(&truth);
	spar_osint_task_release(&task);
	spar_osint_graph_release(&graph);
}

/* ---- scoring ---- */

/* Of this process: a busy machine changes nothing. */
static inline double cpu_s(void)
{
	return (double)clock() / CLOCKS_PER_SEC;
}

static inline void write_rollout(const char *record, const char *text, size_t n, const char *judge, size_t sample,
				 size_t size, struct spar_str *out)
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

/* The scored records of one group, as one array. */
static inline jv score_group(struct spar_osint_scorer *s, const char *record, const char *const *texts, size_t n,
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

static inline double reward_at(jv scored, int i)
{
	jv v = jv_object_get(jv_array_get(jv_copy(scored), i), jv_string("reward"));
	double d = jv_get_kind(v) == JV_KIND_NUMBER ? jv_number_value(v) : NAN;
	jv_free(v);
	return d;
}

static inline struct spar_osint_scorer *scorer(enum spar_osint_role role, enum spar_osint_profile profile, bool legacy)
{
	struct spar_osint_scorer_opt opt = SPAR_OSINT_SCORER_DEFAULTS;
	struct spar_osint_scorer *s = NULL;
	opt.role = role;
	opt.profile = profile;
	opt.legacy = legacy;
	CHECK(spar_osint_scorer_new(&s, &opt, NULL) == 0);
	return s;
}

static inline double score_with(enum spar_osint_role role, enum spar_osint_profile profile, bool legacy,
				const char *text, const char *judge)
{
	struct spar_osint_scorer *s = scorer(role, profile, legacy);
	jv scored = score_group(s, records[role].data, &text, 1, judge);
	double d = reward_at(scored, 0);
	jv_free(scored);
	spar_osint_scorer_free(s);
	return d;
}

/* A judge that is wrong. */
#define WRONG "[{\"completion\":\"{\\\"answer\\\":\\\"nobody\\\"}\"}]"

#endif
