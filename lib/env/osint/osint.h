/* osint.h - tasks over a knowledge graph: what is asked, what is shown, what is right. Shared by env-osint, the scorers
 * and the self-play loop, so that training, judging and evaluating see one thing.
 *
 *	struct spar_osint_graph g;
 *	spar_osint_graph_init(&g);
 *	spar_osint_generate(&g, &SPAR_OSINT_SOURCE(7, SPAR_OSINT_TRAIN));
 *	struct spar_osint_task t;
 *	spar_osint_task_make(&t, &g, &(struct spar_osint_want){.seed = 3, .difficulty = SPAR_OSINT_HARD}, &err);
 *	spar_osint_prompt(&prompt, out);                                // the chat that a model is shown
 *	spar_osint_claim_read(&c, &g, spar_action_find(text, n));       // what it wrote
 *	spar_osint_check(&g, &SPAR_OSINT_LIMITS, &c, &verdict);         // a generator's task: how far it is valid
 *	spar_osint_answered(&g, &c, t.answer), spar_osint_f1(...)       // an answerer's reply: is it right
 * The formulas of the reference profile that an environment pays too (edge and answer reward) are in reference.h.
 *
 * Randomness is keyed: graph, views, tasks, contexts and decoys each have a stream of their own, so that changing one
 * leaves the others. Equal inputs give equal bytes on any host. */
#ifndef SPAR_ENV_OSINT_OSINT_H
#define SPAR_ENV_OSINT_OSINT_H

#include "env/osint/graph.h"

/* Which formulas are paid by: `sound` by default; `reference` is the studied original, kept to be compared with. */
enum spar_osint_profile { SPAR_OSINT_SOUND, SPAR_OSINT_REFERENCE };
enum spar_osint_split { SPAR_OSINT_TRAIN, SPAR_OSINT_VALIDATION, SPAR_OSINT_TEST };
enum spar_osint_role { SPAR_OSINT_ANSWERER, SPAR_OSINT_GENERATOR };
enum { SPAR_OSINT_EASY, SPAR_OSINT_MEDIUM, SPAR_OSINT_HARD, SPAR_OSINT_MIXED };

/* NULL-terminated, in the order of the enums: for options and JSON. */
extern const char *const spar_osint_profiles[], *const spar_osint_splits[];
extern const char *const spar_osint_roles[], *const spar_osint_difficulties[];

enum { SPAR_OSINT_SUPPORT_MAX = 8, SPAR_OSINT_CONTEXT_MAX = 64, SPAR_OSINT_CONTEXT = 20, SPAR_OSINT_AVOID_MAX = 8 };

/* ---- where a graph comes from ---- */

struct spar_osint_source {
	uint64_t seed;
	enum spar_osint_split split; /* equal seeds of different splits have nothing in common */
	int n_users;                 /* 4 to 512; 0: the default (24) */
	double alias_density;        /* 0 to 1 */
	jv seeded_edges;             /* array of [src, rel, dst] that are added, borrowed (seeding.h); zeros: none */
};
#define SPAR_OSINT_SOURCE(seed_, split_) \
	((struct spar_osint_source){.seed = (seed_), .split = (split_), .n_users = 24, .alias_density = 0.35})

/*! Generate into an initialised graph, and index it: users in organisations and places, their aliases, acquaintances,
 *  posts, threads and events. Entities are numbered at random for each graph: a name says nothing but its kind. */
void spar_osint_generate(struct spar_osint_graph *g, const struct spar_osint_source *s);

/*! Append {"seed":"7","split":"train","n_users":24,"alias_density":0.35}, and "seeded_edges" if there are any. */
void spar_osint_source_json(const struct spar_osint_source *s, struct spar_str *out);

/*! Change what the object (borrowed) names of seed, split, n_users and alias_density, not the seeded edges. SPAR_INPUT names the field. */
int spar_osint_source_read(struct spar_osint_source *s, jv object, struct spar_err *err);

/*! Index of a name in one of the lists above, or -1. */
int spar_osint_choice(const char *const *names, const char *name, size_t n);

/*! A graph as a record names it (borrowed): such a source, or a graph in full (spar_osint_graph_read). `g` is
 *  initialised; SPAR_INPUT names the field. */
int spar_osint_graph_from(struct spar_osint_graph *g, jv object, struct spar_err *err);

/* ---- tasks ---- */

