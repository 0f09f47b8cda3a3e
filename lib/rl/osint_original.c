#include "rl/osint_original.h"
#include "rl/osint_replay.h"
#include "rl/osint_text.h"

#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* A NEW reference; invalid if it is not there. */
static jv member(jv object, const char *key)
{
	return jv_is_valid(object) ? jv_object_get(jv_copy(object), jv_string(key)) : jv_invalid();
}

static double clip(double x, double lo, double hi)
{
	return x < lo ? lo : x > hi ? hi : x;
}

const char *spar_osint_original_reason(unsigned bit)
{
	static const char *const names[] = {"missing_question_or_answer",
					    "malformed_support_edges",
					    "context_or_support_budget_overflow",
					    "unseen_nodes_or_edges",
					    "non_replayable_tool_calls",
					    "non_unique_derivation_path",
					    "answer_leakage",
					    "duplicate_or_near_duplicate"};
	size_t i = 0;
	while (i + 1 < sizeof names / sizeof *names && !(bit >> i & 1))
		i++;
	return names[i];
}

void spar_osint_original_release(struct spar_osint_original *o)
{
	for (size_t i = 0; i < o->n_seen; i++)
		free(o->seen[i]);
	free(o->seen);
	o->seen = NULL;
	o->n_seen = 0;
}

/* ---- what was seen ---- */

static void remember(struct spar_osint_original *o, const char *question)
{
	if (o->n_seen == 4096) { /* the last 2048 are kept */
		for (size_t i = 0; i < 2048; i++)
			free(o->seen[i]);
		memmove(o->seen, o->seen + 2048, 2048 * sizeof *o->seen);
		o->n_seen = 2048;
	}
	o->seen = spar_realloc(o->seen, (o->n_seen + 1) * sizeof *o->seen);
	o->seen[o->n_seen++] = spar_strdup(question);
}

/* ---- what it is paid ---- */

/* Distinct pairs of neighbouring words over all pairs, in what the "agents" wrote. */
static double bigrams(const struct spar_osint_original_task *t)
{
	struct spar_str all = SPAR_STR_INIT, pairs = SPAR_STR_INIT;
	size_t at = 0, len, last = 0, last_len = 0, n = 0, distinct = 0;
	jv_array_foreach(t->outputs, i, item)
	{
		jv note = jv_get_kind(item) == JV_KIND_OBJECT ? member(item, "content") : jv_copy(item);
		if (jv_get_kind(note) != JV_KIND_STRING && jv_get_kind(item) == JV_KIND_OBJECT) {
			jv_free(note);
			note = member(item, "summary");
		}
		if (jv_get_kind(note) == JV_KIND_STRING)
			spar_str_addf(&all, "%s ", jv_string_value(note));
		jv_free(note);
		jv_free(item);
	}
	for (size_t i = 0; i < all.len; i++)
		all.data[i] = (char)tolower((unsigned char)all.data[i]);
	for (; (len = spar_osint_text_word(all.data, all.len, &at)); at += len) {
		if (last_len) {
			struct spar_str pair = SPAR_STR_INIT;
			spar_str_addf(&pair, "\n%.*s %.*s\n", (int)last_len, all.data + last, (int)len, all.data + at);
			n++;
			if (!strstr(pairs.data, pair.data)) {
				distinct++;
				spar_str_add(&pairs, pair.data, pair.len);
			}
			spar_str_release(&pair);
		}
		last = at;
		last_len = len;
	}
	spar_str_release(&all);
	spar_str_release(&pairs);
	return n ? (double)distinct / (double)n : 0;
}

static double pressure(const struct spar_osint_original_opt *opt, const struct spar_osint_original_task *t)
{
	double u = fmax((double)spar_osint_original_nodes(t) / opt->shared_nodes,
			(double)t->n_support / opt->shared_edges),
	       target = fmax(0.05, opt->target_pressure);
	return u > 1 ? 0 : fmax(0, 1 - fabs(u - target) / fmax(target, 1 - target));
}

static double pay_valid(const struct spar_osint_original *o, const struct spar_osint_original_task *t, double hardness,
			double signal)
{
	const struct spar_osint_original_opt *opt = &o->opt;
	jv orchestrator = member(t->object, "orchestrator");
	struct spar_osint_telemetry told = spar_osint_text_telemetry(orchestrator);
	struct spar_osint_parl parl = spar_osint_reference_parl(&told, opt->agents);
	bool notes = jv_array_length(jv_copy(t->outputs)) > 0;
	jv_free(orchestrator);
	double h = clip((hardness + 0.4) / 1.4, 0, 1), d = notes ? clip(0.7 * bigrams(t) + 0.3, 0, 1) : 0,
	       c = clip(0.55 * pressure(opt, t) + 0.25 * parl.parallel + 0.20 * parl.finish, 0, 1);
	return clip(opt->validity + opt->hardness * h + opt->diversity * d + opt->consistency * c +
			0.05 * fmin(1, signal / 0.25),
		    -1.8, 1.2);
}

