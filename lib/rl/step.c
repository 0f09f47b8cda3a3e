#include "rl/step.h"
#include <stdlib.h>
#include <string.h>

struct micro {
	struct spar_pack *pack;
	size_t first, n; /* episodes, in the step's order */
	size_t at;       /* first of its loss tokens in the step's arrays */
};

struct spar_step {
	struct spar_step_rules rules;
	const struct spar_episode **episodes; /* those that carry loss */
	size_t n;
	struct micro *micros;
	size_t n_micros;
	struct spar_step_counts counts;
	/* (loss_tokens) */
	double *logp;
	double *old;       /* NULL until a first pass is over */
	double *reference; /* NULL until asked for */
	double *entropy;   /* of the current policy */
};

/* ---- layout ---- */

static struct micro *open_micro(struct spar_step *s, size_t first)
{
	s->micros = spar_realloc(s->micros, (s->n_micros + 1) * sizeof *s->micros);
	struct micro *m = &s->micros[s->n_micros++];
	*m = (struct micro){.first = first, .at = s->counts.loss_tokens};
	return m;
}

static void close_micro(struct spar_step *s, struct spar_pack_builder *b)
{
	struct micro *m = &s->micros[s->n_micros - 1];
	m->pack = spar_pack_end(b, s->rules.share);
	s->counts.tokens += m->pack->n_tokens_in;
	s->counts.distinct += m->pack->n_nodes;
	s->counts.loss_tokens += m->pack->n_refs;
}

static bool full(const struct spar_step *s, const struct spar_pack_builder *b, size_t n)
{
	return (s->rules.micro_tokens && spar_pack_nodes(b) >= s->rules.micro_tokens) ||
	       (s->rules.micro_sequences && n >= s->rules.micro_sequences);
}

static void lay_out(struct spar_step *s)
{
	struct spar_pack_builder *b = NULL;
	struct micro *m = NULL;
	for (size_t i = 0; i < s->n; i++) {
		if (!b) {
			b = spar_pack_begin();
			m = open_micro(s, i);
		}
		for (size_t k = 0; k < s->episodes[i]->n_paths; k++) {
			const struct spar_token_path *p = &s->episodes[i]->paths[k];
			spar_pack_add(b, p->ids, p->mask, p->n);
		}
		m->n++;
		if (i + 1 == s->n || full(s, b, m->n)) {
			close_micro(s, b);
			b = NULL;
		}
	}
}

struct spar_step *spar_step_new(struct spar_episode *const *episodes, size_t n, const struct spar_step_rules *rules)
{
	struct spar_step *s = spar_calloc(1, sizeof *s);
	s->rules = *rules;
	s->episodes = spar_malloc((n + 1) * sizeof *s->episodes);
	for (size_t i = 0; i < n; i++)
		if (episodes[i]->n_loss && !(rules->mask_truncated && episodes[i]->truncated))
			s->episodes[s->n++] = episodes[i];
	lay_out(s);
	s->counts.sequences = s->n;
	s->counts.micro_batches = s->n_micros;
	s->logp = spar_malloc((s->counts.loss_tokens + 1) * sizeof *s->logp);
	s->entropy = spar_malloc((s->counts.loss_tokens + 1) * sizeof *s->entropy);
	return s;
}

void spar_step_free(struct spar_step *s)
{
	if (!s)
		return;
	for (size_t i = 0; i < s->n_micros; i++)
		spar_pack_free(s->micros[i].pack);
	free(s->micros);
	free(s->episodes);
	free(s->logp);
	free(s->old);
	free(s->reference);
	free(s->entropy);
	free(s);
}

struct spar_step_counts spar_step_counts(const struct spar_step *s)
{
	return s->counts;
}

/* ---- gradient ---- */

/* What a pass over one micro-batch needs, sized for the largest. */
struct buffers {
	float *logprobs, *entropies, *dlogprobs, *dentropies; /* (n_targets) */
	float *best;                                          /* (n_targets) NULL: not asked for */
	double *grad, *entropy_grad;                          /* (loss tokens of an episode) */
	double *by_target, *entropy_by_target;                /* (n_targets) sums of these */
};

static struct buffers buffers_new(const struct spar_step *s)
{
	size_t targets = 1, longest = 1;
	for (size_t i = 0; i < s->n_micros; i++)
		if (s->micros[i].pack->n_targets > targets)
			targets = s->micros[i].pack->n_targets;
	for (size_t i = 0; i < s->n; i++)
		if (s->episodes[i]->n_loss > longest)
			longest = s->episodes[i]->n_loss;
	return (struct buffers){.logprobs = spar_malloc(targets * sizeof(float)),
				.entropies = spar_malloc(targets * sizeof(float)),
				.best = s->rules.accuracy ? spar_malloc(targets * sizeof(float)) : NULL,
				.dlogprobs = spar_malloc(targets * sizeof(float)),
				.dentropies = spar_malloc(targets * sizeof(float)),
				.grad = spar_malloc(longest * sizeof(double)),
				.entropy_grad = spar_malloc(longest * sizeof(double)),
				.by_target = spar_malloc(targets * sizeof(double)),
				.entropy_by_target = spar_malloc(targets * sizeof(double))};
}

static void buffers_release(struct buffers *b)
{
	free(b->logprobs);
	free(b->entropies);
	free(b->best);
	free(b->dlogprobs);
	free(b->dentropies);
	free(b->grad);
	free(b->entropy_grad);
	free(b->by_target);
	free(b->entropy_by_target);
}

