/* The training graph's figures for comparison with other implementations.
 *	graph MODEL logprobs|gradients <lines of "[ids]" >raw
 * logprobs: those of every token but the first of each line, line after line, little-endian float32.
 * gradients: of the mean negative log-probability of the same tokens. Written are a line
 * {"loss":x,"parameters":[["name",elements],...]} and the gradients, little-endian float32, in that order; matrices are
 * (out, in). Of an adapter folder the gradients are those of its factors, without dropout. */
#include "base/str.h"
#include "model/graph.h"
#include <jv.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct spar_pack *read_pack(FILE *in)
{
	struct spar_pack_builder *b = spar_pack_begin();
	char *line = NULL;
	size_t cap = 0;
	while (getline(&line, &cap, in) > 0) {
		jv ids = jv_parse(line);
		size_t n = (size_t)jv_array_length(jv_copy(ids));
		int32_t *tokens = spar_calloc(n + 1, sizeof *tokens);
		uint8_t *mask = spar_calloc(n + 1, 1);
		jv_array_foreach(ids, i, id)
		{
			tokens[i] = (int32_t)jv_number_value(id);
			mask[i] = i > 0;
			jv_free(id);
		}
		spar_pack_add(b, tokens, mask, n);
		free(tokens);
		free(mask);
		jv_free(ids);
	}
	free(line);
	return spar_pack_end(b, 1);
}

static void write_logprobs(struct spar_graph *g, const struct spar_pack *p, struct spar_err *err)
{
	float *logprobs = spar_calloc(p->n_targets, sizeof *logprobs);
	if (spar_graph_forward(g, p, 1, SPAR_GRAPH_INFER, logprobs, NULL, NULL, err) < 0)
		exit(spar_die("graph", err));
	for (size_t i = 0; i < p->n_refs; i++)
		fwrite(&logprobs[p->ref_target[i]], sizeof *logprobs, 1, stdout);
	free(logprobs);
}

/* Forward and backward of the mean; returns it. */
static double gather(struct spar_graph *g, const struct spar_pack *p, struct spar_err *err)
{
	float *logprobs = spar_calloc(p->n_targets, sizeof *logprobs), *d = spar_calloc(p->n_targets, sizeof *d);
	double loss = 0;
	if (spar_graph_forward(g, p, 1, SPAR_GRAPH_TRAIN, logprobs, NULL, NULL, err) < 0)
		exit(spar_die("graph", err));
	for (size_t i = 0; i < p->n_refs; i++) {
		loss -= logprobs[p->ref_target[i]] / (double)p->n_refs;
		d[p->ref_target[i]] -= 1 / (float)p->n_refs;
	}
	if (spar_graph_backward(g, d, NULL, err) < 0)
		exit(spar_die("graph", err));
	free(logprobs);
	free(d);
	return loss;
}

static void write_gradients(const struct spar_graph *g, double loss, struct spar_err *err)
{
	struct spar_str head = SPAR_STR_INIT;
	spar_str_adds(&head, "{\"loss\":");
	spar_str_add_double(&head, loss);
	spar_str_adds(&head, ",\"parameters\":[");
	for (size_t i = 0; i < spar_graph_count(g); i++)
		spar_str_addf(&head, "%s[\"%s\",%zu]", i ? "," : "", spar_graph_name(g, i), spar_graph_elements(g, i));
	printf("%s]}\n", head.data);
	spar_str_release(&head);
	for (size_t i = 0; i < spar_graph_count(g); i++) {
		float *values = spar_malloc(spar_graph_elements(g, i) * sizeof *values);
		if (spar_graph_get(g, i, SPAR_GRAPH_GRAD, values, err) < 0)
			exit(spar_die("graph", err));
		fwrite(values, sizeof *values, spar_graph_elements(g, i), stdout);
		free(values);
	}
}

int main(int argc, char **argv)
{
	struct spar_err err = {0};
	struct spar_model model;
	struct spar_lora_config lora;
	struct spar_graph *g;
	bool logprobs = argc > 2 && !strcmp(argv[2], "logprobs");
	if (argc != 3 || spar_model_open(&model, argv[1], &err) < 0 || spar_lora_parse(&lora, "dropout=0", &err) < 0)
		return spar_die("graph", &err);
	struct spar_graph_opt opt = {
	    .dtype = SPAR_F32, .threads = 2, .lora = model.has_adapter ? &lora : NULL, .frozen = logprobs};
	if (spar_graph_new(&g, &model, &opt, &err) < 0)
		return spar_die("graph", &err);
	struct spar_pack *p = read_pack(stdin);
	if (logprobs)
		write_logprobs(g, p, &err);
	else
		write_gradients(g, gather(g, p, &err), &err);
	spar_pack_free(p);
	spar_graph_free(g);
	spar_lora_release(&lora);
	spar_model_close(&model);
	return fflush(stdout) ? 1 : 0;
}
