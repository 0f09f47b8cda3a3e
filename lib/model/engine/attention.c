#include "model/engine/attention.h"
#include "model/half.h"
#include "base/err.h"
#include <math.h>
#include <omp.h>
#include <stdlib.h>

#define UNIT_QUERIES 12 /* queries that a unit should have: the tallest tile */

/* Positions [from, to) of a path, all in one node. */
struct spar_piece {
	const struct spar_node *node;
	size_t from, to;
};

struct pieces {
	size_t first, n; /* in attention's list */
};

struct spar_unit {
	size_t row, n_rows, n_positions; /* n_positions: most keys of a row, rounded up to SPAR_LANES */
	struct pieces common, rest[UNIT_QUERIES];
	size_t n_keys[UNIT_QUERIES]; /* of each row */
};

void spar_attention_init(struct spar_attention *a, const struct spar_config *c, const struct spar_kernel *kernel,
			 enum spar_dtype dtype, int threads)
{
	size_t group = c->n_heads / c->n_kv_heads;
	*a = (struct spar_attention){
	    .kernel = kernel,
	    .gemm = dtype == SPAR_BF16 ? kernel->gemm_bf16 : kernel->gemm_f32,
	    .dtype = dtype,
	    .threads = threads,
	    .config = c,
	    .n_layers = c->n_layers,
	    .n_kv_heads = c->n_kv_heads,
	    .head_dim = c->head_dim,
	    .group = group,
	    .width = spar_round_up(c->head_dim, SPAR_LANES),
	    .unit_rows = group < UNIT_QUERIES ? UNIT_QUERIES / group : 1,
	};
}

void spar_attention_release(struct spar_attention *a)
{
	free(a->units);
	free(a->pieces);
	free(a->scratch);
}

/* ---- planning ---- */

/* The pieces of the path to `node` that lie in [from, to), in order of position. */
static struct pieces add_path(struct spar_attention *a, const struct spar_node *node, size_t from, size_t to)
{
	struct pieces list = {.first = a->n_pieces};
	for (; node->start + node->n > from; node = node->parent) {
		size_t start = node->start > from ? node->start : from, end = node->start + node->n;
		end = end < to ? end : to;
		if (start < end) {
			if (a->n_pieces == a->pieces_room) {
				a->pieces_room = a->pieces_room ? 2 * a->pieces_room : 256;
				a->pieces = spar_realloc(a->pieces, a->pieces_room * sizeof *a->pieces);
			}
			a->pieces[a->n_pieces++] = (struct spar_piece){node, start, end};
		}
		if (!node->parent)
			break;
	}
	list.n = a->n_pieces - list.first;
	for (size_t i = 0; i < list.n / 2; i++) {
		struct spar_piece *one = &a->pieces[list.first + i], *other = &a->pieces[a->n_pieces - 1 - i],
				  old = *one;
		*one = *other;
		*other = old;
	}
	return list;
}

/* Shorten the path (*node, *n tokens) to what it has in common with another. */
static void meet(const struct spar_node **node, size_t *n, const struct spar_node *other, size_t other_n)
{
	while (*node != other) {
		bool climb_other = !(*node)->parent || (other->parent && other->start > (*node)->start);
		const struct spar_node **deeper = climb_other ? &other : node;
		size_t *deeper_n = climb_other ? &other_n : n;
		*deeper_n = *deeper_n < (*deeper)->start ? *deeper_n : (*deeper)->start;
		*deeper = (*deeper)->parent;
	}
	*n = *n < other_n ? *n : other_n;
}

