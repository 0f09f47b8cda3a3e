/* pages.h - large memory that is walked through from end to end, as weights and caches are. */
#ifndef SPAR_BASE_PAGES_H
#define SPAR_BASE_PAGES_H

#include <stddef.h>

/*! `size` bytes, aligned for vectors; on huge pages where the system grants them, which spares most of the waiting for address
 *  translation. Contents undefined. NULL if there is no memory; free() frees. */
void *spar_pages_alloc(size_t size);

#endif
