#include "model/engine/forward.h"
#include "base/half.h"
#include <math.h>
#include <stdlib.h>
#ifdef __SSE2__
#include <xmmintrin.h>
#endif

#define TILE_ROWS 8   /* of the tallest tile in panels, about */
#define BLOCK_ROWS 24 /* a multiple of every tile's height in panels of SPAR_PANEL columns */

/* What a thread's products fetch for the attention behind them; in a cache line of its own. */
struct spar_forward_fetch {
	_Alignas(64) struct spar_fetch cache;
};

int spar_forward_init(struct spar_forward *f, const struct spar_config *c, const struct spar_weights *w,
		      const struct spar_kernel *kernel, int threads, struct spar_err *err)
{
	*f = (struct spar_forward){
	    .config = c,
	    .weights = w,
	    .kernel = kernel,
	    .gemm = spar_kernel_products(kernel, w->dtype)->gemm,
	    .activate = c->activation == SPAR_ACTIVATION_SILU ? kernel->swiglu : kernel->geglu,
	    .embedding_scale = (float)(c->embedding_scale > 0 ? c->embedding_scale : 1),
	    .threads = threads,
	    .hidden = spar_round_up(c->hidden_size, SPAR_PANEL),
	    .qkv = spar_round_up((c->n_heads + 2 * c->n_kv_heads) * c->head_dim, SPAR_PANEL),
	    .attended = spar_round_up(c->n_heads * c->head_dim, SPAR_PANEL),
	    .inner = spar_round_up(c->intermediate_size, SPAR_PANEL),
	};
	if (w->dtype == SPAR_BF16)
		f->embedding_scale = spar_bf16_to_f32(spar_f32_to_bf16(f->embedding_scale));
	spar_attention_init(&f->attention, c, kernel, w->dtype, threads);
	if (spar_team_init(&f->team, threads, err) < 0)
		return -SPAR_FAIL;
	const struct {
		void **buffer;
		size_t n, size;
	} buffers[] = {
	    {(void **)&f->fetches, (size_t)threads, sizeof *f->fetches},
	    {(void **)&f->x, SPAR_FORWARD_ROWS, f->hidden * sizeof(float)},
	    {&f->normed, SPAR_FORWARD_ROWS, f->hidden * kernel->act_size},
	    {(void **)&f->branch, SPAR_FORWARD_ROWS, f->hidden * sizeof(float)},
	    {(void **)&f->projected, SPAR_FORWARD_ROWS, f->qkv * sizeof(float)},
	    {&f->q, SPAR_FORWARD_ROWS, c->n_heads * f->attention.width * kernel->act_size},
	    {&f->mixed, SPAR_FORWARD_ROWS, f->attended * kernel->act_size},
	    {&f->gated, SPAR_FORWARD_ROWS, f->inner * kernel->act_size},
	};
	for (size_t i = 0; i < sizeof buffers / sizeof *buffers; i++) {
		/* a vector more: the last head is read in whole vectors */
		size_t size = spar_round_up(buffers[i].n * buffers[i].size + 64, 64);
		if (!(*buffers[i].buffer = aligned_alloc(64, size))) {
			spar_forward_release(f);
			return spar_fail(err, SPAR_FAIL, "no memory for the engine's buffers");
		}
		memset(*buffers[i].buffer, 0, size);
	}
	return 0;
}

void spar_forward_release(struct spar_forward *f)
{
	spar_attention_release(&f->attention);
	spar_team_release(&f->team);
	free(f->fetches);
	free(f->x);
	free(f->normed);
	free(f->branch);
	free(f->projected);
	free(f->q);
	free(f->mixed);
	free(f->gated);
	for (size_t i = 0; i < 2; i++) {
		free(f->cosine[i]);
		free(f->sine[i]);
	}
	*f = (struct spar_forward){0};
}

