# spar env-cern: the line protocol, its errors, and that it gives nothing away.
load common

GOLDEN=$BATS_TEST_DIRNAME/golden
TRUTH='truth|branching|scale_bias|cross_section|width_gev|"z0"'

# One request line in, its reply's jq result out.
ask() { printf '%s\n' "$1" | spar env-cern | jq -c "$2"; }

# The code of the last reply to some lines.
code() { printf '%s\n' "$@" | spar env-cern | tail -1 | jq -r '.error.code + ": " + .error.message'; }

RESET='{"op":"reset","session":"s","seed":"1"}'

@test "env-cern: a session of requests gives the bytes on file" {
	spar env-cern --oracle <"$GOLDEN/env-cern.requests.jsonl" >"$SCRATCH/replies"
	diff "$GOLDEN/env-cern.replies.jsonl" "$SCRATCH/replies"
	[ "$(jq -c .id "$SCRATCH/replies" | sed -n 2p)" = '"first"' ]
	grep -q '^{"id":1.0,' "$SCRATCH/replies"
	grep -q '^{"id":12345678901234567890,' "$SCRATCH/replies"
}

@test "env-cern: the reference episode: rewards and return" {
	run -0 jq -c 'select(.op == "step" and .session == "a" and .error == null) | .reward' "$GOLDEN/env-cern.replies.jsonl"
	[ "${lines[*]:0:6}" = "0.01 0.03 0.03 -0.01 0.03 0.05" ]
	jq -e -s 'map(select(.info.end == "claim")) | length == 2 and all(.info.success and .messages == [] and .done)' \
		"$GOLDEN/env-cern.replies.jsonl"
}

@test "env-cern: no key of the truth in any output without --oracle" {
	run -0 spar env-cern <"$GOLDEN/env-cern.requests.jsonl"
	[ "${#lines[@]}" = 20 ]
	[ "$(grep -cE "$TRUTH" <<<"$output")" = 0 ]
	[ "$(jq -r 'select(.op == "oracle") | .error.code // "ok"' <<<"$output" | xargs)" = "forbidden ok episode_over" ]
	# with it: only after the end, only in info
	spar env-cern --oracle <"$GOLDEN/env-cern.requests.jsonl" |
		jq -e -s 'map(select(tostring | test("truth|scale_bias"))) | length > 0 and all(.done and .info.truth.channel != null and
			(del(.info.truth) | tostring | test("truth|scale_bias") | not))'
}

@test "env-cern: observation and prompt hold what they should, in order" {
	ask "$RESET" '.observation | keys_unsorted' | grep -Fx '["step","max_steps","difficulty","window_gev","beam_energy","luminosity_left_fb","budget_left","allocations","events","scan","calibrated","fits","estimate","last"]'
	run -0 jq -r 'select(.id == null and .op == "state").messages[1].content' "$GOLDEN/env-cern.replies.jsonl"
	[ "${lines[0]}" = "step 5/8 easy, search 227-414 GeV" ]
	[ "${lines[1]}" = "beam 13TeV, left 0 fb, budget 33" ]
	[ "${lines[2]}" = "data high_pt 200, dilepton_hlt 100" ]
	[ "${lines[3]}" = "scan four_lepton 349.7 z 5.5 global 4.8, diphoton 375.8 z 2.6, dijet 247.6 z 2.0" ]
	[ "${lines[4]}" = "calibrated none" ]
	[ "${lines[5]}" = "fit none" ]
	[ "${lines[6]}" = "last allocate_luminosity ok, reduced to 100 fb" ]
	[ "${lines[7]}" = "next action?" ]
	ask '{"op":"describe"}' '.system' >"$SCRATCH/system"
	ask "$RESET" '.messages[0].content' | diff - "$SCRATCH/system"
}

