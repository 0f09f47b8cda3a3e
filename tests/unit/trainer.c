/* The gradient of a step over a small model: it does not depend on sharing, order or micro-batches, and it is the slope of
 * the loss. */
#include "base/file.h"
#include "base/philox.h"
#include "rl/step.h"
#include "small_model.h"
#include "unit.h"
#include <stdlib.h>
#include <unistd.h>

enum { VOCAB = 24, EPISODES = 6, TURNS = 2, PROMPT = 5, COMPLETION = 3 };

static const char config_json[] =
    "{\"model_type\":\"llama\",\"vocab_size\":24,\"hidden_size\":16,\"intermediate_size\":24,\"num_hidden_layers\":2,"
    "\"num_attention_heads\":4,\"num_key_value_heads\":2,\"hidden_act\":\"silu\",\"max_position_embeddings\":64,"
    "\"rms_norm_eps\":1e-5,\"rope_theta\":10000.0,\"tie_word_embeddings\":true,\"eos_token_id\":2}";

static struct spar_rng rng;
static struct spar_err err;

static int32_t any_id(uint32_t a, uint32_t b)
{
	return (int32_t)(spar_rng_uniform(&rng, a, b, 0, 0) * VOCAB);
}

/* Episode e: turns that extend one another; the prompt is that of its group of three. */
static struct spar_episode *make_episode(uint32_t e)
{
	struct spar_episode *ep = spar_calloc(1, sizeof *ep);
	int32_t ids[TURNS * (PROMPT + COMPLETION)];
	size_t n = 0;
	ep->name = spar_strdup("episode");
	ep->paths = spar_calloc(TURNS, sizeof *ep->paths);
	ep->n_paths = TURNS;
	ep->sampled = spar_malloc(TURNS * (COMPLETION + 1) * sizeof *ep->sampled);
	ep->advantage = e % 3 - 1.0;
	ep->version = 0;
	for (uint32_t turn = 0; turn < TURNS; turn++) {
		for (uint32_t i = 0; i < PROMPT; i++)
			ids[n++] = any_id(10 + e / 3, turn * 100 + i);
		size_t begin = n, len = COMPLETION - (e + turn) % 2;
		for (uint32_t i = 0; i < len; i++)
			ids[n++] = any_id(20 + e, turn * 100 + i);
		struct spar_token_path *p = &ep->paths[turn];
		*p = (struct spar_token_path){spar_malloc(n * sizeof *p->ids), spar_calloc(n, 1), n};
		memcpy(p->ids, ids, n * sizeof *ids);
		memset(p->mask + begin, 1, n - begin);
		for (size_t i = begin; i < n; i++)
			ep->sampled[ep->n_loss++] = -3;
	}
	return ep;
}

static size_t n_weights(const struct spar_graph *g)
{
	size_t n = 0;
	for (size_t i = 0; i < spar_graph_count(g); i++)
		n += spar_graph_elements(g, i);
	return n;
}

static void copy(struct spar_graph *g, enum spar_graph_what what, float *out)
{
	for (size_t i = 0; i < spar_graph_count(g); out += spar_graph_elements(g, i++))
		CHECK(spar_graph_get(g, i, what, out, &err) == 0);
}

static void put(struct spar_graph *g, const float *in)
{
	for (size_t i = 0; i < spar_graph_count(g); in += spar_graph_elements(g, i++))
		CHECK(spar_graph_set(g, i, SPAR_GRAPH_WEIGHT, in, &err) == 0);
}

/* Every loss type, and what can be added to it. */
static const struct setting {
	int loss, importance, correction, kl;
	double entropy_coef, top_entropy, off_policy;
	bool constants; /* takes something that moves with the weights for a constant */
} settings[] = {
    {.loss = SPAR_LOSS_SFT},
    {.loss = SPAR_LOSS_DFT, .constants = true},
    {.loss = SPAR_LOSS_GRPO, .importance = SPAR_IS_SEQUENCE},
    {.loss = SPAR_LOSS_BNPO, .correction = SPAR_CORRECT_SEQUENCE_TRUNCATE},
    {.loss = SPAR_LOSS_DR_GRPO, .correction = SPAR_CORRECT_TOKEN_MASK},
    {.loss = SPAR_LOSS_DAPO, .entropy_coef = 0.5},
    {.loss = SPAR_LOSS_DAPO, .entropy_coef = 0.5, .top_entropy = 0.5, .constants = true},
    {.loss = SPAR_LOSS_CISPO, .off_policy = 0.01, .constants = true},
    {.loss = SPAR_LOSS_SAPO},
    {.loss = SPAR_LOSS_LUSPO, .importance = SPAR_IS_SEQUENCE},
    {.loss = SPAR_LOSS_VESPO, .constants = true},
};
#define N_SETTINGS (sizeof settings / sizeof *settings)

