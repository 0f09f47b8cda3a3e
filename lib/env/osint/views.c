/* views.c - see views.h */
#include "env/osint/views.h"
#include "env/osint/draw.h"
#include <stdlib.h>
#include <string.h>

enum { CHATTER_ID = 1000, CHATTER_TIME = 1000, GRAPH_TIME = 5000, CONNECTIONS_SHOWN = 5, NEIGHBOURS_SHOWN = 8 };

/* What a draw is for. */
enum what { BY_ALIAS, WHICH_ALIAS, RUMOUR, MENTION, THREAD_AUTHOR, THREAD_TOPIC, GUEST, NOBODY };

const char *const spar_osint_topics[4] = {"security", "startup", "ai", "infra"};

/* ---- the graph ---- */

static int32_t relation(const struct spar_osint_graph *g, const char *name)
{
	return spar_osint_relation(g, name, strlen(name));
}

int32_t spar_osint_target(const struct spar_osint_graph *g, int32_t src, const char *rel)
{
	int32_t n;
	const int32_t *edges = spar_osint_out(g, src, relation(g, rel), &n);
	return n ? g->edges[edges[0]].dst : -1;
}

int32_t spar_osint_owner(const struct spar_osint_graph *g, int32_t node)
{
	int32_t owner = node < 0 || g->kinds[node] != SPAR_OSINT_ALIAS ? -1 : spar_osint_target(g, node, "alias_of");
	return owner < 0 ? node : owner;
}

void spar_osint_title(const struct spar_osint_graph *g, int32_t node, struct spar_str *out)
{
	static const char *const words[] = {"Person", NULL, "Company", "Place", NULL, NULL, "Event"};
	const char *name = spar_osint_node_name(g, node), *number = strrchr(name, '_');
	const char *word = node < 0 ? NULL : words[g->kinds[node]];
	if (word && number)
		spar_str_addf(out, "%s %s", word, number + 1);
	else
		spar_str_adds(out, name);
}

/* ---- making ---- */

struct maker {
	struct spar_osint_views *v;
	struct spar_rng rng;
	int32_t *aliases, n_aliases;
};

static int32_t any_user(const struct maker *m, enum what what, int32_t i)
{
	return m->v->users[spar_osint_below(&m->rng, (uint32_t)what, (uint32_t)i, m->v->n_users)];
}

/* What user number i, or someone under another name, says of the day. */
static void make_chatter(struct maker *m, int32_t i, double rumours)
{
	struct spar_osint_views *v = m->v;
	const struct spar_osint_graph *g = v->graph;
	struct spar_osint_post *p = &v->posts[v->n_posts++];
	int32_t user = v->users[i], author = user;
	if (m->n_aliases && spar_rng_uniform(&m->rng, BY_ALIAS, (uint32_t)i, 0, 0) < 0.45)
		author = m->aliases[spar_osint_below(&m->rng, WHICH_ALIAS, (uint32_t)i, m->n_aliases)];
	bool rumour = spar_rng_uniform(&m->rng, RUMOUR, (uint32_t)i, 0, 0) < rumours;
	*p = (struct spar_osint_post){-1, author, any_user(m, MENTION, i), CHATTER_TIME + i, (uint32_t)v->text.len};
	spar_str_addf(&v->text, "%sBusy day %d at ", rumour ? "They say: " : "", i);
	spar_osint_title(g, spar_osint_target(g, user, "works_at"), &v->text);
	spar_str_adds(&v->text, " near ");
	spar_osint_title(g, spar_osint_target(g, user, "located_in"), &v->text);
	spar_str_adds(&v->text, rumour ? ", not confirmed" : "");
	spar_str_addc(&v->text, 0);
}

static void make_post(struct spar_osint_views *v, const struct spar_osint_edge *authored)
{
	const struct spar_osint_graph *g = v->graph;
	int32_t n, k = v->n_posts++;
	v->posts[k] = (struct spar_osint_post){authored->dst, authored->src, -1, GRAPH_TIME + k, (uint32_t)v->text.len};
	spar_str_addf(&v->text, "%s about", spar_osint_node_name(g, authored->src));
	const int32_t *edges = spar_osint_out(g, authored->dst, relation(g, "references"), &n);
	for (int32_t i = 0; i < n; i++) {
		int32_t about = g->edges[edges[i]].dst;
		spar_str_addc(&v->text, ' ');
		spar_osint_title(g, about, &v->text);
		spar_str_addf(&v->text, " (%s)", spar_osint_node_name(g, about));
	}
	spar_str_addc(&v->text, 0);
}