static double pay_invalid(const struct spar_osint_original_task *t, unsigned why, double signal)
{
	static const double fines[] = {0.35, 0.25, 0.15, 0.25, 0.25, 0.20, 0.30, 0.15};
	double penalty = 0.10, credit = 0.25 * (t->question.len > 0) + 0.25 * (t->answer.len > 0);
	for (size_t i = 0; i < sizeof fines / sizeof *fines; i++)
		penalty += why >> i & 1 ? fines[i] : 0;
	credit += fmin(0.36, 0.12 * (double)t->n_support) + fmin(0.20, 0.05 * (double)t->n_calls) +
		  0.10 * (jv_array_length(jv_copy(t->outputs)) > 0) + 0.12 * t->has_graph;
	return clip(credit - penalty + signal, -1.25, -0.02);
}

static bool mentions_node(const struct spar_osint_graph *g, const char *question)
{
	for (int32_t i = 0; i < g->nodes.n; i++)
		if (strstr(question, spar_osint_node_name(g, i)))
			return true;
	return false;
}

static double pay_legacy(struct spar_osint_original *o, const struct spar_osint_original_task *t, double hardness)
{
	const struct spar_osint_graph *g = o->formulas->graph;
	bool asked = t->question.len > 0, answered = t->answer.len > 0, grounded = false;
	size_t known = 0;
	for (size_t i = 0; i < t->n_support; i++) {
		known += spar_osint_edge_find(g, spar_osint_original_ids(g, &t->support[i])) >= 0;
		grounded = grounded || !strcmp(t->support[i].src, t->answer.data) ||
			   !strcmp(t->support[i].dst, t->answer.data);
	}
	grounded = grounded || spar_osint_node(g, t->answer.data, t->answer.len) >= 0;
	double v = 0.4 * asked + 0.4 * answered + 0.2,
	       d = !asked ? 0 : 1 - spar_osint_original_nearest(o, t->question.data, true), c = 0;
	if (asked && answered)
		c = (t->n_support ? 0.45 * (double)known / (double)t->n_support : 0) + 0.30 * grounded +
		    0.25 * mentions_node(g, t->question.data);
	if (asked)
		remember(o, t->question.data);
	return clip(o->opt.validity * v + o->opt.hardness * hardness + o->opt.diversity * d + o->opt.consistency * c,
		    -2.0, 1.2);
}

double spar_osint_original_generator(struct spar_osint_original *o, const char *text, size_t n, const char *judge,
				     unsigned *reasons)
{
	struct spar_osint_original_task t;
	double signal = spar_osint_text_signal(text, n), reward;
	spar_osint_original_read(&t, text, n, (size_t)o->opt.max_support);
	double hardness = !t.question.len || !t.answer.len ? -1.0 : strcmp(judge, t.answer.data) != 0 ? 1.0 : -0.4;
	*reasons = o->opt.legacy ? 0 : spar_osint_original_validate(o, &t);
	if (o->opt.legacy)
		reward = pay_legacy(o, &t, hardness);
	else if (*reasons)
		reward = pay_invalid(&t, *reasons, signal);
	else
		reward = pay_valid(o, &t, hardness, signal);
	if (!o->opt.legacy && !*reasons)
		remember(o, t.question.data);
	spar_osint_original_task_release(&t);
	return reward;
}

/* ---- answers ---- */

double spar_osint_original_answerer(const struct spar_osint_original *o, const char *text, size_t n,
				    struct spar_osint_reply task, double *f1, bool *right)
{
	static const char *const none[] = {NULL};
	struct spar_str answer = SPAR_STR_INIT;
	struct spar_osint_triple *edges;
	struct spar_osint_reference_parts parts;
	spar_osint_text_answer(text, n, &answer);
	jv object = spar_osint_text_object(text, n, none), rows = member(object, "supporting_edges"),
	   orchestrator = member(object, "orchestrator");
	struct spar_osint_telemetry told = spar_osint_text_telemetry(orchestrator);
	task.n_predicted = spar_osint_text_edges(rows, task.n_support, &edges);
	if (!task.n_predicted) { /* every true edge whose three names occur anywhere counts as predicted */
		edges = spar_realloc(edges, (task.n_support + 1) * sizeof *edges);
		for (size_t i = 0; i < task.n_support; i++)
			if (spar_osint_original_occurs(text, task.support[i].src) &&
			    spar_osint_original_occurs(text, task.support[i].rel) &&
			    spar_osint_original_occurs(text, task.support[i].dst))
				edges[task.n_predicted++] = task.support[i];
	}
	task.predicted = edges;
	task.answer = answer.data;
	task.tool_dump = "";
	task.step = 1;
	spar_osint_reference_answer(o->formulas, &task, &parts);
	*f1 = spar_osint_reference_f1(edges, task.n_predicted, task.support, task.n_support);
	*right = !strcmp(answer.data, task.truth);
	double bonus = o->opt.legacy ? 0 : spar_osint_reference_parl(&told, o->opt.agents).aux;
	free(edges);
	jv_free(rows);
	jv_free(orchestrator);
	jv_free(object);
	spar_str_release(&answer);
	return parts.total + bonus;
}
