/* tools.c - see tools.h */
#include "env/osint/tools.h"
#include "env/osint/bag.h"
#include "record/record.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { SHOWN = 20, FOUND_BY_DEFAULT = 5, TEXTS = 2 };

struct args {
	const char *text[TEXTS]; /* "" if not given */
	size_t n[TEXTS];
	double range[2];
	int64_t k;
};

typedef void writer(const struct spar_osint_views *v, int32_t i, struct spar_str *out);

/* A tool either goes along a shelf and shows what matches there, or has a function of its own. */
enum shelf { POSTS, THREADS, PROFILES };
enum param_kind { NONE, TEXT, QUERY, RANGE, COUNT }; /* QUERY: a text that must not be empty */

struct finder;
struct tool {
	const char *name;
	void (*run)(struct finder *f);
	struct {
		const char *key;
		enum param_kind kind;
		bool needed;
	} params[2];
	enum shelf shelf;
	bool (*matches)(const struct finder *f, int32_t i);
};

struct finder {
	const struct tool *tool;
	const struct spar_osint_desk *d;
	const struct spar_osint_views *v;
	const struct spar_osint_graph *g;
	const struct args *a;
	struct spar_str *out;
	int32_t who; /* the node that the first argument names, or -1 */
	int32_t count, shown;
};

/* ---- matching ---- */

static char lower(char c)
{
	return (char)(c >= 'A' && c <= 'Z' ? c + 'a' - 'A' : c);
}

/* Whether `text` holds argument number `arg`, whatever the case. */
static bool holds(const struct args *a, int arg, const char *text, size_t n)
{
	size_t len = a->n[arg];
	for (size_t i = 0; i + len <= n; i++) {
		size_t k = 0;
		while (k < len && lower(text[i + k]) == lower(a->text[arg][k]))
			k++;
		if (k == len)
			return true;
	}
	return false;
}

static bool name_holds(const struct finder *f, int arg, int32_t node)
{
	const char *name = spar_osint_node_name(f->g, node);
	return node >= 0 && holds(f->a, arg, name, strlen(name));
}

static bool title_holds(const struct finder *f, int arg, int32_t node)
{
	struct spar_str title = SPAR_STR_INIT;
	spar_osint_title(f->g, node, &title);
	bool found = holds(f->a, arg, title.data, title.len);
	spar_str_release(&title);
	return found;
}

static bool id_is(const struct finder *f, writer *write, int32_t i, bool whole)
{
	struct spar_str id = SPAR_STR_INIT;
	write(f->v, i, &id);
	bool same = id.len == f->a->n[0] && !memcmp(id.data, f->a->text[0], id.len);
	bool found = whole ? same : holds(f->a, 0, id.data, id.len);
	spar_str_release(&id);
	return found;
}

/* Whether `node` is who was asked for: the same, the owner of that alias, or an alias of that user. */
static bool is_asked(const struct finder *f, int32_t node)
{
	return f->who >= 0 && node >= 0 &&
	       (node == f->who || node == spar_osint_owner(f->g, f->who) ||
		(f->g->kinds[f->who] == SPAR_OSINT_USER && spar_osint_owner(f->g, node) == f->who));
}

/* ---- results: the first of them, and how many there are ---- */

static bool another(struct finder *f)
{
	f->count++;
	if (f->shown == SHOWN)
		return false;
	spar_str_adds(f->out, f->shown++ ? "," : "");
	return true;
}

static void begin(struct finder *f)
{
	spar_str_adds(f->out, "{\"results\":[");
}

static void end(struct finder *f)
{
	spar_str_addf(f->out, "],\"count\":%d}", f->count);
}

/* ---- along a shelf ---- */

static int32_t shelf_length(const struct spar_osint_views *v, enum shelf shelf)
{
	return shelf == POSTS ? v->n_posts : shelf == THREADS ? v->n_threads : v->n_users + v->n_red_herrings;
}

