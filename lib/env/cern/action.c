/* action.c - see action.h */
#include "env/cern/action.h"
#include "base/json.h"
#include "env/cern/world.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BIT(p) (1u << (p))

static const struct {
	const char *name;
	unsigned needed, optional; /* bits of enum spar_cern_parameter */
} verbs[SPAR_CERN_VERBS] = {
    [SPAR_CERN_CONFIGURE] = {"configure_beam", BIT(SPAR_CERN_BEAM), 0},
    [SPAR_CERN_ALLOCATE] = {"allocate_luminosity", BIT(SPAR_CERN_TRIGGER) | BIT(SPAR_CERN_FB), 0},
    [SPAR_CERN_SCAN] = {"scan_bump", 0, 0},
    [SPAR_CERN_CALIBRATE] = {"calibrate_detector", BIT(SPAR_CERN_CHANNEL), 0},
    [SPAR_CERN_FIT] = {"fit_resonance", BIT(SPAR_CERN_CHANNEL), BIT(SPAR_CERN_MASS)},
    [SPAR_CERN_ESTIMATE] = {"estimate_significance", BIT(SPAR_CERN_CHANNEL) | BIT(SPAR_CERN_MASS), 0},
    [SPAR_CERN_REFINE] = {"request_systematics", BIT(SPAR_CERN_CHANNEL), 0},
    [SPAR_CERN_CLAIM] = {"submit_discovery_claim", BIT(SPAR_CERN_CHANNEL) | BIT(SPAR_CERN_MASS),
			 BIT(SPAR_CERN_SIGNIFICANCE)},
};

/* A parameter is a name out of n_names or a number in [min, max]. */
static const struct {
	const char *key;
	int n_names;
	double min, max;
} parameters[SPAR_CERN_PARAMETERS] = {
    [SPAR_CERN_BEAM] = {"beam_energy", SPAR_CERN_BEAMS, 0, 0},
    [SPAR_CERN_TRIGGER] = {"trigger", SPAR_CERN_TRIGGERS, 0, 0},
    [SPAR_CERN_FB] = {"luminosity_fb", 0, 1, SPAR_CERN_LUMINOSITY},
    [SPAR_CERN_CHANNEL] = {"channel", SPAR_CERN_CHANNELS, 0, 0},
    [SPAR_CERN_MASS] = {"mass_gev", 0, 100, 1000},
    [SPAR_CERN_SIGNIFICANCE] = {"significance", 0, 0, 50},
};

static const char *name_of(enum spar_cern_parameter p, int i)
{
	return p == SPAR_CERN_BEAM      ? spar_cern_beams[i].name
	       : p == SPAR_CERN_TRIGGER ? spar_cern_triggers[i]
					: spar_cern_channels[i].name;
}

static int *name_field(struct spar_cern_action *a, enum spar_cern_parameter p)
{
	return p == SPAR_CERN_BEAM ? &a->beam : p == SPAR_CERN_TRIGGER ? &a->trigger : &a->channel;
}

static double *number_field(struct spar_cern_action *a, enum spar_cern_parameter p)
{
	return p == SPAR_CERN_FB ? &a->fb : p == SPAR_CERN_MASS ? &a->mass : &a->significance;
}

struct spar_cern_action spar_cern_action(enum spar_cern_verb verb)
{
	return (struct spar_cern_action){verb, -1, -1, -1, NAN, NAN, NAN, NAN};
}

const char *spar_cern_verb_name(enum spar_cern_verb verb)
{
	return verbs[verb].name;
}

/* ---- reading ---- */

/* The string without blanks around it, in lower case, cut to the buffer (no name is that long); NULs end it. */
static void plain_name(jv string, char out[32])
{
	const char *s = jv_string_value(string);
	s += strspn(s, " \t\r\n");
	size_t n = strlen(s), i = 0;
	while (n && strchr(" \t\r\n", s[n - 1]))
		n--;
	for (; i < n && i < 31; i++)
		out[i] = (char)(s[i] >= 'A' && s[i] <= 'Z' ? s[i] + 'a' - 'A' : s[i]);
	out[i] = 0;
	if ((size_t)jv_string_length_bytes(jv_copy(string)) != strlen(jv_string_value(string)))
		out[0] = 0; /* a NUL inside is no part of a name */
}

