/* view.c - how an episode is shown: the observation for programs, the prompt for models, info for logs. See cern.h. */
#include "env/cern/cern.h"
#include <inttypes.h>
#include <math.h>

enum { CHANNELS = SPAR_CERN_CHANNELS };

const char spar_cern_system[] =
    "Collider search. Find the new particle's mass and main decay channel, then claim it.\n"
    "Reply with one JSON object: {\"action_type\":A,\"parameters\":{...}}\n"
    "A and its parameters:\n"
    "configure_beam: beam_energy 7TeV, 8TeV, 13TeV or 14TeV\n"
    "allocate_luminosity: luminosity_fb, trigger high_pt, low_pt, diphoton_hlt, dilepton_hlt or jet_hlt\n"
    "scan_bump\n"
    "calibrate_detector: channel\n"
    "fit_resonance: channel\n"
    "estimate_significance: channel, mass_gev\n"
    "request_systematics: channel\n"
    "submit_discovery_claim: channel, mass_gev, significance\n"
    "channel: diphoton, dilepton_ee, dilepton_mumu, four_lepton, dijet or bb";

static const char *channel_name(int c)
{
	return spar_cern_channels[c].name;
}

/* ---- the prompt ---- */

static void prompt_data(const struct spar_cern *s, struct spar_str *out)
{
	double sum[SPAR_CERN_TRIGGERS] = {0};
	for (int i = 0; i < s->n_takings; i++)
		sum[s->takings[i].trigger] += s->takings[i].luminosity;
	spar_str_adds(out, s->n_takings ? "\ndata " : "\ndata none");
	for (int i = 0; i < s->n_takings; i++) {
		int t = s->takings[i].trigger;
		if (sum[t] > 0)
			spar_str_addf(out, "%s%s %g", i ? ", " : "", spar_cern_triggers[t], sum[t]);
		sum[t] = 0; /* said at its first use */
	}
}

static void prompt_scan(const struct spar_cern *s, struct spar_str *out)
{
	spar_str_adds(out, "\nscan ");
	if (!s->n_bumps)
		spar_str_adds(out, s->scanned ? "empty" : "none");
	for (int i = 0; i < s->n_bumps && i < 3; i++) {
		const struct spar_cern_bump *b = &s->bumps[i];
		spar_str_addf(out, "%s%s %.1f z %.1f", i ? ", " : "", channel_name(b->channel), b->mass, b->z);
		if (i == 0)
			spar_str_addf(out, " global %.1f", b->z_global);
	}
}

static void prompt_calibrated(const struct spar_cern *s, struct spar_str *out)
{
	const char *before = "\ncalibrated ";
	for (int c = 0; c < CHANNELS; c++) {
		if (!s->scales[c].done)
			continue;
		spar_str_addf(out, "%s%s", before, channel_name(c));
		before = ", ";
	}
	if (before[0] == '\n')
		spar_str_addf(out, "%snone", before);
}

static void prompt_fit(const struct spar_cern *s, struct spar_str *out)
{
	int c = spar_cern_latest_fit(s);
	if (c < 0) {
		spar_str_adds(out, "\nfit none");
		return;
	}
	const struct spar_cern_fit *f = &s->fits[c];
	spar_str_addf(out, "\nfit %s %.1f +- %.1f z %.1f global %.1f", channel_name(c), f->mass, f->err, f->peak.z,
		      f->z_global);
}

void spar_cern_prompt(const struct spar_cern *s, struct spar_str *out)
{
	spar_str_addf(out, "step %d/%d %s, search %.0f-%.0f GeV", s->step + 1, s->max_steps,
		      spar_cern_difficulties[s->difficulty].name, s->truth.window[0], s->truth.window[1]);
	spar_str_addf(out, "\nbeam %s, left %.0f fb, budget %.0f", s->beam < 0 ? "none" : spar_cern_beams[s->beam].name,
		      floor(s->luminosity_left), floor(s->budget_left));
	prompt_data(s, out);
	prompt_scan(s, out);
	prompt_calibrated(s, out);
	prompt_fit(s, out);
	spar_str_adds(out, "\nlast ");
	if (s->last_verb >= 0)
		spar_str_addf(out, "%s ", spar_cern_verb_name((enum spar_cern_verb)s->last_verb));
	spar_str_addf(out, "%s%s\nnext action?", s->invalid ? "rejected: " : "", s->last);
}

/* ---- the observation ---- */

static void add_bool(struct spar_str *out, bool b)
{
	spar_str_adds(out, b ? "true" : "false");
}

