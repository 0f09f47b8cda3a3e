/* generate.c - graphs from a seed, see osint.h */
#include "env/osint/draw.h"
#include "env/osint/osint.h"
#include "record/record.h"
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { USERS = 24, USERS_MIN = 4, USERS_MAX = 512, TWO_DIGITS = 90 };

const char *const spar_osint_profiles[] = {"sound", "reference", NULL};
const char *const spar_osint_splits[] = {"train", "validation", "test", NULL};
const char *const spar_osint_roles[] = {"answerer", "generator", NULL};
const char *const spar_osint_difficulties[] = {"easy", "medium", "hard", "mixed", NULL};

/* What a draw is for: the first counter. */
enum what {
	WORK,
	PLACE,
	HAS_ALIAS,
	FRIEND_FROM,
	FRIEND_TO,
	OFFICE,
	AUTHOR,
	BY_ALIAS,
	REFERENCE,
	POSTER,
	TOPIC,
	VENUE,
	SLEUTH,
	NUMBERS, /* + kind */
};

struct maker {
	struct spar_osint_graph *g;
	struct spar_rng rng;
	int32_t first[SPAR_OSINT_KINDS], n[SPAR_OSINT_KINDS]; /* nodes of a kind are consecutive */
};

/* `n` nodes of a kind, numbered at random: what a name says about an entity in one graph is wrong in the next. */
static void make_nodes(struct maker *m, enum spar_osint_kind kind, int32_t n)
{
	static const char *const prefixes[] = {"user", "alias", "org", "loc", "post", "thr", "event"};
	size_t numbers[10 * TWO_DIGITS];
	bool short_names = n <= TWO_DIGITS;
	spar_rng_permutation(&m->rng, NUMBERS + (uint32_t)kind, numbers, short_names ? TWO_DIGITS : 10 * TWO_DIGITS);
	m->first[kind] = m->g->nodes.n;
	m->n[kind] = n;
	for (int32_t i = 0; i < n; i++) {
		char name[32];
		int len = snprintf(name, sizeof name, "%s_%zu", prefixes[kind], numbers[i] + (short_names ? 10 : 100));
		spar_osint_graph_name(m->g, name, (size_t)len);
	}
}

static int32_t any(const struct maker *m, enum spar_osint_kind kind, enum what what, int32_t i)
{
	return m->first[kind] + spar_osint_below(&m->rng, (uint32_t)what, (uint32_t)i, m->n[kind]);
}

static void edge(const struct maker *m, int32_t src, const char *relation, int32_t dst, float confidence)
{
	int32_t rel = spar_osint_graph_relation(m->g, relation, strlen(relation));
	spar_osint_graph_add(m->g, (struct spar_osint_edge){src, rel, dst}, confidence);
}

/* Users at work, at home, under other names and with each other. */
static void make_people(struct maker *m, double alias_density)
{
	int32_t users = m->n[SPAR_OSINT_USER], first = m->first[SPAR_OSINT_USER];
	for (int32_t i = 0; i < users; i++) {
		edge(m, first + i, "works_at", any(m, SPAR_OSINT_ORG, WORK, i), 1);
		edge(m, first + i, "located_in", any(m, SPAR_OSINT_LOCATION, PLACE, i), 1);
	}
	int32_t owners[USERS_MAX], n = 0;
	for (int32_t i = 0; i < users; i++)
		if (spar_rng_uniform(&m->rng, HAS_ALIAS, (uint32_t)i, 0, 0) < alias_density)
			owners[n++] = first + i;
	make_nodes(m, SPAR_OSINT_ALIAS, n);
	for (int32_t i = 0; i < n; i++)
		edge(m, m->first[SPAR_OSINT_ALIAS] + i, "alias_of", owners[i], 1);
	for (int32_t i = 0; i < users / 2; i++) {
		int32_t from = any(m, SPAR_OSINT_USER, FRIEND_FROM, i);
		int32_t step = 1 + spar_osint_below(&m->rng, FRIEND_TO, (uint32_t)i, users - 1);
		edge(m, from, "connected_to", first + (from - first + step) % users, 0.8f);
	}
}

/* What organisations and people do: each leads on to something else, so that there are paths of four hops. */
static void make_doings(struct maker *m)
{
	static const enum spar_osint_kind referable[] = {SPAR_OSINT_USER, SPAR_OSINT_ORG, SPAR_OSINT_EVENT};
	int32_t aliases = m->n[SPAR_OSINT_ALIAS];
	for (int32_t i = 0; i < m->n[SPAR_OSINT_ORG]; i++)
		edge(m, m->first[SPAR_OSINT_ORG] + i, "operates_in", any(m, SPAR_OSINT_LOCATION, OFFICE, i), 1);
	for (int32_t i = 0; i < m->n[SPAR_OSINT_EVENT]; i++)
		edge(m, m->first[SPAR_OSINT_EVENT] + i, "located_in", any(m, SPAR_OSINT_LOCATION, VENUE, i), 1);
	for (int32_t i = 0; i < m->n[SPAR_OSINT_POST]; i++) {
		bool by_alias = aliases && spar_rng_uniform(&m->rng, BY_ALIAS, (uint32_t)i, 0, 0) < 0.45;
		int32_t post = m->first[SPAR_OSINT_POST] + i;
		edge(m, any(m, by_alias ? SPAR_OSINT_ALIAS : SPAR_OSINT_USER, AUTHOR, i), "authored_post", post, 1);
		edge(m, post, "references", any(m, referable[i % 3], REFERENCE, i), 1);
	}
	for (int32_t i = 0; i < m->n[SPAR_OSINT_THREAD]; i++) {
		int32_t thread = m->first[SPAR_OSINT_THREAD] + i;
		edge(m, any(m, SPAR_OSINT_USER, POSTER, i), "authored_thread", thread, 1);
		edge(m, thread, "discusses", any(m, i % 2 ? SPAR_OSINT_USER : SPAR_OSINT_EVENT, TOPIC, i), 1);
	}
	for (int32_t i = 0; i < m->n[SPAR_OSINT_USER] / 4; i++)
		edge(m, any(m, SPAR_OSINT_USER, SLEUTH, 2 * i), i % 2 ? "monitors" : "investigates",
		     any(m, i % 2 ? SPAR_OSINT_ORG : SPAR_OSINT_EVENT, SLEUTH, 2 * i + 1), 1);
}

