# spar env-osint: episodes of both roles, the tools, task records, and what hostile text does.
load common

RESET='{"op":"reset","session":"s","seed":"3","difficulty":"hard"}'
GENERATE='{"op":"reset","session":"s","seed":"3","difficulty":"hard","options":{"role":"generator"}}'
HIDDEN='{"op":"reset","session":"s","seed":"3","difficulty":"hard","options":{"context":"hidden"}}'

step() { printf '{"op":"step","session":"s","text":%s}\n' "$(jq -Rs . <<<"$1")"; }

# The reply to the last of some request lines.
reply() { printf '%s\n' "$@" | spar env-osint --oracle | tail -1; }

# What a text does after a reset, as a jq result of its reply.
after() { { echo "$1"; printf '%s' "$2" | jq -cRs '{op: "step", session: "s", text: .}'; } | spar env-osint | tail -1 | jq -c "$3"; }

# The oracle's text after a reset.
ideal() { reply "$1" '{"op":"oracle","session":"s"}' | jq -r .text; }

@test "env-osint: equal seeds give equal bytes, other seeds, splits and roles do not" {
	for options in '{}' '{"split":"test"}' '{"split":"validation"}' '{"role":"generator"}' '{"graph_seed":"9"}'; do
		for seed in 1 2; do
			request="{\"op\":\"reset\",\"session\":\"s\",\"seed\":\"$seed\",\"options\":$options}"
			spar env-osint <<<"$request" >"$SCRATCH/a"
			spar env-osint <<<"$request" | diff "$SCRATCH/a" -
			jq -c .messages "$SCRATCH/a" >>"$SCRATCH/all"
		done
	done
	[ "$(sort -u "$SCRATCH/all" | wc -l)" = 10 ]
}

@test "env-osint: a thousand sessions interleaved give the same bytes as one after the other" {
	sessions='range(1000) as $i | "\($i)"'
	jq -nc "$sessions | {op: \"reset\", session: ., seed: .}, {op: \"step\", session: ., text: \"{\\\"answer\\\":\\\"user_10\\\"}\"}" >"$SCRATCH/serial"
	jq -nc "($sessions | {op: \"reset\", session: ., seed: .}), ($sessions | {op: \"step\", session: ., text: \"{\\\"answer\\\":\\\"user_10\\\"}\"})" >"$SCRATCH/woven"
	spar env-osint <"$SCRATCH/serial" | sort >"$SCRATCH/a"
	spar env-osint <"$SCRATCH/woven" | sort | diff "$SCRATCH/a" -
	[ "$(wc -l <"$SCRATCH/a")" = 2000 ]
}

@test "env-osint: the oracle's answer is right, and paid with its evidence" {
	run -0 after "$RESET" "$(ideal "$RESET")" '[.reward, .done, .info.success, .info.evidence_f1, .info.end, .messages]'
	[ "$output" = '[1.55,true,true,1,"answer",[]]' ]
	# without evidence, with a wrong answer, with one edge too many
	run -0 after "$RESET" "$(ideal "$RESET" | jq -c 'del(.supporting_edges)')" '[.reward, .info.success]'
	[ "$output" = '[1,true]' ]
	run -0 after "$RESET" "$(ideal "$RESET" | jq -c '.answer = "user_10"')" '[.reward, .info.success]'
	[ "$output" = '[0.55,false]' ]
	run -0 after "$RESET" "$(ideal "$RESET" | jq -c '.supporting_edges += [["no_1","leads_to","nothing"]]')" '.reward < 1.55 and .reward > 1'
	[ "$output" = true ]
}

@test "env-osint: with a hidden context the tools lead to the answer" {
	requests=("$HIDDEN")
	for turn in 1 2 3 4 5 6; do
		run -0 reply "${requests[@]}" '{"op":"oracle","session":"s","policy":"solver"}'
		requests+=("$(jq -c '{op: "step", session: "s", text}' <<<"$output")")
		run -0 reply "${requests[@]}"
		[ "$(jq .done <<<"$output")" = false ] || break
	done
	[ "$turn" -gt 2 ]
	jq -e '.info.success and .reward == 1.55 and (.observation.tool_outputs | length) == .info.tool_calls' <<<"$output"
	# nothing of the context is told before
	run -0 reply "$HIDDEN"
	jq -e '(.messages[1].content | test("\\[") | not) and (.observation.task | has("shared_context") | not)' <<<"$output"
}

