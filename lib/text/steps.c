#include "text/steps.h"
#include "record/record.h"
#include <string.h>

#define DEPTH_MAX 16

struct loader {
	const char *path, *list;
	spar_step_fn *load;
	void *ctx;
	struct spar_err *err;
};

static int load_node(const struct loader *l, jv node, int depth)
{
	const char *type;
	size_t len;
	jv list;
	if (jv_get_kind(node) != JV_KIND_OBJECT)
		return spar_fail(l->err, SPAR_INPUT, ".%s: %s is not supported", l->path, spar_kind_name(node));
	if (spar_get_str(node, l->path, "type", &type, &len, l->err) < 0)
		return -l->err->code;
	if (strcmp(type, "Sequence") != 0)
		return l->load(l->ctx, node, type, l->err);
	if (depth == DEPTH_MAX)
		return spar_fail(l->err, SPAR_INPUT, ".%s: nested deeper than %d", l->path, DEPTH_MAX);
	if (spar_get_kind(node, l->path, l->list, JV_KIND_ARRAY, &list, l->err) < 0)
		return -l->err->code;
	int n = jv_array_length(jv_copy(list)), rc = 0;
	for (int i = 0; rc == 0 && i < n; i++) {
		jv item = jv_array_get(jv_copy(list), i);
		rc = load_node(l, item, depth + 1);
		jv_free(item);
	}
	jv_free(list);
	return rc;
}

int spar_steps_load(jv node, const char *path, const char *list, spar_step_fn *load, void *ctx, struct spar_err *err)
{
	struct loader l = {path, list, load, ctx, err};
	return jv_get_kind(node) == JV_KIND_NULL || !jv_is_valid(node) ? 0 : load_node(&l, node, 0);
}