@test "env-cern: info says what the step was" {
	run -0 bash -c "printf '%s\n' '$RESET' '{\"op\":\"step\",\"session\":\"s\",\"text\":\"no\"}' | spar env-cern | tail -1 | jq -c '.info'"
	[ "$output" = '{"seed":"1","difficulty":"medium","step":1,"max_steps":8,"return":-0.07,"valid":false,"invalid_kind":"parse","action":null,"reward_parts":{"step":-0.01,"shaping":0,"invalid":-0.06,"terminal":0}}' ]
	run -0 bash -c "printf '%s\n' '$RESET' '{\"op\":\"step\",\"session\":\"s\",\"action\":{\"action_type\":\" SCAN_bump\",\"confidence\":0.5,\"method\":\"x\"}}' | spar env-cern | tail -1 | jq -c '.info | [.valid, .invalid_kind, .action]'"
	[ "$output" = '[false,"precondition",{"action_type":"scan_bump","parameters":{},"confidence":0.5}]' ]
}

@test "env-cern: every error" {
	[[ $(code '{"op":"reset"') == "bad_json: "* ]]
	[[ $(code '[1]') == "bad_json: "* ]]
	[[ $(code '{} {}') == "bad_json: "* ]]
	[[ $(code '{"op":NaN}') == "bad_json: "* ]]
	[[ $(code '{}') == "bad_request: .op: "* ]]
	[[ $(code '{"op":5}') == "bad_request: .op: "* ]]
	[[ $(code '{"op":"describe","id":[]}') == "bad_request: .id: "* ]]
	[[ $(code '{"op":"describe","protocol":[2,3]}') == "bad_version: .protocol: "* ]]
	[[ $(code '{"op":"describe","protocol":1}') == "bad_request: .protocol: "* ]]
	[[ $(code '{"op":"resett","session":"s"}') == "unknown_op: "* ]]
	[[ $(code '{"op":"reset","seed":1}') == "bad_request: .session: "* ]]
	[[ $(code '{"op":"reset","session":"","seed":1}') == "bad_request: .session: "* ]]
	[[ $(code "{\"op\":\"reset\",\"session\":\"$(printf '%065d' 0)\",\"seed\":1}") == "bad_request: .session: "* ]]
	[[ $(code '{"op":"reset","session":"s"}') == "bad_request: .seed: "* ]]
	for seed in -1 1.5 1e30 9007199254740994 '"x"' '"-1"' '"18446744073709551616"' true; do
		echo "$seed"
		[[ $(code "{\"op\":\"reset\",\"session\":\"s\",\"seed\":$seed}") == "bad_request: .seed: "* ]]
	done
	[[ $(code '{"op":"reset","session":"s","seed":1,"difficulty":"harder"}') == "bad_request: .difficulty: "* ]]
	[[ $(code '{"op":"reset","session":"s","seed":1,"max_steps":0}') == "bad_request: .max_steps: "* ]]
	[[ $(code '{"op":"reset","session":"s","seed":1,"max_steps":65}') == "bad_request: .max_steps: "* ]]
	[[ $(code '{"op":"reset","session":"s","seed":1,"options":{"x":1}}') == "bad_request: .options: "* ]]
	[[ $(code "$RESET" '{"op":"step","session":"s"}') == "bad_request: "* ]]
	[[ $(code "$RESET" '{"op":"step","session":"s","text":"a","action":{}}') == "bad_request: "* ]]
	[[ $(code "$RESET" '{"op":"step","session":"s","text":7}') == "bad_request: .text: "* ]]
	[[ $(code "$RESET" '{"op":"step","session":"s","action":[]}') == "bad_request: .action: "* ]]
	[[ $(code "$RESET" '{"op":"oracle","session":"s","policy":"best"}') == "bad_request: .policy: "* ]]
	[[ $(code "$RESET" '{"op":"oracle","session":"s"}') == "forbidden: "* ]]
	for op in step state oracle close; do
		[[ $(code "{\"op\":\"$op\",\"session\":\"s\",\"text\":\"\",\"policy\":\"random\"}") == "no_session: "* ]]
	done
	[[ $(code "$RESET" '{"op":"close","session":"s"}' '{"op":"state","session":"s"}') == "no_session: "* ]]
	[ "$(ask '{"op":"describe","protocol":[2]}' .error.supported)" = '[1]' ]
}