/* Edges of a relation, in the graph's order: *n of them. The caller frees. */
static int32_t *edges_of(const struct spar_osint_graph *g, const char *name, int32_t *n)
{
	int32_t rel = relation(g, name);
	int32_t *edges = spar_malloc(((size_t)g->n_edges + 1) * sizeof *edges);
	*n = 0;
	for (int32_t i = 0; i < g->n_edges; i++)
		if (g->edges[i].rel == rel)
			edges[(*n)++] = i;
	return edges;
}

static void make_posts(struct maker *m, double rumours)
{
	struct spar_osint_views *v = m->v;
	int32_t n, *authored = edges_of(v->graph, "authored_post", &n);
	v->posts = spar_calloc((size_t)(v->n_users + n + 1), sizeof *v->posts);
	for (int32_t i = 0; i < v->n_users; i++)
		make_chatter(m, i, rumours);
	for (int32_t i = 0; i < n; i++)
		make_post(v, &v->graph->edges[authored[i]]);
	free(authored);
}

static void make_threads(struct maker *m)
{
	struct spar_osint_views *v = m->v;
	int32_t n, *authored = edges_of(v->graph, "authored_thread", &n);
	int32_t n_small_talk = v->n_users / 3 < 8 ? 8 : v->n_users / 3;
	v->threads = spar_calloc((size_t)(n_small_talk + n), sizeof *v->threads);
	for (int32_t i = 0; i < n_small_talk && v->n_users; i++)
		v->threads[v->n_threads++] =
		    (struct spar_osint_thread){-1,
					       any_user(m, THREAD_AUTHOR, i),
					       (uint32_t)spar_osint_below(&m->rng, THREAD_TOPIC, (uint32_t)i, 4),
					       {any_user(m, GUEST, 2 * i), any_user(m, GUEST, 2 * i + 1)}};
	for (int32_t i = 0; i < n; i++) {
		const struct spar_osint_edge *e = &v->graph->edges[authored[i]];
		v->threads[v->n_threads++] = (struct spar_osint_thread){
		    e->dst, e->src, (uint32_t)spar_osint_below(&m->rng, THREAD_TOPIC, (uint32_t)e->dst, 4), {-1, -1}};
	}
	free(authored);
}

void spar_osint_views_make(struct spar_osint_views *v, const struct spar_osint_graph *g, uint64_t seed,
			   const struct spar_osint_noise *noise)
{
	*v = (struct spar_osint_views){.graph = g, .text = SPAR_STR_INIT};
	struct maker m = {.v = v, .rng = spar_osint_stream(seed, "views")};
	v->users = spar_malloc(((size_t)g->nodes.n + 1) * sizeof *v->users);
	m.aliases = spar_malloc(((size_t)g->nodes.n + 1) * sizeof *m.aliases);
	for (int32_t i = 0; i < g->nodes.n; i++) {
		if (g->kinds[i] == SPAR_OSINT_USER)
			v->users[v->n_users++] = i;
		else if (g->kinds[i] == SPAR_OSINT_ALIAS)
			m.aliases[m.n_aliases++] = i;
	}
	make_posts(&m, noise->rumours);
	make_threads(&m);
	v->n_red_herrings = (int32_t)(v->n_users * noise->red_herrings);
	v->red_herrings = spar_calloc((size_t)v->n_red_herrings + 1, sizeof *v->red_herrings);
	for (int32_t i = 0; i < v->n_red_herrings; i++)
		v->red_herrings[i] = 100 + (uint32_t)spar_osint_below(&m.rng, NOBODY, (uint32_t)i, 900);
	free(m.aliases);
}

