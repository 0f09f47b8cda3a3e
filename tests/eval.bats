load common

setup_file() {
	spar model init --config="$TINY" --seed=1 --out="$BATS_FILE_TMPDIR/model" >/dev/null
	spar model init --config="$TINY" --seed=2 --out="$BATS_FILE_TMPDIR/other" >/dev/null
}

setup() {
	MODEL=$BATS_FILE_TMPDIR/model
	OTHER=$BATS_FILE_TMPDIR/other
	COUNT=$DATA/env-count.sh
	cd "$SCRATCH" || return
	printf '{"id":"e%d","env":"count","seed":"%d"}\n' $(for s in 0 1 2 3 4 5 6; do echo $s $s; done) >tasks
}

# Scored rollouts of one turn: right TASK NAME C N makes N samples of which C are right.
right() {
	for i in $(seq 0 $(($3 - 1))); do
		printf '{"type":"rollout","group":"%s","sample":%d,"group_size":%d,"turns":[{"completion":"x"}],"env":null,"reward":%d}\n' \
			"$1" "$i" "$3" $((i < $2))
	done
}

@test "eval: rollouts that were scored before: pass@k by products, null where it cannot be known (B35)" {
	right a 1 4 >in
	run -0 --separate-stderr spar eval --quiet --pass-at=1,2,4,5 in
	[ "${#lines[@]}" = 5 ]
	jq -e '.summary.models.records | .success_rate == 0.25 and .pass_at == {"1":0.25,"2":0.5,"4":1,"5":null}
		and .pass_at_tasks == {"1":1,"2":1,"4":1,"5":0}' <<<"${lines[4]}"
	right a 0 2 | spar eval --quiet --pass-at=5 | tail -1 | jq -e '.summary.models.records.pass_at["5"] == null'
	right a 2 2 | spar eval --quiet --pass-at=5 | tail -1 | jq -e '.summary.models.records.pass_at["5"] == null'
	right big 1 200 | spar eval --quiet --pass-at=1,100 | tail -1 |
		jq -e '.summary.models.records.pass_at | (.["1"] - 0.005 | fabs < 1e-9) and (.["100"] - 0.5 | fabs < 1e-9)'
}

@test "eval: null rewards are no wrong answers: left out and counted, as are failed episodes (B35)" {
	{ right a 1 2 && echo '{"type":"rollout","group":"a","sample":2,"turns":[],"env":null,"reward":null}' &&
		echo '{"type":"rollout","group":"a","sample":3,"turns":[],"env":null,"error":"lost","reward":null}'; } >in
	spar eval --quiet --pass-at=1,3 in >out
	jq -se '.[2].success == null and .[2].return == null and .[3].error == "lost"
		and (.[4].summary.models.records | .episodes == 4 and .unjudged == 1 and .failed == 1 and .success_rate == 0.5
			and .pass_at == {"1":0.5,"3":null})' out
	spar eval --quiet --success='.reward == 0' in | tail -1 | jq -e '.summary.models.records.success_rate == 0.3333333333333333'
	run -3 --separate-stderr spar eval --quiet --success=.reward in
	[[ $stderr == "eval: in:1: success: expected true, false or null, got number" ]]
}

@test "eval: a model in an environment: rows, figures by difficulty, the same bytes again" {
	run -0 --separate-stderr spar eval --model="$MODEL" --env="$COUNT" --max-completion-length=4 --summary=summary.json tasks
	printf '%s\n' "${lines[@]}" >out
	[ "${#lines[@]}" = 8 ]
	jq -se '.[:7] | all(.type == "eval" and .model == "finetuned" and .seed == .id[1:] and (.completions | length) == .turns
		and .success == ((.seed | tonumber) % 2 == 0) and .end == "counted" and .difficulty == "d\((.seed | tonumber) % 2)")' out
	jq -e '.summary.models.finetuned | .tasks == 7 and (.success_rate - 4 / 7 | fabs < 1e-12) and .success_rate_ci[0] < 4 / 7
		and .success_rate_ci[1] > 4 / 7 and .difficulty.d0.success_rate == 1 and .difficulty.d1.success_rate == 0
		and .invalid_action_share == 0 and (.hash | length) == 16' <<<"${lines[7]}"
	diff <(jq .summary <<<"${lines[7]}") <(jq . summary.json)
	[[ $stderr == *"finetuned"*"0.571"*"d0"*"1.000"*"d1"*"0.000"* ]]
	spar eval --quiet --model="$MODEL" --env="$COUNT" --max-completion-length=4 --concurrency=2 <tasks | cmp - out
}

