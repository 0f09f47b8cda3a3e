/* trainer_save.c - versions of a policy, checkpoints, the model at the end; see trainer_parts.h */
#include "base/file.h"
#include "rl/trainer_parts.h"
#include <stdlib.h>

#define SMALL_STATE ((size_t)32 << 20) /* a trainer state that is saved with every version */
#define SAVE_STEPS_LARGE 10
#define SAVE_STEPS_CHECKPOINT 100
#define KEEP_VERSIONS 3 /* a sampler may still be opening the one before the latest */

static int64_t save_steps(const struct spar_trainer *t)
{
	if (t->opt.save_steps)
		return t->opt.save_steps;
	if (!t->policy)
		return SAVE_STEPS_CHECKPOINT;
	return spar_train_state_bytes(t->graph) < SMALL_STATE ? 1 : SAVE_STEPS_LARGE;
}

static int write_model(const struct spar_trainer *t, const char *dir, bool merge, struct spar_err *err)
{
	return spar_graph_save(t->graph, dir, merge, (enum spar_dtype)t->opt.dtype, t->model.base_dir, err);
}

static int write_out(const struct spar_trainer *t, const char *dir, struct spar_err *err)
{
	return write_model(t, dir, t->opt.merge, err);
}

static int write_state(const struct spar_trainer *t, const char *dir, struct spar_err *err)
{
	return spar_train_state_save(&t->at, t->graph, dir, err);
}

/* A folder that is there when `write` is done with it. */
static int save(const struct spar_trainer *t, const char *dir,
		int (*write)(const struct spar_trainer *t, const char *dir, struct spar_err *err), struct spar_err *err)
{
	char *tmp = spar_dir_begin(dir, err);
	if (!tmp)
		return -(int)SPAR_FAIL;
	int rc = write(t, tmp, err);
	if (rc == 0)
		rc = spar_dir_commit(tmp, dir, err);
	if (rc < 0)
		spar_dir_remove(tmp, NULL);
	free(tmp);
	return rc;
}

int spar_trainer_publish(const struct spar_trainer *t, struct spar_err *err)
{
	int64_t version = (int64_t)t->at.batches;
	char *tmp = spar_policy_begin(t->policy, version, err);
	if (!tmp)
		return -(int)SPAR_FAIL;
	int rc = write_model(t, tmp, false, err);
	if (rc == 0 && (version % save_steps(t) == 0 || spar_trainer_done(t))) {
		char *state = spar_path_join(tmp, "trainer");
		rc = spar_dir_make(state, err);
		if (rc == 0)
			rc = write_state(t, state, err);
		free(state);
	}
	if (rc == 0)
		return spar_policy_publish(t->policy, tmp, version, KEEP_VERSIONS, t->opt.save_steps, err);
	spar_dir_remove(tmp, NULL);
	free(tmp);
	return rc;
}

int spar_trainer_save(const struct spar_trainer *t, uint64_t n, struct spar_err *err)
{
	if (t->policy)
		return spar_trainer_publish(t, err);
	return t->opt.checkpoint && n % (uint64_t)save_steps(t) == 0 ? save(t, t->opt.checkpoint, write_state, err) : 0;
}

int spar_trainer_save_end(const struct spar_trainer *t, struct spar_err *err)
{
	int rc = t->opt.checkpoint ? save(t, t->opt.checkpoint, write_state, err) : 0;
	if (rc == 0 && t->policy)
		rc = spar_policy_end(t->policy, err);
	if (rc == 0 && t->opt.out)
		rc = save(t, t->opt.out, write_out, err);
	return rc;
}
