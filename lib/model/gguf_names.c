/* gguf_names.c - see gguf_names.h */
#include "model/gguf_names.h"
#include <stdio.h>
#include <string.h>

static const char *const part_names[SPAR_N_PARTS] = {
    [SPAR_PART_EMBED] = "token_embd",
    [SPAR_PART_POSITIONS] = "position_embd",
    [SPAR_PART_Q] = "attn_q",
    [SPAR_PART_K] = "attn_k",
    [SPAR_PART_V] = "attn_v",
    [SPAR_PART_QKV] = "attn_qkv",
    [SPAR_PART_O] = "attn_output",
    [SPAR_PART_GATE] = "ffn_gate",
    [SPAR_PART_UP] = "ffn_up",
    [SPAR_PART_DOWN] = "ffn_down",
    [SPAR_PART_Q_NORM] = "attn_q_norm",
    [SPAR_PART_K_NORM] = "attn_k_norm",
    [SPAR_PART_ATTENTION_NORM] = "attn_norm",
    [SPAR_PART_ATTENTION_POST_NORM] = "post_attention_norm",
    [SPAR_PART_MLP_NORM] = "ffn_norm",
    [SPAR_PART_MLP_POST_NORM] = "post_ffw_norm",
    [SPAR_PART_NORM] = "output_norm",
    [SPAR_PART_HEAD] = "output",
};

void spar_gguf_param_name(const struct spar_param *p, char *out, size_t size)
{
	const char *part = part_names[p->part], *what = p->kind == SPAR_PARAM_BIAS ? "bias" : "weight";
	if (p->layer >= 0)
		snprintf(out, size, "blk.%d.%s.%s", p->layer, part, what);
	else
		snprintf(out, size, "%s.%s", part, what);
}

/* ---- pre-tokenizers ---- */

#define BYTE_LEVEL "{\"type\":\"ByteLevel\",\"add_prefix_space\":false,\"trim_offsets\":true,\"use_regex\":true}"

/* Words by a regular expression, with digits in groups of the given form, then bytes. */
#define SPLIT(digits) \
	"{\"type\":\"Sequence\",\"pretokenizers\":[{\"type\":\"Split\",\"pattern\":{\"Regex\":\"(?i:'s|'t|'re|'ve|'m|" \
	"'ll|'d)|" \
	"[^\\\\r\\\\n\\\\p{L}\\\\p{N}]?\\\\p{L}+|" digits "| ?[^\\\\s\\\\p{L}\\\\p{N}]+[\\\\r\\\\n]*|" \
	"\\\\s*[\\\\r\\\\n]+|\\\\s+(?!\\\\S)|\\\\s+\"},\"behavior\":\"Isolated\",\"invert\":false}," \
	"{\"type\":\"ByteLevel\",\"add_prefix_space\":false,\"trim_offsets\":true,\"use_regex\":false}]}"

static const struct {
	const char *name, *rule;
} rules[] = {
    {"gpt-2", BYTE_LEVEL},
    {"smollm",
     "{\"type\":\"Sequence\",\"pretokenizers\":[{\"type\":\"Digits\",\"individual_digits\":true}," BYTE_LEVEL "]}"},
    {"llama-bpe", SPLIT("\\\\p{N}{1,3}")},
    {"qwen2", SPLIT("\\\\p{N}")},
};
#define N_RULES (sizeof rules / sizeof *rules)

const char *spar_gguf_pre_tokenizer(struct spar_gguf_text name)
{
	for (size_t i = 0; i < N_RULES; i++)
		if (name.len == strlen(rules[i].name) && !memcmp(name.data, rules[i].name, name.len))
			return rules[i].rule;
	return NULL;
}

/* trim_offsets tells where words stood, not what they are: whichever way it is, the rule is the same. Consumes v. */
static jv without_offsets(jv v)
{
	if (jv_get_kind(v) != JV_KIND_OBJECT)
		return v;
	v = jv_object_delete(v, jv_string("trim_offsets"));
	jv list = jv_object_get(jv_copy(v), jv_string("pretokenizers"));
	if (jv_get_kind(list) != JV_KIND_ARRAY) {
		jv_free(list);
		return v;
	}
	for (int i = 0, n = jv_array_length(jv_copy(list)); i < n; i++)
		list = jv_array_set(list, i, without_offsets(jv_array_get(jv_copy(list), i)));
	return jv_object_set(v, jv_string("pretokenizers"), list);
}

const char *spar_gguf_pre_name(jv pre_tokenizer)
{
	jv wanted = without_offsets(jv_copy(pre_tokenizer));
	const char *name = NULL;
	for (size_t i = 0; i < N_RULES && !name; i++)
		if (jv_equal(jv_copy(wanted), without_offsets(jv_parse(rules[i].rule))))
			name = rules[i].name;
	jv_free(wanted);
	return name;
}

/* ---- rows ---- */

void spar_gguf_pair_rows(const float *from, float *to, size_t n_heads, size_t head_dim, size_t cols)
{
	size_t half = head_dim / 2;
	for (size_t h = 0; h < n_heads; h++)
		for (size_t i = 0; i < half; i++)
			for (size_t part = 0; part < 2; part++)
				memcpy(to + (h * head_dim + 2 * i + part) * cols,
				       from + (h * head_dim + part * half + i) * cols, cols * sizeof *to);
}

void spar_gguf_unpair_rows(const float *from, float *to, size_t n_heads, size_t head_dim, size_t cols)
{
	size_t half = head_dim / 2;
	for (size_t h = 0; h < n_heads; h++)
		for (size_t i = 0; i < half; i++)
			for (size_t part = 0; part < 2; part++)
				memcpy(to + (h * head_dim + part * half + i) * cols,
				       from + (h * head_dim + 2 * i + part) * cols, cols * sizeof *to);
}
