#include "model/engine/kernels.h"

static const struct spar_kernel *const kernels[] = {
#ifdef __x86_64__
    &spar_kernel_avx512bf16, &spar_kernel_avx512, &spar_kernel_avx2,
#endif
    &spar_kernel_portable, NULL};

const struct spar_kernel *spar_kernel_at(size_t i)
{
	return i < sizeof kernels / sizeof *kernels ? kernels[i] : NULL;
}

bool spar_kernel_usable(const struct spar_kernel *k)
{
#ifdef __x86_64__
	bool avx512 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
		      __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
	if (k == &spar_kernel_avx512bf16)
		return avx512 && __builtin_cpu_supports("avx512bf16");
	if (k == &spar_kernel_avx512)
		return avx512;
	if (k == &spar_kernel_avx2)
		return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
#endif
	return k == &spar_kernel_portable;
}

const struct spar_kernel *spar_kernel_find(const char *name, enum spar_dtype dtype)
{
	for (size_t i = 0; kernels[i]; i++) {
		const struct spar_kernel *k = kernels[i];
		if (spar_kernel_products(k, dtype)->gemm && spar_kernel_usable(k) && (!name || !strcmp(name, k->name)))
			return k;
	}
	return NULL;
}
