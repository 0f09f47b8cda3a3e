/* action.h - the eight actions of env-cern: names, parameters, JSON in and out. */
#ifndef SPAR_ENV_CERN_ACTION_H
#define SPAR_ENV_CERN_ACTION_H

#include "base/str.h"
#include <jv.h>

enum spar_cern_verb {
	SPAR_CERN_CONFIGURE,
	SPAR_CERN_ALLOCATE,
	SPAR_CERN_SCAN,
	SPAR_CERN_CALIBRATE,
	SPAR_CERN_FIT,
	SPAR_CERN_ESTIMATE,
	SPAR_CERN_REFINE, /* request_systematics */
	SPAR_CERN_CLAIM,
	SPAR_CERN_VERBS,
};

enum spar_cern_parameter {
	SPAR_CERN_BEAM,
	SPAR_CERN_TRIGGER,
	SPAR_CERN_FB,
	SPAR_CERN_CHANNEL,
	SPAR_CERN_MASS,
	SPAR_CERN_SIGNIFICANCE,
	SPAR_CERN_PARAMETERS,
};

struct spar_cern_action {
	enum spar_cern_verb verb;
	int beam, trigger, channel;    /* indices of the tables in world.h; -1: not given */
	double fb, mass, significance; /* NAN: not given */
	double confidence;             /* NAN: not given */
};

/* Why an action was refused, from the cheapest mistake to find to the dearest. */
enum spar_cern_invalid {
	SPAR_CERN_VALID,
	SPAR_CERN_PARSE,
	SPAR_CERN_ACTION,
	SPAR_CERN_PARAMETER,
	SPAR_CERN_PRECONDITION,
};

/*! Nothing given but the verb. */
struct spar_cern_action spar_cern_action(enum spar_cern_verb verb);

const char *spar_cern_verb_name(enum spar_cern_verb verb);

/*! Read an action from an object (consumed); invalid means that no object was found. *verb is set as soon as the name
 *  is known, and -1 before. On refusal `why` says so in fixed words: model text is never echoed. */
enum spar_cern_invalid spar_cern_action_read(struct spar_cern_action *a, jv object, int *verb, char why[64]);

/*! Append as compact JSON, parameters in the order of the enum; masses and significances with a decimal, as prompts
 *  show them. */
void spar_cern_action_write(const struct spar_cern_action *a, struct spar_str *out);

/*! Append a JSON Schema of an action. */
void spar_cern_action_schema(struct spar_str *out);

#endif
