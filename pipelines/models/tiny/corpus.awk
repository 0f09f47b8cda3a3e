#!/usr/bin/awk -f
# The pretraining exercises of the embedded model: sft records, synthetic, a function of the seed alone.
#	SYSTEM=text awk -v seed=1 -v n=1000 -v short_first=0.9 -v short_last=0.1 -f corpus.awk
# The share of copy exercises goes from short_first to short_last along the way: copying comes first. SYSTEM is the
# environment's system text, given to some of the exercises.
# Three kinds, all about copying (names and numbers) and about JSON, none about what to do:
#   copy   a few words and numbers to be repeated, whole or in part
#   write  "write ACTION key value ..." to be written as one JSON object, whatever it means
#   read   a page that looks like an environment's, with random content and a question about one of its lines
# No action of the oracle is in them: the model learns to read and to write here, and what to do in the warm start.

function uniform() { state = (state * 16807) % 2147483647; return state / 2147483647 }
function below(k) { return int(uniform() * k) }
function pick(list, k) { return list[1 + below(k)] }
function chance(p) { return uniform() < p }

function mass() { return sprintf("%.1f", 120 * exp(uniform() * log(7.5))) }
function zvalue() { return sprintf("%.1f", 0.5 + 11 * uniform()) }
function fb() { return 1 + below(300) }
function quote(s) { return "\"" s "\"" }
function number_or_name(s) { return s ~ /^[0-9.]+$/ ? s : quote(s) }

# Draw k different channels into drawn[1..k].
function draw_channels(k,    i, j, t) {
	for (i = 1; i <= n_channels; i++) drawn[i] = channels[i]
	for (i = 1; i <= k; i++) {
		j = i + below(n_channels - i + 1)
		t = drawn[i]; drawn[i] = drawn[j]; drawn[j] = t
	}
}

function any_word(    u) {
	u = uniform()
	if (u < 0.35) return pick(channels, n_channels)
	if (u < 0.45) return pick(triggers, n_triggers)
	if (u < 0.50) return pick(beams, n_beams)
	if (u < 0.75) return mass()
	if (u < 0.90) return zvalue()
	return fb()
}

function emit(user, answer, with_system,    head) {
	gsub(/\n/, "\\n", user)
	gsub(/"/, "\\\"", answer)
	head = with_system ? "{\"role\":\"system\",\"content\":\"" system_text "\"}," : ""
	printf "{\"type\":\"sft\",\"messages\":[%s{\"role\":\"user\",\"content\":\"%s\"}],\"completion\":\"%s\"}\n", head, user, answer
}

function copy_exercise(    k, i, words, line, at) {
	k = 2 + below(7)
	line = ""
	for (i = 1; i <= k; i++) {
		words[i] = any_word()
		line = line (i > 1 ? " " : "") words[i]
	}
	if (chance(0.5)) {
		emit("copy " line, line, 0)
		return
	}
	# what follows a word: the pattern behind every look-up
	at = 1 + below(k - 1)
	for (i = 1; i < at; i++)
		if (words[i] == words[at]) return
	emit(line "\nafter " words[at] "?", words[at + 1], 0)
}

function write_exercise(    u, action, said, json, c, m, z, t, l) {
	c = pick(channels, n_channels); t = pick(triggers, n_triggers); m = mass(); z = zvalue(); l = fb()
	action = pick(actions, n_actions)
	said = ""; json = ""
	if (action == "configure_beam") { c = pick(beams, n_beams); said = " beam_energy " c; json = "\"beam_energy\":" quote(c) }
	else if (action == "allocate_luminosity") {
		said = " trigger " t " luminosity_fb " l; json = "\"trigger\":" quote(t) ",\"luminosity_fb\":" l
		if (chance(0.5)) { said = " luminosity_fb " l " trigger " t; json = "\"luminosity_fb\":" l ",\"trigger\":" quote(t) }
	} else if (action != "scan_bump") {
		said = " channel " c; json = "\"channel\":" quote(c)
		if (action == "estimate_significance" || action == "submit_discovery_claim") { said = said " mass_gev " m; json = json ",\"mass_gev\":" m }
		if (action == "submit_discovery_claim") { said = said " significance " z; json = json ",\"significance\":" z }
	}
	emit("write " action said, "{\"action_type\":" quote(action) ",\"parameters\":{" json "}}", chance(0.2))
}

