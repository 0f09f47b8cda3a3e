#include "rl/train_state.h"
#include "base/file.h"
#include "record/object.h"
#include "record/record.h"
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define METRICS_MAX ((size_t)1 << 30)

static const struct {
	enum spar_graph_what what;
	const char *prefix;
} kinds[] = {{SPAR_GRAPH_WEIGHT, "weight"}, {SPAR_GRAPH_MOMENT1, "moment1"}, {SPAR_GRAPH_MOMENT2, "moment2"}};
enum { N_KINDS = sizeof kinds / sizeof *kinds };

void spar_train_state_init(struct spar_train_state *s)
{
	*s = (struct spar_train_state){.metrics = SPAR_STR_INIT};
}

void spar_train_state_release(struct spar_train_state *s)
{
	spar_str_release(&s->metrics);
}

size_t spar_train_state_bytes(const struct spar_graph *g)
{
	size_t n = 0;
	for (size_t i = 0; i < spar_graph_count(g); i++)
		n += spar_graph_elements(g, i);
	return n * N_KINDS * sizeof(float);
}

static char *tensor_name(const struct spar_graph *g, size_t i, size_t kind)
{
	struct spar_str s = SPAR_STR_INIT;
	spar_str_addf(&s, "%s.%s", kinds[kind].prefix, spar_graph_name(g, i));
	return spar_str_detach(&s);
}

static int write_text(const char *dir, const char *name, const struct spar_str *text, struct spar_err *err)
{
	char *path = spar_path_join(dir, name);
	int rc = spar_file_write(path, text->data, text->len, err);
	free(path);
	return rc;
}

static int save_tensors(const struct spar_graph *g, const char *dir, struct spar_err *err)
{
	size_t n = spar_graph_count(g) * N_KINDS, at = 0;
	float *data = malloc(spar_train_state_bytes(g) + sizeof *data);
	if (!data)
		return spar_fail(err, SPAR_FAIL, "out of memory: a copy of the trainer state takes %zu bytes",
				 spar_train_state_bytes(g));
	struct spar_tensor_view *views = spar_calloc(n + 1, sizeof *views);
	char **names = spar_calloc(n + 1, sizeof *names);
	int rc = 0;
	for (size_t i = 0; rc == 0 && i < n; i++) {
		size_t param = i / N_KINDS, elements = spar_graph_elements(g, param);
		names[i] = tensor_name(g, param, i % N_KINDS);
		views[i] = (struct spar_tensor_view){.name = names[i],
						     .dtype = SPAR_F32,
						     .shape = {elements},
						     .n_dims = 1,
						     .data = data + at,
						     .n_bytes = elements * sizeof *data,
						     .n_elements = elements};
		rc = spar_graph_get(g, param, kinds[i % N_KINDS].what, data + at, err);
		at += elements;
	}
	char *path = spar_path_join(dir, "state.safetensors");
	if (rc == 0)
		rc = spar_safetensors_write(path, views, n, NULL, 0, err);
	free(path);
	for (size_t i = 0; i < n; i++)
		free(names[i]);
	free(names);
	free(views);
	free(data);
	return rc;
}

int spar_train_state_save(const struct spar_train_state *s, const struct spar_graph *g, const char *dir,
			  struct spar_err *err)
{
	struct spar_str json = SPAR_STR_INIT;
	spar_str_addf(&json,
		      "{\"step\":%" PRIu64 ",\"adam_step\":%" PRIu64 ",\"batches\":%" PRIu64 ",\"num_tokens\":%" PRIu64
		      ",\"seed\":\"%" PRIu64 "\",\"data\":\"%s\"}\n",
		      s->step, s->adam_step, s->batches, s->num_tokens, s->seed, s->data);
	int rc = save_tensors(g, dir, err);
	if (rc == 0)
		rc = write_text(dir, "metrics.jsonl", &s->metrics, err);
	if (rc == 0)
		rc = write_text(dir, "state.json", &json, err);
	spar_str_release(&json);
	return rc;
}

