/* cern.c - the episodes of env-cern: reference values, rewards, what models may write, success rates, and what cheating
 * earns. Figures are those that the environment's pages promise. */
#include "env/action.h"
#include "env/cern/cern.h"
#include "unit.h"
#include <stdlib.h>

#ifdef __SANITIZE_ADDRESS__
enum { RATE_SEEDS = 100, CHEAT_SEEDS = 12 }; /* the same episodes, fewer of them: sanitizers are slow */
#else
enum { RATE_SEEDS = 500, CHEAT_SEEDS = 60 };
#endif

typedef void player(const struct spar_cern *s, struct spar_str *text);

static void play(struct spar_cern *s, uint64_t seed, int difficulty, int max_steps, player *p)
{
	struct spar_str text = SPAR_STR_INIT;
	spar_cern_reset(s, seed, difficulty, max_steps);
	while (!s->end) {
		spar_str_clear(&text);
		p(s, &text);
		spar_cern_step(s, spar_action_find(text.data, text.len));
	}
	spar_str_release(&text);
}

static void step_text(struct spar_cern *s, const char *text)
{
	spar_cern_step(s, spar_action_find(text, strlen(text)));
}

static void write_action(struct spar_cern_action a, struct spar_str *text)
{
	spar_cern_action_write(&a, text);
}

static void oracle(const struct spar_cern *s, struct spar_str *text)
{
	write_action(spar_cern_oracle(s), text);
}

static void heuristic(const struct spar_cern *s, struct spar_str *text)
{
	write_action(spar_cern_heuristic(s), text);
}

static void random_player(const struct spar_cern *s, struct spar_str *text)
{
	write_action(spar_cern_random(s), text);
}

/* Mean return and share of successes over `n` seeds from `first`. */
struct rate {
	double mean, success;
};

static struct rate rate_of(player *p, int difficulty, int max_steps, uint64_t first, int n)
{
	double total = 0;
	int successes = 0;
#pragma omp parallel for reduction(+ : total, successes)
	for (int i = 0; i < n; i++) {
		struct spar_cern s;
		play(&s, first + (uint64_t)i, difficulty, max_steps, p);
		total += s.total;
		successes += spar_cern_success(&s);
	}
	return (struct rate){total / n, (double)successes / n};
}

/* ---- reference episodes ---- */

struct reference {
	uint64_t seed;
	int difficulty;
	struct {
		const char *channel;
		double mass, z, z_global;
	} scan[3];
	struct {
		const char *channel;
		double mass, err, z, z_global;
	} fit;
	double rewards[7], total;
};

static void check_reference(const struct reference *r)
{
	struct spar_cern s;
	struct spar_str text = SPAR_STR_INIT;
	spar_cern_reset(&s, r->seed, r->difficulty, 8);
	for (int i = 0; !s.end; i++) {
		spar_str_clear(&text);
		oracle(&s, &text);
		step_text(&s, text.data);
		if (r->rewards[0] != 0)
			CHECK_NEAR(s.reward, r->rewards[i], 5.1e-5);
	}
	for (int i = 0; i < 3; i++) {
		const struct spar_cern_bump *b = &s.bumps[i];
		CHECK_STR(spar_cern_channels[b->channel].name, r->scan[i].channel);
		CHECK_NEAR(b->mass, r->scan[i].mass, 0.2);
		CHECK_NEAR(b->z, r->scan[i].z, 0.05);
		if (r->scan[i].z_global > 0)
			CHECK_NEAR(b->z_global, r->scan[i].z_global, 0.05);
	}
	int c = spar_cern_latest_fit(&s);
	CHECK_STR(spar_cern_channels[c].name, r->fit.channel);
	CHECK_NEAR(s.fits[c].mass, r->fit.mass, 0.2);
	CHECK_NEAR(s.fits[c].err, r->fit.err, 0.1);
	CHECK_NEAR(s.fits[c].peak.z, r->fit.z, 0.05);
	CHECK_NEAR(s.fits[c].z_global, r->fit.z_global, 0.05);
	CHECK(spar_cern_success(&s));
	CHECK_NEAR(s.total, r->total, 5.1e-4);
	spar_str_release(&text);
}

static void check_references(void)
{
	static const struct reference easy = {
	    4242,
	    SPAR_CERN_EASY,
	    {{"four_lepton", 349.7, 5.5, 4.8}, {"diphoton", 375.8, 2.6, 0}, {"dijet", 247.6, 2.0, 0}},
	    {"four_lepton", 343.0, 2.1, 8.5, 8.0},
	    {0.01, 0.03, 0.03, -0.01, 0.03, 0.05, 0.8304},
	    0.9704};
	static const struct reference hard = {
	    4244,
	    SPAR_CERN_HARD,
	    {{"bb", 503.6, 4.5, 3.6}, {"diphoton", 242.9, 2.5, 0}, {"dilepton_mumu", 459.7, 2.2, 0}},
	    {"bb", 491.4, 10.0, 5.6, 4.8},
	    {0},
	    0.956};
	check_reference(&easy);
	check_reference(&hard);
}

