/* events.h - figures as TensorBoard reads them: a folder with one file of events, to which a later run appends.
 *
 *	struct spar_events *e;
 *	spar_events_open(&e, "board/answerer", &err);
 *	spar_events_add(e, "loss", step, wall_s, value);        // nothing happens if it is there already
 *	rc = spar_events_close(e, &err);
 *
 * A file is a sequence of frames (TensorFlow's record format): length (8 bytes), its masked CRC-32C (4), the payload, its
 * masked CRC-32C (4), all little-endian. A payload is a protocol buffer of type Event:
 *	wall_time = 1 (double, s since 1970), step = 2 (int64), file_version = 3 (string, the first event's only),
 *	summary = 5 { value = 1 { tag = 1 (string), simple_value = 2 (float) } }
 * Masked means ((crc >> 15) | (crc << 17)) + 0xa282ead8. */
#ifndef SPAR_RECORD_EVENTS_H
#define SPAR_RECORD_EVENTS_H

#include "base/err.h"
#include <stddef.h>
#include <stdint.h>

struct spar_events; /* opaque */

/*! Open the file of `dir`, making both if they are not there, and learn which steps of which tags it holds. A last frame that
 *  was cut short (its writer was killed) is cut off. SPAR_INPUT if the file holds anything else; SPAR_FAIL if it cannot be
 *  opened or another process is writing to it. */
int spar_events_open(struct spar_events **out, const char *dir, struct spar_err *err);

/*! Add one figure, unless the tag has this step or a later one already: so whoever goes through the same figures again adds only
 *  what is new. A failed write is reported by close. */
void spar_events_add(struct spar_events *e, const char *tag, int64_t step, double wall_s, double value);

size_t spar_events_added(const struct spar_events *e);

/*! Frees `e` also on failure; NULL is fine. */
int spar_events_close(struct spar_events *e, struct spar_err *err);

/*! CRC-32C (Castagnoli: reflected polynomial 0x82f63b78, initial value and final xor ~0). */
uint32_t spar_crc32c(const void *bytes, size_t n);

#endif
