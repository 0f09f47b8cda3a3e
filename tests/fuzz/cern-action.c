/* cern-action.c - whatever a model writes is an action or a refusal, and costs what it should. Takes files on the command
 * line; with a fuzzer: clang -fsanitize=fuzzer -DFUZZER. */
#include "base/file.h"
#include "env/action.h"
#include "env/cern/cern.h"
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
	struct spar_cern s;
	struct spar_str view = SPAR_STR_INIT;
	spar_cern_reset(&s, 1, SPAR_CERN_EASY, 1);
	spar_cern_step(&s, spar_action_find((const char *)data, n));
	spar_cern_view(&s, true, &view);
	if (!s.end || !(s.total <= 0))
		abort();
	spar_str_release(&view);
	return 0;
}

#ifndef FUZZER
int main(int argc, char **argv)
{
	for (int i = 1; i < argc; i++) {
		struct spar_str file = SPAR_STR_INIT;
		if (spar_file_read(argv[i], 1 << 24, &file, NULL) < 0)
			return 1;
		LLVMFuzzerTestOneInput((const uint8_t *)file.data, file.len);
		spar_str_release(&file);
	}
	return 0;
}
#endif
