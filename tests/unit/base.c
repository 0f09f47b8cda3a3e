/* Errors, strings, numbers, the JSON scanner, files. */
#define _XOPEN_SOURCE 700 /* waitid() is in the XSI part of POSIX */
#include "base/err.h"
#include "base/file.h"
#include "base/json.h"
#include "base/opt.h"
#include "base/str.h"
#include "unit.h"

#include <float.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static void errors(void)
{
	struct spar_err err = {0};
	CHECK(spar_fail(&err, SPAR_INPUT, "bad\nline\t\x7f") == -3);
	CHECK_STR(err.msg, "bad?line??");
	CHECK(spar_fail_at(&err, "%s:%d", "f", 7) == -3);
	CHECK_STR(err.msg, "f:7: bad?line??");
	CHECK(spar_fail(NULL, SPAR_FAIL, "nobody listens") == -1);
	char text[2000];
	memset(text, 'x', sizeof text);
	for (size_t i = 1; i + 1 < sizeof text; i += 2)
		memcpy(text + i, "\xC3\xBC", 2);
	text[sizeof text - 1] = 0;
	spar_fail(&err, SPAR_FAIL, "%s", text);
	bool ok;
	size_t last = strlen(err.msg) - 2;
	CHECK(last > 1000 && spar_utf8_step(err.msg + last, 2, &ok) == 2 && ok); /* cut between characters */
}

static const char *json(const void *bytes, size_t n)
{
	static struct spar_str s = SPAR_STR_INIT;
	spar_str_clear(&s);
	spar_str_add_json(&s, bytes, n);
	return s.data;
}

static void strings(void)
{
	struct spar_str s = SPAR_STR_INIT;
	CHECK_STR(s.data, "");
	for (int i = 0; i < 1000; i++)
		spar_str_addf(&s, "%d,", i);
	CHECK(s.len == 3890 && s.data[s.len] == 0);
	char *text = spar_str_detach(&s);
	CHECK(strlen(text) == 3890 && s.len == 0);
	free(text);
	spar_str_release(&s);
	CHECK_STR(json("a\"\\\n\x01\x7f\0z", 8), "\"a\\\"\\\\\\n\\u0001\\u007f\\u0000z\"");
	CHECK_STR(json("\xC3\xBC\xF0\x9F\x98\x80", 6), "\"\xC3\xBC\xF0\x9F\x98\x80\"");
	CHECK_STR(json("\xFF\xFEz", 3), "\"\xEF\xBF\xBD\xEF\xBF\xBDz\"");
	CHECK_STR(json("\xE2\x82", 2), "\"\xEF\xBF\xBD\""); /* one for the maximal bad part */
	CHECK_STR(json("\xF0\x9F\x98z", 4), "\"\xEF\xBF\xBDz\"");
	CHECK_STR(json("\xED\xA0\x80", 3), "\"\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD\""); /* a surrogate */
	CHECK_STR(json("\xC0\xAF", 2), "\"\xEF\xBF\xBD\xEF\xBF\xBD\"");                 /* overlong */
}

static const char *number(double v)
{
	static struct spar_str s = SPAR_STR_INIT;
	spar_str_clear(&s);
	spar_str_add_double(&s, v);
	return s.data;
}

static const char *single(float v)
{
	static struct spar_str s = SPAR_STR_INIT;
	spar_str_clear(&s);
	spar_str_add_float(&s, v);
	return s.data;
}

