/* unit.h - what a unit test needs: CHECK counts and goes on, the program exits with unit_done(). */
#ifndef SPAR_TESTS_UNIT_H
#define SPAR_TESTS_UNIT_H

#include <math.h>
#include <stdio.h>
#include <string.h>

static int unit_failed, unit_checked;

#define CHECK(cond) \
	do { \
		unit_checked++; \
		if (!(cond)) { \
			unit_failed++; \
			printf("%s:%d: not true: %s\n", __FILE__, __LINE__, #cond); \
		} \
	} while (0)

#define CHECK_NEAR(got, want, tolerance) \
	do { \
		double g_ = (got), w_ = (want); \
		unit_checked++; \
		if (!(fabs(g_ - w_) <= (tolerance))) { \
			unit_failed++; \
			printf("%s:%d: %s is %.17g, not %.17g\n", __FILE__, __LINE__, #got, g_, w_); \
		} \
	} while (0)

#define CHECK_STR(got, want) \
	do { \
		const char *g_ = (got), *w_ = (want); \
		unit_checked++; \
		if (strcmp(g_, w_) != 0) { \
			unit_failed++; \
			printf("%s:%d: %s is \"%s\", not \"%s\"\n", __FILE__, __LINE__, #got, g_, w_); \
		} \
	} while (0)

static inline int unit_done(void)
{
	printf("%d checks, %d failed\n", unit_checked, unit_failed);
	return unit_failed || !unit_checked;
}

#endif
