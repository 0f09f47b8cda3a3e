#include "model/engine/attention.h"
#include "base/half.h"
#include "base/err.h"
#include <math.h>
#include <omp.h>
#include <stdlib.h>

#define UNIT_QUERIES 24 /* queries of a unit, at most: for so many the tiles keep up with memory */

struct spar_unit {
	size_t row, n_rows, n_positions; /* n_positions: most keys of a row, rounded up to SPAR_LANES */
	size_t n_common;                 /* blocks that all rows begin with */
	size_t first_block[UNIT_QUERIES], n_keys[UNIT_QUERIES]; /* of each row; blocks: in attention's list */
};

void spar_attention_init(struct spar_attention *a, const struct spar_config *c, const struct spar_kernel *kernel,
			 enum spar_dtype dtype, int threads)
{
	size_t group = c->n_heads / c->n_kv_heads;
	*a = (struct spar_attention){
	    .kernel = kernel,
	    .products = spar_kernel_products(kernel, dtype),
	    .dtype = dtype,
	    .threads = threads,
	    .config = c,
	    .n_layers = c->n_layers,
	    .n_kv_heads = c->n_kv_heads,
	    .head_dim = c->head_dim,
	    .group = group,
	    .width = spar_round_up(c->head_dim, SPAR_LANES),
	};
}

void spar_attention_release(struct spar_attention *a)
{
	free(a->units);
	free(a->blocks);
	free(a->distinct);
	free(a->scratch);
}

/* ---- planning ---- */

static size_t n_blocks_of(size_t n_keys)
{
	return (n_keys + SPAR_LANES - 1) / SPAR_LANES;
}

/* List the blocks of a row's path. */
static void add_path(struct spar_attention *a, const struct spar_row *row)
{
	size_t first = a->n_blocks, n = n_blocks_of(row->pos + 1);
	a->n_blocks += n;
	if (a->n_blocks > a->blocks_room) {
		a->blocks_room = 2 * a->n_blocks;
		a->blocks = spar_realloc(a->blocks, a->blocks_room * sizeof *a->blocks);
		a->distinct = spar_realloc(a->distinct, a->blocks_room * sizeof *a->distinct);
	}
	spar_node_path(row->node, row->pos + 1, a->blocks + first);
}

/* Tall units read less, but each thread should have some. */
static size_t choose_unit_rows(const struct spar_attention *a, size_t n_rows)
{
	size_t most = a->group < UNIT_QUERIES ? UNIT_QUERIES / a->group : 1;
	return n_rows * a->n_kv_heads < 4 * (size_t)a->threads * most ? (most + 1) / 2 : most;
}

static struct spar_unit *new_unit(struct spar_attention *a, size_t row)
{
	if (a->n_units == a->units_room) {
		a->units_room = a->units_room ? 2 * a->units_room : 64;
		a->units = spar_realloc(a->units, a->units_room * sizeof *a->units);
	}
	a->units[a->n_units] = (struct spar_unit){.row = row};
	return &a->units[a->n_units++];
}

/* How many blocks a row has in common with the one behind it, whose list follows its own. */
static size_t in_common(const struct spar_attention *a, const struct spar_row *row, size_t first_block)
{
	size_t i = 0, n = n_blocks_of(row[0].pos + 1), n_next = n_blocks_of(row[1].pos + 1);
	while (i < n && i < n_next && a->blocks[first_block + i] == a->blocks[first_block + n + i])
		i++;
	return i;
}

/* A row goes into the unit of the one before it, unless that is full or it has more than twice as much in common with the
 * one behind it. */
static void form_units(struct spar_attention *a, const struct spar_row *rows, size_t n)
{
	struct spar_unit *u = NULL;
	size_t before = 0, behind, first_block = 0;
	for (size_t r = 0; r < n; r++, before = behind) {
		size_t n_keys = rows[r].pos + 1;
		behind = r + 1 < n ? in_common(a, &rows[r], first_block) : 0;
		for (size_t i = before; i < n_blocks_of(n_keys); i++)
			a->distinct[a->n_distinct++] = a->blocks[first_block + i];
		if (!before || 2 * before < behind || u->n_rows == a->unit_rows) {
			u = new_unit(a, r);
			before = n_blocks_of(n_keys);
		}
		u->n_common = u->n_rows && u->n_common < before ? u->n_common : before;
		u->first_block[u->n_rows] = first_block;
		u->n_keys[u->n_rows++] = n_keys;
		if (spar_round_up(n_keys, SPAR_LANES) > u->n_positions)
			u->n_positions = spar_round_up(n_keys, SPAR_LANES);
		first_block += n_blocks_of(n_keys);
	}
}

