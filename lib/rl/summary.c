/* summary.c - see summary.h */
#include "rl/summary.h"
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- the table ---- */

static void add_title(struct spar_str *table)
{
	spar_str_addf(table, "%-20s %-10s %8s  %-28s %-30s %s\n", "", "", "episodes", "success rate (95 %)",
		      "mean return (95 %)", "invalid actions");
}

static void add_row(struct spar_str *table, const char *name, const char *group, const struct spar_figures *f)
{
	spar_str_addf(table, "%-20s %-10s %8zu  ", name, group, f->episodes);
	if (isnan(f->success_rate))
		spar_str_addf(table, "%-28s ", "-");
	else
		spar_str_addf(table, "%.3f  [%.3f, %.3f]%8s ", f->success_rate, f->success_ci.lo, f->success_ci.hi, "");
	if (isnan(f->mean_return))
		spar_str_addf(table, "%-30s ", "-");
	else
		spar_str_addf(table, "%+.3f  [%+.3f, %+.3f]%6s ", f->mean_return, f->return_ci.lo, f->return_ci.hi, "");
	if (isnan(f->invalid_share))
		spar_str_adds(table, "-\n");
	else
		spar_str_addf(table, "%.3f\n", f->invalid_share);
}

/* ---- one contestant ---- */

static void add_pass_at(const struct spar_summary *s, const struct spar_arm *arm, struct spar_str *json)
{
	size_t n_tasks;
	spar_str_adds(json, ",\"pass_at\":{");
	for (size_t i = 0; i < s->n_ks; i++) {
		spar_str_addf(json, i ? ",\"%zu\":" : "\"%zu\":", s->ks[i]);
		spar_str_add_double(json, spar_outcomes_pass_at(&arm->outcomes, s->ks[i], &n_tasks));
	}
	spar_str_adds(json, "},\"pass_at_tasks\":{");
	for (size_t i = 0; i < s->n_ks; i++) {
		spar_outcomes_pass_at(&arm->outcomes, s->ks[i], &n_tasks);
		spar_str_addf(json, i ? ",\"%zu\":%zu" : "\"%zu\":%zu", s->ks[i], n_tasks);
	}
	spar_str_addc(json, '}');
}

static void add_difficulties(const struct spar_arm *arm, const struct spar_rng *rng, struct spar_str *json,
			     struct spar_str *table)
{
	size_t n;
	const char **names = spar_outcomes_difficulties(&arm->outcomes, &n);
	spar_str_adds(json, ",\"difficulty\":{");
	for (size_t i = 0; i < n; i++) {
		struct spar_figures f;
		spar_figures(&f, &arm->outcomes, names[i], rng);
		if (i)
			spar_str_addc(json, ',');
		spar_str_add_json(json, names[i], strlen(names[i]));
		spar_str_adds(json, ":{");
		spar_figures_json(&f, json);
		spar_str_addc(json, '}');
		add_row(table, "", names[i], &f);
	}
	spar_str_addc(json, '}');
	free(names);
}

static void add_model(const struct spar_arm *arm, struct spar_str *json)
{
	spar_str_adds(json, "\"path\":");
	spar_str_add_json(json, arm->model, strlen(arm->model));
	if (arm->version >= 0)
		spar_str_addf(json, ",\"version\":%" PRId64, arm->version);
	spar_str_addf(json, ",\"hash\":\"%s\",", arm->hash);
}

static void add_arm(const struct spar_summary *s, struct spar_arm *arm, const struct spar_rng *rng,
		    struct spar_str *json, struct spar_str *table)
{
	struct spar_figures f;
	spar_outcomes_sort(&arm->outcomes);
	spar_figures(&f, &arm->outcomes, NULL, rng);
	add_row(table, arm->name, "all", &f);
	spar_str_add_json(json, arm->name, strlen(arm->name));
	spar_str_adds(json, ":{");
	if (arm->model)
		add_model(arm, json);
	spar_figures_json(&f, json);
	if (s->n_ks)
		add_pass_at(s, arm, json);
	add_difficulties(arm, rng, json, table);
	spar_str_addc(json, '}');
}

/* ---- all of them ---- */

static void add_delta(const struct spar_summary *s, const struct spar_rng *rng, struct spar_str *json,
		      struct spar_str *table)
{
	struct spar_delta d;
	spar_outcomes_compare(&d, &s->arms[0].outcomes, &s->arms[1].outcomes, rng);
	spar_str_adds(json, ",\"delta_vs_original\":{");
	spar_delta_json(&d, json);
	spar_str_addc(json, '}');
	spar_str_addf(table, "%-20s %-10s %8zu  %+.3f [%+.3f, %+.3f]%6s %+.3f  [%+.3f, %+.3f]\n", "delta_vs_original",
		      "paired", d.tasks, d.success_rate, d.success_ci.lo, d.success_ci.hi, "", d.mean_return,
		      d.return_ci.lo, d.return_ci.hi);
}

void spar_summarize(const struct spar_summary *s, struct spar_str *json, struct spar_str *table)
{
	struct spar_rng rng;
	bool some = false;
	spar_rng_init(&rng, s->seed, "bootstrap", 9);
	spar_str_adds(json, "{\"models\":{");
	add_title(table);
	for (size_t i = 0; i < s->n_arms; i++) {
		if (!s->arms[i].outcomes.n)
			continue;
		if (some)
			spar_str_addc(json, ',');
		add_arm(s, &s->arms[i], &rng, json, table);
		some = true;
	}
	spar_str_addc(json, '}');
	if (s->compare)
		add_delta(s, &rng, json, table);
	spar_str_addf(json, ",\"samples_per_task\":%" PRId64 ",\"temperature\":", s->samples);
	spar_str_add_double(json, s->temperature);
	spar_str_addf(json, ",\"seed\":\"%" PRIu64 "\",\"confidence\":0.95}", s->seed);
}
