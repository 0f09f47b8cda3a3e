/* cern-action.c - whatever a model writes is an action or a refusal, and costs what it should. */
#include "env/action.h"
#include "env/cern/cern.h"
#include "fuzz.h"

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
