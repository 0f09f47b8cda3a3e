# The loop of self-play: what it writes, that it goes on after a kill, its modes. The runs are as short as they can be.
load common

ROOT=$BATS_TEST_DIRNAME/..
CONFIG=$DATA/self-play.json

# A run of one round on the embedded model, warm-started far enough that its rewards differ. (Not with the reference's
# rewards: those remember the questions of the run, and what was remembered is gone after a kill.)
play() { # DIR [OPTION...]
	SPAR=$SPAR_BUILD/bin/spar "$ROOT/pipelines/self-play/run.sh" "$CONFIG" --run="$1" --quiet "${@:2}"
}

setup() {
	cd "$ROOT"
}

# Every record is one of its schema: the required keys are there, no key is unknown.
fits_schema() { # FILE...
	for file in "$@"; do
		type=$(head -1 "$file" | jq -r .type)
		echo "$file: $type"
		jq -e -s --slurpfile schema "schemas/$type.schema.json" '$schema[0] as $s | length > 0 and all(.[];
			. as $r | ($s.required - keys == []) and (keys - ($s.properties | keys) == []) and .type == $s.properties.type.const)' "$file"
	done
}

@test "self-play: a dry run writes every artifact, and they fit the schemas" {
	for config in example l40s-full a10g-smoke tiny smollm2-135m; do
		SPAR=$SPAR_BUILD/bin/spar pipelines/self-play/run.sh "pipelines/configs/$config.json" --run="$SCRATCH/$config" \
			--dry-run --set rounds=1 --quiet
		for file in generator_dataset answerer_dataset generated_tasks validation_reports replay_traces canonical_graph_candidates; do
			fits_schema "$SCRATCH/$config/round_001/$file.jsonl"
		done
		jq -e '.skipped and .reason == "dry_run" and (.answerer_models | keys) == ["finetuned_answerer", "original_answerer"]' \
			"$SCRATCH/$config/post_training_evaluation.json"
		jq -e '.dry_run and (.rounds | length) == 1 and .rounds[0].fallback_share == 1 and
			([.rounds[0].artifacts[] | select(. != "")] | length) >= 6' "$SCRATCH/$config/self_play_summary.json"
	done
	# What is there is not made again, and a run belongs to its configuration.
	touch -d 2020-01-01 "$SCRATCH/tiny/round_001/generated_tasks.jsonl"
	SPAR=$SPAR_BUILD/bin/spar pipelines/self-play/run.sh pipelines/configs/tiny.json --run="$SCRATCH/tiny" --dry-run --set rounds=1
	[ "$(stat -c %Y "$SCRATCH/tiny/round_001/generated_tasks.jsonl")" -lt 1600000000 ]
	run -1 --separate-stderr env SPAR="$SPAR_BUILD/bin/spar" pipelines/self-play/run.sh pipelines/configs/tiny.json \
		--run="$SCRATCH/tiny" --dry-run --set rounds=2
	[[ $stderr == *"was begun with another configuration"* ]]
}

@test "self-play: in the fixed mode a task's context is its candidate, in the other a new one" {
	for mode in fixed generate; do
		play "$SCRATCH/$mode" --dry-run --set canonical_graph_mode=$mode --set pipeline_mode=swarm_v2 \
			--set swarm_v2.shared_context.max_edges=16 \
			--set generator_prompts_per_round=8 --set generated_tasks_per_round=8 --set environment.n_users=24
		jq -n --slurpfile c "$SCRATCH/$mode/round_001/canonical_graph_candidates.jsonl" \
			--slurpfile t "$SCRATCH/$mode/round_001/generated_tasks.jsonl" \
			'[$c[].canonical_graph.edges] as $all | [$t[] | select(.context as $x | $all | index([$x]))] | length' >"$SCRATCH/$mode.same"
	done
	[ "$(cat "$SCRATCH/fixed.same")" = 8 ]
	[ "$(cat "$SCRATCH/generate.same")" -lt 8 ]
	# Only in the other mode is the generator told that it may propose edges.
	jq -e '.messages[0].content | contains("canonical_graph")' "$SCRATCH/generate/round_001/generator_dataset.jsonl"
	jq -e '.messages[0].content | contains("canonical_graph") | not' "$SCRATCH/fixed/round_001/generator_dataset.jsonl"
}

@test "self-play: make wants a configuration" {
	run -2 --separate-stderr env -u MAKEFLAGS -u MAKELEVEL -u MFLAGS make -s B="${SPAR_BUILD##*/}" self-play
	[ "${stderr_lines[0]}" = "self-play: give CONFIG, say pipelines/configs/tiny.json" ]
}