static struct spar_objective objective(const struct setting *s)
{
	struct spar_objective o;
	spar_objective_init(&o);
	o.loss = s->loss;
	o.importance = s->importance;
	o.correction = s->correction;
	o.entropy_coef = s->entropy_coef;
	o.top_entropy_quantile = s->top_entropy > 0 ? s->top_entropy : 1;
	o.off_policy_mask = s->off_policy;
	o.max_completion_length = 8;
	return o;
}

/* Loss and gradient of a second pass, when the weights have moved a little since the first. */
static double gradient(struct spar_graph *g, struct spar_episode **e, const struct spar_objective *o,
		       const struct spar_step_rules *rules, float *grad)
{
	size_t n = n_weights(g);
	float *w = spar_malloc(n * sizeof *w), *moved = spar_malloc(n * sizeof *moved);
	struct spar_step_sums sums;
	struct spar_step *s = spar_step_new(e, EPISODES, rules);
	copy(g, SPAR_GRAPH_WEIGHT, w);
	for (size_t i = 0; i < n; i++)
		moved[i] = w[i] * 1.02f;
	CHECK(spar_step_gradient(s, g, NULL, o, 0.8, &sums, &err) == 0);
	spar_graph_zero(g);
	put(g, moved);
	CHECK(spar_step_gradient(s, g, NULL, o, 0.8, &sums, &err) == 0);
	copy(g, SPAR_GRAPH_GRAD, grad);
	spar_graph_zero(g);
	put(g, w);
	spar_step_free(s);
	free(w);
	free(moved);
	return sums.objective.loss;
}

static double distance(const float *a, const float *b, size_t n)
{
	double diff = 0, size = 0;
	for (size_t i = 0; i < n; i++) {
		diff += ((double)a[i] - (double)b[i]) * ((double)a[i] - (double)b[i]);
		size += (double)a[i] * (double)a[i];
	}
	CHECK(size > 0);
	return sqrt(diff / size);
}

/* However the step is laid out, loss and gradient are the same. */
static void layouts(struct spar_graph *g, struct spar_episode **e, const struct spar_objective *o)
{
	static const size_t order[EPISODES] = {4, 0, 5, 2, 1, 3};
	static const struct spar_step_rules whole = {.share = true, .version = 1},
					    variants[] = {
						{.share = false, .version = 1},
						{.share = true, .version = 1, .micro_tokens = 1},
						{.share = true, .version = 1, .micro_sequences = 2},
					    };
	size_t n = n_weights(g);
	float *want = spar_malloc(n * sizeof *want), *got = spar_malloc(n * sizeof *got);
	struct spar_episode *shuffled[EPISODES];
	double loss = gradient(g, e, o, &whole, want);
	for (size_t i = 0; i < sizeof variants / sizeof *variants; i++) {
		CHECK_NEAR(gradient(g, e, o, &variants[i], got), loss, 1e-6);
		CHECK_NEAR(distance(want, got, n), 0, 1e-5);
	}
	for (size_t i = 0; i < EPISODES; i++)
		shuffled[i] = e[order[i]];
	CHECK_NEAR(gradient(g, shuffled, o, &whole, got), loss, 1e-6);
	CHECK_NEAR(distance(want, got, n), 0, 1e-5);
	free(want);
	free(got);
}

static void sharing(struct spar_episode **e)
{
	struct spar_step *shared = spar_step_new(e, EPISODES, &(struct spar_step_rules){.share = true}),
			 *apart = spar_step_new(e, EPISODES, &(struct spar_step_rules){.share = false});
	struct spar_step_counts a = spar_step_counts(shared), b = spar_step_counts(apart);
	CHECK(a.loss_tokens == b.loss_tokens && a.tokens == b.tokens && a.sequences == EPISODES);
	CHECK(b.distinct == b.tokens && a.distinct < b.distinct);
	spar_step_free(shared);
	spar_step_free(apart);
}

