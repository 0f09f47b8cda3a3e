/* summary.h - what an evaluation comes to: the same figures as JSON (spar-records(5)) and as a table for a person. */
#ifndef SPAR_RL_SUMMARY_H
#define SPAR_RL_SUMMARY_H

#include "base/str.h"
#include "rl/outcome.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* One contestant. */
struct spar_arm {
	char *name;                 /* "finetuned", "original", "policy:NAME", "records"; malloc'ed */
	const char *model, *policy; /* a folder, or the name of a built-in policy; both NULL for "records" */
	int64_t version;            /* of a policy directory, -1: the model is a plain folder */
	char hash[17];              /* of the model's weights */
	struct spar_outcomes outcomes;
};

struct spar_summary {
	struct spar_arm *arms; /* (n_arms); those without outcomes are left out. Their outcomes get sorted */
	size_t n_arms;
	bool compare; /* arms[0] with arms[1], task by task */
	const size_t *ks;
	size_t n_ks; /* pass@k for these */
	int64_t samples;
	double temperature;
	uint64_t seed; /* also of the bootstrap's resamples */
};

/*! Append the summary's object to `json` and lines to `table`. */
void spar_summarize(const struct spar_summary *s, struct spar_str *json, struct spar_str *table);

#endif