static void numbers(void)
{
	CHECK_STR(number(1), "1");
	CHECK_STR(number(0.1), "0.1");
	CHECK_STR(number(0.1 + 0.2), "0.30000000000000004");
	CHECK_STR(number(-0.5), "-0.5");
	CHECK_STR(number(DBL_MAX), "1.7976931348623157e+308");
	CHECK_STR(number(5e-324), "5e-324");
	CHECK_STR(number(INFINITY), "null");
	CHECK_STR(single(0.1f), "0.1");
	CHECK_STR(single(16777216.0f), "16777216");
	CHECK_STR(single(-1.2345678f), "-1.2345678");
	CHECK_STR(single(1e-45f), "1e-45");
	for (int i = 0; i < 10000; i++) {
		double v = (i - 5000) * 1.1e-7 / (i + 3.0);
		CHECK(strtod(number(v), NULL) == v);
		CHECK(strtof(single((float)v), NULL) == (float)v);
	}
	int64_t i;
	uint64_t u;
	double d;
	CHECK(spar_parse_i64("-12", -20, 20, &i) == 0 && i == -12);
	CHECK(spar_parse_i64("21", -20, 20, &i) < 0 && spar_parse_i64(" 1", 0, 9, &i) < 0 &&
	      spar_parse_i64("", 0, 9, &i) < 0);
	CHECK(spar_parse_i64("9223372036854775808", INT64_MIN, INT64_MAX, &i) < 0 &&
	      spar_parse_i64("1-2", 0, 9, &i) < 0);
	CHECK(spar_parse_u64("18446744073709551615", &u) == 0 && u == UINT64_MAX);
	CHECK(spar_parse_u64("18446744073709551616", &u) < 0 && spar_parse_u64("-1", &u) < 0 &&
	      spar_parse_u64("0x1", &u) < 0);
	CHECK(spar_parse_double("1e-4", 0, 1, &d) == 0 && d == 1e-4);
	static const char *const bad[] = {"", "1x", "nan", "inf", "0x1p3", "+1", "1e999", "1.2.3", "-", "e5"};
	for (size_t k = 0; k < sizeof bad / sizeof *bad; k++)
		CHECK(spar_parse_double(bad[k], -DBL_MAX, DBL_MAX, &d) < 0);
}

static void scanner(void)
{
	static const char *const good[] = {"0",    "-0.5e+10",    "\"\\ud83d\"", "[ ]", "{\"a\" : [1, {}], \"b\":null}",
					   "true", "\"\xC3\xBC\""};
	static const struct {
		const char *text, *what;
		size_t at;
	} bad[] = {
	    {"", "unexpected end", 0},
	    {"[1,", "unexpected end", 3},
	    {"01x", NULL, 0}, /* a value, 0, and then rubbish: the caller looks at what is left */
	    {"1.", "unexpected end", 2},
	    {"-x", "bad number", 1},
	    {"NaN", "not a JSON value", 0},
	    {"-Infinity", "bad number", 1},
	    {"[1 2]", "expected ',' or ']'", 3},
	    {"{\"a\"}", "expected ':'", 4},
	    {"{a:1}", "expected a key", 1},
	    {"[1,]", "not a JSON value", 3},
	    {"{\"a\":1,}", "expected a key", 7},
	    {"\"\x01\"", "control character in a string", 1},
	    {"\"\\x\"", "bad escape", 2},
	    {"\"\\u12g4\"", "bad escape", 5},
	    {"\"\xFF\"", "not UTF-8", 1},
	    {"\"\xED\xA0\x80\"", "not UTF-8", 1},
	};
	for (size_t i = 0; i < sizeof good / sizeof *good; i++)
		CHECK(spar_json_skip(good[i], strlen(good[i]), 256, false, NULL, NULL) == strlen(good[i]));
	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
		const char *what = "";
		size_t at = 0, n = spar_json_skip(bad[i].text, strlen(bad[i].text), 256, false, &what, &at);
		if (!bad[i].what) {
			CHECK(n == 1);
			continue;
		}
		CHECK(n == 0 && at == bad[i].at);
		CHECK_STR(what, bad[i].what);
	}
	CHECK(spar_json_skip("\"\xFF\"", 3, 256, true, NULL, NULL) == 3);
	char deep[515];
	memset(deep, '[', 257);
	memset(deep + 257, ']', 257);
	CHECK(spar_json_skip(deep + 1, 512, 256, false, NULL, NULL) == 512);
	CHECK(spar_json_skip(deep, 514, 256, false, NULL, NULL) == 0);
	for (size_t n = 1; n < 24; n++) /* cut anywhere: never a value, never past the end */
		CHECK(spar_json_skip("{\"a\":[1,{\"b\":\"\\u00e4\"}]}", n, 256, false, NULL, NULL) == 0);
}

static void members(void)
{
	static const char object[] = "{ \"a\" : 1 ,\"b,\\\"\":[1,{\"a\":2}], \"\":{} }";
	static const char *const want[] = {"a", "1", "b,\\\"", "[1,{\"a\":2}]", "", "{}"};
	struct spar_json_members m;
	size_t i = 0;
	spar_json_members_init(&m, object, sizeof object - 1);
	for (; i < 6 && spar_json_members_next(&m); i += 2) {
		CHECK(m.key_len == strlen(want[i]) && !memcmp(m.key, want[i], m.key_len));
		CHECK(m.value_len == strlen(want[i + 1]) && !memcmp(m.value, want[i + 1], m.value_len));
	}
	CHECK(i == 6 && !spar_json_members_next(&m));
	spar_json_members_init(&m, "{}", 2);
	CHECK(!spar_json_members_next(&m));
}

