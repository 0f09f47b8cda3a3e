/* cern_world.c - random numbers, hidden truth and counts against the reference values of the environment's text. */
#include "env/cern/world.h"
#include "unit.h"

static struct spar_cern_dice dice(uint64_t seed, uint32_t difficulty)
{
	return (struct spar_cern_dice){{(uint32_t)seed, (uint32_t)(seed >> 32)}, difficulty};
}

static void check_draws(void)
{
	struct spar_cern_dice d = dice(4242, 0), far = dice(((uint64_t)1 << 40) + 7, 1);
	static const double uniform[] = {0.551195268803, 0.561124000819, 0.371048254125};
	static const double normal[] = {1.925688826186, 0.878004488895, -0.844967194300};
	for (uint32_t i = 0; i < 3; i++) {
		CHECK_NEAR(spar_cern_uniform(&d, SPAR_CERN_TRUTH, 0, i, 0), uniform[i], 5e-13);
		CHECK_NEAR(spar_cern_normal(&d, SPAR_CERN_BACKGROUND, 0, 0, i), normal[i], 5e-13);
	}
	CHECK_NEAR(spar_cern_uniform(&far, SPAR_CERN_TRUTH, 0, 0, 0), 0.486054319449, 5e-13);
}

static void check_poisson(void)
{
	static const struct {
		double lambda;
		uint32_t counts[8];
	} rows[] = {{5, {8, 4, 3, 1, 5, 4, 3, 4}},
		    {30, {39, 27, 23, 14, 30, 26, 23, 28}},
		    {250, {277, 240, 229, 204, 250, 240, 231, 246}},
		    {20000, {20246, 19916, 19817, 19586, 20003, 19912, 19833, 19963}}};
	struct spar_cern_dice d = dice(4242, 0);
	for (size_t r = 0; r < sizeof rows / sizeof *rows; r++)
		for (uint32_t i = 0; i < 8; i++)
			CHECK(spar_cern_poisson(&d, 0, i, rows[r].lambda) == rows[r].counts[i]);
	CHECK(spar_cern_poisson(&d, 0, 0, 0) == 0);
}

static void check_truth(void)
{
	static const struct {
		uint64_t seed;
		uint32_t difficulty;
		double mass;
		const char *channel;
		double z, width, window[2], bias, signal[6];
	} rows[] = {
	    {4242,
	     0,
	     343.5363,
	     "four_lepton",
	     11.4842,
	     0.014699,
	     {227.080, 413.766},
	     0.018533,
	     {7.379, 21.886, 11.366, 83.800, 57.827, 51.932}},
	    {4243, 1, 321.4988, "bb", 9.4307, 0.002992, {128.212, 385.171}, -0.050354, {0}},
	    {4244,
	     2,
	     497.3513,
	     "bb",
	     7.4057,
	     0.007899,
	     {148.769, 900},
	     0.006193,
	     {7.102, 3.213, 37.090, 1.375, 23.183, 259.913}},
	    {4245, 0, 496.1210, "bb", 0, 0, {0}, 0, {0}},
	    {4246, 1, 495.1007, "dilepton_mumu", 0, 0, {0}, 0, {0}},
	    {4247, 2, 558.6135, "four_lepton", 0, 0, {0}, 0, {0}},
	};
	for (size_t r = 0; r < sizeof rows / sizeof *rows; r++) {
		struct spar_cern_truth t;
		struct spar_cern_dice d = dice(rows[r].seed, rows[r].difficulty);
		spar_cern_truth_init(&t, &d);
		CHECK_NEAR(t.mass, rows[r].mass, 5.1e-5);
		CHECK_STR(spar_cern_channels[t.channel].name, rows[r].channel);
		if (rows[r].z == 0)
			continue;
		CHECK_NEAR(t.z, rows[r].z, 5.1e-5);
		CHECK_NEAR(t.width, rows[r].width, 5.1e-7);
		CHECK_NEAR(t.window[0], rows[r].window[0], 5.1e-4);
		CHECK_NEAR(t.window[1], rows[r].window[1], 5.1e-4);
		CHECK_NEAR(t.bias[t.channel], rows[r].bias, 5.1e-7);
		for (int c = 0; c < SPAR_CERN_CHANNELS && rows[r].signal[0] > 0; c++)
			CHECK_NEAR(t.signal[c], rows[r].signal[c], 1e-3); /* printed after a looser bisection */
	}
}

static void check_totals(struct spar_cern_dice d, int second_trigger, const uint32_t want[2][6])
{
	uint32_t counts[SPAR_CERN_CHANNELS][SPAR_SPECTRUM_BINS] = {{0}};
	struct spar_cern_truth t;
	spar_cern_truth_init(&t, &d);
	for (int k = 0; k < 2; k++) {
		int trigger = k ? second_trigger : SPAR_CERN_HIGH_PT;
		spar_cern_take_data(&t, &d, 2, trigger, k ? 100 : 200, k, counts);
		for (int c = 0; c < SPAR_CERN_CHANNELS; c++) {
			uint32_t total = 0;
			for (int i = 0; i < SPAR_SPECTRUM_BINS; i++)
				total += counts[c][i];
			CHECK(total == want[k][c]);
		}
		static const uint32_t first_bins[] = {156, 126, 115, 94, 124, 114};
		for (int i = 0; i < 6 && d.difficulty == 0 && k == 0; i++)
			CHECK(counts[0][i] == first_bins[i]);
	}
}

int main(void)
{
	check_draws();
	check_poisson();
	check_truth();
	check_totals(
	    dice(4242, 0), SPAR_CERN_DILEPTON_HLT,
	    (const uint32_t[2][6]){{6275, 5664, 8327, 534, 175910, 46652}, {6460, 13719, 20023, 1232, 181062, 48042}});
	check_totals(
	    dice(4244, 2), SPAR_CERN_JET_HLT,
	    (const uint32_t[2][6]){{5261, 8522, 7095, 873, 101054, 38029}, {5418, 8741, 7283, 896, 246468, 94954}});
	return unit_done();
}
