load common

# Lines "GROUP SAMPLE SIZE VERSION REWARD" as rollout records.
rollouts() {
	while read -r group sample size version reward; do
		printf '{"type":"rollout","group":"%s","sample":%s,"group_size":%s,"policy":{"version":%s},"reward":%s}\n' \
			"$group" "$sample" "$size" "$version" "$reward"
	done
}
batch() { printf '{"type":"batch","step":%s,"groups":1}\n' "$1"; }
plain() { printf '{"group":"g","reward":%s}\n' "$@"; }
advantages() { spar advantage --quiet "$@" | jq -r '.advantage|.*1e6|round/1e6' | paste -sd' '; }

@test "advantage: the conventions, on records that say only group and reward" {
	[ "$(plain 1 0 0 0 | advantages)" = "1.4997 -0.4999 -0.4999 -0.4999" ]
	[ "$(plain 1 0 0 0 | advantages --population-std)" = "1.731651 -0.577217 -0.577217 -0.577217" ]
	[ "$(plain 1 0 | advantages)" = "0.707007 -0.707007" ]
	[ "$(plain 1 0 | advantages --population-std)" = "0.9998 -0.9998" ]
	[ "$(plain 1 0 0 0 | advantages --scale-rewards=none)" = "0.75 -0.25 -0.25 -0.25" ]
	[ "$(plain 1 0 0 0 | advantages --baseline=rloo)" = "1 -0.333333 -0.333333 -0.333333" ]
	[ "$(plain 1 3 | advantages --population-std --std-epsilon=0)" = "-1 1" ]
}

@test "advantage: a null reward gets 0 and takes no part; equal rewards give exact zeros" {
	[ "$(plain 1 null 0 1 | advantages)" = "0.57725 0 -1.154501 0.57725" ]
	run -0 --separate-stderr bash -c 'printf "{\"group\":\"g\",\"reward\":%s}\n" 0.1 0.1 0.1 | spar advantage'
	[ "$(jq -c .advantage <<<"$output" | paste -sd' ')" = "0 0 0" ]
	[ "$stderr" = "advantage: 1 groups, 3 rollouts, frac_reward_zero_std 1; 1 groups with equal rewards" ]
	run -0 --separate-stderr spar advantage < <(plain null null)
	[ "$(jq -c .advantage <<<"$output" | paste -sd' ')" = "0 0" ]
	[[ $stderr == *"1 without any reward" ]]
	run -0 --separate-stderr spar advantage <<<'{"group":"g","sample":0,"group_size":1,"reward":0.7}'
	[[ $output == *'"advantage":0}' ]]
	[[ $stderr == *"1 of one rollout" ]]
}

@test "advantage: a failed episode counts as a member, not as a reward" {
	{ plain 1 0; echo '{"group":"g","error":"timeout"}'; } >"$SCRATCH/in"
	[ "$(advantages <"$SCRATCH/in")" = "0.707007 -0.707007 0" ]
}

@test "advantage: a group comes out as soon as it is whole, in order of sample" {
	mkfifo "$SCRATCH/to" "$SCRATCH/from"
	spar advantage --quiet <"$SCRATCH/to" >"$SCRATCH/from" &
	exec 8>"$SCRATCH/to" 9<"$SCRATCH/from"
	rollouts >&8 <<<$'a 1 2 0 1\nb 0 2 0 0\na 0 2 0 0'
	for sample in 0 1; do
		read -r -t 20 line <&9
		[ "$(jq -r '"\(.group) \(.sample)"' <<<"$line")" = "a $sample" ]
	done
	rollouts >&8 <<<'b 1 2 0 0'
	batch 0 >&8
	exec 8>&-
	wait $!
	[ "$(jq -r '.type' <&9 | paste -sd' ')" = "rollout rollout batch" ]
}

@test "advantage: the order of lines within a batch changes nothing" {
	for i in $(seq 0 39); do echo "g$((i / 8)) $((i % 8)) 8 1 0.$((i * 7919 % 97))"; done | rollouts >"$SCRATCH/in"
	for scale in group batch none; do
		spar advantage --quiet --scale-rewards=$scale "$SCRATCH/in" | sort >"$SCRATCH/want"
		[ "$(wc -l <"$SCRATCH/want")" = 40 ]
		for seed in 1 2 3; do
			shuf --random-source=<(yes $seed) "$SCRATCH/in" | spar advantage --quiet --scale-rewards=$scale | sort |
				cmp - "$SCRATCH/want"
		done
	done
}