static void add_unit(struct spar_attention *a, const struct spar_row *rows, size_t first, size_t n)
{
	if (a->n_units == a->units_room) {
		a->units_room = a->units_room ? 2 * a->units_room : 64;
		a->units = spar_realloc(a->units, a->units_room * sizeof *a->units);
	}
	struct spar_unit *u = &a->units[a->n_units++];
	*u = (struct spar_unit){.row = first, .n_rows = n};
	const struct spar_node *node = rows[first].node;
	size_t common = rows[first].pos + 1;
	for (size_t r = 0; r < n; r++) {
		const struct spar_row *row = &rows[first + r];
		u->n_keys[r] = row->pos + 1;
		u->n_positions = u->n_positions > row->pos + 1 ? u->n_positions : row->pos + 1;
		meet(&node, &common, row->node, row->pos + 1);
	}
	u->n_positions = spar_round_up(u->n_positions, SPAR_LANES);
	u->common = add_path(a, node, 0, common);
	for (size_t r = 0; r < n; r++)
		u->rest[r] = add_path(a, rows[first + r].node, common, u->n_keys[r]);
}

/* A thread's scratch, in floats: what struct work points at. */
static size_t scratch_floats(const struct spar_attention *a, size_t n_positions)
{
	size_t n = a->unit_rows * a->group;
	return spar_round_up(n, SPAR_LANES) + n * (a->width + SPAR_LANES + n_positions) + a->width;
}

void spar_attention_plan(struct spar_attention *a, const struct spar_row *rows, size_t n)
{
	size_t n_positions = 0;
	a->n_units = a->n_pieces = 0;
	for (size_t i = 0; i < n; i += a->unit_rows) {
		add_unit(a, rows, i, n - i < a->unit_rows ? n - i : a->unit_rows);
		if (a->units[a->n_units - 1].n_positions > n_positions)
			n_positions = a->units[a->n_units - 1].n_positions;
	}
	size_t need = scratch_floats(a, n_positions);
	if (need > a->scratch_floats) {
		a->scratch_floats = spar_round_up(need + need / 2, SPAR_LANES);
		free(a->scratch);
		a->scratch = spar_malloc((size_t)a->threads * a->scratch_floats * sizeof *a->scratch);
	}
}

/* ---- the cache's blocks ---- */

size_t spar_attention_block_size(const struct spar_attention *a)
{
	return spar_round_up(a->n_layers * a->n_kv_heads * 2 * SPAR_LANES * a->width * spar_dtype_size(a->dtype), 64);
}

static char *keys_at(const struct spar_attention *a, const struct spar_node *node, size_t pos, size_t layer,
		     size_t head)
{
	size_t panels = (layer * a->n_kv_heads + head) * 2;
	return (char *)spar_node_block(node, pos) + panels * SPAR_LANES * a->width * spar_dtype_size(a->dtype);
}

static char *values_at(const struct spar_attention *a, const struct spar_node *node, size_t pos, size_t layer,
		       size_t head)
{
	return keys_at(a, node, pos, layer, head) + SPAR_LANES * a->width * spar_dtype_size(a->dtype);
}

void spar_attention_store(const struct spar_attention *a, const struct spar_row *row, size_t layer, const float *keys,
			  const float *values)
{
	size_t lane = row->pos % SPAR_LANES;
	for (size_t head = 0; head < a->n_kv_heads; head++, keys += a->head_dim, values += a->head_dim) {
		void *k = keys_at(a, row->node, row->pos, layer, head),
		     *v = values_at(a, row->node, row->pos, layer, head);
		for (size_t d = 0; d < a->head_dim; d++)
			if (a->dtype == SPAR_BF16) {
				((uint16_t *)k)[(d / 2 * SPAR_LANES + lane) * 2 + d % 2] = spar_f32_to_bf16(keys[d]);
				((uint16_t *)v)[(lane / 2 * a->width + d) * 2 + lane % 2] = spar_f32_to_bf16(values[d]);
			} else {
				((float *)k)[d * SPAR_LANES + lane] = keys[d];
				((float *)v)[lane * a->width + d] = values[d];
			}
	}
}

/* ---- running ---- */

