/* spar view - records for a person's eyes. */
#include "base/opt.h"
#include "record/record.h"
#include "record/rollout.h"
#include "rl/policy.h"
#include "text/tokenizer.h"
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const struct spar_usage usage = {
    "view", "[options] [FILE]",
    "Show rollouts turn by turn, and other records in one line each. With --model prompts are shown as text, and on a "
    "terminal each token is coloured by its log-probability. Control characters are made visible."};

static const char *const colors[] = {"auto", "always", "never", NULL};
enum { COLOR_AUTO, COLOR_ALWAYS, COLOR_NEVER };

struct work {
	const char *group, *model;
	int64_t sample, turn, lines;
	int color;
	struct spar_tokenizer *tokenizer;
	uint64_t n_shown;
	struct spar_str text; /* of what is being printed */
};

/* ---- text ---- */

static void paint(const struct work *w, const char *code)
{
	if (w->color == COLOR_ALWAYS)
		printf("\033[%sm", code);
}

/* Model text must not steer the terminal: control characters other than newline and tab are shown as \xNN. */
static void print_text(const char *s, size_t n, const char *indent)
{
	for (size_t i = 0; i < n; i++) {
		unsigned char c = (unsigned char)s[i];
		if (c == '\n')
			printf("\n%s", indent);
		else if ((c < 0x20 && c != '\t') || c == 0x7f)
			printf("\\x%02x", c);
		else if (c == 0xc2 && i + 1 < n && (unsigned char)s[i + 1] < 0xa0) /* the C1 control characters */
			printf("\\x%02x", (unsigned char)s[++i]);
		else
			putchar(c);
	}
}

/* The last `lines` lines of the text; 0: all of it. */
static const char *tail_of(const struct spar_str *s, int64_t lines)
{
	const char *at = s->data + s->len;
	while (lines && at > s->data)
		if (*--at == '\n' && at + 1 < s->data + s->len && !--lines)
			return at + 1;
	return s->data;
}

static const char *color_of(float logprob)
{
	return logprob > -0.1F ? "32" : logprob > -1 ? "33" : logprob > -3 ? "35" : "31";
}

/* Each token in the colour of its log-probability: green above 90 %, yellow above 37 %, magenta above 5 %, red below. */
static void print_tokens(const struct work *w, const struct spar_turn *t)
{
	struct spar_detok d = {0};
	struct spar_str piece = SPAR_STR_INIT;
	for (size_t i = 0; i < t->n_completion; i++) {
		spar_str_clear(&piece);
		spar_detok_feed(w->tokenizer, &d, t->completion_ids[i], 0, &piece);
		if (i + 1 == t->n_completion)
			spar_detok_end(&d, &piece);
		paint(w, color_of(t->logprobs[i]));
		print_text(piece.data, piece.len, "    ");
	}
	paint(w, "0");
	spar_str_release(&piece);
	spar_str_release(&d.pending);
}

/* ---- one rollout ---- */

static void print_number(const char *name, jv object, const char *key)
{
	double v;
	if (spar_get_double(object, "", key, &v, NULL) == 0)
		printf("  %s %.4g", name, v);
}

static void print_string(const char *name, jv object, const char *key)
{
	const char *s;
	size_t n;
	if (spar_get_str(object, "", key, &s, &n, NULL) < 0)
		return;
	printf("  %s%s", name, *name ? " " : "");
	print_text(s, n, "");
}

static void print_prompt(struct work *w, const struct spar_turn *t)
{
	if (!w->tokenizer)
		return;
	spar_str_clear(&w->text);
	spar_tokenizer_decode(w->tokenizer, t->prompt_ids, t->n_prompt, 0, &w->text);
	const char *tail = tail_of(&w->text, w->lines);
	paint(w, "2");
	printf("    ");
	print_text(tail, w->text.len - (size_t)(tail - w->text.data), "    ");
	paint(w, "0");
	putchar('\n');
}

static void print_turn(struct work *w, const struct spar_turn *t, jv turn, int64_t number)
{
	double sum = 0;
	const char *text = "";
	size_t n = 0;
	jv env = jv_object_get(jv_copy(turn), jv_string("env"));
	for (size_t i = 0; i < t->n_completion; i++)
		sum += t->logprobs[i];
	printf("  turn %" PRId64 "  %zu + %zu ids  %s", number, t->n_prompt, t->n_completion,
	       spar_finish_name(t->finish));
	if (t->n_completion)
		printf("  mean logprob %.3f", sum / (double)t->n_completion);
	print_number("reward", env, "reward");
	putchar('\n');
	print_prompt(w, t);
	printf("  > ");
	spar_get_str(turn, "", "completion", &text, &n, NULL);
	if (w->tokenizer && t->n_completion)
		print_tokens(w, t);
	else
		print_text(text, n, "    ");
	putchar('\n');
	jv_free(env);
}

static void print_turns(struct work *w, const struct spar_rollout *r, jv object)
{
	jv turns = jv_object_get(jv_copy(object), jv_string("turns"));
	for (size_t i = 0; i < r->n_turns; i++) {
		if (w->turn >= 0 && (size_t)w->turn != i)
			continue;
		jv turn = jv_array_get(jv_copy(turns), (int)i);
		print_turn(w, &r->turns[i], turn, (int64_t)i);
		jv_free(turn);
	}
	jv_free(turns);
}