struct spar_osint_task {
	/* identity_resolution, network_discovery, event_tracing, N_hop_trace, metaqa_N-hop; a user's question: its own */
	const char *family;
	int difficulty;                        /* EASY, MEDIUM or HARD: follows hops and decoys */
	int hops, n_decoys;                    /* n_decoys: wrong paths of as many hops in the context */
	struct spar_osint_signature signature; /* hops 0: the question is free text (MetaQA) */
	struct spar_str question;
	int32_t answer;   /* a node; under the graph the only right one */
	int32_t *answers; /* (n_answers) MetaQA: all that are right; NULL: `answer` alone */
	size_t n_answers;
	int32_t support[SPAR_OSINT_SUPPORT_MAX]; /* (n_support) edge indices: the path from start to answer, in order */
	int n_support;
	int32_t context[SPAR_OSINT_CONTEXT_MAX]; /* (n_context) edge indices, shuffled: support and decoys */
	int n_context;
};

struct spar_osint_want {
	uint64_t seed;  /* of the task: another seed, another task of the same graph */
	int difficulty; /* or MIXED: by seed */
	int max_edges;  /* of the context, 8 to SPAR_OSINT_CONTEXT_MAX; 0: SPAR_OSINT_CONTEXT */
	int hops;       /* 1 to 4, or 0: what the difficulty says; above 1 never against the arrow, so a generator's */
};

/*! Make the task: easy ones ask for 1 or 2 hops, medium for 2 or 3, hard for 3 or 4. On a graph too poor for it the
 *  task is easier, and says so. SPAR_FAIL if no edge of the graph can be asked for. Release it in any case. */
int spar_osint_task_make(struct spar_osint_task *t, const struct spar_osint_graph *g,
			 const struct spar_osint_want *want, struct spar_err *err);
void spar_osint_task_release(struct spar_osint_task *t);

/*! EASY, MEDIUM or HARD for a path of `hops` among `n_decoys` wrong ones of the same length. */
int spar_osint_difficulty(int hops, int n_decoys);

/*! The frozen context of a task: at most max_edges edge indices into out, which holds SPAR_OSINT_CONTEXT_MAX. All of
 *  `support` is in it; of each (source, relation) that occurs every edge of the graph, so that a path without side
 *  branches here has none there; and wrong paths of as many hops, up to *n_decoys as far as there is room, which becomes
 *  how many were put in. Shuffled. Returns the number of edges, 0 if the support and its siblings do not fit. */
int spar_osint_context(const struct spar_osint_graph *g, uint64_t seed, const int32_t *support, int n_support,
		       int max_edges, int32_t *out, int *n_decoys);

/*! Append the one text that asks for a signature: "Which node is reached from alias_12 by alias_of then works_at?". */
void spar_osint_question(const struct spar_osint_graph *g, const struct spar_osint_signature *q, struct spar_str *out);

/*! Read it back, in any wording that holds one node of the graph as a token, and the relations in order; "leads" before
 *  the node asks against the arrow. False, and hops 0, if the text asks for no signature. */
bool spar_osint_question_read(const struct spar_osint_graph *g, const char *text, size_t n,
			      struct spar_osint_signature *q);

/* ---- prompts ---- */

/* What a model is shown. Everything is borrowed. */
struct spar_osint_prompt {
	enum spar_osint_role role;
	const struct spar_osint_graph *graph;
	const int32_t *context; /* (n_context) edge indices */
	int n_context;
	const char *question; /* answerer */
	int hops;             /* generator: how long a path to use; 0: any */
	const char *const
	    *avoid; /* generator: (n_avoid) questions that were asked before, at most SPAR_OSINT_AVOID_MAX shown */
	size_t n_avoid;
	const char *packets; /* what worker agents found, put before the last line; NULL: none */
	bool tools;          /* answerer: no context is shown, the tools are named instead */
	bool own_graph;      /* generator: it may propose edges of its own as "canonical_graph" */
};
/*! Append a JSON array of chat messages: [{"role":"system",...},{"role":"user",...}]. The same bytes for training,
 *  judging and evaluating. There is no filled example in it that could be copied. */
void spar_osint_prompt(const struct spar_osint_prompt *p, struct spar_str *out);

/*! Append what an ideal model answers to the prompt made of the task: compact JSON, evidence first. */
void spar_osint_ideal(enum spar_osint_role role, const struct spar_osint_graph *g, const struct spar_osint_task *t,
		      struct spar_str *out);

/* ---- what a model wrote ---- */

