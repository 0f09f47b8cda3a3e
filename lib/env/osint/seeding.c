/* seeding.c - see seeding.h */
#include "env/osint/seeding.h"
#include "record/object.h"
#include "record/record.h"
#include <string.h>

enum { DECOYS = 2 };

static const char *const idle_keys[] = {"llm_generate_remaining_graph",
					"llm_generate_remaining_tasks",
					"llm_generated_edge_budget",
					"llm_generated_task_budget",
					"llm_generation_parallel",
					"llm_generation_workers",
					"llm_generation_retries",
					"allow_template_fallback_on_llm_failure",
					NULL};
static const char *const block_keys[] = {"seeded_nodes", "seeded_edges", "seeded_questions", NULL};
static const char *const node_keys[] = {"node_id", "node_type", "attrs", NULL};
static const char *const edge_keys[] = {"src", "rel", "dst", "confidence", NULL};
static const char *const question_keys[] = {"question", "answer", "task_type", "supporting_edges", "metadata", NULL};

static bool is_one_of(const char *const *names, const char *name)
{
	return spar_osint_choice(names, name, strlen(name)) >= 0;
}

/* A member that is not known must not pass for nothing. */
static int check_keys(struct spar_osint_seeding *s, jv object, const char *path, const char *const *keys,
		      struct spar_err *err)
{
	int rc = 0;
	jv_object_foreach(object, key, value)
	{
		const char *name = jv_string_value(key);
		int idle = keys == block_keys ? spar_osint_choice(idle_keys, name, strlen(name)) : -1;
		if (idle >= 0) {
			s->idle = true;
			s->example = idle_keys[idle];
		} else if (rc == 0 && !is_one_of(keys, name)) {
			rc = spar_fail(err, SPAR_INPUT, ".%s%s%.64s: there is no such key", path, *path ? "." : "",
				       name);
		}
		jv_free(value);
		jv_free(key);
	}
	return rc;
}

/* Call `read` on each object of a list that may be missing. */
static int each(struct spar_osint_seeding *s, jv block, const char *key, const char *const *keys,
		int (*read)(struct spar_osint_seeding *s, jv item, const char *path, struct spar_err *err),
		struct spar_err *err)
{
	jv list;
	int rc = 0;
	if (!spar_has(block, key))
		return 0;
	if (spar_get_kind(block, "", key, JV_KIND_ARRAY, &list, err) < 0)
		return -SPAR_INPUT;
	jv_array_foreach(list, i, item)
	{
		char path[48];
		snprintf(path, sizeof path, "%s[%d]", key, i);
		if (rc == 0 && jv_get_kind(item) != JV_KIND_OBJECT)
			rc = spar_fail(err, SPAR_INPUT, ".%s: expected object, got %s", path, spar_kind_name(item));
		if (rc == 0 && (rc = check_keys(s, item, path, keys, err)) == 0)
			rc = read(s, item, path, err);
		jv_free(item);
	}
	jv_free(list);
	return rc;
}

/* A node without an edge is nowhere in a task; so its name and kind are only held against each other. */
static int read_node(struct spar_osint_seeding *s, jv node, const char *path, struct spar_err *err)
{
	struct spar_osint_graph g;
	const char *name, *type;
	size_t n, n_type;
	if (spar_get_str(node, path, "node_id", &name, &n, err) < 0)
		return -SPAR_INPUT;
	if (spar_has(node, "attrs")) {
		s->idle = true;
		s->example = "attrs";
	}
	if (!spar_has(node, "node_type"))
		return 0;
	if (spar_get_str(node, path, "node_type", &type, &n_type, err) < 0)
		return -SPAR_INPUT;
	spar_osint_graph_init(&g);
	int32_t at = spar_osint_graph_name(&g, name, n);
	const char *kind = at < 0 ? "" : spar_osint_kind_name((enum spar_osint_kind)g.kinds[at]);
	int rc = at < 0 ? spar_fail(err, SPAR_INPUT, ".%s.node_id: is too long", path) : 0;
	if (rc == 0 && strcmp(type, kind) != 0)
		rc = spar_fail(err, SPAR_INPUT, ".%s.node_type: a node of this name is of kind %s", path, kind);
	spar_osint_graph_release(&g);
	return rc;
}

