#include "model/sample.h"
#include "unit.h"
#include <stdlib.h>

static float scratch[2 * 5000];

static struct spar_sampled sample(const float *logits, size_t n, struct spar_sampling how, double u)
{
	struct spar_sampled s = {-1, 0, 0};
	CHECK(spar_sample(logits, n, &how, u, scratch, &s) == 0);
	return s;
}

/* The recorded log-probability is that of the tempered distribution. */
static void tempered(void)
{
	const float logits[] = {2, 1, 0};
	const struct {
		double temperature, want[3];
	} cases[] = {
	    {1, {-0.407606, -1.407606, -2.407606}},
	    {0.5, {-0.142932, -2.142932, -4.142932}},
	    {2, {-0.680270, -1.180270, -1.680270}},
	};
	for (size_t c = 0; c < 3; c++)
		for (int32_t id = 0; id < 3; id++) {
			double below = 0;
			for (int32_t i = 0; i < id; i++)
				below += exp(cases[c].want[i]);
			double p = exp(cases[c].want[id]);
			for (int end = 0; end < 2; end++) { /* both ends of the token's interval */
				struct spar_sampling how = {cases[c].temperature, 1, 0, 0};
				struct spar_sampled s = sample(logits, 3, how, below + p * (end ? 0.999 : 0.001));
				CHECK(s.id == id);
				CHECK_NEAR(s.logprob, cases[c].want[id], 1e-6);
				CHECK(s.kept_mass == 1);
			}
			CHECK_NEAR(spar_logprob(logits, 3, cases[c].temperature, id, scratch), cases[c].want[id], 1e-6);
		}
	CHECK_NEAR(exp(-2.407606 - spar_logprob(logits, 3, 0.5, 2, scratch)), 5.670774, 1e-4);
	CHECK_NEAR(exp(-0.407606 - spar_logprob(logits, 3, 0.5, 0, scratch)), 0.767456, 1e-6);
}

static void greedy(void)
{
	const float logits[] = {1, 3, -INFINITY, 3, 2};
	struct spar_sampled s = sample(logits, 5, (struct spar_sampling){0, 0.1, 1, 0.9}, 0.99);
	CHECK(s.id == 1); /* the smallest among equals */
	CHECK_NEAR(s.logprob, -log(2 + exp(-1) + exp(-2)), 1e-6);
	CHECK(s.kept_mass == 1);
}

static void cuts(void)
{
	/* p = 0.4, 0.1, 0.2, 0.1, 0.2 */
	float logits[5];
	const double p[] = {0.4, 0.1, 0.2, 0.1, 0.2};
	for (size_t i = 0; i < 5; i++)
		logits[i] = (float)log(p[i]);
	const struct {
		struct spar_sampling how;
		double kept;
		const char *ids; /* what may be drawn */
	} cases[] = {
	    {{1, 1, 1, 0}, 0.4, "0"},       {{1, 1, 2, 0}, 0.6, "02"},     {{1, 1, 3, 0}, 0.8, "024"},
	    {{1, 1, 4, 0}, 0.9, "0124"},    {{1, 1, 5, 0}, 1, "01234"},    {{1, 1, 99, 0}, 1, "01234"},
	    {{1, 0.39, 0, 0}, 0.4, "0"},    {{1, 0.45, 0, 0}, 0.6, "02"},  {{1, 0.65, 0, 0}, 0.8, "024"},
	    {{1, 0.85, 0, 0}, 0.9, "0124"}, {{1, 0.95, 0, 0}, 1, "01234"}, {{1, 0, 0, 0}, 0.4, "0"},
	    {{1, 1, 0, 0.45}, 0.8, "024"},  {{1, 1, 0, 0.55}, 0.4, "0"},   {{1, 1, 0, 0.2}, 1, "01234"},
	    {{1, 0.6, 3, 0}, 0.6, "02"}, /* 0.4 of 0.8 is half, 0.6 is three quarters */
	};
	for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
		char seen[6] = "";
		for (int i = 0; i < 400; i++) {
			struct spar_sampled s = sample(logits, 5, cases[c].how, i / 400.0);
			CHECK_NEAR(s.kept_mass, cases[c].kept, 1e-6);
			CHECK_NEAR(s.logprob, log(p[s.id]), 1e-6);
			size_t n = strlen(seen);
			if (!n || seen[n - 1] != '0' + s.id)
				seen[n] = (char)('0' + s.id), seen[n + 1] = 0;
		}
		CHECK_STR(seen, cases[c].ids);
	}
	CHECK(sample(logits, 5, (struct spar_sampling){1, 0.95, 0, 0}, 0.5).kept_mass ==
	      1); /* nothing cut: exactly 1 */
}

/* Large and lopsided: against a plain count in double. */
static void large(void)
{
	enum { N = 5000 };
	static float logits[N];
	static double p[N];
	double sum = 0, drawn[2] = {0, 0};
	for (size_t i = 0; i < N; i++)
		logits[i] = (float)(i * 7919 % N) / 500 - (i % 3 ? 40 : 0);
	for (size_t i = 0; i < N; i++)
		sum += p[i] = exp(logits[i] / 0.8);
	for (int cut = 0; cut < 2; cut++) {
		struct spar_sampling how = {0.8, 1, cut ? 100 : 0, 0};
		double last = -1;
		for (int i = 0; i < 2000; i++) {
			struct spar_sampled s = sample(logits, N, how, i / 2000.0);
			CHECK(s.id >= last); /* in order of u */
			last = s.id;
			CHECK_NEAR(s.logprob, log(p[s.id] / sum), 1e-5);
			drawn[cut] += s.id < 1000;
		}
	}
	double want = 0, kept = 0;
	for (size_t i = 0; i < N; i++) {
		size_t rank = 0;
		for (size_t j = 0; j < N; j++)
			rank += p[j] > p[i];
		want += i < 1000 ? p[i] / sum : 0;
		kept += rank < 100 ? p[i] / sum : 0;
	}
	CHECK_NEAR(drawn[0] / 2000, want, 2e-3);
	CHECK_NEAR(sample(logits, N, (struct spar_sampling){0.8, 1, 100, 0}, 0.3).kept_mass, kept, 1e-5);
}

static void hostile(void)
{
	struct spar_sampling how = {1, 0.9, 3, 0.01};
	struct spar_sampled s = {0, 0, 0};
	for (size_t n = 1; n < 40; n++) {
		float logits[40];
		for (size_t i = 0; i < n; i++)
			logits[i] = -INFINITY;
		CHECK(spar_sample(logits, n, &how, 0.5, scratch, &s) == -1);
		logits[n - 1] = -3;
		for (int i = 0; i < 3; i++) {
			CHECK(spar_sample(logits, n, &how, i * 0.4999999, scratch, &s) == 0);
			CHECK(s.id == (int32_t)n - 1 && s.logprob == 0 && s.kept_mass == 1);
		}
		logits[n / 2] = NAN;
		CHECK(spar_sample(logits, n, &how, 0.5, scratch, &s) == -1);
		logits[n / 2] = INFINITY;
		CHECK(spar_sample(logits, n, &how, 0.5, scratch, &s) == -1);
	}
	const float far[] = {-2000, 0, -1e30f};
	CHECK(sample(far, 3, (struct spar_sampling){1, 1, 0, 0}, 0).id == 1);
	CHECK(sample(far, 3, (struct spar_sampling){1, 1, 0, 0}, 1 - 1e-16).id == 1);
}

int main(void)
{
	tempered();
	greedy();
	cuts();
	large();
	hostile();
	return unit_done();
}
