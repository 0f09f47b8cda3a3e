/* driver.h - runs a fuzz target without libFuzzer:
 *	TARGET [-n N] FILE...           each file, then N copies of it with a few bytes changed or its end cut off
 *	TARGET -t SECONDS FILE...       changes of the files, and of changes that reached code which none before had reached
 *                                      (gcc: -fsanitize-coverage=trace-pc; without, of the files alone)
 * Changes are a function of their number, so a failure comes back. What ends the program is first written to
 * "fuzz-TARGET.failed" in the working folder. */
#include "base/opt.h"
#include "base/philox.h"
#include <signal.h>
#include <stdbool.h>

#define FUZZ_INPUT_S 20        /* an input that takes longer hangs */
#define FUZZ_LARGEST (1 << 16) /* bytes that a change may grow an input to */
#define FUZZ_PLACES (1 << 16)  /* pieces of code told apart */

/* ---- coverage ---- */

void __sanitizer_cov_trace_pc(void);
void __sanitizer_set_death_callback(void (*callback)(void)) __attribute__((weak));

static uint8_t fuzz_seen[FUZZ_PLACES];
static size_t fuzz_news; /* places that were reached for the first time */

/* Called at each branch of instrumented code. */
__attribute__((no_sanitize_coverage, no_sanitize("address", "undefined"))) void __sanitizer_cov_trace_pc(void)
{
	static uintptr_t before;
	uintptr_t here = (uintptr_t)__builtin_return_address(0);
	size_t place = (here ^ here >> 16 ^ before) % FUZZ_PLACES;
	before = here << 1;
	if (!fuzz_seen[place]) {
		fuzz_seen[place] = 1;
		fuzz_news++;
	}
}

/* ---- one input ---- */

static const char *fuzz_name = "target";
static const char *volatile fuzz_data;
static volatile size_t fuzz_n;

static void fuzz_keep(void)
{
	char path[256];
	snprintf(path, sizeof path, "fuzz-%s.failed", fuzz_name);
	FILE *f = fuzz_data ? fopen(path, "w") : NULL;
	if (!f)
		return;
	fwrite(fuzz_data, 1, fuzz_n, f);
	fclose(f);
	fprintf(stderr, "%s: failed on the input in %s\n", fuzz_name, path);
	fuzz_data = NULL;
}

static void fuzz_signal(int number)
{
	fuzz_keep();
	signal(number, SIG_DFL);
	raise(number);
}

static void fuzz_run(const struct spar_str *s)
{
	fuzz_data = s->data;
	fuzz_n = s->len;
	alarm(FUZZ_INPUT_S);
	LLVMFuzzerTestOneInput((const uint8_t *)s->data, s->len);
	alarm(0);
	fuzz_data = NULL;
}

/* ---- changes ---- */

static size_t fuzz_draw(const struct spar_rng *rng, uint32_t i, uint32_t what, size_t n)
{
	return (size_t)((double)n * spar_rng_uniform(rng, i, what, 0, 0));
}

/* Put a piece of `other` in. */
static void fuzz_splice(struct spar_str *s, const struct spar_str *other, const struct spar_rng *rng, uint32_t i)
{
	struct spar_str tail = SPAR_STR_INIT;
	size_t at = fuzz_draw(rng, i, 3, s->len + 1), from = fuzz_draw(rng, i, 4, other->len);
	size_t n = 1 + fuzz_draw(rng, i, 5, 64), skip = fuzz_draw(rng, i, 6, 2) * n;
	n = n < other->len - from ? n : other->len - from;
	size_t rest = at + skip < s->len ? at + skip : s->len;
	spar_str_add(&tail, s->data + rest, s->len - rest);
	s->len = at;
	spar_str_add(s, other->data + from, n);
	spar_str_add(s, tail.data, tail.len);
	spar_str_release(&tail);
}

