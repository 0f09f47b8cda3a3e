/* model.h - a model folder opened: its config, its weights as float32 on request, and an adapter on top if there is one.
 * Engine (sampling) and graph (training) both take their weights from here, so they cannot differ in what they load.
 *
 * A folder is a Hugging Face checkpoint, or a PEFT adapter (adapter_config.json), whose base_model_name_or_path names the
 * base folder (relative paths: to the adapter folder, then to the working folder).
 */
#ifndef SPAR_MODEL_MODEL_H
#define SPAR_MODEL_MODEL_H

#include "base/err.h"
#include "model/config.h"
#include "model/safetensors.h"

/* A value for the modules whose whole name, or the end of it after a dot, a regular expression fits. */
struct spar_lora_rule {
	char *pattern;
	double value;
};

struct spar_lora_config {
	int r;
	double alpha, dropout;
	bool use_rslora;
	bool all_linear;
	char **targets; /* suffixes of module names: "q_proj", ..., or whole ones; malloc'ed */
	size_t n_targets;
	char *target_pattern; /* instead of targets: a regular expression that fits whole names; or NULL */
	struct spar_lora_rule *ranks, *alphas; /* rank_pattern, alpha_pattern: other values of r and alpha */
	size_t n_ranks, n_alphas;
	bool fan_in_fan_out; /* the adapted weights are stored (in, out): GPT-2's */
};
/*! Does the parameter's module belong to the targets? A target hits a module whose name equals it or ends in it after a
 *  dot; all_linear hits every linear layer but the head. Biases are never hit. */
bool spar_lora_hits(const struct spar_lora_config *l, const struct spar_param *p);
/*! The rank and the scale (alpha / r, or alpha / sqrt(r) with use_rslora) of a module; NULL: of those without a rule. */
size_t spar_lora_rank(const struct spar_lora_config *l, const struct spar_param *p);
double spar_lora_scale(const struct spar_lora_config *l, const struct spar_param *p);
/*! SPAR_INPUT if an expression of target_pattern, ranks or alphas cannot be compiled. */
int spar_lora_check_patterns(const struct spar_lora_config *l, struct spar_err *err);
/*! SPAR_INPUT if several rules of ranks or of alphas fit the module: which one counts would depend on their order. */
int spar_lora_check_rules(const struct spar_lora_config *l, const struct spar_param *p, struct spar_err *err);

/*! "r=16,alpha=32,dropout=0.05,targets=q_proj+k_proj" -> struct (SPAR_USAGE with the wrong part named). Also
 *  "rslora=true" and "targets=all-linear". What is not said: r 16, alpha 32, dropout 0.05, targets q_proj, k_proj, v_proj and
 *  o_proj. */
int spar_lora_parse(struct spar_lora_config *l, const char *text, struct spar_err *err);
/*! Read DIR/adapter_config.json. *base: base_model_name_or_path as written (caller frees; NULL if absent). Refuses every
 *  key that is on and may change what the adapter computes (use_dora, modules_to_save, ...), and a missing r or
 *  lora_alpha, naming the key (B29). */
int spar_lora_read(struct spar_lora_config *l, const char *dir, char **base, struct spar_err *err);
void spar_lora_copy(struct spar_lora_config *to, const struct spar_lora_config *from);
void spar_lora_release(struct spar_lora_config *l);

struct spar_model {
	char *dir;      /* the folder given */
	char *base_dir; /* where config, tokenizer and base weights are (= dir without an adapter) */
	struct spar_config config;
	struct spar_safetensors *weights;
	bool has_adapter;
	struct spar_lora_config lora;
	struct spar_safetensors
	    *adapter;       /* names: base_model.model.<module>.lora_A.weight (r, in), lora_B.weight (out, r) */
	uint64_t base_hash; /* of the base alone; 0: not known */
	char hash[17];      /* 64-bit hash of what the weights are, hexadecimal */
	char note[160];     /* worth a warning (an adapter of scale 0, a doubled head), else "" */
};

