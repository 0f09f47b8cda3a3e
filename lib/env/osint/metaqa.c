/* metaqa.c - see metaqa.h */
#include "env/osint/metaqa.h"
#include "base/file.h"
#include "env/osint/draw.h"
#include <stdlib.h>
#include <string.h>

#define FILE_MAX ((size_t)256 << 20)
#define SLACK 3 /* edges that the evidence may have more than the question has hops */

/* A piece of a line. */
struct piece {
	const char *text;
	size_t n;
};

/* Cut off what stands before the first `c`, and that too: false if there is none. */
static bool cut(struct piece *line, char c, struct piece *before)
{
	const char *at = memchr(line->text, c, line->n);
	if (!at)
		return false;
	*before = (struct piece){line->text, (size_t)(at - line->text)};
	line->n -= before->n + 1;
	line->text = at + 1;
	return true;
}

/* The next line of a text from *pos on, without its end: false at the end. */
static bool next_line(const struct spar_str *text, size_t *pos, struct piece *line)
{
	if (*pos >= text->len)
		return false;
	struct piece rest = {text->data + *pos, text->len - *pos};
	if (!cut(&rest, '\n', line))
		*line = rest;
	*pos += line->n + 1;
	if (line->n && line->text[line->n - 1] == '\r')
		line->n--;
	return true;
}

/* ---- the graph ---- */

static enum spar_osint_kind object_kind(struct piece relation)
{
	static const struct {
		const char *relation;
		enum spar_osint_kind kind;
	} kinds[] = {{"release_year", SPAR_OSINT_EVENT},
		     {"in_language", SPAR_OSINT_LOCATION},
		     {"has_genre", SPAR_OSINT_ORG},
		     {"has_tags", SPAR_OSINT_ORG},
		     {"has_imdb_votes", SPAR_OSINT_ORG}};
	for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
		if (strlen(kinds[i].relation) == relation.n && !memcmp(kinds[i].relation, relation.text, relation.n))
			return kinds[i].kind;
	return SPAR_OSINT_USER;
}

static int add_fact(struct spar_osint_graph *g, struct piece object, const char *path, size_t line,
		    struct spar_err *err)
{
	struct piece subject, relation;
	if (!cut(&object, '|', &subject) || !cut(&object, '|', &relation) || !subject.n || !relation.n || !object.n)
		return spar_fail(err, SPAR_INPUT, "%s:%zu: expected subject|relation|object", path, line);
	int32_t before = g->nodes.n;
	struct spar_osint_edge e = {.dst = spar_osint_graph_name(g, object.text, object.n)};
	if (g->nodes.n > before)
		g->kinds[e.dst] = (uint8_t)object_kind(relation);
	e.rel = spar_osint_graph_relation(g, relation.text, relation.n);
	e.src = spar_osint_graph_name(g, subject.text, subject.n);
	if (e.src < 0 || e.rel < 0 || e.dst < 0)
		return spar_fail(err, SPAR_INPUT, "%s:%zu: a name is too long", path, line);
	g->kinds[e.src] = SPAR_OSINT_POST;
	spar_osint_graph_add(g, e, 1);
	return 0;
}

static int read_facts(struct spar_osint_graph *g, const char *dir, struct spar_err *err)
{
	char *path = spar_path_join(dir, "kb.txt");
	struct spar_str text = SPAR_STR_INIT;
	struct piece line;
	size_t pos = 0, n = 0;
	int rc = spar_file_read(path, FILE_MAX, &text, err);
	while (rc == 0 && next_line(&text, &pos, &line)) {
		n++;
		if (line.n)
			rc = add_fact(g, line, path, n, err);
	}
	if (rc == 0 && !g->n_edges)
		rc = spar_fail(err, SPAR_INPUT, "%s: there is no fact in it", path);
	spar_osint_graph_index(g);
	spar_str_release(&text);
	free(path);
	return rc;
}

/* ---- the questions ---- */