/* Rotary angles up to position n. */
static void make_angles(struct spar_forward *f, size_t n)
{
	const struct spar_config *c = f->config;
	if (n <= f->n_angles)
		return;
	size_t half = c->head_dim / 2, first = f->n_angles;
	n = spar_round_up(n, 1024);
	for (size_t i = 0; i < sizeof c->ropes / sizeof *c->ropes; i++) {
		f->cosine[i] = spar_realloc(f->cosine[i], n * half * sizeof **f->cosine);
		f->sine[i] = spar_realloc(f->sine[i], n * half * sizeof **f->sine);
		spar_rope_angles(&c->ropes[i], c->head_dim, first, n - first, f->cosine[i] + first * half,
				 f->sine[i] + first * half);
	}
	f->n_angles = n;
}

/* ---- trace ---- */

/* The slot of a point, or NULL where it is not wanted. */
static const struct spar_trace_slot *slot(const struct spar_forward *f, size_t layer, enum spar_trace_point point)
{
	const struct spar_trace_slot *s = f->trace && f->trace->layers ? &f->trace->layers[layer][point] : NULL;
	return s && s->data ? s : NULL;
}

/* Rows of floats, ld apart, go where they are wanted. */
static void leave(const struct spar_forward *f, struct spar_worker *w, const struct spar_trace_slot *s,
		  const float *from, size_t ld, size_t n_rows)
{
	for (size_t r; s && spar_worker_take(w, n_rows, &r);)
		spar_trace_put(s, f->rows[r].node_of_trace, 0, from + r * ld, s->width);
}

/* Rows of acts. */
static void leave_acts(const struct spar_forward *f, struct spar_worker *w, const struct spar_trace_slot *s,
		       const void *from, size_t ld, size_t n_rows)
{
	if (f->kernel->act_size == sizeof(float)) {
		leave(f, w, s, from, ld, n_rows);
		return;
	}
	for (size_t r; s && spar_worker_take(w, n_rows, &r);)
		spar_trace_put_bf16(s, f->rows[r].node_of_trace, 0, (const uint16_t *)from + r * ld, s->width);
}

/* ---- matrix products ---- */

/* How a product is shared out: items of one panel by some blocks of rows; cut by rows only if panels are few. */
struct items {
	size_t n, per_panel, rows; /* rows of an item */
};

static struct items share_out(const struct spar_forward *f, const struct spar_linear *l, size_t n_rows)
{
	size_t panels = spar_linear_panels(l), wanted = 4 * (size_t)f->threads;
	size_t per_panel = panels < wanted ? (wanted + panels - 1) / panels : 1;
	struct items items = {.rows = spar_round_up((n_rows + per_panel - 1) / per_panel, BLOCK_ROWS)};
	items.per_panel = (n_rows + items.rows - 1) / items.rows;
	items.n = panels * items.per_panel;
	return items;
}

struct item {
	size_t panel, row, n_rows, column, n_columns; /* n_columns: those in use, rounded up to SPAR_LANES */
};

static struct item item_at(const struct items *items, const struct spar_linear *l, size_t n_rows, size_t i)
{
	struct item item = {.panel = i / items->per_panel, .row = i % items->per_panel * items->rows};
	item.column = item.panel * SPAR_PANEL;
	item.n_rows = n_rows - item.row < items->rows ? n_rows - item.row : items->rows;
	item.n_columns = l->n - item.column < SPAR_PANEL ? spar_round_up(l->n - item.column, SPAR_LANES) : SPAR_PANEL;
	return item;
}

/* What to fetch while an item is computed: what is left of the cache to be fetched; the panel of l that this thread needs next
 * or, where there is none, one of `after`, the weights that are used after l. */