static void observe_data(const struct spar_cern *s, struct spar_str *out)
{
	spar_str_adds(out, ",\"beam_energy\":");
	spar_str_addf(out, s->beam < 0 ? "null" : "\"%s\"", s->beam < 0 ? "" : spar_cern_beams[s->beam].name);
	spar_str_addf(out, ",\"luminosity_left_fb\":%.6g,\"budget_left\":%.6g,\"allocations\":[", s->luminosity_left,
		      s->budget_left);
	for (int i = 0; i < s->n_takings; i++)
		spar_str_addf(out, "%s{\"trigger\":\"%s\",\"luminosity_fb\":%.6g}", i ? "," : "",
			      spar_cern_triggers[s->takings[i].trigger], s->takings[i].luminosity);
	spar_str_adds(out, "],\"events\":{");
	for (int c = 0; c < CHANNELS; c++)
		spar_str_addf(out, "%s\"%s\":%" PRIu32, c ? "," : "", channel_name(c), spar_cern_events(s, c));
	spar_str_adds(out, "}");
}

static void observe_scan(const struct spar_cern *s, struct spar_str *out)
{
	spar_str_adds(out, s->scanned ? ",\"scan\":[" : ",\"scan\":null");
	for (int i = 0; i < s->n_bumps; i++) {
		const struct spar_cern_bump *b = &s->bumps[i];
		spar_str_addf(out, "%s{\"channel\":\"%s\",\"mass_gev\":%.1f,\"z_local\":%.2f,\"z_global\":%.2f}",
			      i ? "," : "", channel_name(b->channel), b->mass, b->z, b->z_global);
	}
	if (s->scanned)
		spar_str_adds(out, "]");
}

static void observe_calibrated(const struct spar_cern *s, struct spar_str *out)
{
	const char *comma = "";
	spar_str_adds(out, ",\"calibrated\":{");
	for (int c = 0; c < CHANNELS; c++) {
		const struct spar_cern_scale *scale = &s->scales[c];
		if (!scale->done)
			continue;
		spar_str_addf(out, "%s\"%s\":{\"scale\":%.6g,\"scale_err\":%.6g,\"systematics\":", comma,
			      channel_name(c), scale->value, scale->err);
		add_bool(out, scale->refined);
		spar_str_adds(out, "}");
		comma = ",";
	}
	spar_str_adds(out, "}");
}

static void observe_fits(const struct spar_cern *s, struct spar_str *out)
{
	const char *comma = "";
	spar_str_adds(out, ",\"fits\":{");
	for (int c = 0; c < CHANNELS; c++) {
		const struct spar_cern_fit *f = &s->fits[c];
		if (!f->valid)
			continue;
		spar_str_addf(out, "%s\"%s\":{\"mass_gev\":%.1f,\"mass_err_gev\":%.1f,\"stat_err_gev\":%.1f", comma,
			      channel_name(c), f->mass, f->err, f->stat_err);
		spar_str_addf(out, ",\"scale_err_gev\":%.1f,\"z_local\":%.2f,\"z_global\":%.2f", f->scale_err,
			      f->peak.z, f->z_global);
		spar_str_addf(out, ",\"n_signal\":%.6g,\"n_signal_err\":%.6g}", f->peak.n, f->peak.n_err);
		comma = ",";
	}
	spar_str_adds(out, "}");
}

static void observe(const struct spar_cern *s, struct spar_str *out)
{
	spar_str_addf(
	    out, "\"observation\":{\"step\":%d,\"max_steps\":%d,\"difficulty\":\"%s\",\"window_gev\":[%.1f,%.1f]",
	    s->step, s->max_steps, spar_cern_difficulties[s->difficulty].name, s->truth.window[0], s->truth.window[1]);
	observe_data(s, out);
	observe_scan(s, out);
	observe_calibrated(s, out);
	observe_fits(s, out);
	spar_str_adds(out, ",\"estimate\":");
	if (s->estimate.channel < 0)
		spar_str_adds(out, "null");
	else
		spar_str_addf(out, "{\"channel\":\"%s\",\"mass_gev\":%.1f,\"z_local\":%.2f}",
			      channel_name(s->estimate.channel), s->estimate.mass, s->estimate.z);
	spar_str_adds(out, ",\"last\":{\"action_type\":");
	spar_str_addf(out, s->last_verb < 0 ? "null" : "\"%s\"",
		      s->last_verb < 0 ? "" : spar_cern_verb_name((enum spar_cern_verb)s->last_verb));
	spar_str_adds(out, ",\"ok\":");
	add_bool(out, !s->invalid);
	spar_str_addf(out, ",\"message\":\"%s\"}}", s->last);
}