/* `other` NULL: only bytes are changed, or the end cut off. */
static void fuzz_change(struct spar_str *s, const struct spar_str *other, uint32_t round)
{
	struct spar_rng rng;
	spar_rng_init(&rng, round, "fuzz", 4);
	size_t n_changes = 1 + fuzz_draw(&rng, 0, 0, 4);
	for (uint32_t i = 1; s->len && i <= n_changes; i++) {
		size_t at = fuzz_draw(&rng, i, 0, s->len);
		double what = spar_rng_uniform(&rng, i, 1, 0, 0);
		if (i % 2) /* the beginning, where headers are, is changed more often */
			at = at % (s->len < 2048 ? s->len : 2048);
		if (other && other->len && what > 0.6 && s->len < FUZZ_LARGEST)
			fuzz_splice(s, other, &rng, i);
		else if (what < 0.05)
			s->len = at;
		else
			s->data[at] = what < 0.2   ? (char)-1
				      : what < 0.3 ? 0
				      : what < 0.4 ? (char)(s->data[at] + 1 - 2 * (int)(i % 2))
						   : (char)fuzz_draw(&rng, i, 2, 256);
	}
}

static void fuzz_rounds(const struct spar_str *file, int64_t rounds)
{
	struct spar_str copy = SPAR_STR_INIT;
	fuzz_run(file);
	for (int64_t round = 0; round < rounds; round++) {
		spar_str_clear(&copy);
		spar_str_add(&copy, file->data, file->len);
		fuzz_change(&copy, NULL, (uint32_t)round);
		fuzz_run(&copy);
	}
	spar_str_release(&copy);
}

/* ---- on and on ---- */

struct fuzz_corpus {
	struct spar_str *items;
	size_t n;
};

static void fuzz_add(struct fuzz_corpus *c, const struct spar_str *s)
{
	c->items = spar_realloc(c->items, (c->n + 1) * sizeof *c->items);
	spar_str_init(&c->items[c->n]);
	spar_str_add(&c->items[c->n++], s->data, s->len);
}

static void fuzz_for(struct fuzz_corpus *c, double seconds)
{
	double end_s = spar_clock_s() + seconds;
	struct spar_str s = SPAR_STR_INIT;
	size_t n_given = c->n;
	uint32_t round = 0;
	for (size_t i = 0; i < n_given; i++)
		fuzz_run(&c->items[i]);
	for (; c->n && spar_clock_s() < end_s; round++) {
		struct spar_rng rng;
		spar_rng_init(&rng, round, "pick", 4);
		const struct spar_str *from = &c->items[fuzz_draw(&rng, 0, 0, c->n)];
		spar_str_clear(&s);
		spar_str_add(&s, from->data, from->len);
		fuzz_change(&s, &c->items[fuzz_draw(&rng, 1, 0, c->n)], round);
		size_t known = fuzz_news;
		fuzz_run(&s);
		if (fuzz_news > known)
			fuzz_add(c, &s);
	}
	printf("%s: %u inputs in %.0f s, %zu kept beside %zu given, %zu places reached\n", fuzz_name, round, seconds,
	       c->n - n_given, n_given, fuzz_news);
	spar_str_release(&s);
}

int main(int argc, char **argv)
{
	bool timed = argc > 2 && !strcmp(argv[1], "-t"), counted = argc > 2 && !strcmp(argv[1], "-n");
	int64_t n = 0;
	struct fuzz_corpus corpus = {0};
	if ((timed || counted) && spar_parse_i64(argv[2], 0, UINT32_MAX, &n) < 0)
		return 2;
	fuzz_name = strrchr(argv[0], '/') ? strrchr(argv[0], '/') + 1 : argv[0];
	signal(SIGABRT, fuzz_signal);
	signal(SIGALRM, fuzz_signal);
	if (__sanitizer_set_death_callback)
		__sanitizer_set_death_callback(fuzz_keep);
	for (int i = timed || counted ? 3 : 1; i < argc; i++) {
		struct spar_str file = SPAR_STR_INIT;
		if (spar_file_read(argv[i], 1 << 24, &file, NULL) < 0)
			return 1;
		if (timed)
			fuzz_add(&corpus, &file);
		else
			fuzz_rounds(&file, n);
		spar_str_release(&file);
	}
	if (timed)
		fuzz_for(&corpus, (double)n);
	for (size_t i = 0; i < corpus.n; i++)
		spar_str_release(&corpus.items[i]);
	free(corpus.items);
	return 0;
}
