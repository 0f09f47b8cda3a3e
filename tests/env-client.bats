# Environments that speak out of turn, or not at all: what the tools say, and that nothing waits for ever.
load common

# Run sft-collect against an environment given as shell text; 1 s is the limit for a reply.
collect() { timeout 30 spar sft-collect --quiet --episodes=2 --env-timeout=1 --env="$1"; }

@test "client: a banner on standard output is an error that names environment, line and record (B16)" {
	env='sh -c '\''echo ready; while read l; do echo "{\"obs\":\"ok\",\"done\":true,\"reward\":1}"; done'\'
	run -1 --separate-stderr collect "$env"
	[ -z "$output" ]
	[ "${#stderr_lines[@]}" = 1 ]
	[[ $stderr == "sft-collect: task 4242: environment 'sh -c "*": describe: "*": 'ready'" ]]
}

@test "client: output that is not line-buffered: a time limit, and a hint (B16)" {
	run -1 --separate-stderr collect "awk '{print \"{\\\"obs\\\":\\\"ok\\\",\\\"done\\\":true}\"}' | cat"
	[[ $stderr == *"describe: no reply within 1 s, is its output line-buffered?" ]]
}

@test "client: an environment that exits at once: its status, and no death by signal (B16)" {
	for env in true 'exit 5' 'spar env-cern --no-such-option 2>/dev/null'; do
		echo "$env"
		run -1 --separate-stderr collect "$env"
		[ "${#stderr_lines[@]}" = 1 ]
		[[ $stderr == *"describe: exited with status "[025]", 1 request unanswered" ]]
	done
}

@test "client: two lines for one request are an error, not answers one behind (B16)" {
	run -1 --separate-stderr collect 'spar env-cern --oracle | while read -r l; do printf "%s\n" "$l" "$l"; done'
	[ -z "$output" ]
	[[ $stderr == "sft-collect: environment 'spar env-cern"* ]]
	[[ $stderr == *"a line without a request: '{"* || $stderr == *": bad reply to reset: "* ]]
}

@test "client: an environment that dies in the middle: how many requests it leaves, and what was being played" {
	run -1 --separate-stderr collect 'for i in $(seq 6); do read -r l; printf "%s\n" "$l"; done | spar env-cern --oracle'
	[[ $stderr == *"task 424"[23]*" exited with status 0, "[12]" request"*" unanswered" ]]
}

@test "client: a refusal is told with its code" {
	run -1 --separate-stderr collect 'spar env-cern'
	[ "$stderr" = "sft-collect: environment 'spar env-cern': task 4242 sample 0: forbidden: .policy: oracle is answered only with --oracle" ]
	run -1 --separate-stderr spar sft-collect -q --difficulty=harder
	[[ $stderr == *"task 4242 sample 0: bad_request: .difficulty: there is no such difficulty" ]]
	run -1 --separate-stderr spar sft-collect -q --policy=best
	[[ $stderr == *"bad_request: .policy: there is no such policy" ]]
}

@test "client: spar is found without being on PATH; the environment's messages pass through" {
	run -0 --separate-stderr env PATH=/usr/bin:/bin "$SPAR_BUILD/libexec/spar/sft-collect" -q --episodes=1 \
		--env='echo hello >&2; spar env-cern --oracle'
	[ "$stderr" = hello ]
	[ "${#lines[@]}" = 7 ]
}

@test "client: what the environment's shell started does not outlive the run" {
	run -1 collect "echo \$\$ >'$SCRATCH/pid'; sleep 1000; true"
	run -1 kill -0 "$(cat "$SCRATCH/pid")"
}

@test "client: the environment shown in spar-env(7) works" {
	sed -n '/^foreach inputs/,/^\.Ed/p' "$BATS_TEST_DIRNAME/../man/spar-env.7" | sed '/^\.Ed/d;s/\\e/\\/g' >"$SCRATCH/odd.jq"
	run -0 bash -c "printf '%s\n' '{\"op\":\"describe\"}' '{\"op\":\"reset\",\"session\":\"a\",\"seed\":\"7\"}' '{\"op\":\"step\",\"session\":\"a\",\"text\":\"Yes!\"}' |
		jq --unbuffered -ncf '$SCRATCH/odd.jq'"
	[ "$(jq -c .protocol <<<"${lines[0]}")" = 1 ]
	[ "$(jq -r '.messages[0].content' <<<"${lines[1]}")" = "Is 7 odd? yes or no" ]
	[ "$(jq -c '[.reward, .done, .info.success]' <<<"${lines[2]}")" = '[1,true,true]' ]
	# and speaks well enough for the client, up to the policy it does not have
	run -1 --separate-stderr collect "jq --unbuffered -ncf '$SCRATCH/odd.jq'"
	[[ $stderr == *"task 4242 sample 0: bad reply to oracle: .text: expected string"* ]]
}