/* ---- info ---- */

static void info_step(const struct spar_cern *s, struct spar_str *out)
{
	static const char *const kinds[] = {"null", "\"parse\"", "\"action\"", "\"parameter\"", "\"precondition\""};
	spar_str_adds(out, ",\"valid\":");
	add_bool(out, !s->invalid);
	spar_str_addf(out, ",\"invalid_kind\":%s,\"action\":", kinds[s->invalid]);
	if (s->invalid && s->invalid != SPAR_CERN_PRECONDITION)
		spar_str_adds(out, "null");
	else
		spar_cern_action_write(&s->action, out);
	const double parts[] = {s->parts.step, s->parts.shaping, s->parts.invalid, s->parts.terminal};
	static const char *const names[] = {"step", "shaping", "invalid", "terminal"};
	spar_str_adds(out, ",\"reward_parts\":{");
	for (int i = 0; i < 4; i++) {
		spar_str_addf(out, "%s\"%s\":", i ? "," : "", names[i]);
		spar_str_add_double(out, parts[i]);
	}
	spar_str_adds(out, "}");
}

static void info_end(const struct spar_cern *s, struct spar_str *out)
{
	const struct spar_cern_scores *sc = &s->scores;
	const double scores[] = {sc->mass, sc->channel, sc->significance, sc->confidence, sc->budget};
	static const char *const names[] = {"mass", "channel", "significance", "confidence", "budget"};
	spar_str_addf(out, ",\"end\":\"%s\",\"success\":", s->end == SPAR_CERN_CLAIMED ? "claim" : "max_steps");
	add_bool(out, spar_cern_success(s));
	spar_str_adds(out, ",\"correct_mass\":");
	add_bool(out, sc->correct_mass);
	spar_str_adds(out, ",\"correct_channel\":");
	add_bool(out, sc->correct_channel);
	spar_str_adds(out, ",\"scores\":{");
	for (int i = 0; i < 5; i++) {
		spar_str_addf(out, "%s\"%s\":", i ? "," : "", names[i]);
		spar_str_addf(out, s->end == SPAR_CERN_CLAIMED ? "%.6g" : "null", scores[i]);
	}
	spar_str_adds(out, "}");
}

static void add_by_channel(struct spar_str *out, const char *key, const double v[CHANNELS])
{
	spar_str_addf(out, ",\"%s\":{", key);
	for (int c = 0; c < CHANNELS; c++)
		spar_str_addf(out, "%s\"%s\":%.6g", c ? "," : "", channel_name(c), v[c]);
	spar_str_adds(out, "}");
}

static void info_truth(const struct spar_cern_truth *t, struct spar_str *out)
{
	spar_str_addf(out,
		      ",\"truth\":{\"mass_gev\":%.6g,\"width_gev\":%.6g,\"channel\":\"%s\",\"cross_section_fb\":%.6g",
		      t->mass, t->width * t->mass, channel_name(t->channel), t->cross_section_fb);
	add_by_channel(out, "branching", t->branching);
	add_by_channel(out, "scale_bias", t->bias);
	spar_str_addf(out, ",\"z0\":%.6g}", t->z);
}

void spar_cern_view(const struct spar_cern *s, bool oracle, struct spar_str *out)
{
	observe(s, out);
	spar_str_adds(out, ",\"messages\":[");
	if (!s->end) {
		struct spar_str prompt = SPAR_STR_INIT;
		spar_cern_prompt(s, &prompt);
		spar_str_adds(out, "{\"role\":\"system\",\"content\":");
		spar_str_add_json(out, spar_cern_system, sizeof spar_cern_system - 1);
		spar_str_adds(out, "},{\"role\":\"user\",\"content\":");
		spar_str_add_json(out, prompt.data, prompt.len);
		spar_str_adds(out, "}");
		spar_str_release(&prompt);
	}
	spar_str_adds(out, "],\"reward\":");
	spar_str_add_double(out, s->reward);
	spar_str_adds(out, ",\"done\":");
	add_bool(out, s->end);
	spar_str_addf(out, ",\"info\":{\"seed\":\"%" PRIu64 "\",\"difficulty\":\"%s\",\"step\":%d,\"max_steps\":%d",
		      s->seed, spar_cern_difficulties[s->difficulty].name, s->step, s->max_steps);
	spar_str_adds(out, ",\"return\":");
	spar_str_add_double(out, s->total);
	if (s->step)
		info_step(s, out);
	if (s->end)
		info_end(s, out);
	if (s->end && oracle)
		info_truth(&s->truth, out);
	spar_str_adds(out, "}");
}