/* A thread's scratch, in floats: what struct work points at. */
static size_t scratch_floats(const struct spar_attention *a, size_t n_positions)
{
	size_t n = a->unit_rows * a->group;
	return spar_round_up(n, SPAR_LANES) + n * (a->width + n_positions) + a->width;
}

void spar_attention_plan(struct spar_attention *a, const struct spar_row *rows, size_t n)
{
	size_t n_positions = 0;
	a->n_units = a->n_blocks = a->n_distinct = 0;
	a->unit_rows = choose_unit_rows(a, n);
	for (size_t r = 0; r < n; r++)
		add_path(a, &rows[r]);
	form_units(a, rows, n);
	for (size_t i = 0; i < a->n_units; i++)
		if (a->units[i].n_positions > n_positions)
			n_positions = a->units[i].n_positions;
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

/* Where a head's keys, or behind them its values, begin in a block. */
static size_t panel_offset(const struct spar_attention *a, size_t layer, size_t head, bool is_values)
{
	size_t panel = (layer * a->n_kv_heads + head) * 2 + is_values;
	return panel * SPAR_LANES * a->width * spar_dtype_size(a->dtype);
}

struct spar_fetch spar_attention_fetch(const struct spar_attention *a, size_t layer, size_t share, size_t n_shares)
{
	if (spar_config_window(a->config, layer)) /* of which little may be read */
		return (struct spar_fetch){0};
	return (struct spar_fetch){
	    .block = a->distinct + a->n_distinct * share / n_shares,
	    .end = a->distinct + a->n_distinct * (share + 1) / n_shares,
	    .offset = panel_offset(a, layer, 0, false),
	    .size = panel_offset(a, layer + 1, 0, false) - panel_offset(a, layer, 0, false),
	};
}

/* SPAR_LANES numbers as bfloat16, rounded to nearest. */
static void to_bf16(const struct spar_attention *a, const float *x, uint16_t *half)
{
	if (a->kernel->act_size == sizeof *half)
		a->kernel->scale(x, 1, SPAR_LANES, half);
	else
		for (size_t d = 0; d < SPAR_LANES; d++)
			half[d] = spar_f32_to_bf16(x[d]);
}

static void store_bf16(const struct spar_attention *a, size_t lane, const float *key, const float *value, uint16_t *k,
		       uint16_t *v)
{
	for (size_t first = 0; first < a->head_dim; first += SPAR_LANES) {
		uint16_t key_half[SPAR_LANES], value_half[SPAR_LANES];
		to_bf16(a, key + first, key_half);
		to_bf16(a, value + first, value_half);
		for (size_t i = 0, d = first; i < SPAR_LANES && d < a->head_dim; i++, d++) {
			k[(d / 2 * SPAR_LANES + lane) * 2 + d % 2] = key_half[i];
			v[(lane / 2 * a->width + d) * 2 + lane % 2] = value_half[i];
		}
	}
}

static void store_f32(const struct spar_attention *a, size_t lane, const float *key, const float *value, float *k,
		      float *v)
{
	for (size_t d = 0; d < a->head_dim; d++) {
		k[d * SPAR_LANES + lane] = key[d];
		v[lane * a->width + d] = value[d];
	}
}

/* In the block of `node`, and in those of what lies below it that hold the position too. */
static void store(const struct spar_attention *a, const struct spar_node *node, char *block, size_t pos, size_t layer,
		  const float *keys, const float *values)
{
	for (size_t head = 0; head < a->n_kv_heads; head++) {
		const float *key = keys + head * a->head_dim, *value = values + head * a->head_dim;
		void *k = block + panel_offset(a, layer, head, false), *v = block + panel_offset(a, layer, head, true);
		if (a->dtype == SPAR_BF16)
			store_bf16(a, pos % SPAR_LANES, key, value, k, v);
		else
			store_f32(a, pos % SPAR_LANES, key, value, k, v);
	}
	for (const struct spar_node *child = node->children; child; child = child->next)
		if (spar_node_child_shares(child, pos))
			store(a, child, child->blocks[0], pos, layer, keys, values);
}

void spar_attention_store(const struct spar_attention *a, const struct spar_row *row, size_t layer, const float *keys,
			  const float *values)
{
	store(a, row->node, spar_node_block(row->node, row->pos), row->pos, layer, keys, values);
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
	size_t ld;          /* positions that a row of scores has room for */
	size_t window;      /* of the layer; 0: none */
	size_t first_block; /* of those that a row of the unit sees */
	float *scores;      /* (queries, ld), then weights in place, as acts */
	float *sums;        /* (queries) */
	float *results;     /* (queries, width) */
	float *result;      /* (width) one row of results as acts */
};

/* Blocks [from, to) of a row of the unit, as far as they are seen. */
static struct spar_blocks blocks_of(const struct work *w, const struct spar_unit *u, size_t row, size_t *from,
				    size_t to, bool is_values)
{
	const struct spar_attention *a = w->a;
	*from = *from > w->first_block ? *from : w->first_block;
	return (struct spar_blocks){
	    .at = a->blocks + u->first_block[row] + *from,
	    .n = to > *from ? to - *from : 0,
	    .offset = panel_offset(a, w->layer, w->head, is_values),
	    .width = a->width,
	};
}

/* scores[position] = q . key */
static void score(const struct work *w, const struct spar_unit *u, const char *q)
{
	const struct spar_attention *a = w->a;
	size_t group = a->group, from = 0;
	struct spar_blocks keys = blocks_of(w, u, 0, &from, u->n_common, false);
	a->products->score(q, a->width, &keys, w->scores + from * SPAR_LANES, w->ld, u->n_rows * group);
	for (size_t r = 0; r < u->n_rows; r++) {
		from = u->n_common;
		keys = blocks_of(w, u, r, &from, n_blocks_of(u->n_keys[r]), false);
		a->products->score(q + r * group * a->width * a->kernel->act_size, a->width, &keys,
				   w->scores + r * group * w->ld + from * SPAR_LANES, w->ld, group);
	}
}

/* result = sum of weight[position] * value */
static void mix(const struct work *w, const struct spar_unit *u)
{
	const struct spar_attention *a = w->a;
	size_t group = a->group, from = 0, size = a->kernel->act_size, ld = w->ld * sizeof(float) / size;
	const char *weights = (const char *)w->scores;
	memset(w->results, 0, u->n_rows * group * a->width * sizeof *w->results);
	struct spar_blocks values = blocks_of(w, u, 0, &from, u->n_common, true);
	a->products->mix(weights + from * SPAR_LANES * size, ld, &values, w->results, a->width, u->n_rows * group);
	for (size_t r = 0; r < u->n_rows; r++) {
		from = u->n_common;
		values = blocks_of(w, u, r, &from, n_blocks_of(u->n_keys[r]), true);
		a->products->mix(weights + (r * group * ld + from * SPAR_LANES) * size, ld, &values,
				 w->results + r * group * a->width, a->width, group);
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
	size_t end = spar_round_up(n_keys, SPAR_LANES), start = w->first_block * SPAR_LANES,
	       first = window_start(w->window, n_keys);
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

/* The first block that any row of the unit sees: that of the row with the fewest keys. */
static size_t first_seen(const struct spar_unit *u, size_t window)
{
	size_t n_keys = u->n_keys[0];
	for (size_t r = 1; r < u->n_rows; r++)
		n_keys = u->n_keys[r] < n_keys ? u->n_keys[r] : n_keys;
	return window_start(window, n_keys) / SPAR_LANES;
}

/* One unit and head. q: the unit's queries; out: the unit's first row, at the first head of the group. */
static void attend(const struct work *w, const struct spar_unit *u, const char *q, char *out, size_t ld_out)
{
	const struct spar_attention *a = w->a;
	size_t group = a->group, size = a->kernel->act_size;
	score(w, u, q);
	for (size_t i = 0; i < u->n_rows * group; i++)
		w->sums[i] = soften(w, w->scores + i * w->ld, u->n_keys[i / group]);
	mix(w, u);
	for (size_t i = 0; i < u->n_rows * group; i++) {
		a->kernel->scale(w->results + i * a->width, 1.0f / w->sums[i], a->width, w->result);
		memcpy(out + (i / group * ld_out + i % group * a->head_dim) * size, w->result, a->head_dim * size);
	}
}

void spar_attention_run(const struct spar_attention *a, struct spar_worker *worker, size_t layer, const void *q,
			size_t n_rows, void *out, size_t ld)
{
	size_t size = a->kernel->act_size, n_queries = a->unit_rows * a->group;
	float *scratch = a->scratch + (size_t)omp_get_thread_num() * a->scratch_floats;
	for (size_t i; spar_worker_take(worker, a->n_units * a->n_kv_heads, &i);) {
		const struct spar_unit *u = &a->units[i / a->n_kv_heads];
		size_t head = i % a->n_kv_heads;
		struct work w = {.a = a, .layer = layer, .head = head, .ld = u->n_positions};
		w.window = spar_config_window(a->config, layer);
		w.first_block = first_seen(u, w.window);
		w.sums = scratch;
		w.results = w.sums + spar_round_up(n_queries, SPAR_LANES);
		w.result = w.results + n_queries * a->width;
		w.scores = w.result + a->width;
		attend(&w, u, (const char *)q + spar_attention_query(a, n_rows, u->row, head * a->group) * size,
		       (char *)out + (u->row * ld + head * a->group * a->head_dim) * size, ld);
	}
}