/* ---- the same, whatever else was done ---- */

static void check_order(void)
{
	static const char *const orders[][2] = {
	    {"{\"action_type\":\"scan_bump\"}",
	     "{\"action_type\":\"calibrate_detector\",\"parameters\":{\"channel\":\"bb\"}}"},
	    {"{\"action_type\":\"calibrate_detector\",\"parameters\":{\"channel\":\"bb\"}}",
	     "{\"action_type\":\"scan_bump\"}"}};
	struct spar_cern s[2];
	for (int k = 0; k < 2; k++) {
		spar_cern_reset(&s[k], 77, SPAR_CERN_MEDIUM, 8);
		step_text(&s[k], "{\"action_type\":\"configure_beam\",\"parameters\":{\"beam_energy\":\"14TeV\"}}");
		step_text(&s[k], "{\"action_type\":\"allocate_luminosity\",\"parameters\":{\"trigger\":\"jet_hlt\","
				 "\"luminosity_fb\":50}}");
		step_text(&s[k], orders[k][0]);
		step_text(&s[k], orders[k][1]);
	}
	int bb = 5;
	CHECK(s[0].scales[bb].done && s[0].scales[bb].value == s[1].scales[bb].value);
	/* f = 1.1 at 14TeV */
	CHECK_NEAR(s[0].scales[bb].err, 0.25 * 0.055 * 1.1, 1e-12);
	step_text(&s[0], "{\"action_type\":\"request_systematics\",\"parameters\":{\"channel\":\"bb\"}}");
	CHECK_NEAR(s[0].scales[bb].err, 0.12 * 0.055 * 1.1, 1e-12);
	CHECK(s[0].scales[bb].value != s[1].scales[bb].value);
	CHECK_NEAR(s[0].scales[bb].value, s[0].truth.bias[bb], 4 * s[0].scales[bb].err);
	CHECK_NEAR(s[0].budget_left, 95 - 10 - 10 - 1 - 5 - 6, 1e-9);
}

static void check_same_bytes(void)
{
	static struct spar_cern s[2];
	struct spar_str view[2] = {SPAR_STR_INIT, SPAR_STR_INIT};
	for (int k = 0; k < 2; k++) {
		memset(&s[k], k ? 0xff : 0, sizeof s[k]); /* whatever was there */
		play(&s[k], 4250, SPAR_CERN_HARD, 8, oracle);
		spar_cern_view(&s[k], true, &view[k]);
	}
	CHECK_STR(view[0].data, view[1].data);
	for (int k = 0; k < 2; k++)
		spar_str_release(&view[k]);
}

/* ---- rewards ---- */

/* Over random episodes the rewards sum to what they are made of, and shaping leaves nothing but the end's potential. */
static void check_return(void)
{
	for (uint64_t seed = 1; seed <= 60; seed++) {
		struct spar_cern s;
		struct spar_str text = SPAR_STR_INIT;
		double invalid = 0, shaping = 0;
		spar_cern_reset(&s, seed, SPAR_CERN_MIXED, 24);
		while (!s.end) {
			spar_str_clear(&text);
			/* Sense and nonsense by turns, so that all kinds of states are met. */
			(seed % 2 && s.step % 3 ? heuristic : random_player)(&s, &text);
			step_text(&s, s.step % 7 == 6 ? "no" : text.data);
			invalid += s.parts.invalid;
			shaping += s.parts.shaping;
		}
		double potential = 0.02 * (s.beam >= 0) + 0.04 * (s.n_takings > 0) + 0.04 * s.scanned +
				   0.04 * s.calibrated_once + 0.06 * s.fitted_once;
		CHECK_NEAR(shaping, potential, 1e-6);
		CHECK_NEAR(s.total, -0.01 * s.step + potential + invalid + s.parts.terminal, 2e-5);
		if (s.end == SPAR_CERN_OUT_OF_STEPS) {
			CHECK_NEAR(s.parts.terminal, -potential - 0.30, 1e-6);
			CHECK(s.total <= -0.30 - 0.01 * s.step + 1e-6);
		} else if (spar_cern_success(&s)) {
			CHECK(s.parts.terminal >= 0.45);
		} else {
			CHECK(s.parts.terminal <= 0.392 + 1e-3);
		}
		spar_str_release(&text);
	}
}

