/* config_read.h - reading an object that must hold no surprise: every key that is asked for is known from then on, and
 * spar_reading_end refuses what is left over and on. For the files that read a model's config. */
#ifndef SPAR_MODEL_CONFIG_READ_H
#define SPAR_MODEL_CONFIG_READ_H

#include "model/config.h"
#include <jv.h>

struct spar_reading {
	jv obj;               /* borrowed */
	const char *path;     /* of the object, for messages: "" at the top, else "rope_scaling" */
	const char *keys[64]; /* asked for so far; literals */
	size_t n_keys;
};

/*! Is the key there and not null? */
bool spar_reading_has(struct spar_reading *r, const char *key);
/*! A whole number in [1, 2^24]; absent or null: `absent`, or an error if that is 0. */
int spar_reading_size(struct spar_reading *r, const char *key, size_t absent, size_t *out, struct spar_err *err);
/*! The same, but null means 0: "none". */
int spar_reading_size_or_none(struct spar_reading *r, const char *key, size_t absent, size_t *out,
			      struct spar_err *err);
/*! A positive number; absent: `absent`, or an error if that is 0. */
int spar_reading_positive(struct spar_reading *r, const char *key, double absent, double *out, struct spar_err *err);
/*! The same, but null means 0. */
int spar_reading_positive_or_none(struct spar_reading *r, const char *key, double absent, double *out,
				  struct spar_err *err);
int spar_reading_flag(struct spar_reading *r, const char *key, bool absent, bool *out, struct spar_err *err);
/*! *out borrowed from the object, or `absent`. */
int spar_reading_str(struct spar_reading *r, const char *key, const char *absent, const char **out,
		     struct spar_err *err);
/*! "key: what", with the object's path before it. */
int spar_reading_fail(const struct spar_reading *r, const char *key, struct spar_err *err, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));
/*! SPAR_INPUT, naming it, if a key is on (not null, false or empty) that was not asked for and is not in `harmless`
 *  (NULL-terminated; a word that ends in '*' stands for all that begin so). */
int spar_reading_end(const struct spar_reading *r, const char *const *harmless, struct spar_err *err);

/*! Fill end_ids and eos from `config` (config.json, borrowed) and generation_config.json in `dir`. */
int spar_config_load_ends(struct spar_config *c, const char *dir, jv config, struct spar_err *err);

/*! Fill ropes from rope_theta, rope_scaling and rope_parameters. `theta`: what is meant when nothing is said, of all
 *  layers and, if that is not 0, of windowed layers, which then have their own. */
int spar_config_read_ropes(struct spar_config *c, struct spar_reading *r, double theta, double local_theta,
			   struct spar_err *err);

#endif
