/* The settings of an objective: names, defaults, and what the whole step decides. */
#include "base/err.h"
#include "rl/objective.h"
#include <stdlib.h>
#include <string.h>

const char *const spar_loss_names[] = {"sft",   "dft",  "grpo",  "bnpo",  "dr_grpo", "dapo",
				       "cispo", "sapo", "luspo", "vespo", NULL};
const char *const spar_importance_names[] = {"token", "sequence", NULL};
const char *const spar_kl_names[] = {"k1", "k2", "k3", "abs", NULL};
const char *const spar_correction_names[] = {"token_truncate", "token_mask", "sequence_truncate", "sequence_mask",
					     NULL};

void spar_objective_init(struct spar_objective *o)
{
	*o = (struct spar_objective){.loss = SPAR_LOSS_DAPO,
				     .epsilon = 0.2,
				     .epsilon_high = -1,
				     .sapo_positive = 1,
				     .sapo_negative = 1.05,
				     .vespo_k_positive = 2,
				     .vespo_lambda_positive = 3,
				     .vespo_k_negative = 3,
				     .vespo_lambda_negative = 2,
				     .kl = SPAR_KL_K3,
				     .is_max = 3,
				     .top_entropy_quantile = 1,
				     .max_completion_length = 512};
}

static int ascending(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;
	return (x > y) - (x < y);
}

static double quantile(const double *sorted, size_t n, double q)
{
	double at = q * (double)(n - 1);
	size_t below = (size_t)at, above = below + 1 < n ? below + 1 : below;
	return sorted[below] + (at - (double)below) * (sorted[above] - sorted[below]);
}

void spar_objective_settle(struct spar_objective *o, size_t n_sequences, size_t n_tokens, const double *entropies)
{
	o->step_sequences = (double)n_sequences;
	o->step_tokens = o->step_entropy_tokens = (double)n_tokens;
	if (!spar_objective_masks_entropy(o) || !n_tokens)
		return;
	double *sorted = spar_malloc(n_tokens * sizeof *sorted);
	memcpy(sorted, entropies, n_tokens * sizeof *sorted);
	qsort(sorted, n_tokens, sizeof *sorted, ascending);
	o->entropy_threshold = (double)(float)quantile(sorted, n_tokens, 1 - o->top_entropy_quantile);
	for (size_t i = 0; i < n_tokens && sorted[i] < o->entropy_threshold; i++)
		o->step_entropy_tokens--;
	free(sorted);
}