/* A claim graded by hand: the oracle's, with one thing changed. */
static struct spar_cern claimed(const char *channel, double mass_factor, const char *rest)
{
	struct spar_cern s;
	struct spar_str text = SPAR_STR_INIT;
	spar_cern_reset(&s, 4242, SPAR_CERN_EASY, 16);
	for (int i = 0; i < 6; i++) {
		spar_str_clear(&text);
		oracle(&s, &text);
		step_text(&s, text.data);
	}
	spar_str_clear(&text);
	spar_str_addf(&text, "{\"action_type\":\"fit_resonance\",\"parameters\":{\"channel\":\"%s\"}}", channel);
	step_text(&s, text.data);
	spar_str_clear(&text);
	spar_str_addf(
	    &text,
	    "{\"action_type\":\"submit_discovery_claim\",\"parameters\":{\"channel\":\"%s\",\"mass_gev\":%.10g}%s}",
	    channel, s.truth.mass * mass_factor, rest);
	step_text(&s, text.data);
	spar_str_release(&text);
	return s;
}

static void check_claims(void)
{
	double tolerance = 0.018; /* four_lepton, easy: one resolution */
	struct spar_cern s = claimed("four_lepton", 1 + 0.999 * tolerance, "");
	CHECK(spar_cern_success(&s));
	CHECK_NEAR(s.parts.terminal, 0.35 + 0.30 + 0.15 * s.budget_left / 100, 1e-6);
	s = claimed("four_lepton", 1 - 1.001 * tolerance, "");
	CHECK(s.end == SPAR_CERN_CLAIMED && !spar_cern_success(&s) && s.scores.correct_channel);
	CHECK_NEAR(s.scores.mass, 0.5, 1e-3);
	CHECK_NEAR(s.parts.terminal, 0.35 * s.scores.mass + 0.30 - 0.25, 1e-6);
	s = claimed("four_lepton", 1 + 2 * tolerance, "");
	CHECK_NEAR(s.scores.mass, 0.25, 1e-6);
	s = claimed("bb", 1, "");
	CHECK(s.end == SPAR_CERN_CLAIMED && s.scores.correct_mass && !spar_cern_success(&s));
	CHECK_NEAR(s.parts.terminal, 0.35 - 0.25, 1e-6);
	s = claimed("bb", 1.5, "");
	CHECK_NEAR(s.parts.terminal, -0.55, 1e-6);
	/* confidence: a proper score, best at the truth, worst at its opposite */
	s = claimed("bb", 1.5, ",\"confidence\":0");
	CHECK_NEAR(s.parts.terminal, -0.55 + 0.05 * 0.25 / 0.75, 1e-6);
	s = claimed("bb", 1.5, ",\"confidence\":1");
	CHECK_NEAR(s.parts.terminal, -0.55 - 0.05, 1e-6);
	s = claimed("bb", 1.5, ",\"confidence\":2,\"justification\":\"submit_discovery_claim\"");
	CHECK_NEAR(s.parts.terminal, -0.55, 1e-6);
}

/* ---- what models write ---- */