@test "env-cern: a refused request changes nothing" {
	step='{"op":"step","session":"s","text":"{}"}' state='{"op":"state","session":"s"}'
	printf '%s\n' "$RESET" "$step" "$state" '{"op":"reset","session":"s","seed":1,"max_steps":99}' 'x' \
		'{"op":"step","session":"s"}' "$state" | spar env-cern >"$SCRATCH/out"
	diff <(sed -n 3p "$SCRATCH/out") <(sed -n 7p "$SCRATCH/out")
	diff <(sed -n 2p "$SCRATCH/out" | jq 'del(.op)') <(sed -n 3p "$SCRATCH/out" | jq 'del(.op)')
}

@test "env-cern: --max-sessions, and a closed session makes room" {
	r() { printf '{"op":"%s","session":"%s","seed":1}\n' "$1" "$2"; }
	{ r reset a; r reset b; r reset c; r reset a; r close a; r reset c; } | spar env-cern --max-sessions=2 >"$SCRATCH/out"
	[ "$(jq -r '.error.code // "ok"' "$SCRATCH/out" | xargs)" = "ok ok session_limit ok ok ok" ]
}

@test "env-cern: what a reset does not name comes from the command line" {
	run -0 bash -c "printf '%s\n' '$RESET' | spar env-cern --difficulty=hard --max-steps=3 | jq -c '[.info.difficulty, .info.max_steps]'"
	[ "$output" = '["hard",3]' ]
	[ "$(ask '{"op":"describe"}' '[.defaults, .max_sessions, .oracle, .policies]')" = \
		'[{"difficulty":"mixed","max_steps":8,"seed":"4242"},4096,false,["heuristic","random"]]' ]
}

@test "env-cern: unusual lines: blank, huge, of nulls, not UTF-8, cut off, without newline" {
	{
		printf '\n  \r\n%s\r\n' "$RESET"
		head -c 2097152 /dev/zero | tr '\0' 'x'; printf '\n'
		head -c 1000 /dev/zero; printf '\n'
		printf '{"op":"step","session":"s","text":"\xff"}\n'
		printf '{"op":"step","session":"s","text":"\\ud800 {\\"action_type\\":\\"scan_bump\\"}"}\n'
		printf '{"op":"state","session":"s"}'
	} | spar env-cern >"$SCRATCH/out"
	[ "$(jq -r '.error.code // "ok"' "$SCRATCH/out" | xargs)" = "ok too_long bad_json bad_json ok ok" ]
	[ "$(tail -1 "$SCRATCH/out" | jq -c .info.invalid_kind)" = '"precondition"' ]
	run -0 bash -c "printf '{\"op\":\"sta' | spar env-cern"
	[[ $output == *'"code":"bad_json"'* ]]
	run -0 spar env-cern </dev/null
	[ -z "$output" ]
}

@test "env-cern: episodes open at the end of input: exit 0; a full disk: exit 1" {
	run -0 bash -c "printf '%s\n' '$RESET' | spar env-cern | wc -l"
	[ "$output" -eq 1 ]
	run -1 --separate-stderr bash -c "printf '%s\n' '$RESET' | spar env-cern >/dev/full"
	[ "$stderr" = "env-cern: <stdout>: No space left on device" ]
	run -1 --separate-stderr bash -c "spar env-cern --tasks=1 >/dev/full"
	[ "$stderr" = "env-cern: <stdout>: No space left on device" ]
}

@test "env-cern: a reply comes before the next request is sent" {
	coproc spar env-cern
	for _ in 1 2 3; do
		echo "$RESET" >&"${COPROC[1]}"
		read -r -t 10 -u "${COPROC[0]}" line
		[ "$(jq .done <<<"$line")" = false ]
	done
}

