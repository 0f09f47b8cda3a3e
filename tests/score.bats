load common

five() { printf '{"id":"%s","x":1}\n' a b c d e; }

@test "score: null abstains; none, two and errors are errors of their line, which stays in its place (B19)" {
	five >"$SCRATCH/in"
	run -3 --separate-stderr spar score --reward 'r=if .id=="b" then null elif .id=="c" then empty
		elif .id=="d" then (1,2) elif .id=="e" then error("boom") else .x end' "$SCRATCH/in"
	[ "${#lines[@]}" = 5 ]
	[ "${lines[0]}" = '{"id":"a","x":1,"rewards":{"r":1},"reward":1}' ]
	[ "${lines[1]}" = '{"id":"b","x":1,"rewards":{"r":null},"reward":null}' ]
	[ "${lines[2]}" = '{"id":"c","x":1,"rewards":{"r":null},"reward":null,"reward_error":"r: no value"}' ]
	[ "${lines[3]}" = '{"id":"d","x":1,"rewards":{"r":null},"reward":null,"reward_error":"r: more than one value"}' ]
	[ "${lines[4]}" = '{"id":"e","x":1,"rewards":{"r":null},"reward":null,"reward_error":"r: boom"}' ]
	[[ $stderr == *"in:5: r: boom"*"3 rollouts got no reward because of an error"* ]]
	run -0 --separate-stderr spar score --skip-bad --reward 'r=if .id=="e" then error("boom") else .x end' "$SCRATCH/in"
	[ "${#lines[@]}" = 5 ]
}

@test "score: only finite numbers, true and false are rewards; the error shows value and type (B20)" {
	printf '{"x":0,"t":"%s"}\n' nan >"$SCRATCH/in"
	while IFS=$'\t' read -r program want; do
		run -3 --separate-stderr spar score --quiet --reward "r=$program" "$SCRATCH/in"
		echo "$program -> $output"
		[[ $output == *"\"reward\":null,\"reward_error\":\"r: $want"*'"}' ]]
	done <<'END'
"3"	not a number: string \"3\"
[4]	not a number: array [4]
{a:1}	not a number: object {\"a\":1}
.t|tonumber	not a number: NaN
1e1000	not a number: infinity
-1e1000	not a number: -infinity
1/.x	number (1) and number (0) cannot be divided
1/0	Division by zero
.x.y	Cannot index number
halt	the program halted
input	no other input
error({a:1})	{\"a\":1}
END
	while IFS=$'\t' read -r program want; do
		run -0 --separate-stderr spar score --quiet --reward "r=$program" "$SCRATCH/in"
		[[ $output == *"\"rewards\":{\"r\":$want},\"reward\":$want}" ]]
	done <<'END'
true	1
false	0
null+1	1
"1e3"|tonumber	1000
[]|add	null
[debug]|length	1
END
}

@test "score: several values from within path() do not upset the next record (B20)" {
	five >"$SCRATCH/in"
	run -3 --separate-stderr spar score --quiet --reward 'r=path(..)' "$SCRATCH/in"
	[ "${#lines[@]}" = 5 ]
	run -3 --separate-stderr spar score --quiet --reward 'r=repeat(1)' <<<'{}'
	[[ $output == *"more than one value"* ]]
}

@test "score: the reward is the weighted sum over what did not abstain" {
	printf '%s\n' '{"a":1,"b":0.2}' '{"a":0,"b":0.8}' '{"a":1,"b":null}' '{"a":null,"b":null}' >"$SCRATCH/in"
	run -0 --separate-stderr spar score --quiet --reward a=.a --reward b:0.5=.b "$SCRATCH/in"
	[ "$(jq -c .reward <<<"$output" | paste -sd,)" = 1.1,0.4,1,null ]
	[ "${lines[2]}" = '{"a":1,"b":null,"rewards":{"a":1,"b":null},"reward":1}' ]
	run -3 --separate-stderr spar score --quiet --reward a:1e308=9e9 "$SCRATCH/in"
	[[ $output == *"the weighted sum is not finite"* ]]
}

@test "score: env is the environment's return, the default, and abstains without an environment" {
	printf '%s\n' '{"type":"rollout","env":{"return":0.25}}' '{"type":"rollout","env":null}' '{"type":"task","x":1}' \
		'{"type":"batch","step":0,"groups":1}' >"$SCRATCH/in"
	run -0 --separate-stderr spar score "$SCRATCH/in"
	[ "${lines[0]}" = '{"type":"rollout","env":{"return":0.25},"rewards":{"env":0.25},"reward":0.25}' ]
	[ "${lines[1]}" = '{"type":"rollout","env":null,"rewards":{"env":null},"reward":null}' ]
	[ "${lines[2]}" = '{"type":"task","x":1}' ]
	[ "${lines[3]}" = '{"type":"batch","step":0,"groups":1}' ]
	[ "$stderr" = "score: 2 rollouts, mean reward 0.25, env 0.25, 1 without reward" ]
	run -0 --separate-stderr spar score --quiet --reward env:-2 <<<"${lines[0]}"
	[[ $output == *'"reward":-0.5}' ]]
	run -2 --separate-stderr spar score <<<'{"type":"rollout"}'
	run -3 --separate-stderr spar score <<<'{"type":"rollout","env":{"return":"x"}}'
	[[ $output == *'"reward_error":"env: .env.return: expected number, got string"}' ]]
}

@test "score: a failed episode passes with a null reward and is not judged" {
	run -0 --separate-stderr spar score --quiet --reward 'r=error("not asked")' <<<'{"type":"rollout","error":"timeout"}'
	[ "$output" = '{"type":"rollout","error":"timeout","reward":null}' ]
}

@test "score: a second scoring replaces the first and its error" {
	run -3 --separate-stderr spar score --quiet --reward 'r="x"' <<<'{"y":1}'
	run -0 --separate-stderr spar score --quiet --reward 's=.y' <<<"$output"
	[ "$output" = '{"y":1,"rewards":{"s":1},"reward":1,"reward_error":null}' ]
}

@test "score: a program from a file; mistakes in --reward are usage errors" {
	echo '# two lines
	.x * 2' >"$SCRATCH/double.jq"
	run -0 --separate-stderr spar score --quiet --reward "r=@$SCRATCH/double.jq" <<<'{"x":4}'
	[[ $output == *'"reward":8}' ]]
	for spec in 'r=.[' 'r=nosuch(1)' 'r' '=1' 'r:x=1' 'r:=1' 'r s=1' 'r:nan=1'; do
		run -2 --separate-stderr spar score --reward "$spec" <<<'{}'
		[ "${#stderr_lines[@]}" = 1 ]
		[ -z "$output" ]
	done
	run -2 --separate-stderr spar score --reward r=1 --reward r=2 <<<'{}'
	[ "$stderr" = "score: two rewards are called r" ]
	run -1 --separate-stderr spar score --reward r=@/nonexistent <<<'{}'
}
