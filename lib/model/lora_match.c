/* lora_match.c - which modules an adapter touches, and with what rank and scale; see model.h. PEFT's rules: a target hits by
 * name, a pattern of rank_pattern or alpha_pattern fits a whole name or what stands in it behind a dot. */
#include "base/str.h"
#include "model/model.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

/* What stands around an expression. */
struct frame {
	const char *before, *after;
};
static const struct frame whole_name = {"\\A(?:", ")\\z"}, end_of_name = {"\\A(?:.*\\.)?(?:", ")\\z"};

static pcre2_code *compile(const char *pattern, struct frame frame)
{
	struct spar_str s = SPAR_STR_INIT;
	int error;
	PCRE2_SIZE at;
	spar_str_addf(&s, "%s%s%s", frame.before, pattern, frame.after);
	pcre2_code *code = pcre2_compile((PCRE2_SPTR)s.data, s.len, 0, &error, &at, NULL);
	spar_str_release(&s);
	return code;
}

static bool fits(const char *pattern, struct frame frame, const struct spar_param *p)
{
	pcre2_code *code = compile(pattern, frame);
	if (!code)
		return false; /* spar_lora_check_patterns has said so */
	pcre2_match_data *data = pcre2_match_data_create_from_pattern(code, NULL);
	bool fit = pcre2_match(code, (PCRE2_SPTR)p->name, spar_param_module_length(p), 0, 0, data, NULL) > 0;
	pcre2_match_data_free(data);
	pcre2_code_free(code);
	return fit;
}

bool spar_lora_hits(const struct spar_lora_config *l, const struct spar_param *p)
{
	size_t len = spar_param_module_length(p);
	if (p->kind == SPAR_PARAM_BIAS)
		return false;
	if (l->all_linear)
		return p->kind == SPAR_PARAM_LINEAR;
	if (l->target_pattern)
		return fits(l->target_pattern, whole_name, p);
	for (size_t i = 0; i < l->n_targets; i++) {
		size_t n = strlen(l->targets[i]);
		if (n <= len && !memcmp(p->name + len - n, l->targets[i], n) &&
		    (n == len || p->name[len - n - 1] == '.'))
			return true;
	}
	return false;
}

static double value_for(const struct spar_lora_rule *rules, size_t n, const struct spar_param *p, double otherwise)
{
	for (size_t i = 0; p && i < n; i++)
		if (fits(rules[i].pattern, end_of_name, p))
			return rules[i].value;
	return otherwise;
}

size_t spar_lora_rank(const struct spar_lora_config *l, const struct spar_param *p)
{
	return (size_t)value_for(l->ranks, l->n_ranks, p, l->r);
}

double spar_lora_scale(const struct spar_lora_config *l, const struct spar_param *p)
{
	double r = (double)spar_lora_rank(l, p);
	return value_for(l->alphas, l->n_alphas, p, l->alpha) / (l->use_rslora ? sqrt(r) : r);
}

static int check_pattern(const char *key, const char *pattern, struct frame frame, struct spar_err *err)
{
	pcre2_code *code = compile(pattern, frame);
	pcre2_code_free(code);
	return code ? 0
		    : spar_fail(err, SPAR_INPUT, ".%s: '%.60s' is no regular expression that is understood", key,
				pattern);
}

int spar_lora_check_patterns(const struct spar_lora_config *l, struct spar_err *err)
{
	int rc = l->target_pattern ? check_pattern("target_modules", l->target_pattern, whole_name, err) : 0;
	for (size_t i = 0; i < l->n_ranks && rc == 0; i++)
		rc = check_pattern("rank_pattern", l->ranks[i].pattern, end_of_name, err);
	for (size_t i = 0; i < l->n_alphas && rc == 0; i++)
		rc = check_pattern("alpha_pattern", l->alphas[i].pattern, end_of_name, err);
	return rc;
}

static int check_one(const char *key, const struct spar_lora_rule *rules, size_t n, const struct spar_param *p,
		     struct spar_err *err)
{
	const char *first = NULL;
	for (size_t i = 0; i < n; i++) {
		if (!fits(rules[i].pattern, end_of_name, p))
			continue;
		if (first)
			return spar_fail(err, SPAR_INPUT, ".%s: both '%.40s' and '%.40s' fit '%s'", key, first,
					 rules[i].pattern, p->name);
		first = rules[i].pattern;
	}
	return 0;
}

int spar_lora_check_rules(const struct spar_lora_config *l, const struct spar_param *p, struct spar_err *err)
{
	int rc = check_one("rank_pattern", l->ranks, l->n_ranks, p, err);
	return rc < 0 ? rc : check_one("alpha_pattern", l->alphas, l->n_alphas, p, err);
}
