/* show.c - how an episode is shown: the observation for programs, the prompt for models, info for logs. See episode.h. */
#include "env/osint/episode.h"
#include <inttypes.h>
#include <string.h>

enum { OUTPUTS_SHOWN = 5, DEEDS_SHOWN = 10, OUTPUT_BYTES = 600 };

static void add_bool(struct spar_str *out, bool b)
{
	spar_str_adds(out, b ? "true" : "false");
}

static void add_text(struct spar_str *out, const char *key, const char *text)
{
	spar_str_addf(out, ",\"%s\":", key);
	spar_str_add_json(out, text, strlen(text));
}

static void add_number(struct spar_str *out, const char *key, double v)
{
	spar_str_addf(out, ",\"%s\":", key);
	spar_str_add_double(out, v);
}

/* Where the last `shown` of `n` begin. */
static size_t first_shown(size_t n, size_t shown)
{
	return n > shown ? n - shown : 0;
}

/* ---- the prompt ---- */

/* Calls and what they gave, edges noted down, and a refusal: what was not yet there at the first step. */
static void add_findings(const struct spar_osint_episode *e, struct spar_str *out)
{
	for (size_t i = first_shown(e->n_calls, OUTPUTS_SHOWN); i < e->n_calls; i++) {
		const struct spar_osint_call *c = &e->calls[i];
		size_t n = c->output.len;
		if (n > OUTPUT_BYTES)
			for (n = OUTPUT_BYTES; n && ((unsigned char)c->output.data[n] & 0xc0) == 0x80; n--)
				;
		spar_str_addf(out, "%s %.100s\n", c->tool, c->args.data);
		spar_str_add(out, c->output.data, n);
		spar_str_adds(out, n < c->output.len ? "...\n" : "\n");
	}
	for (int32_t i = 0; i < e->working.n_edges; i++) {
		spar_str_adds(out, i ? " " : "noted ");
		spar_osint_edge_array(&e->working, e->working.edges[i], out);
	}
	spar_str_adds(out, e->working.n_edges ? "\n" : "");
	if (e->step && e->invalid)
		spar_str_addf(out, "rejected: %s\n", e->last);
}

void spar_osint_episode_prompt(const struct spar_osint_episode *e, struct spar_str *out)
{
	struct spar_str findings = SPAR_STR_INIT;
	add_findings(e, &findings);
	if (findings.len)
		findings.data[--findings.len] = 0; /* the prompt ends the line */
	struct spar_osint_prompt p = {.role = e->how.role,
				      .graph = e->graph,
				      .context = e->task.context,
				      .n_context = e->task.n_context,
				      .question = e->task.question.data,
				      .hops = e->task.hops,
				      .packets = findings.len ? findings.data : NULL,
				      .tools = e->how.hidden};
	spar_osint_prompt(&p, out);
	spar_str_release(&findings);
}

/* ---- the observation ---- */

static void observe_task(const struct spar_osint_episode *e, struct spar_str *out)
{
	const struct spar_osint_task *t = &e->task;
	bool generator = e->how.role == SPAR_OSINT_GENERATOR;
	spar_str_addf(out, "\"task\":{\"task_id\":\"osint-%" PRIu64 "\",\"role\":\"%s\"", e->seed,
		      spar_osint_roles[e->how.role]);
	add_text(out, "difficulty", spar_osint_difficulties[t->difficulty]);
	if (generator) {
		spar_str_addf(out, ",\"hops\":%d", t->hops);
	} else {
		add_text(out, "task_type", t->family);
		add_text(out, "question", t->question.data);
	}
	spar_str_addf(out, ",\"shared_context_available\":true,\"shared_context_edges\":%d", t->n_context);
	if (generator || !e->how.hidden) {
		spar_str_adds(out, ",\"shared_context\":[");
		for (int i = 0; i < t->n_context; i++) {
			spar_str_adds(out, i ? "," : "");
			spar_osint_edge_array(e->graph, e->graph->edges[t->context[i]], out);
		}
		spar_str_addc(out, ']');
	}
	spar_str_addc(out, '}');
}

static void observe(const struct spar_osint_episode *e, struct spar_str *out)
{
	spar_str_adds(out, "\"observation\":{\"tool_outputs\":[");
	size_t first = first_shown(e->n_calls, OUTPUTS_SHOWN);
	for (size_t i = first; i < e->n_calls; i++)
		spar_str_addf(out, "%s{\"tool\":\"%s\",\"args\":%s,\"output\":%s}", i > first ? "," : "",
			      e->calls[i].tool, e->calls[i].args.data, e->calls[i].output.data);
	spar_str_addf(out, "],\"graph_snapshot\":{\"nodes_count\":%d,\"edges_count\":%d,\"edges\":[",
		      (int)e->working.nodes.n, (int)e->working.n_edges);
	for (int32_t i = 0; i < e->working.n_edges; i++) {
		spar_str_adds(out, i ? "," : "");
		spar_osint_edge_object(&e->working, e->working.edges[i], out);
	}
	spar_str_adds(out, "]},\"action_history\":[");
	first = first_shown((size_t)e->step, DEEDS_SHOWN);
	for (size_t i = first; i < (size_t)e->step; i++) {
		const struct spar_osint_deed *d = &e->deeds[i];
		spar_str_addf(out, "%s{\"type\":", i > first ? "," : "");
		spar_str_addf(out, d->verb < 0 ? "null" : "\"%s\"", d->verb < 0 ? "" : spar_osint_verbs[d->verb]);
		spar_str_addf(out, ",\"payload\":%s", d->payload.data);
		add_number(out, "reward", d->reward);
		spar_str_addc(out, '}');
	}
	spar_str_adds(out, "],\"last\":{\"ok\":");
	add_bool(out, !e->invalid);
	add_text(out, "message", e->last);
	spar_str_adds(out, "},");
	observe_task(e, out);
	spar_str_addc(out, '}');
}

