/* points.c - see points.h */
#include "rl/points.h"
#include "base/file.h"
#include "record/object.h"
#include "record/record.h"

#include <dirent.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* What a mean is made of. */
struct mean {
	char *tag;
	double sum;
	size_t n;
};

struct source {
	spar_point_fn see;
	void *ctx;
	struct spar_err *err;
	const char *path;
	bool growing;          /* it is still being written: its end may be cut off */
	bool some;             /* a point was seen */
	struct spar_str curve; /* of the file that is read */
	double wall_s;
	/* rollouts since the last batch record */
	struct mean *means;
	size_t n_means;
};

static int see(struct source *s, const char *tag, int64_t step, double wall_s, double value)
{
	const struct spar_point p = {s->curve.data, tag, step, wall_s, value};
	if (!isfinite(value))
		return 0;
	s->some = true;
	return s->see(s->ctx, &p, s->err);
}

/* ---- records ---- */

typedef int (*record_fn)(struct source *s, const struct spar_record *rec);

static int read_records(struct source *s, record_fn take)
{
	struct spar_reader *in;
	struct spar_record rec;
	const char *line;
	size_t n;
	int rc = spar_reader_open(&in, s->path, s->err);
	if (rc < 0)
		return rc;
	spar_record_init(&rec);
	while ((rc = spar_reader_next(in, &line, &n, s->err)) > 0) {
		if ((rc = spar_record_parse(&rec, line, n, s->err)) < 0) {
			spar_fail_at(s->err, "%s:%zu", s->path, spar_reader_line(in));
			break;
		}
		if ((rc = take(s, &rec)) < 0)
			break;
	}
	spar_record_release(&rec);
	spar_reader_close(in);
	if (rc == -(int)SPAR_INPUT && s->growing)
		rc = 0;
	return rc;
}

/* ---- metrics ---- */

static double step_time(jv metric)
{
	double time_s;
	return spar_get_double(metric, "", "step_time", &time_s, NULL) == 0 ? time_s : 0;
}

/* Only the time of the last step is known: the first reading goes back to the time of the first. */
static int take_time(struct source *s, const struct spar_record *rec)
{
	if (spar_record_is(rec, "metric"))
		s->wall_s -= step_time(rec->value);
	return 0;
}

static int take_metric(struct source *s, const struct spar_record *rec)
{
	int64_t step;
	int rc = 0;
	if (!spar_record_is(rec, "metric") || spar_get_i64(rec->value, "", "step", &step, NULL) < 0)
		return 0;
	s->wall_s += step_time(rec->value);
	jv_object_foreach(rec->value, key, v)
	{
		if (rc == 0 && jv_get_kind(v) == JV_KIND_NUMBER && strcmp(jv_string_value(key), "step") != 0)
			rc = see(s, jv_string_value(key), step, s->wall_s, jv_number_value(v));
		jv_free(key);
		jv_free(v);
	}
	return rc;
}

static int read_metrics(struct source *s)
{
	int rc = read_records(s, take_time);
	return rc < 0 ? rc : read_records(s, take_metric);
}

/* ---- rollouts ---- */

static struct mean *mean_of(struct source *s, const char *group, const char *name)
{
	struct spar_str tag = SPAR_STR_INIT;
	spar_str_addf(&tag, "%s/%s", group, name);
	size_t i = 0;
	while (i < s->n_means && strcmp(s->means[i].tag, tag.data) != 0)
		i++;
	if (i == s->n_means) {
		s->means = spar_realloc(s->means, ++s->n_means * sizeof *s->means);
		s->means[i] = (struct mean){.tag = spar_strdup(tag.data)};
	}
	spar_str_release(&tag);
	return &s->means[i];
}

static void add_to_means(struct source *s, const struct spar_record *rec, const char *group)
{
	jv object;
	if (spar_get_kind(rec->value, "", group, JV_KIND_OBJECT, &object, NULL) < 0)
		return;
	jv_object_foreach(object, key, v)
	{
		jv_kind kind = jv_get_kind(v);
		if (kind == JV_KIND_NUMBER || kind == JV_KIND_TRUE || kind == JV_KIND_FALSE) {
			struct mean *m = mean_of(s, group, jv_string_value(key));
			m->sum += kind == JV_KIND_NUMBER ? jv_number_value(v) : kind == JV_KIND_TRUE;
			m->n++;
		}
		jv_free(key);
		jv_free(v);
	}
	jv_free(object);
}

