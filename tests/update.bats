# spar update: what is trained, what the loss is divided by, what a killed run leaves behind.
load common
load training

@test "sft: trains completions and the end token, the loss falls, the model is whole" {
	run -0 --separate-stderr spar update --model="$MODEL" --loss-type=sft --num-train-epochs=6 --learning-rate=3e-3 \
		--per-device-train-batch-size=5 --seed=3 --quiet --save="$SCRATCH/m" --out="$SCRATCH/out" "$SFT"
	[ -z "$stderr" ]
	jq -e -s 'length == 12 and last.step == 12 and last.epoch == 6 and last.loss < 0.7 * first.loss
		and all(.[]; .weights_changed > 0 and .entropy > 0 and .grad_norm > 0)' "$SCRATCH/m"
	[ "$(ls "$SCRATCH/out")" = "$(ls "$MODEL")" ]
	cmp "$SCRATCH/out/tokenizer.json" "$MODEL/tokenizer.json"
	run -0 spar model show "$SCRATCH/out"
}

@test "every key of a metric record is in the schema" {
	spar update --model="$MODEL" --loss-type=sft -q --out="$SCRATCH/a" <"$SFT" >"$SCRATCH/m"
	jq -c 'if .turns then .turns[] |= (.kept_mass = [.logprobs[] | 0.5]) else . end' "$ROLLOUTS" |
		spar update --model="$MODEL" --beta=0.1 -q --out="$SCRATCH/b" >>"$SCRATCH/m"
	jq -c '.turns[]?.finish_reason = "length"' "$ROLLOUTS" |
		spar update --model="$MODEL" --mask-truncated-completions -q --out="$SCRATCH/b" >>"$SCRATCH/m"
	for type in cispo vespo; do
		spar update --model="$MODEL" --loss-type=$type --entropy-coef=0.1 --off-policy-mask-threshold=1 -q --out="$SCRATCH/b" \
			<"$ROLLOUTS" >>"$SCRATCH/m"
	done
	spar update --model="$MODEL" --dry-run <"$ROLLOUTS" >>"$SCRATCH/m"
	[ "$(jq -s 'map(keys[]) | unique | length' "$SCRATCH/m")" = "$(jq '.properties | length' "$BATS_TEST_DIRNAME/../schemas/metric.schema.json")" ]
	[ "$(jq -n --slurpfile s "$BATS_TEST_DIRNAME/../schemas/metric.schema.json" \
		'[inputs | keys[]] - ($s[0].properties | keys) | length' "$SCRATCH/m")" = 0 ]
	jq -e -n --slurpfile s "$BATS_TEST_DIRNAME/../schemas/metric.schema.json" \
		'all(inputs; ($s[0].required - keys) == [])' "$SCRATCH/m"
}

@test "sft: which tokens carry loss (B33)" {
	record='{"type":"sft","prompt":"<|im_start|>a","completion":"b"}' # two tokens, and one
	tokens() { spar update --model="$MODEL" --loss-type=sft --num-train-epochs=1 --dry-run "${@:2}" <<<"$1" | jq .loss_tokens; }
	[ "$(tokens "$record")" = 2 ]
	[ "$(tokens "${record/\}/,\"finish_reason\":\"length\"\}}")" = 1 ]
	[ "$(tokens "$record" --no-completion-only-loss)" = 3 ] # all but the first
	[ "$(tokens "$record"$'\n'"$record"$'\n'"$record")" = 6 ]
}

@test "sft: too long is refused; cut only when asked to, at the end of the completion or the beginning of the prompt" {
	record='{"type":"sft","prompt":"<|im_start|>123","completion":"456"}' # four ids (a marker, three digits) and four (the end)
	count() ( set -o pipefail; spar update --model="$MODEL" --loss-type=sft --num-train-epochs=1 --dry-run --max-length="$1" "${@:2}" <<<"$record" | jq -c '[.num_tokens, .loss_tokens]' )
	[ "$(count 8)" = "[8,4]" ]
	run -3 --separate-stderr count 6
	[ "$stderr" = "update: <stdin>:1: 8 tokens (4 of the prompt), more than the limit of 6" ]
	run -0 --separate-stderr count 6 --truncation-mode=keep_start
	[ "$output" = "[6,2]" ]
	[ "$stderr" = "update: warning: 1 of 1 sequences were cut to the length limit" ]
	[ "$(count 6 --truncation-mode=keep_end 2>/dev/null)" = "[6,4]" ]
	# Nothing would be left of the completion, or of the prompt: refused all the same.
	run -3 count 4 --truncation-mode=keep_start
	run -3 count 4 --truncation-mode=keep_end
}