/*! The folder with config, tokenizer and base weights of the folder `dir`: `dir` itself, or the one that its adapter names.
 *  Caller frees; NULL on failure. */
int spar_model_base_dir(char **out, const char *dir, struct spar_err *err);

/*! Opens and checks: every parameter of the config is there with its shape and nothing else is, tied-head rules of B31
 *  (both there and equal: a note; different: an error), every adapter tensor finds a home and every target its tensors. On
 *  failure nothing is open; `m` may be closed all the same. The hash covers config.json, every tensor's name, type, shape and
 *  bytes, and the adapter's scale and tensors; it does not depend on how they are spread over files. */
int spar_model_open(struct spar_model *m, const char *dir, struct spar_err *err);

/*! Close `m` and open `dir` in its place. Where both are adapters of the same folder, the base stays open as it is and is not
 *  checked again: it is taken not to change. On failure `m` may still be open. */
int spar_model_next(struct spar_model *m, const char *dir, struct spar_err *err);
void spar_model_close(struct spar_model *m);
/*! After the weights were taken elsewhere: give back the memory that reading them took. The model stays open. */
void spar_model_leave(const struct spar_model *m);

/*! The stored tensor of a parameter, under its name or, in files made without the head's class, without its first word;
 *  NULL: none. */
const struct spar_tensor_view *spar_model_find(const struct spar_model *m, const struct spar_param *p);

/*! The parameter `p` in float32, (rows, cols) row-major, adapter added (W + scale * B A, in float32) unless `base_only`. */
int spar_model_fetch(const struct spar_model *m, const struct spar_param *p, bool base_only, float *out,
		     struct spar_err *err);

/*! w (rows, cols) += scale * b (rows, r) a (r, cols): the one way in which an adapter is added, so that all who do agree. */
void spar_lora_add(float *w, const float *b, const float *a, size_t rows, size_t cols, size_t r, float scale);

/*! Copy everything of a checkpoint folder but its weights (config, generation_config, tokenizer files, template), byte for
 *  byte, into `to` (exists). Files that are not there are passed over. */
int spar_model_copy_side_files(const char *from, const char *to, struct spar_err *err);

/*! Random weights for the config in folder `from`, with its side files, into `dir` (exists): matrices normal with deviation
 *  initializer_range, norms 1, biases 0; a function of seed and parameter name. float32. */
int spar_model_init(const char *from, uint64_t seed, const char *dir, struct spar_err *err);

/*! Write model.safetensors (shards of it above SPAR_SHARD_BYTES) for `config` from float32 arrays in the order of spar_config_params. dtype F32 or BF16. If
 *  config.json is there already and names another dtype, its value is changed to this one: transformers would convert. */
int spar_model_write_weights(const char *dir, const struct spar_config *c, float *const *params, enum spar_dtype dtype,
			     struct spar_err *err);

/*! The same for weights that come one at a time: `make` fills `out` with the parameter `p`, from whatever `from` is. */
typedef int spar_model_make(const void *from, const struct spar_param *p, float *out, struct spar_err *err);
int spar_model_write_made(const char *dir, const struct spar_config *c, enum spar_dtype dtype, spar_model_make *make,
			  const void *from, struct spar_err *err);

/*! Write `m` as one checkpoint into `dir` (exists), side files too: the adapter is added in float32 and the sum rounded once
 *  to `dtype` (B27). */
int spar_model_merge(const struct spar_model *m, const char *dir, enum spar_dtype dtype, struct spar_err *err);

/*! Write adapter_config.json and adapter_model.safetensors (float32). `dir` exists; base_dir is written as it is. a[i] (rank,
 *  cols) and b[i] (rows, rank) belong to the parameter modules[i], whose rank is spar_lora_rank's. */
int spar_lora_write(const char *dir, const char *base_dir, const struct spar_lora_config *l,
		    const struct spar_param *const *modules, float *const *a, float *const *b, size_t n,
		    struct spar_err *err);

#endif