static void forget_means(struct source *s)
{
	for (size_t i = 0; i < s->n_means; i++)
		free(s->means[i].tag);
	free(s->means);
	s->means = NULL;
	s->n_means = 0;
}

static int take_rollout(struct source *s, const struct spar_record *rec)
{
	int64_t batch;
	int rc = 0;
	if (spar_record_is(rec, "rollout")) {
		add_to_means(s, rec, "verdict");
		add_to_means(s, rec, "env");
	}
	if (!spar_record_is(rec, "batch") || spar_get_i64(rec->value, "", "step", &batch, NULL) < 0)
		return 0;
	for (size_t i = 0; rc == 0 && i < s->n_means; i++)
		rc = see(s, s->means[i].tag, batch + 1, s->wall_s, s->means[i].sum / (double)s->means[i].n);
	forget_means(s);
	return rc;
}

/* ---- summaries ---- */

static int see_numbers(struct source *s, const char *tag, int64_t step, jv v);

/* `v` is borrowed. */
static int see_member(struct source *s, const char *tag, const char *name, int64_t step, jv v)
{
	struct spar_str inner = SPAR_STR_INIT;
	spar_str_addf(&inner, "%s/%s", tag, name);
	int rc = see_numbers(s, inner.data, step, v);
	spar_str_release(&inner);
	return rc;
}

static int see_list(struct source *s, const char *tag, int64_t step, jv list)
{
	int rc = 0;
	jv_array_foreach(list, i, item)
	{
		char name[16];
		snprintf(name, sizeof name, "%d", i);
		if (rc == 0 && jv_get_kind(item) == JV_KIND_NUMBER)
			rc = see_member(s, tag, name, step, item);
		jv_free(item);
	}
	return rc;
}

static int see_numbers(struct source *s, const char *tag, int64_t step, jv v)
{
	int rc = 0;
	if (jv_get_kind(v) == JV_KIND_NUMBER)
		return see(s, tag, step, s->wall_s, jv_number_value(v));
	if (jv_get_kind(v) == JV_KIND_ARRAY)
		return see_list(s, tag, step, v);
	if (jv_get_kind(v) != JV_KIND_OBJECT)
		return 0;
	jv_object_foreach(v, key, inner)
	{
		if (rc == 0)
			rc = see_member(s, tag, jv_string_value(key), step, inner);
		jv_free(key);
		jv_free(inner);
	}
	return rc;
}

static int read_summary(struct source *s, const char *name)
{
	jv summary;
	int64_t step = 0;
	int rc = spar_object_read(s->path, &summary, s->err);
	if (rc < 0)
		return rc;
	char *tag = spar_strdup(name);
	tag[strlen(tag) - strlen(".json")] = 0;
	spar_get_i64(summary, "", "round", &step, NULL);
	rc = see_numbers(s, tag, step, summary);
	free(tag);
	jv_free(summary);
	return rc;
}

/* ---- files ---- */

static bool ends_in(const char *name, size_t n, const char *end)
{
	return n >= strlen(end) && !memcmp(name + n - strlen(end), end, strlen(end));
}

/* "rollouts-v000000.jsonl.zst.tmp.77" without what says how it is written; *growing if it still is. */
static size_t plain_length(const char *name, bool *growing)
{
	const char *tmp = strstr(name, ".tmp");
	size_t n = tmp ? (size_t)(tmp - name) : strlen(name);
	*growing = tmp != NULL;
	return ends_in(name, n, ".zst") ? n - 4 : n;
}

static const char *base_of(const char *path)
{
	const char *slash = strrchr(path, '/');
	return slash ? slash + 1 : path;
}

/* A curve is named by the file's place: `place` less what all such files are called. */
static void name_curve(struct source *s, const char *place, size_t n)
{
	spar_str_clear(&s->curve);
	while (n && (place[n - 1] == '.' || place[n - 1] == '/'))
		n--;
	spar_str_add(&s->curve, n ? place : ".", n ? n : 1);
}

