/* half.h - 16-bit floating point numbers as bits: bfloat16 (upper half of a float32) and IEEE 754 binary16.
 * To 16 bits: nearest, ties to even; overflow gives infinity, a NaN stays a NaN. From 16 bits is exact. */
#ifndef SPAR_BASE_HALF_H
#define SPAR_BASE_HALF_H

#include <stdint.h>
#include <string.h>

static inline float spar_f32_from_bits(uint32_t bits)
{
	float f;
	memcpy(&f, &bits, sizeof f);
	return f;
}

static inline uint32_t spar_f32_bits(float f)
{
	uint32_t bits;
	memcpy(&bits, &f, sizeof bits);
	return bits;
}

static inline float spar_bf16_to_f32(uint16_t h)
{
	return spar_f32_from_bits((uint32_t)h << 16);
}

static inline uint16_t spar_f32_to_bf16(float f)
{
	uint32_t x = spar_f32_bits(f);
	uint32_t rounded = (x + 0x7fff + (x >> 16 & 1)) >> 16;
	uint32_t quiet_nan = x >> 16 | 0x40;
	return (uint16_t)((x & 0x7fffffff) > 0x7f800000 ? quiet_nan : rounded);
}

static inline float spar_f16_to_f32(uint16_t h)
{
	uint32_t sign = (uint32_t)(h & 0x8000) << 16, exponent = h >> 10 & 31, mantissa = h & 0x3ff;
	if (exponent == 31)
		return spar_f32_from_bits(sign | 0x7f800000 | mantissa << 13);
	if (exponent == 0) { /* zero and subnormals: mantissa * 2^-24 */
		float f = (float)mantissa * 0x1p-24f;
		return sign ? -f : f;
	}
	return spar_f32_from_bits(sign | (exponent + 112) << 23 | mantissa << 13);
}

static inline uint16_t spar_f32_to_f16(float f)
{
	uint32_t x = spar_f32_bits(f), sign = x >> 16 & 0x8000, magnitude = x & 0x7fffffff;
	if (magnitude > 0x7f800000)
		return (uint16_t)(sign | 0x7e00 | (magnitude >> 13 & 0x3ff));
	if (magnitude >= 0x477ff000) /* 65520 and above round past the largest, 65504 */
		return (uint16_t)(sign | 0x7c00);
	if (magnitude < 0x38800000) { /* below 2^-14: adding 0.5 lets the FPU round to a multiple of 2^-24 */
		uint32_t steps = spar_f32_bits(spar_f32_from_bits(magnitude) + 0.5f) - 0x3f000000;
		return (uint16_t)(sign | steps);
	}
	uint32_t rounded = (magnitude + 0xfff + (magnitude >> 13 & 1)) >> 13;
	return (uint16_t)(sign | (rounded - (112 << 10)));
}

#endif