void spar_osint_views_plain(struct spar_osint_views *v, const struct spar_osint_graph *g)
{
	*v = (struct spar_osint_views){.graph = g, .text = SPAR_STR_INIT, .plain = true};
	v->posts = spar_calloc((size_t)g->n_edges + 1, sizeof *v->posts);
	v->users = spar_malloc(((size_t)g->nodes.n + 1) * sizeof *v->users);
	while (v->n_users < g->nodes.n) {
		v->users[v->n_users] = v->n_users;
		v->n_users++;
	}
	for (int32_t i = 0; i < g->n_edges; i++) {
		const struct spar_osint_edge *e = &g->edges[i];
		v->posts[v->n_posts++] =
		    (struct spar_osint_post){-1, e->src, e->dst, CHATTER_TIME + i, (uint32_t)v->text.len};
		spar_str_addf(&v->text, "%s %s %s", spar_osint_node_name(g, e->src),
			      spar_osint_relation_name(g, e->rel), spar_osint_node_name(g, e->dst));
		spar_str_addc(&v->text, 0);
	}
}

void spar_osint_views_release(struct spar_osint_views *v)
{
	free(v->posts);
	free(v->threads);
	free(v->users);
	free(v->red_herrings);
	spar_str_release(&v->text);
	*v = (struct spar_osint_views){.text = SPAR_STR_INIT};
}

/* ---- JSON ---- */

static void add_name(struct spar_str *out, const char *name)
{
	spar_str_add_json(out, name, strlen(name));
}

static void add_title(const struct spar_osint_graph *g, int32_t node, struct spar_str *out)
{
	struct spar_str title = SPAR_STR_INIT;
	spar_osint_title(g, node, &title);
	spar_str_add_json(out, title.data, title.len);
	spar_str_release(&title);
}

/* Where (node, relation, *) leads, as an array of names or titles, at most `max`. */
static void add_targets(const struct spar_osint_graph *g, int32_t node, const char *rel, int32_t max, bool titles,
			struct spar_str *out)
{
	int32_t n;
	const int32_t *edges = spar_osint_out(g, node, relation(g, rel), &n);
	spar_str_addc(out, '[');
	for (int32_t i = 0; i < n && i < max; i++) {
		int32_t dst = g->edges[edges[i]].dst;
		spar_str_adds(out, i ? "," : "");
		if (titles)
			add_title(g, dst, out);
		else
			add_name(out, spar_osint_node_name(g, dst));
	}
	spar_str_addc(out, ']');
}

void spar_osint_post_id(const struct spar_osint_views *v, int32_t i, struct spar_str *out)
{
	if (v->posts[i].node >= 0)
		spar_str_adds(out, spar_osint_node_name(v->graph, v->posts[i].node));
	else
		spar_str_addf(out, "post_%d", CHATTER_ID + i);
}

void spar_osint_thread_id(const struct spar_osint_views *v, int32_t i, struct spar_str *out)
{
	if (v->threads[i].node >= 0)
		spar_str_adds(out, spar_osint_node_name(v->graph, v->threads[i].node));
	else
		spar_str_addf(out, "thr_%d", CHATTER_ID + i);
}

void spar_osint_post_json(const struct spar_osint_views *v, int32_t i, struct spar_str *out)
{
	const struct spar_osint_post *p = &v->posts[i];
	spar_str_adds(out, "{\"post_id\":\"");
	spar_osint_post_id(v, i, out);
	spar_str_adds(out, "\",\"user_id\":");
	add_name(out, spar_osint_node_name(v->graph, p->author));
	spar_str_adds(out, ",\"text\":");
	add_name(out, v->text.data + p->text);
	spar_str_adds(out, ",\"references\":");
	add_targets(v->graph, p->node, "references", INT32_MAX, false, out);
	spar_str_adds(out, ",\"reference_names\":");
	add_targets(v->graph, p->node, "references", INT32_MAX, true, out);
	spar_str_adds(out, ",\"mentions\":[");
	if (p->mention >= 0)
		add_name(out, spar_osint_node_name(v->graph, p->mention));
	spar_str_addf(out, "],\"timestamp\":%d}", p->timestamp);
}

