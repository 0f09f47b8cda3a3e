# spar loss: the reference vectors, what is one step, what must not matter, bad input.
load common

GOLDEN=$BATS_TEST_DIRNAME/golden/objectives.jsonl

# Two steps of three sequences with everything in them.
steps() {
	jq -nc '
		def numbers($n; $salt): [range($n) | -((. * 7 + $salt * 13) % 17 + 1) / 8];
		(range(2) as $step | (range(3) as $i | (3 + $i) as $n | ($step * 5 + $i) as $salt |
		{type: "sequence", id: "s\($step)-\($i)", logprobs: numbers($n; $salt), old_logprobs: numbers($n; $salt + 1),
		 sampling_logprobs: numbers($n; $salt + 2), kept_mass: [range($n) | 1 / (1 + . % 2)], ref_logprobs: numbers($n; $salt + 3),
		 entropies: [numbers($n; $salt + 4)[] | -.], mask: [range($n) | if . == 2 then 0 else 1 end], advantage: ($i - 1.5),
		 finish_reason: (if $i == 1 then "length" else "stop" end)}),
		{type: "batch", step: $step, groups: 1})'
}

# All loss types, with all that can be added to them.
objectives() {
	while read -ra words; do echo "${words[@]/#/--}"; done <<-END
		loss-type=sft
		loss-type=dft entropy-coef=0.1
		loss-type=grpo beta=0.1 importance-sampling-level=sequence use-bias-correction-kl
		loss-type=bnpo beta=0.1 kl-estimator=k1 importance-sampling-mode=token_mask
		loss-type=dr_grpo beta=0.1 kl-estimator=k2 delta=1.5 mask-truncated-completions
		loss-type=dapo entropy-coef=0.1 top-entropy-quantile=0.4 epsilon-high=0.28
		loss-type=cispo beta=0.1 kl-estimator=abs importance-sampling-mode=sequence_mask
		loss-type=sapo off-policy-mask-threshold=0.1
		loss-type=luspo importance-sampling-level=sequence importance-sampling-mode=sequence_truncate
		loss-type=vespo top-entropy-quantile=0.7
	END
}

