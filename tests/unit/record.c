/* Reading a record's fields, and writing it back with edits. */
#include "record/record.h"
#include "unit.h"

#include <stdlib.h>

static struct spar_err err;

static int parse(struct spar_record *r, const char *line)
{
	err = (struct spar_err){0};
	return spar_record_parse(r, line, strlen(line), &err);
}

static void depth(struct spar_record *r)
{
	char line[600] = "{\"a\":";
	memset(line + 5, '[', 254);
	memset(line + 259, ']', 254);
	strcpy(line + 513, "}");
	CHECK(parse(r, line) == 0); /* the object counts twice */
	strcpy(line + 513, "");
	memmove(line + 6, line + 5, 508);
	strcpy(line + 514, "]}");
	CHECK(parse(r, line) == -SPAR_INPUT);
	CHECK_STR(err.msg, "not JSON: Exceeds depth limit for parsing at line 1, column 260");
	memset(line, '[', 257);
	CHECK(parse(r, line) == -SPAR_INPUT);
	CHECK_STR(err.msg, "not JSON: byte 257: nested too deep");
}

static void numbers(jv v)
{
	double d;
	int64_t i;
	uint64_t u;
	bool b;
	CHECK(spar_get_double(v, "", "half", &d, &err) == 0 && d == 0.5);
	CHECK(spar_get_double(v, "turns[3]", "no", &d, &err) == -SPAR_INPUT);
	CHECK_STR(err.msg, ".turns[3].no: expected number, got nothing");
	CHECK(spar_get_double(v, "", "s", &d, &err) == -SPAR_INPUT);
	CHECK_STR(err.msg, ".s: expected number, got string");
	CHECK(spar_get_i64(v, "", "int", &i, &err) == 0 && i == -7);
	CHECK(spar_get_i64(v, "", "half", &i, &err) == -SPAR_INPUT);
	CHECK_STR(err.msg, ".half: expected a whole number within 2^53, got 0.5");
	CHECK(spar_get_i64(v, "", "big", &i, &err) == -SPAR_INPUT);
	CHECK(spar_get_u64(v, "", "seed", &u, &err) == 0 && u == UINT64_MAX);
	CHECK(spar_get_u64(v, "", "n", &u, &err) == 0 && u == 12);
	CHECK(spar_get_u64(v, "", "int", &u, &err) < 0 && spar_get_u64(v, "", "s", &u, &err) < 0);
	CHECK(spar_get_u64(v, "", "big", &u, &err) < 0 && spar_get_u64(v, "", "null", &u, &err) < 0);
	CHECK(spar_get_bool(v, "", "yes", &b, &err) == 0 && b);
	CHECK(spar_get_bool(v, "", "n", &b, &err) == -SPAR_INPUT);
	CHECK_STR(err.msg, ".n: expected boolean, got number");
}

static void strings_and_arrays(jv v)
{
	const char *s;
	size_t n;
	int32_t *ids = NULL;
	float *floats = NULL;
	jv a;
	CHECK(spar_get_str(v, "", "s", &s, &n, &err) == 0 && n == 3 && !memcmp(s, "a\0b", 4));
	CHECK(spar_get_ids(v, "", "ids", &ids, &n, &err) == 0 && n == 3 && ids[2] == 2147483647);
	free(ids);
	CHECK(spar_get_floats(v, "", "ids", &floats, &n, &err) == 0 && n == 3 && floats[1] == 5);
	free(floats);
	CHECK(spar_get_ids(v, "", "empty", &ids, &n, &err) == 0 && n == 0);
	free(ids);
	CHECK(spar_get_ids(v, "", "bad", &ids, &n, &err) == -SPAR_INPUT);
	CHECK_STR(err.msg, ".bad[1]: expected a token id, got 0.5");
	CHECK(spar_get_floats(v, "turns[0]", "nulls", &floats, &n, &err) == -SPAR_INPUT);
	CHECK_STR(err.msg, ".turns[0].nulls[0]: expected number, got null");
	CHECK(spar_get_floats(v, "", "big", &floats, &n, &err) == -SPAR_INPUT);
	CHECK(spar_get_kind(v, "", "ids", JV_KIND_OBJECT, &a, &err) == -SPAR_INPUT);
	CHECK_STR(err.msg, ".ids: expected object, got array");
	CHECK(spar_has(v, "s") && !spar_has(v, "null") && !spar_has(v, "no"));
	CHECK(!spar_has(jv_null(), "s") && spar_get_str(jv_true(), "", "s", &s, &n, &err) == -SPAR_INPUT);
}

static void edits(struct spar_record *r)
{
	struct spar_str out = SPAR_STR_INIT;
	CHECK(parse(r, " {\"type\":\"x\",\"b\":[1, 2],\"a\":1} ") == 0 && spar_record_is(r, "x"));
	spar_record_set_str(r, "new\"key", "v\n");
	spar_record_set_double(r, "a", 2.5);
	spar_record_set(r, "b", "{}", 2);
	spar_record_set_double(r, "a", 1e300 * 1e300); /* the last call counts; what is not finite is null */
	spar_record_text(r, &out);
	CHECK_STR(out.data, " {\"type\":\"x\",\"b\":{},\"a\":null,\"new\\\"key\":\"v\\n\"} ");
	spar_str_clear(&out);
	CHECK(parse(r, "{}") == 0 && !*r->type); /* the edits went with their record */
	spar_record_text(r, &out);
	CHECK_STR(out.data, "{}");
	spar_str_release(&out);
}

int main(void)
{
	struct spar_record r;
	spar_record_init(&r);
	depth(&r);
	CHECK(parse(&r,
		    "{\"half\":0.5,\"int\":-7,\"big\":9007199254740993e3,\"seed\":\"18446744073709551615\",\"n\":12,"
		    "\"yes\":true,\"null\":null,\"s\":\"a\\u0000b\",\"ids\":[0,5,2147483647],\"empty\":[],"
		    "\"bad\":[1,0.5],\"nulls\":[null]}") == 0);
	numbers(r.value);
	strings_and_arrays(r.value);
	edits(&r);
	spar_record_release(&r);
	return unit_done();
}