@test "env-osint: what was found and noted stands in the next prompt" {
	run -0 reply "$HIDDEN" "$(step '{"tool":"search_shared_context","args":{"query":"works_at"}}')" \
		"$(step '{"action_type":"ADD_EDGE","payload":{"src":"a","rel":"b","dst":"c"}}')" "$(step '{"src":"a","rel":"b","dst":"c"}')"
	jq -e '.messages[1].content | test("search_shared_context \\{\"query\":\"works_at\"\\}") and test("\nnoted \\[\"a\",\"b\",\"c\"\\]\n") and
		test("\nrejected: the edge is there already\n")' <<<"$output"
	jq -e '.reward == -0.05 and .info.invalid_kind == "precondition" and .observation.graph_snapshot.edges_count == 1 and
		(.observation.action_history | map(.type) == ["CALL_TOOL","ADD_EDGE","ADD_EDGE"])' <<<"$output"
}

@test "env-osint: every tool answers; a repeated call costs, an empty query gives nothing away" {
	run -0 reply '{"op":"describe"}'
	tools=$(jq -r '.actions.properties.tool.enum[]' <<<"$output")
	[ "$(wc -l <<<"$tools")" = 12 ]
	args='{"query":"user","post_id":"post_1000","user_id":"user_12","topic":"","thread_id":"thr_1000","name":"person","k":3,"time_range":[0,2000]}'
	{
		jq -c '.max_steps = 64' <<<"$HIDDEN"
		for tool in $tools; do
			jq -c '{op: "step", session: "s", action: .}' <<<"{\"tool\":\"$tool\",\"args\":$args}"
		done
	} | spar env-osint | jq -es 'length == 13 and (.[1:] | all(.error == null and .info.valid and .reward == 0 and
		(.observation.tool_outputs[-1].output | has("results") or has("result"))))'
	reply "$HIDDEN" "$(step '{"tool":"get_thread","args":{"thread_id":"thr_1000"}}')" | jq -e '.observation.tool_outputs[0].output.result.comments | length == 2'
	call=$(step '{"tool":"get_profile","args":{"user_id":"user_12"}}')
	reply "$HIDDEN" "$call" "$call" | jq -e '.reward == -0.05 and .info.valid and .info.redundant_tool_calls == 1'
	reply "$HIDDEN" "$(step '{"tool":"search_shared_context","args":{"query":""}}')" |
		jq -e '.info.invalid_kind == "parameter" and .observation.last.message == "query is empty"'
}

@test "env-osint: posts, threads and profiles tell what the graph holds" {
	question='{"op":"reset","session":"s","seed":"5","max_steps":64,"options":{"context":"hidden"}}'
	people=$(reply "$question" '{"op":"step","session":"s","action":{"tool":"search_people","args":{}}}' | jq -c '.observation.tool_outputs[0].output')
	jq -e '.count == 26 and (.results | length) == 20 and all(.results[]; .org_id | startswith("org_"))' <<<"$people"
	owner=$(jq -r '[.results[] | select(.alias_ids != [])][0].user_id' <<<"$people")
	alias=$(jq -r '[.results[] | select(.alias_ids != [])][0].alias_ids[0]' <<<"$people")
	reply "$question" "$(step "{\"tool\":\"get_profile\",\"args\":{\"user_id\":\"$alias\"}}")" |
		jq -e --arg owner "$owner" '.observation.tool_outputs[0].output.result.user_id == $owner'
	org=$(jq -r '.results[0].org_id' <<<"$people")
	reply "$question" "$(step "{\"tool\":\"search_people\",\"args\":{\"org\":\"$org\"}}")" |
		jq -e --arg org "$org" '.observation.tool_outputs[0].output | .count > 0 and all(.results[]; .org_id == $org)'
	reply "$question" "$(step '{"tool":"search_posts","args":{"query":" about ","time_range":[5000,9999]}}')" |
		jq -e '.observation.tool_outputs[0].output | .count == 12 and all(.results[]; .references | length == 1)'
	reply "$question" "$(step '{"tool":"search_threads","args":{"topic":""}}')" |
		jq -e '.observation.tool_outputs[0].output | .count == 14 and ([.results[].discusses[]] | length) == 6'
	reply "$question" "$(step '{"tool":"get_post","args":{"post_id":"nothing"}}')" "$(step '{"tool":"search_memory","args":{"query":"nothing"}}')" |
		jq -e '.observation.tool_outputs[-1].output | .count == 1 and .results[0].tool == "get_post" and .results[0].score > 0.2'
}