/* Move all weights by h along the direction and take the loss, with the old log-probabilities of where we were. */
static double loss_at(struct spar_graph *g, struct spar_step *s, const struct spar_objective *o, const float *w,
		      const float *direction, double h, size_t n)
{
	struct spar_step_sums sums;
	float *moved = spar_malloc(n * sizeof *moved);
	for (size_t i = 0; i < n; i++)
		moved[i] = w[i] + (float)h * direction[i];
	put(g, moved);
	CHECK(spar_step_gradient(s, g, NULL, o, 0.8, &sums, &err) == 0);
	spar_graph_zero(g);
	put(g, w);
	free(moved);
	return sums.objective.loss;
}

/* The gradient is the slope of the loss along itself. */
static void slope(struct spar_graph *g, struct spar_episode **e, const struct spar_objective *o)
{
	struct spar_step_rules rules = {.share = true, .version = 1, .micro_tokens = 12};
	struct spar_step_sums sums;
	struct spar_step *s = spar_step_new(e, EPISODES, &rules);
	size_t n = n_weights(g);
	float *w = spar_malloc(n * sizeof *w), *grad = spar_malloc(n * sizeof *grad);
	double norm = 0, h = 3e-3;
	copy(g, SPAR_GRAPH_WEIGHT, w);
	CHECK(spar_step_gradient(s, g, NULL, o, 0.8, &sums, &err) == 0); /* keeps the old ones */
	copy(g, SPAR_GRAPH_GRAD, grad);
	spar_graph_zero(g);
	for (size_t i = 0; i < n; i++)
		norm += (double)grad[i] * (double)grad[i];
	norm = sqrt(norm);
	for (size_t i = 0; i < n; i++)
		grad[i] /= (float)norm;
	double up = loss_at(g, s, o, w, grad, h, n), down = loss_at(g, s, o, w, grad, -h, n);
	CHECK_NEAR((up - down) / (2 * h) / norm, 1, 5e-3);
	spar_step_free(s);
	free(grad);
	free(w);
}

/* At a ratio of 1 the constants of cispo and vespo are 1 too: their gradient is that of the plain surrogate. */
static void at_first_pass(struct spar_graph *g, struct spar_episode **e)
{
	static const int losses[] = {SPAR_LOSS_DAPO, SPAR_LOSS_CISPO, SPAR_LOSS_VESPO};
	struct spar_step_rules rules = {.share = true, .version = -1};
	size_t n = n_weights(g);
	float *grad[3];
	for (size_t k = 0; k < 3; k++) {
		struct spar_objective o = objective(&(struct setting){.loss = losses[k]});
		struct spar_step_sums sums;
		struct spar_step *s = spar_step_new(e, EPISODES, &rules);
		grad[k] = spar_malloc(n * sizeof **grad);
		CHECK(spar_step_gradient(s, g, NULL, &o, 0.8, &sums, &err) == 0);
		copy(g, SPAR_GRAPH_GRAD, grad[k]);
		spar_graph_zero(g);
		spar_step_free(s);
		CHECK_NEAR(distance(grad[0], grad[k], n), 0, 1e-6);
	}
	for (size_t k = 0; k < 3; k++)
		free(grad[k]);
}

int main(void)
{
	char dir[] = "/tmp/spar-trainer.XXXXXX";
	struct spar_model model = {0};
	struct spar_graph *g = NULL;
	struct spar_graph_opt opt = {.device = "cpu", .dtype = SPAR_F32, .threads = 1};
	struct spar_episode *e[EPISODES];
	spar_rng_init(&rng, 3, "trainer", 7);
	if (!mkdtemp(dir))
		return 1;
	small_model(dir, config_json, false, &rng);
	CHECK(spar_model_open(&model, dir, &err) == 0);
	CHECK(spar_graph_new(&g, &model, &opt, &err) == 0);
	for (uint32_t i = 0; i < EPISODES; i++)
		e[i] = make_episode(i);
	if (g) {
		for (size_t k = 0; k < N_SETTINGS; k++) {
			struct spar_objective o = objective(&settings[k]);
			layouts(g, e, &o);
			if (!settings[k].constants)
				slope(g, e, &o);
		}
		sharing(e);
		at_first_pass(g, e);
	} else {
		printf("%s\n", err.msg);
	}
	for (size_t i = 0; i < EPISODES; i++)
		spar_episode_free(e[i]);
	spar_graph_free(g);
	spar_model_close(&model);
	spar_dir_remove(dir, NULL);
	return unit_done();
}