void spar_osint_thread_json(const struct spar_osint_views *v, int32_t i, struct spar_str *out)
{
	const struct spar_osint_thread *t = &v->threads[i];
	int32_t n;
	spar_str_adds(out, "{\"thread_id\":\"");
	spar_osint_thread_id(v, i, out);
	spar_str_adds(out, "\",\"user_id\":");
	add_name(out, spar_osint_node_name(v->graph, t->author));
	spar_str_addf(out, ",\"topic\":\"%s\",\"comments\":[", spar_osint_topics[t->topic]);
	for (int k = 0; k < 2 && t->guests[k] >= 0; k++) {
		spar_str_adds(out, k ? ",{\"user_id\":" : "{\"user_id\":");
		add_name(out, spar_osint_node_name(v->graph, t->guests[k]));
		spar_str_addf(out, ",\"text\":\"more %s, please\"}", spar_osint_topics[t->topic]);
	}
	const int32_t *edges = spar_osint_out(v->graph, t->node, relation(v->graph, "discusses"), &n);
	for (int32_t k = 0; k < n; k++) {
		spar_str_adds(out, k ? ",{\"user_id\":" : "{\"user_id\":");
		add_name(out, spar_osint_node_name(v->graph, t->author));
		spar_str_adds(out, ",\"text\":");
		add_title(v->graph, v->graph->edges[edges[k]].dst, out);
		spar_str_addc(out, '}');
	}
	spar_str_adds(out, "],\"discusses\":");
	add_targets(v->graph, t->node, "discusses", INT32_MAX, false, out);
	spar_str_addc(out, '}');
}

static void add_aliases(const struct spar_osint_graph *g, int32_t user, struct spar_str *out)
{
	int32_t n;
	const int32_t *edges = spar_osint_in(g, user, relation(g, "alias_of"), &n);
	spar_str_addc(out, '[');
	for (int32_t i = 0; i < n; i++) {
		spar_str_adds(out, i ? "," : "");
		add_name(out, spar_osint_node_name(g, g->edges[edges[i]].src));
	}
	spar_str_addc(out, ']');
}

/* The nodes next to one, whatever the relation and its direction. */
static void add_neighbours(const struct spar_osint_graph *g, int32_t node, struct spar_str *out)
{
	int shown = 0;
	spar_str_addc(out, '[');
	for (int way = 0; way < 2; way++) {
		const int32_t *at = way ? g->in_at : g->out_at, *edges = way ? g->in : g->out;
		for (int32_t i = at[node]; i < at[node + 1] && shown < NEIGHBOURS_SHOWN; i++) {
			const struct spar_osint_edge *e = &g->edges[edges[i]];
			spar_str_adds(out, shown++ ? "," : "");
			add_name(out, spar_osint_node_name(g, way ? e->src : e->dst));
		}
	}
	spar_str_addc(out, ']');
}

void spar_osint_profile_json(const struct spar_osint_views *v, int32_t i, struct spar_str *out)
{
	static const char *const firms[] = {"Nowhere Systems", "Blank Holdings"}, *const places[] = {"Remote",
												     "Unknown"};
	if (i >= v->n_users) {
		uint32_t r = v->red_herrings[i - v->n_users];
		spar_str_addf(out, "{\"user_id\":\"noise_%d\",\"name\":\"P%u\",\"org\":\"%s\",\"org_id\":\"\"",
			      i - v->n_users, r, firms[r % 2]);
		spar_str_addf(out, ",\"location\":\"%s\",\"location_id\":\"\",\"alias_ids\":[],\"connections\":[]",
			      places[r / 2 % 2]);
		spar_str_addf(out, ",\"work_history\":[\"%s\"]}", firms[r % 2]);
		return;
	}
	const struct spar_osint_graph *g = v->graph;
	int32_t user = v->users[i], org = spar_osint_target(g, user, "works_at"),
		place = spar_osint_target(g, user, "located_in");
	spar_str_adds(out, "{\"user_id\":");
	add_name(out, spar_osint_node_name(g, user));
	spar_str_adds(out, ",\"name\":");
	add_title(g, user, out);
	spar_str_adds(out, ",\"org\":");
	add_title(g, org, out);
	spar_str_adds(out, ",\"org_id\":");
	add_name(out, spar_osint_node_name(g, org));
	spar_str_adds(out, ",\"location\":");
	add_title(g, place, out);
	spar_str_adds(out, ",\"location_id\":");
	add_name(out, spar_osint_node_name(g, place));
	spar_str_adds(out, ",\"alias_ids\":");
	add_aliases(g, user, out);
	spar_str_adds(out, ",\"connections\":");
	if (v->plain)
		add_neighbours(g, user, out);
	else
		add_targets(g, user, "connected_to", CONNECTIONS_SHOWN, false, out);
	spar_str_adds(out, ",\"work_history\":");
	add_targets(g, user, "works_at", INT32_MAX, true, out);
	spar_str_addc(out, '}');
}