size_t spar_attention_query(const struct spar_attention *a, size_t n_rows, size_t row, size_t head)
{
	return ((head / a->group * n_rows + row) * a->group + head % a->group) * a->width;
}

/* What one thread works on: a unit and a head of keys. */
struct work {
	const struct spar_attention *a;
	size_t layer, head;
	size_t ld;      /* positions that a row of scores has room for */
	size_t window;  /* of the layer; 0: none */
	size_t start;   /* first position that a row of the unit sees, rounded down to SPAR_LANES */
	float *scores;  /* (queries, ld), then weights in place, as acts */
	float *sums;    /* (queries) */
	float *results; /* (queries, width) */
	float *block;   /* (queries, SPAR_LANES), or one row of results as acts */
};

/* Where to begin in a piece. */
static size_t first_of(const struct work *w, const struct spar_piece *p)
{
	return p->from > w->start ? p->from : w->start;
}

/* scores[position] = q . key, for n queries. A block whose first lanes belong to an earlier piece goes by way of `block`;
 * lanes behind a piece's end are overwritten by the next piece, or masked. */
static void score(const struct work *w, struct pieces list, const void *q, size_t n, float *scores)
{
	const struct spar_attention *a = w->a;
	for (const struct spar_piece *p = a->pieces + list.first, *end = p + list.n; p < end; p++)
		for (size_t pos = first_of(w, p), next; pos < p->to; pos = next) {
			size_t lane = pos % SPAR_LANES, base = pos - lane;
			next = base + SPAR_LANES < p->to ? base + SPAR_LANES : p->to;
			const void *keys = keys_at(a, p->node, pos, w->layer, w->head);
			if (!lane) {
				a->gemm(q, a->width, keys, SPAR_LANES, a->width, scores + base, w->ld, n, SPAR_LANES,
					SPAR_GEMM_SET);
				continue;
			}
			a->gemm(q, a->width, keys, SPAR_LANES, a->width, w->block, SPAR_LANES, n, SPAR_LANES,
				SPAR_GEMM_SET);
			for (size_t i = 0; i < n; i++)
				memcpy(scores + i * w->ld + pos, w->block + i * SPAR_LANES + lane,
				       (next - pos) * sizeof *scores);
		}
}

/* result += weight[position] * value, for n queries. The weights (acts) of lanes that are not the piece's must be 0. */
static void gather(const struct work *w, struct pieces list, const char *weights, size_t n, float *result)
{
	const struct spar_attention *a = w->a;
	size_t size = a->kernel->act_size, ld = w->ld * sizeof(float) / size;
	for (const struct spar_piece *p = a->pieces + list.first, *end = p + list.n; p < end; p++)
		for (size_t pos = first_of(w, p), next; pos < p->to; pos = next) {
			size_t lane = pos % SPAR_LANES, base = pos - lane;
			next = base + SPAR_LANES < p->to ? base + SPAR_LANES : p->to;
			const void *values = values_at(a, p->node, pos, w->layer, w->head);
			if (next - pos == SPAR_LANES) {
				a->gemm(weights + base * size, ld, values, a->width, SPAR_LANES, result, a->width, n,
					a->width, SPAR_GEMM_CONTINUE);
				continue;
			}
			char *block = memset(w->block, 0, n * SPAR_LANES * size);
			for (size_t i = 0; i < n; i++)
				memcpy(block + (i * SPAR_LANES + lane) * size, weights + (i * ld + pos) * size,
				       (next - pos) * size);
			a->gemm(block, SPAR_LANES, values, a->width, SPAR_LANES, result, a->width, n, a->width,
				SPAR_GEMM_CONTINUE);
		}
}

/* First position that a row of so many keys sees. */
static size_t window_start(size_t window, size_t n_keys)
{
	return window && n_keys > window ? n_keys - window : 0;
}