/* `place` is the file's path below the run. */
static int read_file(struct source *s, const char *place, const struct stat *st)
{
	static const char *const summaries[] = {"round.json", "evaluation.json", "post_training_evaluation.json"};
	const char *name = base_of(place);
	size_t n = plain_length(name, &s->growing), folder = (size_t)(name - place);
	s->wall_s = (double)st->st_mtim.tv_sec + (double)st->st_mtim.tv_nsec * 1e-9;
	if (ends_in(name, n, ".jsonl") && !strncmp(name, "rollouts-", 9)) {
		name_curve(s, place, folder);
		int rc = read_records(s, take_rollout);
		forget_means(s);
		return rc;
	}
	if (n == strlen("metrics.jsonl") ? !memcmp(name, "metrics.jsonl", n) : ends_in(name, n, ".metrics.jsonl")) {
		name_curve(s, place, folder + n - strlen("metrics.jsonl"));
		return read_metrics(s);
	}
	name_curve(s, place, folder);
	for (size_t i = 0; i < sizeof summaries / sizeof *summaries; i++)
		if (!strcmp(name, summaries[i]))
			return read_summary(s, name);
	return 0;
}

static int by_name(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

/* What lies in the folder but "." and "..", in order; the caller frees. */
static int list_folder(const char *path, char ***names, size_t *n, struct spar_err *err)
{
	DIR *d = opendir(path);
	struct dirent *entry;
	*names = NULL;
	*n = 0;
	if (!d)
		return spar_fail(err, SPAR_FAIL, "%s: %s", path, strerror(errno));
	while ((entry = readdir(d))) {
		if (!strcmp(entry->d_name, ".") || !strcmp(entry->d_name, ".."))
			continue;
		*names = spar_realloc(*names, (*n + 1) * sizeof **names);
		(*names)[(*n)++] = spar_strdup(entry->d_name);
	}
	closedir(d);
	if (*n)
		qsort(*names, *n, sizeof **names, by_name);
	return 0;
}

static int read_below(struct source *s, const char *path, const char *place);

static int read_folder(struct source *s, const char *path, const char *place)
{
	char **names;
	size_t n;
	int rc = list_folder(path, &names, &n, s->err);
	for (size_t i = 0; i < n; i++) {
		char *inner = spar_path_join(path, names[i]), *at = spar_path_join(place, names[i]);
		if (rc == 0 && strcmp(names[i], "policy") != 0)
			rc = read_below(s, inner, at);
		free(at);
		free(inner);
		free(names[i]);
	}
	free(names);
	return rc;
}

static int read_below(struct source *s, const char *path, const char *place)
{
	struct stat st;
	if (lstat(path, &st) < 0) /* a temporary name may be gone since the folder was listed */
		return errno == ENOENT ? 0 : spar_fail(s->err, SPAR_FAIL, "%s: %s", path, strerror(errno));
	if (S_ISDIR(st.st_mode))
		return read_folder(s, path, place);
	s->path = path;
	return S_ISREG(st.st_mode) ? read_file(s, place, &st) : 0;
}

/* "runs/x/" -> "x"; the caller frees. */
static char *name_of(const char *run)
{
	size_t n = strlen(run), from;
	while (n > 1 && run[n - 1] == '/')
		n--;
	for (from = n; from && run[from - 1] != '/'; from--)
		;
	return strndup(run + from, n - from);
}

int spar_points_read(const char *path, spar_point_fn see, void *ctx, struct spar_err *err)
{
	struct source s = {.see = see, .ctx = ctx, .err = err, .path = path, .curve = SPAR_STR_INIT};
	struct stat st;
	if (stat(path, &st) < 0)
		return spar_fail(err, SPAR_FAIL, "%s: %s", path, strerror(errno));
	char *name = name_of(path);
	int rc = S_ISDIR(st.st_mode) ? read_folder(&s, path, name) : read_file(&s, name, &st);
	spar_str_release(&s.curve);
	free(name);
	return rc < 0 ? rc : s.some;
}