static int read_edge(struct spar_osint_seeding *s, jv edge, const char *path, struct spar_err *err)
{
	static const char *const names[] = {"src", "rel", "dst"};
	jv row = jv_array();
	int rc = 0;
	for (int i = 0; rc == 0 && i < 3; i++) {
		const char *text;
		size_t n;
		if ((rc = spar_get_str(edge, path, names[i], &text, &n, err)) == 0 && (!n || n > 256))
			rc = spar_fail(err, SPAR_INPUT, ".%s.%s: is empty or too long", path, names[i]);
		if (rc == 0)
			row = jv_array_append(row, jv_string_sized(text, (int)n));
	}
	if (rc == 0)
		s->edges = jv_array_append(s->edges, row);
	else
		jv_free(row);
	return rc;
}

static int read_question(struct spar_osint_seeding *s, jv question, const char *path, struct spar_err *err)
{
	const char *text;
	size_t n;
	if (spar_get_str(question, path, "question", &text, &n, err) < 0)
		return -SPAR_INPUT;
	s->questions = jv_array_append(s->questions, jv_copy(question));
	s->n_questions++;
	return 0;
}

/* A NEW reference to the block: `seeding`, at the top or inside `environment`; else the object (consumed) itself. */
static jv block_of(jv object)
{
	jv block = jv_object_get(jv_copy(object), jv_string("seeding"));
	jv environment = jv_object_get(jv_copy(object), jv_string("environment"));
	if (!jv_is_valid(block) && jv_get_kind(environment) == JV_KIND_OBJECT) {
		jv_free(block);
		jv_free(object);
		return jv_object_get(environment, jv_string("seeding"));
	}
	jv_free(environment);
	if (!jv_is_valid(block))
		return object;
	jv_free(object);
	return block;
}

int spar_osint_seeding_read(struct spar_osint_seeding *s, const char *path, struct spar_err *err)
{
	jv object;
	*s = (struct spar_osint_seeding){.edges = jv_array(), .questions = jv_array()};
	int rc = spar_object_read(path, &object, err);
	if (rc < 0)
		return rc;
	jv block = block_of(object);
	if (jv_get_kind(block) != JV_KIND_OBJECT)
		rc = spar_fail(err, SPAR_INPUT, "there is no seeding block");
	if (rc == 0 && (rc = check_keys(s, block, "", block_keys, err)) == 0 &&
	    (rc = each(s, block, "seeded_nodes", node_keys, read_node, err)) == 0 &&
	    (rc = each(s, block, "seeded_edges", edge_keys, read_edge, err)) == 0)
		rc = each(s, block, "seeded_questions", question_keys, read_question, err);
	jv_free(block);
	return rc < 0 ? spar_fail_at(err, "%s", path) : 0;
}

void spar_osint_seeding_release(struct spar_osint_seeding *s)
{
	jv_free(s->edges);
	jv_free(s->questions);
}

/* ---- questions ---- */

/* What the graph itself says of the question; n_ends 0 if it cannot be read. */
static void ask(struct spar_osint_task *t, const struct spar_osint_graph *g, struct spar_osint_ends *ends)
{
	*ends = (struct spar_osint_ends){.end = -1};
	if (spar_osint_question_read(g, t->question.data, t->question.len, &t->signature))
		spar_osint_solve(g, &t->signature, ends);
}

static int find_answer(struct spar_osint_task *t, const struct spar_osint_graph *g, jv question,
		       const struct spar_osint_ends *ends, struct spar_err *err)
{
	const char *name;
	size_t n;
	if (ends->n_ends > 1)
		return spar_fail(err, SPAR_INPUT, ".question: the graph has several answers to it");
	t->answer = ends->end;
	if (!spar_has(question, "answer"))
		return t->answer >= 0 ? 0 : spar_fail(err, SPAR_INPUT, ".answer: missing, and the graph has none");
	if (spar_get_str(question, "", "answer", &name, &n, err) < 0)
		return -SPAR_INPUT;
	if ((t->answer = spar_osint_node(g, name, n)) < 0)
		return spar_fail(err, SPAR_INPUT, ".answer: not a node of the graph");
	if (ends->n_ends == 1 && t->answer != ends->end)
		return spar_fail(err, SPAR_INPUT, ".answer: the graph says %s", spar_osint_node_name(g, ends->end));
	return 0;
}