static void files(void)
{
	char dir[] = "/tmp/spar-unit-XXXXXX";
	struct spar_err err = {0};
	struct spar_str s = SPAR_STR_INIT;
	struct spar_map map;
	if (!mkdtemp(dir)) {
		CHECK(!"mkdtemp");
		return;
	}
	char *deep = spar_path_join(dir, "a/b/c"), *file = spar_path_join(deep, "f"),
	     *copy = spar_path_join(dir, "copy");
	char *link = spar_path_join(dir, "link");
	CHECK(spar_dir_make(deep, &err) == 0 && spar_dir_make(deep, &err) == 0 && spar_dir_exists(deep));
	CHECK(spar_file_write(file, "hello", 5, &err) == 0 && spar_file_copy(file, copy, &err) == 0);
	CHECK(spar_file_read(copy, 5, &s, &err) == 0);
	CHECK_STR(s.data, "hello");
	CHECK(spar_file_read(copy, 4, &s, &err) == -SPAR_INPUT);
	CHECK(spar_dir_make(copy, &err) < 0 && spar_file_read(dir, 5, &s, &err) < 0);
	CHECK(symlink(copy, link) == 0 && spar_file_write(link, "bye", 3, &err) == 0); /* goes through the link */
	CHECK(spar_map_open(&map, copy, &err) == 0 && map.size == 3 && !memcmp(map.data, "bye", 3));
	spar_map_close(&map);
	FILE *f = spar_file_begin(copy, &err);
	CHECK(f && spar_file_commit(f, copy, false, &err) == 0);
	CHECK(spar_map_open(&map, copy, &err) == 0 && map.size == 3); /* given up: the old file is still there */
	spar_map_close(&map);
	CHECK(spar_file_write("/dev/null", "x", 1, &err) == 0 && !spar_file_exists("/dev/null.tmp"));
	struct stat st;
	CHECK(stat("/dev/null", &st) == 0 && S_ISCHR(st.st_mode));
	CHECK(spar_file_write("/dev/full", "x", 1, &err) == -SPAR_FAIL);

	char *final = spar_path_join(dir, "out"), *inside = spar_path_join(final, "f"),
	     *stale = spar_path_join(dir, "out.tmp.999999999");
	for (int round = 0; round < 2; round++) {
		CHECK(spar_dir_make(stale, &err) == 0);
		char *tmp = spar_dir_begin(final, &err);
		CHECK(!spar_dir_exists(stale)); /* no process has that number */
		if (!tmp) {
			CHECK(!"spar_dir_begin");
			break;
		}
		char *in_tmp = spar_path_join(tmp, "f");
		CHECK(spar_file_write(in_tmp, "1", 1, &err) == 0 && spar_dir_commit(tmp, final, &err) == 0);
		CHECK(spar_file_exists(inside) && !spar_dir_exists(tmp));
		free(in_tmp);
		free(tmp);
	}
#ifdef __linux__
	/* A process that has ended, though its parent has not asked yet. */
	pid_t ended = fork();
	if (ended == 0)
		_exit(0);
	siginfo_t how;
	CHECK(ended > 0 && waitid(P_PID, (id_t)ended, &how, WEXITED | WNOWAIT) == 0);
	char number[32];
	snprintf(number, sizeof(number), "out.tmp.%ld", (long)ended);
	char *its = spar_path_join(dir, number), *mine = NULL;
	CHECK(spar_dir_make(its, &err) == 0 && (mine = spar_dir_begin(final, &err)) && !spar_dir_exists(its));
	CHECK(mine && spar_dir_remove(mine, &err) == 0 && waitpid(ended, NULL, 0) == ended);
	free(mine);
	free(its);
#endif
	/* Killed between the two renames: the old folder goes back to its place. */
	char *old = spar_path_join(dir, "out.tmp.999999999.old");
	CHECK(rename(final, old) == 0);
	char *tmp = spar_dir_begin(final, &err);
	CHECK(tmp && spar_file_exists(inside));
	CHECK(spar_dir_remove(dir, &err) == 0 && !spar_dir_exists(dir) && spar_dir_remove(dir, &err) == 0);
	free(tmp);
	free(old);
	free(stale);
	free(inside);
	free(final);
	free(link);
	free(copy);
	free(file);
	free(deep);
	spar_str_release(&s);
}

int main(void)
{
	errors();
	strings();
	numbers();
	scanner();
	members();
	files();
	return unit_done();
}