/* A line taken apart; nodes are -1 if the graph does not have them. */
struct question {
	struct piece text, answers;
	int32_t topic, answer; /* the first */
};

/* The first of `answers`, which is cut off. */
static int32_t next_answer(const struct spar_osint_graph *g, struct piece *answers)
{
	struct piece one;
	if (!cut(answers, '|', &one)) {
		one = *answers;
		answers->n = 0;
	}
	return spar_osint_node(g, one.text, one.n);
}

static bool read_question(const struct spar_osint_graph *g, struct piece line, struct question *q)
{
	struct piece topic, rest;
	if (!cut(&line, '\t', &q->text) || !line.n)
		return false;
	q->answers = rest = line;
	q->answer = next_answer(g, &rest);
	rest = q->text;
	if (!cut(&rest, '[', &topic) || !cut(&rest, ']', &topic))
		return false;
	q->topic = spar_osint_node(g, topic.text, topic.n);
	return true;
}

static int read_questions(struct spar_osint_metaqa *m, struct spar_osint_metaqa_file *f, const char *path,
			  struct spar_err *err)
{
	struct piece line;
	struct question q;
	size_t n = 0, pos = 0, cap = 0;
	if (spar_file_read(path, FILE_MAX, &f->text, err) < 0)
		return -(int)err->code;
	for (size_t begin = 0; next_line(&f->text, &pos, &line); begin = pos) {
		n++;
		if (!line.n)
			continue;
		if (!read_question(&m->graph, line, &q))
			return spar_fail(err, SPAR_INPUT, "%s:%zu: expected a question with a [topic], a tab, answers",
					 path, n);
		if (q.topic < 0 || q.answer < 0 || q.topic == q.answer) {
			m->n_skipped++;
			continue;
		}
		if (f->n == cap) {
			cap = cap ? 2 * cap : 1024;
			f->lines = spar_realloc(f->lines, cap * sizeof *f->lines);
		}
		f->lines[f->n++] = begin;
	}
	return 0;
}

int spar_osint_metaqa_open(struct spar_osint_metaqa *m, const char *dir, const char *variant,
			   enum spar_osint_split split, struct spar_err *err)
{
	static const char *const splits[] = {"train", "dev", "test"};
	*m = (struct spar_osint_metaqa){0};
	spar_osint_graph_init(&m->graph);
	for (int i = 0; i < SPAR_OSINT_METAQA_HOPS; i++)
		spar_str_init(&m->files[i].text);
	int rc = read_facts(&m->graph, dir, err);
	size_t n = 0;
	for (int i = 0; i < SPAR_OSINT_METAQA_HOPS && rc == 0; i++) {
		struct spar_str name = SPAR_STR_INIT;
		spar_str_addf(&name, "%d-hop/%s/qa_%s.txt", i + 1, variant, splits[split]);
		char *path = spar_path_join(dir, name.data);
		if (spar_file_exists(path))
			rc = read_questions(m, &m->files[i], path, err);
		n += m->files[i].n;
		free(path);
		spar_str_release(&name);
	}
	if (rc == 0 && !n)
		rc = spar_fail(err, SPAR_FAIL, "%s: no question of split %s can be used", dir, splits[split]);
	spar_osint_views_plain(&m->views, &m->graph);
	return rc;
}

void spar_osint_metaqa_release(struct spar_osint_metaqa *m)
{
	for (int i = 0; i < SPAR_OSINT_METAQA_HOPS; i++) {
		spar_str_release(&m->files[i].text);
		free(m->files[i].lines);
	}
	spar_osint_views_release(&m->views);
	spar_osint_graph_release(&m->graph);
}

/* ---- tasks ---- */

/* A shortest path between two nodes whatever the arrows' directions, of at most `max` edges: its length, 0 if there is
 * none. Breadth first from `from`; `came` holds the edge by which a node was reached. */