static int show_rollout(struct work *w, jv object, struct spar_err *err)
{
	struct spar_rollout r;
	int rc = spar_rollout_read(&r, object, err);
	if (rc < 0)
		return rc;
	if ((w->group && strcmp(w->group, r.group) != 0) || (w->sample >= 0 && w->sample != r.sample)) {
		spar_rollout_release(&r);
		return 0;
	}
	jv env = jv_object_get(jv_copy(object), jv_string("env"));
	w->n_shown++;
	paint(w, "1");
	print_text(r.group, strlen(r.group), "");
	paint(w, "0");
	printf("  sample %" PRId64 " of %" PRId64, r.sample, r.group_size);
	print_number("step", object, "step");
	if (r.version >= 0)
		printf("  version %" PRId64, r.version);
	print_number("return", env, "return");
	print_string("", env, "end");
	if (spar_has(env, "success")) {
		bool success = false;
		spar_get_bool(env, "", "success", &success, NULL);
		printf(success ? "  success" : "  no success");
	}
	print_number("reward", object, "reward");
	print_number("advantage", object, "advantage");
	print_string("error:", object, "error");
	putchar('\n');
	print_turns(w, &r, object);
	putchar('\n');
	jv_free(env);
	spar_rollout_release(&r);
	return 0;
}

/* ---- other records ---- */

static bool is_long(jv v)
{
	jv_kind kind = jv_get_kind(v);
	return kind == JV_KIND_ARRAY || kind == JV_KIND_OBJECT;
}

/* All simple members, in their order: what a metric, a batch or an eval row says fits into a line. */
static void show_line(struct work *w, const struct spar_record *rec)
{
	paint(w, "1");
	printf("%s", *rec->type ? rec->type : "record");
	paint(w, "0");
	jv_object_foreach(rec->value, key, value)
	{
		if (strcmp(jv_string_value(key), "type") != 0 && !is_long(value)) {
			printf("  ");
			print_text(jv_string_value(key), strlen(jv_string_value(key)), "");
			putchar(' ');
			jv text =
			    jv_get_kind(value) == JV_KIND_STRING ? jv_copy(value) : jv_dump_string(jv_copy(value), 0);
			size_t n = (size_t)jv_string_length_bytes(jv_copy(text));
			print_text(jv_string_value(text), n, " ");
			jv_free(text);
		}
		jv_free(key);
		jv_free(value);
	}
	putchar('\n');
	w->n_shown++;
}

static int show(struct work *w, const struct spar_record *rec, struct spar_err *err)
{
	if (spar_record_is(rec, "rollout"))
		return show_rollout(w, rec->value, err);
	if (!w->group && w->sample < 0)
		show_line(w, rec);
	return 0;
}

/* ---- main ---- */

static int show_all(struct work *w, const char *path, struct spar_err *err)
{
	struct spar_reader *in;
	struct spar_record rec;
	const char *line;
	size_t len;
	int rc = spar_reader_open(&in, path, err);
	if (rc < 0)
		return rc;
	spar_record_init(&rec);
	while (rc >= 0 && (rc = spar_reader_next(in, &line, &len, err)) > 0) {
		rc = spar_record_parse(&rec, line, len, err);
		if (rc == 0)
			rc = show(w, &rec, err);
		if (rc < 0)
			spar_fail_at(err, "%s:%zu", spar_reader_name(in), spar_reader_line(in));
	}
	spar_record_release(&rec);
	spar_reader_close(in);
	if (rc == 0 && !w->n_shown && (w->group || w->sample >= 0))
		rc = spar_fail(err, SPAR_FAIL, "no such rollout");
	return rc;
}

static int load_tokenizer(struct work *w, struct spar_err *err)
{
	char *dir;
	int rc = spar_policy_text_dir(&dir, w->model, err);
	if (rc == 0)
		rc = spar_tokenizer_load(&w->tokenizer, dir, err);
	free(dir);
	return rc;
}

int main(int argc, char **argv)
{
	struct work w = {.sample = -1, .turn = -1, .lines = 8, .text = SPAR_STR_INIT};
	struct spar_err err = {0};
	const struct spar_opt table[] = {
	    SPAR_OPT_STR("group", 'g', &w.group, "ID", "only rollouts of this task"),
	    SPAR_OPT_INT("sample", 'n', &w.sample, 0, 1e15, "N", "only this sample of a group"),
	    SPAR_OPT_INT("turn", 't', &w.turn, 0, 1e15, "N", "only this turn, from 0"),
	    SPAR_OPT_STR("model", 'm', &w.model, "DIR",
			 "model, adapter or policy folder whose tokenizer turns ids into text"),
	    SPAR_OPT_INT("prompt-lines", 'l', &w.lines, 0, 1e9, "N", "last lines of each prompt to show; 0: all (8)"),
	    SPAR_OPT_CHOICE("color", 0, &w.color, colors, "WHEN", "auto: on a terminal only (auto)"),
	    SPAR_OPT_END};
	int rest = spar_opt_parse(&usage, table, argc, argv), rc = 0;
	if (rest < 0)
		return -1 - rest;
	if (rest + 1 < argc)
		return spar_usage_error(&usage, "one input file at most, got '%s' too", argv[rest + 1]);
	if (w.color == COLOR_AUTO)
		w.color = isatty(STDOUT_FILENO) ? COLOR_ALWAYS : COLOR_NEVER;
	if (w.model)
		rc = load_tokenizer(&w, &err);
	if (rc == 0)
		rc = show_all(&w, argv[rest], &err);
	if ((fflush(stdout) != 0 || ferror(stdout)) && rc == 0)
		spar_fail(&err, SPAR_FAIL, "<stdout>: cannot write");
	spar_tokenizer_free(w.tokenizer);
	spar_str_release(&w.text);
	return err.code ? spar_die(usage.tool, &err) : SPAR_OK;
}
