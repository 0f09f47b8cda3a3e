/* adapter.c - whatever stands in adapter_config.json, it is an adapter with a scale or is refused with a message. The same bytes
 * are also read as the text of update's --lora. */
#include "fuzz.h"
#include "model/model.h"
#include <math.h>

/* Its rules, for a module that most of them may mean. */
static void use(struct spar_lora_config *l)
{
	const struct spar_param p = {.name = "model.layers.0.self_attn.q_proj.weight", .kind = SPAR_PARAM_LINEAR};
	struct spar_lora_config copy;
	struct spar_err err = {0};
	spar_lora_copy(&copy, l);
	if (spar_lora_check_patterns(&copy, &err) == 0 && spar_lora_check_rules(&copy, &p, &err) == 0) {
		spar_lora_hits(&copy, &p);
		if (spar_lora_rank(&copy, &p) < 1 || !isfinite(spar_lora_scale(&copy, &p)))
			abort();
	} else if (!*err.msg) {
		abort();
	}
	spar_lora_release(&copy);
	spar_lora_release(l);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
	struct spar_lora_config l;
	struct spar_err err = {0};
	struct spar_str text = SPAR_STR_INIT;
	char *base = NULL;
	if (spar_lora_read(&l, fuzz_dir("adapter_config.json", data, n), &base, &err) == 0)
		use(&l);
	else if (!*err.msg)
		abort();
	free(base);
	spar_str_add(&text, (const char *)data, strnlen((const char *)data, n));
	if (spar_lora_parse(&l, text.data, &err) == 0)
		use(&l);
	spar_str_release(&text);
	return 0;
}