@test "eval --original: the same weights differ by nothing, others are compared task by task" {
	spar eval --quiet --model="$MODEL" --original="$MODEL" --env="$COUNT" --max-completion-length=4 tasks >out
	[ "$(wc -l <out)" = 15 ]
	tail -1 out | jq -e '.summary.delta_vs_original | .tasks == 7 and .success_rate == 0 and .success_rate_ci == [0,0] and .mean_return == 0'
	# Success that depends on the weights: the number of distinct ids in the answer.
	spar eval --quiet --model="$MODEL" --original="$OTHER" --env="$COUNT" --max-completion-length=4 \
		--success='[.turns[].completion_ids[]] | add % 2 == 0' tasks >out
	tail -1 out | jq -e '.summary | .models as $m | .delta_vs_original | .success_rate as $d
		| ($m.finetuned.success_rate - $m.original.success_rate - $d | fabs < 1e-12)
		and .success_rate_ci[0] <= $d and $d <= .success_rate_ci[1]'
	run -2 --separate-stderr spar eval --original="$OTHER" tasks
	[[ $stderr == *"give both"* ]]
}

@test "eval --model: a policy directory is played by its latest version" {
	mkdir -p "$SCRATCH/pol/v000003" && cp "$TINY"/* "$SCRATCH/pol/v000003" && ln -s v000003 "$SCRATCH/pol/latest"
	play() { spar eval --quiet --env='spar env-cern' --max-completion-length=4 --model="$1" < <(spar env-cern --tasks=2); }
	play "$SCRATCH/pol" >"$SCRATCH/a"
	play "$TINY" >"$SCRATCH/b"
	cmp <(head -2 "$SCRATCH/a") <(head -2 "$SCRATCH/b")
	tail -1 "$SCRATCH/a" | jq -e --arg p "$SCRATCH/pol" '.summary.models.finetuned | .version == 3 and .path == $p'
}

@test "eval --policy: the environment's own policies play without a model" {
	spar eval --quiet --policy=talk --env="$COUNT" tasks >out
	jq -se '.[:7] | all(.model == "policy:talk" and (.completions | all(. == "hello")))' out
	spar env-cern --tasks=6 --seed=4242 --difficulty=easy >cern
	spar eval --quiet --policy=oracle --policy=random --env='spar env-cern --oracle' cern >out
	tail -1 out | jq -e '.summary.models | .["policy:oracle"].success_rate == 1 and .["policy:random"].success_rate == 0
		and .["policy:random"].invalid_action_share > 0.3'
	run -3 --separate-stderr spar eval --quiet --policy=oracle --env='spar env-cern' cern
	[[ $stderr == *"forbidden"* ]]
}

@test "eval: no input is an error, and so is a task that nobody plays" {
	run -3 --separate-stderr spar eval --quiet --model="$MODEL" </dev/null
	[ "$stderr" = "eval: no tasks and no rollouts in the input" ]
	run -2 --separate-stderr spar eval --quiet tasks
	[[ $stderr == *"a task needs --model or --policy"* ]]
	run -3 --separate-stderr spar eval --quiet --model="$MODEL" tasks
	[ "$stderr" = "eval: tasks:1: the task needs an environment (--env)" ]
	run -2 --separate-stderr spar eval --quiet --model="$MODEL" -n 4 tasks
	[[ $stderr == *"--temperature"* ]]
	run -2 --separate-stderr spar eval --pass-at=1,x </dev/null
	[[ $stderr == *"--pass-at"* ]]
	cat tasks tasks | run -3 --separate-stderr spar eval --quiet --model="$MODEL" --env="$COUNT"
	run -3 --separate-stderr spar eval --quiet --model="$MODEL" --env="$COUNT" <(cat tasks tasks)
	[[ $stderr == *":8: .id: 'e0' is there twice" ]]
}

@test "eval: scored records against those of the original, task by task" {
	for i in 1 2 3 4 5 6 7 8; do
		printf '{"type":"rollout","group":"t%d","sample":0,"reward":1}\n' $i >&3
		printf '{"type":"rollout","group":"t%d","sample":0,"reward":%d}\n' $i $((i > 7)) >&4
	done 3>"$SCRATCH/good" 4>"$SCRATCH/bad"
	run -0 --separate-stderr spar eval --quiet --original-records="$SCRATCH/bad" --fail-on-regression "$SCRATCH/good"
	[ "$(jq -s '.[-1].summary | [.delta_vs_original.tasks, .delta_vs_original.success_rate, .models.original.success_rate]' -c <<<"$output")" = '[8,0.875,0.125]' ]
	run -1 --separate-stderr spar eval --quiet --original-records="$SCRATCH/good" --fail-on-regression "$SCRATCH/bad"
	[ "$stderr" = "eval: worse than the original" ]
	run -0 --separate-stderr spar eval --quiet --original-records="$SCRATCH/good" "$SCRATCH/bad"
	run -2 --separate-stderr spar eval --model="$TINY" --original-records="$SCRATCH/bad" "$SCRATCH/good"
	echo '{"type":"rollout"}' >>"$SCRATCH/bad"
	run -3 --separate-stderr spar eval --quiet --original-records="$SCRATCH/bad" "$SCRATCH/good"
	[ "$stderr" = "eval: $SCRATCH/bad:9: .group: expected string, got nothing" ]
}
