# The steps of self-play, as functions; sourced by run.sh. Variables in capitals are the configuration's.
# shellcheck shell=bash disable=SC2154

# What every model is run with.
machine=(--seed="$SEED" --quiet)

# FILE from a command's output, unless it is there.
made() { # FILE COMMAND...
	local file=$1
	shift
	[ ! -e "$file" ] || return 0
	mkdir -p "$(dirname "$file")"
	"$@" >"$file.tmp"
	mv "$file.tmp" "$file"
}

# Where the seeds of a purpose begin; no two purposes or rounds share any.
seed_of() { # PURPOSE ROUND
	local purposes=(demonstrate-generator demonstrate-answerer pool seeds prompts fresh held-out) i
	for i in "${!purposes[@]}"; do
		[ "${purposes[i]}" != "$1" ] || echo $((SEED * 1000000000 + i * 10000000 + $2 * 10000))
	done
}

# A key of a role's phase.
of() { # ROLE KEY
	local name=${1^^}_PHASE_$2
	echo "${!name}"
}

dtype_of() { # ROLE
	if [ -n "$(of "$1" BF16)" ]; then echo bfloat16; else echo float32; fi
}

# ---- tasks ----

# What has an effect in a seed file that env-osint takes.
seeding() { # FILE
	"$SPAR" env-osint --seed-file="$1" --tasks=1 >/dev/null
	jq '.seeding // .environment.seeding // . |
		with_entries(select(.key | startswith("seeded_"))) | del(.seeded_nodes[]?.attrs)' "$1"
}

context_edges() {
	local n=$MAX_GRAPH_CONTEXT_EDGES
	[ "$PIPELINE_MODE" = legacy ] || n=$SWARM_V2_SHARED_CONTEXT_MAX_EDGES
	echo $((n < 8 ? 8 : n > 64 ? 64 : n))
}

graphs() {
	printf '%s\n' --n-users="$ENVIRONMENT_N_USERS" --alias-density="$ENVIRONMENT_ALIAS_DENSITY" \
		--noise-level="$ENVIRONMENT_NOISE_LEVEL" --red-herring-rate="$ENVIRONMENT_RED_HERRING_RATE" \
		--max-edges="$(context_edges)"
	[ -z "$ENVIRONMENT_SEED_FILE" ] || echo "--seed-file=$ENVIRONMENT_SEED_FILE"
}

tasks() { # ROLE SPLIT N SEED [OPTION...]
	local options
	mapfile -t options < <(graphs)
	"$SPAR" env-osint --tasks="$3" --messages --role="$1" --split="$2" --seed="$4" "${options[@]}" "${@:5}"
}

# Prompts of a generator; in swarm_v2 it may propose edges of its own, unless the graph is fixed.
prompts() { # SPLIT N SEED
	local more=()
	[ "$PIPELINE_MODE/$CANONICAL_GRAPH_MODE" != swarm_v2/generate ] || more=(--own-graph)
	tasks generator "$@" "${more[@]}"
}

# The tasks of a phase. In swarm_v2 worker agents look at each first; what they wrote goes into the prompt.
dataset() { # ROLE MODEL FILE...
	if [ "$PIPELINE_MODE" = legacy ] || [ -n "$DRY_RUN" ]; then
		cat "${@:3}"
	else
		cat "${@:3}" | workers "$1" "$2"
	fi
}

worker() { # AGENT ROLE MODEL
	"$SPAR" rollout --model="$3" --into="$1" --messages="@$here/$1.jq" --max-completion-length=96 \
		--dtype="$(dtype_of "$2")" "${machine[@]}"
}

workers() { # ROLE MODEL
	local agents=SWARM_V2_${1^^}_SWARM_MAX_AGENTS
	worker path_agent "$1" "$2" |
		if [ "${!agents}" -ge 2 ]; then worker question_agent "$1" "$2"; else cat; fi |
		if [ "${!agents}" -ge 3 ]; then worker context_agent "$1" "$2"; else cat; fi |
		jq -c -f "$here/packets.jq"
}

