/* gguf.c - whatever stands in the file, it opens or is refused with a message; what opens is imported, or refused too. */
#include "model/gguf.h"
#include "fuzz.h"
#include "model/import.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
	static char dir[] = "/tmp/spar-fuzz-gguf.XXXXXX";
	struct spar_gguf *g;
	struct spar_err err = {0};
	if (spar_gguf_open(&g, fuzz_file(data, n), &err) < 0) {
		if (g || !*err.msg)
			abort();
		return 0;
	}
	memcpy(dir + strlen(dir) - 6, "XXXXXX", 6);
	if (!mkdtemp(dir))
		abort();
	if (spar_import_gguf(g, dir, SPAR_F32, &err) < 0 && !*err.msg)
		abort();
	spar_gguf_close(g);
	spar_dir_remove(dir, NULL);
	return 0;
}
