#include "model/engine/forward.h"
#include <math.h>
#include <stdlib.h>

#define N_PHASES(n_layers) (1 + 8 * (n_layers)) /* of a pass */
#define BLOCK_ROWS 24                           /* a multiple of every tile's height in panels of SPAR_PANEL columns */

int spar_forward_init(struct spar_forward *f, const struct spar_config *c, const struct spar_weights *w,
		      const struct spar_kernel *kernel, int threads, struct spar_err *err)
{
	*f = (struct spar_forward){
	    .config = c,
	    .weights = w,
	    .kernel = kernel,
	    .gemm = w->dtype == SPAR_BF16 ? kernel->gemm_bf16 : kernel->gemm_f32,
	    .threads = threads,
	    .hidden = spar_round_up(c->hidden_size, SPAR_PANEL),
	    .qkv = spar_round_up((c->n_heads + 2 * c->n_kv_heads) * c->head_dim, SPAR_PANEL),
	    .attended = spar_round_up(c->n_heads * c->head_dim, SPAR_PANEL),
	    .inner = spar_round_up(c->intermediate_size, SPAR_PANEL),
	};
	spar_attention_init(&f->attention, c, kernel, w->dtype, threads);
	if (spar_team_init(&f->team, N_PHASES(c->n_layers), err) < 0)
		return -SPAR_FAIL;
	const struct {
		void **buffer;
		size_t row_size;
	} buffers[] = {
	    {(void **)&f->x, f->hidden * sizeof(float)},
	    {&f->normed, f->hidden * kernel->act_size},
	    {(void **)&f->projected, f->qkv * sizeof(float)},
	    {&f->q, c->n_heads * f->attention.width * kernel->act_size},
	    {&f->mixed, f->attended * kernel->act_size},
	    {&f->gated, f->inner * kernel->act_size},
	};
	for (size_t i = 0; i < sizeof buffers / sizeof *buffers; i++) {
		size_t size = spar_round_up(SPAR_FORWARD_ROWS * buffers[i].row_size, 64);
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
	free(f->team.phases);
	free(f->x);
	free(f->normed);
	free(f->projected);
	free(f->q);
	free(f->mixed);
	free(f->gated);
	free(f->cosine);
	free(f->sine);
	*f = (struct spar_forward){0};
}

/* Rotary angles up to position n. */
static void make_angles(struct spar_forward *f, size_t n)
{
	if (n <= f->n_angles)
		return;
	size_t half = f->config->head_dim / 2, done = f->n_angles * half;
	n = spar_round_up(n, 1024);
	f->cosine = spar_realloc(f->cosine, n * half * sizeof *f->cosine);
	f->sine = spar_realloc(f->sine, n * half * sizeof *f->sine);
	spar_config_rotary(f->config, f->n_angles, n, f->cosine + done, f->sine + done);
	f->n_angles = n;
}

/* ---- matrix products ---- */

/* How a product is shared out: items of one panel by some blocks of rows; cut by rows only if panels are few. */
struct items {
	size_t n, per_panel, rows; /* rows of an item */
};

static struct items share_out(const struct spar_forward *f, const struct spar_linear *l, size_t n_rows)
{
	size_t panels = spar_round_up(l->n, SPAR_PANEL) / SPAR_PANEL, wanted = 4 * (size_t)f->threads;
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

static void panel_product(const struct spar_forward *f, const struct spar_linear *l, const struct item *item,
			  const void *a, size_t lda, float *c, size_t ldc, enum spar_gemm_mode mode)
{
	size_t k = f->weights->dtype == SPAR_BF16 ? spar_round_up(l->k, 2) : l->k;
	f->gemm((const char *)a + item->row * lda * f->kernel->act_size, lda,
		spar_linear_panel(l, f->weights->dtype, item->panel), SPAR_PANEL, k, c, ldc, item->n_rows,
		item->n_columns, mode);
}

/* c (n_rows, ldc) = or += a (n_rows, lda) times the weights; rows of c are padded to SPAR_PANEL. */
static void multiply(const struct spar_forward *f, struct spar_worker *w, const struct spar_linear *l, const void *a,
		     size_t lda, size_t n_rows, float *c, size_t ldc, enum spar_gemm_mode mode)
{
	struct items items = share_out(f, l, n_rows);
	for (size_t i; spar_worker_take(w, items.n, &i);) {
		struct item item = item_at(&items, l, n_rows, i);
		panel_product(f, l, &item, a, lda, c + item.row * ldc + item.column, ldc, mode);
	}
}

/* gated = silu(gate(normed)) * up(normed): both panels of a block of rows meet while they are in the first-level cache. */
static void multiply_gated(const struct spar_forward *f, struct spar_worker *w, const struct spar_layer *layer,
			   size_t n_rows)
{
	struct items items = share_out(f, &layer->gate, n_rows);
	for (size_t i; spar_worker_take(w, items.n, &i);) {
		struct item whole = item_at(&items, &layer->gate, n_rows, i), item = whole;
		for (; item.row < whole.row + whole.n_rows; item.row += BLOCK_ROWS) {
			float gate[BLOCK_ROWS * SPAR_PANEL], up[BLOCK_ROWS * SPAR_PANEL];
			size_t left = whole.row + whole.n_rows - item.row;
			item.n_rows = left < BLOCK_ROWS ? left : BLOCK_ROWS;
			panel_product(f, &layer->gate, &item, f->normed, f->hidden, gate, SPAR_PANEL, SPAR_GEMM_SET);
			panel_product(f, &layer->up, &item, f->normed, f->hidden, up, SPAR_PANEL, SPAR_GEMM_SET);
			for (size_t r = 0; r < item.n_rows; r++) {
				size_t to = (item.row + r) * f->inner + item.column;
				f->kernel->swiglu(gate + r * SPAR_PANEL, up + r * SPAR_PANEL, item.n_columns,
						  (char *)f->gated + to * f->kernel->act_size);
			}
		}
	}
}

static void multiply_head(const struct spar_forward *f, struct spar_worker *w, size_t n_rows, size_t limit,
			  float *logits)
{
	const struct spar_linear *head = &f->weights->head;
	struct items items = share_out(f, head, n_rows);
	for (size_t i; spar_worker_take(w, items.n, &i);) {
		struct item whole = item_at(&items, head, n_rows, i), item = whole;
		size_t wide = head->n - item.column < SPAR_PANEL ? head->n - item.column : SPAR_PANEL;
		for (; item.row < whole.row + whole.n_rows; item.row += BLOCK_ROWS) {
			float block[BLOCK_ROWS * SPAR_PANEL];
			size_t left = whole.row + whole.n_rows - item.row;
			item.n_rows = left < BLOCK_ROWS ? left : BLOCK_ROWS;
			panel_product(f, head, &item, f->normed, f->hidden, block, SPAR_PANEL, SPAR_GEMM_SET);
			for (size_t r = 0; r < item.n_rows; r++) {
				float *row = block + r * SPAR_PANEL;
				for (size_t j = limit > item.column ? limit - item.column : 0; j < wide; j++)
					row[j] = -INFINITY;
				memcpy(logits + (item.row + r) * head->n + item.column, row, wide * sizeof *row);
			}
		}
	}
}

/* ---- what is done row by row ---- */

static void normalize(const struct spar_forward *f, struct spar_worker *w, const float *x, const float *weight,
		      size_t n_rows)
{
	for (size_t r; spar_worker_take(w, n_rows, &r);)
		f->kernel->norm(x + r * f->hidden, weight, f->hidden, f->config->hidden_size, f->config->rms_norm_eps,
				(char *)f->normed + r * f->hidden * f->kernel->act_size);
}

static void embed(const struct spar_forward *f, struct spar_worker *w, const struct spar_row *rows, size_t n_rows)
{
	for (size_t r; spar_worker_take(w, n_rows, &r);)
		spar_weights_embed(f->weights, rows[r].id, f->config->hidden_size, f->x + r * f->hidden);
}

/* Rotate queries and keys by their position; queries go where attention wants them, keys and values into the cache.
 * A query's padding is what stands behind it in `projected`: it meets the zeros of the keys' padding. */
static void rotate_and_store(const struct spar_forward *f, struct spar_worker *w, size_t layer,
			     const struct spar_row *rows, size_t n_rows)
{
	const struct spar_config *c = f->config;
	const struct spar_attention *a = &f->attention;
	size_t half = c->head_dim / 2, n_rotated = c->n_heads + c->n_kv_heads;
	for (size_t r; spar_worker_take(w, n_rows, &r);) {
		float *projected = f->projected + r * f->qkv;
		const float *cosine = f->cosine + rows[r].pos * half, *sine = f->sine + rows[r].pos * half;
		for (size_t head = 0; head < n_rotated; head++) {
			float *at = projected + head * c->head_dim;
			f->kernel->rotate(at, cosine, sine, half, at);
		}
		for (size_t head = 0; head < c->n_heads; head++)
			f->kernel->scale(projected + head * c->head_dim, 1.0f, a->width,
					 (char *)f->q + spar_attention_query(a, n_rows, r, head) * f->kernel->act_size);
		if (rows[r].fresh)
			spar_attention_store(a, &rows[r], layer, projected + c->n_heads * c->head_dim,
					     projected + n_rotated * c->head_dim);
	}
}

/* ---- the passes ---- */

void spar_forward_run(struct spar_forward *f, const struct spar_row *rows, size_t n)
{
	size_t end = 0;
	for (size_t r = 0; r < n; r++)
		end = rows[r].pos + 1 > end ? rows[r].pos + 1 : end;
	make_angles(f, end);
	spar_attention_plan(&f->attention, rows, n);
	spar_team_reset(&f->team);
#pragma omp parallel num_threads(f->threads)
	{
		struct spar_worker w = spar_worker_begin(&f->team);
		embed(f, &w, rows, n);
		for (size_t i = 0; i < f->weights->n_layers; i++) {
			const struct spar_layer *l = &f->weights->layers[i];
			normalize(f, &w, f->x, l->attention_norm, n);
			multiply(f, &w, &l->qkv, f->normed, f->hidden, n, f->projected, f->qkv, SPAR_GEMM_SET);
			rotate_and_store(f, &w, i, rows, n);
			spar_attention_run(&f->attention, &w, i, f->q, n, f->mixed, f->attended);
			multiply(f, &w, &l->o, f->mixed, f->attended, n, f->x, f->hidden, SPAR_GEMM_ADD);
			normalize(f, &w, f->x, l->mlp_norm, n);
			multiply_gated(f, &w, l, n);
			multiply(f, &w, &l->down, f->gated, f->inner, n, f->x, f->hidden, SPAR_GEMM_ADD);
		}
	}
}

void spar_forward_head(struct spar_forward *f, const float *x, size_t n, size_t limit, float *logits)
{
	spar_team_reset(&f->team);
#pragma omp parallel num_threads(f->threads)
	{
		struct spar_worker w = spar_worker_begin(&f->team);
		normalize(f, &w, x, f->weights->norm, n);
		multiply_head(f, &w, n, limit, logits);
	}
}