@test "env-osint: a generator's task climbs the ladder rung by rung" {
	good=$(ideal "$GENERATE")
	climb() { after "$GENERATE" "$(jq -c "$1" <<<"$good")" '[.info.rung, .reward, .info.success, .info.reasons[0]]'; }
	[ "$(climb .)" = '["valid",1,true,null]' ]
	[ "$(climb '{}')" = '["json",0.125,false,"missing_question_or_answer"]' ]
	[ "$(climb 'del(.question)')" = '["json",0.125,false,"missing_question_or_answer"]' ]
	[ "$(climb '.supporting_edges += .supporting_edges[:1]')" = '["json",0.125,false,"malformed_support_edges"]' ]
	[ "$(climb '.supporting_edges[0][1] = "alias_off"')" = '["schema",0.25,false,"unseen_nodes_or_edges"]' ]
	[ "$(climb '.supporting_edges |= reverse')" = '["known",0.375,false,"not_contiguous"]' ]
	[ "$(climb '.question = "Where?"')" = '["known",0.375,false,"question_mismatch"]' ]
	[ "$(climb '.question |= sub("from "; "from is by then ")')" = '["known",0.375,false,"question_mismatch"]' ]
	[ "$(climb '.answer = .supporting_edges[0][0]')" = '["contiguous",0.5,false,"answer_not_path_end"]' ]
	[ "$(climb '.question += " Is it " + .answer + "?"')" = '["known",0.375,false,"question_mismatch"]' ]
	# Blanks do not matter; other words do, though they name the same path.
	[ "$(climb '.question |= gsub(" "; "  ")')" = '["valid",1,true,null]' ]
	[ "$(climb '.question |= sub("Which node is reached from (?<a>\\S+) by (?<b>.*)\\?"; "Start at \(.a), go along \(.b)")')" = '["known",0.375,false,"question_mismatch"]' ]
	# prose is a step, and may be followed by a task
	run -0 reply "$GENERATE" "$(step 'I think that')" "$(step "$good")"
	jq -e '.info.success and .reward == 1 and .info.return == 0.95' <<<"$output"
}

