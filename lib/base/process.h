/* process.h - what the system knows of another process, and becoming another program. */
#ifndef SPAR_BASE_PROCESS_H
#define SPAR_BASE_PROCESS_H

#include "base/err.h"
#include <stdbool.h>
#include <stdint.h>

/*! Whether a process has been killed, or is ending by itself, though it still holds what it had open: its memory goes first,
 *  which may take a second. Linux tells; elsewhere: false. */
bool spar_process_is_ending(int64_t pid);

/*! Run the program at `path`, seen from the folder of this one, in its place, with the same arguments. Returns on failure only. */
int spar_process_become(const char *path, char **argv, struct spar_err *err);

#endif
