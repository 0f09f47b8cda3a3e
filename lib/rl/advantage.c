#include "rl/advantage.h"
#include "base/err.h"
#include <math.h>
#include <stdlib.h>

const char *const spar_scale_names[] = {"group", "batch", "none", NULL};
const char *const spar_convention_names[] = {"trl", "verl", NULL};
const char *const spar_estimator_names[] = {
    "grpo", "rloo", "leave_one_out", "reinforce_plus_plus", "reinforce_plus_plus_baseline", "max_rl", "rae", NULL};

#define WHITEN_EPSILON 1e-8 /* of verl's masked_whiten, inside the root */

void spar_advantage_rules_init(struct spar_advantage_rules *r, enum spar_estimator estimator,
			       enum spar_convention convention)
{
	bool divides = estimator == SPAR_EST_GRPO || estimator == SPAR_EST_LEAVE_ONE_OUT;
	*r = (struct spar_advantage_rules){.estimator = estimator,
					   .scale = divides ? SPAR_SCALE_GROUP : SPAR_SCALE_NONE,
					   .epsilon = convention == SPAR_CONVENTION_VERL ? 1e-6 : 1e-4,
					   .lone = convention == SPAR_CONVENTION_VERL};
}

/* ---- figures of values that are not NaN ---- */

struct figures {
	double n, mean, squares;      /* squares: sum of (value - mean)^2 */
	double lowest[2], highest[2]; /* the two smallest values; the two largest, negated */
	bool equal;                   /* all one value, or fewer than two */
};

static void keep_lowest(double two[2], double v)
{
	if (v < two[0]) {
		two[1] = two[0];
		two[0] = v;
	} else if (v < two[1]) {
		two[1] = v;
	}
}

/* Each value counts `weight` times; NULL: once. */
static struct figures measure(const double *value, const double *weight, size_t n)
{
	struct figures f = {.lowest = {INFINITY, INFINITY}, .highest = {INFINITY, INFINITY}};
	double total = 0;
	for (size_t i = 0; i < n; i++)
		if (!isnan(value[i])) {
			double w = weight ? weight[i] : 1;
			f.n += w;
			total += w * value[i];
			keep_lowest(f.lowest, value[i]);
			keep_lowest(f.highest, -value[i]);
		}
	f.mean = total / f.n;
	f.equal = f.n < 2 || f.lowest[0] == -f.highest[0];
	for (size_t i = 0; !f.equal && i < n; i++)
		if (!isnan(value[i]))
			f.squares += (weight ? weight[i] : 1) * (value[i] - f.mean) * (value[i] - f.mean);
	return f;
}

static double std_of(const struct figures *f, bool population)
{
	return f->equal ? 0 : sqrt(f->squares / (population ? f->n : f->n - 1));
}

/* The figures without one value of them. */
static struct figures without(const struct figures *f, double value)
{
	struct figures o = {.n = f->n - 1};
	double d = value - f->mean;
	o.mean = (f->n * f->mean - value) / o.n;
	o.squares = fmax(f->squares - d * d * f->n / o.n, 0);
	o.equal = o.n < 2 || f->lowest[value == f->lowest[0]] == -f->highest[value == -f->highest[0]];
	return o;
}

double spar_reward_std(const double *reward, size_t n, bool population)
{
	struct figures f = measure(reward, NULL, n);
	return std_of(&f, population);
}

/* ---- a group ---- */

static double divisor(const struct spar_advantage_rules *r, const struct figures *f)
{
	return r->scale == SPAR_SCALE_GROUP ? std_of(f, r->population) + r->epsilon : 1;
}

static double estimate(const struct spar_advantage_rules *r, const struct figures *f, double reward)
{
	struct figures others;
	switch (r->estimator) {
	case SPAR_EST_REINFORCE_PLUS_PLUS:
	case SPAR_EST_RAE:
		return reward;
	case SPAR_EST_MAX_RL:
		return (reward - f->mean) / f->mean;
	case SPAR_EST_RLOO:
		others = without(f, reward);
		return (reward - others.mean) / divisor(r, f);
	case SPAR_EST_LEAVE_ONE_OUT:
		others = without(f, reward);
		return (reward - others.mean) / (others.equal ? 1 : divisor(r, &others));
	default:
		return (reward - f->mean) / divisor(r, f);
	}
}

bool spar_advantage_group(const struct spar_advantage_rules *r, const double *reward, size_t n, double *adv)
{
	struct figures f = measure(reward, NULL, n);
	bool raw = r->estimator == SPAR_EST_REINFORCE_PLUS_PLUS || r->estimator == SPAR_EST_RAE;
	bool lone = r->lone && n == 1;
	for (size_t i = 0; i < n; i++) {
		if (isnan(reward[i]))
			adv[i] = 0;
		else if (lone)
			adv[i] = reward[i] / (r->scale == SPAR_SCALE_GROUP ? 1 + r->epsilon : 1);
		else
			adv[i] = f.equal && !raw ? 0 : estimate(r, &f, reward[i]);
	}
	return f.equal;
}

/* ---- a batch ---- */

static bool whitens_tokens(const struct spar_advantage_rules *r)
{
	return r->estimator == SPAR_EST_REINFORCE_PLUS_PLUS || r->estimator == SPAR_EST_REINFORCE_PLUS_PLUS_BASELINE;
}

bool spar_advantage_spans_batch(const struct spar_advantage_rules *r)
{
	return r->scale == SPAR_SCALE_BATCH || r->whiten_batch || whitens_tokens(r);
}

static int by_numbers(const void *a, const void *b)
{
	const struct spar_advantage_member *x = a, *y = b;
	const double *p[] = {&x->reward, x->adv, &x->tokens}, *q[] = {&y->reward, y->adv, &y->tokens};
	for (int i = 0; i < 3; i++)
		if (*p[i] != *q[i])
			return *p[i] > *q[i] ? 1 : -1;
	return 0;
}

/* Those with a reward come first, in an order that does not depend on the one they came in. */
static size_t sort_counted(struct spar_advantage_member *members, size_t n)
{
	size_t counted = 0;
	for (size_t i = 0; i < n; i++)
		if (!isnan(members[i].reward))
			members[counted++] = members[i];
	qsort(members, counted, sizeof *members, by_numbers);
	return counted;
}

double spar_advantage_batch(const struct spar_advantage_rules *r, struct spar_advantage_member *members, size_t n)
{
	bool tokens = whitens_tokens(r), whiten = tokens || r->whiten_batch;
	double *value = spar_malloc((n + 1) * sizeof *value), *weight = spar_malloc((n + 1) * sizeof *weight);
	n = sort_counted(members, n);
	for (size_t i = 0; i < n; i++) {
		value[i] = whiten ? *members[i].adv : members[i].reward;
		weight[i] = tokens ? members[i].tokens : 1;
	}
	struct figures f = measure(value, weight, n);
	double std = std_of(&f, r->population), by = tokens ? sqrt(std * std + WHITEN_EPSILON) : std + r->epsilon;
	for (size_t i = 0; i < n; i++)
		*members[i].adv = f.equal ? 0 : (*members[i].adv - (whiten ? f.mean : 0)) / by;
	free(value);
	free(weight);
	return std;
}
