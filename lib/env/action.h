/* action.h - from what a model wrote to the object it meant: shared by all environments, so that every client, which
 * sends the raw text, parses alike. */
#ifndef SPAR_ENV_ACTION_H
#define SPAR_ENV_ACTION_H

#include <jv.h>
#include <stddef.h>

/*! The first complete JSON object (RFC 8259, at most 32 deep) that starts at one of the first 64 '{' in the first 16384
 *  bytes. What stands around it is ignored: prose, code fences, further objects, an enclosing array. Bytes that are
 *  not UTF-8 are read as U+FFFD. Linear time. A NEW reference, or jv_invalid() when there is none. */
jv spar_action_find(const char *text, size_t n);

#endif