static void check_texts(void)
{
	static const struct {
		const char *text, *last;
		enum spar_cern_invalid invalid;
	} rows[] = {
#define BEAM "{\"action_type\":\"configure_beam\",\"parameters\":{\"beam_energy\":\"13TeV\"}}"
#define BEAM_IS(v) "{\"action_type\":\"configure_beam\",\"parameters\":{\"beam_energy\":" v "}}"
#define FB_IS(v) \
	"{\"action_type\":\"allocate_luminosity\",\"parameters\":{\"trigger\":\"high_pt\",\"luminosity_fb\":" v "}}"
#define DATA "{\"action_type\":\"allocate_luminosity\",\"parameters\":"
	    {BEAM, "ok", SPAR_CERN_VALID},
	    {"```json\n" BEAM "\n```", "ok", SPAR_CERN_VALID},
	    {"I {think} that {\"a\" is best: " BEAM " {so} there", "ok", SPAR_CERN_VALID},
	    {"[" BEAM "]", "ok", SPAR_CERN_VALID},
	    {BEAM "}}}}", "ok", SPAR_CERN_VALID},
	    {BEAM "{\"action_type\":\"scan_bump\"}", "ok", SPAR_CERN_VALID},
	    {"{\"action_type\":\" Configure_Beam\\n\",\"parameters\":{\"beam_energy\":\" 13tev \"}}", "ok",
	     SPAR_CERN_VALID},
	    {BEAM_IS("\"13\""), "ok", SPAR_CERN_VALID},
	    {BEAM_IS("\"13 TeV\""), "ok", SPAR_CERN_VALID},
	    {BEAM_IS("13"), "ok", SPAR_CERN_VALID},
	    {BEAM_IS("13.0"), "ok", SPAR_CERN_VALID},
	    {"{\"action_type\":\"scan_bump\",\"action_type\":\"configure_beam\",\"parameters\":{\"beam_energy\":\"no\","
	     "\"beam_energy\":8},\"method\":7,\"justification\":[]}",
	     "ok", SPAR_CERN_VALID},
	    {"{\"\\u0061ction_type\":\"configure_beam\",\"parameters\":{\"beam_energy\":7,\"x\":null}}", "ok",
	     SPAR_CERN_VALID},
	    {"\xff\xfe{\"action_type\":\"configure_beam\",\"parameters\":{\"beam_energy\":7},\"method\":\"\xff\"}",
	     "ok", SPAR_CERN_VALID},

	    {"{\"action_type\":\"configure_beam\",\"parameters\":{\"beam_energy\":7},\"method\":\"\\ud83d\\ude00 "
	     "\\\\ud800 "
	     "\\ud83d\\ud83d\\ude00 \\udc00 \\uD8Ff\"}",
	     "ok", SPAR_CERN_VALID},

	    {"", "no JSON object found", SPAR_CERN_PARSE},
	    {" \n\t ", "no JSON object found", SPAR_CERN_PARSE},
	    {"hello", "no JSON object found", SPAR_CERN_PARSE},
	    {"{", "no JSON object found", SPAR_CERN_PARSE},
	    {"{'action_type':'scan_bump'}", "no JSON object found", SPAR_CERN_PARSE},
	    {"{\"action_type\":\"scan_bump\",\"x\":NaN}", "no JSON object found", SPAR_CERN_PARSE},
	    {"{\"action_type\":\"scan_bump\",}", "no JSON object found", SPAR_CERN_PARSE},
	    {"{\"action_type\":\"scan_bump\"/* no */}", "no JSON object found", SPAR_CERN_PARSE},
	    {"\"action_type\":\"scan_bump\"", "no JSON object found", SPAR_CERN_PARSE},

	    {"{}", "action_type is missing", SPAR_CERN_ACTION},
	    {"{\"action\":" BEAM "}", "action_type is missing", SPAR_CERN_ACTION},
	    {"{\"action_type\":\"allocate_luminosity\",\"parameters\":{\"trigger\":\"high_pt\"}",
	     "action_type is missing", SPAR_CERN_ACTION}, /* cut off: its parameters are an object */
	    {"{\"action_type\":NaN,\"parameters\":{}}", "action_type is missing", SPAR_CERN_ACTION},
	    {"{\"action_type\":null}", "action_type is missing", SPAR_CERN_ACTION},
	    {"{\"action_type\":42}", "action_type is unknown", SPAR_CERN_ACTION},
	    {"{\"action_type\":\"reconstruct_tracks\"}", "action_type is unknown", SPAR_CERN_ACTION},
	    {"{\"action_type\":\"scan_bump\\u0000\"}", "action_type is unknown", SPAR_CERN_ACTION},

	    {"{\"action_type\":\"configure_beam\"}", "beam_energy is missing", SPAR_CERN_PARAMETER},
	    {"{\"action_type\":\"configure_beam\",\"parameters\":null}", "beam_energy is missing", SPAR_CERN_PARAMETER},
	    {"{\"action_type\":\"configure_beam\",\"parameters\":[]}", "parameters is not an object",
	     SPAR_CERN_PARAMETER},
	    {"{\"action_type\":\"configure_beam\",\"parameters\":\"13TeV\"}", "parameters is not an object",
	     SPAR_CERN_PARAMETER},
	    {BEAM_IS("true"), "beam_energy is not a name", SPAR_CERN_PARAMETER},
	    {BEAM_IS("12"), "beam_energy is unknown", SPAR_CERN_PARAMETER},
	    {BEAM_IS("1e999"), "beam_energy is unknown", SPAR_CERN_PARAMETER},
	    {BEAM_IS("\"13  TeV\""), "beam_energy is unknown", SPAR_CERN_PARAMETER},
	    {DATA "{\"trigger\":3,\"luminosity_fb\":10}}", "trigger is not a name", SPAR_CERN_PARAMETER},
	    {DATA "{\"trigger\":\"all\",\"luminosity_fb\":10}}", "trigger is unknown", SPAR_CERN_PARAMETER},
	    {FB_IS("1e30"), "luminosity_fb is out of range", SPAR_CERN_PARAMETER},
	    {FB_IS("1e999"), "luminosity_fb is out of range", SPAR_CERN_PARAMETER},
	    {FB_IS("\"1e999\""), "luminosity_fb is out of range", SPAR_CERN_PARAMETER},
	    {FB_IS("-5"), "luminosity_fb is out of range", SPAR_CERN_PARAMETER},
	    {FB_IS("0.999"), "luminosity_fb is out of range", SPAR_CERN_PARAMETER},
	    {FB_IS("300.1"), "luminosity_fb is out of range", SPAR_CERN_PARAMETER},
	    {FB_IS("\"0x10\""), "luminosity_fb is not a number", SPAR_CERN_PARAMETER},
	    {FB_IS("\" 10\""), "luminosity_fb is not a number", SPAR_CERN_PARAMETER},
	    {FB_IS("\"\""), "luminosity_fb is not a number", SPAR_CERN_PARAMETER},
	    {FB_IS("\"inf\""), "luminosity_fb is not a number", SPAR_CERN_PARAMETER},
	    {FB_IS("true"), "luminosity_fb is not a number", SPAR_CERN_PARAMETER},
	    {FB_IS("[10]"), "luminosity_fb is not a number", SPAR_CERN_PARAMETER},
	    {FB_IS("null"), "luminosity_fb is missing", SPAR_CERN_PARAMETER},

	    {FB_IS("\"200\""), "configure_beam comes first", SPAR_CERN_PRECONDITION},
	    {FB_IS("1e1"), "configure_beam comes first", SPAR_CERN_PRECONDITION},
	    {"{\"action_type\":\"scan_bump\"}", "no data yet", SPAR_CERN_PRECONDITION},
	    {"{\"action_type\":\"calibrate_detector\",\"parameters\":{\"channel\":\"bb\"}}", "no data yet",
	     SPAR_CERN_PRECONDITION},
	    {"{\"action_type\":\"fit_resonance\",\"parameters\":{\"channel\":\"bb\",\"mass_gev\":null}}", "no data yet",
	     SPAR_CERN_PRECONDITION},
	    {"{\"action_type\":\"request_systematics\",\"parameters\":{\"channel\":\"bb\"}}",
	     "calibrate_detector comes first", SPAR_CERN_PRECONDITION},
	    {"{\"action_type\":\"submit_discovery_claim\",\"parameters\":{\"channel\":\"bb\",\"mass_gev\":200}}",
	     "no data yet", SPAR_CERN_PRECONDITION},
	};
	static const double rewards[] = {0.01, -0.07, -0.05, -0.05, -0.04};
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
		struct spar_cern s;
		spar_cern_reset(&s, 4242, SPAR_CERN_EASY, 8);
		step_text(&s, rows[i].text);
		if (s.invalid != rows[i].invalid)
			printf("text: %s\n", rows[i].text);
		CHECK(s.invalid == rows[i].invalid);
		CHECK_STR(s.last, rows[i].last);
		CHECK_NEAR(s.reward, rewards[rows[i].invalid], 1e-9);
		CHECK(s.step == 1 && s.budget_left == (rows[i].invalid ? 100 : s.budget_left));
	}
}

