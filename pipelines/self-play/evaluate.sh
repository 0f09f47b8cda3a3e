# The evaluation after training, as functions; sourced by run.sh.
# shellcheck shell=bash disable=SC2154

at=$run/post_training_eval

# Greedy with one sample for each task, else as the model is sampled in training.
answers() { # MODEL TASKS
	local temperature=0
	[ "$POST_TRAINING_EVAL_SAMPLES" = 1 ] || temperature=1
	"$SPAR" rollout --model="$1" --num-generations="$POST_TRAINING_EVAL_SAMPLES" --temperature=$temperature \
		--max-completion-length="$POST_TRAINING_EVAL_ANSWER_MAX_NEW_TOKENS" --dtype="$(dtype_of answerer)" \
		"${machine[@]}" "$2" |
		"$SPAR" score --scorer=osint-answerer --quiet
}

# Proposals for fresh prompts, of validation graphs, once each.
fresh() { # MODEL
	"$SPAR" rollout --model="$1" --num-generations=1 --temperature=0.7 --top-p=0.9 --dtype="$(dtype_of generator)" \
		--max-completion-length="$GENERATED_TASK_MAX_NEW_TOKENS" "${machine[@]}" "${at}_prompts.jsonl" |
		posed | "$SPAR" score --scorer=osint-generator "${proposals[@]}" --quiet
}

# What one suite says: success and reward, and evidence, each with intervals and the paired difference.
compare() { # SUITE
	local finetuned=${at}_$1_finetuned.jsonl original=${at}_$1_original.jsonl
	figures() { # KEY
		jq -c ".reward = .verdict.$1" "$original" >"${at}_$1.tmp"
		jq -c ".reward = .verdict.$1" "$finetuned" | "$SPAR" eval --original-records="${at}_$1.tmp" --quiet \
			--success='.verdict.correct' --seed="$SEED" | jq -c 'select(.summary).summary'
		rm "${at}_$1.tmp"
	}
	"$SPAR" eval --original-records="$original" --quiet --success='.verdict.correct' --seed="$SEED" "$finetuned" |
		jq -c 'select(.summary).summary' >"${at}_reward.tmp"
	figures graph_f1 | jq -c -s --arg suite "$1" --slurpfile reward "${at}_reward.tmp" \
		'{suite: $suite, reward: $reward[0], evidence: .[0]}'
	rm "${at}_reward.tmp"
}

evaluate() {
	if [ -n "$DRY_RUN" ]; then
		jq -n --slurpfile config "$run/config.json" --arg answerer "$answerer" --arg original "$first_answerer" \
			--arg generator "$generator" '{pipeline_mode: $config[0].pipeline_mode, generator_model: $generator,
			answerer_models: {finetuned_answerer: $answerer, original_answerer: $original}, skipped: true, reason: "dry_run",
			model_evaluations: {finetuned_answerer: {episodes: []}, original_answerer: {episodes: []}}}'
		return
	fi
	made "${at}_prompts.jsonl" prompts validation "$POST_TRAINING_EVAL_QUESTIONS" "$(seed_of fresh 0)"
	made "${at}_validation_reports.jsonl" fresh "$generator"
	made "${at}_original_validation_reports.jsonl" fresh "$first_generator"
	made "${at}_generated_tasks.jsonl" materialise "${at}_validation_reports.jsonl" "${at}_prompts.jsonl" \
		"$POST_TRAINING_EVAL_QUESTIONS"
	made "${at}_heldout_tasks.jsonl" tasks answerer test "$POST_TRAINING_EVAL_HELDOUT_QUESTIONS" "$(seed_of held-out 0)"
	for suite in generated heldout; do
		made "${at}_${suite}_finetuned.jsonl" answers "$answerer" "${at}_${suite}_tasks.jsonl"
		made "${at}_${suite}_original.jsonl" answers "$first_answerer" "${at}_${suite}_tasks.jsonl"
		made "${at}_${suite}.json" compare "$suite"
	done
	jq -n --slurpfile config "$run/config.json" --arg generator "$generator" --arg answerer "$answerer" \
		--arg original "$first_answerer" --arg at "$at" --slurpfile reports "${at}_validation_reports.jsonl" \
		--slurpfile before "${at}_original_validation_reports.jsonl" --slurpfile generated "${at}_generated.json" \
		--slurpfile heldout "${at}_heldout.json" --slurpfile tasks "${at}_generated_tasks.jsonl" \
		--slurpfile finetuned "${at}_generated_finetuned.jsonl" --slurpfile base "${at}_generated_original.jsonl" \
		-f "$here/evaluation.jq"
}

regression_check() {
	[ -n "${FAIL_ON_REGRESSION:-}" ] && [ -z "$DRY_RUN" ] || return 0
	jq -e '.held_out.delta_vs_original.success_rate_ci[1] >= 0' "$run/post_training_evaluation.json" >/dev/null ||
		{ echo "self-play: the trained answerer is worse than the original on held-out tasks" >&2; exit 1; }
}