static struct spar_ahead look_ahead(const struct spar_forward *f, const struct spar_worker *w,
				    const struct spar_linear *l, const struct spar_linear *after,
				    const struct items *items, const struct item *item)
{
	enum spar_dtype dtype = f->weights->dtype;
	size_t next = spar_worker_next(w, items->n), panel = next / items->per_panel;
	const struct spar_linear *from = next < items->n ? l : after;
	struct spar_fetch *cache = &f->fetches[w->own].cache;
	if (!from || (from == l && panel == item->panel))
		return (struct spar_ahead){.cache = cache};
	if (from == after)
		panel = spar_worker_first(w, spar_linear_panels(after));
	const char *at = spar_linear_panel(from, dtype, panel);
	size_t lines = spar_linear_panel_size(from, dtype) / 64;
	size_t chains = (item->n_rows + TILE_ROWS - 1) / TILE_ROWS * ((l->k + SPAR_CHAIN - 1) / SPAR_CHAIN);
	return (struct spar_ahead){at, at + lines * 64, (lines + chains - 1) / chains, cache};
}

static void panel_product(const struct spar_forward *f, const struct spar_linear *l, const struct item *item,
			  const void *a, size_t lda, float *c, size_t ldc, enum spar_gemm_mode mode,
			  struct spar_ahead *ahead)
{
	size_t k = f->weights->dtype == SPAR_BF16 ? spar_round_up(l->k, 2) : l->k;
	f->gemm((const char *)a + item->row * lda * f->kernel->act_size, lda,
		spar_linear_panel(l, f->weights->dtype, item->panel), SPAR_PANEL, k, c, ldc, item->n_rows,
		item->n_columns, mode, ahead);
	for (size_t r = 0; l->bias && r < item->n_rows; r++)
		for (size_t j = 0; j < item->n_columns; j++)
			c[r * ldc + j] += l->bias[item->column + j];
}

/* c (n_rows, ldc) = or += a (n_rows, lda) times the weights; rows of c are padded to SPAR_PANEL. */
static void multiply(const struct spar_forward *f, struct spar_worker *w, const struct spar_linear *l,
		     const struct spar_linear *after, const void *a, size_t lda, size_t n_rows, float *c, size_t ldc,
		     enum spar_gemm_mode mode)
{
	struct items items = share_out(f, l, n_rows);
	for (size_t i; spar_worker_take(w, items.n, &i);) {
		struct item item = item_at(&items, l, n_rows, i);
		struct spar_ahead ahead = look_ahead(f, w, l, after, &items, &item);
		panel_product(f, l, &item, a, lda, c + item.row * ldc + item.column, ldc, mode, &ahead);
	}
}

/* An item's product, which stands in no buffer of its own. */
static void leave_tile(const struct spar_forward *f, const struct spar_trace_slot *s, const struct item *item,
		       const float *c)
{
	size_t width = s && s->width - item->column < SPAR_PANEL ? s->width - item->column : SPAR_PANEL;
	for (size_t r = 0; s && r < item->n_rows; r++)
		spar_trace_put(s, f->rows[item->row + r].node_of_trace, item->column, c + r * SPAR_PANEL, width);
}

/* gated = activation(gate(normed)) * up(normed): both panels of a block of rows meet while they are in the first-level
 * cache. A plain MLP is one whose up is the gate and whose other factor is 1. */
