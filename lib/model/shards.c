/* shards.c - a checkpoint in one file, or in several with an index; see safetensors.h */
#include "base/file.h"
#include "base/str.h"
#include "model/safetensors.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static size_t size_of(const struct spar_tensor_view *v)
{
	size_t n = spar_dtype_size(v->dtype);
	for (int d = 0; d < v->n_dims; d++)
		n *= v->shape[d];
	return n;
}

/* The tensors from `first` that a shard of `limit` bytes holds: one at least. */
static size_t shard_length(const struct spar_tensor_view *tensors, size_t first, size_t n, size_t limit)
{
	size_t end = first + 1, size = size_of(&tensors[first]);
	while (end < n && size + size_of(&tensors[end]) <= limit)
		size += size_of(&tensors[end++]);
	return end - first;
}

static void shard_name(char *out, size_t size, size_t shard, size_t n_shards)
{
	snprintf(out, size, "model-%05zu-of-%05zu.safetensors", shard + 1, n_shards);
}

static int write_index(const char *dir, const struct spar_tensor_view *tensors, size_t n, const size_t *shard_of,
		       size_t n_shards, struct spar_err *err)
{
	struct spar_str s = SPAR_STR_INIT;
	char *path = spar_path_join(dir, "model.safetensors.index.json"), name[64];
	size_t total = 0;
	for (size_t i = 0; i < n; i++)
		total += size_of(&tensors[i]);
	spar_str_addf(&s, "{\n  \"metadata\": {\"total_size\": %zu},\n  \"weight_map\": {", total);
	for (size_t i = 0; i < n; i++) {
		shard_name(name, sizeof name, shard_of[i], n_shards);
		spar_str_adds(&s, i ? ",\n    " : "\n    ");
		spar_str_add_json(&s, tensors[i].name, strlen(tensors[i].name));
		spar_str_addf(&s, ": \"%s\"", name);
	}
	spar_str_adds(&s, "\n  }\n}\n");
	int rc = spar_file_write(path, s.data, s.len, err);
	spar_str_release(&s);
	free(path);
	return rc;
}

int spar_safetensors_write_folder(const char *dir, const struct spar_tensor_view *tensors, size_t n,
				  const char *const *meta, int from_f32, size_t limit, struct spar_err *err)
{
	size_t *shard_of = spar_calloc(n + 1, sizeof *shard_of), n_shards = 0;
	char name[64] = "model.safetensors";
	int rc = 0;
	for (size_t at = 0, end; at < n; n_shards++)
		for (end = at + shard_length(tensors, at, n, limit); at < end; at++)
			shard_of[at] = n_shards;
	for (size_t at = 0, end; at < n && rc == 0; at = end) {
		for (end = at; end < n && shard_of[end] == shard_of[at]; end++)
			;
		if (n_shards > 1)
			shard_name(name, sizeof name, shard_of[at], n_shards);
		char *path = spar_path_join(dir, name);
		rc = spar_safetensors_write(path, tensors + at, end - at, meta, from_f32, err);
		free(path);
	}
	if (rc == 0 && n_shards > 1)
		rc = write_index(dir, tensors, n, shard_of, n_shards, err);
	free(shard_of);
	return rc;
}
