/* GGUF: each type of tensor worked out by hand, the toy file (`gguf --write FILE` writes it, for other tests), the
 * same file cut off at every length, and what importing makes of it. */
#include "model/gguf.h"
#include "base/file.h"
#include "model/import.h"
#include "model/model.h"
#include "text/tokenizer.h"
#include "unit.h"
#include <stdlib.h>
#include <unistd.h>

static char dir[] = "/tmp/spar-gguf.XXXXXX";

/* ---- a writer, as small as the toy needs ---- */

enum { G_U32 = 4, G_I32 = 5, G_F32 = 6, G_BOOL = 7, G_STRING = 8, G_ARRAY = 9 };
enum {
	T_F32 = 0,
	T_F16 = 1,
	T_Q4_0 = 2,
	T_Q4_1 = 3,
	T_Q5_0 = 6,
	T_Q5_1 = 7,
	T_Q8_0 = 8,
	T_Q2_K = 10,
	T_Q3_K = 11,
	T_Q4_K = 12,
	T_Q5_K = 13,
	T_Q6_K = 14,
	T_Q8_K = 15,
	T_BF16 = 30
};

static void u32(struct spar_str *s, uint32_t v)
{
	spar_str_add(s, &v, sizeof v);
}

static void u64(struct spar_str *s, uint64_t v)
{
	spar_str_add(s, &v, sizeof v);
}

static void text(struct spar_str *s, const char *v)
{
	u64(s, strlen(v));
	spar_str_adds(s, v);
}

static void key(struct spar_str *s, const char *name, uint32_t type)
{
	text(s, name);
	u32(s, type);
}

static void key_u32(struct spar_str *s, const char *name, uint32_t v)
{
	key(s, name, G_U32);
	u32(s, v);
}

static void key_f32(struct spar_str *s, const char *name, float v)
{
	key(s, name, G_F32);
	spar_str_add(s, &v, sizeof v);
}

static void key_text(struct spar_str *s, const char *name, const char *v)
{
	key(s, name, G_STRING);
	text(s, v);
}

static void key_texts(struct spar_str *s, const char *name, const char *const *v, size_t n)
{
	key(s, name, G_ARRAY);
	u32(s, G_STRING);
	u64(s, n);
	for (size_t i = 0; i < n; i++)
		text(s, v[i]);
}

#define WIDTH 32 /* hidden and inner size: one block of most types */
static const char *const tokens[] = {"<|endoftext|>", "<|im_start|>", "<|im_end|>", "a", "b", "1", "ab"};
#define N_TOKENS (sizeof tokens / sizeof *tokens)

static const struct {
	const char *name;
	uint32_t type, rows, block_bytes; /* rows 0: a vector of WIDTH */
} toy_tensors[] = {
    {"token_embd.weight", T_Q8_0, N_TOKENS, 34},   {"output_norm.weight", T_F32, 0, 0},
    {"blk.0.attn_norm.weight", T_F32, 0, 0},       {"blk.0.ffn_norm.weight", T_F32, 0, 0},
    {"blk.0.attn_q.weight", T_F32, WIDTH, 0},      {"blk.0.attn_k.weight", T_F16, WIDTH / 2, 0},
    {"blk.0.attn_v.weight", T_BF16, WIDTH / 2, 0}, {"blk.0.attn_output.weight", T_Q4_0, WIDTH, 18},
    {"blk.0.ffn_gate.weight", T_Q4_1, WIDTH, 20},  {"blk.0.ffn_up.weight", T_Q5_0, WIDTH, 22},
    {"blk.0.ffn_down.weight", T_Q5_1, WIDTH, 24},
};
#define N_TENSORS (sizeof toy_tensors / sizeof *toy_tensors)

/* Vectors are 1. Rows of F32, F16 and BF16 tensors hold their own number, so that one sees where a row went. Quantized
 * blocks have the scale 2^-6 (and minimum -1 where they have one), then a pattern. */
