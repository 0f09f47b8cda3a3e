/* trace.c - the engine's forward as the training graph's; see model/graph.h */
#include "model/graph/parts.h"
#include "base/half.h"
#include <stdlib.h>

/* ---- the engine's weights ---- */

/* A parameter as the sampler will read it: what is saved in bfloat16 is rounded. */
static int as_saved(const void *from, const struct spar_param *p, float *out, struct spar_err *err)
{
	const struct spar_graph *g = from;
	if (g->lora && !spar_graph_adapts(g, p))
		return 1;
	int rc = spar_graph_present(g, p, out, err);
	bool rounded = !g->lora && g->type == SPAR_TENSOR_BF16 && !p->cols; /* matrices will be */
	for (size_t i = 0; rounded && i < p->rows; i++)
		out[i] = spar_bf16_to_f32(spar_f32_to_bf16(out[i]));
	return rc;
}

/* A parameter without the adapter that the model came with. */
static int as_base(const void *from, const struct spar_param *p, float *out, struct spar_err *err)
{
	const struct spar_graph *g = from;
	return spar_graph_adapts(g, p) ? spar_model_fetch(g->model, p, true, out, err) : 1;
}

static int new_engine(const struct spar_graph *g, struct spar_engine **e, struct spar_err *err)
{
	struct spar_engine_opt opt = {.dtype = g->type == SPAR_TENSOR_BF16 ? SPAR_BF16 : SPAR_F32,
				      .threads = g->threads,
				      .kv_cache_size = SIZE_MAX, /* what the largest micro-batch takes */
				      .vocab_limit = g->vocab};
	int rc = spar_engine_new(e, g->model, &opt, err);
	spar_model_leave(g->model);
	return rc;
}

/* With the adapter off; made when it is first asked for. */
static int base_engine(struct spar_graph *g, struct spar_err *err)
{
	if (g->base)
		return 0;
	int rc = new_engine(g, &g->base, err);
	return rc == 0 && g->model->has_adapter ? spar_engine_refill(g->base, as_base, g, err) : rc;
}

static int present_engine(struct spar_graph *g, struct spar_err *err)
{
	int rc = g->engine ? 0 : new_engine(g, &g->engine, err);
	if (rc == 0 && g->stale)
		rc = spar_engine_refill(g->engine, as_saved, g, err);
	g->stale = rc < 0;
	return rc;
}

int spar_graph_engine(struct spar_graph *g, enum spar_graph_mode mode, bool drop, struct spar_engine **out,
		      struct spar_err *err)
{
	bool base = mode == SPAR_GRAPH_REFERENCE && g->lora;
	*out = NULL;
	if (!spar_graph_has_engine(g) || drop)
		return 0;
	int rc = base ? base_engine(g, err) : present_engine(g, err);
	*out = base ? g->base : g->engine;
	return rc;
}

/* ---- a forward ---- */

/* Room for a point's values: (n_nodes, width). */
static struct spar_trace_slot new_slot(struct spar_scope *s, enum spar_tensor_type type, size_t n_nodes, size_t width,
				       struct spar_tensor **made)
{
	*made = spar_tensor_unset(s, type, 2, (size_t[]){n_nodes, width});
	return (struct spar_trace_slot){
	    .data = spar_tensor_data(*made), .width = width, .dtype = type == SPAR_TENSOR_BF16 ? SPAR_BF16 : SPAR_F32};
}

/* What the backward of a layer needs. With checkpointing that is its input. */
static void slots_of_layer(const struct spar_graph *g, struct spar_scope *s, size_t n_nodes,
			   struct spar_trace_slot *slots, struct spar_tensor **values)
{
	const struct spar_config *c = &g->model->config;
	size_t attended = c->n_heads * c->head_dim, kv = c->n_kv_heads * c->head_dim;
	const struct {
		size_t width; /* 0: the family has no such point */
		enum spar_tensor_type type;
	} points[SPAR_N_TRACE_POINTS] = {
	    [SPAR_TRACE_INPUT] = {c->hidden_size, SPAR_TENSOR_F32},
	    [SPAR_TRACE_QKV] = {attended + 2 * kv, g->type},
	    [SPAR_TRACE_ATTENDED] = {attended, g->type},
	    [SPAR_TRACE_O] = {c->post_norms ? c->hidden_size : 0, g->type},
	    [SPAR_TRACE_MIDDLE] = {c->hidden_size, SPAR_TENSOR_F32},
	    [SPAR_TRACE_GATE] = {c->plain_mlp ? 0 : c->intermediate_size, g->type},
	    [SPAR_TRACE_UP] = {c->intermediate_size, g->type},
	    [SPAR_TRACE_DOWN] = {c->post_norms ? c->hidden_size : 0, g->type},
	};
	for (size_t i = 0; i < SPAR_N_TRACE_POINTS; i++)
		if (points[i].width && (i == SPAR_TRACE_INPUT || !g->checkpointing))
			slots[i] = new_slot(s, points[i].type, n_nodes, points[i].width, &values[i]);
}

struct spar_tensor *spar_graph_trace(struct spar_graph *g, struct spar_scope *s, struct spar_engine *e,
				     const struct spar_pack *p, bool grad, struct spar_err *err)
{
	size_t n_layers = g->model->config.n_layers;
	struct spar_tensor *output;
	struct spar_trace trace = {.output =
				       new_slot(s, SPAR_TENSOR_F32, p->n_nodes, g->model->config.hidden_size, &output)};
	if (grad) {
		trace.layers = spar_calloc(n_layers, sizeof *trace.layers);
		g->by_layers = true;
		g->inputs = spar_calloc(n_layers, sizeof(struct spar_tensor *));
		g->values = spar_calloc(n_layers, sizeof *g->values);
		for (size_t i = 0; i < n_layers; i++) {
			slots_of_layer(g, s, p->n_nodes, trace.layers[i], g->values[i]);
			g->inputs[i] = g->values[i][SPAR_TRACE_INPUT];
		}
		g->batch.values = g->checkpointing ? NULL : g->values;
	}
	int rc = spar_scope_status(s, err);
	if (rc == 0)
		rc = spar_engine_trace(e, p, &trace, err);
	free(trace.layers);
	if (rc < 0)
		return NULL;
	struct spar_tensor *rows = spar_tensor_rows(s, output, spar_tensor_from_i32(s, p->target_node, p->n_targets));
	spar_tensor_drop(output);
	return grad ? spar_graph_leaf(s, rows) : rows;
}
