/* tokenizer.c - whatever stands in tokenizer.json, it loads or is refused with a message; what loads encodes any text to ids of
 * its own and decodes every id. */
#include "text/tokenizer.h"
#include "fuzz.h"

static void use(const struct spar_tokenizer *t)
{
	static const char text[] = "Hi <|im_start|>don't\n  42 \xF0\x9F\x99\x82 caf\xC3\xA9\xFF x<s>y</s> ";
	struct spar_ids ids = {0};
	struct spar_str back = SPAR_STR_INIT;
	struct spar_err err = {0};
	if (spar_tokenizer_encode(t, text, sizeof text - 1, NULL, SPAR_ENCODE_MARKERS | SPAR_ENCODE_ADD, &ids, &err) <
		0 &&
	    !*err.msg)
		abort();
	for (size_t i = 0; i < ids.n; i++)
		if (ids.data[i] < 0 || (size_t)ids.data[i] >= spar_tokenizer_size(t))
			abort();
	spar_tokenizer_decode(t, ids.data, ids.n, 0, &back);
	for (int32_t id = 0; id < 300; id++)
		spar_tokenizer_decode(t, &id, 1, SPAR_DECODE_SKIP_SPECIAL, &back);
	spar_tokenizer_id(t, "<s>");
	spar_str_release(&back);
	free(ids.data);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
	struct spar_tokenizer *t;
	struct spar_err err = {0};
	int rc = spar_tokenizer_load(&t, fuzz_dir("tokenizer.json", data, n), &err);
	if ((rc < 0) != (t == NULL) || (rc < 0 && !*err.msg))
		abort();
	if (t)
		use(t);
	spar_tokenizer_free(t);
	return 0;
}
