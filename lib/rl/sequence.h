/* sequence.h - the `sequence` record: one completion as numbers, all that an objective needs of it. No model, no ids.
 *
 *  {"type":"sequence","logprobs":[..],"old_logprobs":[..],"sampling_logprobs":[..],"kept_mass":[..],"ref_logprobs":[..],
 *   "entropies":[..],"mask":[1,1,0],"advantage":0.5,"finish_reason":"stop"}
 * All arrays are as long as logprobs, all but logprobs may be missing: see struct spar_sequence. A token whose mask is 0
 * (the environment's) takes no part. */
#ifndef SPAR_RL_SEQUENCE_H
#define SPAR_RL_SEQUENCE_H

#include "base/err.h"
#include "base/str.h"
#include "rl/objective.h"
#include <jv.h>

struct spar_sequence_record {
	struct spar_sequence seq; /* of the loss tokens; owns its arrays */
	size_t *at;               /* (seq.n) where each of them stands in the record's arrays */
	size_t n;                 /* length of the record's arrays */
	bool truncated;           /* finish_reason is "length" */
};

/*! Read what `o` needs of the record's object (borrowed). SPAR_INPUT names a field that is missing, too long or short, or
 *  out of range. */
int spar_sequence_read(struct spar_sequence_record *r, const struct spar_objective *o, jv object, struct spar_err *err);
void spar_sequence_release(struct spar_sequence_record *r);

/*! Append values (seq.n) of the loss tokens as a JSON array over all of the record's tokens: 0 where the mask is. */
void spar_sequence_spread(const struct spar_sequence_record *r, const double *values, struct spar_str *out);

#endif