@test "sft: mean_token_accuracy; a prompt that the template does not make is said" {
	jq -c '.messages = [{role: "user", content: "a"}] | del(.prompt)' "$SFT" | head -4 >"$SCRATCH/in"
	run -0 --separate-stderr spar update --model="$MODEL" --loss-type=sft --num-train-epochs=80 --learning-rate=3e-3 -q \
		--save="$SCRATCH/m" --out="$SCRATCH/out" <<<"$(head -1 "$SCRATCH/in")"
	[ -z "$stderr" ]
	jq -e -s 'first.mean_token_accuracy < 0.5 and last.mean_token_accuracy == 1 and last.loss < 0.5' "$SCRATCH/m"
	jq -c '.prompt = "a"' "$SCRATCH/in" >"$SCRATCH/odd"
	run -0 --separate-stderr spar update --model="$MODEL" --loss-type=sft --dry-run -q "$SCRATCH/odd"
	[ "${stderr_lines[0]}" = "update: warning: line 1: .prompt is not what this model's template makes of .messages: the messages are trained" ]
	[ "${stderr_lines[1]}" = "update: warning: 4 records have a .prompt that their .messages are not rendered to" ]
	jq -c --arg p "$(head -1 "$SCRATCH/in" | spar text render --model="$MODEL" --json | jq -r .; echo x)" '.prompt = ($p | rtrimstr("x") | rtrimstr("\n"))' \
		<(head -1 "$SCRATCH/in") >"$SCRATCH/same"
	run -0 --separate-stderr spar update --model="$MODEL" --loss-type=sft --dry-run -q "$SCRATCH/same"
	[ -z "$stderr" ]
}

@test "rollouts: mean and standard deviation of each reward; one that abstains does not count" {
	jq -c 'if .turns then .rewards = {"a": .sample, "b\"c/d": (if .sample == 0 then null else 1 end), "z": null} else . end' "$ROLLOUTS" |
		spar update --model="$MODEL" --dry-run >"$SCRATCH/m"
	jq -e -s 'all(.["rewards/a/mean"] == 1 and (.["rewards/a/std"] - 0.8944272 | fabs) < 1e-6 and .["rewards/b\"c/d/mean"] == 1
		and .["rewards/b\"c/d/std"] == 0 and .["rewards/z/mean"] == null and has("rewards/z/std"))' "$SCRATCH/m"
	jq -e 'keys[] | select(startswith("rewards/"))' "$SCRATCH/m" | tr -d '"\\' |
		grep -vxE "$(jq -r '.patternProperties | keys[0] | gsub("[\\^\\$]"; "")' "$BATS_TEST_DIRNAME/../schemas/metric.schema.json")" | wc -l | grep -x 0
	run -3 --separate-stderr spar update --model="$MODEL" --dry-run < <(jq -c '.rewards = {"a": "1"}' "$ROLLOUTS")
	[[ $stderr == "update: <stdin>:1: .rewards.a: expected number, got string" ]]
}