static int make_graph(struct spar_osint_graph *g, const struct spar_osint_source *s, struct spar_err *err)
{
	static const char *const streams[] = {"graph/train", "graph/validation", "graph/test"};
	struct maker m = {.g = g, .rng = spar_osint_stream(s->seed, streams[s->split])};
	int32_t n = s->n_users ? s->n_users : USERS;
	make_nodes(&m, SPAR_OSINT_USER, n);
	make_nodes(&m, SPAR_OSINT_ORG, n / 3 < 3 ? 3 : n / 3);
	make_nodes(&m, SPAR_OSINT_LOCATION, n / 4 < 4 ? 4 : n / 4);
	make_nodes(&m, SPAR_OSINT_POST, n / 2);
	make_nodes(&m, SPAR_OSINT_THREAD, n / 4);
	make_nodes(&m, SPAR_OSINT_EVENT, n / 4 < 2 ? 2 : n / 4);
	make_people(&m, s->alias_density);
	make_doings(&m);
	int rc = 0;
	if (jv_is_valid(s->seeded_edges))
		rc = spar_osint_graph_read_edges(g, s->seeded_edges, "seeded_edges", err);
	spar_osint_graph_index(g);
	return rc;
}

void spar_osint_generate(struct spar_osint_graph *g, const struct spar_osint_source *s)
{
	make_graph(g, s, NULL); /* seeded edges are edges, all of them: they were read before */
}

/* ---- sources in records ---- */

void spar_osint_source_json(const struct spar_osint_source *s, struct spar_str *out)
{
	spar_str_addf(out, "{\"seed\":\"%" PRIu64 "\",\"split\":\"%s\",\"n_users\":%d,\"alias_density\":", s->seed,
		      spar_osint_splits[s->split], s->n_users ? s->n_users : USERS);
	spar_str_add_double(out, s->alias_density);
	if (jv_is_valid(s->seeded_edges)) {
		jv text = jv_dump_string(jv_copy(s->seeded_edges), 0);
		spar_str_addf(out, ",\"seeded_edges\":%s", jv_string_value(text));
		jv_free(text);
	}
	spar_str_addc(out, '}');
}

int spar_osint_choice(const char *const *names, const char *name, size_t n)
{
	for (int i = 0; names[i]; i++)
		if (strlen(names[i]) == n && !memcmp(names[i], name, n))
			return i;
	return -1;
}

int spar_osint_source_read(struct spar_osint_source *s, jv object, struct spar_err *err)
{
	const char *split;
	size_t n;
	int64_t users;
	if (spar_has(object, "seed") && spar_get_u64(object, "", "seed", &s->seed, err) < 0)
		return -SPAR_INPUT;
	if (spar_has(object, "split")) {
		if (spar_get_str(object, "", "split", &split, &n, err) < 0)
			return -SPAR_INPUT;
		int i = spar_osint_choice(spar_osint_splits, split, n);
		if (i < 0)
			return spar_fail(err, SPAR_INPUT, ".split: must be train, validation or test");
		s->split = (enum spar_osint_split)i;
	}
	if (spar_has(object, "n_users")) {
		if (spar_get_i64(object, "", "n_users", &users, err) < 0)
			return -SPAR_INPUT;
		if (users < USERS_MIN || users > USERS_MAX)
			return spar_fail(err, SPAR_INPUT, ".n_users: must be %d to %d", USERS_MIN, USERS_MAX);
		s->n_users = (int)users;
	}
	if (spar_has(object, "alias_density")) {
		if (spar_get_double(object, "", "alias_density", &s->alias_density, err) < 0)
			return -SPAR_INPUT;
		if (!(s->alias_density >= 0 && s->alias_density <= 1))
			return spar_fail(err, SPAR_INPUT, ".alias_density: must be 0 to 1");
	}
	return 0;
}

int spar_osint_graph_from(struct spar_osint_graph *g, jv object, struct spar_err *err)
{
	struct spar_osint_source s = SPAR_OSINT_SOURCE(0, SPAR_OSINT_TRAIN);
	if (spar_has(object, "edges"))
		return spar_osint_graph_read(g, object, err);
	if (!spar_has(object, "seed"))
		return spar_fail(err, SPAR_INPUT, "a graph has either .edges or a .seed to be made from");
	int rc = spar_osint_source_read(&s, object, err);
	if (rc < 0)
		return rc;
	if (spar_has(object, "seeded_edges") &&
	    (rc = spar_get_kind(object, "", "seeded_edges", JV_KIND_ARRAY, &s.seeded_edges, err)) < 0)
		return rc;
	rc = make_graph(g, &s, err);
	jv_free(s.seeded_edges);
	return rc;
}
