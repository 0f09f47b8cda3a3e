/* spar pose - make tasks for an answerer out of what a generator wrote. One line out for each line in. */
#include "record/record.h"
#include "rl/osint_score.h"
#include <inttypes.h>
#include <stdio.h>

static const struct spar_usage usage = {
    "pose", "[options] [FILE]",
    "Check each generator's rollout and, if it proposes a valid task, add `posed`: the task as an answerer is prompted "
    "with it. "
    "A frozen answerer then tries it: spar rollout --messages=.posed.messages --into=judge."};

static const char *const graph_modes[] = {"generate", "fixed", NULL};

struct work {
	struct spar_filter f;
	struct spar_osint_graph_cache graphs;
	struct spar_osint_pose_opt opt;
	struct spar_str text;
	uint64_t n, n_posed;
};

static int pose(struct work *w, struct spar_record *rec)
{
	if (!spar_record_is(rec, "rollout"))
		return spar_filter_put(&w->f, rec);
	spar_str_clear(&w->text);
	int rc =
	    spar_has(rec->value, "error") ? 0 : spar_osint_pose(&w->opt, &w->graphs, rec->value, &w->text, &w->f.err);
	if (rc < 0)
		return spar_filter_reject(&w->f, rec);
	w->n++;
	w->n_posed += rc > 0;
	if (rc > 0)
		spar_record_set(rec, "posed", w->text.data, w->text.len);
	return spar_filter_put(&w->f, rec);
}

int main(int argc, char **argv)
{
	struct work w = {.f = SPAR_FILTER_INIT("pose"), .text = SPAR_STR_INIT};
	struct spar_record *rec;
	int64_t max_hops = SPAR_OSINT_HOPS_MAX, max_nodes = 14, max_edges = SPAR_OSINT_CONTEXT;
	int mode = 0, rc;
	const struct spar_opt table[] = {
	    SPAR_OPT_CHOICE(
		"canonical-graph", 0, &mode, graph_modes, "MODE",
		"generate: a new context, also with edges the generator proposes; fixed: the candidate as it is "
		"(generate)"),
	    SPAR_OPT_INT("max-hops", 0, &max_hops, 1, SPAR_OSINT_HOPS_MAX, "N", "edges of a valid task (4)"),
	    SPAR_OPT_INT("max-nodes", 0, &max_nodes, 2, 1 << 20, "N", "nodes of a valid task (14)"),
	    SPAR_OPT_INT("max-edges", 0, &max_edges, 8, SPAR_OSINT_CONTEXT_MAX, "N", "edges of a new context (20)"),
	    SPAR_FILTER_OPTIONS(w.f),
	    SPAR_OPT_END};
	int rest = spar_opt_parse(&usage, table, argc, argv);
	if (rest < 0)
		return -1 - rest;
	if (rest + 1 < argc)
		return spar_usage_error(&usage, "one input file at most, got '%s' too", argv[rest + 1]);
	w.opt = (struct spar_osint_pose_opt){mode == 1, {(int)max_hops, (int)max_nodes}, (int)max_edges};
	rc = spar_filter_open(&w.f, argv[rest]);
	while (rc >= 0 && (rc = spar_filter_next(&w.f, &rec)) > 0)
		rc = pose(&w, rec);
	spar_osint_graph_cache_release(&w.graphs);
	spar_str_release(&w.text);
	rc = spar_filter_finish(&w.f, rc);
	if (rc == SPAR_OK && !w.f.quiet)
		fprintf(stderr, "pose: %" PRIu64 " of %" PRIu64 " rollouts propose a valid task\n", w.n_posed, w.n);
	return rc;
}