static void multiply_gated(const struct spar_forward *f, struct spar_worker *w, size_t i_layer, size_t n_rows)
{
	const struct spar_layer *layer = &f->weights->layers[i_layer];
	bool plain = !layer->gate.panels;
	const struct spar_trace_slot *trace_up = slot(f, i_layer, SPAR_TRACE_UP),
				     *trace_gate = plain ? trace_up : slot(f, i_layer, SPAR_TRACE_GATE);
	const struct spar_linear *l = plain ? &layer->up : &layer->gate;
	struct items items = share_out(f, l, n_rows);
	for (size_t i; spar_worker_take(w, items.n, &i);) {
		struct item whole = item_at(&items, l, n_rows, i), item = whole;
		struct spar_ahead ahead = look_ahead(f, w, l, &layer->down, &items, &item),
				  ahead_up = look_ahead(f, w, &layer->up, NULL, &items, &item);
		float gate[BLOCK_ROWS * SPAR_PANEL], up[BLOCK_ROWS * SPAR_PANEL];
		for (size_t j = 0; plain && j < BLOCK_ROWS * SPAR_PANEL; j++)
			up[j] = 1;
		for (; item.row < whole.row + whole.n_rows; item.row += BLOCK_ROWS) {
			size_t left = whole.row + whole.n_rows - item.row;
			item.n_rows = left < BLOCK_ROWS ? left : BLOCK_ROWS;
			panel_product(f, l, &item, f->normed, f->hidden, gate, SPAR_PANEL, SPAR_GEMM_SET, &ahead);
			if (!plain)
				panel_product(f, &layer->up, &item, f->normed, f->hidden, up, SPAR_PANEL, SPAR_GEMM_SET,
					      &ahead_up);
			leave_tile(f, trace_gate, &item, gate);
			leave_tile(f, plain ? NULL : trace_up, &item, up);
			for (size_t r = 0; r < item.n_rows; r++) {
				size_t to = (item.row + r) * f->inner + item.column;
				f->activate(gate + r * SPAR_PANEL, up + r * SPAR_PANEL, item.n_columns,
					    (char *)f->gated + to * f->kernel->act_size);
			}
		}
	}
}

/* Copy past the caches, which are too small for the logits of many rows. Who reads them comes behind an atomic operation of
 * team.h, which completes the stores. */
static void put_far(float *to, const float *x, size_t n)
{
	size_t i = 0;
#ifdef __SSE2__
	for (; (uintptr_t)to % 16 == 0 && i + 4 <= n; i += 4)
		_mm_stream_ps(to + i, _mm_loadu_ps(x + i));
#endif
	memcpy(to + i, x + i, (n - i) * sizeof *x);
}

static void multiply_head(const struct spar_forward *f, struct spar_worker *w, size_t n_rows, size_t limit,
			  float *logits)
{
	const struct spar_linear *head = &f->weights->head;
	float cap = (float)f->config->logit_cap;
	struct items items = share_out(f, head, n_rows);
	for (size_t i; spar_worker_take(w, items.n, &i);) {
		struct item whole = item_at(&items, head, n_rows, i), item = whole;
		struct spar_ahead ahead = look_ahead(f, w, head, &f->weights->layers[0].qkv, &items, &item);
		size_t wide = head->n - item.column < SPAR_PANEL ? head->n - item.column : SPAR_PANEL;
		for (; item.row < whole.row + whole.n_rows; item.row += BLOCK_ROWS) {
			float block[BLOCK_ROWS * SPAR_PANEL];
			size_t left = whole.row + whole.n_rows - item.row;
			item.n_rows = left < BLOCK_ROWS ? left : BLOCK_ROWS;
			panel_product(f, head, &item, f->normed, f->hidden, block, SPAR_PANEL, SPAR_GEMM_SET, &ahead);
			for (size_t r = 0; r < item.n_rows; r++) {
				float *row = block + r * SPAR_PANEL;
				for (size_t j = 0; cap > 0 && j < wide; j++)
					row[j] = cap * tanhf(row[j] / cap);
				for (size_t j = limit > item.column ? limit - item.column : 0; j < wide; j++)
					row[j] = -INFINITY;
				put_far(logits + (item.row + r) * head->n + item.column, row, wide);
			}
		}
	}
}

/* ---- what is done row by row ---- */

/* One row of any length; y may be x. */
static void norm_row(const struct spar_config *c, const struct spar_norm_weights *norm, const float *x, size_t n,
		     float *y)
{
	double mean = 0, square = 0;
	for (size_t i = 0; i < n && c->norm == SPAR_NORM_LAYER; i++)
		mean += x[i];
	mean /= (double)n;
	for (size_t i = 0; i < n; i++)
		square += (x[i] - mean) * (x[i] - mean);
	float factor = (float)(1 / sqrt(square / (double)n + c->norm_eps));
	for (size_t i = 0; i < n; i++)
		y[i] = (x[i] - (float)mean) * factor * norm->weight[i] + (norm->bias ? norm->bias[i] : 0);
}