static writer *const shelf_writers[] = {spar_osint_post_json, spar_osint_thread_json, spar_osint_profile_json};

static void all(struct finder *f)
{
	begin(f);
	for (int32_t i = 0; i < shelf_length(f->v, f->tool->shelf); i++)
		if (f->tool->matches(f, i) && another(f))
			shelf_writers[f->tool->shelf](f->v, i, f->out);
	end(f);
}

static void first(struct finder *f)
{
	int32_t i = 0, n = shelf_length(f->v, f->tool->shelf);
	while (i < n && !f->tool->matches(f, i))
		i++;
	spar_str_adds(f->out, "{\"result\":");
	if (i < n)
		shelf_writers[f->tool->shelf](f->v, i, f->out);
	else
		spar_str_adds(f->out, "null");
	spar_str_addf(f->out, ",\"found\":%s}", i < n ? "true" : "false");
}

/* ---- posts ---- */

static bool post_matches(const struct finder *f, int32_t i)
{
	const struct spar_osint_post *p = &f->v->posts[i];
	const char *text = f->v->text.data + p->text;
	if (!(p->timestamp >= f->a->range[0] && p->timestamp <= f->a->range[1]))
		return false;
	return holds(f->a, 0, text, strlen(text)) || id_is(f, spar_osint_post_id, i, false) ||
	       name_holds(f, 0, p->author) || name_holds(f, 0, spar_osint_owner(f->g, p->author));
}

static bool post_is_named(const struct finder *f, int32_t i)
{
	return id_is(f, spar_osint_post_id, i, true);
}

static bool post_is_by(const struct finder *f, int32_t i)
{
	return is_asked(f, f->v->posts[i].author);
}

static bool post_mentions(const struct finder *f, int32_t i)
{
	return is_asked(f, f->v->posts[i].mention);
}

/* ---- threads ---- */

static bool thread_matches(const struct finder *f, int32_t i)
{
	const char *topic = spar_osint_topics[f->v->threads[i].topic];
	bool same = strlen(topic) == f->a->n[0] && !memcmp(topic, f->a->text[0], f->a->n[0]);
	return same || id_is(f, spar_osint_thread_id, i, false);
}

static bool thread_is_named(const struct finder *f, int32_t i)
{
	return id_is(f, spar_osint_thread_id, i, true);
}

static void get_user_activity(struct finder *f)
{
	begin(f);
	for (int32_t i = 0; i < f->v->n_threads; i++) {
		const struct spar_osint_thread *t = &f->v->threads[i];
		bool wrote = is_asked(f, t->author), spoke = is_asked(f, t->guests[0]) || is_asked(f, t->guests[1]);
		for (int kind = 0; kind < 2; kind++) {
			if (!(kind ? spoke : wrote) || !another(f))
				continue;
			spar_str_addf(f->out, "{\"kind\":\"%s\",\"thread_id\":\"", kind ? "comment" : "thread");
			spar_osint_thread_id(f->v, i, f->out);
			spar_str_adds(f->out, "\"}");
		}
	}
	end(f);
}

/* ---- people ---- */

static bool profile_is_of(const struct finder *f, int32_t i)
{
	return i < f->v->n_users && is_asked(f, f->v->users[i]);
}

static bool person_matches(const struct finder *f, int32_t user)
{
	bool named = !f->a->n[0] || name_holds(f, 0, user) || title_holds(f, 0, user);
	int32_t n, org = spar_osint_target(f->g, user, "works_at");
	const int32_t *aliases = spar_osint_in(f->g, user, spar_osint_relation(f->g, "alias_of", 8), &n);
	for (int32_t i = 0; i < n && !named; i++)
		named = name_holds(f, 0, f->g->edges[aliases[i]].src);
	return named && (!f->a->n[1] || name_holds(f, 1, org) || title_holds(f, 1, org));
}

