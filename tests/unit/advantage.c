/* Advantages: the reference vectors of TRL, RLOO, and groups that say nothing. */
#include "rl/advantage.h"
#include "unit.h"

#define LEN(a) (sizeof(a) / sizeof *(a))
#define EPS 1e-4

static void check(const double *reward, size_t n, size_t group_size, enum spar_scale scale, const double *want)
{
	double adv[16], std = spar_reward_std(reward, n, false);
	for (size_t i = 0; i < n; i += group_size)
		spar_advantage(reward + i, group_size, scale, SPAR_BASELINE_MEAN, std, false, EPS, adv + i);
	for (size_t i = 0; i < n; i++)
		CHECK_NEAR(adv[i], want[i], 1e-8);
}

static void trl(void)
{
	static const double two_groups[] = {1, 0, 0, 1, .5, .5, .5, .5}, one_to_four[] = {1, 2, 3, 4};
	static const double one_hit[] = {1, 0, 0, 0, 0, 0, 0, 0}, absent[] = {NAN, NAN, 1, 0};
	static const double summed[] = {1 + .5 * .2, .5 * .8, 1, .5 * .1}; /* weights 1, 0.5; the third abstains once */
	check(two_groups, 8, 4, SPAR_SCALE_GROUP, (double[]){.86587543, -.86587543, -.86587543, .86587543, 0, 0, 0, 0});
	check(two_groups, 8, 4, SPAR_SCALE_BATCH,
	      (double[]){1.322525748, -1.322525748, -1.322525748, 1.322525748, 0, 0, 0, 0});
	check(two_groups, 8, 4, SPAR_SCALE_NONE, (double[]){.5, -.5, -.5, .5, 0, 0, 0, 0});
	check(one_to_four, 4, 4, SPAR_SCALE_GROUP, (double[]){-1.161805011, -.387268337, .387268337, 1.161805011});
	check(one_hit, 8, 8, SPAR_SCALE_GROUP,
	      (double[]){2.474173932, -.353453419, -.353453419, -.353453419, -.353453419, -.353453419, -.353453419,
			 -.353453419});
	check(absent, 4, 2, SPAR_SCALE_GROUP, (double[]){0, 0, .707006795, -.707006795});
	check(summed, 4, 4, SPAR_SCALE_GROUP, (double[]){.92674739, -.475897308, .726369576, -1.177219657});
}

static void other_conventions(void)
{
	double adv[4];
	spar_advantage((double[]){1, 3}, 2, SPAR_SCALE_GROUP, SPAR_BASELINE_MEAN, 0, true, 0, adv);
	CHECK(adv[0] == -1 && adv[1] == 1);
	spar_advantage((double[]){1, 0, 0, 0}, 4, SPAR_SCALE_GROUP, SPAR_BASELINE_MEAN, 0, true, EPS, adv);
	CHECK_NEAR(adv[0], 1.731651, 1e-6);
	CHECK_NEAR(adv[3], -0.577217, 1e-6);
	spar_advantage((double[]){1, 0, 0, 0}, 4, SPAR_SCALE_NONE, SPAR_BASELINE_RLOO, 0, false, EPS, adv);
	CHECK_NEAR(adv[0], 1, 1e-15);
	CHECK_NEAR(adv[1], -1.0 / 3, 1e-15);
	spar_advantage((double[]){1, NAN, 0, 1}, 4, SPAR_SCALE_GROUP, SPAR_BASELINE_MEAN, 0, false, EPS, adv);
	CHECK_NEAR(adv[0], 0.577250, 1e-6);
	CHECK(adv[1] == 0);
	CHECK_NEAR(adv[2], -1.154501, 1e-6);
	/* verl's eps of 1e-6 */
	spar_advantage((double[]){1, 2, 3, 4}, 4, SPAR_SCALE_GROUP, SPAR_BASELINE_MEAN, 0, false, 1e-6, adv);
	CHECK_NEAR(adv[0], -1.161894104, 1e-9);
}

static void equal_rewards(void)
{
	static const double values[] = {0, 1, 0.1, 0.35, -7e300, 5e-324, NAN};
	for (size_t v = 0; v < LEN(values); v++) {
		for (size_t n = 1; n <= 16; n++) {
			double reward[16], adv[16];
			for (size_t i = 0; i < n; i++)
				reward[i] = values[v];
			for (int b = 0; b < 2; b++) {
				CHECK(spar_advantage(reward, n, SPAR_SCALE_GROUP, (enum spar_baseline)b, 0, false, 0,
						     adv));
				for (size_t i = 0; i < n; i++)
					CHECK(adv[i] == 0);
			}
			CHECK(spar_reward_std(reward, n, false) == 0);
		}
	}
	double nearly[8] = {.35, .35, .35, .35, .35, .35, .35, 0}, sum = 0;
	CHECK(!spar_advantage(nearly, 8, SPAR_SCALE_GROUP, SPAR_BASELINE_MEAN, 0, false, EPS, nearly)); /* in place */
	CHECK_NEAR(nearly[0], 0.353268, 1e-6);
	CHECK_NEAR(nearly[7], -2.472875, 1e-6);
	for (size_t i = 0; i < 8; i++)
		sum += nearly[i];
	CHECK_NEAR(sum, 0, 1e-6);
}

int main(void)
{
	trl();
	other_conventions();
	equal_rewards();
	return unit_done();
}
