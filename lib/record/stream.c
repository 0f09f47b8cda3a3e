#include "record/stream.h"
#include "base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zstd.h>
#include <zstd_errors.h>

#define BLOCK ((size_t)1 << 17)        /* bytes read or decoded at a time: zstd's own block size */
#define WINDOW_MAX ((uint64_t)1 << 27) /* bytes a zstd frame may make us keep */
#define FRAME_HEAD 6                   /* first bytes of a frame: magic, descriptor, window */
#define MAGIC_ZSTD 0xFD2FB528u
#define MAGIC_SKIP 0x184D2A50u /* to ...5F */

/* ---- reading ---- */

enum kind { KIND_UNKNOWN, KIND_PLAIN, KIND_ZSTD };

struct spar_reader {
	char *name;
	int fd;
	enum kind kind;
	size_t line;
	bool eof;      /* the source has no more bytes */
	bool bom_seen; /* the very start is behind us */

	/* decoded text: data[start..end), searched for a newline up to `scanned` */
	char *data;
	size_t cap, start, scanned, end;

	/* zstd only: bytes read and not yet decoded, and where the decoder stands */
	ZSTD_DStream *zstd;
	uint8_t *raw;
	size_t raw_pos, raw_end;
	bool in_frame; /* a frame has begun and not ended */
	bool more_out; /* the decoder holds text that did not fit */
	uint8_t head[FRAME_HEAD];
	size_t n_head;
};

int spar_reader_open(struct spar_reader **out, const char *path, struct spar_err *err)
{
	bool standard = !path || !strcmp(path, "-");
	int fd = standard ? STDIN_FILENO : open(path, O_RDONLY | O_CLOEXEC);
	*out = NULL;
	if (fd < 0)
		return spar_fail(err, SPAR_FAIL, "%s: %s", path, strerror(errno));
	struct spar_reader *r = spar_calloc(1, sizeof *r);
	r->name = spar_strdup(standard ? "<stdin>" : path);
	r->fd = fd;
	*out = r;
	return 0;
}

void spar_reader_close(struct spar_reader *r)
{
	if (!r)
		return;
	if (r->fd != STDIN_FILENO)
		close(r->fd);
	ZSTD_freeDStream(r->zstd);
	free(r->raw);
	free(r->data);
	free(r->name);
	free(r);
}

const char *spar_reader_name(const struct spar_reader *r)
{
	return r->name;
}

size_t spar_reader_line(const struct spar_reader *r)
{
	return r->line;
}

/* Bytes from the source, at least one unless it has ended (then r->eof). */
static int read_some(struct spar_reader *r, void *to, size_t room, size_t *got, struct spar_err *err)
{
	ssize_t n;
	spar_wait_input(r->fd, -1);
	do
		n = read(r->fd, to, room);
	while (n < 0 && errno == EINTR);
	if (n < 0)
		return spar_fail(err, SPAR_FAIL, "%s: %s", r->name, strerror(errno));
	*got = (size_t)n;
	r->eof = n == 0;
	return 0;
}

/* Room for a block behind the text. The unread part moves to the front at most once per block, and a line that fills
 * the buffer doubles it, so a long line costs linear time. */
static int make_room(struct spar_reader *r, struct spar_err *err)
{
	if (r->start) {
		memmove(r->data, r->data + r->start, r->end - r->start);
		r->end -= r->start;
		r->scanned -= r->start;
		r->start = 0;
	}
	if (r->end > SPAR_LINE_MAX)
		return spar_fail(err, SPAR_INPUT, "%s:%zu: line longer than %zu bytes", r->name, r->line + 1,
				 SPAR_LINE_MAX);
	if (r->cap - r->end >= BLOCK)
		return 0;
	size_t cap = r->cap ? 2 * r->cap : 2 * BLOCK;
	char *data = realloc(r->data, cap);
	if (!data)
		return spar_fail(err, SPAR_FAIL, "%s:%zu: no memory for a line of %zu bytes", r->name, r->line + 1,
				 r->end);
	r->data = data;
	r->cap = cap;
	return 0;
}

static bool is_magic(const uint8_t *p)
{
	uint32_t magic = p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
	return magic == MAGIC_ZSTD || (magic & 0xFFFFFFF0u) == MAGIC_SKIP;
}

/* The first four bytes decide. They are read into the text; if they are a magic number they move to `raw`. */
static int detect(struct spar_reader *r, struct spar_err *err)
{
	int rc = make_room(r, err);
	while (rc == 0 && !r->eof && r->end < 4) {
		size_t got = 0;
		rc = read_some(r, r->data + r->end, BLOCK - r->end, &got, err);
		r->end += got;
	}
	if (rc < 0)
		return rc;
	r->kind = KIND_PLAIN;
	if (r->end < 4 || !is_magic((const uint8_t *)r->data))
		return 0;
	r->kind = KIND_ZSTD;
	r->raw = spar_malloc(BLOCK);
	memcpy(r->raw, r->data, r->end);
	r->raw_end = r->end;
	r->end = 0;
	r->zstd = ZSTD_createDStream();
	if (!r->zstd)
		return spar_fail(err, SPAR_FAIL, "%s: no memory for zstd", r->name);
	return 0;
}