static void add_data(struct spar_str *s, uint32_t type, uint32_t rows, uint32_t block_bytes)
{
	static const uint16_t f16_rows[] = {0,      0x3c00, 0x4000, 0x4200, 0x4400, 0x4500, 0x4600, 0x4700,
					    0x4800, 0x4880, 0x4900, 0x4980, 0x4a00, 0x4a80, 0x4b00, 0x4b80};
	for (uint32_t r = 0; r < (rows ? rows : 1); r++) {
		if (block_bytes) {
			bool has_minimum = type == T_Q4_1 || type == T_Q5_1;
			spar_str_add(s, "\x00\x24\x00\xbc", has_minimum ? 4 : 2);
			for (uint32_t i = has_minimum ? 4 : 2; i < block_bytes; i++)
				spar_str_addc(s, (int)((r * 37 + i * 11) & 255));
			continue;
		}
		float value = rows ? (float)r : 1;
		for (uint32_t c = 0; c < WIDTH; c++) {
			uint32_t bits;
			memcpy(&bits, &value, sizeof bits);
			uint16_t half = type == T_F16 ? f16_rows[r] : (uint16_t)(bits >> 16);
			if (type == T_F32)
				spar_str_add(s, &value, sizeof value);
			else
				spar_str_add(s, &half, sizeof half);
		}
	}
}

static void pad(struct spar_str *s)
{
	while (s->len % 32)
		spar_str_addc(s, 0);
}

/* A key of the architecture's, whose name stands before it. */
static const char *of(const char *architecture, const char *rest)
{
	static char name[64];
	snprintf(name, sizeof name, "%s.%s", architecture, rest);
	return name;
}

static void key_numbers(struct spar_str *s, const char *name, uint32_t type, const void *numbers, size_t n)
{
	key(s, name, G_ARRAY);
	u32(s, type);
	u64(s, n);
	spar_str_add(s, numbers, 4 * n);
}

/* `pre`, `extra` (a key of value 1, or NULL) and `type` (of attn_q) are what some tests make wrong. Of another architecture than
 * llama the tokenizer is SentencePiece's. */
static void toy(struct spar_str *s, const char *architecture, const char *pre, const char *extra, uint32_t q_type)
{
	static const int32_t types[] = {3, 3, 3, 1, 1, 1, 1};
	static const float scores[] = {0, 0, 0, -1, -2, -3, -4};
	static const char *const merges[] = {"a b"};
	struct spar_str data = SPAR_STR_INIT;
	const char *a = architecture;
	bool llama = !strcmp(a, "llama");
	spar_str_adds(s, "GGUF");
	u32(s, 3);
	u64(s, N_TENSORS);
	u64(s, 17 + llama + (extra != NULL));
	if (extra)
		key_u32(s, extra, 1);
	key_text(s, "general.architecture", a);
	key_u32(s, of(a, "block_count"), 1);
	key_u32(s, of(a, "context_length"), 64);
	key_u32(s, of(a, "embedding_length"), WIDTH);
	key_u32(s, of(a, "feed_forward_length"), WIDTH);
	key_u32(s, of(a, "attention.head_count"), 2);
	key_u32(s, of(a, "attention.head_count_kv"), 1);
	key_f32(s, of(a, "attention.layer_norm_rms_epsilon"), 1e-5f);
	key_f32(s, of(a, "rope.freq_base"), 100000);
	key_text(s, "tokenizer.ggml.model", llama ? "gpt2" : "llama");
	if (llama)
		key_text(s, "tokenizer.ggml.pre", pre);
	key_texts(s, "tokenizer.ggml.tokens", tokens, N_TOKENS);
	if (llama)
		key_texts(s, "tokenizer.ggml.merges", merges, 1);
	else
		key_numbers(s, "tokenizer.ggml.scores", G_F32, scores, N_TOKENS);
	key_numbers(s, "tokenizer.ggml.token_type", G_I32, types, N_TOKENS);
	key_u32(s, "tokenizer.ggml.bos_token_id", 1);
	key_u32(s, "tokenizer.ggml.eos_token_id", 2);
	key(s, "tokenizer.ggml.add_bos_token", G_BOOL);
	spar_str_addc(s, 0);
	key_text(s, "tokenizer.chat_template",
		 "{% for m in messages %}<|im_start|>{{ m.content }}<|im_end|>{% endfor %}");
	for (size_t i = 0; i < N_TENSORS; i++) {
		uint32_t type = strcmp(toy_tensors[i].name, "blk.0.attn_q.weight") ? toy_tensors[i].type : q_type;
		text(s, toy_tensors[i].name);
		u32(s, toy_tensors[i].rows ? 2 : 1);
		u64(s, WIDTH);
		if (toy_tensors[i].rows)
			u64(s, toy_tensors[i].rows);
		u32(s, type);
		pad(&data);
		u64(s, data.len);
		add_data(&data, toy_tensors[i].type, toy_tensors[i].rows, toy_tensors[i].block_bytes);
	}
	pad(s);
	spar_str_add(s, data.data, data.len);
	spar_str_release(&data);
}

