/* osint_score_parts.h - what the files behind osint_score.h share: the scorer itself, what records say and get, the rules of both
 * profiles. */
#ifndef SPAR_RL_OSINT_SCORE_PARTS_H
#define SPAR_RL_OSINT_SCORE_PARTS_H

#include "record/record.h"
#include "rl/osint_novelty.h"
#include "rl/osint_score.h"

struct spar_osint_scorer {
	struct spar_osint_scorer_opt opt;
	struct spar_osint_graph_cache graphs;
	struct spar_osint_frozen frozen;
	/* profile reference */
	struct spar_osint_original original;
	struct spar_osint_reference formulas;
	jv formulas_of; /* the graph they were made for */
};

/* What is right, of an answerer's task. */
struct spar_osint_truth {
	const char *question, *answer;
	int32_t node, support[SPAR_OSINT_SUPPORT_MAX];
	int n_support, difficulty;
	jv edges; /* the same as JSON */
};

/* ---- records (osint_score_record.c) ---- */

/*! Set reward, rewards and verdict (copied). */
void spar_osint_put_reward(const struct spar_osint_scorer *s, struct spar_record *rec, double reward,
			   const struct spar_str *verdict);
/*! Append ,"key":v; and ,"reasons":[...] of the bits, which `name` names. */
void spar_osint_put_number(struct spar_str *out, const char *key, double v);
void spar_osint_put_reasons(struct spar_str *out, unsigned reasons, const char *(*name)(unsigned bit));

/*! What worker agents that ran for the task (borrowed) are worth, at most 0.05: counted from what ran. */
double spar_osint_worker_bonus(jv task);

/*! Call `see` on each completion of the frozen answerer. */
void spar_osint_each_judged(jv rollout, void (*see)(void *ctx, const char *text, size_t n), void *ctx);

/* ---- profile sound (osint_score_sound.c) ---- */

/*! All rollouts of one generator's task. */
int spar_osint_score_tasks(struct spar_osint_scorer *s, const struct spar_osint_graph *g, jv task,
			   struct spar_record **rollouts, size_t n, struct spar_err *err);
int spar_osint_score_answer(const struct spar_osint_scorer *s, const struct spar_osint_graph *g,
			    const struct spar_osint_truth *t, double bonus, struct spar_record *rec,
			    struct spar_err *err);

/* ---- profile reference (osint_score_original.c) ---- */

void spar_osint_score_task_original(struct spar_osint_scorer *s, const char *text, size_t n, struct spar_record *rec);
void spar_osint_score_answer_original(struct spar_osint_scorer *s, const struct spar_osint_truth *t, const char *text,
				      size_t n, struct spar_record *rec);

#endif