/* RFC 8878, 3.1.1.1.2; a frame without the descriptor says its size instead, which is not worth a second formula. */
static uint64_t window_size(const struct spar_reader *r)
{
	if (r->n_head < FRAME_HEAD || r->head[4] & 0x20)
		return 0;
	uint64_t base = (uint64_t)1 << (10 + (r->head[5] >> 3));
	return base + base / 8 * (r->head[5] & 7);
}

static int zstd_failed(const struct spar_reader *r, size_t code, struct spar_err *err)
{
	uint64_t window = window_size(r);
	switch (ZSTD_getErrorCode(code)) {
	case ZSTD_error_frameParameter_windowTooLarge:
		if (window)
			return spar_fail(err, SPAR_INPUT,
					 "%s: zstd frame needs a window of %llu bytes, the limit is %llu", r->name,
					 (unsigned long long)window, (unsigned long long)WINDOW_MAX);
		return spar_fail(err, SPAR_INPUT, "%s: zstd frame needs a window larger than %llu bytes", r->name,
				 (unsigned long long)WINDOW_MAX);
	case ZSTD_error_prefix_unknown:
		return spar_fail(err, SPAR_INPUT,
				 "%s: after line %zu: bytes that are no zstd frame follow a zstd frame", r->name,
				 r->line);
	default:
		return spar_fail(err, SPAR_INPUT, "%s: after line %zu: broken zstd frame: %s", r->name, r->line,
				 ZSTD_getErrorName(code));
	}
}

static void remember_head(struct spar_reader *r, size_t from, size_t to)
{
	if (!r->in_frame)
		r->n_head = 0;
	while (from < to && r->n_head < FRAME_HEAD)
		r->head[r->n_head++] = r->raw[from++];
}

/* One step of the decoder: from raw to text, reading only if it has nothing left to work on. */
static int decode(struct spar_reader *r, struct spar_err *err)
{
	if (r->raw_pos == r->raw_end && !r->more_out) {
		r->raw_pos = r->raw_end = 0;
		int rc = read_some(r, r->raw, BLOCK, &r->raw_end, err);
		if (rc < 0)
			return rc;
		if (r->eof && r->in_frame)
			return spar_fail(err, SPAR_INPUT, "%s: after line %zu: cut off inside a zstd frame", r->name,
					 r->line);
		if (r->eof)
			return 0;
	}
	ZSTD_inBuffer in = {r->raw, r->raw_end, r->raw_pos};
	ZSTD_outBuffer out = {r->data, r->cap, r->end};
	size_t left = ZSTD_decompressStream(r->zstd, &out, &in);
	remember_head(r, r->raw_pos, ZSTD_isError(left) ? r->raw_end : in.pos);
	if (ZSTD_isError(left))
		return zstd_failed(r, left, err);
	r->in_frame = left != 0;
	r->more_out = out.pos == out.size && left != 0;
	r->raw_pos = in.pos;
	r->end = out.pos;
	return 0;
}

/* More text, or r->eof. */
static int fill(struct spar_reader *r, struct spar_err *err)
{
	if (r->kind == KIND_UNKNOWN)
		return detect(r, err);
	int rc = make_room(r, err);
	if (rc < 0)
		return rc;
	if (r->kind == KIND_ZSTD)
		return decode(r, err);
	size_t got = 0;
	rc = read_some(r, r->data + r->end, r->cap - r->end, &got, err);
	r->end += got;
	return rc;
}

/* Where the first newline of the text is, or NULL. What was searched before is not searched again. */
static char *find_newline(struct spar_reader *r)
{
	char *nl = r->end > r->scanned ? memchr(r->data + r->scanned, '\n', r->end - r->scanned) : NULL;
	r->scanned = nl ? (size_t)(nl - r->data) : r->end;
	return nl;
}

static bool is_blank(const char *p, size_t n)
{
	while (n && (*p == ' ' || *p == '\t')) {
		p++;
		n--;
	}
	return n == 0;
}

