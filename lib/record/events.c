/* events.c - see events.h */
#include "record/events.h"
#include "base/file.h"
#include "base/str.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define FILE_NAME "events.out.tfevents.spar" /* TensorBoard wants "tfevents" in it */
#define FILE_VERSION "brain.Event:2"
#define FILE_MAX ((size_t)1 << 32)

enum wire { VARINT = 0, FIXED64 = 1, BYTES = 2, FIXED32 = 5 };
enum event_field { EVENT_WALL_TIME = 1, EVENT_STEP = 2, EVENT_FILE_VERSION = 3, EVENT_SUMMARY = 5 };
enum { SUMMARY_VALUE = 1, VALUE_TAG = 1, VALUE_SIMPLE = 2 };

/* The last step of a tag that the file holds. */
struct seen {
	char *tag;
	int64_t step;
};

struct spar_events {
	char *path;
	FILE *file;
	struct seen *seen;
	size_t n_seen, n_added;
	struct spar_str frame, value, summary; /* what is being written */
};

/* ---- frames ---- */

uint32_t spar_crc32c(const void *bytes, size_t n)
{
	const unsigned char *p = bytes;
	uint32_t crc = ~0U;
	while (n--) {
		crc ^= *p++;
		for (int bit = 0; bit < 8; bit++)
			crc = crc >> 1 ^ (crc & 1 ? 0x82f63b78U : 0);
	}
	return ~crc;
}

static uint32_t masked_crc(const void *bytes, size_t n)
{
	uint32_t crc = spar_crc32c(bytes, n);
	return (crc >> 15 | crc << 17) + 0xa282ead8U;
}

static void add_little(struct spar_str *out, uint64_t v, int n_bytes)
{
	for (int i = 0; i < n_bytes; i++)
		spar_str_addc(out, (int)(v >> 8 * i & 0xff));
}

static uint64_t little(const char *p, int n_bytes)
{
	uint64_t v = 0;
	for (int i = 0; i < n_bytes; i++)
		v |= (uint64_t)(unsigned char)p[i] << 8 * i;
	return v;
}

static void write_frame(struct spar_events *e, const struct spar_str *payload)
{
	struct spar_str edge = SPAR_STR_INIT;
	add_little(&edge, payload->len, 8);
	add_little(&edge, masked_crc(edge.data, 8), 4);
	fwrite(edge.data, 1, edge.len, e->file);
	fwrite(payload->data, 1, payload->len, e->file);
	spar_str_clear(&edge);
	add_little(&edge, masked_crc(payload->data, payload->len), 4);
	fwrite(edge.data, 1, edge.len, e->file);
	spar_str_release(&edge);
}

/* ---- protocol buffers: writing ---- */

static void add_varint(struct spar_str *out, uint64_t v)
{
	for (; v >= 0x80; v >>= 7)
		spar_str_addc(out, (int)(v & 0x7f) | 0x80);
	spar_str_addc(out, (int)v);
}

static void add_key(struct spar_str *out, int field, enum wire wire)
{
	add_varint(out, (uint64_t)field << 3 | wire);
}

static void add_bytes(struct spar_str *out, int field, const void *bytes, size_t n)
{
	add_key(out, field, BYTES);
	add_varint(out, n);
	spar_str_add(out, bytes, n);
}

static void add_double(struct spar_str *out, int field, double v)
{
	uint64_t bits;
	memcpy(&bits, &v, sizeof bits);
	add_key(out, field, FIXED64);
	add_little(out, bits, 8);
}

static void add_float(struct spar_str *out, int field, float v)
{
	uint32_t bits;
	memcpy(&bits, &v, sizeof bits);
	add_key(out, field, FIXED32);
	add_little(out, bits, 4);
}

/* ---- protocol buffers: reading ---- */

struct field {
	uint64_t number, value; /* value: of a number; of BYTES their count */
	const char *bytes;
};

static bool read_varint(const char **p, const char *end, uint64_t *out)
{
	*out = 0;
	for (int shift = 0; *p < end && shift < 64; shift += 7) {
		unsigned char byte = (unsigned char)*(*p)++;
		*out |= (uint64_t)(byte & 0x7f) << shift;
		if (byte < 0x80)
			return true;
	}
	return false;
}

/* The next field; false at the end, or where there is none. */
static bool next_field(const char **p, const char *end, struct field *f)
{
	uint64_t key;
	if (!read_varint(p, end, &key))
		return false;
	*f = (struct field){.number = key >> 3, .bytes = *p};
	size_t left = (size_t)(end - *p), n;
	switch (key & 7) {
	case VARINT:
		return read_varint(p, end, &f->value);
	case FIXED64:
		n = 8;
		break;
	case FIXED32:
		n = 4;
		break;
	case BYTES:
		if (!read_varint(p, end, &f->value) || f->value > (size_t)(end - *p))
			return false;
		f->bytes = *p;
		*p += f->value;
		return true;
	default:
		return false;
	}
	if (n > left)
		return false;
	f->value = little(*p, (int)n);
	*p += n;
	return true;
}

/* ---- what is there ---- */

static struct seen *find(struct spar_events *e, const char *tag, size_t n)
{
	for (size_t i = 0; i < e->n_seen; i++)
		if (strlen(e->seen[i].tag) == n && !memcmp(e->seen[i].tag, tag, n))
			return &e->seen[i];
	e->seen = spar_realloc(e->seen, (e->n_seen + 1) * sizeof *e->seen);
	struct spar_str name = SPAR_STR_INIT;
	spar_str_add(&name, tag, n);
	e->seen[e->n_seen] = (struct seen){spar_str_detach(&name), INT64_MIN};
	return &e->seen[e->n_seen++];
}