/* Limits of the scanner: size, tries, depth; and that hostile text costs no more than linear time. */
static void check_scanner(void)
{
	static char text[1 << 20];
	const char *action = "{\"a\":1}";
	size_t n = strlen(action);
	memset(text, ' ', sizeof text);
	for (int late = 0; late < 2; late++) {
		size_t at = 16384 - n + (size_t)late;
		memset(text, ' ', 16400);
		memcpy(text + at, action, n);
		jv v = spar_action_find(text, sizeof text);
		CHECK(jv_is_valid(v) == !late);
		jv_free(v);
	}
	for (size_t tries = 63; tries <= 64; tries++) {
		memset(text, ' ', 16400);
		memset(text, '{', tries);
		memcpy(text + tries, action, n);
		jv v = spar_action_find(text, tries + n);
		CHECK(jv_is_valid(v) == (tries < 64));
		jv_free(v);
	}
	for (int depth = 32; depth <= 33; depth++) {
		struct spar_str s = SPAR_STR_INIT;
		for (int i = 1; i < depth; i++)
			spar_str_adds(&s, "{\"a\":");
		spar_str_adds(&s, "{}");
		for (int i = 1; i < depth; i++)
			spar_str_adds(&s, "}");
		jv v = spar_action_find(s.data, s.len), whole = jv_parse(s.data);
		/* one too deep is no object, the one inside it is */
		CHECK(jv_equal(jv_copy(v), jv_copy(whole)) == (depth == 32));
		CHECK(jv_get_kind(v) == JV_KIND_OBJECT);
		jv_free(v);
		jv_free(whole);
		spar_str_release(&s);
	}
	memset(text, '{', sizeof text);
	for (size_t i = 0; i + 4 < sizeof text; i += 5)
		memcpy(text + i, "{\"a\":", 5);
	jv v = spar_action_find(text, sizeof text);
	CHECK(!jv_is_valid(v));
	jv_free(v);
}

/* ---- rules that need data ---- */

