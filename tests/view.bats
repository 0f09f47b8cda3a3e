load common

setup() {
	cd "$SCRATCH" || return
	cat >rollouts <<'END'
{"type":"rollout","group":"a","sample":0,"group_size":2,"step":3,"task":{},"policy":{"version":3},"turns":[{"prompt_ids":[1,2],"completion_ids":[65,66],"logprobs":[-0.5,-1.5],"completion":"A\u001b[31mB\nC","finish_reason":"stop","env":{"reward":0.5,"done":false}},{"prompt_ids":[1],"completion_ids":[67],"logprobs":[-0.25],"completion":"last","finish_reason":"length","env":{"reward":1}}],"env":{"return":1.5,"success":true,"end":"claim"},"reward":0.75,"advantage":-0.5}
{"type":"rollout","group":"a","sample":1,"group_size":2,"task":{},"turns":[],"env":null,"error":"late"}
{"type":"metric","step":4,"loss":0.125,"list":[1],"note":"x"}
END
}

@test "view: turns, rewards and how it ended; other records in a line; no control characters" {
	run -0 --separate-stderr spar view rollouts
	[ -z "$stderr" ]
	[ "${lines[0]}" = "a  sample 0 of 2  step 3  version 3  return 1.5  claim  success  reward 0.75  advantage -0.5" ]
	[ "${lines[1]}" = "  turn 0  2 + 2 ids  stop  mean logprob -1.000  reward 0.5" ]
	[ "${lines[2]}" = '  > A\x1b[31mB' ]
	[ "${lines[3]}" = '    C' ]
	[ "${lines[5]}" = "  > last" ]
	[[ $output == *"a  sample 1 of 2  error: late"* ]]
	[[ $output == *"metric  step 4  loss 0.125  note x" ]]
	[[ $output != *$'\033'* ]]
}

@test "view: one group, sample or turn; colours when asked for" {
	run -0 --separate-stderr spar view --group=a --sample=0 --turn=1 rollouts
	[[ $output == *"turn 1"* && $output != *"turn 0"* && $output != *"sample 1"* && $output != *metric* ]]
	run -1 --separate-stderr spar view --group=b rollouts
	[ "$stderr" = "view: no such rollout" ]
	run -0 --separate-stderr spar view --color=always rollouts
	[[ $output == *$'\033[1ma\033[0m'* ]]
	if command -v script >/dev/null; then
		script -qec "$SPAR_BUILD/bin/spar view rollouts" /dev/null >tty
		grep -q $'\033\[1m' tty
	fi
}

@test "view --model: prompts as text, their last lines only" {
	spar rollout --quiet --model="$TINY" --dry-run <<<'{"id":"p","messages":[{"role":"user","content":"one\ntwo\nthree"}]}' >dry
	jq -c '{type:"rollout",group:"p",sample:0,group_size:1,task:{},env:null,
		turns:[{prompt_ids:.prompt_ids,completion_ids:.prompt_ids[:2],logprobs:[-0.01,-5],completion:"x",finish_reason:"stop"}]}' dry >in
	run -0 --separate-stderr spar view --model="$TINY" --prompt-lines=0 in
	[[ $output == *one*two*three* ]]
	run -0 --separate-stderr spar view --model="$TINY" --prompt-lines=2 --color=always in
	[[ $output != *one* && $output == *$'\033[32m'* && $output == *$'\033[31m'* ]]
}

@test "view: what cannot be read is named" {
	run -3 --separate-stderr spar view <<<'{"type":"rollout","group":"a","sample":0,"group_size":1,"turns":[{"prompt_ids":[1],"completion_ids":[1],"logprobs":[null],"finish_reason":"stop"}]}'
	[[ $stderr == "view: <stdin>:1: .turns[0].logprobs[0]: expected number, got null" ]]
	run -3 --separate-stderr spar view <<<'{'
	[[ $stderr == "view: <stdin>:1: not JSON"* ]]
	run -1 --separate-stderr bash -c 'spar view rollouts >/dev/full'
	[ "$stderr" = "view: <stdout>: cannot write" ]
	run -0 --separate-stderr spar view </dev/null
	[ -z "$output" ]
}