# What a generator proposes for each prompt, three times, with the verdicts. A dry run has the oracle propose.
propose() { # MODEL DATASET FROZEN
	if [ -n "$DRY_RUN" ]; then
		oracle <"$2"
	else
		"$SPAR" rollout --model="$1" --num-generations=3 --temperature=0.7 --top-p=0.9 --dtype="$(dtype_of generator)" \
			--max-completion-length="$GENERATED_TASK_MAX_NEW_TOKENS" "${machine[@]}" "$2"
	fi | posed | "$SPAR" score --scorer=osint-generator --frozen="$3" "${proposals[@]}" --quiet
}

# The oracle's proposals as rollouts: its path, answer and question lie in the task.
oracle() {
	jq -c '{type: "rollout", group: .id, sample: 0, group_size: 1, task: .,
		turns: [{completion: ({supporting_edges, answer, question} | tojson)}]}'
}

proposals=(--canonical-graph="$CANONICAL_GRAPH_MODE" --max-hops="$SWARM_V2_VALIDATION_MAX_PATH_HOPS"
	--max-nodes="$SWARM_V2_VALIDATION_MAX_CONTEXT_NODES")

posed() {
	"$SPAR" pose "${proposals[@]}" --max-edges="$(context_edges)" --quiet
}

# N tasks out of what was proposed; the oracle's fill up what is missing.
materialise() { # REPORTS PROMPTS N
	oracle <"$2" | posed | jq -c -n --argjson n "$3" --arg dry "$DRY_RUN" --slurpfile reports "$1" \
		--slurpfile spare /dev/stdin -f "$here/materialise.jq"
}

check_share() { # TASKS
	[ -z "$DRY_RUN" ] || return 0
	jq -e -s --argjson most "$MAX_FALLBACK_SHARE" \
		'length > 0 and (map(select(.source == "fallback")) | length) <= $most * length' "$1" >/dev/null || {
		echo "self-play: $1: more than max_fallback_share $MAX_FALLBACK_SHARE of the tasks are the oracle's" >&2
		exit 1
	}
}

# ---- training ----

adapter() {
	[ "$TUNING_MODE" = lora ] || { echo --no-lora; return; }
	printf '%s\n' --merge --lora="r=$LORA_R,alpha=$LORA_ALPHA,dropout=$LORA_DROPOUT,targets=$LORA_TARGET_MODULES"
}

# Learn from demonstrations.
learn() { # OUT ROLE START DEMONSTRATIONS...
	local options
	mapfile -t options < <(adapter)
	zstdcat "${@:4}" | "$SPAR" update --model="$3" --loss-type=sft --num-train-epochs="$WARM_START_EPOCHS" \
		--learning-rate="$WARM_START_LEARNING_RATE" --per-device-train-batch-size="$WARM_START_BATCH_SIZE" \
		--dtype="$(dtype_of "$2")" "${options[@]}" --checkpoint="$1.checkpoint" --resume --out="$1" "${machine[@]}"
	rm -rf "$1.checkpoint"
}

# Demonstrations may be of smaller graphs than the rounds'.
demonstrate() { # ROLE
	local options
	mapfile -t options < <(graphs)
	[ "$WARM_START_N_USERS" = 0 ] || options+=(--n-users="$WARM_START_N_USERS")
	[ "$WARM_START_MAX_GRAPH_CONTEXT_EDGES" = 0 ] || options+=(--max-edges="$WARM_START_MAX_GRAPH_CONTEXT_EDGES")
	[ -e "$run/warm_start/$1.jsonl.zst" ] || "$SPAR" sft-collect --env="$SPAR env-osint --oracle --role=$1 ${options[*]@Q}" \
		--policy=oracle --episodes="$WARM_START_EPISODES" --seed="$(seed_of "demonstrate-$1" 0)" --quiet \
		--save="$run/warm_start/$1.jsonl.zst" >/dev/null
}

