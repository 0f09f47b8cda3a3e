#include "text/postproc.h"
#include "record/record.h"
#include "text/steps.h"
#include <stdlib.h>
#include <string.h>

/* One piece of a template: {"Sequence":{..}} switches to what stands behind the text, {"SpecialToken":{"id":name}} adds
 * the ids listed under that name. */
static int load_piece(jv node, jv piece, struct spar_ids *side[2], bool *behind, struct spar_err *err)
{
	static const char path[] = "post_processor.single";
	jv token = jv_invalid(), names = jv_invalid(), entry = jv_invalid();
	int32_t *ids = NULL;
	const char *name;
	size_t len, n;
	if (jv_get_kind(piece) != JV_KIND_OBJECT)
		return spar_fail(err, SPAR_INPUT, ".%s: expected objects, got %s", path, spar_kind_name(piece));
	if (spar_has(piece, "Sequence")) {
		*behind = true;
		return 0;
	}
	int rc = spar_get_kind(piece, path, "SpecialToken", JV_KIND_OBJECT, &token, err);
	if (rc == 0)
		rc = spar_get_str(token, path, "id", &name, &len, err);
	if (rc == 0)
		rc = spar_get_kind(node, "post_processor", "special_tokens", JV_KIND_OBJECT, &names, err);
	if (rc == 0)
		rc = spar_get_kind(names, "post_processor.special_tokens", name, JV_KIND_OBJECT, &entry, err);
	if (rc == 0)
		rc = spar_get_ids(entry, "post_processor.special_tokens", "ids", &ids, &n, err);
	if (rc == 0)
		spar_ids_add(side[*behind], ids, n);
	free(ids);
	jv_free(entry);
	jv_free(names);
	jv_free(token);
	return rc;
}

static int load_template(struct spar_postproc *p, jv node, struct spar_err *err)
{
	jv single;
	if (spar_get_kind(node, "post_processor", "single", JV_KIND_ARRAY, &single, err) < 0)
		return -err->code;
	struct spar_ids before = {0}, behind = {0};
	bool past = false;
	int n = jv_array_length(jv_copy(single)), rc = 0;
	for (int i = 0; rc == 0 && i < n; i++) {
		jv piece = jv_array_get(jv_copy(single), i);
		rc = load_piece(node, piece, (struct spar_ids *[]){&before, &behind}, &past, err);
		jv_free(piece);
	}
	jv_free(single);
	/* A later processor of a Sequence wraps what the earlier ones made. */
	spar_ids_add(&before, p->before.data, p->before.n);
	spar_ids_add(&p->behind, behind.data, behind.n);
	free(p->before.data);
	free(behind.data);
	p->before = before;
	return rc;
}

static int load_step(void *ctx, jv node, const char *type, struct spar_err *err)
{
	if (!strcmp(type, "ByteLevel"))
		return 0;
	if (!strcmp(type, "TemplateProcessing"))
		return load_template(ctx, node, err);
	return spar_fail(err, SPAR_INPUT, ".post_processor: %s is not supported", type);
}

int spar_postproc_load(struct spar_postproc *p, jv node, struct spar_err *err)
{
	return spar_steps_load(node, "post_processor", "processors", load_step, p, err);
}

void spar_postproc_release(struct spar_postproc *p)
{
	free(p->before.data);
	free(p->behind.data);
}