struct spar_osint_claim {
	bool json;                        /* there was an object */
	struct spar_str question, answer; /* normalised; "" if missing, null or not text */
	struct spar_osint_edge *edges;    /* (n_edges) as stated, unknown names -1, duplicates included */
	size_t n_edges;
	size_t n_malformed; /* members of supporting_edges that are no edges */
	bool has_edges;     /* supporting_edges is there and an array */
};
/*! Read from an object (consumed; invalid: there was none, as spar_action_find says). Never fails. */
void spar_osint_claim_read(struct spar_osint_claim *c, const struct spar_osint_graph *g, jv object);
void spar_osint_claim_release(struct spar_osint_claim *c);

/*! Trim, strip quotes at both ends, join blanks, strip trailing dots: in place. */
void spar_osint_normalize(struct spar_str *s);

/*! Whether the claimed answer is the node: equal names, normalized. */
bool spar_osint_answered(const struct spar_osint_graph *g, const struct spar_osint_claim *c, int32_t answer);

/*! Whether it is right: the task's answer, or one of its answers. */
bool spar_osint_task_answered(const struct spar_osint_graph *g, const struct spar_osint_claim *c,
			      const struct spar_osint_task *t);

/*! F1 of the stated edges, as a set, against the support; every stated edge counts, invented ones too. Both empty: 1. */
double spar_osint_f1(const struct spar_osint_graph *g, const struct spar_osint_claim *c, const int32_t *support,
		     int n_support);

/* ---- how far a generator's task is valid: each rung presumes those before it ---- */

enum spar_osint_rung {
	SPAR_OSINT_NOT_JSON,
	SPAR_OSINT_JSON,       /* an object */
	SPAR_OSINT_SCHEMA,     /* with question, answer and well-formed supporting_edges, none twice */
	SPAR_OSINT_KNOWN,      /* all edges are in the graph */
	SPAR_OSINT_CONTIGUOUS, /* and form one path, which the question asks for */
	SPAR_OSINT_ENDS,       /* the answer is the path's end */
	SPAR_OSINT_UNIQUE,     /* and the only node that the question's walk can end at */
	SPAR_OSINT_UNLEAKED,   /* no token of the question is the answer */
	SPAR_OSINT_VALID,      /* within the limits */
	SPAR_OSINT_RUNGS,
};
extern const char *const spar_osint_rungs[]; /* "not_json", "json", ... */

/* Why not: all that apply, as bits. Names as the original's where it has one. */
enum {
	SPAR_OSINT_R_NOT_JSON = 1 << 0,       /* not_json */
	SPAR_OSINT_R_MISSING = 1 << 1,        /* missing_question_or_answer */
	SPAR_OSINT_R_MALFORMED = 1 << 2,      /* malformed_support_edges */
	SPAR_OSINT_R_UNSEEN = 1 << 3,         /* unseen_nodes_or_edges */
	SPAR_OSINT_R_BROKEN = 1 << 4,         /* not_contiguous */
	SPAR_OSINT_R_OTHER_QUESTION = 1 << 5, /* question_mismatch: it does not ask for the stated path */
	SPAR_OSINT_R_WRONG_END = 1 << 6,      /* answer_not_path_end */
	SPAR_OSINT_R_AMBIGUOUS = 1 << 7,      /* non_unique_end */
	SPAR_OSINT_R_LEAKED = 1 << 8,         /* answer_leakage */
	SPAR_OSINT_R_OVERFLOW = 1 << 9,       /* context_or_support_budget_overflow */
};
/*! Name of the reason of one bit. */
const char *spar_osint_reason(unsigned bit);

struct spar_osint_limits {
	int max_hops;  /* edges of the path */
	int max_nodes; /* distinct nodes of the path */
};
#define SPAR_OSINT_LIMITS ((struct spar_osint_limits){4, 14})

struct spar_osint_verdict {
	enum spar_osint_rung rung;
	unsigned reasons;                      /* 0 exactly when rung is VALID */
	struct spar_osint_signature signature; /* of the stated path; hops 0: there is none */
	size_t n_true_on_path; /* stated edges that are in the graph and go on from the one before: for `consistency` */
};
void spar_osint_check(const struct spar_osint_graph *g, const struct spar_osint_limits *limits,
		      const struct spar_osint_claim *c, struct spar_osint_verdict *v);

/* ---- what an answer is paid under the sound profile: +1 right, 0 wrong, -0.1 none, and evidence ---- */

/*! `answered`: there is one. A right answer without evidence (1) is above a wrong one with all of it (w <= 0.55). */
double spar_osint_answer_reward(bool answered, bool right, double f1, int difficulty);

#endif
