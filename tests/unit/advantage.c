/* Advantages: groups that say nothing, figures without one member against their definition, whitening. The reference
 * vectors are in tests/golden/objectives.jsonl. */
#include "rl/advantage.h"
#include "unit.h"
#include <stdlib.h>

#define LEN(a) (sizeof(a) / sizeof *(a))

static struct spar_advantage_rules rules_of(int estimator)
{
	struct spar_advantage_rules r;
	spar_advantage_rules_init(&r, (enum spar_estimator)estimator, SPAR_CONVENTION_TRL);
	return r;
}

/* Exact zeros, whatever the value, without any epsilon. rae and reinforce_plus_plus compare with more than the group. */
static void equal_rewards(void)
{
	static const double values[] = {0, 1, 0.1, 0.35, -7e300, 5e-324, NAN};
	for (size_t v = 0; v < LEN(values); v++)
		for (size_t n = 1; n <= 16; n++) {
			double reward[16], adv[16];
			for (size_t i = 0; i < n; i++)
				reward[i] = values[v];
			for (int e = 0; spar_estimator_names[e]; e++) {
				struct spar_advantage_rules r = rules_of(e);
				r.epsilon = 0;
				CHECK(spar_advantage_group(&r, reward, n, adv));
				for (size_t i = 0; i < n; i++)
					CHECK(e == SPAR_EST_RAE || e == SPAR_EST_REINFORCE_PLUS_PLUS || adv[i] == 0);
			}
			CHECK(spar_reward_std(reward, n, false) == 0);
		}
	struct spar_advantage_rules r = rules_of(SPAR_EST_GRPO);
	double nearly[8] = {.35, .35, .35, .35, .35, .35, .35, 0}, sum = 0;
	CHECK(!spar_advantage_group(&r, nearly, 8, nearly)); /* in place */
	CHECK_NEAR(nearly[0], 0.353268, 1e-6);
	CHECK_NEAR(nearly[7], -2.472875, 1e-6);
	for (size_t i = 0; i < 8; i++)
		sum += nearly[i];
	CHECK_NEAR(sum, 0, 1e-6);
}

/* leave_one_out by its definition: the figures of the others, made from nothing but them. */
static void others(void)
{
	double reward[6], rest[5], adv[6];
	for (int pattern = 0; pattern < 729; pattern++) { /* each of six rewards 0, 0.1 or 0.7 */
		for (int i = 0, p = pattern; i < 6; i++, p /= 3)
			reward[i] = p % 3 == 0 ? 0 : p % 3 == 1 ? 0.1 : 0.7;
		struct spar_advantage_rules r = rules_of(SPAR_EST_LEAVE_ONE_OUT);
		if (spar_advantage_group(&r, reward, 6, adv))
			continue;
		for (int i = 0; i < 6; i++) {
			double mean = 0;
			for (int k = 0, n = 0; k < 6; k++)
				if (k != i)
					mean += (rest[n++] = reward[k]) / 5;
			double std = spar_reward_std(rest, 5, false);
			CHECK_NEAR(adv[i], (reward[i] - mean) / (std > 0 ? std + 1e-4 : 1), 1e-9);
		}
	}
}

static void whitening(void)
{
	struct spar_advantage_rules r = rules_of(SPAR_EST_REINFORCE_PLUS_PLUS);
	double adv[4] = {1, 0, 0.5, 0}; /* counted 1, 3, 2 and 0 times; the last without reward */
	struct spar_advantage_member m[] = {{1, 1, &adv[0]}, {0, 3, &adv[1]}, {0.5, 2, &adv[2]}, {NAN, 5, &adv[3]}};
	double std = sqrt((4 / 9.0 + 3 / 9.0 + 2 / 36.0) / 5) /* of 1 0 0 0 .5 .5: mean 1/3 */;
	CHECK_NEAR(spar_advantage_batch(&r, m, 4), std, 1e-12);
	CHECK_NEAR(adv[0], 2 / 3.0 / sqrt(std * std + 1e-8), 1e-12);
	CHECK_NEAR(adv[1], -1 / 3.0 / sqrt(std * std + 1e-8), 1e-12);
	CHECK(adv[3] == 0);

	double same[2] = {0.3, 0.3};
	struct spar_advantage_member e[] = {{0.3, 4, &same[0]}, {0.3, 9, &same[1]}};
	CHECK(spar_advantage_batch(&r, e, 2) == 0 && same[0] == 0 && same[1] == 0);
	CHECK(spar_advantage_batch(&r, e, 0) == 0);
}

int main(void)
{
	equal_rewards();
	others();
	whitening();
	return unit_done();
}
