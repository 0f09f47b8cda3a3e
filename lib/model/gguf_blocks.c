/* gguf_blocks.c - see gguf_blocks.h. Bits and scales lie as llama.cpp lays them out. */
#include "model/gguf_blocks.h"
#include "base/half.h"
#include <stdbool.h>
#include <string.h>

static void from_f32(const uint8_t *block, float *out)
{
	memcpy(out, block, sizeof *out);
}

static uint16_t u16_at(const uint8_t *p)
{
	return (uint16_t)(p[0] | p[1] << 8);
}

static float f16_at(const uint8_t *p)
{
	return spar_f16_to_f32(u16_at(p));
}

static void from_f16(const uint8_t *block, float *out)
{
	*out = f16_at(block);
}

static void from_bf16(const uint8_t *block, float *out)
{
	*out = spar_bf16_to_f32(u16_at(block));
}

/* Blocks of 32 with 4-bit numbers: byte j holds element j (low half) and j + 16 (high half). */
static void from_q4_0(const uint8_t *block, float *out)
{
	float d = f16_at(block);
	const uint8_t *q = block + 2;
	for (int j = 0; j < 16; j++) {
		out[j] = d * (float)((q[j] & 15) - 8);
		out[j + 16] = d * (float)((q[j] >> 4) - 8);
	}
}

static void from_q4_1(const uint8_t *block, float *out)
{
	float d = f16_at(block), m = f16_at(block + 2);
	const uint8_t *q = block + 4;
	for (int j = 0; j < 16; j++) {
		out[j] = d * (float)(q[j] & 15) + m;
		out[j + 16] = d * (float)(q[j] >> 4) + m;
	}
}

/* The fifth bits of the 32 elements stand together in front. */
static int fifth_bit(const uint8_t *high, int j)
{
	return (high[j / 8] >> j % 8 & 1) << 4;
}

static void from_q5_0(const uint8_t *block, float *out)
{
	float d = f16_at(block);
	const uint8_t *high = block + 2, *q = block + 6;
	for (int j = 0; j < 16; j++) {
		out[j] = d * (float)(((q[j] & 15) | fifth_bit(high, j)) - 16);
		out[j + 16] = d * (float)(((q[j] >> 4) | fifth_bit(high, j + 16)) - 16);
	}
}

static void from_q5_1(const uint8_t *block, float *out)
{
	float d = f16_at(block), m = f16_at(block + 2);
	const uint8_t *high = block + 4, *q = block + 8;
	for (int j = 0; j < 16; j++) {
		out[j] = d * (float)((q[j] & 15) | fifth_bit(high, j)) + m;
		out[j + 16] = d * (float)((q[j] >> 4) | fifth_bit(high, j + 16)) + m;
	}
}

static void from_q8_0(const uint8_t *block, float *out)
{
	float d = f16_at(block);
	for (int j = 0; j < 32; j++)
		out[j] = d * (float)(int8_t)block[2 + j];
}

/* Blocks of 256: eight runs of 32, each with a scale and a minimum of 6 bits, of which eight lie in 12 bytes: the low six
 * bits of the first four and what is over of the last four, whose low four bits stand in the last four bytes. Two runs share 32
 * bytes q of low bits; fifth: the fifth bits of all runs' j-th elements in byte j, or NULL. */
static void from_q45_k(const uint8_t *block, const uint8_t *fifth, const uint8_t *q, float *out)
{
	float d = f16_at(block), m = f16_at(block + 2);
	const uint8_t *six = block + 4;
	for (int run = 0; run < 8; run++) {
		int i = run % 4;
		int scale = run < 4 ? six[i] & 63 : (six[i + 8] & 15) | six[i] >> 6 << 4;
		int minimum = run < 4 ? six[i + 4] & 63 : six[i + 8] >> 4 | six[i + 4] >> 6 << 4;
		for (int j = 0; j < 32; j++) {
			int bits = q[32 * (run / 2) + j] >> 4 * (run % 2) & 15;
			if (fifth)
				bits |= (fifth[j] >> run & 1) << 4;
			out[32 * run + j] = d * (float)scale * (float)bits - m * (float)minimum;
		}
	}
}