static bool same_name(const char *plain, const char *name)
{
	char lower[32] = "";
	for (size_t i = 0; i < sizeof lower - 1 && name[i]; i++)
		lower[i] = (char)(name[i] >= 'A' && name[i] <= 'Z' ? name[i] + 'a' - 'A' : name[i]);
	return !strcmp(plain, lower);
}

/* "13TeV" may also be written 13, "13" or "13 TeV". */
static bool same_beam(const char *plain, const char *name)
{
	int n = (int)strspn(name, "0123456789");
	char bare[16], spaced[16];
	snprintf(bare, sizeof bare, "%.*s", n, name);
	snprintf(spaced, sizeof spaced, "%.*s tev", n, name);
	return same_name(plain, name) || !strcmp(plain, bare) || !strcmp(plain, spaced);
}

/* Index of the name, -1 unknown, -2 not a name; v is borrowed. */
static int read_name(enum spar_cern_parameter p, jv v)
{
	char plain[32];
	if (jv_get_kind(v) == JV_KIND_STRING)
		plain_name(v, plain);
	else if (p == SPAR_CERN_BEAM && jv_get_kind(v) == JV_KIND_NUMBER)
		snprintf(plain, sizeof plain, "%g", jv_number_value(v));
	else
		return -2;
	for (int i = 0; i < parameters[p].n_names; i++)
		if (p == SPAR_CERN_BEAM ? same_beam(plain, name_of(p, i)) : same_name(plain, name_of(p, i)))
			return i;
	return -1;
}

/* A JSON number, or a string that is wholly one; v is borrowed. Out of a double's range gives an infinity. */
static bool read_number(jv v, double *out)
{
	if (jv_get_kind(v) == JV_KIND_NUMBER) {
		*out = jv_number_value(v);
		return true;
	}
	if (jv_get_kind(v) != JV_KIND_STRING)
		return false;
	const char *s = jv_string_value(v);
	size_t n = (size_t)jv_string_length_bytes(jv_copy(v));
	if (!n || !strchr("-0123456789", s[0]) || spar_json_skip(s, n, 1, true, NULL, NULL) != n)
		return false;
	*out = strtod(s, NULL);
	return true;
}

/* NULL, or what is wrong with the value (consumed). */
static const char *read_parameter(struct spar_cern_action *a, enum spar_cern_parameter p, jv v)
{
	const char *wrong = NULL;
	if (parameters[p].n_names) {
		int i = read_name(p, v);
		*name_field(a, p) = i;
		wrong = i == -2 ? "is not a name" : i == -1 ? "is unknown" : NULL;
	} else {
		double *number = number_field(a, p);
		if (!read_number(v, number))
			wrong = "is not a number";
		else if (!(*number >= parameters[p].min && *number <= parameters[p].max))
			wrong = "is out of range";
	}
	jv_free(v);
	return wrong;
}

static bool absent(jv v)
{
	return !jv_is_valid(v) || jv_get_kind(v) == JV_KIND_NULL;
}

static enum spar_cern_invalid read_parameters(struct spar_cern_action *a, jv object, char why[64])
{
	enum spar_cern_invalid result = SPAR_CERN_VALID;
	for (int p = 0; p < SPAR_CERN_PARAMETERS && !result; p++) {
		unsigned known = verbs[a->verb].needed | verbs[a->verb].optional;
		jv v = known & BIT(p) ? jv_object_get(jv_copy(object), jv_string(parameters[p].key)) : jv_invalid();
		const char *wrong = NULL;
		if (!absent(v))
			wrong = read_parameter(a, (enum spar_cern_parameter)p, jv_copy(v));
		else if (verbs[a->verb].needed & BIT(p))
			wrong = "is missing";
		jv_free(v);
		if (wrong) {
			snprintf(why, 64, "%s %s", parameters[p].key, wrong);
			result = SPAR_CERN_PARAMETER;
		}
	}
	return result;
}

/* Index of the verb, -1 if it is missing, -2 unknown; v is borrowed. */
static int read_verb(jv v)
{
	char plain[32];
	if (absent(v))
		return -1;
	if (jv_get_kind(v) != JV_KIND_STRING)
		return -2;
	plain_name(v, plain);
	for (int i = 0; i < SPAR_CERN_VERBS; i++)
		if (same_name(plain, verbs[i].name))
			return i;
	return -2;
}