static void normalize(const struct spar_forward *f, struct spar_worker *w, const float *x,
		      const struct spar_norm_weights *norm, size_t n_rows)
{
	const struct spar_config *c = f->config;
	for (size_t r; spar_worker_take(w, n_rows, &r);) {
		char *act = (char *)f->normed + r * f->hidden * f->kernel->act_size;
		float *row = f->branch + r * f->hidden;
		if (c->norm == SPAR_NORM_LAYER) {
			norm_row(c, norm, x + r * f->hidden, c->hidden_size, row);
			f->kernel->scale(row, 1, f->hidden, act);
		} else {
			f->kernel->norm(x + r * f->hidden, norm->weight, f->hidden, c->hidden_size, c->norm_eps, act);
		}
	}
}

/* x += l(a), normed before where the family has it so. */
static void add_branch(const struct spar_forward *f, struct spar_worker *w, const struct spar_linear *l,
		       const struct spar_linear *after, const void *a, size_t lda, const struct spar_norm_weights *post,
		       const struct spar_trace_slot *trace, size_t n_rows)
{
	if (!post->weight) {
		multiply(f, w, l, after, a, lda, n_rows, f->x, f->hidden, SPAR_GEMM_ADD);
		return;
	}
	multiply(f, w, l, after, a, lda, n_rows, f->branch, f->hidden, SPAR_GEMM_SET);
	for (size_t r; spar_worker_take(w, n_rows, &r);) {
		float *x = f->x + r * f->hidden, *branch = f->branch + r * f->hidden;
		if (trace)
			spar_trace_put(trace, f->rows[r].node_of_trace, 0, branch, trace->width);
		norm_row(f->config, post, branch, f->config->hidden_size, branch);
		for (size_t i = 0; i < f->config->hidden_size; i++)
			x[i] += branch[i];
	}
}

static void embed(const struct spar_forward *f, struct spar_worker *w, const struct spar_row *rows, size_t n_rows)
{
	for (size_t r; spar_worker_take(w, n_rows, &r);) {
		float *x = f->x + r * f->hidden;
		spar_weights_embed(f->weights, rows[r].id, f->config->hidden_size, x);
		for (size_t i = 0; f->embedding_scale != 1 && i < f->config->hidden_size; i++)
			x[i] *= f->embedding_scale;
		spar_weights_add_position(f->weights, rows[r].pos, f->config->hidden_size, x);
	}
}

/* Norm a row's queries and keys and turn them by its position, as the layer has it. */
static void prepare_heads(const struct spar_forward *f, size_t layer, size_t pos, float *projected)
{
	const struct spar_config *c = f->config;
	const struct spar_layer *l = &f->weights->layers[layer];
	size_t half = c->head_dim / 2;
	int rope = c->layers[layer].rope;
	for (size_t head = 0; head < c->n_heads + c->n_kv_heads; head++) {
		float *at = projected + head * c->head_dim;
		if (l->q_norm.weight)
			norm_row(c, head < c->n_heads ? &l->q_norm : &l->k_norm, at, c->head_dim, at);
		if (rope >= 0)
			f->kernel->rotate(at, f->cosine[rope] + pos * half, f->sine[rope] + pos * half, half, at);
	}
}

/* Queries go where attention wants them, keys and values into the cache. A query's padding is what stands behind it in
 * `projected`: it meets the zeros of the keys' padding. */