@test "rollouts: only the model's own tokens carry loss, by their ids (B18)" {
	one='{"type":"rollout","group":"g","sample":0,"group_size":1,"task":{"id":"g"},"sampling":{"temperature":1},
		"turns":[{"prompt_ids":[1,2,3],"completion_ids":[383,75,385],"completion":"hello","logprobs":[-1,-2,-3],"finish_reason":"stop"}],
		"reward":1,"advantage":1}'
	two='{"type":"rollout","group":"g","sample":1,"group_size":1,"task":{"id":"g"},"sampling":{"temperature":1},
		"turns":[{"prompt_ids":[1,2,3],"completion_ids":[4,5],"completion":"","logprobs":[-1,-2],"finish_reason":"stop"},
		{"prompt_ids":[1,2,3,4,5,6,7,8,9],"completion_ids":[10],"completion":"","logprobs":[-1],"finish_reason":"stop"}],
		"reward":1,"advantage":1}'
	dry() { jq -c . <<<"$1" | spar update --model="$MODEL" --dry-run; }
	[ "$(dry "$one" | jq .loss_tokens)" = 3 ]
	[ "$(dry "$two" | jq .loss_tokens)" = 3 ]
	[ "$(dry "$one $two" | jq .loss_tokens)" = 6 ]
	for bad in 'del(.turns[0].completion_ids)' '.turns[0].logprobs |= .[1:]' '.turns[0].completion_ids[0] = 5000' \
		'.turns[0].logprobs[1] = null' '.turns[0].prompt_ids = []' 'del(.advantage)' '.sampling.temperature = 0'; do
		echo "$bad"
		run -3 --separate-stderr dry "$(jq -c "$bad" <<<"$one")"
		[ -z "$output" ]
		[[ $stderr == "update: <stdin>:1: "* ]]
	done
	run -3 --separate-stderr dry "$one $(jq -c '.sampling.temperature = 0.5' <<<"$two")"
	[[ $stderr == *":2: .sampling.temperature: 0.5, but group g sample 0 of this step has 1" ]]
}

@test "rollouts: no reward, an error, no completion: left out by name (B19, B24)" {
	spar update --model="$MODEL" -q --out="$SCRATCH/a" <"$ROLLOUTS" >"$SCRATCH/ma"
	jq -c 'if .sample == 0 then ., (.sample = 3 | .reward = null), (.sample = 4 | .error = "env died"),
		(.sample = 5 | .turns = [{prompt_ids: [1], completion_ids: [], logprobs: [], completion: "", finish_reason: "error"}])
		else . end' "$ROLLOUTS" >"$SCRATCH/more"
	run -0 --separate-stderr spar update --model="$MODEL" --out="$SCRATCH/b" <"$SCRATCH/more"
	[[ $stderr == *"group b0g0 sample 3: left out: no reward"* ]]
	[[ $stderr == *"group b0g0 sample 4: left out: the episode failed"* ]]
	[[ $stderr == *"group b0g0 sample 5: left out: no completion"* ]]
	diff <(timeless "$SCRATCH/ma") <(timeless <(echo "$output"))
	cmp "$SCRATCH/a/model.safetensors" "$SCRATCH/b/model.safetensors"
}

@test "a step in which all is masked changes nothing and says so (B24)" {
	head -7 "$ROLLOUTS" >"$SCRATCH/first"
	{ cat "$SCRATCH/first"; sed -n 8,14p "$ROLLOUTS" | jq -c '.turns[]?.finish_reason = "length"'; } >"$SCRATCH/both"
	common=(--model="$MODEL" --mask-truncated-completions --learning-rate=1e-3)
	spar update "${common[@]}" -q --checkpoint="$SCRATCH/ca" --out="$SCRATCH/a" <"$SCRATCH/first" >/dev/null
	run -0 --separate-stderr spar update "${common[@]}" --checkpoint="$SCRATCH/cb" --out="$SCRATCH/b" <"$SCRATCH/both"
	jq -e -s '.[0].skipped == null and .[1].skipped == true and .[1].loss == null and .[1]["completions/clipped_ratio"] == 1' <<<"$output"
	[[ $stderr == *"update: warning: step 2 skipped: no token to train on in its 6 episodes"* ]]
	cmp "$SCRATCH/ca/state.safetensors" "$SCRATCH/cb/state.safetensors"
	cmp "$SCRATCH/a/model.safetensors" "$SCRATCH/b/model.safetensors"
}

@test "a masked episode is not in the divisor (B24)" {
	jq -c 'select(.sample == 0)' "$ROLLOUTS" | head -1 >"$SCRATCH/one"
	{ cat "$SCRATCH/one"; jq -c '.sample = 1 | .turns[].finish_reason = "length"' "$SCRATCH/one"; } >"$SCRATCH/two"
	for type in grpo dapo dr_grpo; do
		for n in one two; do
			spar update --model="$MODEL" --loss-type=$type --mask-truncated-completions -q --out="$SCRATCH/$n.d" \
				<"$SCRATCH/$n" >"$SCRATCH/$n.m"
		done
		near "$SCRATCH/one.m" "$SCRATCH/two.m" .loss .grad_norm
	done
}

