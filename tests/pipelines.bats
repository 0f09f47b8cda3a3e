# The make targets of job A, whole, on a budget of seconds: what is tested is that they hold together, not what is learnt.
load common

pipeline() { # run make as a user would, not as a part of the make that runs the tests
	env -u MAKEFLAGS -u MAKELEVEL -u MFLAGS make -s -C "$BATS_TEST_DIRNAME/.." B="${SPAR_BUILD##*/}" LORA= MAX_COMPLETION=24 \
		ORACLE_EPISODES=4 SFT_EPOCHS=0.5 SFT_LR=1e-4 GRPO_STEPS=4 GRPO_GROUPS=2 GRPO_SAMPLES=2 GRPO_LR=1e-3 ENV_STEPS=4 \
		EVAL_EPISODES=3 "$@"
}

without_time() { jq -c 'del(.step_time)' "$1"; }

@test "oracle, sft, grpo and evaluate leave the files they promise, and the same ones twice" {
	for run in a b; do
		pipeline evaluate RUN="$SCRATCH/$run" >"$SCRATCH/$run.txt"
	done
	cd "$SCRATCH"
	head -1 a.txt | grep -q 'success'
	[ "$(jq -r 'keys | join(" ")' a/evaluation.json)" = "base delta_vs_sft grpo sft" ]
	[ "$(jq .num_episodes a/evidence/oracle.json)" = 4 ]
	for f in sft/model.safetensors grpo/model/model.safetensors eval-tasks.jsonl; do
		cmp "a/$f" "b/$f"
	done
	for f in sft.metrics.jsonl grpo.metrics.jsonl; do
		cmp <(without_time "a/$f") <(without_time "b/$f")
	done
	cmp <(zstdcat a/oracle.jsonl.zst) <(zstdcat b/oracle.jsonl.zst)
	cmp <(zstdcat a/grpo/rollouts-*.zst | sed 's/"path":"[^"]*"//') <(zstdcat b/grpo/rollouts-*.zst | sed 's/"path":"[^"]*"//')
}

@test "kill -9 of the whole grpo pipeline: the same command goes on to the same weights, metrics and rollouts" {
	cd "$SCRATCH"
	pipeline grpo RUN="$SCRATCH/unbroken" START="$TINY"
	for signal in KILL INT; do
		set -m
		pipeline grpo RUN="$SCRATCH/$signal" START="$TINY" >log 2>&1 &
		set +m
		until [ "$(readlink "$signal/grpo/policy/latest")" = v000002 ] || [ -e "$signal/grpo.metrics.jsonl" ]; do sleep 0.02; done
		kill -s "$signal" -- -$! || true
		wait || true
		pipeline grpo RUN="$SCRATCH/$signal" START="$TINY"
		cmp unbroken/grpo/model/model.safetensors "$signal/grpo/model/model.safetensors"
		cmp <(without_time unbroken/grpo.metrics.jsonl) <(without_time "$signal/grpo.metrics.jsonl")
		cmp <(zstdcat unbroken/grpo/rollouts-*.zst | sed 's/"path":"[^"]*"//') \
			<(zstdcat "$signal"/grpo/rollouts-*.zst | sed 's/"path":"[^"]*"//')
	done
}

@test "grpo one version behind: sampling overlaps training, and the records say which version drew them" {
	cd "$SCRATCH"
	pipeline grpo RUN="$SCRATCH/lag" START="$TINY" LAG=1
	[ "$(wc -l <lag/grpo.metrics.jsonl)" = 4 ]
	zstdcat lag/grpo/rollouts-*.zst | jq -e -s 'map(select(.type == "rollout") | .step - .policy.version) | unique == [0, 1]'
}

@test "another environment gives the tasks, too" {
	cd "$SCRATCH"
	pipeline grpo RUN="$SCRATCH/run" START="$TINY" ENV='spar env-osint' GRPO_STEPS=1
	zstdcat run/grpo/rollouts-*.zst | jq -e -s 'map(select(.type == "rollout") | .task.env == "osint" and .turns != []) | length == 4 and all'
}

@test "make believes no half file: a stage that fails, after none or all of its output, fails the target, and again (B40)" {
	cd "$SCRATCH"
	pipeline sft RUN="$SCRATCH/good"
	mkdir bin
	cat >bin/spar <<-'END'
		#!/bin/bash
		# spar, but the tool named in $FAILS answers nothing, or all of it, and fails
		[ "$1" = "${FAILS%-late}" ] || exec "$SPAR_BUILD/bin/spar" "$@"
		case $FAILS in *-late) "$SPAR_BUILD/bin/spar" "$@" ;; esac
		exit 9
	END
	chmod +x bin/spar
	for tool in env-cern rollout score advantage update; do
		for FAILS in $tool $tool-late; do
			export FAILS
			echo "$FAILS"
			cp -r good "$FAILS"
			for again in 1 2; do
				run pipeline grpo RUN="$SCRATCH/$FAILS" SPAR="$SCRATCH/bin/spar" ENV="$SPAR_BUILD/bin/spar env-cern" \
					TASKS="$SCRATCH/bin/spar env-cern" GRPO_STEPS=1
				[ "$status" -ne 0 ]
				[ ! -e "$FAILS/grpo.metrics.jsonl" ]
			done
		done
	done
	for tool in sft-collect update; do
		export FAILS=$tool-late
		for again in 1 2; do
			run pipeline sft RUN="$SCRATCH/sft-$tool" SPAR="$SCRATCH/bin/spar" ENV="$SPAR_BUILD/bin/spar env-cern"
			[ "$status" -ne 0 ]
			[ ! -e "sft-$tool/sft.metrics.jsonl" ]
		done
	done
	export FAILS=eval-late
	for again in 1 2; do
		run pipeline evaluate RUN="$SCRATCH/good" SPAR="$SCRATCH/bin/spar"
		[ "$status" -ne 0 ]
		[ ! -e good/evaluation.json ]
	done
}
