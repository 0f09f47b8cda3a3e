/* taskset.c - see taskset.h */
#include "env/osint/taskset.h"
#include "env/osint/record.h"
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { LEVELS = 3, TRIES = 4096 }; /* seeds that are looked at for one more question */

static bool asked_before(const struct spar_osint_taskset *s, const char *question)
{
	for (int64_t i = 0; i < s->done; i++)
		if (!strcmp(s->questions[i], question))
			return true;
	return false;
}

static int reset(struct spar_osint_taskset *s, uint64_t seed, int difficulty, struct spar_err *err)
{
	struct spar_proto_reset how = {seed, difficulty, s->max_steps, jv_object()};
	int rc = spar_osint_episode_reset(s->episode, &s->game, &how, err);
	jv_free(how.options);
	return rc;
}

/* Set the episode to the next task; its seed comes to *seed. */
static int find(struct spar_osint_taskset *s, uint64_t *seed, struct spar_err *err)
{
	if (!s->levels) {
		*seed = s->seed + (uint64_t)s->done;
		return reset(s, *seed, s->difficulty, err);
	}
	int level = (int)(s->done * LEVELS / s->n);
	for (int tries = 0; tries < TRIES; tries++) {
		*seed = s->seed + s->tried++;
		if (reset(s, *seed, level, err) < 0)
			return -SPAR_FAIL;
		if (s->episode->task.difficulty == level && !asked_before(s, s->episode->task.question.data)) {
			s->questions[s->done] = spar_strdup(s->episode->task.question.data);
			return 0;
		}
	}
	return spar_fail(err, SPAR_FAIL, "the graph of seed %" PRIu64 " has only %" PRId64 " different questions",
			 s->game.source.seed, s->done);
}

/* What a reset must be told for the same episode to come out of an environment with other defaults. */
static void add_options(const struct spar_osint_game *g, struct spar_str *out)
{
	spar_str_addf(out, "{\"role\":\"%s\",\"split\":\"%s\"", spar_osint_roles[g->role],
		      spar_osint_splits[g->source.split]);
	if (g->one_graph)
		spar_str_addf(out, ",\"graph_seed\":\"%" PRIu64 "\"", g->source.seed);
	if (g->metaqa) {
		spar_str_addf(out, ",\"context\":\"%s\",\"max_edges\":%d}", g->hidden ? "hidden" : "shown",
			      g->max_edges);
		return;
	}
	spar_str_addf(out, ",\"n_users\":%d,\"alias_density\":", g->source.n_users);
	spar_str_add_double(out, g->source.alias_density);
	spar_str_addf(out, ",\"context\":\"%s\",\"max_edges\":%d}", g->hidden ? "hidden" : "shown", g->max_edges);
}

/* A graph that is too large for a record: as much of it as the context shows. */
static void add_context_graph(const struct spar_osint_episode *e, struct spar_str *out)
{
	spar_str_adds(out, "{\"edges\":[");
	for (int i = 0; i < e->task.n_context; i++) {
		spar_str_adds(out, i ? "," : "");
		spar_osint_edge_array(e->graph, e->graph->edges[e->task.context[i]], out);
	}
	spar_str_adds(out, "]}");
}

static void write_messages(const struct spar_osint_taskset *s, const char *id, struct spar_str *line)
{
	const struct spar_osint_episode *e = s->episode;
	struct spar_str source = SPAR_STR_INIT;
	if (e->how.metaqa)
		add_context_graph(e, &source);
	else
		spar_osint_source_json(&e->how.source, &source);
	struct spar_osint_record r = {.graph = e->graph,
				      .graph_json = source.data,
				      .task = &e->task,
				      .role = e->how.role,
				      .id = id,
				      .source = "environment",
				      .own_graph = s->own_graph};
	spar_osint_record_write(&r, line);
	spar_str_release(&source);
}

/* The next question that the user put in, of the graph of the first seed. 0: there are no more. */
static int next_seeded(struct spar_osint_taskset *s, struct spar_str *line, struct spar_err *err)
{
	struct spar_osint_task task;
	struct spar_osint_source source = s->game.source;
	struct spar_osint_want want = {s->seed + (uint64_t)s->n_seeded, SPAR_OSINT_MIXED, s->game.max_edges, 0};
	struct spar_str id = SPAR_STR_INIT, json = SPAR_STR_INIT;
	if (!s->seeding || s->n_seeded == s->seeding->n_questions)
		return 0;
	source.seed = s->game.one_graph ? source.seed : s->seed;
	if (!s->graph.n_edges) {
		spar_osint_graph_init(&s->graph);
		spar_osint_generate(&s->graph, &source);
	}
	int rc = spar_osint_seeding_task(&task, &s->graph, s->seeding, s->n_seeded, &want, err);
	if (rc == 0) {
		spar_str_addf(&id, "osint-seeded-%" PRIu64 "-%d", s->seed, s->n_seeded++);
		spar_osint_source_json(&source, &json);
		struct spar_osint_record r = {.graph = &s->graph,
					      .graph_json = json.data,
					      .task = &task,
					      .role = SPAR_OSINT_ANSWERER,
					      .id = id.data,
					      .source = "seeding"};
		spar_str_clear(line);
		spar_osint_record_write(&r, line);
		s->n -= s->n > 0;
		rc = 1;
	}
	spar_osint_task_release(&task);
	spar_str_release(&json);
	spar_str_release(&id);
	return rc;
}

int spar_osint_taskset_next(struct spar_osint_taskset *s, struct spar_str *line, struct spar_err *err)
{
	uint64_t seed;
	int seeded = next_seeded(s, line, err);
	if (seeded)
		return seeded;
	if (s->done == s->n)
		return 0;
	if (!s->episode) {
		s->episode = spar_calloc(1, sizeof *s->episode);
		s->questions = s->levels ? spar_calloc((size_t)s->n, sizeof *s->questions) : NULL;
	}
	if (s->levels && !s->game.one_graph && !s->game.metaqa) {
		s->game.one_graph = true;
		s->game.source.seed = s->seed;
	}
	int rc = find(s, &seed, err);
	if (rc < 0)
		return rc;
	const char *level = spar_osint_difficulties[s->episode->task.difficulty];
	struct spar_str id = SPAR_STR_INIT;
	spar_str_addf(&id, "%s-%s-%s-", s->game.metaqa ? "metaqa" : "osint", spar_osint_roles[s->game.role],
		      spar_osint_splits[s->game.source.split]);
	if (s->game.one_graph)
		spar_str_addf(&id, "%" PRIu64 "-", s->game.source.seed);
	spar_str_addf(&id, "%" PRIu64 "-%s", seed, level);
	spar_str_clear(line);
	if (s->messages) {
		write_messages(s, id.data, line);
	} else {
		spar_str_addf(line, "{\"type\":\"task\",\"id\":\"%s\",\"env\":\"osint\",\"seed\":\"%" PRIu64 "\"",
			      id.data, seed);
		spar_str_addf(line, ",\"difficulty\":\"%s\",\"max_steps\":%" PRId64 ",\"options\":", level,
			      s->max_steps);
		add_options(&s->game, line);
		spar_str_addc(line, '}');
	}
	spar_str_release(&id);
	s->done++;
	return 1;
}

void spar_osint_taskset_release(struct spar_osint_taskset *s)
{
	for (int64_t i = 0; s->questions && i < s->done; i++)
		free(s->questions[i]);
	free(s->questions);
	spar_osint_graph_release(&s->graph);
	if (s->episode)
		spar_osint_episode_release(s->episode);
	free(s->episode);
}
