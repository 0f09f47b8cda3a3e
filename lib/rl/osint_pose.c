/* osint_pose.c - from a generator's rollout to a task for an answerer; see osint_score.h */
#include "base/philox.h"
#include "record/record.h"
#include "rl/osint_score.h"
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static const char *const families[] = {"", "1_hop_trace", "2_hop_trace", "3_hop_trace", "4_hop_trace"};

/* The whole candidate. */
static int copy_context(const struct spar_osint_graph *own, int32_t *out)
{
	int n = own->n_edges < SPAR_OSINT_CONTEXT_MAX ? own->n_edges : SPAR_OSINT_CONTEXT_MAX;
	for (int i = 0; i < n; i++)
		out[i] = i;
	return n;
}

static int new_context(const struct spar_osint_pose_opt *opt, const struct spar_osint_graph *g,
		       struct spar_osint_task *t)
{
	struct spar_rng keyed;
	int n = opt->max_edges ? opt->max_edges : SPAR_OSINT_CONTEXT;
	t->n_decoys = SPAR_OSINT_CONTEXT_MAX; /* as many as there is room for */
	spar_rng_init(&keyed, 0, t->question.data, t->question.len);
	return spar_osint_context(g, (uint64_t)keyed.key[0] << 32 | keyed.key[1], t->support, t->n_support, n,
				  t->context, &t->n_decoys);
}

/* Fill `t` from a valid proposal: false if its context does not fit. */
static bool make_task(const struct spar_osint_pose_opt *opt, const struct spar_osint_proposal *p,
		      struct spar_osint_task *t)
{
	const struct spar_osint_claim *c = &p->claim;
	int hops = (int)c->n_edges;
	*t = (struct spar_osint_task){
	    .family = families[hops], .hops = hops, .signature = p->verdict.signature, .question = SPAR_STR_INIT};
	for (int i = 0; i < hops; i++)
		t->support[i] = spar_osint_edge_find(p->graph, c->edges[i]);
	t->n_support = hops;
	t->answer = c->edges[hops - 1].dst;
	spar_osint_question(p->graph, &t->signature, &t->question);
	t->n_context = opt->fixed ? copy_context(p->graph, t->context) : new_context(opt, p->graph, t);
	t->difficulty = spar_osint_difficulty(hops, t->n_decoys);
	return t->n_context > 0;
}

/* The member "graph" of the new task: the old one's, unless edges were added to it. */
static void graph_text(const struct spar_osint_pose_opt *opt, const struct spar_osint_proposal *p, jv task,
		       struct spar_str *out)
{
	if (p->graph == &p->own && !opt->fixed) {
		spar_osint_graph_json(p->graph, out);
		return;
	}
	jv text = jv_dump_string(jv_object_get(jv_copy(task), jv_string("graph")), 0);
	spar_str_adds(out, jv_string_value(text));
	jv_free(text);
}

static int id_text(jv rollout, struct spar_str *out, struct spar_err *err)
{
	const char *group;
	size_t n;
	int64_t sample = 0;
	int rc = spar_get_str(rollout, "", "group", &group, &n, err);
	if (rc == 0 && spar_has(rollout, "sample"))
		rc = spar_get_i64(rollout, "", "sample", &sample, err);
	if (rc == 0)
		spar_str_addf(out, "%s/%" PRId64, group, sample);
	return rc;
}

static int write_task(const struct spar_osint_pose_opt *opt, const struct spar_osint_proposal *p, jv rollout, jv task,
		      struct spar_str *out, struct spar_err *err)
{
	struct spar_osint_task t;
	struct spar_str graph = SPAR_STR_INIT, id = SPAR_STR_INIT;
	int rc = id_text(rollout, &id, err);
	bool fits = make_task(opt, p, &t);
	if (rc == 0 && fits) {
		graph_text(opt, p, task, &graph);
		const struct spar_osint_record r = {.graph = p->graph,
						    .graph_json = graph.data,
						    .task = &t,
						    .role = SPAR_OSINT_ANSWERER,
						    .id = id.data,
						    .source = "generator"};
		spar_osint_record_write(&r, out);
	}
	spar_osint_task_release(&t);
	spar_str_release(&graph);
	spar_str_release(&id);
	return rc < 0 ? rc : fits;
}

int spar_osint_pose(const struct spar_osint_pose_opt *opt, struct spar_osint_graph_cache *graphs, jv rollout,
		    struct spar_str *out, struct spar_err *err)
{
	const struct spar_osint_graph *g;
	struct spar_osint_proposal p;
	jv task;
	int rc = spar_get_kind(rollout, "", "task", JV_KIND_OBJECT, &task, err);
	if (rc < 0)
		return rc;
	if ((rc = spar_osint_graph_of(graphs, task, &g, err)) == 0) {
		rc = spar_osint_propose(&p, g, rollout, opt->fixed, &opt->limits, err);
		if (rc == 0 && p.verdict.rung == SPAR_OSINT_VALID)
			rc = write_task(opt, &p, rollout, task, out, err);
		spar_osint_proposal_release(&p);
	}
	jv_free(task);
	return rc;
}
