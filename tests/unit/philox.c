/* Known answers of the generator's paper (Random123) and of the environment's specification. */
#include "base/philox.h"
#include "unit.h"

#include <stdbool.h>

static void check_block(const uint32_t key[2], const uint32_t counter[4], const uint32_t want[4])
{
	uint32_t got[4];
	spar_philox(key, counter, got);
	CHECK(!memcmp(got, want, sizeof got));
}

static void known_answers(void)
{
	const uint32_t ones = 0xFFFFFFFFu;
	check_block((uint32_t[2]){0, 0}, (uint32_t[4]){0, 0, 0, 0},
		    (uint32_t[4]){0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8});
	check_block((uint32_t[2]){ones, ones}, (uint32_t[4]){ones, ones, ones, ones},
		    (uint32_t[4]){0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd});
	check_block((uint32_t[2]){0xa4093822, 0x299f31d0},
		    (uint32_t[4]){0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344},
		    (uint32_t[4]){0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1});
	check_block((uint32_t[2]){4242, 0}, (uint32_t[4]){0, 0, 0, 0},
		    (uint32_t[4]){0x8d1b2207, 0xa9bbdb30, 0xda9771a4, 0xbe63e39b});
}

static void uniforms(void)
{
	static const double want[3] = {0.551195268803, 0.561124000819, 0.371048254125};
	double u[2];
	for (uint32_t i = 0; i < 3; i++) {
		uint32_t x[4];
		spar_philox((uint32_t[2]){4242, 0}, (uint32_t[4]){i, 0, 0, 0}, x);
		spar_philox_uniform(x, u);
		CHECK_NEAR(u[0], want[i], 1e-12);
	}
	spar_philox_uniform((uint32_t[4]){UINT32_MAX, UINT32_MAX, 0, 0}, u);
	CHECK(u[0] < 1 && u[1] == 0);
}

static void streams(void)
{
	struct spar_rng a, b, c;
	spar_rng_init(&a, 7, "task", 4);
	spar_rng_init(&b, 7, "task", 4);
	spar_rng_init(&c, 7, "tasl", 4);
	double sum = 0, squares = 0;
	enum { N = 20000 };
	for (uint32_t i = 0; i < N; i++) {
		double z = spar_rng_normal(&a, 0, 0, i, 0);
		sum += z;
		squares += z * z;
	}
	CHECK_NEAR(sum / N, 0, 0.03); /* 4 standard errors */
	CHECK_NEAR(squares / N, 1, 0.04);
	CHECK(spar_rng_uniform(&a, 1, 2, 3, 4) == spar_rng_uniform(&b, 1, 2, 3, 4));
	CHECK(spar_rng_uniform(&a, 1, 2, 3, 4) != spar_rng_uniform(&c, 1, 2, 3, 4));
}

static void permutations(void)
{
	enum { N = 1000 };
	static size_t first[N], second[N];
	bool seen[N] = {0};
	size_t moved = 0;
	struct spar_rng r;
	spar_rng_init(&r, 1, "", 0);
	spar_rng_permutation(&r, 0, first, N);
	spar_rng_permutation(&r, 1, second, N);
	for (size_t i = 0; i < N; i++) {
		CHECK(!seen[first[i] % N] && first[i] < N);
		seen[first[i] % N] = true;
		moved += first[i] != second[i];
	}
	CHECK(moved > N / 2);
	spar_rng_permutation(&r, 0, first, 0);
}

int main(void)
{
	known_answers();
	uniforms();
	streams();
	permutations();
	return unit_done();
}
