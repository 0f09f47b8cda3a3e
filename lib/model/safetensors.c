/* safetensors.c - see safetensors.h. A file is: header length (8 bytes, little-endian), header (JSON: name -> dtype,
 * shape, data_offsets), data. Values are read with memcpy: a tensor may start at any byte. */
#include "model/safetensors_parts.h"
#include "base/pages.h"
#include "base/str.h"
#include "base/half.h"
#include "record/object.h"
#include "record/record.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "weights are mapped as little-endian numbers"
#endif

static const struct {
	const char *name;
	size_t size;
} dtypes[] = {
    [SPAR_F32] = {"F32", 4}, [SPAR_F16] = {"F16", 2}, [SPAR_BF16] = {"BF16", 2}, [SPAR_F64] = {"F64", 8},
    [SPAR_I64] = {"I64", 8}, [SPAR_I32] = {"I32", 4}, [SPAR_U8] = {"U8", 1},
};

size_t spar_dtype_size(enum spar_dtype t)
{
	return dtypes[t].size;
}

const char *spar_dtype_name(enum spar_dtype t)
{
	return dtypes[t].name;
}

static int by_name(const void *a, const void *b)
{
	return strcmp(((const struct spar_tensor_view *)a)->name, ((const struct spar_tensor_view *)b)->name);
}

/* ---- one file, or a set with its index ---- */

static int read_file(struct spar_safetensors *s, const char *path, struct spar_err *err)
{
	struct spar_map map;
	int rc = spar_map_open(&map, path, err);
	if (rc < 0)
		return rc;
	s->maps = spar_realloc(s->maps, (s->n_maps + 1) * sizeof *s->maps);
	s->maps[s->n_maps++] = map;
	if ((rc = spar_safetensors_read_header(s, &map, err)) < 0)
		return spar_fail_at(err, "%s", path);
	return 0;
}

/* Read every file that the index names, once each; the index must be right about where each tensor is. */
static int read_index(struct spar_safetensors *s, const char *dir, const char *index, jv weight_map,
		      struct spar_err *err)
{
	int rc = 0;
	jv files = jv_object(); /* those read, as keys */
	jv_object_foreach(weight_map, tensor, file)
	{
		const char *name = jv_get_kind(file) == JV_KIND_STRING ? jv_string_value(file) : "";
		if (rc == 0 && (!*name || *name == '.' || strchr(name, '/')))
			rc = spar_fail(err, SPAR_INPUT, "%s: .weight_map: tensor '%.100s' is in no file of this folder",
				       index, jv_string_value(tensor));
		if (rc == 0 && !jv_object_has(jv_copy(files), jv_copy(file))) {
			char *path = spar_path_join(dir, name);
			rc = read_file(s, path, err);
			free(path);
			files = jv_object_set(files, jv_copy(file), jv_true());
		}
		jv_free(tensor);
		jv_free(file);
	}
	jv_free(files);
	return rc;
}

static int check_index(const struct spar_safetensors *s, jv weight_map, struct spar_err *err)
{
	int rc = 0;
	jv_object_foreach(weight_map, tensor, file)
	{
		if (rc == 0 && !spar_safetensors_find(s, jv_string_value(tensor)))
			rc = spar_fail(err, SPAR_INPUT, ".weight_map: tensor '%.100s' is not in %s",
				       jv_string_value(tensor), jv_string_value(file));
		jv_free(tensor);
		jv_free(file);
	}
	return rc;
}

static int sort_by_name(struct spar_safetensors *s, const char *path, struct spar_err *err)
{
	if (s->n)
		qsort(s->views, s->n, sizeof *s->views, by_name);
	for (size_t i = 1; i < s->n; i++)
		if (!by_name(&s->views[i - 1], &s->views[i]))
			return spar_fail(err, SPAR_INPUT, "%s: duplicate key: tensor '%.100s' is there twice", path,
					 s->views[i].name);
	return 0;
}