@test "env-cern: 1000 sessions interleaved give the same bytes as one after the other" {
	plan() { # session numbers and step numbers, one pair a line, in the order given by sort
		awk 'function q(s) { gsub(/\047/, "\"", s); return s }
		BEGIN {
			split("diphoton dilepton_ee dilepton_mumu four_lepton dijet bb", ch, " ")
			for (s = 0; s < 1000; s++) {
				n = 0; c = ch[1 + s % 6]
				line[n++] = "{\047op\047:\047reset\047,\047session\047:\047" s "\047,\047seed\047:" 7 * s % 50 ",\047max_steps\047:4}"
				step = "{\047op\047:\047step\047,\047session\047:\047" s "\047,\047action\047:{\047action_type\047:\047"
				line[n++] = step "configure_beam\047,\047parameters\047:{\047beam_energy\047:13}}}"
				line[n++] = step "allocate_luminosity\047,\047parameters\047:{\047trigger\047:\047high_pt\047,\047luminosity_fb\047:" 1 + s % 300 "}}}"
				line[n++] = step "calibrate_detector\047,\047parameters\047:{\047channel\047:\047" c "\047}}}"
				line[n++] = "{\047op\047:\047close\047,\047session\047:\047" s "\047}"
				for (i = 0; i < n; i++) print s, i, q(line[i])
			}
		}' | sort -n "$@" | cut -d' ' -f3-
	}
	plan -k1,1 -k2,2 | spar env-cern | sort | md5sum >"$SCRATCH/apart"
	plan -k2,2 -k1,1 | spar env-cern >"$SCRATCH/out"
	[ "$(wc -l <"$SCRATCH/out")" = 5000 ]
	[ "$(grep -c '"error":null' "$SCRATCH/out")" = 5000 ]
	sort "$SCRATCH/out" | md5sum | diff - "$SCRATCH/apart"
}

@test "env-cern: --tasks" {
	run -0 spar env-cern --tasks=4 --seed=4242
	[ "${#lines[@]}" = 4 ]
	[ "${lines[0]}" = '{"type":"task","id":"cern-4242-easy","env":"cern","seed":"4242","difficulty":"easy","max_steps":8}' ]
	[ "$(jq -r .difficulty <<<"$output" | xargs)" = "easy medium hard easy" ]
	run -0 spar env-cern --tasks=2 --seed=18446744073709551613 --difficulty=hard --max-steps=5
	[ "${lines[1]}" = '{"type":"task","id":"cern-18446744073709551614-hard","env":"cern","seed":"18446744073709551614","difficulty":"hard","max_steps":5}' ]
	# what the environment makes of it is what the record says
	[ "$(spar env-cern --tasks=1 --seed=5 | jq -c '{op:"reset",session:"s",seed,difficulty,max_steps}' | spar env-cern | jq -r .info.difficulty)" = hard ]
	run -2 --separate-stderr spar env-cern --tasks=10 --seed=18446744073709551615
	run -2 --separate-stderr spar env-cern extra
}

@test "env-cern: whatever a model writes is an action or a refusal" {
	sed -n 's/.*"text":\(".*"\).*/\1/p' "$GOLDEN/env-cern.requests.jsonl" | jq -r . >"$SCRATCH/texts"
	mkdir "$SCRATCH/cuts"
	# Each text, whole, cut at many places, and with one byte of it changed.
	awk -v dir="$SCRATCH/cuts" 'BEGIN { srand(1); bad = "{}[]\",:\\x0e-\xff" }
	{
		for (i = 1; i <= length($0); i += 3) {
			out = dir "/" NR "-" i
			print substr($0, 1, i) >out; close(out)
			print substr($0, 1, i - 1) substr(bad, 1 + int(rand() * length(bad)), 1) substr($0, i + 1) >(out "x"); close(out "x")
		}
	}' "$SCRATCH/texts"
	"$SPAR_BUILD/fuzz/cern-action" "$SCRATCH"/cuts/*
}
