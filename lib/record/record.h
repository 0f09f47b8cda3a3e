/* record.h - one JSON object per line, and the loop that every filter shares.
 *
 * Records are spliced, not reprinted: a tool reads `value` (libjq) and registers keys it owns; what is written is the
 * original bytes with those members put in before the closing brace (or, where the key was there, in its place). So
 * everything a tool does not own passes through byte for byte.
 *
 *	struct spar_filter f = SPAR_FILTER_INIT("score");
 *	const struct spar_opt table[] = {..., SPAR_FILTER_OPTIONS(f), SPAR_OPT_END};
 *	...
 *	if (spar_filter_open(&f, NULL) < 0) return spar_filter_finish(&f, -1);
 *	while ((rc = spar_filter_next(&f, &rec)) > 0) {
 *		if (!spar_record_is(rec, "rollout")) { rc = spar_filter_put(&f, rec); ... continue; }
 *		rc = score_one(&opt, rec, &f.err);           // fills f.err on bad input: message WITHOUT the place
 *		if (rc < 0) rc = spar_filter_reject(&f, rec);  // adds "file:line: "; 0 if --skip-bad took it, else < 0
 *		else rc = spar_filter_put(&f, rec);
 *		if (rc < 0) break;
 *	}
 *	return spar_filter_finish(&f, rc);               // flush, close, print the error, exit code
 */
#ifndef SPAR_RECORD_RECORD_H
#define SPAR_RECORD_RECORD_H

#include "base/err.h"
#include "base/opt.h"
#include "base/str.h"
#include "record/stream.h"
#include <jv.h>
#include <stdbool.h>
#include <stdint.h>

struct spar_record {
	struct spar_str text; /* the line as it came */
	jv value;             /* the object; borrowed by accessors, copied (jv_copy) by who keeps it */
	const char *type;     /* .type, or "" if absent; borrowed from value */
	size_t line;          /* 1-based line number in its stream */
	struct spar_edit *edits;
	size_t n_edits;
};

void spar_record_init(struct spar_record *r);
void spar_record_release(struct spar_record *r);

/*! Read a line into `r` (which is reused): valid UTF-8 JSON by RFC 8259, one object, depth at most 256, no NaN,
 *  `type` a string if present. SPAR_INPUT otherwise, with the offset. */
int spar_record_parse(struct spar_record *r, const char *line, size_t len, struct spar_err *err);

bool spar_record_is(const struct spar_record *r, const char *type);

/*! Own the member `key`: its value becomes the JSON text `json` (copied) when written. The last call for a key counts. */
void spar_record_set(struct spar_record *r, const char *key, const char *json, size_t n);
void spar_record_set_double(struct spar_record *r, const char *key, double v); /* finite, or null is written */
void spar_record_set_str(struct spar_record *r, const char *key, const char *cstr);

/*! The line to write: the original bytes with the edits applied, appended to `out`. */
void spar_record_text(const struct spar_record *r, struct spar_str *out);

/* ---- the filter loop ---- */

struct spar_filter {
	const char *tool;
	struct spar_err err;
	/* options */
	const char *save, *rejects;
	bool skip_bad, quiet;
	/* state */
	struct spar_reader *in;
	struct spar_writer *out, *save_out, *rejects_out;
	struct spar_record rec;
	struct spar_str line;
	uint64_t n_in, n_out, n_bad, n_said;
};
/* clang-format off */
#define SPAR_FILTER_INIT(name) {.tool = (name)}
/* clang-format on */
#define SPAR_FILTER_OPTIONS(f) \
	SPAR_OPT_STR("save", 0, &(f).save, "FILE", "keep a copy of what is emitted; zstd if FILE ends in .zst"), \
	    SPAR_OPT_FLAG("skip-bad", 0, &(f).skip_bad, "go on after a bad record; they are counted"), \
	    SPAR_OPT_STR("rejects", 0, &(f).rejects, "FILE", "keep the refused lines here (with --skip-bad)"), \
	    SPAR_OPT_FLAG("quiet", 'q', &(f).quiet, "no progress, no summary")

/*! Open input (path NULL: standard input), standard output, --save and --rejects. */
int spar_filter_open(struct spar_filter *f, const char *path);

/*! Next parsed record: 1, 0 at the end, < 0 failed (f->err filled, place included). Lines that do not parse are
 *  rejected here under --skip-bad. *rec is valid until the next call. */
int spar_filter_next(struct spar_filter *f, struct spar_record **rec);

/*! Write the record (edits applied) to standard output and --save. `batch` records are flushed at once; so is anything
 *  when no further input is waiting. */
int spar_filter_put(struct spar_filter *f, const struct spar_record *rec);

/*! Write a line made by the tool itself. */
int spar_filter_put_line(struct spar_filter *f, const char *line, size_t n);

/*! Make all that was written readable: in the copy of --save first, so that it holds whatever downstream has acted on. */
int spar_filter_flush(struct spar_filter *f);

/*! The record is bad; f->err holds why. See the example above. */
int spar_filter_reject(struct spar_filter *f, const struct spar_record *rec);

/*! Something is wrong with the record, but it stays in the stream: print f->err as a warning with its place (the first ten
 *  only) and clear it. The caller counts. */
void spar_filter_complain(struct spar_filter *f, const struct spar_record *rec);

/*! rc < 0: print f->err, nothing claimed; else close everything and report a failed write. Says how many records were
 *  refused. Returns the exit code: with --skip-bad and refusals it is SPAR_OK. */
int spar_filter_finish(struct spar_filter *f, int rc);

/* ---- accessors: `obj` is borrowed; the message names the field as ".path.key: expected number, got string" ----
 * `path` is what stands before the key in messages ("" at the top, "turns[3]" inside). */
int spar_get_double(jv obj, const char *path, const char *key, double *out, struct spar_err *err); /* finite */
int spar_get_i64(jv obj, const char *path, const char *key, int64_t *out, struct spar_err *err);   /* |v| <= 2^53 */
/*! A number within 2^53, or a string of decimal digits. */
int spar_get_u64(jv obj, const char *path, const char *key, uint64_t *out, struct spar_err *err);
int spar_get_bool(jv obj, const char *path, const char *key, bool *out, struct spar_err *err);
/*! *out points into the jv string: valid while `obj` lives. */
int spar_get_str(jv obj, const char *path, const char *key, const char **out, size_t *len, struct spar_err *err);
/*! *out is a NEW reference (jv_free it); kind must match. */
int spar_get_kind(jv obj, const char *path, const char *key, jv_kind kind, jv *out, struct spar_err *err);
/*! Arrays of numbers, malloc'ed, caller frees; ids must be integers in [0, 2^31). */
int spar_get_ids(jv obj, const char *path, const char *key, int32_t **out, size_t *n, struct spar_err *err);
int spar_get_floats(jv obj, const char *path, const char *key, float **out, size_t *n, struct spar_err *err);
int spar_get_doubles(jv obj, const char *path, const char *key, double **out, size_t *n, struct spar_err *err);
/*! True if the key is there and not null. */
bool spar_has(jv obj, const char *key);
const char *spar_kind_name(jv v); /* "null", "boolean", "number", "string", "array", "object"; borrows v */

#endif
