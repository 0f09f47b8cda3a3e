#!/bin/bash
# Adversarial self-play, from warm start to evaluation. Called by `make self-play`.
#	pipelines/self-play/run.sh CONFIG [--run=DIR] [options of spar self-play]
# out, below DIR (output_dir of the configuration):
#	config.json                               the whole configuration
#	seeding.json                              what the seed file puts into the graphs, if there is one
#	warm_start/ROLE.jsonl.zst, both/          an oracle's demonstrations, the model that learned from them (ROLE/: if two)
#	pool_000.jsonl, pool_001.jsonl            the oracle's first tasks, then each round's: what is no longer new
#	round_001/prompts.jsonl, seed_tasks.jsonl what the environment gives the roles; frozen.jsonl: all pools so far
#	round_001/generator_dataset.jsonl         prompts of the generator, with what its worker agents wrote
#	round_001/answerer[_pre]_dataset.jsonl    tasks of the answerer, likewise
#	round_001/ROLE/                           a phase: policy/, checkpoint-N, rollouts-*.jsonl.zst, metrics.jsonl, final_model/
#	round_001/validation_reports.jsonl        what the generator proposed, with the verdicts
#	round_001/generated_tasks.jsonl           the tasks that came of it; .source says whose they are
#	round_001/canonical_graph_candidates.jsonl, replay_traces.jsonl, round.json
#	post_training_*                           the evaluation and what it was made of
#	self_play_summary.json
# Each file is whole or not there; what is there is not made again.
# $SPAR: the program; $FAIL_ON_REGRESSION: exit 1 if the trained answerer is worse than the original on held-out tasks.
set -eu -o pipefail

here=$(dirname "$0")
SPAR=${SPAR:-spar}
config=$1
run=
shift
[[ ${1:-} != --run=* ]] || { run=${1#--run=}; shift; }
settings=$("$SPAR" self-play --variables "$@" "$config")
eval "$settings"
run=${run:-$OUTPUT_DIR}

# shellcheck source=pipelines/live.sh
. "$here/../live.sh"
# shellcheck source=pipelines/self-play/steps.sh
. "$here/steps.sh"
# shellcheck source=pipelines/self-play/evaluate.sh
. "$here/evaluate.sh"
# shellcheck source=pipelines/self-play/publish.sh
. "$here/publish.sh"

# ---- a run belongs to one configuration ----

mkdir -p "$run"
"$SPAR" self-play --quiet "$@" "$config" >"$run/config.json.tmp"
if [ -e "$run/config.json" ] && ! cmp -s "$run/config.json" "$run/config.json.tmp"; then
	rm "$run/config.json.tmp"
	echo "self-play: $run was begun with another configuration: see $run/config.json" >&2
	exit 1
fi
mv "$run/config.json.tmp" "$run/config.json"

# So does its seed file: keys without effect are told of here, once, and what becomes of the original later is not seen.
if [ -n "$ENVIRONMENT_SEED_FILE" ]; then
	made "$run/seeding.json" seeding "$ENVIRONMENT_SEED_FILE"
	ENVIRONMENT_SEED_FILE=$run/seeding.json
fi

# ---- where both roles begin ----

generator=$GENERATOR_PHASE_MODEL_NAME_OR_PATH answerer=$ANSWERER_PHASE_MODEL_NAME_OR_PATH
if [ "$MODEL_TOPOLOGY" = shared ]; then
	answerer=${SHARED_MODEL_NAME_OR_PATH:-$answerer}
	generator=$answerer
fi
if [ "$WARM_START_EPISODES" -gt 0 ] && [ -z "$DRY_RUN" ]; then
	warm_start
fi
first_generator=$generator first_answerer=$answerer

# The new model of a role; of both if they share one.
becomes() { # ROLE MODEL
	[ -z "$DRY_RUN" ] || return 0
	printf -v "$1" %s "$2"
	[ "$MODEL_TOPOLOGY" = dual ] || generator=$2 answerer=$2
}

# ---- rounds ----

pool=$run/pool_000.jsonl
made "$pool" tasks answerer train "$GENERATED_TASKS_PER_ROUND" "$(seed_of pool 0)" --difficulty=hard

for ((r = 1; r <= ROUNDS; r++)); do
	round=$run/$(printf round_%03d "$r")
	made "$round/seed_tasks.jsonl" tasks answerer train "$SEED_TASKS_PER_ROUND" "$(seed_of seeds "$r")"

	if [ "$PHASE_SCHEDULE" = answerer_generator_answerer ]; then
		made "$round/answerer_pre_dataset.jsonl" dataset answerer "$answerer" "$round/seed_tasks.jsonl" "$pool"
		phase "$round/${ANSWERER_PHASE_OUTPUT_SUBDIR}_pre" answerer "$answerer" "$first_answerer" \
			"$round/answerer_pre_dataset.jsonl"
		becomes answerer "$round/${ANSWERER_PHASE_OUTPUT_SUBDIR}_pre/final_model"
	fi

	made "$round/prompts.jsonl" prompts train "$GENERATOR_PROMPTS_PER_ROUND" "$(seed_of prompts "$r")"
	made "$round/generator_dataset.jsonl" dataset generator "$generator" "$round/prompts.jsonl"
	made "$round/canonical_graph_candidates.jsonl" jq -c -f "$here/candidates.jq" "$round/prompts.jsonl"
	made "$round/frozen.jsonl" cat "$run"/pool_*.jsonl
	phase "$round/$GENERATOR_PHASE_OUTPUT_SUBDIR" generator "$generator" "$first_generator" \
		"$round/generator_dataset.jsonl"
	becomes generator "$round/$GENERATOR_PHASE_OUTPUT_SUBDIR/final_model"

	made "$round/validation_reports.jsonl" propose "$generator" "$round/generator_dataset.jsonl" "$round/frozen.jsonl"
	made "$round/generated_tasks.jsonl" materialise "$round/validation_reports.jsonl" "$round/prompts.jsonl" \
		"$GENERATED_TASKS_PER_ROUND"
	made "$round/replay_traces.jsonl" jq -c -f "$here/traces.jq" "$round/validation_reports.jsonl"
	check_share "$round/generated_tasks.jsonl"
	pool=$run/$(printf pool_%03d.jsonl "$r")
	made "$pool" cat "$round/generated_tasks.jsonl"

	made "$round/answerer_dataset.jsonl" dataset answerer "$answerer" "$round/seed_tasks.jsonl" "$pool"
	phase "$round/$ANSWERER_PHASE_OUTPUT_SUBDIR" answerer "$answerer" "$first_answerer" "$round/answerer_dataset.jsonl"
	becomes answerer "$round/$ANSWERER_PHASE_OUTPUT_SUBDIR/final_model"
	made "$round/round.json" describe_round "$r" "$round"
done

# ---- what it was good for ----

made "$run/post_training_evaluation.json" evaluate
made "$run/self_play_summary.json" summarize
publish "$run/post_training_evaluation.json"
publish "$run/self_play_summary.json"
publish_again
regression_check
