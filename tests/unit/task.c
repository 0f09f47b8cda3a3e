/* Tasks: where id, prompt and episode come from, and the set of ids. */
#include "rl/task.h"
#include "unit.h"
#include <stdlib.h>

static struct spar_record rec;
static struct spar_task task;
static struct spar_err err;

static int read_with(const char *line, const char *program)
{
	struct spar_jq *jq;
	err = (struct spar_err){0};
	CHECK(spar_record_parse(&rec, line, strlen(line), &err) == 0);
	CHECK(spar_jq_new(&jq, program, &err) == 0);
	int rc = spar_task_read(&task, &rec, jq, &err);
	spar_jq_free(jq);
	return rc;
}

static void check_id(const char *line, const char *want)
{
	CHECK(read_with(line, SPAR_TASK_PROMPT) == 1);
	CHECK_STR(task.id, want);
	spar_task_release(&task);
}

static void ids(void)
{
	check_id("{\"id\":\"a b\",\"prompt\":\"x\"}", "a b");
	check_id(" {\"id\":1,\"prompt\":\"x\",\"id\":9007199254740993}", "9007199254740993");
	check_id("{\"id\":1.50,\"prompt\":\"x\"}", "1.50");
	check_id("{\"type\":\"rollout\",\"group\":\"g\",\"sample\":3,\"prompt\":\"x\"}", "g/3");
	CHECK(read_with("{\"prompt\":\"x\"}", SPAR_TASK_PROMPT) == 1);
	char first[32];
	snprintf(first, sizeof first, "%s", task.id);
	CHECK(strlen(first) == 16);
	spar_task_release(&task);
	check_id("{\"prompt\":\"x\"}", first); /* a function of the line */
	CHECK(read_with("{\"prompt\":\"y\"}", SPAR_TASK_PROMPT) == 1);
	CHECK(strcmp(first, task.id) != 0);
	spar_task_release(&task);
	CHECK(read_with("{\"id\":[],\"prompt\":\"x\"}", SPAR_TASK_PROMPT) == -SPAR_INPUT);
	CHECK_STR(err.msg, ".id: expected string or number, got array");
}

static void prompts(void)
{
	CHECK(read_with("{\"messages\":[{\"role\":\"user\"}],\"prompt\":\"x\"}", SPAR_TASK_PROMPT) == 1);
	CHECK(jv_get_kind(task.prompt) == JV_KIND_ARRAY && !jv_is_valid(task.reset));
	spar_task_release(&task);
	CHECK(read_with("{\"a\":null}", ".a") == 0);
	CHECK(read_with("{\"a\":null}", "empty") == 0);
	CHECK(read_with("{\"a\":1}", ".a") == -SPAR_INPUT);
	CHECK_STR(err.msg, "prompt: expected messages or a string, got number");
	CHECK(read_with("{\"a\":1}", "\"x\",\"y\"") == -SPAR_INPUT);
	CHECK(read_with("{\"a\":1}", ".a.b") == -SPAR_INPUT && !strncmp(err.msg, "prompt: ", 8));
}

static void episodes(void)
{
	CHECK(read_with("{\"id\":\"a\",\"env\":\"cern\",\"seed\":\"18446744073709551615\",\"difficulty\":\"hard\","
			"\"max_steps\":4,\"answer\":1,\"messages\":[]}",
			".messages") == 1);
	jv text = jv_dump_string(jv_copy(task.reset), JV_PRINT_SORTED);
	CHECK_STR(jv_string_value(text), "{\"difficulty\":\"hard\",\"max_steps\":4,\"op\":\"reset\","
					 "\"seed\":\"18446744073709551615\"}");
	CHECK_STR(task.env, "cern");
	CHECK(!jv_is_valid(task.prompt));
	jv_free(text);
	spar_task_release(&task);
	CHECK(read_with("{\"seed\":7}", SPAR_TASK_PROMPT) == 1 && !task.env && jv_is_valid(task.reset));
	spar_task_release(&task);
	CHECK(read_with("{\"seed\":7,\"prompt\":\"x\"}", SPAR_TASK_PROMPT) == 1 && !jv_is_valid(task.reset));
	spar_task_release(&task);
	CHECK(read_with("{\"env\":\"cern\"}", SPAR_TASK_PROMPT) == -SPAR_INPUT && strstr(err.msg, ".seed"));
	CHECK(read_with("{\"env\":5,\"seed\":1}", SPAR_TASK_PROMPT) == -SPAR_INPUT && strstr(err.msg, ".env"));
}

static void seen(void)
{
	struct spar_task_ids set = {0};
	char id[24];
	for (int round = 0; round < 2; round++)
		for (int i = 0; i < 1000; i++) {
			snprintf(id, sizeof id, "task-%d", i);
			CHECK(spar_task_ids_add(&set, id) == (round == 0));
		}
	CHECK(set.n == 1000);
	spar_task_ids_clear(&set);
	CHECK(spar_task_ids_add(&set, "task-1"));
	spar_task_ids_clear(&set);
}

int main(void)
{
	spar_record_init(&rec);
	ids();
	prompts();
	episodes();
	seen();
	spar_record_release(&rec);
	return unit_done();
}