# Both roles learn from an oracle. If they begin as the same model, it learns both: what one needs helps the other.
warm_start() {
	local warm=$run/warm_start
	mkdir -p "$warm"
	demonstrate generator
	demonstrate answerer
	if [ "$generator" = "$answerer" ]; then
		made "$warm/both.metrics.jsonl" learn "$warm/both" answerer "$answerer" "$warm"/{generator,answerer}.jsonl.zst
		generator=$warm/both answerer=$warm/both
	else
		made "$warm/generator.metrics.jsonl" learn "$warm/generator" generator "$generator" "$warm/generator.jsonl.zst"
		made "$warm/answerer.metrics.jsonl" learn "$warm/answerer" answerer "$answerer" "$warm/answerer.jsonl.zst"
		generator=$warm/generator answerer=$warm/answerer
	fi
}

# The tasks of a data set over and over, N in all; each visit has a name of its own.
visits() { # DATASET N
	jq -c -s --argjson n "$2" '. as $all | range($n) as $i | ($i % ($all | length)) as $k |
		$all[$k] + {id: "\($all[$k].id)#\($i / ($all | length) | floor)"}' "$1"
}

reward_answerer() {
	"$SPAR" score --scorer=osint-answerer --profile="$PROFILE" --pipeline-mode="$PIPELINE_MODE" \
		--max-agents="$SWARM_V2_ANSWERER_SWARM_MAX_AGENTS" --quiet
}

# The frozen answerer tries each valid task; the records name it.
reward_generator() { # FROZEN
	local w=GENERATOR_REWARD_WEIGHTS
	local validity=${w}_VALIDITY hardness=${w}_HARDNESS diversity=${w}_DIVERSITY consistency=${w}_CONSISTENCY
	posed | "$SPAR" rollout --model="$answerer" --messages=.posed.messages --into=judge --step-time \
		--num-generations="$JUDGE_SAMPLES" --max-completion-length="$ANSWERER_JUDGE_MAX_NEW_TOKENS" \
		--dtype="$(dtype_of answerer)" "${machine[@]}" |
		"$SPAR" score --scorer=osint-generator --profile="$PROFILE" --pipeline-mode="$PIPELINE_MODE" \
			--max-agents="$SWARM_V2_GENERATOR_SWARM_MAX_AGENTS" --frozen="$1" "${proposals[@]}" --quiet \
			--weights="${!validity},${!hardness},${!diversity},${!consistency}"
}

train() { # DIR ROLE START REFERENCE DATASET
	local dir=$1 role=$2 options groups batches
	groups=$(($(of "$role" PER_DEVICE_TRAIN_BATCH_SIZE) * $(of "$role" GRADIENT_ACCUMULATION_STEPS) / $(of "$role" NUM_GENERATIONS)))
	batches=$((($(of "$role" MAX_STEPS) + $(of "$role" NUM_ITERATIONS) - 1) / $(of "$role" NUM_ITERATIONS)))
	mapfile -t options < <(adapter)
	[ -z "$(of "$role" GRADIENT_CHECKPOINTING)" ] || options+=(--gradient-checkpointing)
	visits "$5" $((groups * batches)) |
		live "$dir" --batch="$groups" --step-time --num-generations="$(of "$role" NUM_GENERATIONS)" \
			--max-completion-length="$(of "$role" MAX_COMPLETION_LENGTH)" --temperature="$(of "$role" TEMPERATURE)" \
			--top-p="$(of "$role" TOP_P)" --concurrency="$(of "$role" GENERATION_BATCH_SIZE)" \
			--dtype="$(dtype_of "$role")" "${machine[@]}" -- \
			"reward_$role" "$(dirname "$dir")/frozen.jsonl" -- \
			--scale-rewards="$(of "$role" SCALE_REWARDS)" -- \
			--model="$3" --reference="$4" --loss-type="$(of "$role" LOSS_TYPE)" \
			--beta="$(of "$role" BETA)" --epsilon="$(of "$role" EPSILON)" \
			--num-iterations="$(of "$role" NUM_ITERATIONS)" --learning-rate="$(of "$role" LEARNING_RATE)" \
			--max-steps="$(of "$role" MAX_STEPS)" --save-steps="$(of "$role" SAVE_STEPS)" \
			--dtype="$(dtype_of "$role")" "${options[@]}" "${machine[@]}" --out="$dir/final_model"
}

