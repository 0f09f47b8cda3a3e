/* record.c - a line is a record or is refused with a message; what is read of it can be written again, with a key set, and is
 * then a record too. Tasks, rollouts and sft records are read whole. */
#include "record/record.h"
#include "fuzz.h"
#include "record/rollout.h"
#include "rl/task.h"

static struct spar_jq *prompt;

static void forget_prompt(void)
{
	spar_jq_free(prompt);
}

static void read_types(const struct spar_record *rec)
{
	struct spar_err err = {0};
	struct spar_task task;
	struct spar_rollout rollout;
	if (!prompt && (spar_jq_new(&prompt, SPAR_TASK_PROMPT, NULL) < 0 || atexit(forget_prompt) != 0))
		abort();
	int rc = spar_task_read(&task, rec, prompt, &err);
	if (rc > 0)
		spar_task_release(&task);
	else if (rc < 0 && !*err.msg)
		abort();
	if (spar_rollout_read(&rollout, rec->value, &err) == 0)
		spar_rollout_release(&rollout);
	else if (!*err.msg)
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
	struct spar_record rec, again;
	struct spar_err err = {0};
	struct spar_str out = SPAR_STR_INIT;
	spar_record_init(&rec);
	spar_record_init(&again);
	if (spar_record_parse(&rec, (const char *)data, n, &err) < 0) {
		if (!*err.msg)
			abort();
	} else {
		read_types(&rec);
		spar_record_set_double(&rec, "reward", 0.5);
		spar_record_set_str(&rec, "type", "task");
		spar_record_text(&rec, &out);
		if (spar_record_parse(&again, out.data, out.len, &err) < 0 || !spar_record_is(&again, "task"))
			abort();
	}
	spar_str_release(&out);
	spar_record_release(&again);
	spar_record_release(&rec);
	return 0;
}
