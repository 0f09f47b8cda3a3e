/* object.h - a file that holds one JSON object (config.json, tokenizer.json, ...) as a libjq value. Read its fields
 * with the accessors of record.h. */
#ifndef SPAR_RECORD_OBJECT_H
#define SPAR_RECORD_OBJECT_H

#include "base/err.h"
#include <jv.h>
#include <stdbool.h>

/*! Read and check the file (RFC 8259, UTF-8, at most 256 MiB). *out is a NEW reference. SPAR_FAIL if it cannot be read,
 *  SPAR_INPUT if it is not a JSON object; both name the path, the latter the offset too. */
int spar_object_read(const char *path, jv *out, struct spar_err *err);

/*! Member `key` of tokenizer_config.json (borrowed) that names a token: a string is written there as it is or as the
 *  "content" of an object. A NEW reference to what was found, whatever its kind; invalid if the key is absent. */
jv spar_object_token(jv config, const char *key);

/*! Does `v` (borrowed) ask for nothing: invalid (absent), null, false, or an empty array or object? */
bool spar_object_is_off(jv v);

#endif