@test "rollouts: the figures of rewards and lengths are TRL's" {
	# Group 1 is all alike, and its last episode was cut off; the trained tokens are 3, 4, 5 and 4, 5, 6.
	head -7 "$ROLLOUTS" | jq -c 'if .group == "b0g1" then .reward = 2 else . end |
		if .group == "b0g1" and .sample == 2 then .turns[1].finish_reason = "length" else . end' >"$SCRATCH/in"
	run -0 spar update --model="$MODEL" --num-iterations=2 --learning-rate=1e-2 -q --out="$SCRATCH/out" "$SCRATCH/in"
	jq -e -s 'def near($x): (. - $x | fabs) < 1e-9; all(.[]; (.reward | near(1.25)) and (.reward_std | near(0.775 | sqrt))
		and .frac_reward_zero_std == 0.5
		and (.["completions/mean_length"] | near(4.5)) and (.["completions/clipped_ratio"] | near(1 / 6))
		and (.["completions/mean_terminated_length"] | near(4.2))
		and .["completions/min_terminated_length"] == 3 and .["completions/max_terminated_length"] == 5)' <<<"$output"
	# How far the sampler was off does not move with the policy.
	jq -e -s '.[0].ppo_kl != .[1].ppo_kl and (map(.["sampling/sampling_logp_difference/mean"]) | .[0] > 0 and .[0] == .[1])' <<<"$output"
	jq -c 'if .turns then .turns[1].finish_reason = "length" else . end' "$SCRATCH/in" |
		spar update --model="$MODEL" -q --out="$SCRATCH/out" |
		jq -e '.["completions/clipped_ratio"] == 1 and .["completions/max_terminated_length"] == 0'
}

@test "a log-probability far from the model's gives a finite step (B25)" {
	jq -c 'if .turns then .turns[0].logprobs[0] = -200 | .policy.version = 0 else . end' "$ROLLOUTS" >"$SCRATCH/far"
	run -0 --separate-stderr spar update --model="$MODEL" --beta=0.1 --num-iterations=2 -q --out="$SCRATCH/out" <"$SCRATCH/far"
	jq -e -s 'all(.[]; (.loss | fabs) < 1e6 and .["sampling/sampling_logp_difference/max"] > 190)' <<<"$output"
}

@test "a step that is not finite names the episode and writes nothing" {
	cp -r "$MODEL" "$SCRATCH/nan"
	chmod u+w "$SCRATCH/nan/model.safetensors"
	size=$(stat -c %s "$SCRATCH/nan/model.safetensors")
	printf '\0\0\300\177' | dd of="$SCRATCH/nan/model.safetensors" bs=1 seek=$((size - 4)) conv=notrunc status=none
	run -1 --separate-stderr spar update --model="$SCRATCH/nan" -q --out="$SCRATCH/out" <"$ROLLOUTS"
	[ "$stderr" = "update: step 1: group b0g0 sample 0: log-probabilities are not finite" ]
	[ ! -e "$SCRATCH/out" ]
	[ -z "$(ls "$SCRATCH" | grep tmp)" ]
}

@test "a learning rate of 0 changes no weight, and a step that changes none says so (B27)" {
	run -0 --separate-stderr spar update --model="$MODEL" --learning-rate=0 --out="$SCRATCH/out" <"$ROLLOUTS"
	[[ $stderr == *"update: warning: step 1 changed no weight"* ]]
	[ "$(jq -s 'map(.weights_changed) | add' <<<"$output")" = 0 ]
	run -0 spar update --model="$MODEL" --learning-rate=1e-6 -q --dtype=bfloat16 --out="$SCRATCH/low" <"$ROLLOUTS"
	jq -e -s 'all(.[]; .weights_changed > 1000)' <<<"$output"
}

