# spar sft-collect: which episodes are kept, what a record holds, and the figures.
load common

# An environment that ends after twenty replies.
ENV_20='for i in $(seq 20); do read -r l; printf "%s\n" "$l"; done | spar env-cern --oracle'

collect() { spar sft-collect --quiet "$@"; }

@test "sft-collect: records in order of episode and step; the completion is what the environment was told" {
	collect --episodes=9 >"$SCRATCH/out"
	jq -r .id "$SCRATCH/out" >"$SCRATCH/ids"
	sort -c -t- -k2,2n -s "$SCRATCH/ids"
	[ "$(head -8 "$SCRATCH/ids" | xargs)" = "cern-4242-easy/0 cern-4242-easy/1 cern-4242-easy/2 cern-4242-easy/3 cern-4242-easy/4 cern-4242-easy/5 cern-4242-easy/6 cern-4243-medium/0" ]
	jq -e -s 'all(.type == "sft" and "\(.id | sub(".*/"; ""))" == "\(.step)" and (.completion | fromjson | .action_type != null) and
		(.messages | map(.role)) == ["system", "user"] and (.seed | type) == "string" and has("prompt") == false)' "$SCRATCH/out"
	[ "$(jq -r 'select(.id == "cern-4242-easy/6").completion' "$SCRATCH/out")" = \
		'{"action_type":"submit_discovery_claim","parameters":{"channel":"four_lepton","mass_gev":343.0,"significance":8.5}}' ]
	# the numbers it claims stand in its prompt
	jq -e -s 'map(select(.id == "cern-4242-easy/6"))[0].messages[1].content | test("fit four_lepton 343.0 \\+- 2.1 z 8.5 ")' "$SCRATCH/out"
}

@test "sft-collect: the same command gives the same bytes, however many play at once" {
	collect --episodes=70 >"$SCRATCH/a"
	collect --episodes=70 --env='spar env-cern --oracle --max-sessions=1' >"$SCRATCH/b"
	cmp "$SCRATCH/a" "$SCRATCH/b"
}

@test "sft-collect: only successful episodes are kept, and the summary counts" {
	collect --episodes=60 --summary="$SCRATCH/s" >"$SCRATCH/kept"
	collect --episodes=60 --all --summary="$SCRATCH/s-all" >"$SCRATCH/all"
	cmp "$SCRATCH/s" "$SCRATCH/s-all"
	jq -e 'keys_unsorted == ["num_episodes", "num_successful_episodes", "oracle_success_rate", "mean_oracle_reward",
		"num_transitions_total", "num_transitions_successful"]' "$SCRATCH/s"
	jq -e --slurpfile kept <(jq -c .seed "$SCRATCH/kept") --slurpfile all <(jq -c .seed "$SCRATCH/all") '
		.num_episodes == 60 and .num_episodes == ($all | unique | length) and
		.num_successful_episodes == ($kept | unique | length) and .num_successful_episodes < 60 and
		.num_transitions_total == ($all | length) and .num_transitions_successful == ($kept | length) and
		.oracle_success_rate == (.num_successful_episodes / 60 * 10000 | round / 10000) and
		.mean_oracle_reward > 0.85 and .mean_oracle_reward == (.mean_oracle_reward * 10000 | round / 10000)' "$SCRATCH/s"
	[ "$(grep -Fxvf "$SCRATCH/all" "$SCRATCH/kept" | wc -l)" = 0 ]
}

@test "sft-collect: 200 episodes as documented" {
	collect --summary="$SCRATCH/s" >"$SCRATCH/out"
	[ "$(jq -c . "$SCRATCH/s")" = '{"num_episodes":200,"num_successful_episodes":191,"oracle_success_rate":0.955,"mean_oracle_reward":0.9387,"num_transitions_total":1400,"num_transitions_successful":1337}' ]
	[ "$(jq -r .difficulty "$SCRATCH/out" | sort -u | xargs)" = "easy hard medium" ]
	[ "$(wc -l <"$SCRATCH/out")" = 1337 ]
}