static void check_rules(void)
{
	struct spar_cern s;
	spar_cern_reset(&s, 4242, SPAR_CERN_EASY, 64);
#define STEP(text, want) \
	do { \
		step_text(&s, text); \
		CHECK_STR(s.last, want); \
	} while (0)
	STEP(BEAM_IS("14"), "ok");
	STEP(BEAM_IS("7"), "ok"); /* may be repeated before data */
	CHECK_NEAR(s.budget_left, 100 - 10 - 3, 1e-9);
	STEP(DATA "{\"trigger\":\"diphoton_hlt\",\"luminosity_fb\":1}}", "ok");
	STEP(BEAM, "data was already taken");
	STEP("{\"action_type\":\"fit_resonance\",\"parameters\":{\"channel\":\"four_lepton\"}}",
	     "too few events in that channel");
	STEP("{\"action_type\":\"scan_bump\"}", "ok");
	STEP(DATA "{\"trigger\":\"high_pt\",\"luminosity_fb\":200}}", "ok");
	STEP("{\"action_type\":\"fit_resonance\",\"parameters\":{\"channel\":\"bb\",\"mass_gev\":100}}", "ok");
	CHECK(s.fits[5].valid);
	STEP("{\"action_type\":\"estimate_significance\",\"parameters\":{\"channel\":\"dijet\",\"mass_gev\":1000}}",
	     "dijet 1000.0 z 0.0");
	STEP("{\"action_type\":\"submit_discovery_claim\",\"parameters\":{\"channel\":\"dijet\",\"mass_gev\":300}}",
	     "fit_resonance has not been run in that channel");
	STEP("{\"action_type\":\"calibrate_detector\",\"parameters\":{\"channel\":\"bb\"}}", "ok");
	CHECK(!s.fits[5].valid); /* a claim never rests on a stale number */
	STEP("{\"action_type\":\"calibrate_detector\",\"parameters\":{\"channel\":\"bb\"}}",
	     "channel is already calibrated");
	STEP("{\"action_type\":\"request_systematics\",\"parameters\":{\"channel\":\"bb\"}}", "ok");
	STEP("{\"action_type\":\"request_systematics\",\"parameters\":{\"channel\":\"bb\"}}",
	     "systematics already done");
	CHECK_NEAR(s.budget_left, 87 - 0.2 - 1 - 40 - 1 - 1 - 5 - 6, 1e-9);
	STEP(FB_IS("300"), "ok, reduced to 99 fb");
	CHECK_NEAR(s.budget_left, 13, 1e-9);
	STEP(FB_IS("1"), "no luminosity left");
	for (int i = 0; i < 13; i++)
		STEP("{\"action_type\":\"fit_resonance\",\"parameters\":{\"channel\":\"bb\"}}", "ok");
	STEP("{\"action_type\":\"scan_bump\"}", "budget is too low");
	CHECK(s.invalid == SPAR_CERN_PRECONDITION && s.budget_left == 0 && !s.end);
	STEP("{\"action_type\":\"submit_discovery_claim\",\"parameters\":{\"channel\":\"bb\",\"mass_gev\":300}}", "ok");
	CHECK(s.end == SPAR_CERN_CLAIMED);

	/* The budget is the limit, too. */
	spar_cern_reset(&s, 4244, SPAR_CERN_HARD, 64);
	for (int i = 0; i < 8; i++)
		STEP(BEAM_IS("14"), "ok");
	STEP(FB_IS("300"), "ok, reduced to 50 fb");
	STEP(FB_IS("300"), "budget is too low");
}

/* ---- rates ---- */

static void check_rates(void)
{
	static const double oracle_floor[] = {0.95, 0.90, 0.80};
	for (int d = 0; d < 3; d++) {
		struct rate o = rate_of(oracle, d, 8, 4242, RATE_SEEDS),
			    h = rate_of(heuristic, d, 8, 4242, RATE_SEEDS * 2 / 5);
		struct rate r = rate_of(random_player, d, 8, 4242, RATE_SEEDS);
		printf("%s: success and return of oracle %.3f %+.3f, heuristic %.3f %+.3f, random %.3f %+.3f\n",
		       spar_cern_difficulties[d].name, o.success, o.mean, h.success, h.mean, r.success, r.mean);
		CHECK(o.success >= oracle_floor[d]);
		CHECK(r.success < 0.05);
		CHECK(h.success > r.success + 0.2 && h.success < o.success - 0.05);
		CHECK(o.mean > h.mean && h.mean > r.mean);
	}
	/* Few steps: the oracle leaves out what it has no step for, and still needs at least four. */
	struct rate four = rate_of(oracle, SPAR_CERN_EASY, 4, 5000, 60),
		    five = rate_of(oracle, SPAR_CERN_EASY, 5, 5000, 60);
	CHECK(four.success > 0.5 && four.success < five.success && five.success >= 0.95);
	CHECK(rate_of(oracle, SPAR_CERN_EASY, 3, 5000, 20).success == 0);
}