/* ---- info ---- */

static void info_step(const struct spar_osint_episode *e, struct spar_str *out)
{
	static const char *const kinds[] = {"null", "\"parse\"", "\"action\"", "\"parameter\"", "\"precondition\""};
	const struct spar_osint_deed *d = &e->deeds[e->step - 1];
	spar_str_adds(out, ",\"valid\":");
	add_bool(out, !e->invalid);
	spar_str_addf(out, ",\"invalid_kind\":%s,\"action\":", kinds[e->invalid]);
	if (d->verb < 0)
		spar_str_adds(out, "null");
	else
		spar_str_addf(out, "{\"action_type\":\"%s\",\"payload\":%s}", spar_osint_verbs[d->verb],
			      d->payload.data);
	spar_str_adds(out, ",\"reward_parts\":{");
	for (int i = 0; i < e->n_parts; i++) {
		spar_str_addf(out, "%s\"%s\":", i ? "," : "", e->parts[i].name);
		spar_str_add_double(out, e->parts[i].value);
	}
	spar_str_adds(out, "}");
}

static void info_end(const struct spar_osint_episode *e, struct spar_str *out)
{
	static const char *const ends[] = {"", "answer", "proposal", "max_steps"};
	const char *comma = "";
	spar_str_addf(out, ",\"end\":\"%s\",\"success\":", ends[e->end]);
	add_bool(out, e->success);
	if (e->how.role == SPAR_OSINT_ANSWERER) {
		add_number(out, "evidence_f1", e->f1);
		return;
	}
	spar_str_addf(out, ",\"rung\":\"%s\",\"reasons\":[", spar_osint_rungs[e->verdict.rung]);
	for (unsigned bit = 1; bit && bit <= e->verdict.reasons; bit <<= 1) {
		if (!(e->verdict.reasons & bit))
			continue;
		spar_str_addf(out, "%s\"%s\"", comma, spar_osint_reason(bit));
		comma = ",";
	}
	spar_str_addc(out, ']');
}

static void info_truth(const struct spar_osint_episode *e, struct spar_str *out)
{
	spar_str_adds(out, ",\"truth\":");
	spar_osint_ideal(SPAR_OSINT_GENERATOR, e->graph, &e->task, out);
}

static void info(const struct spar_osint_episode *e, bool oracle, struct spar_str *out)
{
	spar_str_addf(out, "\"info\":{\"seed\":\"%" PRIu64 "\",\"difficulty\":\"%s\",\"step\":%d,\"max_steps\":%d",
		      e->seed, spar_osint_difficulties[e->task.difficulty], e->step, e->max_steps);
	add_number(out, "return", e->total);
	spar_str_addf(out, ",\"role\":\"%s\",\"profile\":\"%s\",\"hops\":%d,\"graph\":", spar_osint_roles[e->how.role],
		      spar_osint_profiles[e->how.profile], e->task.hops);
	if (e->how.metaqa)
		spar_str_addf(out, "{\"metaqa\":\"%s\"}", spar_osint_splits[e->how.source.split]);
	else
		spar_osint_source_json(&e->how.source, out);
	spar_str_addf(out, ",\"tool_calls\":%zu,\"redundant_tool_calls\":%zu", e->n_calls, e->n_redundant);
	if (e->step)
		info_step(e, out);
	if (e->end)
		info_end(e, out);
	if (e->end && oracle)
		info_truth(e, out);
	spar_str_addc(out, '}');
}

void spar_osint_episode_view(const struct spar_osint_episode *e, bool oracle, struct spar_str *out)
{
	observe(e, out);
	spar_str_adds(out, ",\"messages\":");
	if (e->end)
		spar_str_adds(out, "[]");
	else
		spar_osint_episode_prompt(e, out);
	add_number(out, "reward", e->reward);
	spar_str_adds(out, ",\"done\":");
	add_bool(out, e->end);
	spar_str_addc(out, ',');
	info(e, oracle, out);
}

void spar_osint_action_schema(struct spar_str *out)
{
	spar_str_adds(out, "{\"type\":\"object\",\"properties\":{\"action_type\":{\"enum\":[");
	for (int i = 0; i < SPAR_OSINT_PROPOSE; i++)
		spar_str_addf(out, "%s\"%s\"", i ? "," : "", spar_osint_verbs[i]);
	spar_str_adds(out, "]},\"payload\":{\"type\":\"object\"},\"tool\":{\"enum\":");
	spar_osint_tool_names(out);
	spar_str_adds(out, "},\"args\":{\"type\":\"object\"}");
	static const char *const texts[] = {"src", "rel", "dst", "answer", "question"};
	for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
		spar_str_addf(out, ",\"%s\":{\"type\":\"string\"}", texts[i]);
	spar_str_adds(out, ",\"supporting_edges\":{\"type\":\"array\",\"items\":{\"type\":[\"array\",\"object\"]}}}}");
}
