load common

CONFIGS=$BATS_TEST_DIRNAME/../pipelines/configs

@test "self-play: every shipped configuration is good" {
	for config in "$CONFIGS"/*.json; do
		echo "$config"
		run -0 --separate-stderr spar self-play "$config"
		[ -z "$stderr" ]
		jq -e '.rounds >= 1' <<<"$output"
	done
}

@test "self-play: defaults are the reference's; what is given stands; blocks follow the keys above them" {
	echo '{}' >"$SCRATCH/c.json"
	run -0 --separate-stderr spar self-play "$SCRATCH/c.json"
	[ "$(jq -c '[.rounds, .dry_run, .pipeline_mode, .generator_phase.learning_rate, .answerer_phase.learning_rate,
		.answerer_phase.max_completion_length, .lora.target_modules[0], .swarm_v2.validation.max_support_edges]' <<<"$output")" = \
		'[3,true,"legacy",5e-06,3e-06,192,"q_proj",8]' ]
	echo '{"max_support_edges":11,"answerer_phase":{"max_steps":5}}' >"$SCRATCH/c.json"
	run -0 --separate-stderr spar self-play "$SCRATCH/c.json"
	[ "$(jq -c '[.swarm_v2.validation.max_support_edges, .answerer_phase.max_steps, .generator_phase.max_steps]' <<<"$output")" = '[11,5,64]' ]
	# Its own output is a configuration that means the same.
	echo "$output" >"$SCRATCH/again.json"
	run -0 --separate-stderr spar self-play "$SCRATCH/again.json"
	[ "$output" = "$(cat "$SCRATCH/again.json")" ]
}

@test "self-play: 30 wrong configurations, each with its message" {
	while IFS='|' read -r config want; do
		[ -n "$config" ] || continue
		echo "$config" >"$SCRATCH/c.json"
		echo "$config"
		run -3 --separate-stderr spar self-play "$SCRATCH/c.json"
		[ -z "$output" ]
		echo "$stderr"
		[ "$stderr" = "self-play: $SCRATCH/c.json: $want" ]
	done <<'END'
{"round":2}|round: no such key; did you mean rounds
{"generator_phase":{"max_step":2}}|generator_phase.max_step: no such key; did you mean generator_phase.max_steps
{"generator_phase":{"learnign_rate":2}}|generator_phase.learnign_rate: no such key; did you mean generator_phase.learning_rate
{"swarm_v2":{"planner":1}}|swarm_v2.planner: no such key
{"rounds":"2"}|rounds: expected number, got string
{"rounds":2.5}|rounds: expected a whole number, got 2.5
{"rounds":0}|rounds: 0 is not within 1 and 999
{"seed_tasks_per_round":10001}|seed_tasks_per_round: 10001 is not within 1 and 10000
{"dry_run":"yes"}|dry_run: expected boolean, got string
{"dry_run":null}|dry_run: expected boolean, got null
{"generator_phase":3}|generator_phase: expected object, got number
{"model_topology":"single"}|model_topology: 'single' is none of dual shared
{"pipeline_mode":"swarm"}|pipeline_mode: 'swarm' is none of legacy swarm_v2
{"lora":{"target_modules":"q_proj,v_proj"}}|lora.target_modules: expected array, got string
{"lora":{"target_modules":[]}}|lora.target_modules: it is empty
{"lora":{"target_modules":["q_proj",1]}}|lora.target_modules[1]: expected string, got number
{"output_dir":"my runs"}|output_dir: 'my runs': ' ' cannot stand in a name
{"max_fallback_share":1.5}|max_fallback_share: 1.5 is not within 0 and 1
{"swarm_v2":{"validation":{"max_path_hops":5}}}|swarm_v2.validation.max_path_hops: 5 is not within 1 and 4
{"max_support_edges":3}|swarm_v2.validation.max_support_edges: 3 edges do not hold a path of max_path_hops 4
{"swarm_v2":{"shared_context":{"max_nodes":4}}}|swarm_v2.shared_context.max_nodes: 4 nodes do not hold a path of max_path_hops 4
{"generator_phase":{"num_generations":1}}|generator_phase.num_generations: a group of 1 has nothing to be compared with
{"answerer_phase":{"num_generations":3}}|answerer_phase.num_generations: a step of 8 completions (per_device_train_batch_size 2, gradient_accumulation_steps 4) is no whole number of groups of 3
{"answerer_phase":{"dataloader_num_workers":0}}|answerer_phase.dataloader_persistent_workers: true, but dataloader_num_workers is 0
{"answerer_phase":{"temperature":0}}|answerer_phase.temperature: greedy samples of a group are all equal
{"shared_model_name_or_path":"models/x"}|shared_model_name_or_path: given, but model_topology is dual
{"model_topology":"shared","generator_phase":{"model_name_or_path":"a"},"answerer_phase":{"model_name_or_path":"b"}}|shared_model_name_or_path: model_topology is shared, and the phases name two models
{"answerer_phase":{"output_subdir":"generator"}}|answerer_phase.output_subdir: generator_phase writes to 'generator' too
{"generated_tasks_per_round":25}|generated_tasks_per_round: 25 tasks do not come of generator_prompts_per_round 24 prompts
{"generator_reward_weights":{"validity":0}}|generator_reward_weights.validity: at 0 an invalid task would be worth a valid one
END
	echo '[]' >"$SCRATCH/c.json"
	run -3 --separate-stderr spar self-play "$SCRATCH/c.json"
	[[ $stderr == "self-play: $SCRATCH/c.json: "*object* ]]
	run -1 --separate-stderr spar self-play "$SCRATCH/nowhere.json"
	[[ $stderr == "self-play: $SCRATCH/nowhere.json: No such file"* ]]
}

@test "self-play: --set stands over the file, and is as strict" {
	echo '{"rounds":2}' >"$SCRATCH/c.json"
	run -0 --separate-stderr spar self-play --set rounds=5 --set model_topology=shared --set 'lora={"r":4}' --no-dry-run "$SCRATCH/c.json"
	[ "$(jq -c '[.rounds, .model_topology, .lora.r, .lora.alpha, .dry_run]' <<<"$output")" = '[5,"shared",4,32,false]' ]
	run -2 --separate-stderr spar self-play --set rounds=many "$SCRATCH/c.json"
	[ "$stderr" = "self-play: --set: rounds: expected number, got string" ]
	run -2 --separate-stderr spar self-play --set rounds "$SCRATCH/c.json"
	[ "$stderr" = "self-play: --set: expected KEY=VALUE, got 'rounds'" ]
	run -2 --separate-stderr spar self-play --dry-run --no-dry-run "$SCRATCH/c.json"
	run -2 --separate-stderr spar self-play
}

@test "self-play: keys without effect are named, unless --quiet" {
	echo '{"answerer_phase":{"repetition_penalty":1.1,"use_vllm":true},"wandb_enabled":true}' >"$SCRATCH/c.json"
	run -0 --separate-stderr spar self-play "$SCRATCH/c.json"
	[ "${#stderr_lines[@]}" = 3 ]
	[[ $stderr == *"answerer_phase.repetition_penalty has no effect: "* ]]
	run -0 --separate-stderr spar self-play --quiet "$SCRATCH/c.json"
	[ -z "$stderr" ]
}

@test "self-play: --variables is what a shell reads" {
	echo '{"dry_run":false,"lora":{"target_modules":["q_proj","v_proj"]}}' >"$SCRATCH/c.json"
	run -0 bash -euc 'eval "$(spar self-play --variables "$1")"
		echo "$ROUNDS|$DRY_RUN|$LORA_TARGET_MODULES|$GENERATOR_PHASE_LEARNING_RATE|$SWARM_V2_VALIDATION_MAX_PATH_HOPS"' _ "$SCRATCH/c.json"
	[ "$output" = "3||q_proj+v_proj|5e-06|4" ]
}