@test "sft-collect: nothing succeeded: everything is kept, with a warning and fallback_used" {
	run -0 --separate-stderr collect --episodes=6 --max-steps=3 --summary="$SCRATCH/s"
	[ "${#lines[@]}" = 18 ]
	[ "$stderr" = "sft-collect: warning: no episode succeeded (is --max-steps=3 too small?): all 18 steps are kept" ]
	jq -e '.fallback_used == true and .num_successful_episodes == 0 and .num_transitions_total == 18 and .oracle_success_rate == 0 and
		(.mean_oracle_reward - -0.33 | fabs) < 1e-9' "$SCRATCH/s"
	[ "$(jq -r .id <<<"${lines[17]}")" = cern-4247-hard/2 ]
	run -0 --separate-stderr collect --episodes=6 --max-steps=3 --all --summary="$SCRATCH/s"
	[ "${#lines[@]}" = 18 ]
	[ -z "$stderr" ]
	jq -e 'has("fallback_used") | not' "$SCRATCH/s"
}

@test "sft-collect: failures before the first success are dropped" {
	# episode 3 of this run is the first that succeeds
	collect --policy=heuristic --difficulty=hard --episodes=12 --seed=4243 --all >"$SCRATCH/all"
	collect --policy=heuristic --difficulty=hard --episodes=12 --seed=4243 --summary="$SCRATCH/s" >"$SCRATCH/kept"
	[ "$(jq -r .num_successful_episodes "$SCRATCH/s")" -gt 0 ]
	[ "$(head -1 "$SCRATCH/all" | jq -r .seed)" = 4243 ]
	[ "$(head -1 "$SCRATCH/kept" | jq -r .seed)" -gt 4243 ]
	[ "$(wc -l <"$SCRATCH/kept")" = "$(jq .num_transitions_successful "$SCRATCH/s")" ]
}

@test "sft-collect: prompts are what spar text renders from the messages" {
	collect --episodes=3 --model="$TINY" >"$SCRATCH/out"
	[ "$(wc -l <"$SCRATCH/out")" -ge 14 ]
	spar text render --model="$TINY" --json <"$SCRATCH/out" | jq -c . >"$SCRATCH/rendered"
	jq -c .prompt "$SCRATCH/out" | cmp - "$SCRATCH/rendered"
	# and nothing else changed
	collect --episodes=3 | cmp - <(sed -E 's/,"prompt":"([^"\\]|\\.)*"//' "$SCRATCH/out")
}

@test "sft-collect: the first prompt of an episode is, byte for byte, the one that rollout makes (B18)" {
	collect --episodes=6 --all --model="$TINY" | jq -c 'select(.step == 0).prompt' >"$SCRATCH/here"
	spar env-cern --tasks=6 | spar rollout -q --dry-run --model="$TINY" --env='spar env-cern' | jq -c .prompt >"$SCRATCH/there"
	[ "$(wc -l <"$SCRATCH/here")" = 6 ]
	cmp "$SCRATCH/here" "$SCRATCH/there"
}

@test "sft-collect: other policies and difficulties; seeds of 64 bits" {
	collect --policy=random --all --episodes=4 --difficulty=hard --seed=18446744073709551000 >"$SCRATCH/out"
	[ "$(jq -r .difficulty "$SCRATCH/out" | sort -u)" = hard ]
	[ "$(tail -1 "$SCRATCH/out" | jq -r .seed)" = 18446744073709551003 ]
	grep -q '"seed":"18446744073709551003"' "$SCRATCH/out"
	run -0 --separate-stderr collect --policy=heuristic --env='spar env-cern' --episodes=3
	[ "${#lines[@]}" -gt 0 ]
	run -2 collect --seed=18446744073709551615 --episodes=2
	run -2 collect --episodes=0
	run -2 collect extra
}

@test "sft-collect: --save keeps the same records, compressed if so named, and only whole" {
	collect --episodes=3 --save="$SCRATCH/copy.jsonl.zst" >"$SCRATCH/out"
	zstdcat "$SCRATCH/copy.jsonl.zst" | cmp - "$SCRATCH/out"
	run -1 collect --episodes=3 --save="$SCRATCH/half.jsonl" --env="$ENV_20"
	[ "$(ls "$SCRATCH" | grep -c half)" = 0 ]
	run -1 --separate-stderr bash -c 'spar sft-collect -q --episodes=3 >/dev/full'
	[ "$stderr" = "sft-collect: <stdout>: No space left on device" ]
	run -1 --separate-stderr collect --episodes=1 --model="$SCRATCH/nowhere"
	[ "$stderr" = "sft-collect: $SCRATCH/nowhere: no such folder" ]
	[ -z "$output" ]
}

@test "sft-collect: the reader goes away: no noise" {
	run -0 --separate-stderr bash -c 'spar sft-collect -q --episodes=100 | head -1 | jq -r .id'
	[ "$output" = cern-4242-easy/0 ]
	[ -z "$stderr" ]
}