/* Red herrings have no names that anybody would look for, but turn up in lists. */
static bool profile_matches(const struct finder *f, int32_t i)
{
	if (i < f->v->n_users)
		return person_matches(f, f->v->users[i]);
	return !f->a->n[1] && (!f->a->n[0] || holds(f->a, 0, "noise_", 6));
}

static void get_connections(struct finder *f)
{
	int32_t n, who = spar_osint_owner(f->g, f->who);
	const int32_t *edges = spar_osint_out(f->g, who, spar_osint_relation(f->g, "connected_to", 12), &n);
	begin(f);
	for (int32_t i = 0; i < n; i++) {
		const char *name = spar_osint_node_name(f->g, f->g->edges[edges[i]].dst);
		if (another(f))
			spar_str_add_json(f->out, name, strlen(name));
	}
	end(f);
}

/* ---- memory ---- */

static void search_memory(struct finder *f)
{
	struct spar_osint_bag query = {0};
	double *scores = spar_calloc(f->d->n_calls + 1, sizeof *scores);
	spar_osint_bag_add(&query, f->a->text[0], f->a->n[0]);
	for (size_t i = 0; i < f->d->n_calls; i++) {
		struct spar_osint_bag bag = {0};
		spar_osint_bag_add(&bag, f->d->calls[i].args.data, f->d->calls[i].args.len);
		spar_osint_bag_add(&bag, f->d->calls[i].output.data, f->d->calls[i].output.len);
		scores[i] = spar_osint_bag_cosine(&query, &bag);
	}
	begin(f);
	while (f->shown < f->a->k) {
		size_t best = 0;
		for (size_t i = 1; i < f->d->n_calls; i++)
			if (scores[i] > scores[best])
				best = i;
		if (!f->d->n_calls || scores[best] <= 0 || !another(f))
			break;
		const struct spar_osint_call *c = &f->d->calls[best];
		spar_str_adds(f->out, "{\"score\":");
		spar_str_add_double(f->out, round(scores[best] * 1e4) / 1e4);
		spar_str_addf(f->out, ",\"tool\":\"%s\",\"args\":%s,\"output\":%s}", c->tool, c->args.data,
			      c->output.data);
		scores[best] = 0;
	}
	free(scores);
	end(f);
}

static void search_shared_context(struct finder *f)
{
	begin(f);
	for (int i = 0; i < f->d->n_context; i++) {
		const struct spar_osint_edge e = f->g->edges[f->d->context[i]];
		const char *rel = spar_osint_relation_name(f->g, e.rel);
		bool matches = name_holds(f, 0, e.src) || name_holds(f, 0, e.dst) || holds(f->a, 0, rel, strlen(rel));
		if (!matches || f->count++ >= f->a->k)
			continue;
		spar_str_adds(f->out, f->shown++ ? "," : "");
		spar_osint_edge_array(f->g, e, f->out);
	}
	end(f);
}

/* ---- the list ---- */

static const struct tool tools[] = {
    {"search_posts", all, {{"query", TEXT, true}, {"time_range", RANGE, false}}, POSTS, post_matches},
    {"get_post", first, {{"post_id", TEXT, true}}, POSTS, post_is_named},
    {"get_user_posts", all, {{"user_id", TEXT, true}}, POSTS, post_is_by},
    {"get_mentions", all, {{"user_id", TEXT, true}}, POSTS, post_mentions},
    {"search_threads", all, {{"topic", TEXT, true}}, THREADS, thread_matches},
    {"get_thread", first, {{"thread_id", TEXT, true}}, THREADS, thread_is_named},
    {"get_user_activity", get_user_activity, {{"user_id", TEXT, true}}, 0, NULL},
    {"get_profile", first, {{"user_id", TEXT, true}}, PROFILES, profile_is_of},
    {"search_people", all, {{"name", TEXT, false}, {"org", TEXT, false}}, PROFILES, profile_matches},
    {"get_connections", get_connections, {{"user_id", TEXT, true}}, 0, NULL},
    {"search_memory", search_memory, {{"query", QUERY, true}, {"k", COUNT, false}}, 0, NULL},
    {"search_shared_context", search_shared_context, {{"query", QUERY, true}, {"k", COUNT, false}}, 0, NULL},
};
enum { N_TOOLS = sizeof tools / sizeof *tools };