@test "advantage: batch scaling uses the batch's own rewards, up to its punctuation" {
	{ rollouts <<<$'a 0 2 0 1\na 1 2 0 0\nb 0 2 0 0.5\nb 1 2 0 0.5'; batch 0; rollouts <<<$'a 0 2 0 3\na 1 2 0 0'; batch 1; } >"$SCRATCH/in"
	run -0 --separate-stderr spar advantage --scale-rewards=batch "$SCRATCH/in"
	[ "$(jq -r '.advantage // .type|if type == "number" then .*1e6|round/1e6 else . end' <<<"$output" | paste -sd' ')" = \
		"1.224445 -1.224445 0 0 batch 0.707073 -0.707073 batch" ]
	[[ $stderr == *"frac_reward_zero_std 0; 1 groups with equal rewards" ]]
}

@test "advantage: missing members are named, and the group is refused whole" {
	{ rollouts <<<$'a 0 2 0 1\na 1 2 0 0\nb 3 4 0 1\nb 1 4 0 1'; batch 0; } >"$SCRATCH/in"
	run -3 --separate-stderr spar advantage "$SCRATCH/in"
	[ "${#lines[@]}" = 2 ]
	[ "$stderr" = "advantage: $SCRATCH/in:4: group b: 2 of 4 samples missing: 0, 2" ]
	run -0 --separate-stderr spar advantage --skip-bad --rejects "$SCRATCH/rejects" "$SCRATCH/in"
	[ "${#lines[@]}" = 3 ]
	cmp "$SCRATCH/rejects" <(sed -n '4p;3p' "$SCRATCH/in" | sort)
	[[ $stderr == *"2 of 5 records refused"* ]]
}

@test "advantage: twice the same sample, other versions, other weights and other sizes are refused by name" {
	while read -r second what; do
		{ echo '{"group":"g","sample":0,"group_size":3,"policy":{"version":7,"hash":"aa"},"reward":1}'; echo "$second"; } >"$SCRATCH/in"
		run -3 --separate-stderr spar advantage "$SCRATCH/in"
		[ -z "$output" ]
		[ "$stderr" = "advantage: $SCRATCH/in:2: $what" ]
	done <<'END'
{"group":"g","sample":0,"group_size":3,"policy":{"version":7},"reward":1} group g: sample 0 is there twice
{"group":"g","sample":1,"group_size":3,"policy":{"version":8},"reward":1} group g: sample 1 is from policy version 8, others from 7
{"group":"g","sample":1,"group_size":3,"policy":{"hash":"bb"},"reward":1} group g: sample 1 is from other weights (policy hash bb, others aa)
{"group":"g","sample":1,"group_size":2,"reward":1} group g: group_size is 2 here and 3 before
{"group":"g","sample":3,"group_size":3,"reward":1} .sample: expected 0 to 2 (group_size - 1), got 3
{"group":"g","sample":1,"group_size":3} .reward: expected number, got nothing
{"group":"g","sample":1,"group_size":3,"reward":"1"} .reward: expected number, got string
{"sample":1,"group_size":3,"reward":1} .group: expected string, got nothing
END
}

@test "advantage: --drop-zero-variance drops whole groups and says so" {
	{ rollouts <<<$'a 0 2 0 1\na 1 2 0 1\nb 0 2 0 1\nb 1 2 0 0'; batch 0; } >"$SCRATCH/in"
	run -0 --separate-stderr spar advantage --drop-zero-variance "$SCRATCH/in"
	[ "$(jq -r '.group // .type' <<<"$output" | paste -sd' ')" = "b b batch" ]
	[ "$stderr" = "advantage: 2 groups, 4 rollouts, frac_reward_zero_std 0.5; 1 groups with equal rewards, 1 dropped" ]
}

@test "score and advantage keep their size on a long stream" {
	peak() { # bytes of the largest resident set of a filter fed N rollouts
		for i in $(seq 0 7); do echo "g $i 8 1 0.$i"; done | rollouts >"$SCRATCH/one"
		{ while cat "$SCRATCH/one"; do :; done 2>/dev/null | head -n "$2"; } >"$SCRATCH/in"
		spar "$1" --quiet "${@:3}" < <(cat "$SCRATCH/in"; read -r -t 20 <"$SCRATCH/hold") >"$SCRATCH/out" &
		local pid=$!
		until [ "$(wc -l <"$SCRATCH/out")" -ge "$2" ]; do sleep 0.05; kill -0 $pid; done
		awk '/VmHWM/ { print $2 }' "/proc/$pid/status"
		echo >"$SCRATCH/hold"
		wait $pid
	}
	[ -r /proc/self/status ] || skip "no /proc"
	[[ $SPAR_BUILD != *-san ]] || skip "a sanitizer keeps freed memory"
	mkfifo "$SCRATCH/hold"
	for stage in 'score --reward n=1' advantage; do
		read -ra words <<<"$stage"
		small=$(peak "${words[0]}" 1000 "${words[@]:1}")
		large=$(peak "${words[0]}" 40000 "${words[@]:1}")
		echo "$stage: $small kB on 1,000 records, $large kB on 40,000"
		[ "$large" -lt $((small + 1024)) ]
	done
}
