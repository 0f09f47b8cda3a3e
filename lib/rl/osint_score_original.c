/* osint_score_original.c - profile reference: the original's rewards, written down as ours are; see osint_original.h */
#include "rl/osint_score_parts.h"
#include "rl/osint_text.h"

#include <stdlib.h>

static void first_answer(void *ctx, const char *text, size_t n)
{
	struct spar_str *out = ctx;
	if (!out->len)
		spar_osint_text_answer(text, n, out);
}

void spar_osint_score_task_original(struct spar_osint_scorer *s, const char *text, size_t n, struct spar_record *rec)
{
	struct spar_str judge = SPAR_STR_INIT, verdict = SPAR_STR_INIT;
	unsigned reasons;
	spar_osint_each_judged(rec->value, first_answer, &judge);
	double reward = spar_osint_original_generator(&s->original, text, n, judge.data, &reasons);
	spar_str_addf(&verdict, "{\"profile\":\"reference\",\"rung\":\"%s\"", reasons ? "invalid" : "valid");
	spar_osint_put_reasons(&verdict, reasons, spar_osint_original_reason);
	spar_str_addc(&verdict, '}');
	spar_osint_put_reward(s, rec, reward, &verdict);
	spar_str_release(&verdict);
	spar_str_release(&judge);
}

void spar_osint_score_answer_original(struct spar_osint_scorer *s, const struct spar_osint_truth *t, const char *text,
				      size_t n, struct spar_record *rec)
{
	struct spar_osint_triple *support;
	struct spar_str verdict = SPAR_STR_INIT;
	struct spar_osint_reply task = {.question = t->question, .truth = t->answer, .difficulty = t->difficulty};
	double f1;
	bool right;
	task.n_support = spar_osint_text_edges(t->edges, SPAR_OSINT_SUPPORT_MAX, &support);
	task.support = support;
	double reward = spar_osint_original_answerer(&s->original, text, n, task, &f1, &right);
	spar_str_addf(&verdict, "{\"profile\":\"reference\",\"reasons\":[%s],\"correct\":%s",
		      right ? "" : "\"wrong_answer\"", right ? "true" : "false");
	spar_osint_put_number(&verdict, "graph_f1", f1);
	spar_str_addc(&verdict, '}');
	spar_osint_put_reward(s, rec, reward, &verdict);
	spar_str_release(&verdict);
	free(support);
}