/* ---- tests ---- */

static const char *at(const char *name)
{
	static char path[256];
	snprintf(path, sizeof path, "%s/%s", dir, name);
	return path;
}

/* Decode one block of bytes and compare some of its elements. */
static void block(uint32_t type, const void *bytes, size_t n_elements, const size_t *where, const float *want, size_t n)
{
	float out[256];
	struct spar_gguf_tensor t = {.type = type, .data = bytes, .n_elements = n_elements};
	CHECK(spar_gguf_f32(&t, out, NULL) == 0);
	for (size_t i = 0; i < n; i++)
		CHECK_NEAR(out[where[i]], want[i], 0);
}

/* Scale 0.5 is 0x3800, minimum -1 is 0xbc00. Byte j of the 4-bit numbers holds elements j and j + 16. */
static void blocks(void)
{
	uint8_t b[210] = {0, 0x38};
	b[2] = 0xf0; /* elements 0 and 16 */
	b[17] = 0x3a;
	block(T_Q4_0, b, 32, (size_t[]){0, 16, 15, 31, 1}, (float[]){-4, 3.5f, 1, -2.5f, -4}, 5);
	memcpy(b + 2, "\x00\xbc\xf0", 3);
	block(T_Q4_1, b, 32, (size_t[]){0, 16, 1}, (float[]){-1, 6.5f, -1}, 3);
	memcpy(b + 2, "\x01\x00\x01\x80\xf0", 5); /* fifth bits of 0, 16 and 31 */
	memset(b + 7, 0, 15);
	block(T_Q5_0, b, 32, (size_t[]){0, 16, 31, 1}, (float[]){0, 7.5f, 0, -8}, 4);
	memcpy(b + 2, "\x00\xbc\x01\x00\x01\x80\xf0", 7);
	memset(b + 9, 0, 15);
	block(T_Q5_1, b, 32, (size_t[]){0, 16, 31, 1}, (float[]){7, 14.5f, 7, -1}, 4);
	memcpy(b + 2, "\x80\x7f", 2);
	block(T_Q8_0, b, 32, (size_t[]){0, 1, 31}, (float[]){-64, 63.5f, 0}, 3);
	memset(b, 0, sizeof b);
	memcpy(b, "\x00\x38\x00\x34", 4);      /* scale 0.5, of minima 0.25 */
	memcpy(b + 4, "\x43\x00\x00\x82", 4);  /* scales 3, 0, 0, 2; high bits 1 and 2 of those of runs 4 and 7 */
	memcpy(b + 8, "\xc4\x00\x00\x00", 4);  /* minima 4, 0, 0, 0; high bits 3 of that of run 4 */
	memcpy(b + 12, "\x51\x00\x00\x02", 4); /* low bits: scale 1 and minimum 5 of run 4, scale 2 of run 7 */
	b[16] = 0x07;                          /* element 0 */
	b[16 + 32] = 0x90;                     /* element 96: of run 3 */
	b[16 + 64] = 0x02;                     /* element 128: of run 4, scale 17, minimum 53 */
	b[16 + 96 + 31] = 0x10;                /* element 255: of run 7, scale 34 */
	block(T_Q4_K, b, 256, (size_t[]){0, 1, 96, 128, 255}, (float[]){9.5f, -1, 9, 3.75f, 17}, 5);
	memset(b, 0, sizeof b);
	b[0] = 0x5a;        /* low bits of elements 0 (10) and 64 (5) */
	b[64 + 63] = 0xc0;  /* low bits of 128 + 127: 12 */
	b[128] = 0x91;      /* high bits of 0, 32, 64, 96: 1, 0, 1, 2 */
	b[128 + 63] = 0xc0; /* of 128 + 127: 3 */
	for (int i = 0; i < 16; i++)
		b[192 + i] = (uint8_t)(i - 8);
	b[209] = 0x38;
	block(T_Q6_K, b, 256, (size_t[]){0, 32, 64, 96, 255}, (float[]){24, 96, 22, 0, 98}, 5);
}

