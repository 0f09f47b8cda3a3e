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

const struct spar_gguf_architecture spar_gguf_architectures[] = {
    {"llama", "llama", "LlamaForCausalLM", true, false},
    {"qwen2", "qwen2", "Qwen2ForCausalLM", false, false},
    {"qwen3", "qwen3", "Qwen3ForCausalLM", false, false},
    {"smollm3", "smollm3", "SmolLM3ForCausalLM", true, false},
    {"gemma", "gemma", "GemmaForCausalLM", false, true},
    {"gemma2", "gemma2", "Gemma2ForCausalLM", false, true},
    {"gemma3", "gemma3_text", "Gemma3ForCausalLM", false, true},
    {"gpt2", "gpt2", "GPT2LMHeadModel", false, false},
    {0},
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

#define NO_NORMALIZER "null"
#define DIGITS_THEN_BYTES \
	"{\"type\":\"Sequence\",\"pretokenizers\":[{\"type\":\"Digits\",\"individual_digits\":true}," BYTE_LEVEL "]}"

static const struct spar_gguf_rule rules[] = {
    {"gpt-2", BYTE_LEVEL, NO_NORMALIZER, false},
    {"smollm", DIGITS_THEN_BYTES, NO_NORMALIZER, false},
    {"llama-bpe", SPLIT("\\\\p{N}{1,3}"), NO_NORMALIZER, true},
    {"qwen2", SPLIT("\\\\p{N}"), "{\"type\":\"NFC\"}", false},
};
#define N_RULES (sizeof rules / sizeof *rules)

const struct spar_gguf_rule *spar_gguf_rule(struct spar_gguf_text name)
{
	for (size_t i = 0; i < N_RULES; i++)
		if (spar_gguf_text_is(name, rules[i].name))
			return &rules[i];
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

const struct spar_gguf_rule *spar_gguf_rule_of(jv pre_tokenizer)
{
	jv wanted = without_offsets(jv_copy(pre_tokenizer));
	const struct spar_gguf_rule *rule = NULL;
	for (size_t i = 0; i < N_RULES && !rule; i++)
		if (jv_equal(jv_copy(wanted), without_offsets(jv_parse(rules[i].pre_tokenizer))))
			rule = &rules[i];
	jv_free(wanted);
	return rule;
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