/* Targets to loss tokens. */
static void spread(const struct micro *m, const float *by_target, double *out)
{
	for (size_t i = 0; i < m->pack->n_refs; i++)
		out[m->at + i] = (double)by_target[m->pack->ref_target[i]];
}

static double count_best(const struct micro *m, const struct buffers *b)
{
	double n = 0;
	for (size_t i = 0; b->best && i < m->pack->n_refs; i++) {
		size_t target = m->pack->ref_target[i];
		n += b->logprobs[target] >= b->best[target];
	}
	return n;
}

static bool is_off_policy(const struct spar_step *s, const struct spar_episode *e)
{
	return e->kept || (e->version >= 0 && e->version < s->rules.version);
}

static void narrow(const double *in, float *out, size_t n)
{
	for (size_t i = 0; i < n; i++)
		out[i] = (float)in[i];
}

/* Loss and gradient of the micro-batch's episodes; equal targets of several loss tokens add up. */
static int objective_of(struct spar_step *s, const struct micro *m, const struct spar_objective *o, struct buffers *b,
			struct spar_step_sums *sums, struct spar_err *err)
{
	size_t at = m->at;
	memset(b->by_target, 0, m->pack->n_targets * sizeof *b->by_target);
	memset(b->entropy_by_target, 0, m->pack->n_targets * sizeof *b->entropy_by_target);
	for (size_t i = m->first; i < m->first + m->n; at += s->episodes[i++]->n_loss) {
		const struct spar_episode *e = s->episodes[i];
		struct spar_objective own = *o;
		struct spar_sequence q = {.n = e->n_loss,
					  .logp = s->logp + at,
					  .old = s->old ? s->old + at : NULL,
					  .sampled = e->sampled,
					  .kept = e->kept,
					  .ref = s->reference ? s->reference + at : NULL,
					  .entropy = s->entropy + at,
					  .advantage = e->advantage};
		if (!is_off_policy(s, e))
			own.is_max = 0;
		if (spar_objective_eval(&own, &q, b->grad, b->entropy_grad, &sums->objective) < 0)
			return spar_fail(err, SPAR_FAIL, "%s: log-probabilities are not finite", e->name);
		for (size_t k = 0; k < e->n_loss; k++) {
			size_t target = m->pack->ref_target[at - m->at + k];
			b->by_target[target] += b->grad[k];
			b->entropy_by_target[target] += b->entropy_grad[k];
		}
	}
	narrow(b->by_target, b->dlogprobs, m->pack->n_targets);
	narrow(b->entropy_by_target, b->dentropies, m->pack->n_targets);
	return 0;
}

static int ask_reference(struct spar_step *s, const struct micro *m, struct spar_graph *g, struct spar_graph *reference,
			 double temperature, struct buffers *b, struct spar_err *err)
{
	int rc =
	    reference
		? spar_graph_forward(reference, m->pack, temperature, SPAR_GRAPH_INFER, b->logprobs, NULL, NULL, err)
		: spar_graph_forward(g, m->pack, temperature, SPAR_GRAPH_REFERENCE, b->logprobs, NULL, NULL, err);
	if (rc == 0)
		spread(m, b->logprobs, s->reference);
	return rc;
}

/* All entropies, for the threshold of the top-entropy mask. */
static int measure_entropies(struct spar_step *s, struct spar_graph *g, double temperature, struct buffers *b,
			     struct spar_err *err)
{
	int rc = 0;
	for (size_t i = 0; rc == 0 && i < s->n_micros; i++) {
		rc = spar_graph_forward(g, s->micros[i].pack, temperature, SPAR_GRAPH_INFER, b->logprobs, b->entropies,
					NULL, err);
		if (rc == 0)
			spread(&s->micros[i], b->entropies, s->entropy);
	}
	return rc;
}

int spar_step_gradient(struct spar_step *s, struct spar_graph *g, struct spar_graph *reference,
		       const struct spar_objective *o, double temperature, struct spar_step_sums *sums,
		       struct spar_err *err)
{
	struct spar_objective whole = *o;
	struct buffers b = buffers_new(s);
	size_t bytes = (s->counts.loss_tokens + 1) * sizeof(double);
	bool need_reference = o->beta > 0 && !s->reference, masked = spar_objective_masks_entropy(o);
	int rc = masked ? measure_entropies(s, g, temperature, &b, err) : 0;
	*sums = (struct spar_step_sums){0};
	if (rc == 0)
		spar_objective_settle(&whole, s->counts.sequences, s->counts.loss_tokens, s->entropy);
	if (need_reference)
		s->reference = spar_malloc(bytes);
	for (size_t i = 0; rc == 0 && i < s->n_micros; i++) {
		const struct micro *m = &s->micros[i];
		if (need_reference)
			rc = ask_reference(s, m, g, reference, temperature, &b, err);
		if (rc == 0)
			rc = spar_graph_forward(g, m->pack, temperature, SPAR_GRAPH_TRAIN, b.logprobs, b.entropies,
						b.best, err);
		if (rc < 0)
			break;
		spread(m, b.logprobs, s->logp);
		sums->n_best += count_best(m, &b);
		if (!masked)
			spread(m, b.entropies, s->entropy);
		rc = objective_of(s, m, &whole, &b, sums, err);
		if (rc == 0)
			rc = spar_graph_backward(g, b.dlogprobs, o->entropy_coef > 0 ? b.dentropies : NULL, err);
	}
	if (rc == 0 && !s->old) {
		s->old = spar_malloc(bytes);
		memcpy(s->old, s->logp, s->counts.loss_tokens * sizeof *s->old);
	}
	if (rc < 0)
		spar_graph_zero(g);
	buffers_release(&b);
	return rc;
}