/* Blocks full of a pattern, with scale 0.5 and minimum 0.25 at `scales`. What was expected is what the gguf package makes of
 * them. */
static void patterns(void)
{
	static const struct {
		uint32_t type;
		size_t scales;
		float want[10];
	} cases[] = {
	    {T_Q2_K, 80, {16.5f, -0.75f, -1.25f, -2.25f, 10, 2.25f, 17.75f, 4, 0.25f, 2.25f}},
	    {T_Q3_K, 108, {40.5f, 64, 0, -8.5f, 0, -2, -19.5f, 12.5f, 4, 21}},
	    {T_Q5_K, 0, {405.75f, -12.75f, 30, 435.75f, 117.5f, 192, 292.5f, 69.25f, 45.25f, 54.25f}},
	};
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		uint8_t b[256];
		for (size_t k = 0; k < sizeof b; k++)
			b[k] = (uint8_t)(k * 37 + 11);
		memcpy(b + cases[i].scales, "\x00\x38\x00\x34", 4);
		block(cases[i].type, b, 256, (size_t[]){0, 17, 40, 79, 100, 131, 170, 200, 233, 255}, cases[i].want,
		      10);
	}
}

static void metadata(const struct spar_gguf *g)
{
	uint64_t v;
	double d;
	struct spar_gguf_text t, *texts;
	struct spar_err err;
	int32_t *ints;
	size_t n;
	CHECK(spar_gguf_u64(g, "llama.block_count", &v, NULL) == 0 && v == 1);
	CHECK(spar_gguf_u64(g, "tokenizer.ggml.add_bos_token", &v, NULL) == 0 && v == 0);
	CHECK(spar_gguf_double(g, "llama.rope.freq_base", &d, NULL) == 0 && d == 100000);
	CHECK(spar_gguf_str(g, "general.architecture", &t, NULL) == 0 && t.len == 5);
	CHECK(spar_gguf_u64(g, "llama.rope.freq_base", &v, &err) == -SPAR_INPUT);
	CHECK_STR(err.msg, "llama.rope.freq_base: not a whole number");
	CHECK(spar_gguf_str(g, "absent", &t, &err) == -SPAR_INPUT);
	CHECK_STR(err.msg, "absent: not there (a string wanted)");
	CHECK(spar_gguf_strs(g, "tokenizer.ggml.tokens", &texts, &n, NULL) == 0 && n == N_TOKENS);
	CHECK(texts[6].len == 2 && !memcmp(texts[6].data, "ab", 2));
	free(texts);
	CHECK(spar_gguf_ints(g, "tokenizer.ggml.token_type", &ints, &n, NULL) == 0 && n == N_TOKENS && ints[2] == 3);
	free(ints);
	CHECK(spar_gguf_ints(g, "tokenizer.ggml.tokens", &ints, &n, NULL) == -SPAR_INPUT);
}

