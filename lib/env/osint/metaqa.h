/* metaqa.h - the MetaQA data set (Zhang, Dai, Kozareva, Smola, Song 2018) as graph and questions: kb.txt with lines
 * "subject|relation|object", and 1-hop, 2-hop and 3-hop/VARIANT/qa_SPLIT.txt with lines
 * "question [topic]<TAB>answer|answer". Nothing is bundled. */
#ifndef SPAR_ENV_OSINT_METAQA_H
#define SPAR_ENV_OSINT_METAQA_H

#include "env/osint/osint.h"
#include "env/osint/views.h"

enum { SPAR_OSINT_METAQA_HOPS = 3 };

struct spar_osint_metaqa {
	struct spar_osint_graph graph;
	struct spar_osint_views views;
	struct spar_osint_metaqa_file {
		struct spar_str text;
		size_t *lines; /* (n) where each usable question begins */
		size_t n;
	} files[SPAR_OSINT_METAQA_HOPS]; /* by hops - 1; empty if the file is not there */
	size_t n_skipped;                /* questions whose topic or first answer is not in the graph */
};

/*! Read DIR/kb.txt and the questions of a split (validation is the file "dev"); `variant` is vanilla or ntm. Not all hops
 *  need be there. SPAR_INPUT names file and line, SPAR_FAIL the file that could not be read. Release it in any case. */
int spar_osint_metaqa_open(struct spar_osint_metaqa *m, const char *dir, const char *variant,
			   enum spar_osint_split split, struct spar_err *err);
void spar_osint_metaqa_release(struct spar_osint_metaqa *m);

/*! The task of want->seed: easy, medium and hard are 1, 2 and 3 hops. Its support is a shortest path from the topic to the
 *  first answer, against arrows too; any of the answers is right. */
int spar_osint_metaqa_task(struct spar_osint_task *t, const struct spar_osint_metaqa *m,
			   const struct spar_osint_want *want, struct spar_err *err);

#endif