int spar_reader_next(struct spar_reader *r, const char **line, size_t *len, struct spar_err *err)
{
	for (;;) {
		char *nl;
		while (!(nl = find_newline(r)) && !r->eof) {
			int rc = fill(r, err);
			if (rc < 0)
				return rc;
		}
		if (r->start == r->end)
			return 0;
		char *text = r->data + r->start;
		size_t n = (nl ? (size_t)(nl - r->data) : r->end) - r->start;
		r->start += n + (nl != NULL);
		r->scanned = r->start;
		r->line++;
		if (n > SPAR_LINE_MAX)
			return spar_fail(err, SPAR_INPUT, "%s:%zu: line longer than %zu bytes", r->name, r->line,
					 SPAR_LINE_MAX);
		if (!r->bom_seen && n >= 3 && !memcmp(text, "\xEF\xBB\xBF", 3)) {
			text += 3;
			n -= 3;
		}
		r->bom_seen = true;
		if (n && text[n - 1] == '\r')
			n--;
		if (is_blank(text, n))
			continue;
		*line = text;
		*len = n;
		return 1;
	}
}

bool spar_reader_ready(struct spar_reader *r, int timeout_ms)
{
	return find_newline(r) || r->raw_pos < r->raw_end || r->more_out || r->eof ||
	       spar_wait_input(r->fd, timeout_ms);
}

/* ---- writing ---- */

struct spar_writer {
	FILE *file;
	char *path;           /* NULL: standard output */
	ZSTD_CCtx *zstd;      /* NULL: plain */
	struct spar_str text; /* zstd only: lines gathered for the compressor */
};

int spar_writer_open(struct spar_writer **out, const char *path, struct spar_err *err)
{
	bool standard = !path || !strcmp(path, "-");
	size_t n = standard ? 0 : strlen(path);
	FILE *file = standard ? stdout : spar_file_begin(path, err);
	*out = NULL;
	if (!file)
		return -SPAR_FAIL;
	struct spar_writer *w = spar_calloc(1, sizeof *w);
	w->file = file;
	w->path = standard ? NULL : spar_strdup(path);
	spar_str_init(&w->text);
	setvbuf(file, NULL, _IOFBF, BLOCK);
	if (n > 4 && !strcmp(path + n - 4, ".zst")) {
		w->zstd = ZSTD_createCCtx();
		if (!w->zstd || ZSTD_isError(ZSTD_CCtx_setParameter(w->zstd, ZSTD_c_checksumFlag, 1))) {
			spar_writer_abort(w);
			return spar_fail(err, SPAR_FAIL, "%s: no memory for zstd", path);
		}
	}
	*out = w;
	return 0;
}

static int write_failed(const struct spar_writer *w, struct spar_err *err)
{
	return spar_fail(err, SPAR_FAIL, "%s: %s", w->path ? w->path : "<stdout>", strerror(errno));
}

/* Hand the gathered lines to the compressor and its output to the file. */
static int compress(struct spar_writer *w, ZSTD_EndDirective how, struct spar_err *err)
{
	char block[16384] = {0};
	ZSTD_inBuffer in = {w->text.data, w->text.len, 0};
	size_t left;
	do {
		ZSTD_outBuffer out = {block, sizeof block, 0};
		left = ZSTD_compressStream2(w->zstd, &out, &in, how);
		if (ZSTD_isError(left))
			return spar_fail(err, SPAR_FAIL, "%s: zstd: %s", w->path, ZSTD_getErrorName(left));
		if (fwrite(block, 1, out.pos, w->file) != out.pos)
			return write_failed(w, err);
	} while (how == ZSTD_e_continue ? in.pos < in.size : left != 0);
	spar_str_clear(&w->text);
	return 0;
}

int spar_writer_put(struct spar_writer *w, const void *line, size_t n, struct spar_err *err)
{
	if (w->zstd) {
		spar_str_add(&w->text, line, n);
		spar_str_addc(&w->text, '\n');
		return w->text.len < BLOCK ? 0 : compress(w, ZSTD_e_continue, err);
	}
	if (fwrite(line, 1, n, w->file) != n || putc('\n', w->file) == EOF)
		return write_failed(w, err);
	return 0;
}

int spar_writer_flush(struct spar_writer *w, struct spar_err *err)
{
	int rc = w->zstd ? compress(w, ZSTD_e_flush, err) : 0;
	if (rc == 0 && fflush(w->file) != 0)
		rc = write_failed(w, err);
	return rc;
}

static void release(struct spar_writer *w)
{
	ZSTD_freeCCtx(w->zstd);
	spar_str_release(&w->text);
	free(w->path);
	free(w);
}

int spar_writer_close(struct spar_writer *w, struct spar_err *err)
{
	int rc = w->zstd ? compress(w, ZSTD_e_end, err) : 0;
	if (w->path) {
		int done = spar_file_commit(w->file, w->path, rc == 0, err);
		rc = rc < 0 ? rc : done;
	} else if (ferror(w->file) | (fclose(w->file) != 0)) {
		rc = write_failed(w, err);
	}
	release(w);
	return rc;
}

void spar_writer_abort(struct spar_writer *w)
{
	if (!w)
		return;
	if (w->path)
		spar_file_commit(w->file, w->path, false, NULL);
	else
		fflush(w->file);
	release(w);
}