int spar_osint_tool(const char *name, size_t n)
{
	for (int i = 0; i < N_TOOLS; i++)
		if (strlen(tools[i].name) == n && !memcmp(tools[i].name, name, n))
			return i;
	return -1;
}

const char *spar_osint_tool_name(int tool)
{
	return tools[tool].name;
}

void spar_osint_tool_list(struct spar_str *out)
{
	for (int i = 0; i < N_TOOLS; i++) {
		spar_str_addf(out, "\n%s: %s", tools[i].name, tools[i].params[0].key);
		if (tools[i].params[1].kind == TEXT)
			spar_str_addf(out, ", %s", tools[i].params[1].key);
	}
}

void spar_osint_tool_names(struct spar_str *out)
{
	for (int i = 0; i < N_TOOLS; i++)
		spar_str_addf(out, "%s\"%s\"", i ? "," : "[", tools[i].name);
	spar_str_addc(out, ']');
}

/* ---- arguments ---- */

/* Each: NULL, or what is wrong. */
static const char *read_range(jv v, double range[2])
{
	if (jv_get_kind(v) != JV_KIND_ARRAY || jv_array_length(jv_copy(v)) != 2)
		return "is not [from, to]";
	for (int i = 0; i < 2; i++) {
		jv bound = jv_array_get(jv_copy(v), i);
		bool number = jv_get_kind(bound) == JV_KIND_NUMBER;
		range[i] = number ? jv_number_value(bound) : 0;
		jv_free(bound);
		if (!number)
			return "is not [from, to]";
	}
	return NULL;
}

/* `v` is borrowed and outlives `a`, which points into it. */
static const char *read_param(jv v, enum param_kind kind, int at, struct args *a)
{
	if (kind == RANGE)
		return read_range(v, a->range);
	if (kind == COUNT) {
		if (jv_get_kind(v) != JV_KIND_NUMBER || !(jv_number_value(v) >= 1 && jv_number_value(v) <= SHOWN))
			return "is not a number from 1 to 20";
		a->k = (int64_t)jv_number_value(v);
		return NULL;
	}
	if (jv_get_kind(v) != JV_KIND_STRING)
		return "is not a text";
	a->text[at] = jv_string_value(v);
	a->n[at] = (size_t)jv_string_length_bytes(jv_copy(v));
	return kind == QUERY && !a->n[at] ? "is empty" : NULL;
}

bool spar_osint_tool_call(int tool, const struct spar_osint_desk *d, jv args, struct spar_str *out, char why[64])
{
	struct args a = {.text = {"", ""}, .range = {0, 1e9}, .k = FOUND_BY_DEFAULT};
	jv held[2] = {jv_invalid(), jv_invalid()};
	bool good = true;
	for (int i = 0; i < 2 && good && tools[tool].params[i].kind; i++) {
		const char *wrong = NULL;
		if (jv_get_kind(args) == JV_KIND_OBJECT)
			held[i] = jv_object_get(jv_copy(args), jv_string(tools[tool].params[i].key));
		if (jv_is_valid(held[i]) && jv_get_kind(held[i]) != JV_KIND_NULL)
			wrong = read_param(held[i], tools[tool].params[i].kind, i, &a);
		else if (tools[tool].params[i].needed)
			wrong = "is missing";
		if (wrong)
			snprintf(why, 64, "%s %s", tools[tool].params[i].key, wrong);
		good = !wrong;
	}
	struct finder f = {.tool = &tools[tool], .d = d, .v = d->views, .g = d->views->graph, .a = &a, .out = out};
	f.who = spar_osint_node(f.g, a.text[0], a.n[0]);
	if (good)
		tools[tool].run(&f);
	jv_free(held[0]);
	jv_free(held[1]);
	return good;
}