# The versions that training can go on from, under the names that other trainers give them.
link_checkpoints() { # DIR
	local version n
	for version in "$1"/policy/v*/trainer; do
		[ -e "$version" ] || continue
		version=$(dirname "$version")
		n=${version##*/v}
		[[ $n != *[!0-9]* ]] || continue # still being written
		n=$((10#$n))
		[ "$n" = 0 ] || ln -sfn "policy/${version##*/}" "$1/checkpoint-$n"
	done
}

# Only the newest ones are kept.
drop_checkpoints() { # DIR ROLE
	find "$1" -maxdepth 1 -name 'checkpoint-*' | sort -V | head -n "-$(of "$2" SAVE_TOTAL_LIMIT)" | while read -r old; do
		rm -rf "${1:?}/$(readlink "$old")"
		rm "$old"
	done
}

# A phase, unless it is done: what it came to lies in phase.json.
phase() { # DIR ROLE START REFERENCE DATASET
	mkdir -p "$1"
	if [ -z "$DRY_RUN" ] && [ ! -e "$1/phase.json" ]; then
		if is_mirrored && ! is_off "${OSINT_HF_UPLOAD_ON_SAVE:-1}"; then publish_checkpoints "$1" & fi
		made "$1/metrics.jsonl" train "$@"
		wait
		link_checkpoints "$1"
		drop_checkpoints "$1" "$2"
	fi
	made "$1/phase.json" describe_phase "$@"
	[ -z "$STRICT_ASSERTS" ] || [ -n "$DRY_RUN" ] || assert_learned "$1" "$2"
	publish_phase "$1"
}

describe_phase() { # DIR ROLE START REFERENCE DATASET
	local metrics=$1/metrics.jsonl
	[ -z "$DRY_RUN" ] || metrics=/dev/null
	jq -s --arg dir "$1" --arg role "$2" --arg start "$3" --arg reference "$4" --arg judge "$answerer" \
		--arg tuning "$TUNING_MODE" --arg rows "$(wc -l <"$5")" --arg dry "$DRY_RUN" \
		--arg checkpoints "$(find "$1" -maxdepth 1 -name 'checkpoint-*' | sort -V | tr '\n' ' ')" \
		-f "$here/phase.jq" "$metrics"
}

assert_learned() { # DIR ROLE
	local why
	why=$(jq -r --argjson beta "$(of "$2" BETA)" -f "$here/asserts.jq" "$1/phase.json")
	[ -z "$why" ] || { echo "self-play: $1: $why" >&2; exit 1; }
}

# ---- summaries ----

describe_round() { # NUMBER DIR
	local pre=$2/${ANSWERER_PHASE_OUTPUT_SUBDIR}_pre/phase.json
	[ -e "$pre" ] || pre=/dev/null
	jq -n --argjson round "$1" --arg dir "$2" --slurpfile config "$run/config.json" \
		--slurpfile generator "$2/$GENERATOR_PHASE_OUTPUT_SUBDIR/phase.json" \
		--slurpfile answerer "$2/$ANSWERER_PHASE_OUTPUT_SUBDIR/phase.json" --slurpfile pre "$pre" \
		--slurpfile tasks "$2/generated_tasks.jsonl" --slurpfile dataset "$2/answerer_dataset.jsonl" \
		--slurpfile reports "$2/validation_reports.jsonl" -f "$here/round.jq"
}

summarize() {
	cat "$run"/round_*/round.json | jq -n --slurpfile rounds /dev/stdin --slurpfile config "$run/config.json" \
		--slurpfile evaluation "$run/post_training_evaluation.json" --arg dir "$run" --arg generator "$generator" --arg answerer "$answerer" \
		--arg first_generator "$first_generator" --arg first_answerer "$first_answerer" -f "$here/summary.jq"
}