static int load_counters(struct spar_train_state *s, const char *path, struct spar_err *err)
{
	jv o;
	uint64_t seed = 0;
	const char *data = "";
	size_t n = 0;
	int rc = spar_object_read(path, &o, err);
	if (rc < 0)
		return rc;
	if ((rc = spar_get_u64(o, "", "step", &s->step, err)) < 0 ||
	    (rc = spar_get_u64(o, "", "adam_step", &s->adam_step, err)) < 0 ||
	    (rc = spar_get_u64(o, "", "batches", &s->batches, err)) < 0 ||
	    (rc = spar_get_u64(o, "", "num_tokens", &s->num_tokens, err)) < 0 ||
	    (rc = spar_get_u64(o, "", "seed", &seed, err)) < 0 ||
	    (rc = spar_get_str(o, "", "data", &data, &n, err)) < 0)
		spar_fail_at(err, "%s", path);
	else if (seed != s->seed)
		rc = spar_fail(err, SPAR_INPUT, "%s: made with --seed=%" PRIu64 ", not %" PRIu64, path, seed, s->seed);
	else
		snprintf(s->data, sizeof s->data, "%s", data);
	jv_free(o);
	return rc;
}

static int load_tensor(struct spar_graph *g, size_t i, size_t kind, const struct spar_safetensors *file, float *buffer,
		       struct spar_err *err)
{
	char *name = tensor_name(g, i, kind);
	const struct spar_tensor_view *v = spar_safetensors_find(file, name);
	int rc;
	if (!v)
		rc = spar_fail(err, SPAR_INPUT, "no tensor %s: made by a run that trains other weights", name);
	else if (v->n_elements != spar_graph_elements(g, i))
		rc = spar_fail(err, SPAR_INPUT, "%s: %zu elements, not %zu", name, v->n_elements,
			       spar_graph_elements(g, i));
	else if ((rc = spar_tensor_view_f32(v, buffer, err)) == 0)
		rc = spar_graph_set(g, i, kinds[kind].what, buffer, err);
	free(name);
	return rc;
}

static int load_tensors(struct spar_graph *g, const char *path, struct spar_err *err)
{
	struct spar_safetensors *file;
	size_t n = spar_graph_count(g), longest = 0;
	int rc = spar_safetensors_open(&file, path, err);
	if (rc < 0)
		return rc;
	for (size_t i = 0; i < n; i++)
		if (spar_graph_elements(g, i) > longest)
			longest = spar_graph_elements(g, i);
	float *buffer = spar_malloc((longest + 1) * sizeof *buffer);
	if (spar_safetensors_count(file) != n * N_KINDS)
		rc = spar_fail(err, SPAR_INPUT, "%zu tensors, not %zu: made by a run that trains other weights",
			       spar_safetensors_count(file), n * N_KINDS);
	for (size_t i = 0; rc == 0 && i < n * N_KINDS; i++)
		rc = load_tensor(g, i / N_KINDS, i % N_KINDS, file, buffer, err);
	if (rc < 0)
		spar_fail_at(err, "%s", path);
	free(buffer);
	spar_safetensors_close(file);
	return rc;
}

int spar_train_state_load(struct spar_train_state *s, struct spar_graph *g, const char *dir, struct spar_err *err)
{
	char *json = spar_path_join(dir, "state.json"), *tensors = spar_path_join(dir, "state.safetensors");
	char *metrics = spar_path_join(dir, "metrics.jsonl");
	spar_str_clear(&s->metrics);
	int rc = load_counters(s, json, err);
	if (rc == 0)
		rc = load_tensors(g, tensors, err);
	if (rc == 0)
		rc = spar_file_read(metrics, METRICS_MAX, &s->metrics, err);
	free(metrics);
	free(tensors);
	free(json);
	return rc;
}