@test "schedules: linear, cosine, constant, warm-up" {
	rates() { spar update --model="$MODEL" --learning-rate=1 --max-steps=4 -q --loss-type=sft --out="$SCRATCH/out" "$@" \
		<"$SFT" | jq -s -c 'map(.learning_rate * 1000 | round / 1000)'; }
	[ "$(rates)" = '[1,0.75,0.5,0.25]' ]
	[ "$(rates --lr-scheduler-type=cosine)" = '[1,0.854,0.5,0.146]' ]
	[ "$(rates --lr-scheduler-type=constant)" = '[1,1,1,1]' ]
	[ "$(rates --warmup-steps=2)" = '[0,0.5,1,0.5]' ]
	[ "$(rates --warmup-ratio=0.5)" = '[0,0.5,1,0.5]' ]
	run -2 --separate-stderr spar update --model="$MODEL" --lr-scheduler-type=linear --out="$SCRATCH/out" <"$ROLLOUTS"
	[ "${stderr_lines[0]}" = "update: a schedule over a stream needs its length: give --max-steps" ]
}

@test "lora: an adapter folder, or merged; dropout; resumed exactly" {
	common=(--model="$MODEL" --loss-type=sft --learning-rate=1e-2 --per-device-train-batch-size=5 --seed=5 -q
		--lr-scheduler-type=constant)
	lora=--lora=r=4,alpha=8,dropout=0.3,targets=q_proj+v_proj
	spar update "${common[@]}" $lora --num-train-epochs=3 --out="$SCRATCH/a" <"$SFT" >"$SCRATCH/ma"
	jq -e '.r == 4 and .lora_alpha == 8 and (.target_modules | sort) == ["q_proj", "v_proj"]' "$SCRATCH/a/adapter_config.json"
	[ -e "$SCRATCH/a/adapter_model.safetensors" ]
	[ ! -e "$SCRATCH/a/model.safetensors" ]
	spar update "${common[@]}" $lora --num-train-epochs=3 --merge --out="$SCRATCH/b" <"$SFT" >"$SCRATCH/mb"
	diff <(timeless "$SCRATCH/ma") <(timeless "$SCRATCH/mb")
	[ -e "$SCRATCH/b/model.safetensors" ]
	[ ! -e "$SCRATCH/b/adapter_config.json" ]
	spar update "${common[@]}" $lora --num-train-epochs=3 --gradient-checkpointing --out="$SCRATCH/e" <"$SFT" >"$SCRATCH/me"
	jq -es '.[0].loss == .[length / 2].loss and (.[length / 2 - 1].loss / .[-1].loss - 1 | fabs) < 1e-5' "$SCRATCH/ma" "$SCRATCH/me"
	spar update "${common[@]}" $lora --max-steps=2 --checkpoint="$SCRATCH/c" --out="$SCRATCH/d" <"$SFT" >/dev/null
	spar update "${common[@]}" $lora --num-train-epochs=3 --checkpoint="$SCRATCH/c" --resume --out="$SCRATCH/d" <"$SFT" >"$SCRATCH/md"
	diff <(timeless "$SCRATCH/ma") <(timeless "$SCRATCH/md")
	cmp "$SCRATCH/a/adapter_model.safetensors" "$SCRATCH/d/adapter_model.safetensors"
}

@test "the same command gives the same bytes; a killed run that is resumed too" {
	common=(--model="$MODEL" --loss-type=sft --learning-rate=1e-3 --per-device-train-batch-size=2 --num-train-epochs=4 -q --threads=1)
	for n in a b; do spar update "${common[@]}" --out="$SCRATCH/$n" <"$SFT" >"$SCRATCH/m$n"; done
	cmp "$SCRATCH/a/model.safetensors" "$SCRATCH/b/model.safetensors"
	diff <(timeless "$SCRATCH/ma") <(timeless "$SCRATCH/mb")
	spar update "${common[@]}" --checkpoint="$SCRATCH/c" --save-steps=1 --out="$SCRATCH/d" <"$SFT" >/dev/null &
	pid=$!
	until [ -e "$SCRATCH/c/state.json" ]; do sleep 0.02; done
	kill -9 $pid
	! wait $pid
	[ ! -e "$SCRATCH/d" ]
	spar update "${common[@]}" --checkpoint="$SCRATCH/c" --resume --out="$SCRATCH/d" <"$SFT" >"$SCRATCH/md"
	cmp "$SCRATCH/a/model.safetensors" "$SCRATCH/d/model.safetensors"
	diff <(timeless "$SCRATCH/ma") <(timeless "$SCRATCH/md")

	run -3 --separate-stderr spar update "${common[@]}" --seed=9 --checkpoint="$SCRATCH/c" --resume --out="$SCRATCH/e" <"$SFT"
	[[ $stderr == *"made with --seed=0, not 9" ]]
	run -3 --separate-stderr bash -c "head -3 '$SFT' | spar update ${common[*]} --checkpoint='$SCRATCH/c' --resume --out='$SCRATCH/e'"
	[[ $stderr == *"made with other data" ]]
}

