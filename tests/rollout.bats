load common

# A model of random weights, small enough for a test to sample from in milliseconds.
setup_file() {
	make_model "$BATS_FILE_TMPDIR/model"
}

# make_model DIR [JQ for config.json [JQ for generation_config.json]]
make_model() {
	local from=$BATS_FILE_TMPDIR/from
	rm -rf "$from" && mkdir "$from"
	cp "$TINY"/*.json "$from"
	jq "${2:-.}" "$TINY/config.json" >"$from/config.json"
	jq "${3:-.}" "$TINY/generation_config.json" >"$from/generation_config.json"
	spar model init --config="$from" --seed=1 --out="$1" >/dev/null
}

setup() {
	MODEL=$BATS_FILE_TMPDIR/model
	COUNT=$DATA/env-count.sh
	cd "$SCRATCH" || return
}

chats() { # N tasks of different lengths
	for i in $(seq "$1"); do
		printf '{"type":"task","id":"t%d","messages":[{"role":"user","content":"%s"}]}\n' "$i" "$(printf '%*s' $((i * 7 % 23)) '' | tr ' ' a)$i"
	done
}

episodes() { # one task for each seed
	printf '{"type":"task","id":"e%d","env":"count","seed":"%d"}\n' $(for s in "$@"; do echo "$s" "$s"; done)
}

sample() { spar rollout --quiet --model="$MODEL" --max-completion-length=8 --seed=7 "$@"; }

@test "rollout: a record has all that a trainer needs, and the task as it came" {
	printf '{"type":"task", "id":9007199254740993,"x":1.0,"prompt":"hi"}\n' >tasks
	sample -n 2 --temperature=0.5 <tasks >out
	[ "$(wc -l <out)" = 2 ]
	grep -q '"group":"9007199254740993","sample":1,"group_size":2,"task":{"type":"task", "id":9007199254740993,"x":1.0,"prompt":"hi"},"policy"' out
	jq -se 'all(.type == "rollout" and .env == null and (.policy.hash | length) == 16 and (has("step") | not)
		and .sampling == {temperature:0.5,top_p:1,top_k:0,min_p:0,seed:"7",max_completion_length:8,dtype:"float32"}
		and (.turns | length) == 1 and (.turns[0] | (.completion_ids | length) == (.logprobs | length)
			and (.logprobs | all(. <= 0)) and (has("kept_mass") | not)))' out
	jq -e --arg dir "$MODEL" '.policy.path == $dir' <(head -1 out)
}

@test "rollout: the same whatever is sampled beside it; samples of a group differ; a second run repeats it (B12)" {
	chats 5 >tasks
	sample -n 4 --max-completion-length=16 <tasks >base
	[ "$(wc -l <base)" = 20 ]
	jq -se 'group_by(.group) | all(map(.turns[0].completion_ids) | unique | length == 4)' base
	sample -n 4 --max-completion-length=16 <tasks | cmp - base
	for c in 1 2 3; do
		tac tasks | sample -n 4 --max-completion-length=16 --concurrency=$c | sort >other
		sort base | cmp - other
	done
	sed -n 3p tasks | sample -n 4 --max-completion-length=16 | cmp - <(sed -n 9,12p base)
	sample -n 4 --max-completion-length=16 --seed=8 <tasks >other
	! cmp -s base other
}

@test "rollout: a completion ends by its token, not by its length (B10)" {
	make_model ends '.eos_token_id = 9' '.eos_token_id = [2, 9]'
	while read -r ids reason n trained; do
		spar rollout --quiet --model=ends -n 1 --max-completion-length=3 --force-ids="$ids" <<<'{"prompt":"x"}' >out
		echo "$ids $(jq -c '.turns[0]' out)"
		jq -e --arg reason "$reason" --argjson n "$n" --argjson ids "$trained" '.turns[0] | .finish_reason == $reason
			and (.completion_ids | length) == $n and .completion_ids == $ids and (.logprobs | length) == $n' out
	done <<'END'
[7,9] stop 2 [7,9]
[7,2] stop 2 [7,2]
[7,8,2] stop 3 [7,8,2]
[7,8,5] length 3 [7,8,5]
[2] stop 1 [2]
[7,2,8,2,2] stop 2 [7,2]
END
	spar rollout --quiet --model=ends -n 1 --force-ids='[2]' <<<'{"prompt":"x"}' | jq -e '.turns[0].completion == ""'
}

@test "rollout: a prompt that does not fit is refused by name and counted; one id of room gives one token (B14)" {
	text=$(spar rollout --quiet --model="$MODEL" --dry-run <<<'{"prompt":"1"}' | jq '.prompt_ids | length')
	long=$(printf '%*s' $((10 - text)) '' | tr ' ' 1) short=$(printf '%*s' $((8 - text)) '' | tr ' ' 1)
	printf '{"id":"long","prompt":"%s"}\n{"id":"short","prompt":"%s"}\n' "$long" "$short" >tasks
	spar rollout --quiet --model="$MODEL" --dry-run <tasks | jq -se 'map(.prompt_ids | length) == [9, 7]'
	run -3 --separate-stderr spar rollout --model="$MODEL" -n 1 --max-model-length=8 --max-completion-length=4 tasks
	jq -e '.group == "long" and (.error | test("9 ids.*context of 8")) and .turns == []' <<<"${lines[0]}"
	jq -e '.group == "short" and (.turns[0].completion_ids | length) == 1 and (has("error") | not)' <<<"${lines[1]}"
	[[ $stderr == *"task long sample 0: "*"9 ids"*"context of 8"*"1 of 2 episodes failed"* ]]
	run -0 --separate-stderr spar rollout --quiet --skip-bad --model="$MODEL" -n 1 --max-model-length=8 --max-completion-length=4 tasks
	[ "${#lines[@]}" = 2 ]
}

@test "rollout: log-probabilities are of the whole tempered distribution; what was cut is said (B15)" {
	chats 4 >tasks
	sample -n 1 --top-k=1 <tasks >out
	# The mass of the one kept token is its probability.
	jq -e '.turns[0] | [.logprobs, .kept_mass] | transpose | all((.[0] | exp) - .[1] | fabs < 1e-5)' out
	sample -n 1 --temperature=0 <tasks >greedy
	jq -se --slurpfile k out '[.[].turns[0].completion_ids] == [$k[].turns[0].completion_ids]
		and all(.turns[0] | has("kept_mass") | not)' greedy
	# The same ids at two temperatures: the recorded numbers are not the same, and all are finite.
	sample -n 1 --temperature=2 --force-ids='[300,301,302]' <tasks >hot
	sample -n 1 --temperature=0.5 --force-ids='[300,301,302]' <tasks >cold
	jq -se --slurpfile c cold '.[0].turns[0].logprobs[0] != $c[0].turns[0].logprobs[0]' hot
	! grep -E 'null,|nan|inf' <(jq -c '.turns[].logprobs' hot cold)
	# Forced or drawn, a token has the same number.
	sample -n 1 <tasks | head -1 >drawn
	sample -n 1 --force-ids="$(jq -c '.turns[0].completion_ids' drawn)" <tasks | head -1 >forced
	jq -se '[.[].turns[0]] | .[0].completion_ids == .[1].completion_ids
		and ([.[0].logprobs, .[1].logprobs] | transpose | all(.[0] - .[1] | fabs < 1e-5))' drawn forced
}

@test "rollout: ids beyond the tokenizer are never drawn (B05)" {
	make_model wide '.vocab_size = 4096'
	size=$(jq '[.model.vocab[], .added_tokens[].id] | max + 1' "$TINY/tokenizer.json")
	[ "$size" -lt 4096 ]
	spar rollout --quiet --model=wide -n 16 --max-completion-length=32 --temperature=5 <<<'{"prompt":"x"}' |
		jq -se --argjson size "$size" '[.[].turns[].completion_ids[]] | length > 100 and max < $size'
}

@test "rollout --dry-run: markers of the template become ids, the same text in a message does not (B04)" {
	end=$(jq -r '.eos_token' "$TINY/tokenizer_config.json")
	id=$(jq --arg mark "$end" '.added_tokens[] | select(.content == $mark).id' "$TINY/tokenizer.json")
	count() { jq -n --arg c "$1" '{messages:[{role:"user",content:$c}]}' -c |
		spar rollout --quiet --model="$MODEL" --dry-run | jq --argjson id "$id" '[.prompt_ids[] | select(. == $id)] | length'; }
	[ "$(count "hi$end")" = "$(count hi)" ]
	run -0 --separate-stderr spar rollout --quiet --model="$TINY" --dry-run <<<'{"id":1.0,"messages":[{"role":"user","content":"hi"}]}'
	[[ $output == '{"id":1.0,"messages":[{"role":"user","content":"hi"}],"prompt":"'*'","prompt_ids":['*']}' ]]
}

@test "rollout: a character that is cut in the middle still makes valid JSON (B05)" {
	lead=$(jq '.model.vocab["ð"]' "$TINY/tokenizer.json") # the first byte of an emoji
	sample -n 1 --max-completion-length=1 --force-ids="[$lead]" <<<'{"prompt":"x"}' >out
	jq -e --argjson id "$lead" '.turns[0] | .completion == "\ufffd" and .completion_ids == [$id]' out
}

@test "rollout: episodes run to their end, many at once, in the order of tasks and samples" {
	episodes 0 1 2 3 4 5 >tasks
	sample -n 3 --env="$COUNT" <tasks >out
	jq -se 'map([.group, .sample]) == [range(6) as $e | range(3) as $s | ["e\($e)", $s]]
		and all((.task.seed | tonumber) as $s | (.turns | length) == $s % 3 + 1
			and .env.return == ($s % 3 + 1) * 0.5 and .env.success == ($s % 2 == 0) and .env.end == "counted"
			and .turns[-1].env.done and .env.info.difficulty == "d\($s % 2)")
		and all(.turns | map(.prompt_ids) | unique | length == length)' out
	sample -n 3 --env="$COUNT" <tasks | cmp - out
	tac tasks | sample -n 3 --env="$COUNT" --concurrency=2 | sort >other
	sort out | cmp - other
	# The prompts are what spar text makes of the messages.
	jq -n '{messages:[{role:"user",content:"seed 4 turn 1"}]}' -c | spar rollout --quiet --model="$MODEL" --dry-run |
		jq -e --slurpfile out out '.prompt_ids == ($out[] | select(.group == "e4" and .sample == 0).turns[1].prompt_ids)'
	sample --dry-run --env="$COUNT" <<<'{"env":"count","seed":4}' | jq -e '.prompt | test("seed 4 turn 0")'
}

@test "rollout: where a conversation goes on, so do the ids of the turns before (B09)" {
	episodes 2 5 8 >tasks
	sample -n 4 --env="$COUNT talk" <tasks >out
	jq -se 'length == 12 and all(has("error") | not)
		and all(.turns | length == 3 and .[0] as $a | .[1] as $b | .[2] as $c
			| def said: .prompt_ids + (if .finish_reason == "stop" then .completion_ids[:-1] else .completion_ids end);
			($a | said) as $x | ($b | said) as $y
			| $b.prompt_ids[:$x | length] == $x and $c.prompt_ids[:$y | length] == $y)' out
	# Ids that the text alone would not give: "hi" letter by letter.
	ids=$(jq -c '[.model.vocab["h"], .model.vocab["i"], 2]' "$TINY/tokenizer.json")
	sample -n 1 --env="$COUNT talk" --force-ids="$ids" --max-completion-length=3 <tasks >out
	jq -se --argjson ids "$ids" 'all(.turns[1].prompt_ids as $p | .turns[0].prompt_ids | length as $n
		| $p[$n:$n + 3] == $ids)' out
	# All in all they read as the template writes the conversation.
	jq -nc '[("user", "seed 2 turn 0"), ("assistant", "hi"), ("user", "seed 2 turn 1")] | {messages: [range(0; 6; 2) as $i | {role: .[$i], content: .[$i + 1]}]}' |
		spar text render --model="$TINY" >text
	head -1 out | jq -c '.turns[1].prompt_ids' | spar text decode --model="$TINY" | cmp - text
}

@test "rollout: a template that rewrites earlier turns is refused by name (B09)" {
	cp -r "$MODEL" forgetful
	printf '%s' "{% for m in messages %}{% if loop.last or m['role'] == 'user' %}<{{ m['role'] }}>{{ m['content'] }}{% else %}<gone>{% endif %}{% endfor %}<assistant>" >forgetful/chat_template.jinja
	episodes 2 3 >tasks
	run -3 --separate-stderr spar rollout --quiet --model=forgetful --env="$COUNT talk" -n 1 --max-completion-length=4 tasks
	[ "${#lines[@]}" = 2 ]
	jq -e '.error | test("^turn 1: the chat template does not keep the turns before as they were: byte [0-9]+ differs$")' <<<"${lines[0]}"
	jq -e 'has("error") | not' <<<"${lines[1]}" # an episode of one turn
	[[ $stderr == *"task e2 sample 0: turn 1: the chat template does not keep"* ]]
}

@test "rollout: no more episodes are under way than the environment holds sessions" {
	episodes 0 1 2 3 >tasks
	sample -n 3 --env="$COUNT one" <tasks >out
	sample -n 3 --env="$COUNT" <tasks | cmp - out
	[ "$(sample -n 2 --env='spar env-cern --max-sessions=1' < <(spar env-cern --tasks=2) | grep -c '"error"')" = 0 ]
}

@test "rollout: adapters and policy directories are models; what is odd about one is said" {
	head -1 <(chats 1) >tasks
	mkdir -p pol/v000007 && cp "$MODEL"/* pol/v000007 && ln -s v000007 pol/latest
	sample -n 1 --model=pol <tasks >out
	jq -e '.policy.path == "pol" and .policy.version == 7' out
	[ "$(jq -c .turns out)" = "$(sample -n 1 <tasks | jq -c .turns)" ]
	run -1 --separate-stderr sample --model=nowhere tasks
	[ "$stderr" = "rollout: nowhere: no such folder" ]
	printf '{"type":"sft","messages":[{"role":"user","content":"a"}],"completion":"b"}\n' |
		spar update --quiet --model="$MODEL" --loss-type=sft --lora=r=2,alpha=0 --out=adapter >/dev/null
	cmp <(spar rollout --quiet --dry-run --model=adapter <tasks) <(spar rollout --quiet --dry-run --model="$MODEL" <tasks)
	run -0 --separate-stderr sample -n 1 --model=adapter tasks
	[ "$stderr" = "rollout: warning: adapter: lora_alpha is 0: the adapter changes nothing" ]
	run -0 --separate-stderr spar update --quiet --dry-run --model=adapter --loss-type=sft \
		<<<'{"messages":[{"role":"user","content":"a"}],"completion":"b"}'
	[[ $stderr == *"lora_alpha is 0"* ]]
}

@test "rollout: tasks and environments that do not go together" {
	run -3 --separate-stderr sample <<<'{"env":"count","seed":1}'
	[ "$stderr" = "rollout: <stdin>:1: .env: the task needs an environment (--env)" ]
	run -3 --separate-stderr sample --env="$COUNT" <<<'{"env":"cern","seed":1}'
	[ "$stderr" = "rollout: <stdin>:1: .env: the task is for cern, the environment is count" ]
	run -3 --separate-stderr sample --env="$COUNT" <<<'{"env":"count"}'
	[[ $stderr == "rollout: <stdin>:1: .seed: "* ]]
	run -3 --separate-stderr sample <<<'{"x":1}'
	[ "$stderr" = "rollout: <stdin>:1: not a task: it has neither messages nor prompt nor env" ]
}

@test "rollout: an environment that never speaks the protocol is named, and nothing waits for ever" {
	episodes 1 >tasks
	run -1 --separate-stderr sample --env="sh -c 'echo ready; while read l; do echo \"{\\\"done\\\":true}\"; done'" tasks
	[[ $stderr == *"task e1"*ready* ]]
	run -1 --separate-stderr timeout 30 spar rollout --quiet --model="$MODEL" --env="awk '{print \"{}\" | \"sleep 20; cat\"}'" --env-timeout=0.5 tasks
	[[ $stderr == *"task e1"*"no reply within 0.5 s"*"line-buffered"* ]]
	run -1 --separate-stderr sample --env=true tasks
	[[ $stderr == *"task e1"*"exit"* ]]
	run -1 --separate-stderr sample --env='exit 7' tasks
	[[ $stderr == *"task e1"*7* ]]
}

@test "rollout: an environment that fails in one episode costs that episode only" {
	episodes 0 2 3 4 5 >tasks
	sample -n 1 --env="$COUNT" <tasks | grep -v '"group":"e3"' >good
	for mode in die mute junk refuse; do
		echo "== $mode"
		status=0
		sample -n 1 --env="$COUNT $mode 3" --env-timeout=1 <tasks >out 2>err || status=$?
		cat err
		[ $status = "$([ $mode = refuse ] && echo 3 || echo 1)" ]
		[ "$(wc -l <out)" = 5 ]
		grep -v '"group":"e3"' out | cmp - good
		jq -e '.env == null and (.error | length) > 0 and .turns[-1].finish_reason == "error"' <(grep '"group":"e3"' out)
		grep -q 'task e3 sample 0' err
	done
	run -1 --separate-stderr sample -n 1 --concurrency=1 --env="$COUNT mute 3" --env-timeout=0.5 tasks
	[ "${#lines[@]}" = 5 ]
	[[ $stderr == *"task e3 sample 0: no reply within 0.5 s"* ]]
	# Two lines for one request: nothing is taken for the answer to another.
	run -1 --separate-stderr sample -n 1 --concurrency=1 --env="$COUNT twice 3" tasks
	[ "$(printf '%s\n' "${lines[@]}" | grep -c '"error"')" -le 1 ]
	[[ $stderr == *"line without a request"* || $stderr == *"not the request's"* ]]
	# It does not go on for ever with an environment that fails always.
	run -1 --separate-stderr sample -n 4 --env="$COUNT die 3" <<<'{"id":"e3","env":"count","seed":"3"}'
	[[ $stderr == *"failed 3 times in a row"* ]]
}

@test "rollout --batch: a batch record behind every batch, also a short one at the end" {
	chats 5 >tasks
	sample -n 2 --batch=2 <tasks >out
	[ "$(jq -r .type out | tr '\n' ' ')" = "rollout rollout rollout rollout batch rollout rollout rollout rollout batch rollout rollout batch " ]
	[ "$(grep '"batch"' out | tail -1)" = '{"type":"batch","step":2,"groups":1,"rollouts":2}' ]
	jq -se 'map(select(.type == "rollout").step) == [0,0,0,0,1,1,1,1,2,2]' out
	sample -n 2 <tasks | jq -c .turns | cmp - <(jq -c 'select(.type == "rollout").turns' out)
	# A task may come back in another batch, not in its own.
	{ head -2 tasks && head -2 tasks; } | sample -n 1 --batch=2 >/dev/null
	run -3 --separate-stderr bash -c "head -1 tasks tasks -q | spar rollout --quiet -n 1 --model=$MODEL --max-completion-length=4"
	[ "$stderr" = "rollout: <stdin>:2: .id: 't1' is there twice" ]
	[ "${#lines[@]}" = 1 ]
	sample -n 1 --batch=2 --max-steps=1 <tasks | jq -se 'length == 3'
}

@test "rollout: a bad line ends the stream with everything before it written; --skip-bad goes on" {
	{ chats 2 && echo '{"x":' && echo '{"id":"late","prompt":"x"}'; } >tasks
	run -3 --separate-stderr sample -n 2 tasks
	[ "${#lines[@]}" = 4 ]
	[[ $stderr == "rollout: tasks:3: not JSON"* ]]
	{ chats 2 && echo '{"x":1}' && echo '{"id":"late","prompt":"x"}'; } >tasks
	run -3 --separate-stderr sample -n 2 tasks
	[ "${#lines[@]}" = 4 ]
	run -0 --separate-stderr sample -n 2 --skip-bad --rejects=bad tasks
	[ "${#lines[@]}" = 6 ]
	[ "$(cat bad)" = '{"x":1}' ]
}

@test "rollout --into: any record is passed on with what was sampled in it" {
	chats 2 | sample -n 2 >first
	{ head -3 first && echo '{"type":"batch","step":0,"groups":2}' && echo '{"type":"rollout","group":"x","sample":0,"skip":true}' && tail -1 first; } >in
	run -0 --separate-stderr sample --into=judge --messages='if .skip then null else [{role:"user",content:.turns[-1].completion}] end' in
	[ "${#lines[@]}" = 6 ]
	printf '%s\n' "${lines[@]}" >out
	jq -se 'map(.type) == ["rollout","rollout","rollout","batch","rollout","rollout"]
		and all(.[0,1,2,5]; (.judge.completion | type) == "string" and (.judge.turns | length) == 1 and .judge.policy.hash != null)
		and .[4] == {"type":"rollout","group":"x","sample":0,"skip":true}' out
	jq -c 'del(.judge)' out | cmp - <(jq -c . in)
	[[ ${lines[0]} == "$(head -1 first | sed 's/}$//')"',"judge":{"completion":'*'}}' ]]
	sample -n 3 --into=j --messages=.prompt <<<'{"prompt":"x"}' | jq -e '.j | length == 3'
}

@test "rollout: a batch record in the input is passed before the lines behind it arrive" {
	mkfifo feed
	sample -n 1 --into=judge --messages=.prompt <feed >out &
	exec 7>feed
	printf '{"prompt":"a"}\n{"prompt":"b"}\n{"type":"batch","step":0,"groups":2}\n' >&7
	for _ in $(seq 100); do
		[ "$(wc -l <out)" = 3 ] && break
		sleep 0.05
	done
	[ "$(tail -1 out)" = '{"type":"batch","step":0,"groups":2}' ]
	echo '{"prompt":"c"}' >&7
	for _ in $(seq 100); do
		[ "$(wc -l <out)" = 4 ] && break
		sleep 0.05
	done
	[ "$(wc -l <out)" = 4 ]
	exec 7>&-
	wait $!
}

@test "rollout: misuse" {
	run -2 --separate-stderr spar rollout
	[[ $stderr == "rollout: give --model=DIR or --policy=DIR"* ]]
	run -2 --separate-stderr spar rollout --model=a --policy=b
	run -2 --separate-stderr sample --force-ids='[1,"x"]' </dev/null
	[ "$stderr" = "rollout: --force-ids: expected a JSON array of ids" ]
	run -2 --separate-stderr sample --force-ids='[4096]' <<<'{"prompt":"x"}'
	[ "$stderr" = "rollout: the model has no token 4096" ]
	run -2 --separate-stderr sample --messages='.[' </dev/null
	run -1 --separate-stderr spar rollout --model=nowhere </dev/null
	[[ $stderr == "rollout: nowhere"* ]]
	run -1 --separate-stderr spar rollout --policy=policy --policy-timeout=0.1 </dev/null
	[ "$stderr" = "rollout: policy: no update has come to work here within 0.1 s" ]
	run -0 --separate-stderr sample </dev/null
	[ -z "$output$stderr" ]
}

@test "rollout --policy: each batch is sampled from the version it needs; a run that goes on repeats nothing" {
	episodes $(seq 0 5) >tasks
	# The line that must come out alike twice: a live GRPO phase of three steps.
	live() {
		spar rollout --quiet --policy=policy --batch=2 -n 4 --env="$COUNT" --max-completion-length=6 --seed=7 $2 <tasks |
			spar score --quiet --reward='ids=[.turns[].completion_ids[]] | add / length / 100' | spar advantage --quiet --save="$1" |
			spar update --quiet --policy=policy --model="$MODEL" --learning-rate=0.01 --lr-scheduler-type=constant --out=out --save-steps=1 $2 >"$1.metrics"
	}
	live whole
	jq -se 'map(select(.type == "rollout")) | length == 24 and all(.step == .policy.version)
		and (map(.policy.hash) | unique | length) == 3' whole
	rm -rf policy out
	live first --max-steps=2
	live second
	cmp <(cat first second) whole
}

@test "rollout: --step-time: batch records say what sampling took, and a stage after it adds its own" {
	printf '{"id":"%d","messages":[{"role":"user","content":"hi"}]}\n' 1 2 |
		spar rollout -q --model="$TINY" -n 2 --batch=1 --max-completion-length=4 --step-time |
		spar rollout -q --model="$TINY" --into=judge --messages='"1+1="' --max-completion-length=2 --step-time >"$SCRATCH/out"
	jq -e -s 'map(select(.type == "batch")) | length == 2 and all((keys == ["groups", "rollouts", "step", "step_time/judge", "step_time/rollout", "type"]) and
		.["step_time/judge"] > 0 and .["step_time/rollout"] > 0)' "$SCRATCH/out"
}

@test "rollout --device: a twin with libtorch samples over the same tree, nearly the same log-probabilities" {
	jq -nc 'range(3) | {id: "\(.)", prompt: "what is \(.)? who knows?"}' >"$SCRATCH/tasks"
	common=(-q --model="$MODEL" -n 3 --seed=4 --max-completion-length=20 "$SCRATCH/tasks")
	spar rollout "${common[@]}" >"$SCRATCH/kernels"
	"$SPAR_BUILD/libexec/spar-torch/rollout" "${common[@]}" >"$SCRATCH/tensors"
	# The draws are those of the seed: till rounding leads to another token the completions are the same.
	jq -e -n --slurpfile a "$SCRATCH/kernels" --slurpfile b "$SCRATCH/tensors" '
		[range(9) as $i | [$a[$i], $b[$i]] | map(.turns[0]) |
			select(.[0].completion_ids == .[1].completion_ids) |
			[.[0].logprobs, .[1].logprobs] | transpose[] | .[0] - .[1] | fabs] | length > 100 and max < 1e-4'
	if [ -z "$(ls /dev/nvidia0 2>/dev/null)" ]; then
		run -1 --separate-stderr spar rollout --device=cuda "${common[@]}"
		[[ $stderr == 'rollout: device "cuda": no CUDA device, or libtorch '* ]]
	fi
	run -2 --separate-stderr spar rollout --device=gpu "${common[@]}"
	[ "$stderr" = 'rollout: device "gpu": expected cpu, cuda or cuda:N' ]
}