enum spar_cern_invalid spar_cern_action_read(struct spar_cern_action *a, jv object, int *verb, char why[64])
{
	*verb = -1;
	if (jv_get_kind(object) != JV_KIND_OBJECT) {
		jv_free(object);
		snprintf(why, 64, "no JSON object found");
		return SPAR_CERN_PARSE;
	}
	enum spar_cern_invalid result = SPAR_CERN_ACTION;
	jv type = jv_object_get(jv_copy(object), jv_string("action_type"));
	jv params = jv_object_get(jv_copy(object), jv_string("parameters"));
	jv confidence = jv_object_get(object, jv_string("confidence"));
	int v = read_verb(type);
	if (v < 0) {
		snprintf(why, 64, "action_type is %s", v == -1 ? "missing" : "unknown");
		goto out;
	}
	*verb = v;
	*a = spar_cern_action((enum spar_cern_verb)v);
	if (!read_number(confidence, &a->confidence) || !(a->confidence >= 0 && a->confidence <= 1))
		a->confidence = NAN;
	if (absent(params)) {
		jv_free(params);
		params = jv_object();
	}
	if (jv_get_kind(params) != JV_KIND_OBJECT) {
		snprintf(why, 64, "parameters is not an object");
		result = SPAR_CERN_PARAMETER;
		goto out;
	}
	result = read_parameters(a, params, why);
out:
	jv_free(type);
	jv_free(params);
	jv_free(confidence);
	return result;
}

/* ---- writing ---- */

static void add_number(struct spar_str *out, enum spar_cern_parameter p, double v)
{
	double tenths = round(v * 10) / 10;
	if (p != SPAR_CERN_FB && tenths == v)
		spar_str_addf(out, "%.1f", v);
	else
		spar_str_add_double(out, v);
}

void spar_cern_action_write(const struct spar_cern_action *a, struct spar_str *out)
{
	struct spar_cern_action fields = *a;
	const char *comma = "";
	spar_str_addf(out, "{\"action_type\":\"%s\",\"parameters\":{", verbs[a->verb].name);
	for (int i = 0; i < SPAR_CERN_PARAMETERS; i++) {
		enum spar_cern_parameter p = (enum spar_cern_parameter)i;
		if (!((verbs[a->verb].needed | verbs[a->verb].optional) & BIT(p)))
			continue;
		int name = parameters[p].n_names ? *name_field(&fields, p) : -1;
		double number = parameters[p].n_names ? NAN : *number_field(&fields, p);
		if (name < 0 && isnan(number))
			continue;
		spar_str_addf(out, "%s\"%s\":", comma, parameters[p].key);
		if (name >= 0)
			spar_str_addf(out, "\"%s\"", name_of(p, name));
		else
			add_number(out, p, number);
		comma = ",";
	}
	spar_str_adds(out, "}");
	if (!isnan(a->confidence)) {
		spar_str_adds(out, ",\"confidence\":");
		spar_str_add_double(out, a->confidence);
	}
	spar_str_adds(out, "}");
}

void spar_cern_action_schema(struct spar_str *out)
{
	spar_str_adds(
	    out, "{\"type\":\"object\",\"required\":[\"action_type\"],\"properties\":{\"action_type\":{\"enum\":[");
	for (int i = 0; i < SPAR_CERN_VERBS; i++)
		spar_str_addf(out, "%s\"%s\"", i ? "," : "", verbs[i].name);
	spar_str_adds(out, "]},\"parameters\":{\"type\":\"object\",\"properties\":{");
	for (int p = 0; p < SPAR_CERN_PARAMETERS; p++) {
		spar_str_addf(out, "%s\"%s\":", p ? "," : "", parameters[p].key);
		if (!parameters[p].n_names) {
			spar_str_addf(out, "{\"type\":\"number\",\"minimum\":%g,\"maximum\":%g}", parameters[p].min,
				      parameters[p].max);
			continue;
		}
		for (int i = 0; i < parameters[p].n_names; i++)
			spar_str_addf(out, "%s\"%s\"", i ? "," : "{\"enum\":[",
				      name_of((enum spar_cern_parameter)p, i));
		spar_str_adds(out, "]}");
	}
	spar_str_adds(out, "}},\"method\":{\"type\":\"string\"},\"justification\":{\"type\":\"string\"},"
			   "\"confidence\":{\"type\":\"number\",\"minimum\":0,\"maximum\":1}}}");
}