@test "self-play: too many tasks of the oracle's are a failure" {
	run -1 --separate-stderr play "$SCRATCH/run" --set max_fallback_share=0.5
	[[ $stderr == *"more than max_fallback_share 0.5 of the tasks are the oracle's"* ]]
}

@test "self-play: both topologies and schedules, adapters, worker agents, strict asserts" {
	play "$SCRATCH/run" --set model_topology=shared --set phase_schedule=answerer_generator_answerer --set tuning_mode=lora \
		--set lora.r=2 --set pipeline_mode=swarm_v2 --set 'swarm_v2={"shared_context":{"max_edges":8}}' \
		--set canonical_graph_mode=fixed
	jq -e '.final_models.generator == .final_models.answerer and (.rounds[0].answerer_pre.final_model_path | length) > 0 and
		.rounds[0].generator.frozen_answerer_model == .rounds[0].answerer_pre.final_model_path' "$SCRATCH/run/self_play_summary.json"
	# The agents ran, and what they wrote stands in the prompt; the frozen opponent is named in the records.
	jq -e -s 'all(.[]; (.workers | length) == 3 and (.messages[-1].content | contains("\npath_agent: ")))' \
		"$SCRATCH/run/round_001/answerer_dataset.jsonl"
	fits_schema "$SCRATCH/run/round_001/answerer_dataset.jsonl" "$SCRATCH/run/round_001/validation_reports.jsonl"
	jq -e '.skipped == false and .held_out.delta_vs_original.tasks == 2 and (.model_evaluations.finetuned_answerer.episodes | length) == 2' \
		"$SCRATCH/run/post_training_evaluation.json"
	run -1 --separate-stderr play "$SCRATCH/strict" --set strict_asserts=true --set profile=sound \
		--set answerer_phase.max_completion_length=2
	[[ $stderr == *"answerer: all rewards of every group were equal"* ]]
}

@test "self-play: killed in each phase, the same command goes on to the same weights and summary" {
	play "$SCRATCH/whole"
	for phase in generator answerer; do
		setsid "$BASH" -c "SPAR=$SPAR_BUILD/bin/spar exec pipelines/self-play/run.sh $CONFIG --run=$SCRATCH/killed --quiet" 3>&- &
		pid=$!
		until [ -e "$SCRATCH/killed/round_001/$phase/policy/v000001" ] || ! kill -0 $pid; do sleep 0.05; done
		kill -9 -- -$pid
		wait $pid || true
		[ ! -e "$SCRATCH/killed/round_001/$phase/phase.json" ]
	done
	# It may have been killed while it wrote a version.
	mkdir -p "$SCRATCH/killed/round_001/answerer/policy/v000003.tmp.1/trainer"
	play "$SCRATCH/killed"
	for phase in generator answerer; do
		cmp "$SCRATCH/whole/round_001/$phase/final_model/model.safetensors" \
			"$SCRATCH/killed/round_001/$phase/final_model/model.safetensors"
	done
	cmp "$SCRATCH/whole/self_play_summary.json" <(sed "s,$SCRATCH/killed,$SCRATCH/whole,g" "$SCRATCH/killed/self_play_summary.json")
	jq -e '.rounds[0].generator.diagnostics.weights_changed > 0' "$SCRATCH/whole/self_play_summary.json"
	# What the judge adds to a step is said for each.
	jq -e -s 'length == 6 and all(.["step_time/judge"] >= 0 and .["step_time/rollout"] > 0 and .step_time > 0)' \
		"$SCRATCH"/{whole,killed}/round_001/generator/metrics.jsonl
	jq -e -s 'all(has("step_time/judge") | not)' "$SCRATCH/whole/round_001/answerer/metrics.jsonl"
}

@test "self-play: a run is mirrored to a hub; what could not be uploaded is tried again at the end, and training goes on" {
	PATH=$ROOT/tests/hub:$PATH run -0 --separate-stderr tests/hub/mirror.sh "$SPAR_BUILD" "$SCRATCH"
	[[ $stderr == *"could not be uploaded; it is tried again at the end"* ]]
	[[ $stderr != *"not uploaded"* ]]
	[[ $output == "mirror: "*"; 5 uploads failed first" ]]
	grep -q /checkpoint-3/model.safetensors "$SCRATCH/wanted"
	# Nothing is sent twice, nothing without a token, and a hub that is not there is no reason to fail.
	export HF_ENDPOINT=http://127.0.0.1:1 OSINT_HF_CHECKPOINT_REPO_ID=me/repo PATH=$ROOT/tests/hub:$PATH
	run -0 --separate-stderr play "$SCRATCH/run"
	[ -z "$stderr" ]
	HF_TOKEN=secret run -0 --separate-stderr play "$SCRATCH/run"
	[ -z "$stderr" ]
	rm "$SCRATCH/run/published.txt"
	HF_TOKEN=secret run -0 --separate-stderr play "$SCRATCH/run"
	[[ $stderr == *"self-play: not uploaded: "*self_play_summary.json* ]]
}

