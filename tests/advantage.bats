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
	[ "$(plain 1 0 0 0 | advantages --estimator=rloo)" = "1 -0.333333 -0.333333 -0.333333" ]
	[ "$(plain 1 3 | advantages --population-std --std-epsilon=0)" = "-1 1" ]
}

@test "advantage: the reference vectors to 1e-8" {
	rows=0
	while IFS= read -r row; do
		jq -r .case <<<"$row"
		mapfile -t options < <(jq -r '.options[]' <<<"$row")
		jq -c '.records[]' <<<"$row" | spar advantage "${options[@]}" >"$SCRATCH/out" 2>"$SCRATCH/err"
		jq -e -n --argjson row "$row" --slurpfile out "$SCRATCH/out" '
			[$row.want.advantages, [$out[].advantage]] | transpose | length == ($row.records | length) and
			all(.[]; (.[0] - .[1] | fabs) <= 1e-8)'
		share=$(jq -r '.want.frac_reward_zero_std // empty' <<<"$row")
		[ -z "$share" ] || grep -q "frac_reward_zero_std $share;" "$SCRATCH/err"
		rows=$((rows + 1))
	done < <(jq -c 'select(.tool == "advantage")' "$BATS_TEST_DIRNAME/golden/objectives.jsonl")
	[ "$rows" -gt 20 ]
}

@test "advantage: a null reward gets 0 and takes no part; equal rewards give exact zeros (B19, B22)" {
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
	jq -c '.rewards = {a: .reward, b: (1 - .reward * .reward)} | .turns = [{completion_ids: [range(.sample + 1)]}]' "$SCRATCH/in" >"$SCRATCH/full"
	for how in scale-rewards={group,batch,none} estimator={rloo,leave_one_out,max_rl,rae} \
		estimator=reinforce_plus_plus{,_baseline} multi-objective-aggregation=normalize_then_sum; do
		spar advantage --quiet --$how "$SCRATCH/full" | sort >"$SCRATCH/want"
		[ "$(wc -l <"$SCRATCH/want")" = 40 ]
		for seed in 1 2 3; do
			shuf --random-source=<(yes $seed) "$SCRATCH/full" | spar advantage --quiet --$how | sort | cmp - "$SCRATCH/want"
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

@test "advantage: several rewards: weights, rewards that are not there, names that are wrong" {
	several() { printf '{"group":"g","rewards":{"a":%s,"b":%s},"reward":9}\n' "$@"; }
	[ "$(several 1 0 0 1 0 0 | advantages --reward-weights=a=1)" = "1.154501 -0.57725 -0.57725" ]
	[ "$(several 1 0 0 1 0 0 | advantages --reward-weights=a=1,b=1)" = "0.57725 0.57725 -1.154501" ]
	[ "$(several 1 0 0 1 0 0 | advantages --reward-weights=a=1,b=-1)" = "0.9999 -0.9999 0" ]
	[ "$(several 1 null null null 0 null | advantages --reward-weights=a=1,b=1)" = "0.707007 0 -0.707007" ]
	# a constant reward does not push the others aside
	[ "$(several 1 5 0 5 | advantages --multi-objective-aggregation=normalize_then_sum)" = \
		"$(several 1 null 0 null | advantages --multi-objective-aggregation=normalize_then_sum)" ]
	run -3 --separate-stderr spar advantage --reward-weights=c=1 < <(several 1 0)
	[ "$stderr" = "advantage: <stdin>:1: .rewards.c: missing, but --reward-weights names it" ]
	run -3 --separate-stderr spar advantage --reward-weights=a=1 < <(several '"1"' 0)
	[ "$stderr" = "advantage: <stdin>:1: .rewards.a: expected number, got string" ]
	run -3 --separate-stderr spar advantage --reward-weights=a=1 < <(plain 1)
	[ "$stderr" = "advantage: <stdin>:1: .rewards: expected object, got nothing" ]
	[ "$({ several 1 0 0 0; echo '{"group":"g","error":"timeout"}'; } | advantages --reward-weights=a=1)" = "0.707007 -0.707007 0" ]
	for bad in a a= =1 a=x a=1,,b=1; do
		run -2 --separate-stderr spar advantage --reward-weights="$bad"
		[ "$stderr" = "advantage: --reward-weights: expected NAME=WEIGHT,..., got '$bad'" ]
	done
}

@test "advantage: rae keeps a running mean for each role, from run to run" {
	games() { # ROLE REWARD...
		while [ $# -gt 0 ]; do
			printf '{"group":"%s","task":{"role":"%s"},"reward":%s}\n' "$1$((n++))" "$1" "$2"
			shift 2
		done
	}
	n=0
	games a 1 b 0 a 1 b -1 a 0 b 0 >"$SCRATCH/in"
	[ "$(advantages -e rae --decay=0.5 <"$SCRATCH/in")" = "0.5 0 0.25 -0.5 -0.375 0.25" ]
	for part in '1,2p' '3,6p'; do
		sed -n $part "$SCRATCH/in" | spar advantage -q -e rae --decay=0.5 --state="$SCRATCH/state"
	done >"$SCRATCH/parts"
	cmp "$SCRATCH/parts" <(spar advantage -q -e rae --decay=0.5 "$SCRATCH/in")
	[ "$(cat "$SCRATCH/state")" = '{"a":0.375,"b":-0.25}' ]
	run -3 --separate-stderr spar advantage -e rae <<<'{"group":"g","role":1,"reward":1}'
	[ "$stderr" = "advantage: <stdin>:1: .role: expected string, got number" ]
	echo '{"a":"x"}' >"$SCRATCH/state"
	run -3 --separate-stderr spar advantage -e rae --state="$SCRATCH/state" <"$SCRATCH/in"
	[ "$stderr" = "advantage: $SCRATCH/state: .a: expected number, got string" ]
}

@test "advantage: what does not go together is said" {
	run -3 --separate-stderr spar advantage -e max_rl < <(plain 1 -1)
	[ "$stderr" = "advantage: <stdin>:1: group g: max_rl takes no negative reward, such as -1" ]
	for options in '-e max_rl -s group' '-e rloo --multi-objective-aggregation=normalize_then_sum' '--state=x'; do
		run -2 --separate-stderr spar advantage $options </dev/null
		[ -n "$stderr" ]
	done
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