static int shortest_path(const struct spar_osint_graph *g, int32_t from, int32_t to, int max, int32_t *path)
{
	int32_t *came = spar_malloc((size_t)g->nodes.n * sizeof *came);
	int32_t *queue = spar_malloc((size_t)g->nodes.n * sizeof *queue);
	int32_t head = 0, tail = 1, level_end = 1;
	int depth = 0, length = 0;
	memset(came, 0xff, (size_t)g->nodes.n * sizeof *came);
	queue[0] = from;
	while (head < tail && depth < max && came[to] < 0) {
		int32_t at = queue[head++];
		for (int way = 0; way < 2; way++) {
			const int32_t *start = way ? g->in_at : g->out_at, *edges = way ? g->in : g->out;
			for (int32_t i = start[at]; i < start[at + 1]; i++) {
				int32_t next = way ? g->edges[edges[i]].src : g->edges[edges[i]].dst;
				if (next == from || came[next] >= 0)
					continue;
				came[next] = edges[i];
				queue[tail++] = next;
			}
		}
		if (head == level_end) {
			level_end = tail;
			depth++;
		}
	}
	for (int32_t at = to; came[to] >= 0 && at != from; length++) {
		const struct spar_osint_edge *e = &g->edges[came[at]];
		path[length] = came[at];
		at = e->src == at ? e->dst : e->src;
	}
	for (int i = 0; i < length / 2; i++) {
		int32_t edge = path[i];
		path[i] = path[length - 1 - i];
		path[length - 1 - i] = edge;
	}
	free(came);
	free(queue);
	return length;
}

static void keep_answers(struct spar_osint_task *t, const struct spar_osint_graph *g, struct piece answers)
{
	t->answers = spar_malloc((answers.n + 1) * sizeof *t->answers);
	while (answers.n) {
		int32_t node = next_answer(g, &answers);
		if (node >= 0)
			t->answers[t->n_answers++] = node;
	}
}

int spar_osint_metaqa_task(struct spar_osint_task *t, const struct spar_osint_metaqa *m,
			   const struct spar_osint_want *want, struct spar_err *err)
{
	static const char *const families[] = {"metaqa_1-hop", "metaqa_2-hop", "metaqa_3-hop"};
	struct spar_rng rng = spar_osint_stream(want->seed, "metaqa");
	int level = want->difficulty == SPAR_OSINT_MIXED ? (int)(want->seed % SPAR_OSINT_MIXED) : want->difficulty;
	*t = (struct spar_osint_task){.question = SPAR_STR_INIT, .answer = -1};
	while (want->difficulty == SPAR_OSINT_MIXED && !m->files[level].n) /* one of them has some */
		level = (level + 1) % SPAR_OSINT_METAQA_HOPS;
	const struct spar_osint_metaqa_file *f = &m->files[level];
	for (uint32_t i = 0; f->n && i < 256; i++) {
		struct piece line;
		struct question q;
		int hops = level + 1;
		size_t pos = f->lines[spar_osint_below(&rng, 0, i, (int32_t)f->n)];
		next_line(&f->text, &pos, &line);
		read_question(&m->graph, line, &q);
		int n = shortest_path(&m->graph, q.topic, q.answer, hops + SLACK, t->support);
		int n_decoys = 0;
		t->n_context = n ? spar_osint_context(&m->graph, want->seed, t->support, n,
						      want->max_edges ? want->max_edges : SPAR_OSINT_CONTEXT,
						      t->context, &n_decoys)
				 : 0;
		if (!t->n_context)
			continue;
		t->family = families[level];
		t->difficulty = level;
		t->hops = hops;
		t->n_support = n;
		t->answer = q.answer;
		spar_str_add(&t->question, q.text.text, q.text.n);
		keep_answers(t, &m->graph, q.answers);
		return 0;
	}
	return spar_fail(err, SPAR_FAIL, "no question of difficulty %s whose evidence fits a context",
			 spar_osint_difficulties[level]);
}