static void rotate_and_store(const struct spar_forward *f, struct spar_worker *w, size_t layer,
			     const struct spar_row *rows, size_t n_rows)
{
	const struct spar_config *c = f->config;
	const struct spar_attention *a = &f->attention;
	for (size_t r; spar_worker_take(w, n_rows, &r);) {
		float *projected = f->projected + r * f->qkv, *keys = projected + c->n_heads * c->head_dim;
		prepare_heads(f, layer, rows[r].pos, projected);
		for (size_t head = 0; head < c->n_heads; head++)
			f->kernel->scale(projected + head * c->head_dim, 1.0f, a->width,
					 (char *)f->q + spar_attention_query(a, n_rows, r, head) * f->kernel->act_size);
		if (rows[r].fresh)
			spar_attention_store(a, &rows[r], layer, keys, keys + c->n_kv_heads * c->head_dim);
	}
}

/* ---- the passes ---- */

/* Have the products from here on fetch what this thread's part of a layer's attention reads. */
static void fetch_cache(const struct spar_forward *f, const struct spar_worker *w, size_t layer)
{
	f->fetches[w->own].cache = layer < f->weights->n_layers
				       ? spar_attention_fetch(&f->attention, layer, w->own, w->n_threads)
				       : (struct spar_fetch){0};
}

void spar_forward_run(struct spar_forward *f, const struct spar_row *rows, size_t n, const struct spar_trace *trace)
{
	size_t end = 0;
	f->rows = rows;
	f->trace = trace;
	for (size_t r = 0; r < n; r++)
		end = rows[r].pos + 1 > end ? rows[r].pos + 1 : end;
	make_angles(f, end);
	spar_attention_plan(&f->attention, rows, n);
	spar_team_reset(&f->team);
#pragma omp parallel num_threads(f->threads)
	{
		struct spar_worker w = spar_worker_begin(&f->team);
		fetch_cache(f, &w, 0);
		embed(f, &w, rows, n);
		for (size_t i = 0; i < f->weights->n_layers; i++) {
			const struct spar_layer *l = &f->weights->layers[i];
			const struct spar_linear *mlp = l->gate.panels ? &l->gate : &l->up,
						 *after = i + 1 < f->weights->n_layers ? &l[1].qkv : &f->weights->head;
			leave(f, &w, slot(f, i, SPAR_TRACE_INPUT), f->x, f->hidden, n);
			normalize(f, &w, f->x, &l->attention_norm, n);
			multiply(f, &w, &l->qkv, &l->o, f->normed, f->hidden, n, f->projected, f->qkv, SPAR_GEMM_SET);
			leave(f, &w, slot(f, i, SPAR_TRACE_QKV), f->projected, f->qkv, n);
			rotate_and_store(f, &w, i, rows, n);
			spar_attention_run(&f->attention, &w, i, f->q, n, f->mixed, f->attended);
			leave_acts(f, &w, slot(f, i, SPAR_TRACE_ATTENDED), f->mixed, f->attended, n);
			add_branch(f, &w, &l->o, mlp, f->mixed, f->attended, &l->attention_post_norm,
				   slot(f, i, SPAR_TRACE_O), n);
			leave(f, &w, slot(f, i, SPAR_TRACE_MIDDLE), f->x, f->hidden, n);
			normalize(f, &w, f->x, &l->mlp_norm, n);
			multiply_gated(f, &w, i, n);
			fetch_cache(f, &w, i + 1);
			add_branch(f, &w, &l->down, after, f->gated, f->inner, &l->mlp_post_norm,
				   slot(f, i, SPAR_TRACE_DOWN), n);
		}
		leave(f, &w, trace ? &trace->output : NULL, f->x, f->hidden, n);
	}
}

void spar_forward_head(struct spar_forward *f, const float *x, size_t n, size_t limit, float *logits)
{
	spar_team_reset(&f->team);
#pragma omp parallel num_threads(f->threads)
	{
		struct spar_worker w = spar_worker_begin(&f->team);
		normalize(f, &w, x, &f->weights->norm, n);
		multiply_head(f, &w, n, limit, logits);
	}
}
