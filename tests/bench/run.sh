#!/bin/bash
# Measure this build on this machine, all in one run: run.sh BUILD RESULTS.jsonl. A JSON line for each measurement is appended to
# RESULTS.jsonl, each with what it depends on; a table goes to standard output.
# Knobs: STEPS (of GRPO), RECORDS (sizes of the streams), DTYPES, SEQUENCES.
set -eu -o pipefail
cd "$(dirname "$0")/../.."
build=$PWD/$1 results=$2
PATH=$build/bin:$PATH
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
STEPS=${STEPS:-3} RECORDS=${RECORDS:-1000 1000000} DTYPES=${DTYPES:-float32 bfloat16} SEQUENCES=${SEQUENCES:-1 8 64}
: >"$work/lines"

put() { # DTYPE MEASUREMENT: adds what it depends on
	jq -c --arg dtype "$1" --arg date "$(date -u +%FT%TZ)" --arg version "$(git describe --always --dirty 2>/dev/null || echo unknown)" \
		--arg machine "$(sed -n 's/^model name.*: //p' /proc/cpuinfo | head -1)" --arg cores "$(nproc)" --arg load "$(cut -d' ' -f1 /proc/loadavg)" \
		--arg compiler "$(${CC:-cc} -dumpfullversion)" --arg torch "$(ldd "$build/libexec/spar/update" | awk '/libtorch_cpu/ { print $1 }')" --arg core "${OPENBLAS_CORETYPE:-}" \
		'. + {dtype: $dtype, date: $date, version: $version, machine: $machine, cores: ($cores | tonumber),
			threads: ((env.OMP_NUM_THREADS // $cores) | tonumber), load_average: ($load | tonumber), compiler: $compiler, libtorch: $torch,
			openblas_coretype: $core}' <<<"$2" | tee -a "$work/lines" "$results" >/dev/null
}

decode() {
	local dtype n line
	for dtype in $DTYPES; do
		for n in $SEQUENCES; do
			line=$("$build/bench/decode" --dtype="$dtype" "$n")
			put "$dtype" "$line"
		done
	done
}

# A model of 135M random weights with a tokenizer of as many tokens as its vocabulary: the tiny one's, and names for the rest.
model() {
	cp pipelines/models/tiny/tokenizer_config.json tests/bench/llama-135m/config.json "$work"
	jq -c '.model.vocab += ([range(([.model.vocab[], .added_tokens[].id] | max) + 1; 49152) | {"<\(.)>": .}] | add)' \
		pipelines/models/tiny/tokenizer.json >"$work/tokenizer.json"
	spar model init --config="$work" --seed=1 --out="$work/model" >/dev/null
	for i in $(seq $((2 * STEPS))); do
		printf '{"id":"%d","messages":[{"role":"user","content":"%s"}]}\n' "$i" "$(head -c 330 < <(yes "$i" | tr -d '\n'))"
	done >"$work/tasks"
}

# GRPO with LoRA: two prompts of 350 tokens a step, eight completions of 64 tokens each. What is neither sampling (as rollout counts it)
# nor training (as update does) is plumbing: records through pipes, rewards, weights written and read again.
grpo() {
	local dtype
	for dtype in $DTYPES; do
		rm -rf "$work/policy" "$work/stamps"
		{ spar rollout --policy="$work/policy" --batch=2 -n 8 --max-completion-length=64 --dtype="$dtype" <"$work/tasks" 2>"$work/rollout.log" |
			spar score --quiet --reward='ids=([.turns[].completion_ids[]] | add % 97) / 97' | spar advantage --quiet |
			spar update --quiet --model="$work/model" --policy="$work/policy" --lora=r=16 --dtype="$dtype" --max-steps="$STEPS" |
			while IFS= read -r line; do echo "$EPOCHREALTIME" >>"$work/stamps" && echo "$line"; done; } >"$work/metrics"
		# The last line of the log: "rollout: 48/48 episodes, ..., 812 tok/s". The first step has no beginning: it is left out.
		put "$dtype" "$(jq -sc --rawfile stamps "$work/stamps" --arg log "$(tail -1 "$work/rollout.log")" '
			($stamps | split("\n") | map(select(. != "") | tonumber)) as $at | (length - 1) as $n | .[1:] as $steps
			| ($log | capture("(?<r>[0-9]+) tok/s").r | tonumber) as $rate
			| (($at[-1] - $at[0]) / $n) as $step | ($steps | map(.step_time) | add / $n) as $train
			| ($steps | map(.loss_tokens) | add / $n / $rate) as $sample
			| {bench: "grpo", steps: $n, step_s: $step, sampling_s: $sample, training_s: $train,
				plumbing_share: ([1 - ($sample + $train) / $step, 0] | max),
				sampled_tokens_per_s: $rate, update_tokens_per_s: (($steps | map(.tokens) | add) / ($steps | map(.step_time) | add)),
				update_distinct_tokens_per_s: (($steps | map(.tokens_distinct) | add) / ($steps | map(.step_time) | add))}' "$work/metrics")"
	done
}

rollouts() { # N rollout records in groups of eight
	awk -v n="$1" 'BEGIN { for (i = 0; i < n; i++) printf "{\"type\":\"rollout\",\"group\":\"g%d\",\"sample\":%d,\"group_size\":8," \
		"\"task\":{\"id\":\"g%d\"},\"turns\":[{\"prompt_ids\":[1,2,3],\"completion_ids\":[%d,5,2],\"logprobs\":[-1.5,-0.25,-0.125]," \
		"\"completion\":\"x%d\",\"finish_reason\":\"stop\"}],\"env\":null,\"reward\":%d}\n", i / 8, i % 8, i / 8, i % 97, i, i % 5 }'
}

streams() {
	local n
	for n in $RECORDS; do
		rollouts "$n" | "$build/bench/peak" "$work/score" "$build/libexec/spar/score" --quiet --reward='n=.turns[0].completion | length' |
			"$build/bench/peak" "$work/advantage" "$build/libexec/spar/advantage" --quiet >/dev/null
		put "" "$(tail -1 "$work/score" | jq -c --argjson n "$n" '{bench: "score", records: $n} + .')"
		put "" "$(tail -1 "$work/advantage" | jq -c --argjson n "$n" '{bench: "advantage", records: $n} + .')"
	done
}

decode
model
grpo
streams
jq -r 'def r: . * 100 | round / 100;
	if .bench == "decode" then [.bench, .dtype, "\(.sequences) sequences", "\(.tokens_per_s) tok/s", "prompt \(.prompt_tokens_per_s) tok/s"]
	elif .bench == "grpo" then [.bench, .dtype, "step \(.step_s | r) s", "update \(.update_tokens_per_s | r) tok/s", "plumbing \(.plumbing_share * 100 | r) %"]
	else [.bench, "-", "\(.records) records", "\(.wall_s | r) s", "\(.max_rss_mib) MiB"] end + ["load \(.load_average)"] | @tsv' "$work/lines" |
	column -t -s $'\t'