/* Row r of the imported tensor came from row want[r] of the file. */
static void check_rows(const struct spar_model *m, const char *name, const int *want, size_t n)
{
	const struct spar_tensor_view *v = spar_safetensors_find(m->weights, name);
	CHECK(v && v->shape[0] == n && v->shape[1] == WIDTH);
	float *w = spar_calloc(n * WIDTH, sizeof *w);
	if (v && spar_tensor_view_f32(v, w, NULL) == 0)
		for (size_t r = 0; r < n; r++)
			CHECK(w[r * WIDTH] == (float)want[r] && w[r * WIDTH + WIDTH - 1] == (float)want[r]);
	free(w);
}

static void import(const struct spar_gguf *g)
{
	struct spar_model m;
	CHECK(spar_dir_make(at("folder"), NULL) == 0);
	CHECK(spar_import_gguf(g, at("folder"), SPAR_F32, NULL) == 0);
	CHECK(spar_model_open(&m, at("folder"), NULL) == 0);
	if (!m.dir)
		return;
	CHECK(m.config.n_layers == 1 && m.config.n_heads == 2 && m.config.n_kv_heads == 1 && m.config.head_dim == 16);
	CHECK(m.config.ropes[0].theta == 100000 && m.config.norm_eps == 1e-5f && m.config.vocab_size == N_TOKENS);
	CHECK(m.config.tie_word_embeddings && m.config.eos == 2 && m.config.n_end == 1);
	int q[WIDTH], k[WIDTH / 2], v[WIDTH / 2]; /* heads of 16: the even rows first, then the odd ones */
	for (int r = 0; r < WIDTH; r++)
		q[r] = r / 16 * 16 + r % 8 * 2 + r / 8 % 2;
	for (int r = 0; r < WIDTH / 2; r++) {
		k[r] = q[r];
		v[r] = r;
	}
	check_rows(&m, "model.layers.0.self_attn.q_proj.weight", q, WIDTH);
	check_rows(&m, "model.layers.0.self_attn.k_proj.weight", k, WIDTH / 2);
	check_rows(&m, "model.layers.0.self_attn.v_proj.weight", v, WIDTH / 2);
	spar_model_close(&m);
}

/* Gemma: norms are 1 less than stored, rows of q stay, merges follow from scores, a key that is not known is refused. */
static void import_gemma(void)
{
	struct spar_str s = SPAR_STR_INIT, json = SPAR_STR_INIT;
	struct spar_gguf *g;
	struct spar_model m;
	struct spar_err err;
	float norm[WIDTH];
	int rows[WIDTH];
	for (int r = 0; r < WIDTH; r++)
		rows[r] = r;
	toy(&s, "gemma", "", NULL, T_F32);
	CHECK(spar_file_write(at("gemma.gguf"), s.data, s.len, NULL) == 0);
	CHECK(spar_gguf_open(&g, at("gemma.gguf"), NULL) == 0 && spar_dir_make(at("gemma"), NULL) == 0);
	CHECK(spar_import_gguf(g, at("gemma"), SPAR_F32, NULL) == 0);
	spar_gguf_close(g);
	CHECK(spar_model_open(&m, at("gemma"), NULL) == 0);
	CHECK_STR(m.config.model_type, "gemma");
	check_rows(&m, "model.layers.0.self_attn.q_proj.weight", rows, WIDTH);
	const struct spar_tensor_view *v = spar_safetensors_find(m.weights, "model.norm.weight");
	CHECK(v && spar_tensor_view_f32(v, norm, NULL) == 0 && norm[0] == 0 && norm[WIDTH - 1] == 0);
	spar_model_close(&m);
	CHECK(spar_file_read(at("gemma/tokenizer.json"), 65536, &json, NULL) == 0);
	CHECK(strstr(json.data, "\"merges\":[\n[\"a\",\"b\"]]") && strstr(json.data, "\"byte_fallback\":true"));
	struct spar_tokenizer *t;
	struct spar_ids ids = {0};
	CHECK(spar_tokenizer_load(&t, at("gemma"), NULL) == 0);
	CHECK(spar_tokenizer_encode(t, "aab<|im_end|>", 13, NULL, SPAR_ENCODE_MARKERS, &ids, NULL) == 0);
	CHECK(ids.n == 3 && ids.data[0] == 3 && ids.data[1] == 6 &&
	      ids.data[2] == 2); /* no space token: none is left */
	free(ids.data);
	spar_tokenizer_free(t);
	spar_str_clear(&s);
	toy(&s, "gemma", "", "gemma.expert_count", T_F32);
	CHECK(spar_file_write(at("gemma.gguf"), s.data, s.len, NULL) == 0);
	CHECK(spar_gguf_open(&g, at("gemma.gguf"), NULL) == 0 && spar_dir_make(at("experts"), NULL) == 0);
	CHECK(spar_import_gguf(g, at("experts"), SPAR_F32, &err) == -SPAR_INPUT);
	CHECK_STR(err.msg, "gemma.expert_count: not supported");
	spar_gguf_close(g);
	spar_str_release(&s);
	spar_str_release(&json);
}

