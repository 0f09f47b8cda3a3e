/* views.h - what the platforms show of a graph: posts, threads and profiles, among chatter that means nothing. Made from
 * the graph and a stream of its own, so that other views of the same graph hold the same facts. */
#ifndef SPAR_ENV_OSINT_VIEWS_H
#define SPAR_ENV_OSINT_VIEWS_H

#include "env/osint/graph.h"

struct spar_osint_post {
	int32_t node;    /* -1: chatter, called by its number */
	int32_t author;  /* user or alias */
	int32_t mention; /* -1: none */
	int32_t timestamp;
	uint32_t text; /* where it begins in `text` */
};

struct spar_osint_thread {
	int32_t node, author;
	uint32_t topic;
	int32_t guests[2]; /* who says something; -1 in a thread of the graph: there its topics are the comments */
};

struct spar_osint_views {
	const struct spar_osint_graph *graph; /* borrowed */
	struct spar_osint_post *posts;        /* (n_posts) chatter first */
	struct spar_osint_thread *threads;    /* (n_threads) */
	int32_t *users;                       /* (n_users) nodes: their profiles */
	uint32_t *red_herrings;               /* (n_red_herrings) random numbers: profiles of nobody */
	int32_t n_posts, n_threads, n_users, n_red_herrings;
	struct spar_str text; /* NUL-terminated */
	bool plain;           /* of a graph that is no society: each edge is a post, each node has a profile */
};

struct spar_osint_noise {
	double rumours;      /* share of posts told as rumours: 0.15 */
	double red_herrings; /* profiles of nobody for each user: 0.1 */
};

void spar_osint_views_make(struct spar_osint_views *v, const struct spar_osint_graph *g, uint64_t seed,
			   const struct spar_osint_noise *noise);
/*! Of any graph: a post for each edge, a profile for each node, no threads. */
void spar_osint_views_plain(struct spar_osint_views *v, const struct spar_osint_graph *g);
void spar_osint_views_release(struct spar_osint_views *v);

/* ---- one of them as a JSON object, appended ---- */

void spar_osint_post_json(const struct spar_osint_views *v, int32_t i, struct spar_str *out);
void spar_osint_thread_json(const struct spar_osint_views *v, int32_t i, struct spar_str *out);
/*! i < n_users: a user's; the red herrings follow. */
void spar_osint_profile_json(const struct spar_osint_views *v, int32_t i, struct spar_str *out);

/*! Append the id of a post or thread: the node's name, or chatter's number. */
void spar_osint_post_id(const struct spar_osint_views *v, int32_t i, struct spar_str *out);
void spar_osint_thread_id(const struct spar_osint_views *v, int32_t i, struct spar_str *out);

/*! Append what people call a node: "Person 12" for user_12; other names as they are. */
void spar_osint_title(const struct spar_osint_graph *g, int32_t node, struct spar_str *out);

extern const char *const spar_osint_topics[4];

/* ---- questions to the graph that the views and tools share ---- */

/*! The first dst of (src, relation, *), or -1. */
int32_t spar_osint_target(const struct spar_osint_graph *g, int32_t src, const char *relation);
/*! Who is behind an alias; other nodes are themselves. */
int32_t spar_osint_owner(const struct spar_osint_graph *g, int32_t node);

#endif