/* One row's scores become weights (acts, in place), not yet divided by their sum, which is returned. */
static float soften(const struct work *w, float *scores, size_t n_keys)
{
	const struct spar_kernel *kernel = w->a->kernel;
	size_t end = spar_round_up(n_keys, SPAR_LANES), start = w->start, first = window_start(w->window, n_keys);
	float scale = (float)spar_config_score_scale(w->a->config), cap = (float)w->a->config->attention_cap;
	for (size_t i = first; cap > 0 && i < n_keys; i++)
		scores[i] = cap * tanhf(scores[i] * scale / cap);
	for (size_t i = start; i < first; i++)
		scores[i] = -INFINITY;
	for (size_t i = n_keys; i < end; i++)
		scores[i] = -INFINITY;
	float top = kernel->max(scores + start, end - start);
	float sum = kernel->exps(scores + start, end - start, top, cap > 0 ? 1 : scale, scores + start);
	if (kernel->act_size < sizeof *scores)
		kernel->scale(scores + start, 1.0f, end - start, (char *)scores + start * kernel->act_size);
	return sum;
}

/* The first position that any row of the unit sees: that of the row with the fewest keys. */
static size_t unit_start(const struct spar_unit *u, size_t window)
{
	size_t n_keys = u->n_keys[0];
	for (size_t r = 1; r < u->n_rows; r++)
		n_keys = u->n_keys[r] < n_keys ? u->n_keys[r] : n_keys;
	return window_start(window, n_keys) / SPAR_LANES * SPAR_LANES;
}

/* One unit and head. q: the unit's queries; out: the unit's first row, at the first head of the group. */
static void attend(const struct work *w, const struct spar_unit *u, const char *q, char *out, size_t ld_out)
{
	const struct spar_attention *a = w->a;
	size_t group = a->group, size = a->kernel->act_size, n = u->n_rows * group;
	score(w, u->common, q, n, w->scores);
	for (size_t r = 0; r < u->n_rows; r++)
		score(w, u->rest[r], q + r * group * a->width * size, group, w->scores + r * group * w->ld);
	for (size_t i = 0; i < n; i++)
		w->sums[i] = soften(w, w->scores + i * w->ld, u->n_keys[i / group]);

	memset(w->results, 0, n * a->width * sizeof *w->results);
	gather(w, u->common, (const char *)w->scores, n, w->results);
	for (size_t r = 0; r < u->n_rows; r++)
		gather(w, u->rest[r], (const char *)(w->scores + r * group * w->ld), group,
		       w->results + r * group * a->width);
	for (size_t i = 0; i < n; i++) {
		a->kernel->scale(w->results + i * a->width, 1.0f / w->sums[i], a->width, w->block);
		memcpy(out + (i / group * ld_out + i % group * a->head_dim) * size, w->block, a->head_dim * size);
	}
}

void spar_attention_run(const struct spar_attention *a, struct spar_worker *worker, size_t layer, const void *q,
			size_t n_rows, void *out, size_t ld)
{
	size_t size = a->kernel->act_size, n_queries = a->unit_rows * a->group;
	float *scratch = a->scratch + (size_t)omp_get_thread_num() * a->scratch_floats;
	for (size_t i; spar_worker_take(worker, a->n_units * a->n_kv_heads, &i);) {
		const struct spar_unit *u = &a->units[i % a->n_units];
		size_t head = i / a->n_units;
		struct work w = {.a = a, .layer = layer, .head = head, .ld = u->n_positions};
		w.window = spar_config_window(a->config, layer);
		w.start = unit_start(u, w.window);
		w.sums = scratch;
		w.results = w.sums + spar_round_up(n_queries, SPAR_LANES);
		w.block = w.results + n_queries * a->width;
		w.scores = w.block + n_queries * SPAR_LANES + a->width;
		attend(&w, u, (const char *)q + spar_attention_query(a, n_rows, u->row, head * a->group) * size,
		       (char *)out + (u->row * ld + head * a->group * a->head_dim) * size, ld);
	}
}