function read_exercise(    page, i, k, u, step, max, lo, hi, beam, left, budget, nd, nsc, ncal, dt, dl, sc, sm, sz, cal, fc, fm, fe, fz, q, a, ch, hit) {
	max = chance(0.8) ? 8 : 3 + below(10); step = 1 + below(max)
	lo = 120 + below(400); hi = lo + 100 + below(300)
	beam = chance(0.9) ? pick(beams, n_beams) : "none"; left = below(301); budget = below(101)
	page = "step " step "/" max " " pick(levels, 3) ", search " lo "-" hi " GeV\nbeam " beam ", left " left " fb, budget " budget "\ndata "
	nd = below(3)
	for (i = 1; i <= nd; i++) { dt[i] = pick(triggers, n_triggers); dl[i] = fb(); page = page (i > 1 ? ", " : "") dt[i] " " dl[i] }
	page = page (nd ? "" : "none") "\nscan "
	nsc = chance(0.75) ? 3 : 0
	draw_channels(3)
	for (i = 1; i <= nsc; i++) {
		sc[i] = drawn[i]; sm[i] = mass(); sz[i] = zvalue()
		page = page (i > 1 ? ", " : "") sc[i] " " sm[i] " z " sz[i] (i == 1 ? " global " zvalue() : "")
	}
	page = page (nsc ? "" : "none") "\ncalibrated "
	ncal = below(3)
	draw_channels(2)
	cal = ""
	for (i = 1; i <= ncal; i++) cal = cal (i > 1 ? ", " : "") drawn[i]
	if (cal == "") cal = "none"
	page = page cal "\nfit "
	fc = chance(0.75) ? pick(channels, n_channels) : ""
	if (fc != "") {
		if (nsc && chance(0.5)) fc = sc[1]
		fm = mass(); fe = sprintf("%.1f", 0.5 + 12 * uniform()); fz = zvalue()
		page = page fc " " fm " +- " fe " z " fz " global " zvalue()
	} else page = page "none"
	page = page "\nlast " pick(actions, n_actions) " ok\n"

	u = uniform(); q = ""
	if (u < 0.30 && fc != "") {
		k = below(4); a = "{\"channel\":" quote(fc) ",\"mass_gev\":" fm ",\"significance\":" fz "}"
		if (k == 0) { q = "fit mass?"; a = fm }
		else if (k == 1) { q = "fit channel?"; a = "{\"channel\":" quote(fc) "}" }
		else q = "fit as json?"
	} else if (u < 0.70 && nsc) {
		k = below(5); i = 1 + (chance(0.5) ? 0 : below(3))
		if (k == 0) { q = "scan " i " channel?"; a = "{\"channel\":" quote(sc[i]) "}" }
		else if (k == 1) { q = "scan " i " as json?"; a = "{\"channel\":" quote(sc[i]) ",\"mass_gev\":" sm[i] ",\"significance\":" sz[i] "}" }
		else if (k == 2) { q = "mass of " sc[i] " in scan?"; a = sm[i] }
		else if (k == 3) { q = "z of " sc[i] " in scan?"; a = sz[i] }
		else { q = "scan order?"; a = sc[1] ", " sc[2] ", " sc[3] }
	} else if (u < 0.78) { q = "left?"; a = "{\"luminosity_fb\":" left "}" }
	else if (u < 0.82) { q = "budget?"; a = budget }
	else if (u < 0.88) { q = "calibrated?"; a = cal }
	else if (u < 0.92) { q = "beam?"; a = "{\"beam_energy\":" quote(beam) "}" }
	else if (nd) { i = 1 + below(nd); q = "data " i "?"; a = "{\"trigger\":" quote(dt[i]) ",\"luminosity_fb\":" dl[i] "}" }
	if (q != "") emit(page q, a, chance(0.3))
}

BEGIN {
	state = (seed * 48271 + 11) % 2147483647
	if (state < 1) state = 1
	for (i = 0; i < 8; i++) uniform()
	n_channels = split("diphoton dilepton_ee dilepton_mumu four_lepton dijet bb", channels, " ")
	n_triggers = split("high_pt low_pt diphoton_hlt dilepton_hlt jet_hlt", triggers, " ")
	n_beams = split("7TeV 8TeV 13TeV 14TeV", beams, " ")
	split("easy medium hard", levels, " ")
	n_actions = split("configure_beam allocate_luminosity scan_bump calibrate_detector fit_resonance estimate_significance request_systematics submit_discovery_claim", actions, " ")
	system_text = ENVIRON["SYSTEM"] != "" ? ENVIRON["SYSTEM"] : "Read the page and answer."
	gsub(/"/, "\\\"", system_text)
	gsub(/\n/, "\\n", system_text)
	for (made = 0; made < n; made++) {
		short = short_first + (short_last - short_first) * made / n
		u = uniform()
		if (u < short) copy_exercise()
		else if (u < short + (1 - short) * 0.25) write_exercise()
		else read_exercise()
	}
}
