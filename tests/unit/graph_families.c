/* Every family against golden logits: tests/golden/families.jsonl holds, for each, a config, ids and the logits that
 * transformers gives after the last of them (tests/golden/families.py made them). The weights are random, by Philox, so they
 * need no file; `graph_families --write DIR` writes them for that script. Engine and graph must both agree. */
#include "base/file.h"
#include "base/philox.h"
#include "model/engine.h"
#include "model/graph.h"
#include "record/record.h"
#include "small_model.h"
#include "unit.h"
#include <stdlib.h>
#include <unistd.h>

#define GOLDEN "tests/golden/families.jsonl"
enum { MAX_IDS = 64, MAX_VOCAB = 32 };

static struct spar_err err;

struct row {
	const char *name;
	int32_t *ids;
	float *logits; /* none yet: NULL */
	size_t n_ids, vocab;
};

/* The family's folder below `dir`. */
static char *make_folder(const char *dir, struct spar_record *rec, const char *name)
{
	char *folder = spar_path_join(dir, name);
	struct spar_rng rng;
	jv config = jv_dump_string(jv_object_get(jv_copy(rec->value), jv_string("config")), 0);
	spar_rng_init(&rng, 20, name, strlen(name));
	CHECK(spar_dir_make(folder, &err) == 0);
	small_model(folder, jv_string_value(config), true, &rng);
	jv_free(config);
	return folder;
}

/* The C kernels, or what tensors compute in their place. */
static void check_engine(const struct spar_model *m, const struct row *r, spar_device_new *new_device, float *logprobs)
{
	struct spar_engine *e;
	struct spar_engine_opt opt = {.dtype = SPAR_F32, .threads = 1, .new_device = new_device};
	float got[MAX_VOCAB];
	double worst = 0;
	CHECK(spar_engine_new(&e, m, &opt, &err) == 0);
	struct spar_seq *s = spar_seq_new(e);
	spar_seq_append(s, r->ids, r->n_ids);
	CHECK(spar_engine_run(e, &s, 1, got, &err) == 0);
	for (size_t i = 0; i < r->vocab; i++)
		worst = fmax(worst, fabs((double)got[i] - r->logits[i]));
	printf("%s: engine%s at most %.1e from the golden logits\n", r->name, new_device ? " of tensors" : "", worst);
	CHECK_NEAR(worst, 0, 1e-4);
	CHECK(spar_engine_logprobs(e, r->ids, r->n_ids, 0.7, logprobs, &err) == 0);
	spar_seq_free(s);
	spar_engine_free(e);
}

/* All gradients, one after the other. */
static float *gradients(const struct spar_graph *g, size_t *n)
{
	size_t at = 0;
	*n = 0;
	for (size_t i = 0; i < spar_graph_count(g); i++)
		*n += spar_graph_elements(g, i);
	float *all = spar_malloc(*n * sizeof *all);
	for (size_t i = 0; i < spar_graph_count(g); at += spar_graph_elements(g, i++))
		CHECK(spar_graph_get(g, i, SPAR_GRAPH_GRAD, all + at, &err) == 0);
	return all;
}

/* `want`: log-probabilities of ids[1..n) at temperature 0.7. Returns the gradients of their sum. */
static float *check_graph(const struct spar_model *m, const struct row *r, bool tensors, const float *want, size_t *n)
{
	struct spar_graph *g;
	struct spar_graph_opt opt = {.dtype = SPAR_F32, .threads = 1, .tensors = tensors};
	struct spar_pack_builder *b = spar_pack_begin();
	uint8_t mask[MAX_IDS];
	float got[MAX_IDS], ones[MAX_IDS];
	double worst = 0;
	memset(mask, 1, sizeof mask);
	spar_pack_add(b, r->ids, mask, r->n_ids);
	struct spar_pack *p = spar_pack_end(b, 1);
	for (size_t i = 0; i < p->n_targets; i++)
		ones[i] = 1;
	CHECK(spar_graph_new(&g, m, &opt, &err) == 0);
	CHECK(spar_graph_forward(g, p, 0.7, SPAR_GRAPH_TRAIN, got, NULL, NULL, &err) == 0);
	for (size_t i = 0; i < p->n_refs; i++)
		worst = fmax(worst, fabs((double)got[p->ref_target[i]] - want[i]));
	CHECK(p->n_refs == r->n_ids - 1);
	CHECK_NEAR(worst, 0, tensors ? 1e-4 : 0);
	CHECK(spar_graph_backward(g, ones, NULL, &err) == 0);
	float *all = gradients(g, n);
	spar_graph_free(g);
	spar_pack_free(p);
	return all;
}

/* The engine's forward, and what it leaves, give the gradients that tensors alone give. */
static void check_graphs(const struct spar_model *m, const struct row *r, const float *want)
{
	size_t n;
	double square = 0, difference = 0;
	float *a = check_graph(m, r, false, want, &n), *b = check_graph(m, r, true, want, &n);
	for (size_t i = 0; i < n; i++) {
		square += (double)b[i] * b[i];
		difference += ((double)a[i] - b[i]) * ((double)a[i] - b[i]);
	}
	printf("%s: gradients of both forwards %.1e apart\n", r->name, sqrt(difference / square));
	CHECK(square > 0 && difference < 4e-10 * square); /* 2e-5 of its length */
	free(a);
	free(b);
}

static void check_family(const char *dir, struct spar_record *rec, struct row *r)
{
	char *folder = make_folder(dir, rec, r->name);
	struct spar_model m;
	float logprobs[MAX_IDS];
	CHECK(spar_model_open(&m, folder, &err) == 0);
	if (m.dir && r->logits && r->n_ids <= MAX_IDS && r->vocab == m.config.vocab_size && r->vocab <= MAX_VOCAB) {
		check_engine(&m, r, spar_graph_device, logprobs);
		check_engine(&m, r, NULL, logprobs);
		check_graphs(&m, r, logprobs);
		spar_model_close(&m);
	} else {
		CHECK(!"the row fits its model");
		printf("%s: %s\n", r->name, err.msg);
	}
	free(folder);
}

static void take_line(const char *dir, const char *line, bool write_only)
{
	struct spar_record rec;
	struct row r = {0};
	size_t len;
	spar_record_init(&rec);
	CHECK(spar_record_parse(&rec, line, strcspn(line, "\n"), &err) == 0);
	CHECK(spar_get_str(rec.value, "", "family", &r.name, &len, &err) == 0);
	if (write_only) {
		free(make_folder(dir, &rec, r.name));
	} else {
		CHECK(spar_get_ids(rec.value, "", "ids", &r.ids, &r.n_ids, &err) == 0);
		CHECK(spar_get_floats(rec.value, "", "logits", &r.logits, &r.vocab, &err) == 0);
		check_family(dir, &rec, &r);
	}
	free(r.ids);
	free(r.logits);
	spar_record_release(&rec);
}

int main(int argc, char **argv)
{
	char dir[] = "/tmp/spar-families.XXXXXX";
	bool write_only = argc == 3 && !strcmp(argv[1], "--write");
	struct spar_str golden = SPAR_STR_INIT;
	if ((!write_only && !mkdtemp(dir)) || spar_file_read(GOLDEN, 1 << 20, &golden, &err) < 0)
		return 1;
	for (char *line = golden.data, *end; (end = strchr(line, '\n')); line = end + 1)
		take_line(write_only ? argv[2] : dir, line, write_only);
	spar_str_release(&golden);
	if (!write_only)
		spar_dir_remove(dir, NULL);
	return unit_done();
}
