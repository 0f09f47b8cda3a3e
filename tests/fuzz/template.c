/* template.c - whatever bytes a template is made of, parsing and rendering end, and what is marked lies inside the text. */
#include "text/jinja.h"
#include "fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
	struct spar_jinja *t = NULL;
	struct spar_str out = SPAR_STR_INIT;
	struct spar_spans spans = {0};
	if (spar_jinja_new(&t, (const char *)data, n, NULL) < 0)
		return 0;
	jv outside = jv_parse("{\"messages\":[{\"role\":\"user\",\"content\":\" "
			      "a<|x|>b\\n\"},{\"role\":\"assistant\",\"content\":\"\"}]}");
	jv trusted = jv_parse("{\"bos_token\":\"<s>\",\"add_generation_prompt\":true}");
	spar_jinja_render(t, trusted, outside, &out, &spans, NULL);
	for (size_t i = 0; i < spans.n; i++)
		if (spans.data[i].begin >= spans.data[i].end || spans.data[i].end > out.len ||
		    (i && spans.data[i].begin < spans.data[i - 1].end))
			abort();
	jv_free(trusted);
	jv_free(outside);
	free(spans.data);
	spar_str_release(&out);
	spar_jinja_free(t);
	return 0;
}
