/* Reading rollout records: what is right comes through, and each way to be wrong is named by its field. */
#include "record/rollout.h"
#include "record/record.h"
#include "unit.h"

#define HEAD "{\"type\":\"rollout\",\"group\":\"g\",\"sample\":1,\"group_size\":4"

static int read_text(struct spar_rollout *r, const char *json, struct spar_err *err)
{
	jv v = jv_parse(json);
	*err = (struct spar_err){0};
	int rc = spar_rollout_read(r, v, err);
	jv_free(v);
	return rc;
}

static void good(void)
{
	struct spar_rollout r;
	struct spar_err err;
	CHECK(read_text(&r,
			HEAD
			",\"policy\":{\"version\":3},\"sampling\":{\"temperature\":0.5},\"reward\":0.25,"
			"\"advantage\":null,\"turns\":[{\"prompt_ids\":[1,2,3],\"completion_ids\":[7,9],"
			"\"logprobs\":[-0.5,0],\"kept_mass\":[1,0.25],\"finish_reason\":\"stop\"},"
			"{\"prompt_ids\":[1],\"completion_ids\":[],\"logprobs\":[],\"finish_reason\":\"length\"}]}",
			&err) == 0);
	CHECK_STR(r.group, "g");
	CHECK(r.sample == 1 && r.group_size == 4 && r.version == 3 && r.temperature == 0.5);
	CHECK(r.has_reward && r.reward == 0.25 && !r.has_advantage && !r.failed);
	CHECK(r.n_turns == 2 && r.turns[0].n_prompt == 3 && r.turns[0].completion_ids[1] == 9);
	CHECK(r.turns[0].logprobs[0] == -0.5F && r.turns[0].kept_mass[1] == 0.25F);
	CHECK(r.turns[0].finish == SPAR_FINISH_STOP && r.turns[1].finish == SPAR_FINISH_LENGTH);
	CHECK(r.turns[1].n_completion == 0 && !r.turns[1].kept_mass);
	spar_rollout_release(&r);
	CHECK(read_text(&r, HEAD ",\"error\":\"x\",\"turns\":[{\"prompt_ids\":\"cut\"}]}", &err) == 0);
	CHECK(r.failed && r.n_turns == 0 && r.version == -1 && r.temperature == 1);
	spar_rollout_release(&r);
}

static void bad(void)
{
	static const struct {
		const char *turn, *want;
	} cases[] = {
	    {"7", ".turns[0]: expected object, got number"},
	    {"{\"completion_ids\":[],\"logprobs\":[],\"finish_reason\":\"stop\"}",
	     ".turns[0].prompt_ids: expected array, got nothing"},
	    {"{\"prompt_ids\":[1],\"completion_ids\":[7,9],\"logprobs\":[-1],\"finish_reason\":\"stop\"}",
	     ".turns[0].logprobs: 1 values for 2 completion_ids"},
	    {"{\"prompt_ids\":[1],\"completion_ids\":[7],\"logprobs\":[0.5],\"finish_reason\":\"stop\"}",
	     ".turns[0].logprobs[0]: 0.5 is out of range"},
	    {"{\"prompt_ids\":[1],\"completion_ids\":[7],\"logprobs\":[-1],\"kept_mass\":[0],\"finish_reason\":"
	     "\"stop\"}",
	     ".turns[0].kept_mass[0]: 0 is out of range"},
	    {"{\"prompt_ids\":[1],\"completion_ids\":[7],\"logprobs\":[-1],\"kept_mass\":[],\"finish_reason\":"
	     "\"stop\"}",
	     ".turns[0].kept_mass: 0 values for 1 completion_ids"},
	    {"{\"prompt_ids\":[1],\"completion_ids\":[7],\"logprobs\":[-1],\"finish_reason\":\"done\"}",
	     ".turns[0].finish_reason: expected stop, length, env or error"},
	};
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct spar_rollout r;
		struct spar_err err;
		char json[512];
		snprintf(json, sizeof json, HEAD ",\"turns\":[%s]}", cases[i].turn);
		CHECK(read_text(&r, json, &err) == -SPAR_INPUT);
		CHECK_STR(err.msg, cases[i].want);
	}
	struct spar_rollout r;
	struct spar_err err;
	CHECK(read_text(&r,
			HEAD ",\"turns\":[{\"prompt_ids\":[1],\"completion_ids\":[7],\"logprobs\":[null],"
			     "\"finish_reason\":\"stop\"}]}",
			&err) == -SPAR_INPUT);
	CHECK(strstr(err.msg, ".turns[0].logprobs[0]") && strstr(err.msg, "null"));
	CHECK(read_text(&r, HEAD "}", &err) == -SPAR_INPUT && strstr(err.msg, ".turns"));
	CHECK(read_text(&r, "{\"sample\":0}", &err) == -SPAR_INPUT && strstr(err.msg, ".group"));
}

int main(void)
{
	good();
	bad();
	return unit_done();
}