static int open_sharded(struct spar_safetensors *s, const char *dir, const char *index, struct spar_err *err)
{
	jv obj, weight_map = jv_invalid();
	int rc = spar_object_read(index, &obj, err);
	if (rc < 0)
		return rc;
	if ((rc = spar_get_kind(obj, "", "weight_map", JV_KIND_OBJECT, &weight_map, err)) < 0)
		spar_fail_at(err, "%s", index);
	else if ((rc = read_index(s, dir, index, weight_map, err)) == 0 && (rc = sort_by_name(s, dir, err)) == 0 &&
		 (rc = check_index(s, weight_map, err)) < 0)
		spar_fail_at(err, "%s", index);
	jv_free(weight_map);
	jv_free(obj);
	return rc;
}

static int open_path(struct spar_safetensors *s, const char *path, struct spar_err *err)
{
	if (!spar_dir_exists(path)) {
		int rc = read_file(s, path, err);
		return rc < 0 ? rc : sort_by_name(s, path, err);
	}
	char *single = spar_path_join(path, "model.safetensors"),
	     *index = spar_path_join(path, "model.safetensors.index.json");
	int rc;
	if (spar_file_exists(single))
		rc = open_path(s, single, err);
	else if (spar_file_exists(index))
		rc = open_sharded(s, path, index, err);
	else
		rc = spar_fail(err, SPAR_INPUT, "%s: no model.safetensors and no model.safetensors.index.json", path);
	free(single);
	free(index);
	return rc;
}

int spar_safetensors_open(struct spar_safetensors **out, const char *path, struct spar_err *err)
{
	struct spar_safetensors *s = spar_calloc(1, sizeof *s);
	s->meta = jv_invalid();
	int rc = open_path(s, path, err);
	if (rc < 0) {
		spar_safetensors_close(s);
		s = NULL;
	}
	*out = s;
	return rc;
}

void spar_safetensors_close(struct spar_safetensors *s)
{
	if (!s)
		return;
	for (size_t i = 0; i < s->n; i++)
		free((char *)s->views[i].name);
	for (size_t i = 0; i < s->n_maps; i++)
		spar_map_close(&s->maps[i]);
	jv_free(s->meta);
	free(s->views);
	free(s->maps);
	free(s);
}

void spar_safetensors_leave(const struct spar_safetensors *s)
{
	for (size_t i = 0; s && i < s->n_maps; i++)
		spar_pages_leave(s->maps[i].data, s->maps[i].size);
}

size_t spar_safetensors_count(const struct spar_safetensors *s)
{
	return s->n;
}

const struct spar_tensor_view *spar_safetensors_at(const struct spar_safetensors *s, size_t i)
{
	return &s->views[i];
}

const struct spar_tensor_view *spar_safetensors_find(const struct spar_safetensors *s, const char *name)
{
	struct spar_tensor_view key = {.name = name};
	return s->n ? bsearch(&key, s->views, s->n, sizeof key, by_name) : NULL;
}

const char *spar_safetensors_meta(const struct spar_safetensors *s, const char *key)
{
	if (!jv_is_valid(s->meta))
		return NULL;
	jv value = jv_object_get(jv_copy(s->meta), jv_string(key));
	const char *text = jv_get_kind(value) == JV_KIND_STRING ? jv_string_value(value) : NULL;
	jv_free(value); /* s->meta keeps it */
	return text;
}

int spar_tensor_view_f32(const struct spar_tensor_view *v, float *out, struct spar_err *err)
{
	const uint8_t *data = v->data;
	uint16_t half;
	double wide;
	switch (v->dtype) {
	case SPAR_F32:
		if (v->n_bytes)
			memcpy(out, data, v->n_bytes);
		return 0;
	case SPAR_BF16:
		for (size_t i = 0; i < v->n_elements; i++) {
			memcpy(&half, data + 2 * i, sizeof half);
			out[i] = spar_bf16_to_f32(half);
		}
		return 0;
	case SPAR_F16:
		for (size_t i = 0; i < v->n_elements; i++) {
			memcpy(&half, data + 2 * i, sizeof half);
			out[i] = spar_f16_to_f32(half);
		}
		return 0;
	case SPAR_F64:
		for (size_t i = 0; i < v->n_elements; i++) {
			memcpy(&wide, data + 8 * i, sizeof wide);
			out[i] = (float)wide;
		}
		return 0;
	default:
		return spar_fail(err, SPAR_INPUT, "tensor '%.100s': %s where numbers with a fraction are wanted",
				 v->name, spar_dtype_name(v->dtype));
	}
}
