/* outcome.h - what an evaluation keeps of each rollout, and the figures of many.
 *
 *	struct spar_outcomes o = {0};
 *	spar_outcomes_add(&o, rollout, judge, &err);            // for each rollout's object
 *	spar_outcome_json(&o.items[o.n - 1], rollout, "finetuned", &line);
 *	spar_outcomes_sort(&o);
 *	spar_figures(&figures, &o, NULL, &rng);
 *	spar_outcomes_release(&o);
 * Memory: some 100 bytes for each rollout. */
#ifndef SPAR_RL_OUTCOME_H
#define SPAR_RL_OUTCOME_H

#include "base/err.h"
#include "base/philox.h"
#include "base/str.h"
#include "record/jq.h"
#include "rl/stats.h"
#include <jv.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Whether a rollout succeeded: what the environment says, else whether its reward reaches 1; null: nobody can tell. */
#define SPAR_OUTCOME_JUDGE \
	"if (.env.success? | type) == \"boolean\" then .env.success elif .reward == null then null else .reward >= 1 " \
	"end"

struct spar_outcome {
	char *task, *difficulty; /* difficulty NULL: not said */
	int64_t sample;
	bool failed; /* the rollout carries an error */
	bool judged; /* success is known */
	bool success;
	double result; /* return of the episode, else the reward; NaN: none */
	size_t n_turns;
	size_t n_valid, n_invalid; /* turns whose action the environment called valid or not */
};

struct spar_outcomes {
	struct spar_outcome *items;
	size_t n;
};

/*! Judge a rollout (borrowed) by the jq program, which gives true, false or null. SPAR_INPUT: the message names the field. */
int spar_outcomes_add(struct spar_outcomes *o, jv rollout, struct spar_jq *judge, struct spar_err *err);

/*! Order by task and sample: the functions below need it. */
void spar_outcomes_sort(struct spar_outcomes *o);
void spar_outcomes_release(struct spar_outcomes *o);

/*! Append the `eval` record of one rollout. */
void spar_outcome_json(const struct spar_outcome *o, jv rollout, const char *model, struct spar_str *out);

struct spar_figures {
	size_t tasks, episodes;
	size_t failed, unjudged; /* episodes that are not counted in the rate: with an error; without a verdict */
	double success_rate;     /* mean over tasks of the share of successes; NaN: none judged */
	struct spar_interval success_ci; /* Wilson with one sample for each task, else bootstrap over tasks */
	double mean_return;              /* mean over tasks; NaN: none has any */
	struct spar_interval return_ci;  /* bootstrap over tasks */
	double mean_turns;
	double invalid_share; /* of the turns that the environment judged; NaN: none */
};
/*! Of the outcomes of one difficulty, or of all (NULL). */
void spar_figures(struct spar_figures *f, const struct spar_outcomes *o, const char *difficulty,
		  const struct spar_rng *rng);

/*! Mean over tasks of pass@k where a task has at least k judged samples; *n_tasks: how many have. NaN: none. */
double spar_outcomes_pass_at(const struct spar_outcomes *o, size_t k, size_t *n_tasks);

/* How much better `a` is than `b`, on the tasks both have. */
struct spar_delta {
	size_t tasks; /* with a verdict on both sides */
	double success_rate, mean_return;
	struct spar_interval success_ci, return_ci; /* paired bootstrap over tasks */
};
void spar_outcomes_compare(struct spar_delta *d, const struct spar_outcomes *a, const struct spar_outcomes *b,
			   const struct spar_rng *rng);

/*! Append the members of a summary's figures (spar-records(5)), without braces around. */
void spar_figures_json(const struct spar_figures *f, struct spar_str *out);
void spar_delta_json(const struct spar_delta *d, struct spar_str *out);

/*! The difficulties that occur, sorted; the names are borrowed, the array is the caller's to free. */
const char **spar_outcomes_difficulties(const struct spar_outcomes *o, size_t *n);

#endif