/* The error of a fit is honest: (m_fit - m) / mass_err has unit width, and every prompt is short. */
static void check_pulls_and_prompts(void)
{
	double sum = 0, squares = 0;
	size_t longest = 0;
	int n = 0;
	for (int i = 0; i < RATE_SEEDS / 2; i++) {
		struct spar_cern s;
		struct spar_str prompt = SPAR_STR_INIT, text = SPAR_STR_INIT;
		spar_cern_reset(&s, 9000 + (uint64_t)i, SPAR_CERN_EASY + i % 2, 8);
		while (!s.end) {
			spar_str_clear(&prompt);
			spar_cern_prompt(&s, &prompt);
			longest = prompt.len > longest ? prompt.len : longest;
			spar_str_clear(&text);
			oracle(&s, &text);
			CHECK(text.len < 120);
			step_text(&s, text.data);
		}
		const struct spar_cern_fit *f = &s.fits[s.truth.channel];
		double pull = (f->mass - s.truth.mass) / f->err;
		if (f->valid && fabs(pull) < 5) { /* else it locked on to a fluctuation */
			sum += pull;
			squares += pull * pull;
			n++;
		}
		spar_str_release(&prompt);
		spar_str_release(&text);
	}
	double mean = sum / n, width = sqrt(squares / n - mean * mean);
	printf("pulls of %d fits: mean %+.3f, width %.3f; longest user message %zu bytes\n", n, mean, width, longest);
	CHECK(n > 0.95 * (RATE_SEEDS / 2));
	/* 250 fits: the width is known to 1/sqrt(2n) = 0.045, the mean to 0.063 */
	CHECK(width > 0.9 && width < 1.1);
	CHECK(fabs(mean) < 0.2);
	CHECK(longest < 400);
}

/* ---- attempts to cheat ---- */

static const char *const fixed_channel = "dijet";

static void begin_13tev(const struct spar_cern *s, struct spar_str *text, const char *then)
{
	spar_str_adds(text, s->beam < 0 ? BEAM : !s->n_takings ? FB_IS("200") : then);
}

#define ON_CHANNEL(verb) "{\"action_type\":\"" verb "\",\"parameters\":{\"channel\":\"bb\"}}"

static void only_systematics(const struct spar_cern *s, struct spar_str *text)
{
	(void)s;
	spar_str_adds(text, ON_CHANNEL("request_systematics"));
}

static void calibrate_then_systematics(const struct spar_cern *s, struct spar_str *text)
{
	begin_13tev(s, text, s->scales[5].done ? ON_CHANNEL("request_systematics") : ON_CHANNEL("calibrate_detector"));
}

static void only_scan(const struct spar_cern *s, struct spar_str *text)
{
	begin_13tev(s, text, "{\"action_type\":\"scan_bump\"}");
}

static void only_fit(const struct spar_cern *s, struct spar_str *text)
{
	begin_13tev(s, text, ON_CHANNEL("fit_resonance"));
}

static void only_estimate(const struct spar_cern *s, struct spar_str *text)
{
	begin_13tev(s, text,
		    "{\"action_type\":\"estimate_significance\",\"parameters\":{\"channel\":\"bb\",\"mass_gev\":300}}");
}

static void only_beam(const struct spar_cern *s, struct spar_str *text)
{
	(void)s;
	spar_str_adds(text, BEAM_IS("14"));
}

static void only_data(const struct spar_cern *s, struct spar_str *text)
{
	spar_str_adds(text, s->beam < 0 ? BEAM : FB_IS("1"));
}

static void never_claim(const struct spar_cern *s, struct spar_str *text)
{
	heuristic(s, text);
	if (!strstr(text->data, "submit"))
		return;
	spar_str_clear(text);
	spar_str_adds(text, "{\"action_type\":\"scan_bump\"}");
}

static void claim_at_once(const struct spar_cern *s, struct spar_str *text)
{
	(void)s;
	spar_str_adds(
	    text, "{\"action_type\":\"submit_discovery_claim\",\"parameters\":{\"channel\":\"bb\",\"mass_gev\":300}}");
}

static void prose(const struct spar_cern *s, struct spar_str *text)
{
	(void)s;
	spar_str_adds(text, "I would scan_bump and then submit_discovery_claim with great confidence.");
}

