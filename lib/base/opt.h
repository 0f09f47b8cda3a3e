/* opt.h - one table per tool: it drives the parser, --help and the test that compares --help with the man page.
 *
 *	struct opts o = {.n = 8};
 *	const struct spar_opt table[] = {
 *		SPAR_OPT_INT("num-generations", 'n', &o.n, 1, 4096, "N", "completions per task (8)"),
 *		SPAR_OPT_STR("policy", 'p', &o.policy, "DIR", "policy directory"),
 *		SPAR_OPT_FLAG("quiet", 'q', &o.quiet, "no progress"),
 *		SPAR_OPT_END};
 *	static const struct spar_usage usage = {"rollout", "[options] <tasks >rollouts", "one paragraph: what it does"};
 *	int rest = spar_opt_parse(&usage, table, argc, argv);   // index of the first operand, or -1 - exit code
 *	if (rest < 0) return -1 - rest;                          // --help gives exit code 0, a mistake 2
 *
 * Long options take "--name=value" or "--name value", short ones "-nVALUE" or "-n VALUE"; "--" ends options.
 * A unique prefix of a long name is NOT accepted (scripts would break when options are added).
 */
#ifndef SPAR_BASE_OPT_H
#define SPAR_BASE_OPT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum spar_opt_kind {
	SPAR_OPT_KIND_END,
	SPAR_OPT_KIND_FLAG,   /* bool *: true; "--no-NAME" sets false */
	SPAR_OPT_KIND_INT,    /* int64_t *, within [min, max] */
	SPAR_OPT_KIND_U64,    /* uint64_t *: a decimal seed */
	SPAR_OPT_KIND_DOUBLE, /* double *, finite, within [min, max] */
	SPAR_OPT_KIND_STR,    /* const char **: the last one counts; points into argv */
	SPAR_OPT_KIND_LIST,   /* struct spar_opt_list *: each use appends */
	SPAR_OPT_KIND_CHOICE, /* int *: index into `choices`, a NULL-terminated list of names */
	SPAR_OPT_KIND_GROUP,  /* a heading in --help */
};

struct spar_opt_list {
	const char **items; /* point into argv; the array is the caller's to free */
	size_t n;
};

struct spar_opt {
	enum spar_opt_kind kind;
	const char *name; /* long name without dashes */
	int letter;       /* 0: none */
	void *value;
	double min, max;
	const char *arg;  /* what --help calls the value */
	const char *help; /* one line, the default in parentheses at the end */
	const char *const *choices;
};

/* clang-format off */
#define SPAR_OPT_FLAG(n, l, v, h) {SPAR_OPT_KIND_FLAG, n, l, v, 0, 0, NULL, h, NULL}
#define SPAR_OPT_INT(n, l, v, lo, hi, a, h) {SPAR_OPT_KIND_INT, n, l, v, lo, hi, a, h, NULL}
#define SPAR_OPT_U64(n, l, v, a, h) {SPAR_OPT_KIND_U64, n, l, v, 0, 0, a, h, NULL}
#define SPAR_OPT_DOUBLE(n, l, v, lo, hi, a, h) {SPAR_OPT_KIND_DOUBLE, n, l, v, lo, hi, a, h, NULL}
#define SPAR_OPT_STR(n, l, v, a, h) {SPAR_OPT_KIND_STR, n, l, v, 0, 0, a, h, NULL}
#define SPAR_OPT_LIST(n, l, v, a, h) {SPAR_OPT_KIND_LIST, n, l, v, 0, 0, a, h, NULL}
#define SPAR_OPT_CHOICE(n, l, v, c, a, h) {SPAR_OPT_KIND_CHOICE, n, l, v, 0, 0, a, h, c}
#define SPAR_OPT_GROUP(h) {SPAR_OPT_KIND_GROUP, NULL, 0, NULL, 0, 0, NULL, h, NULL}
#define SPAR_OPT_END {SPAR_OPT_KIND_END, NULL, 0, NULL, 0, 0, NULL, NULL, NULL}
/* clang-format on */

struct spar_usage {
	const char *tool;     /* "rollout": printed as "spar rollout" in usage, "rollout: ..." in errors */
	const char *operands; /* what follows "usage: spar TOOL " */
	const char *about;    /* a paragraph */
};

/*! Parse; on a mistake print "tool: what" and the usage line on stderr and return -1 - SPAR_USAGE; on --help (or -h)
 *  print the help on stdout and return -1 - SPAR_OK; else the index in argv of the first operand. argv is not permuted:
 *  the first operand ends the options. */
int spar_opt_parse(const struct spar_usage *usage, const struct spar_opt *table, int argc, char **argv);

/*! A usage mistake that the table cannot see: print "tool: ..." and the usage line, return SPAR_USAGE. */
int spar_usage_error(const struct spar_usage *usage, const char *fmt, ...);

/* Checked number parsers, also for values inside records and config strings: whole text must be a number in range.
 * Return 0 or -1. No locale, no leading blanks, no hexadecimal, no "inf" or "nan". */
int spar_parse_i64(const char *text, int64_t min, int64_t max, int64_t *out);
int spar_parse_u64(const char *text, uint64_t *out);
int spar_parse_double(const char *text, double min, double max, double *out);

#endif