static void learn_value(struct spar_events *e, const char *p, const char *end, int64_t step)
{
	struct field f;
	while (next_field(&p, end, &f))
		if (f.number == VALUE_TAG) {
			struct seen *s = find(e, f.bytes, (size_t)f.value);
			s->step = step > s->step ? step : s->step;
		}
}

static void learn(struct spar_events *e, const char *p, size_t n)
{
	const char *end = p + n, *summary = NULL, *summary_end = NULL;
	int64_t step = 0;
	struct field f;
	while (next_field(&p, end, &f)) {
		if (f.number == EVENT_STEP)
			step = (int64_t)f.value;
		if (f.number == EVENT_SUMMARY) {
			summary = f.bytes;
			summary_end = f.bytes + f.value;
		}
	}
	while (summary && next_field(&summary, summary_end, &f))
		if (f.number == SUMMARY_VALUE)
			learn_value(e, f.bytes, f.bytes + f.value, step);
}

/* Go through the frames; *whole becomes where the last whole one ends. */
static int learn_all(struct spar_events *e, const struct spar_str *text, size_t *whole, struct spar_err *err)
{
	const char *p = text->data, *end = p + text->len;
	while (end - p >= 12) {
		uint64_t n = little(p, 8);
		if (little(p + 8, 4) != masked_crc(p, 8))
			return spar_fail(err, SPAR_INPUT, "%s: no event at byte %zu", e->path,
					 (size_t)(p - text->data));
		if (n > FILE_MAX || (size_t)(end - p) < 16 + n)
			break;
		if (little(p + 12 + n, 4) != masked_crc(p + 12, n))
			return spar_fail(err, SPAR_INPUT, "%s: the event at byte %zu is damaged", e->path,
					 (size_t)(p - text->data));
		learn(e, p + 12, n);
		p += 16 + n;
	}
	*whole = (size_t)(p - text->data);
	return 0;
}

/* ---- the file ---- */

static void write_version(struct spar_events *e)
{
	spar_str_clear(&e->frame);
	add_double(&e->frame, EVENT_WALL_TIME, 0);
	add_bytes(&e->frame, EVENT_FILE_VERSION, FILE_VERSION, strlen(FILE_VERSION));
	write_frame(e, &e->frame);
}

/* Through the stream itself: closing another one of the same file would give up the lock. */
static void read_file(FILE *file, struct spar_str *text)
{
	size_t n;
	rewind(file);
	do {
		spar_str_reserve(text, 65536);
		n = fread(text->data + text->len, 1, 65536, file);
		text->len += n;
	} while (n);
	fseek(file, 0, SEEK_END); /* between reading and writing */
}

static int open_file(struct spar_events *e, struct spar_err *err)
{
	struct flock whole_file = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
	struct spar_str text = SPAR_STR_INIT;
	size_t whole = 0;
	if (!(e->file = fopen(e->path, "a+")))
		return spar_fail(err, SPAR_FAIL, "%s: %s", e->path, strerror(errno));
	if (fcntl(fileno(e->file), F_SETLK, &whole_file) < 0)
		return spar_fail(err, SPAR_FAIL, "%s: another process writes to it", e->path);
	read_file(e->file, &text);
	int rc = learn_all(e, &text, &whole, err);
	if (rc == 0 && whole < text.len && ftruncate(fileno(e->file), (off_t)whole) < 0)
		rc = spar_fail(err, SPAR_FAIL, "%s: %s", e->path, strerror(errno));
	spar_str_release(&text);
	if (rc == 0 && !whole)
		write_version(e);
	return rc;
}

int spar_events_open(struct spar_events **out, const char *dir, struct spar_err *err)
{
	struct spar_events *e = *out = spar_calloc(1, sizeof *e);
	spar_str_init(&e->frame);
	spar_str_init(&e->value);
	spar_str_init(&e->summary);
	e->path = spar_path_join(dir, FILE_NAME);
	int rc = spar_dir_make(dir, err);
	if (rc == 0)
		rc = open_file(e, err);
	if (rc < 0) {
		spar_events_close(e, NULL);
		*out = NULL;
	}
	return rc;
}

void spar_events_add(struct spar_events *e, const char *tag, int64_t step, double wall_s, double value)
{
	struct seen *s = find(e, tag, strlen(tag));
	if (step <= s->step)
		return;
	s->step = step;
	e->n_added++;
	spar_str_clear(&e->value);
	add_bytes(&e->value, VALUE_TAG, tag, strlen(tag));
	add_float(&e->value, VALUE_SIMPLE, (float)value);
	spar_str_clear(&e->summary);
	add_bytes(&e->summary, SUMMARY_VALUE, e->value.data, e->value.len);
	spar_str_clear(&e->frame);
	add_double(&e->frame, EVENT_WALL_TIME, wall_s);
	add_key(&e->frame, EVENT_STEP, VARINT);
	add_varint(&e->frame, (uint64_t)step);
	add_bytes(&e->frame, EVENT_SUMMARY, e->summary.data, e->summary.len);
	write_frame(e, &e->frame);
}

size_t spar_events_added(const struct spar_events *e)
{
	return e->n_added;
}

int spar_events_close(struct spar_events *e, struct spar_err *err)
{
	int rc = 0;
	if (!e)
		return 0;
	if (e->file) {
		bool failed = ferror(e->file);
		if (fclose(e->file) || failed)
			rc = spar_fail(err, SPAR_FAIL, "%s: %s", e->path, failed ? "write failed" : strerror(errno));
	}
	for (size_t i = 0; i < e->n_seen; i++)
		free(e->seen[i].tag);
	free(e->seen);
	spar_str_release(&e->frame);
	spar_str_release(&e->value);
	spar_str_release(&e->summary);
	free(e->path);
	free(e);
	return rc;
}
