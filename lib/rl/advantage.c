#include "rl/advantage.h"

#include <math.h>

const char *const spar_scale_names[] = {"group", "batch", "none", NULL};
const char *const spar_baseline_names[] = {"mean", "rloo", NULL};

/* Sum and number of the rewards that count; *equal if they are all one value. */
static double sum(const double *reward, size_t n, size_t *counted, bool *equal)
{
	double total = 0, min = INFINITY, max = -INFINITY;
	*counted = 0;
	for (size_t i = 0; i < n; i++) {
		if (isnan(reward[i]))
			continue;
		++*counted;
		total += reward[i];
		min = fmin(min, reward[i]);
		max = fmax(max, reward[i]);
	}
	*equal = *counted < 2 || min == max;
	return total;
}

double spar_reward_std(const double *reward, size_t n, bool population)
{
	size_t counted;
	bool equal;
	double mean = sum(reward, n, &counted, &equal) / (double)counted, squares = 0;
	if (equal)
		return 0;
	for (size_t i = 0; i < n; i++)
		if (!isnan(reward[i]))
			squares += (reward[i] - mean) * (reward[i] - mean);
	return sqrt(squares / (double)(population ? counted : counted - 1));
}

bool spar_advantage(const double *reward, size_t n, enum spar_scale scale, enum spar_baseline baseline,
		    double batch_std, bool population, double eps, double *adv)
{
	size_t counted;
	bool equal;
	double total = sum(reward, n, &counted, &equal), mean = total / (double)counted, divisor = 1;
	if (scale == SPAR_SCALE_GROUP)
		divisor = spar_reward_std(reward, n, population) + eps;
	else if (scale == SPAR_SCALE_BATCH)
		divisor = batch_std + eps;
	for (size_t i = 0; i < n; i++) {
		if (equal || isnan(reward[i]))
			adv[i] = 0;
		else if (baseline == SPAR_BASELINE_RLOO)
			adv[i] = (reward[i] - (total - reward[i]) / (double)(counted - 1)) / divisor;
		else
			adv[i] = (reward[i] - mean) / divisor;
	}
	return equal;
}