@test "policy: a version for each batch; killed and started again, it ends with the same bytes" {
	common=(--model="$MODEL" --learning-rate=1e-3 --threads=1 -q)
	spar update "${common[@]}" --policy="$SCRATCH/p" --out="$SCRATCH/a" <"$ROLLOUTS" >"$SCRATCH/ma"
	[ "$(readlink "$SCRATCH/p/latest")" = v000004 ]
	cmp "$SCRATCH/p/latest/model.safetensors" "$SCRATCH/a/model.safetensors"
	jq -e '.ended and .step == 0' "$SCRATCH/p/session.json"

	mkfifo "$SCRATCH/fifo"
	spar update "${common[@]}" --policy="$SCRATCH/q" --out="$SCRATCH/b" <"$SCRATCH/fifo" >/dev/null &
	pid=$!
	exec 4>"$SCRATCH/fifo"
	head -14 "$ROLLOUTS" >&4
	until [ "$(readlink "$SCRATCH/q/latest")" = v000002 ]; do sleep 0.02; done
	run -1 --separate-stderr spar update "${common[@]}" --policy="$SCRATCH/q" --out="$SCRATCH/b" <"$ROLLOUTS"
	[ "$stderr" = "update: $SCRATCH/q: another update is at work here (process $pid)" ]
	kill -9 $pid
	exec 4>&-
	! wait $pid
	tail -14 "$ROLLOUTS" | spar update "${common[@]}" --policy="$SCRATCH/q" --out="$SCRATCH/b" >"$SCRATCH/mb"
	jq -e .step==2 "$SCRATCH/q/session.json"
	diff <(timeless "$SCRATCH/ma") <(timeless "$SCRATCH/mb")
	cmp "$SCRATCH/a/model.safetensors" "$SCRATCH/b/model.safetensors"
	run -3 --separate-stderr spar update "${common[@]}" --policy="$SCRATCH/q" <"$ROLLOUTS"
	[[ $stderr == *":7: .step: batch 0, but the policy has seen 4" ]]
}

@test "a dry run counts the steps and writes nothing, wherever it may" {
	cd "$SCRATCH"
	run -0 --separate-stderr spar update --model="$MODEL" --dry-run --checkpoint=c --save-steps=1 --out=o <"$ROLLOUTS"
	jq -e -s 'length == 4 and all(.dry_run and .loss == null)' <<<"$output"
	run -0 --separate-stderr spar update --model="$MODEL" --loss-type=sft --dry-run --checkpoint=c --save-steps=1 --out=o <"$SFT"
	run -0 --separate-stderr spar update --model="$MODEL" --dry-run --policy=p <"$ROLLOUTS"
	[ ! -e c ] && [ ! -e o ] && [ ! -e p ]
}

@test "policy: samples of an older version are weighted, those of the present one are not" {
	weighted() { jq -c 'if .policy then .policy.version = 0 else . end' "$ROLLOUTS" | spar update --model="$MODEL" \
		--policy="$SCRATCH/$RANDOM" -q "$@" | jq -s -c 'map(has("sampling/importance_sampling_ratio/mean"))'; }
	[ "$(weighted)" = '[false,true,true,true]' ]
	[ "$(weighted --importance-sampling-clip-max=0)" = '[false,false,false,false]' ]
	jq -c 'if .turns then .turns[].kept_mass = null | .turns[0].kept_mass = [.turns[0].logprobs[] | 0.5] | .turns[1] |= del(.kept_mass)
		else . end' "$ROLLOUTS" >"$SCRATCH/cut"
	run -0 spar update --model="$MODEL" -q --out="$SCRATCH/out" <"$SCRATCH/cut"
	jq -e -s 'all(.[]; .["sampling/importance_sampling_ratio/min"] < 0.6)' <<<"$output"
}