@test "env-osint: whatever a model writes gets a reason" {
	why() { after "$RESET" "$1" '[.info.invalid_kind, .observation.last.message]'; }
	[ "$(why 'The answer is user_12.')" = '["parse","no JSON object found"]' ]
	[ "$(why '{"answer":"user_12","supporting_ed')" = '["parse","no JSON object found"]' ]
	[ "$(why '["answer","user_12"]')" = '["parse","no JSON object found"]' ]
	[ "$(why '{"answer":NaN}')" = '["parse","no JSON object found"]' ]
	[ "$(why '{"answer":Infinity}')" = '["parse","no JSON object found"]' ]
	[ "$(why "$(printf '{"answer":%.0s' {1..2000})1$(printf '}%.0s' {1..2000})")" = '["parse","no JSON object found"]' ]
	[ "$(why '{"answer":null}')" = '["action","action_type is missing"]' ]
	[ "$(why '{"answer":null,"supporting_edges":null}')" = '["action","action_type is missing"]' ]
	[ "$(why '{"answer":["user_12"]}')" = '["parameter","answer is missing, empty or not a text"]' ]
	[ "$(why "{\"answer\":$(printf '9%.0s' {1..400})}")" = '["parameter","answer is missing, empty or not a text"]' ]
	[ "$(why '{"answer":" \u0022.. "}')" = '["parameter","answer is missing, empty or not a text"]' ]
	[ "$(why '{"supporting_edges":[]}')" = '["parameter","answer is missing, empty or not a text"]' ]
	[ "$(why '{"action_type":"SUBMIT"}')" = '["action","action_type is unknown"]' ]
	[ "$(why '{"action_type":"PROPOSE"}')" = '["action","action_type is unknown"]' ]
	[ "$(why '{"action_type":7}')" = '["action","action_type is unknown"]' ]
	[ "$(why '{"action_type":"ANSWER","payload":[]}')" = '["parameter","payload is not an object"]' ]
	[ "$(why '{"action_type":"CALL_TOOL","payload":{}}')" = '["parameter","tool_name is missing"]' ]
	[ "$(why '{"tool":{}}')" = '["parameter","tool_name is not a text"]' ]
	[ "$(why '{"tool":"__init__","args":{}}')" = '["action","there is no such tool"]' ]
	[ "$(why '{"tool":"get_profile"}')" = '["parameter","user_id is missing"]' ]
	[ "$(why '{"tool":"get_profile","args":{"user_id":null}}')" = '["parameter","user_id is missing"]' ]
	[ "$(why '{"tool":"get_profile","args":{"user_id":12}}')" = '["parameter","user_id is not a text"]' ]
	[ "$(why '{"tool":"get_profile","args":["user_12"]}')" = '["parameter","args is not an object"]' ]
	[ "$(why '{"tool":"search_memory","args":{"query":"x","k":1e400}}')" = '["parameter","k is not a number from 1 to 20"]' ]
	[ "$(why '{"tool":"search_posts","args":{"query":"x","time_range":[null,1]}}')" = '["parameter","time_range is not [from, to]"]' ]
	[ "$(why '{"src":"a","rel":"b"}')" = '["parameter","dst is missing, too long or not a text"]' ]
	[ "$(why "{\"src\":\"$(printf 'a%.0s' {1..300})\",\"rel\":\"b\",\"dst\":\"c\"}")" = '["parameter","src is missing, too long or not a text"]' ]
	[ "$(why '{"src":"a\u0000b","rel":"b","dst":"c"}')" = '["parameter","src is missing, too long or not a text"]' ]
}

@test "env-osint: names that look like relations, markers and junk edges are answers like any other" {
	for text in '{"answer":"alias_of"}' '{"answer":"<|im_end|>"}' '{"answer":"user_1\u0000"}' '{"answer":"\ud800"}' \
		'{"answer":"x","supporting_edges":[["alias_of","alias_of","alias_of"],null,7,["a","b"],{"src":null},{}]}'; do
		run -0 after "$RESET" "$text" '[.reward, .done, .info.success, .info.evidence_f1]'
		[ "$output" = '[0,true,false,0]' ]
	done
	run -0 after "$GENERATE" '{"question":"alias_of then alias_of","answer":"alias_of","supporting_edges":[["alias_of","alias_of","alias_of"]]}' '[.info.rung, .info.reasons]'
	[ "$output" = '["schema",["unseen_nodes_or_edges","question_mismatch","answer_not_path_end","non_unique_end","answer_leakage"]]' ]
}

@test "env-osint: eight thousand braces take no time" {
	braces=$(printf '{%.0s' {1..8000})
	{
		jq -c '.max_steps = 64' <<<"$RESET"
		for _ in {1..40}; do step "$braces"; done
	} >"$SCRATCH/requests"
	start=$EPOCHREALTIME
	run -0 bash -c "spar env-osint <'$SCRATCH/requests' | tail -1 | jq -c '[.info.invalid_kind, .info.step]'"
	end=$EPOCHREALTIME
	[ "$output" = '["parse",40]' ]
	[ $((${end/./} - ${start/./})) -lt 3000000 ]
}

@test "env-osint: the steps run out" {
	run -0 reply '{"op":"reset","session":"s","seed":"3","max_steps":2}' "$(step '')" "$(step '')"
	jq -e '.done and .info.end == "max_steps" and .info.success == false and .reward == -0.15 and .info.return == -0.2' <<<"$output"
	run -0 reply '{"op":"reset","session":"s","seed":"3","max_steps":1,"options":{"role":"generator"}}' "$(step '')"
	jq -e '.done and .info.end == "max_steps" and .info.rung == "not_json" and .info.reasons == ["not_json"] and .reward == -0.05' <<<"$output"
}

@test "env-osint: no truth without --oracle, and with it only after the end" {
	{ echo "$RESET"; step 'no'; step '{"answer":"user_10"}'; echo '{"op":"oracle","session":"s"}'; } >"$SCRATCH/requests"
	[ "$(spar env-osint <"$SCRATCH/requests" | grep -c truth)" = 0 ]
	[ "$(printf '%s\n' "$RESET" '{"op":"oracle","session":"s"}' | spar env-osint | jq -r 'select(.op == "oracle").error.code')" = forbidden ]
	spar env-osint --oracle <"$SCRATCH/requests" | jq -es '(.[:2] | tostring | test("truth") | not) and (.[2].info.truth.answer | length > 0)'
}

@test "env-osint: wrong options of a reset are named" {
	refused() { jq -nc --argjson o "$1" '{op: "reset", session: "s", seed: 1, options: $o}' | spar env-osint | jq -r '.error | .code + ": " + .message'; }
	[ "$(refused '{"rol":"generator"}')" = "bad_request: .options: there is no option rol" ]
	[ "$(refused '{"role":"judge"}')" = "bad_request: .options.role: there is no such role" ]
	[ "$(refused '{"role":7}')" = "bad_request: .options.role: expected string, got number" ]
	[ "$(refused '{"split":"dev"}')" = "bad_request: .options: .split: must be train, validation or test" ]
	[ "$(refused '{"n_users":3}')" = "bad_request: .options: .n_users: must be 4 to 512" ]
	[ "$(refused '{"alias_density":2}')" = "bad_request: .options: .alias_density: must be 0 to 1" ]
	[ "$(refused '{"max_edges":65}')" = "bad_request: .options.max_edges: must be 8 to 64" ]
	[ "$(refused '{"graph_seed":-1}' | cut -d: -f1,2)" = "bad_request: .options.graph_seed" ]
	[ "$(refused '{"context":"shared"}')" = "bad_request: .options.context: there is no such context" ]
}

@test "env-osint: a task record starts the episode that its prompt shows" {
	spar env-osint --tasks=9 --seed=11 --role=generator --split=test >"$SCRATCH/episodes"
	spar env-osint --tasks=9 --seed=11 --role=generator --split=test --messages >"$SCRATCH/prompts"
	[ "$(jq -r .id "$SCRATCH/episodes" | sort -u | wc -l)" = 9 ]
	diff <(jq -r .id "$SCRATCH/episodes") <(jq -r .id "$SCRATCH/prompts")
	jq -c '{op: "reset", session: "s", seed, difficulty, max_steps, options}' "$SCRATCH/episodes" | spar env-osint | jq -c .messages >"$SCRATCH/played"
	diff "$SCRATCH/played" <(jq -c .messages "$SCRATCH/prompts")
	for records in episodes prompts; do
		jq -e --slurpfile schema "$BATS_TEST_DIRNAME/../schemas/task.schema.json" 'keys - ($schema[0].properties | keys) == []' "$SCRATCH/$records"
	done
	jq -e '(.context | length) <= 20 and (.supporting_edges - .context) == [] and .answer == .supporting_edges[-1][2]' "$SCRATCH/prompts"
}

@test "env-osint: the benchmark: ten of each level, no question twice, one graph" {
	spar env-osint --tasks=30 --levels --split=test --seed=2026 --messages >"$SCRATCH/levels"
	[ "$(jq -r .difficulty "$SCRATCH/levels" | uniq -c | xargs)" = "10 easy 10 medium 10 hard" ]
	[ "$(jq -r .question "$SCRATCH/levels" | sort -u | wc -l)" = 30 ]
	[ "$(jq -c .graph "$SCRATCH/levels" | sort -u)" = '{"seed":"2026","split":"test","n_users":40,"alias_density":0.35}' ]
	jq -e '.hops as $n | .answer as $a | .question | contains($a) | not' "$SCRATCH/levels"
	spar env-osint --tasks=30 --levels --split=test --seed=2026 --messages | diff "$SCRATCH/levels" -
	run -1 --separate-stderr spar env-osint --tasks=3000 --levels --n-users=4
	[[ $stderr == "env-osint: the graph of seed 7 has only "*" different questions" ]]
}

@test "env-osint: the benchmark's evidence is the path, nothing pads it, and all of it can be given (W23)" {
	spar env-osint --tasks=30 --levels --split=test --seed=2026 --messages >"$SCRATCH/levels"
	jq -e '(.supporting_edges | length) == .hops and .hops <= 4 and (.supporting_edges - .context) == [] and
		([.supporting_edges, .supporting_edges[1:]] | transpose | map(select(.[1])) |
			all([.[0][0], .[0][2]] - [.[1][0], .[1][2]] | length < 2))' "$SCRATCH/levels" >"$SCRATCH/ok"
	[ "$(grep -c true "$SCRATCH/ok")" = 30 ]
	jq -c '{type: "rollout", group: .id, sample: 0, group_size: 1, task: ., turns: [{completion: ({supporting_edges, answer} | tojson)}]}' "$SCRATCH/levels" |
		spar score -q --scorer=osint-answerer >"$SCRATCH/scored"
	jq -e -s 'length == 30 and all(.verdict.correct and .verdict.graph_f1 == 1)' "$SCRATCH/scored"
}

@test "env-osint: demonstrations of both roles" {
	for args in '' '--context=hidden' '--role=generator'; do
		spar sft-collect --env="spar env-osint --oracle $args" -n 30 --quiet --summary="$SCRATCH/s" >"$SCRATCH/sft"
		jq -e '.oracle_success_rate == 1 and .num_successful_episodes == 30' "$SCRATCH/s"
		jq -e '.completion | fromjson | type == "object"' "$SCRATCH/sft" >"$SCRATCH/ok"
		[ "$(wc -l <"$SCRATCH/ok")" -ge 30 ]
	done
}

@test "env-osint: prompts and replies fit the embedded model" {
	for role in answerer generator; do
		spar sft-collect --env="spar env-osint --oracle --role=$role" -n 60 --quiet --model="$TINY" |
			jq -r '.prompt + .completion | @base64' | while read -r text; do
			base64 -d <<<"$text" | spar text encode --model="$TINY" | jq length
		done | sort -n | tail -1 >"$SCRATCH/most"
		[ "$(cat "$SCRATCH/most")" -lt 1000 ]
	done
}

@test "env-osint: the reference profile pays as the original: junk edges too" {
	{ echo "$RESET"; step '{"src":"a","rel":"b","dst":"c"}'; step '{"src":"a","rel":"b","dst":"c"}'; step '{"tool":"nothing"}'; step '{"answer":"no"}'; } >"$SCRATCH/requests"
	spar env-osint --profile=reference <"$SCRATCH/requests" | jq -es 'map(.reward) | .[1] > 0.38 and .[2] == -0.15 and .[3] == -0.25 and .[4] > 0.2'
	spar env-osint <"$SCRATCH/requests" | jq -es 'map(.reward) | .[1:] == [0, -0.05, -0.05, 0]'
}

@test "env-osint: MetaQA's questions: evidence against the arrows, any listed answer, names with blanks and dots" {
	warning="env-osint: warning: 1 questions are left out: kb.txt does not hold what they are about"
	run -0 --separate-stderr spar env-osint --metaqa="$DATA/metaqa" --tasks=40 --messages
	[ "$stderr" = "$warning" ]
	jq -es '(map(.question) | unique | length) == 5 and (map(.family) | unique) == ["metaqa_1-hop","metaqa_2-hop"] and
		all((.supporting_edges - .context) == [] and (.supporting_edges | length) == .hops)' <<<"$output"
	jq -es 'map(select(.question | startswith("which films")))[0].supporting_edges ==
		[["North by Night","starred_actors","Tom Vale"],["The Quiet Harbour","starred_actors","Tom Vale"]]' <<<"$output"
	for context in shown hidden; do
		spar sft-collect --env="spar env-osint --oracle --metaqa=$DATA/metaqa --context=$context" -n 30 --quiet --summary="$SCRATCH/s" >"$SCRATCH/sft" 2>"$SCRATCH/err"
		jq -e '.oracle_success_rate == 1' "$SCRATCH/s"
		[ "$(cat "$SCRATCH/err")" = "$warning" ]
	done
	seed=$(jq -r 'select(.question | startswith("who acted in [")) | .id | split("-")[3]' <<<"$output" | head -1)
	for answer in 'Tom Vale' 'Mira Holt' 'Ana Ruiz'; do
		printf '%s\n' "{\"op\":\"reset\",\"session\":\"s\",\"seed\":\"$seed\",\"difficulty\":\"easy\"}" "$(step "{\"answer\":\"$answer\"}")" |
			spar env-osint --metaqa="$DATA/metaqa" 2>/dev/null | tail -1 | jq .info.success
	done | xargs >"$SCRATCH/verdicts"
	[ "$(cat "$SCRATCH/verdicts")" = "true true false" ]
	[ "$(spar env-osint --metaqa="$DATA/metaqa" --split=test --tasks=1 --messages | jq -r .question)" = "when was [Paper Lanterns] released" ]
}

@test "env-osint: MetaQA's tools" {
	play() { { echo '{"op":"reset","session":"s","seed":"1"}'; step "$1"; } | spar env-osint --metaqa="$DATA/metaqa" 2>/dev/null | tail -1 | jq -c '.observation.tool_outputs[0].output'; }
	[ "$(play '{"tool":"get_profile","args":{"user_id":"Ana Ruiz"}}' | jq -c .result.connections)" = '["The Quiet Harbour","Paper Lanterns"]' ]
	[ "$(play '{"tool":"search_posts","args":{"query":"starred"}}' | jq .count)" = 3 ]
	[ "$(play '{"tool":"get_mentions","args":{"user_id":"Drama"}}' | jq -r '.results[].text')" = "Paper Lanterns has_genre Drama" ]
}

@test "env-osint: files of MetaQA that are wrong are named with their line" {
	bad() { run "$1" --separate-stderr spar env-osint --metaqa="$SCRATCH/m" --tasks=1; }
	run -1 --separate-stderr spar env-osint --metaqa="$SCRATCH/m" --tasks=1
	[ "$stderr" = "env-osint: $SCRATCH/m/kb.txt: No such file or directory" ]
	mkdir -p "$SCRATCH/m/1-hop/vanilla"
	printf 'a|b|c\na|b\n' >"$SCRATCH/m/kb.txt"
	bad -3
	[ "$stderr" = "env-osint: $SCRATCH/m/kb.txt:2: expected subject|relation|object" ]
	: >"$SCRATCH/m/kb.txt"
	bad -3
	[ "$stderr" = "env-osint: $SCRATCH/m/kb.txt: there is no fact in it" ]
	printf 'a|b|c\r\n' >"$SCRATCH/m/kb.txt"
	bad -1
	[ "$stderr" = "env-osint: $SCRATCH/m: no question of split train can be used" ]
	for line in 'what' 'what [a]' 'what a\tc' 'what [a\tc' 'what [a]\t'; do
		printf "what [a]?\tc\n\n$line\n" >"$SCRATCH/m/1-hop/vanilla/qa_train.txt"
		bad -3
		[ "$stderr" = "env-osint: $SCRATCH/m/1-hop/vanilla/qa_train.txt:3: expected a question with a [topic], a tab, answers" ]
	done
	printf 'what [a]?\tc' >"$SCRATCH/m/1-hop/vanilla/qa_train.txt"
	bad -0
	run -1 --separate-stderr spar env-osint --metaqa="$SCRATCH/m" --tasks=1 --difficulty=hard
	[ "$stderr" = "env-osint: no question of difficulty hard whose evidence fits a context" ]
	run -2 --separate-stderr spar env-osint --metaqa="$SCRATCH/m" --role=generator
}

@test "env-osint: a thousand changes of a good reply, each an action or a refusal" {
	mkdir "$SCRATCH/cuts"
	ideal "$RESET" >"$SCRATCH/cuts/answer"
	ideal "$GENERATE" >"$SCRATCH/cuts/task"
	ideal "$HIDDEN" >"$SCRATCH/cuts/call"
	echo '{"src":"user_12","rel":"works_at","dst":"org_1"}' >"$SCRATCH/cuts/edge"
	"$SPAR_BUILD/fuzz/osint-action" -n 250 "$SCRATCH"/cuts/*
}

@test "env-osint: usage and a full disk" {
	run -2 --separate-stderr spar env-osint --role=judge
	run -2 --separate-stderr spar env-osint operand
	[[ $stderr == "env-osint: takes no operands: operand"* ]]
	run -2 --separate-stderr spar env-osint --tasks=2 --seed=18446744073709551615
	run -1 --separate-stderr bash -c "spar env-osint --tasks=2 >/dev/full"
	[ "$stderr" = "env-osint: <stdout>: No space left on device" ]
	run -1 --separate-stderr bash -c "spar env-osint >/dev/full <<<'$RESET'"
}

seeding() { jq -n "$1" >"$SCRATCH/seed.json"; }
SEED='{seeding: {seeded_nodes: [{node_id: "user_mara", node_type: "user"}],
	seeded_edges: [{src: "alias_raven", rel: "alias_of", dst: "user_mara", confidence: 0.9}, {src: "user_mara", rel: "works_at", dst: "org_helios"}],
	seeded_questions: [{question: "Where does raven work?", answer: "org_helios", metadata: {difficulty: "high"},
		supporting_edges: [{src: "alias_raven", rel: "alias_of", dst: "user_mara"}, {src: "user_mara", rel: "works_at", dst: "org_helios"}]},
		{question: "Which node is reached from alias_raven by alias_of?"}]}}'

@test "env-osint: a seed file: its edges are in every graph, its questions come first in training" {
	seeding "$SEED"
	run -0 --separate-stderr spar env-osint --seed-file="$SCRATCH/seed.json" --tasks=3 --messages
	[ -z "$stderr" ]
	jq -es 'map([.source, .difficulty, .hops, .answer])[:2] == [["seeding", "hard", 2, "org_helios"], ["seeding", "easy", 1, "user_mara"]] and
		length == 3 and .[2].source == "environment" and all(.supporting_edges - .context == []) and (map(.id) | unique | length) == 3' <<<"$output"
	# The records say what is needed to score them.
	jq -c '{type: "rollout", group: .id, sample: 0, group_size: 1, task: ., turns: [{completion: ({supporting_edges, answer} | tojson)}]}' <<<"$output" |
		spar score -q --scorer=osint-answerer | jq -es 'all(.verdict.correct and .verdict.graph_f1 == 1)'
	# No evaluation, no generator, no benchmark is given them.
	for args in --split=test --role=generator '--levels --tasks=3'; do
		spar env-osint --seed-file="$SCRATCH/seed.json" --tasks=2 --messages $args | jq -es 'all(.source == "environment" and (.graph.seeded_edges | length) == 2)'
	done
	{ echo "$RESET"; step '{"tool":"get_profile","args":{"user_id":"user_mara"}}'; } | spar env-osint --seed-file="$SCRATCH/seed.json" |
		jq -es '.[1].observation.tool_outputs[0].output.result.org_id == "org_helios"'
	jq -c .seeding "$SCRATCH/seed.json" >"$SCRATCH/inner.json"
	diff <(spar env-osint --seed-file="$SCRATCH/inner.json" --tasks=3 --messages) <(echo "$output")
}

@test "env-osint: what is wrong in a seed file is named" {
	wrong() { seeding "$SEED | .seeding |= ($1)"; spar env-osint --seed-file="$SCRATCH/seed.json" --tasks=9 --messages 2>&1 >"$SCRATCH/out" | sed "s,.*seed.json: ,,;s,^env-osint: ,,"; }
	[ "$(wrong '.seeded_edge = []')" = ".seeded_edge: there is no such key" ]
	[ "$(wrong '.seeded_edges = {}')" = ".seeded_edges: expected array, got object" ]
	[ "$(wrong '.seeded_edges[1] = 7')" = ".seeded_edges[1]: expected object, got number" ]
	[ "$(wrong '.seeded_edges[1].rel = null')" = ".seeded_edges[1].rel: expected string, got null" ]
	[ "$(wrong '.seeded_edges[1].dst = ""')" = ".seeded_edges[1].dst: is empty or too long" ]
	[ "$(wrong '.seeded_edges[0].weight = 1')" = ".seeded_edges[0].weight: there is no such key" ]
	[ "$(wrong '.seeded_nodes[0].node_type = "org"')" = ".seeded_nodes[0].node_type: a node of this name is of kind user" ]
	[ "$(wrong 'del(.seeded_questions[0].answer)')" = "seeded_questions[0]: .answer: missing, and the graph has none" ]
	[ "$(wrong '.seeded_questions[0].answer = "nobody"')" = "seeded_questions[0]: .answer: not a node of the graph" ]
	[ "$(wrong 'del(.seeded_questions[0].supporting_edges)')" = "seeded_questions[0]: .supporting_edges: expected array, got nothing" ]
	[ "$(wrong '.seeded_questions[0].supporting_edges = []')" = "seeded_questions[0]: .supporting_edges: 1 to 8, got 0" ]
	[ "$(wrong '.seeded_questions[0].supporting_edges[1].dst = "org_x"')" = "seeded_questions[0]: .supporting_edges[1]: not an edge of the graph" ]
	[ "$(wrong '.seeded_questions[0].metadata.difficulty = "fair"')" = "seeded_questions[0]: .metadata.difficulty: expected easy, medium or hard" ]
	[ "$(wrong '.seeded_questions[1].answer = "org_helios"')" = "seeded_questions[1]: .answer: the graph says user_mara" ]
	[ "$(wrong '.seeded_edges += [{src: "alias_raven", rel: "alias_of", dst: "user_x"}]')" = "seeded_questions[1]: .question: the graph has several answers to it" ]
	[ "$(wrong '.llm_generated_edge_budget = 6')" = "there are keys without effect, such as llm_generated_edge_budget" ]
	echo '{"seeding":[]}' >"$SCRATCH/seed.json"
	run -3 --separate-stderr spar env-osint --seed-file="$SCRATCH/seed.json"
	[ "$stderr" = "env-osint: $SCRATCH/seed.json: there is no seeding block" ]
	run -2 --separate-stderr spar env-osint --seed-file=x --metaqa=y
}
