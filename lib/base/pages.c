#define _DEFAULT_SOURCE /* madvise */
#include "base/pages.h"
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>

#define HUGE ((size_t)2 << 20)
#define VECTOR ((size_t)64)

void *spar_pages_alloc(size_t size)
{
	size_t alignment = size < HUGE ? VECTOR : HUGE;
	if (size > SIZE_MAX - alignment)
		return NULL;
	size_t whole = (size ? size + alignment - 1 : alignment) / alignment * alignment;
	void *p = aligned_alloc(alignment, whole);
#ifdef MADV_HUGEPAGE
	if (p && alignment == HUGE)
		madvise(p, whole, MADV_HUGEPAGE); /* refused: ordinary pages do too */
#endif
	return p;
}

void spar_pages_leave(const void *map, size_t size)
{
	if (size)
		madvise((void *)map, size, MADV_DONTNEED); /* refused: it stays */
}