static void from_q4_k(const uint8_t *block, float *out)
{
	from_q45_k(block, NULL, block + 16, out);
}

static void from_q5_k(const uint8_t *block, float *out)
{
	from_q45_k(block, block + 16, block + 48, out);
}

/* Blocks of 256 in eight runs of 32, of which four share 32 bytes q with two bits for each. */
static int two_bits(const uint8_t *q, int run, int j)
{
	return q[32 * (run / 4) + j] >> 2 * (run % 4) & 3;
}

/* A scale (low half) and a minimum (high half) for every 16 elements. */
static void from_q2_k(const uint8_t *block, float *out)
{
	float d = f16_at(block + 80), m = f16_at(block + 82);
	for (int run = 0; run < 8; run++)
		for (int j = 0; j < 32; j++) {
			uint8_t scale = block[2 * run + j / 16];
			out[32 * run + j] =
			    d * (float)(scale & 15) * (float)two_bits(block + 16, run, j) - m * (float)(scale >> 4);
		}
}

/* The third bits of all runs' j-th elements stand in byte j. A scale of 6 bits for every 16 elements: low four bits of the
 * first eight and of the last eight in the halves of 8 bytes, then 4 bytes with two high bits for every fourth. */
static void from_q3_k(const uint8_t *block, float *out)
{
	float d = f16_at(block + 108);
	const uint8_t *third = block, *q = block + 32, *scales = block + 96;
	for (int run = 0; run < 8; run++)
		for (int j = 0; j < 32; j++) {
			int i = 2 * run + j / 16;
			int low = scales[i % 8] >> 4 * (i / 8) & 15, high = scales[8 + i % 4] >> 2 * (i / 4) & 3;
			int bits = two_bits(q, run, j) | (third[j] >> run & 1) << 2;
			out[32 * run + j] = d * (float)((low | high << 4) - 32) * (float)(bits - 4);
		}
}

/* Blocks of 256: two halves of 128, each four runs of 32 that share 64 bytes of low bits and 32 bytes of high bits; a
 * signed scale for every 16 elements. */
static void from_q6_k(const uint8_t *block, float *out)
{
	float d = f16_at(block + 208);
	for (int half = 0; half < 2; half++) {
		const uint8_t *low = block + 64 * half, *high = block + 128 + 32 * half,
			      *scale = block + 192 + 8 * half;
		for (int run = 0; run < 4; run++)
			for (int j = 0; j < 32; j++) {
				int bits = low[32 * (run % 2) + j] >> 4 * (run / 2) & 15;
				int q = (bits | (high[j] >> 2 * run & 3) << 4) - 32;
				out[128 * half + 32 * run + j] = d * (float)(int8_t)scale[2 * run + j / 16] * (float)q;
			}
	}
}

static const struct spar_gguf_block types[] = {
    [0] = {"F32", 1, 4, from_f32},        [1] = {"F16", 1, 2, from_f16},        [2] = {"Q4_0", 32, 18, from_q4_0},
    [3] = {"Q4_1", 32, 20, from_q4_1},    [6] = {"Q5_0", 32, 22, from_q5_0},    [7] = {"Q5_1", 32, 24, from_q5_1},
    [8] = {"Q8_0", 32, 34, from_q8_0},    [9] = {"Q8_1", 0, 0, NULL},           [10] = {"Q2_K", 256, 84, from_q2_k},
    [11] = {"Q3_K", 256, 110, from_q3_k}, [12] = {"Q4_K", 256, 144, from_q4_k}, [13] = {"Q5_K", 256, 176, from_q5_k},
    [14] = {"Q6_K", 256, 210, from_q6_k}, [15] = {"Q8_K", 0, 0, NULL},          [20] = {"IQ4_NL", 0, 0, NULL},
    [23] = {"IQ4_XS", 0, 0, NULL},        [30] = {"BF16", 1, 2, from_bf16},
};

const struct spar_gguf_block *spar_gguf_block(uint32_t type)
{
	static const struct spar_gguf_block unknown = {"unknown", 0, 0, NULL};
	bool known = type < sizeof types / sizeof *types && types[type].name;
	return known ? &types[type] : &unknown;
}