@test "loss: the reference vectors to 1e-8: loss, gradients, metrics" {
	rows=0
	while IFS= read -r row; do
		jq -r .case <<<"$row"
		mapfile -t options < <(jq -r '.options[]' <<<"$row")
		jq -c '.records[]' <<<"$row" | spar loss "${options[@]}" >"$SCRATCH/out"
		jq -e -n --argjson row "$row" --slurpfile out "$SCRATCH/out" '
			def near($a; $b): ($a - $b | fabs) <= 1e-8;
			def all_near($a; $b): [$a, $b] | map(flatten) | .[0] as $x | .[1] as $y | ($x | length) == ($y | length) and
				all(range($x | length); near($x[.]; $y[.]));
			$row.want as $want | ($out | last) as $step | $out[:-1] as $sequences |
			near($step.loss; $want.loss) and near([$sequences[].loss] | add; $want.loss) and
			all_near([$sequences[].gradient]; $want.gradient) and
			all_near([$sequences[].entropy_gradient // []]; $want.entropy_gradient // []) and
			all($want.metrics // {} | to_entries[]; near($step[.key]; .value))'
		rows=$((rows + 1))
	done < <(jq -c 'select(.tool == "loss")' "$GOLDEN")
	[ "$rows" -gt 40 ]
}

@test "loss: a step ends at its batch record; sequences pass with what they bring" {
	steps | spar loss >"$SCRATCH/out"
	[ "$(jq -r .type "$SCRATCH/out" | paste -sd' ')" = \
		"sequence sequence sequence loss batch sequence sequence sequence loss batch" ]
	steps | head -4 | spar loss | cmp - <(head -5 "$SCRATCH/out")
	steps | tail -4 | spar loss | cmp - <(tail -5 "$SCRATCH/out")
	diff <(steps) <(jq -c 'select(.type != "loss") | del(.loss, .gradient)' "$SCRATCH/out")
	steps | spar loss --no-gradient | cmp - <(jq -c 'select(.type != "sequence")' "$SCRATCH/out")
	jq -e -s '[.[] | select(.type == "sequence")] | length == 6 and
		all(.[]; .gradient[2] == 0 and (.gradient | length) == (.logprobs | length))' "$SCRATCH/out"
	[ "$(spar loss </dev/null)" = "" ]
}

@test "loss: order of sequences, blanks, compression and what is masked do not matter" {
	by_id() { jq -c 'select(.id) | [.id, .loss, .gradient, .entropy_gradient]' | sort; }
	figures() { jq -c 'select(.type == "loss") | [.. | numbers]'; }
	steps | zstd -q -o "$SCRATCH/in.zst"
	while read -ra options; do
		echo "${options[*]}"
		steps | spar loss "${options[@]}" >"$SCRATCH/want"
		spar loss "${options[@]}" --save="$SCRATCH/save.zst" "$SCRATCH/in.zst" | cmp - "$SCRATCH/want"
		zstdcat "$SCRATCH/save.zst" | cmp - "$SCRATCH/want"
		# masked numbers are anything, keys come in another order
		steps | jq -c 'if .mask then .logprobs[2] = -77 | .entropies[2] = 99 | .old_logprobs[2] = 0 else . end | to_entries | reverse | from_entries' |
			spar loss "${options[@]}" | tee "$SCRATCH/other" | by_id | cmp - <(by_id <"$SCRATCH/want")
		figures <"$SCRATCH/other" | cmp - <(figures <"$SCRATCH/want")
		# the other way round: sums of floats in another order
		{ steps | head -3 | tac; steps | sed -n 4p; steps | sed -n 5,7p | tac; steps | tail -1; } | spar loss "${options[@]}" >"$SCRATCH/other"
		by_id <"$SCRATCH/other" | cmp - <(by_id <"$SCRATCH/want")
		jq -e -n --slurpfile a <(figures <"$SCRATCH/want") --slurpfile b <(figures <"$SCRATCH/other") \
			'[$a, $b] | map(flatten) | transpose | length > 4 and all(.[]; (.[0] - .[1] | fabs) <= 1e-14 * (1 + (.[0] | fabs)))'
	done < <(objectives)
}

@test "loss: every key is in its schema" {
	while read -ra options; do
		steps | spar loss "${options[@]}"
	done < <(objectives) >"$SCRATCH/out"
	steps | jq -c '.finish_reason = "length"' | spar loss --mask-truncated-completions >>"$SCRATCH/out"
	jq -e -s 'any(.[]; .skipped)' "$SCRATCH/out"
	for type in loss sequence; do
		schema=$BATS_TEST_DIRNAME/../schemas/$type.schema.json
		diff <(jq -r --arg type $type 'select(.type == $type) | keys[]' "$SCRATCH/out" | grep -vx id | sort -u) \
			<(jq -r '.properties | keys[]' "$schema" | sort)
		jq -e -n --arg type $type --slurpfile s "$schema" \
			'all(inputs | select(.type == $type); ($s[0].required - keys) == [])' "$SCRATCH/out"
	done
}

@test "loss: what is missing or does not fit is named" {
	good='{"logprobs":[-1,-2],"old_logprobs":[-1,-1],"sampling_logprobs":[-1,-1],"kept_mass":[1,0.5],"ref_logprobs":[-1,-1],"entropies":[1,1],"mask":[1,1],"advantage":1}'
	run -0 spar loss --beta=1 <<<"$good"
	while read -r change what; do
		echo "$change"
		run -3 --separate-stderr spar loss --beta=1 --entropy-coef=1 <<<"$(jq -c "$change" <<<"$good")"
		[ -z "$output" ]
		[ "$stderr" = "loss: <stdin>:1: $what" ]
	done <<-'END'
		del(.logprobs) .logprobs: expected array, got nothing
		.logprobs=[] .mask: 2 numbers, but .logprobs has 0
		.logprobs[1]=null .logprobs[1]: expected number, got null
		.old_logprobs=[1] .old_logprobs: 1 numbers, but .logprobs has 2
		.kept_mass[0]=0 .kept_mass[0]: expected a number in (0, 1], got 0
		.mask[1]=0.5 .mask[1]: expected 0 or 1, got 0.5
		del(.ref_logprobs) .ref_logprobs: expected array, got nothing
		del(.entropies) .entropies: expected array, got nothing
		del(.advantage) .advantage: expected number, got nothing
		.logprobs[1]=-1e300 .logprobs[1]: -1e+300 is out of range
		.advantage=1e10 .advantage: 1e+10 is out of range
		.finish_reason=1 .finish_reason: expected string, got number
	END
	run -0 --separate-stderr spar loss --skip-bad <<<"$good"$'\n{"logprobs":1}\n'"$good"
	[ "${#lines[@]}" = 3 ]
	[[ $stderr == *"1 of 3 records refused"* ]]
	run -0 spar loss -l sft <<<'{"logprobs":[-1]}'
	while read -ra options; do
		echo '{"logprobs":[-1e9,0],"old_logprobs":[1e9,-1e9],"sampling_logprobs":[-1e9,1e9],"ref_logprobs":[1e9,-1e9],"entropies":[1e9,0],"advantage":-1e9}' |
			spar loss --importance-sampling-clip-max=1e6 "${options[@]}" | jq -e -s '[.[0].loss, .[0].gradient] | flatten | map(numbers) | length == 3'
	done < <(objectives)
}