static int find_support(struct spar_osint_task *t, const struct spar_osint_graph *g, jv question,
			const struct spar_osint_ends *ends, struct spar_err *err)
{
	if (!spar_has(question, "supporting_edges") && ends->n_ends == 1) {
		t->n_support = t->signature.hops;
		memcpy(t->support, ends->path, (size_t)t->n_support * sizeof *t->support);
		return 0;
	}
	jv list;
	if (spar_get_kind(question, "", "supporting_edges", JV_KIND_ARRAY, &list, err) < 0)
		return -SPAR_INPUT;
	int rc = 0, n = jv_array_length(jv_copy(list));
	if (!n || n > SPAR_OSINT_SUPPORT_MAX)
		rc = spar_fail(err, SPAR_INPUT, ".supporting_edges: 1 to %d, got %d", SPAR_OSINT_SUPPORT_MAX, n);
	for (int i = 0; rc == 0 && i < n; i++) {
		struct spar_osint_edge e;
		jv row = jv_array_get(jv_copy(list), i);
		if (!spar_osint_edge_read(g, row, &e) || (t->support[i] = spar_osint_edge_find(g, e)) < 0)
			rc = spar_fail(err, SPAR_INPUT, ".supporting_edges[%d]: not an edge of the graph", i);
		jv_free(row);
	}
	t->n_support = n;
	jv_free(list);
	return rc;
}

static int find_difficulty(struct spar_osint_task *t, jv question, struct spar_err *err)
{
	static const char *const words[] = {"easy", "e", "medium", "mid", "m", "hard", "high", "h", NULL};
	static const int levels[] = {SPAR_OSINT_EASY,   SPAR_OSINT_EASY, SPAR_OSINT_MEDIUM, SPAR_OSINT_MEDIUM,
				     SPAR_OSINT_MEDIUM, SPAR_OSINT_HARD, SPAR_OSINT_HARD,   SPAR_OSINT_HARD};
	jv metadata = jv_object_get(jv_copy(question), jv_string("metadata"));
	const char *word;
	size_t n;
	int rc = 0;
	t->difficulty = spar_osint_difficulty(t->n_support, t->n_decoys);
	if (jv_get_kind(metadata) == JV_KIND_OBJECT && spar_has(metadata, "difficulty") &&
	    (rc = spar_get_str(metadata, "metadata", "difficulty", &word, &n, err)) == 0) {
		int i = spar_osint_choice(words, word, n);
		if (i < 0)
			rc = spar_fail(err, SPAR_INPUT, ".metadata.difficulty: expected easy, medium or hard");
		else
			t->difficulty = levels[i];
	}
	jv_free(metadata);
	return rc;
}

static int make_task(struct spar_osint_task *t, const struct spar_osint_graph *g, jv question,
		     const struct spar_osint_want *want, struct spar_err *err)
{
	struct spar_osint_ends ends;
	const char *text;
	size_t n;
	if (spar_get_str(question, "", "question", &text, &n, err) < 0)
		return -SPAR_INPUT;
	spar_str_add(&t->question, text, n);
	ask(t, g, &ends);
	int rc = find_answer(t, g, question, &ends, err);
	if (rc == 0)
		rc = find_support(t, g, question, &ends, err);
	if (rc < 0)
		return rc;
	t->n_decoys = DECOYS;
	t->n_context =
	    spar_osint_context(g, want->seed, t->support, t->n_support,
			       want->max_edges ? want->max_edges : SPAR_OSINT_CONTEXT, t->context, &t->n_decoys);
	if (!t->n_context)
		return spar_fail(err, SPAR_INPUT, ".supporting_edges: with what lies beside them they fit no context");
	t->hops = t->n_support;
	t->family = "seeded";
	if (spar_has(question, "task_type") && spar_get_str(question, "", "task_type", &t->family, &n, err) < 0)
		return -SPAR_INPUT;
	return find_difficulty(t, question, err);
}

int spar_osint_seeding_task(struct spar_osint_task *t, const struct spar_osint_graph *g,
			    const struct spar_osint_seeding *s, int i, const struct spar_osint_want *want,
			    struct spar_err *err)
{
	*t = (struct spar_osint_task){.question = SPAR_STR_INIT, .answer = -1};
	jv question = jv_array_get(jv_copy(s->questions), i);
	int rc = make_task(t, g, question, want, err);
	jv_free(question); /* the list holds it: t->family lives as long */
	return rc < 0 ? spar_fail_at(err, "seeded_questions[%d]", i) : 0;
}