@test "self-play: the repository of a mirror is named, or follows the space" {
	where() { bash -c 'run=x; . pipelines/self-play/publish.sh; repository' ; }
	[ -z "$(where)" ]
	[ "$(SPACE_ID='me/My Space' where)" = me/my-space-checkpoints ]
	[ "$(HF_SPACE_ID=me/A OSINT_HF_CHECKPOINT_REPO_SUFFIX=-b where)" = me/a-b ]
	[ "$(SPACE_ID=me/A OSINT_HF_CHECKPOINT_REPO_ID=you/c where)" = you/c ]
}

@test "self-play: the standalone script takes the reference's variables" {
	TRAIN_SELF_PLAY_CONFIG_PATH=x.json TRAIN_SELF_PLAY_OUTPUT_DIR=out TRAIN_SELF_PLAY_ROUNDS=2 RUN_SELF_PLAY_DRY_RUN=1 \
		VENV_PATH=v TRAIN_SETUP_COMMAND='echo set up' TRAIN_LOG_PATH=$SCRATCH/log MAKE="printf %s\\n" \
		run -0 --separate-stderr pipelines/train_self_play_standalone.sh
	[ "$output" = "set up
self-play
CONFIG=x.json
RUN=out
SELF_PLAY_FLAGS=--set rounds=2 --dry-run" ]
	[ "$stderr" = "train_self_play_standalone: VENV_PATH has no effect" ]
	tail -1 "$SCRATCH/log" | grep -q dry-run
}

@test "self-play: the standalone script reads the environment's configuration of other trainers" {
	jq -n '{environment: {n_users: 12, alias_density: 0.5, seed: 11, max_steps: 18}, dataset: {mode: "canonical", metaqa_root: "x"},
		swarm: {enabled: true}, llm: {provider: "ollama"}, seeding: {seeded_edges: [{src: "user_a", rel: "works_at", dst: "org_b"}]}}' >"$SCRATCH/env.json"
	TRAIN_ENV_CONFIG_PATH=$SCRATCH/env.json MAKE="printf %s\\n" run -0 --separate-stderr pipelines/train_self_play_standalone.sh
	[ "${lines[2]}" = "SELF_PLAY_FLAGS=--set environment.n_users=12 --set environment.alias_density=0.5 --set seed=11 --set environment.seed_file=$SCRATCH/env.json" ]
	[ "${stderr_lines[0]}" = "train_self_play_standalone: $SCRATCH/env.json: environment.max_steps has no effect" ]
	[ "${#stderr_lines[@]}" = 3 ]
	echo '{"dataset":{"mode":"metaqa"}}' >"$SCRATCH/env.json"
	TRAIN_ENV_CONFIG_PATH=$SCRATCH/env.json MAKE=false run -3 --separate-stderr pipelines/train_self_play_standalone.sh
	[[ $stderr == *"dataset.mode: metaqa: there is no generator for its questions" ]]
}

@test "self-play: a seed file's questions are among the tasks of training, not of the evaluation" {
	jq -n '{seeding: {seeded_edges: [{src: "user_a", rel: "works_at", dst: "org_b"}], llm_generation_retries: 2,
		seeded_questions: [{question: "Which node is reached from user_a by works_at?"}]}}' >"$SCRATCH/seed.json"
	run -0 --separate-stderr play "$SCRATCH/run" --dry-run --set environment.seed_file="$SCRATCH/seed.json"
	[ "$(grep -c 'without effect' <<<"$stderr")" = 1 ]
	[[ $stderr == *"$SCRATCH/seed.json: there are keys without effect, such as llm_generation_retries"* ]]
	jq -es 'map(select(.source == "seeding")) | length == 2 and all(.answer == "org_b")' "$SCRATCH"/run/round_001/seed_tasks.jsonl "$SCRATCH"/run/pool_000.jsonl
	jq -es 'all(.graph.seeded_edges | length == 1)' "$SCRATCH"/run/round_001/generator_dataset.jsonl
}
