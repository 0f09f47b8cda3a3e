/* pages.h - large memory that is walked through from end to end, as weights and caches are. */
#ifndef SPAR_BASE_PAGES_H
#define SPAR_BASE_PAGES_H

#include <stddef.h>

/*! `size` bytes, aligned for vectors; on huge pages where the system grants them, which spares most of the waiting for address
 *  translation. Contents undefined. NULL if there is no memory; free() frees. */
void *spar_pages_alloc(size_t size);

/*! Let go of what a read-only map of a file holds in memory; it is read from the file again when it is used again. */
void spar_pages_leave(const void *map, size_t size);

#endif