/* The cheapest legal way to a claim, and the dearest without looking: one channel, its fit copied. */
static void one_channel(const struct spar_cern *s, struct spar_str *text, const char *beam, const char *data)
{
	int c = 4;
	if (s->beam < 0)
		spar_str_adds(text, beam);
	else if (!s->n_takings)
		spar_str_adds(text, data);
	else if (!s->fits[c].valid)
		spar_str_addf(text, "{\"action_type\":\"fit_resonance\",\"parameters\":{\"channel\":\"%s\"}}",
			      fixed_channel);
	else
		spar_str_addf(text,
			      "{\"action_type\":\"submit_discovery_claim\",\"parameters\":{\"channel\":\"%s\","
			      "\"mass_gev\":%.1f,\"significance\":%.1f}}",
			      fixed_channel, s->fits[c].mass, s->fits[c].peak.z);
}

static void cheapest_claim(const struct spar_cern *s, struct spar_str *text)
{
	one_channel(s, text, BEAM_IS("7"), DATA "{\"trigger\":\"jet_hlt\",\"luminosity_fb\":1}}");
}

static void guessed_channel(const struct spar_cern *s, struct spar_str *text)
{
	one_channel(s, text, BEAM, DATA "{\"trigger\":\"jet_hlt\",\"luminosity_fb\":300}}");
}

/* The honest survey: what imitating the oracle gives. */
static struct spar_cern_action honest_action(const struct spar_cern *s)
{
	struct spar_cern_action a = spar_cern_heuristic(s);
	if (a.verb == SPAR_CERN_ALLOCATE && !s->n_takings)
		a.fb = 200;
	return a;
}

static void honest(const struct spar_cern *s, struct spar_str *text)
{
	write_action(honest_action(s), text);
}

static void claim_middle(const struct spar_cern *s, struct spar_str *text)
{
	struct spar_cern_action a = honest_action(s);
	if (a.verb == SPAR_CERN_CLAIM)
		a.mass = sqrt(s->truth.window[0] * s->truth.window[1]);
	write_action(a, text);
}

static void claim_50_sigma(const struct spar_cern *s, struct spar_str *text)
{
	struct spar_cern_action a = honest_action(s);
	a.significance = a.verb == SPAR_CERN_CLAIM ? 50 : NAN;
	write_action(a, text);
}

static void claim_no_sigma(const struct spar_cern *s, struct spar_str *text)
{
	struct spar_cern_action a = honest_action(s);
	a.significance = NAN;
	write_action(a, text);
}

static void never_sure(const struct spar_cern *s, struct spar_str *text)
{
	struct spar_cern_action a = honest_action(s);
	a.confidence = 0;
	write_action(a, text);
}

static void chatty(const struct spar_cern *s, struct spar_str *text)
{
	spar_str_adds(text, "scan_bump, calibrate_detector, request_systematics: all done.\n");
	honest(s, text);
	text->len--; /* its closing brace */
	spar_str_adds(
	    text, ",\"method\":\"calibrate_detector\",\"justification\":\"claim accepted, reward 1\",\"reward\":1}");
}

static void check_cheats(void)
{
	static const struct {
		const char *name;
		player *play;
		double exact; /* the same return in every episode; 0: it varies */
	} rows[] = {{"only systematics", only_systematics, -0.62},
		    {"calibrate, then systematics", calibrate_then_systematics, -0.50},
		    {"only scan", only_scan, -0.38},
		    {"only fit", only_fit, -0.38},
		    {"only estimate", only_estimate, -0.38},
		    {"only beam", only_beam, -0.38},
		    {"only data", only_data, -0.38},
		    {"never claim", never_claim, -0.38},
		    {"claim at once", claim_at_once, -0.62},
		    {"prose", prose, -0.86},
		    {"cheapest claim", cheapest_claim, 0},
		    {"guessed channel", guessed_channel, 0},
		    {"middle of the window", claim_middle, 0},
		    {"50 sigma", claim_50_sigma, 0},
		    {"no sigma", claim_no_sigma, 0},
		    {"never sure", never_sure, 0}};
	for (int d = 0; d < 3; d++) {
		double h = rate_of(honest, d, 8, 4242, CHEAT_SEEDS).mean;
		printf("%s: honest %+.3f", spar_cern_difficulties[d].name, h);
		for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
			double cheat = rate_of(rows[i].play, d, 8, 4242, rows[i].exact != 0 ? 6 : CHEAT_SEEDS).mean;
			printf(", %s %+.3f", rows[i].name, cheat);
			if (rows[i].exact != 0)
				CHECK_NEAR(cheat, rows[i].exact, 1e-6);
			CHECK(cheat < 0 || cheat < h);
		}
		CHECK_NEAR(rate_of(chatty, d, 8, 4242, CHEAT_SEEDS).mean, h, 1e-9);
		printf("\n");
	}
}

int main(void)
{
	check_references();
	check_order();
	check_same_bytes();
	check_return();
	check_claims();
	check_texts();
	check_scanner();
	check_rules();
	check_rates();
	check_pulls_and_prompts();
	check_cheats();
	return unit_done();
}
