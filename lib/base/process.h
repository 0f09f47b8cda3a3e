/* process.h - what the system knows of another process. */
#ifndef SPAR_BASE_PROCESS_H
#define SPAR_BASE_PROCESS_H

#include <stdbool.h>
#include <stdint.h>

/*! Whether a process has been killed, or is ending by itself, though it still holds what it had open: its memory goes first,
 *  which may take a second. Linux tells; elsewhere: false. */
bool spar_process_is_ending(int64_t pid);

#endif
