# The whole run.
$config[0] as $c |
{dry_run: $c.dry_run, pipeline_mode: $c.pipeline_mode, output_dir: $dir, model_topology: $c.model_topology,
 phase_schedule: $c.phase_schedule, tuning_mode: $c.tuning_mode, canonical_graph_mode: $c.canonical_graph_mode,
 profile: $c.profile, seed: $c.seed, rounds: $rounds,
 final_models: {generator: $generator, answerer: $answerer},
 initial_models: {generator: $first_generator, answerer: $first_answerer},
 post_training_evaluation: ($evaluation[0] + {path: "\($dir)/post_training_evaluation.json"}),
 kimi_objective_mapping: ({grouped_rollouts: "num_generations", mean_centered_advantage: "spar advantage",
	token_level_clipping: "epsilon", reference_regularization: "beta, to each role's first model",
	toggle_self_play: $c.phase_schedule} +
	if $c.pipeline_mode == "swarm_v2" then {parallel_orchestration: "worker agents as rollout stages"} else {} end)}
