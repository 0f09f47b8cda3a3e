/* spar loss - an objective and its gradient from recorded log-probabilities: no model needed. */
#include "base/opt.h"
#include "record/record.h"
#include "rl/metric.h"
#include "rl/sequence.h"
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static const struct spar_usage usage = {"loss", "[options] [FILE] <sequences",
					"Compute an objective in float64. Each sequence record holds the "
					"log-probabilities of one completion; those up to a "
					"batch record, or the end, are one optimizer step. They come out with their "
					"share of the loss and its gradient, and "
					"then a loss record with the figures of the step."};

struct item {
	struct spar_record rec;
	struct spar_sequence_record data;
};

struct work {
	struct spar_filter f;
	struct spar_objective objective;
	bool mask_truncated, gradient;
	struct item *items; /* of the step */
	size_t n, cap;
};

static int keep(struct work *w, struct spar_record *rec)
{
	if (w->n == w->cap) {
		w->cap = w->cap ? 2 * w->cap : 64;
		w->items = spar_realloc(w->items, w->cap * sizeof *w->items);
	}
	struct item *item = &w->items[w->n];
	if (spar_sequence_read(&item->data, &w->objective, rec->value, &w->f.err) < 0)
		return spar_filter_reject(&w->f, rec);
	if (w->mask_truncated && item->data.truncated)
		item->data.seq.n = 0;
	item->rec = *rec;
	spar_record_init(rec);
	w->n++;
	return 0;
}

static void drop(struct work *w)
{
	for (size_t i = 0; i < w->n; i++) {
		spar_record_release(&w->items[i].rec);
		spar_sequence_release(&w->items[i].data);
	}
	w->n = 0;
}

/* The objective with the divisors and the threshold of this step. */
static struct spar_objective settle(const struct work *w)
{
	struct spar_objective o = w->objective;
	size_t n_sequences = 0, n_tokens = 0;
	double *entropies = NULL;
	for (size_t i = 0; i < w->n; i++) {
		const struct spar_sequence *s = &w->items[i].data.seq;
		n_sequences += s->n > 0;
		if (spar_objective_masks_entropy(&o) && s->n) {
			entropies = spar_realloc(entropies, (n_tokens + s->n) * sizeof *entropies);
			memcpy(entropies + n_tokens, s->entropy, s->n * sizeof *entropies);
		}
		n_tokens += s->n;
	}
	spar_objective_settle(&o, n_sequences, n_tokens, entropies);
	free(entropies);
	return o;
}

static void set_array(struct item *item, const char *key, const double *values)
{
	struct spar_str json = SPAR_STR_INIT;
	spar_sequence_spread(&item->data, values, &json);
	spar_record_set(&item->rec, key, json.data, json.len);
	spar_str_release(&json);
}

/* One sequence: its share is added to the sums and the record is written. */
static int emit(struct work *w, const struct spar_objective *o, struct item *item, struct spar_objective_sums *sums)
{
	size_t n = item->data.seq.n;
	double *grad = spar_malloc((n + 1) * sizeof *grad);
	double *entropy_grad = spar_malloc((n + 1) * sizeof *entropy_grad);
	spar_objective_eval(o, &item->data.seq, grad, entropy_grad, sums); /* numbers of a record are finite */
	spar_record_set_double(&item->rec, "loss", n ? sums->last : 0);
	set_array(item, "gradient", grad);
	if (o->entropy_coef > 0)
		set_array(item, "entropy_gradient", entropy_grad);
	free(grad);
	free(entropy_grad);
	return w->gradient ? spar_filter_put(&w->f, &item->rec) : 0;
}

static int end_step(struct work *w)
{
	struct spar_objective o = settle(w);
	struct spar_objective_sums sums = {0};
	struct spar_str line = SPAR_STR_INIT;
	int rc = 0;
	for (size_t i = 0; rc == 0 && i < w->n; i++)
		rc = emit(w, &o, &w->items[i], &sums);
	if (rc == 0 && w->n) {
		spar_str_addf(&line, "{\"type\":\"loss\",\"loss_type\":\"%s\"", spar_loss_names[o.loss]);
		spar_metric_int(&line, "sequences", (uint64_t)sums.sequences);
		spar_metric_int(&line, "loss_tokens", (uint64_t)sums.tokens);
		if (sums.tokens > 0)
			spar_metric_sums(&line, &sums, &o);
		else
			spar_str_adds(&line, ",\"skipped\":true");
		spar_str_addc(&line, '}');
		rc = spar_filter_put_line(&w->f, line.data, line.len);
	}
	spar_str_release(&line);
	drop(w);
	return rc;
}

static int take(struct work *w, struct spar_record *rec)
{
	int rc = 0;
	if (!*rec->type || spar_record_is(rec, "sequence"))
		return keep(w, rec);
	if (spar_record_is(rec, "batch"))
		rc = end_step(w);
	return rc < 0 ? rc : spar_filter_put(&w->f, rec);
}

int main(int argc, char **argv)
{
	struct work w = {.f = SPAR_FILTER_INIT("loss"), .gradient = true};
	struct spar_record *rec;
	spar_objective_init(&w.objective);
	const struct spar_opt table[] = {
	    SPAR_OBJECTIVE_OPTIONS(w.objective),
	    SPAR_OPT_FLAG("mask-truncated-completions", 0, &w.mask_truncated,
			  "no loss on sequences whose finish_reason is length"),
	    SPAR_OPT_FLAG("gradient", 0, &w.gradient, "write the sequences, not only the step (on; --no-gradient)"),
	    SPAR_FILTER_OPTIONS(w.f), SPAR_OPT_END};
	int rest = spar_opt_parse(&usage, table, argc, argv), rc;
	if (rest < 0)
		return -1 - rest;
	if (rest + 1 < argc)
		return spar_usage_error(&usage, "one input file at most, got '%s' too", argv[rest + 1]);
	rc = spar_filter_open(&w.f, argv[rest]);
	while (rc >= 0 && (rc = spar_filter_next(&w.f, &rec)) > 0)
		rc = take(&w, rec);
	if (rc == 0)
		rc = end_step(&w);
	drop(&w);
	free(w.items);
	return spar_filter_finish(&w.f, rc);
}
