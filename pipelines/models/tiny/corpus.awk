#!/usr/bin/awk -f
# The pretraining exercises of the embedded model: sft records, synthetic, a function of the seed alone.
#	SYSTEM=text EDGE_SYSTEM=text awk -v seed=1 -v n=1000 -v pass=1 -f corpus.awk
# The order matters. In the first pass copying comes alone, then edges are looked up one by one on pages that grow; in the
# second, several are looked up on long pages: begun with those, a model of this size does not find out how. SYSTEM and
# EDGE_SYSTEM are the environments' system texts, given to some of the exercises.
# Four kinds, all about copying (names and numbers) and about JSON, none about what to do:
#   copy   a few words and numbers to be repeated, whole or in part
#   write  "write ACTION key value ..." to be written as one JSON object, whatever it means
#   read   a page that looks like env-cern's, with random content and a question about one of its lines
#   edges  a page of random edges that look like env-osint's, to be written in another order, or a question about one node's
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

# Put k of the n members of a list, drawn without replacement, before the others.
function shuffle(list, n, k,    i, j, t) {
	for (i = 1; i <= k; i++) {
		j = i + below(n - i + 1)
		t = list[i]; list[i] = list[j]; list[j] = t
	}
}

# Draw k different channels into drawn[1..k].
function draw_channels(k,    i) {
	for (i = 1; i <= n_channels; i++) drawn[i] = channels[i]
	shuffle(drawn, n_channels, k)
}

function node(kind) { return kind "_" 10 + below(90) }

function any_word(    u) {
	if (edge_words) return chance(0.8) ? node(pick(kinds, n_kinds)) : pick(relations, n_relations)
	u = uniform()
	if (u < 0.35) return pick(channels, n_channels)
	if (u < 0.45) return pick(triggers, n_triggers)
	if (u < 0.50) return pick(beams, n_beams)
	if (u < 0.75) return mass()
	if (u < 0.90) return zvalue()
	return fb()
}

# told: 0 for no system text, else which.
function emit(user, answer, told,    head) {
	gsub(/"/, "\\\"", user)
	gsub(/\n/, "\\n", user)
	gsub(/"/, "\\\"", answer)
	head = told ? "{\"role\":\"system\",\"content\":\"" system_text[told] "\"}," : ""
	printf "{\"type\":\"sft\",\"messages\":[%s{\"role\":\"user\",\"content\":\"%s\"}],\"completion\":\"%s\"}\n", head, user, answer
}

function copy_exercise(    k, i, words, line, at) {
	k = 2 + below(7)
	line = ""
	edge_words = chance(0.5)
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

function edge(i) { return "[\"" from[i] "\",\"" rel[i] "\",\"" to[i] "\"]" }

# The edges of a page that begin ("from") or end ("to") at a node.
function edges_of(side, name, n,    i, list) {
	list = ""
	for (i = 1; i <= n; i++)
		if ((side == "from" ? from[i] : to[i]) == name) list = list (list == "" ? "" : ",") edge(i)
	return "[" list "]"
}

# A page of up to `most` random edges, of a few nodes of each kind so that edges meet: returns their number.
function draw_edges(most,    i, k, pair, seen, people, places, left) {
	people = 2 + below(5); places = 1 + below(3)
	for (k = 1; k <= n_kinds; k++)
		for (i = 1; i <= 6; i++) members[kinds[k], i] = node(kinds[k])
	i = 0
	for (left = 2 + below(most - 1); left; left--) {
		split(pick(shapes, n_shapes), pair, " ")
		i++
		from[i] = members[pair[1], 1 + below(pair[1] == "user" ? people : places)]
		rel[i] = pair[2]
		to[i] = members[pair[3], 1 + below(pair[3] == "user" ? people : places)]
		if (from[i] == to[i] || (from[i], rel[i]) in seen) i--
		else seen[from[i], rel[i]] = 1
	}
	return i
}

function page_of(n,    i, page) {
	page = ""
	for (i = 1; i <= n; i++) page = page edge(i) "\n"
	return page
}

function shuffle_exercise(most,    n, i, order, list) {
	n = draw_edges(most)
	for (i = 1; i <= n; i++) order[i] = i
	shuffle(order, n, n)
	list = ""
	for (i = 1; i <= n; i++) list = list (i > 1 ? "," : "") edge(order[i])
	emit(page_of(n) "shuffle", "[" list "]", chance(0.1) ? 2 : 0)
}

# Edges looked up: in the first pass one, in every way; in the second several, forwards.
function edge_exercise(most,    n, i, k, page, asked, list, u) {
	n = draw_edges(most)
	if (!n) return
	page = page_of(n)
	i = 1 + below(n)
	u = uniform()
	if (pass == 1 && u < 0.40) emit(page "edge from " from[i] " by " rel[i] "?", edge(i), chance(0.2) ? 2 : 0)
	else if (pass == 1 && u < 0.50) emit(page "relation from " from[i] " to " to[i] "?", "{\"key\":" quote(rel[i]) "}", 0)
	else if (pass == 1 && u >= 0.70 && u < 0.85) emit(page "edges to " to[i] "?", edges_of("to", to[i], n), 0)
	else if (pass == 2 && u < 0.65) {
		asked = list = ""
		for (k = 1 + below(4); k; k--) {
			i = 1 + below(n)
			asked = asked (asked == "" ? "" : ", ") from[i] " by " rel[i]
			list = list (list == "" ? "" : ",") edge(i)
		}
		emit(page "edges from " asked "?", "[" list "]", chance(0.2) ? 2 : 0)
	} else if (u < (pass == 1 ? 0.70 : 0.80)) emit(page "edges from " from[i] "?", edges_of("from", from[i], n), chance(0.2) ? 2 : 0)
	else emit(page "edges from the end of " edge(i) "?", edges_of("from", to[i], n), chance(0.2) ? 2 : 0)
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
	n_kinds = split("user alias org loc post thr event", kinds, " ")
	n_shapes = split("user works_at org,user located_in loc,alias alias_of user,user connected_to user,org operates_in loc," \
		"user authored_post post,alias authored_post post,user authored_thread thr,post references user,post references org," \
		"post references event,thr discusses user,thr discusses event,user investigates event,user monitors org," \
		"event located_in loc,user connected_to user", shapes, ",")
	n_relations = split("works_at located_in alias_of connected_to operates_in authored_post authored_thread references " \
		"discusses investigates monitors", relations, " ")
	system_text[1] = ENVIRON["SYSTEM"]
	system_text[2] = ENVIRON["EDGE_SYSTEM"]
	for (i = 1; i <= 2; i++) {
		if (system_text[i] == "") system_text[i] = "Read the page and answer."
		gsub(/"/, "\\\"", system_text[i])
		gsub(/\n/, "\\n", system_text[i])
	}
	for (made = 0; made < n; made++) {
		way = pass == 1 ? made / n : 0.6 + 0.4 * made / n
		copies = way < 0.10 ? 1 : way < 0.30 ? 0.3 : 0.1
		most = 3 + int(14 * way)
		if (chance(copies)) {
			copy_exercise()
			continue
		}
		u = uniform()
		if (u < (pass == 1 ? 0.25 : 0.10)) shuffle_exercise(most)
		else if (u < (pass == 1 ? 0.60 : 0.75)) edge_exercise(most)
		else if (u < (pass == 1 ? 0.70 : 0.80)) write_exercise()
		else read_exercise()
	}
}