@test "bad input: no records, other records, too long, usage" {
	for type in sft dapo; do
		run -3 --separate-stderr spar update --model="$MODEL" --loss-type=$type --out="$SCRATCH/out" </dev/null
		[[ $stderr == "update: no "*" records: nothing to train on" ]]
	done
	run -3 --separate-stderr spar update --model="$MODEL" --loss-type=sft --out="$SCRATCH/out" <"$ROLLOUTS"
	[[ $stderr == *"records of other types took no part"* ]]
	run -3 --separate-stderr spar update --model="$MODEL" --loss-type=sft --max-length=4 --out="$SCRATCH/out" <"$SFT"
	[[ $stderr == "update: <stdin>:1: "*"more than the limit of 4" ]]
	run -0 --separate-stderr spar update --model="$MODEL" --loss-type=sft --skip-bad --out="$SCRATCH/out" \
		< <(echo '{"type":"sft","prompt":"a","completion":7}'; cat "$SFT")
	[[ $stderr == *"1 of 11 records refused"* ]]
	[ ! -e "$SCRATCH/out.tmp."* ]
	run -2 spar update --loss-type=sft --out="$SCRATCH/out" <"$SFT"
	run -2 spar update --model="$MODEL" --loss-type=sft <"$SFT"
	run -2 spar update --model="$MODEL" --loss-type=sft --policy="$SCRATCH/p" <"$SFT"
	run -2 spar update --model="$MODEL" --resume --out="$SCRATCH/out" <"$ROLLOUTS"
	run -2 spar update --model="$MODEL" --lora=r=0 --out="$SCRATCH/out" <"$ROLLOUTS"
}

@test "a full disk stops the run before anything is written" {
	run -1 --separate-stderr bash -c "spar update --model='$MODEL' --loss-type=sft -q --out='$SCRATCH/out' <'$SFT' >/dev/full"
	[ "$stderr" = "update: <stdout>: No space left on device" ]
	[ ! -e "$SCRATCH/out" ]
}

@test "rollouts: the KL is taken to --reference, with adapters too" {
	spar model init --config="$BATS_TEST_DIRNAME/../pipelines/models/tiny" --seed=2 --out="$SCRATCH/other"
	kl() { spar update --model="$MODEL" --beta=0.1 --max-steps=1 -q --out="$SCRATCH/out" "$@" <"$ROLLOUTS" | jq .kl; }
	own=$(kl)
	same=$(kl --reference="$MODEL")
	far=$(kl --reference="$SCRATCH/other")
	adapted=$(kl --reference="$SCRATCH/other" --lora=r=2,targets=q_proj)
	jq -en "($own | fabs) < 1e-6 and ($same | fabs) < 1e-6 and $far > 1e-4 and ($adapted - $far | fabs) < 1e-6"
	run -1 --separate-stderr spar update --model="$MODEL" --beta=0.1 --reference=/nonexistent -q --out="$SCRATCH/x" <"$ROLLOUTS"
}

@test "rollout and update agree to the bit: of any dtype, after a step too, with an adapter too" {
	jq -nc 'range(4) | {id: "\(.)", prompt: "what is \(.)?"}' >"$SCRATCH/tasks"
	for how in "--dtype=float32" "--dtype=bfloat16" "--dtype=bfloat16 --lora=r=4"; do
		rm -rf "$SCRATCH/policy"
		# shellcheck disable=SC2086 # options, to be split
		spar rollout -q --dtype="$(sed -E 's/.*=(float32|bfloat16).*/\1/' <<<"$how")" --policy="$SCRATCH/policy" --batch=1 -n 4 \
			--temperature=0.9 --max-completion-length=12 "$SCRATCH/tasks" |
			spar score -q --reward 'ids=.turns[0].completion_ids | add % 7' | spar advantage -q |
			spar update -q $how --model="$MODEL" --policy="$SCRATCH/policy" --learning-rate=1e-2 --max-steps=4 >"$SCRATCH/m"
		jq -e -s 'length == 4 and all(.[]; .["sampling/sampling_logp_difference/max"] == 0)
			and any(.[]; .weights_changed > 0)' "$SCRATCH/m"
	done
}