/* Opens the bytes as a file; the message behind the path, or "opens". */
static const char *opened(const void *bytes, size_t n)
{
	static struct spar_err err;
	struct spar_gguf *g;
	CHECK(spar_file_write(at("bytes.gguf"), bytes, n, NULL) == 0);
	int rc = spar_gguf_open(&g, at("bytes.gguf"), &err);
	spar_gguf_close(g);
	CHECK(rc == 0 || rc == -SPAR_INPUT);
	return rc == 0 ? "opens" : strstr(err.msg, ": ") + 2;
}

static void damaged(const struct spar_str *whole)
{
	for (size_t n = 0; n < whole->len; n += n < 1024 ? 13 : 499)
		CHECK(strcmp(opened(whole->data, n), "opens") != 0);
	CHECK_STR(opened("GGML....................", 24), "not a GGUF file");
	CHECK_STR(opened("GGUF\1\0\0\0................", 24), "GGUF version 1 is not supported (2 and 3 are)");
	struct spar_str s = SPAR_STR_INIT;
	toy(&s, "llama", "smollm", NULL, T_Q8_K);
	CHECK_STR(opened(s.data, s.len), "tensor 'blk.0.attn_q.weight': type 15 (Q8_K) is not supported");
	spar_str_clear(&s);
	toy(&s, "llama", "smollm", NULL, 99);
	CHECK_STR(opened(s.data, s.len), "tensor 'blk.0.attn_q.weight': type 99 (unknown) is not supported");
	spar_str_clear(&s);
	toy(&s, "llama", "smollm", NULL, T_Q6_K);
	CHECK_STR(opened(s.data, s.len), "tensor 'blk.0.attn_q.weight': rows are no multiple of the block of Q6_K");
	spar_str_clear(&s);
	toy(&s, "llama", "other", NULL, T_F32);
	CHECK_STR(opened(s.data, s.len), "opens");
	struct spar_gguf *g;
	struct spar_err err;
	CHECK(spar_gguf_open(&g, at("bytes.gguf"), NULL) == 0 && spar_dir_make(at("other"), NULL) == 0);
	CHECK(spar_import_gguf(g, at("other"), SPAR_F32, &err) == -SPAR_INPUT);
	CHECK_STR(err.msg, "tokenizer.ggml.pre: 'other' is not known");
	spar_gguf_close(g);
	spar_str_release(&s);
}

int main(int argc, char **argv)
{
	struct spar_str whole = SPAR_STR_INIT;
	struct spar_gguf *g;
	toy(&whole, "llama", "smollm", NULL, T_F32);
	if (argc == 3 && !strcmp(argv[1], "--write")) {
		int rc = spar_file_write(argv[2], whole.data, whole.len, NULL);
		spar_str_release(&whole);
		return -rc;
	}
	if (!mkdtemp(dir))
		return 1;
	blocks();
	patterns();
	CHECK_STR(opened(whole.data, whole.len), "opens");
	CHECK(spar_gguf_open(&g, at("bytes.gguf"), NULL) == 0);
	if (g) {
		metadata(g);
		import(g);
	}
	spar_gguf_close(g);
	import_gemma();
	damaged(&whole);
	spar_str_release(&whole);
	spar_dir_remove(dir, NULL);
	return unit_done();
}
