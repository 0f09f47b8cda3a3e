# What must not change a training: order of records, micro-batches, accumulation, threads, compression, being stopped.
# Where sums are made in the same order the weights agree to the byte, else the figures to 1e-6. Beside this, tests/unit/trainer.c
# holds the gradient of every objective the same with and without shared prefixes, tests/loss.bats and tests/advantage.bats
# those tools to the same rules, and tests/rollout.bats sampling.
load common
load training

@test "rollouts: order of records and size of micro-batches do not matter, for every loss type" {
	while read -ra objective; do
		echo "${objective[*]}"
		common=(--model="$MODEL" "${objective[@]/#/--}" --num-iterations=2 --beta=0.05 --learning-rate=1e-5 -q)
		spar update "${common[@]}" --out="$SCRATCH/a" <"$ROLLOUTS" >"$SCRATCH/ma"
		# The other way round within each batch.
		jq -s -c '[.[] | select(.type == "rollout")] as $r | .[] | select(.type == "batch") | .step as $n |
			([$r[] | select(.policy.version == $n)] | reverse | .[]), .' "$ROLLOUTS" |
			spar update "${common[@]}" --micro-batch-tokens=1 --out="$SCRATCH/b" >"$SCRATCH/mb"
		# A log-probability of -7 has steps of 5e-7 in float32, and a sequence's ratio is the exponential of a sum of them.
		NEAR=1e-5 near "$SCRATCH/ma" "$SCRATCH/mb" .loss
		near "$SCRATCH/ma" "$SCRATCH/mb" "select(.step == 1).grad_norm" .kl .entropy '.["clip_ratio/region_mean"] // 0'
		jq -e -s 'length == 8 and .[0].loss_tokens == 27 and .[0].sequences == 6 and .[0].tokens_distinct < .[0].tokens
			and .[0].kl == 0 and .[1].kl > 0 and .[0].reward == 0.5 and (.[0].reward_std - (0.2 | sqrt) | fabs) < 1e-9
			and .[0]["completions/max_length"] == 6 and (.[0]["clip_ratio/region_mean"] // 0) == 0' "$SCRATCH/ma"
	done <<-END
		loss-type=grpo
		loss-type=grpo importance-sampling-level=sequence
		loss-type=bnpo kl-estimator=k2
		loss-type=dr_grpo
		loss-type=dapo entropy-coef=0.1
		loss-type=cispo
		loss-type=sapo
		loss-type=luspo importance-sampling-level=sequence use-bias-correction-kl
		loss-type=vespo
	END
}

@test "rollouts: compression, a resume and accumulation do not matter" {
	while read -ra objective; do
		echo "${objective[*]}"
		common=(--model="$MODEL" "${objective[@]/#/--}" --learning-rate=1e-4 --lr-scheduler-type=constant --threads=1 -q)
		head -14 "$ROLLOUTS" >"$SCRATCH/in"
		spar update "${common[@]}" --out="$SCRATCH/a" <"$SCRATCH/in" >"$SCRATCH/ma"

		{ head -5 "$SCRATCH/in" | zstd -q; sed 1,5d "$SCRATCH/in" | zstd -q; } >"$SCRATCH/in.zst"
		spar update "${common[@]}" --out="$SCRATCH/b" "$SCRATCH/in.zst" >"$SCRATCH/mb"
		cmp "$SCRATCH/a/model.safetensors" "$SCRATCH/b/model.safetensors"
		diff <(timeless "$SCRATCH/ma") <(timeless "$SCRATCH/mb")

		rm -rf "$SCRATCH/c"
		spar update "${common[@]}" --checkpoint="$SCRATCH/c" --out="$SCRATCH/b" < <(head -7 "$SCRATCH/in") >/dev/null
		spar update "${common[@]}" --checkpoint="$SCRATCH/c" --resume --out="$SCRATCH/b" <"$SCRATCH/in" >"$SCRATCH/mb"
		cmp "$SCRATCH/a/model.safetensors" "$SCRATCH/b/model.safetensors"
		diff <(timeless "$SCRATCH/ma") <(timeless "$SCRATCH/mb")

		# No batch records: steps of six rollouts.
		jq -c 'select(.type == "rollout")' "$SCRATCH/in" | spar update "${common[@]}" --per-device-train-batch-size=2 \
			--gradient-accumulation-steps=3 --out="$SCRATCH/b" >"$SCRATCH/mb"
		# (In another order of sums the weights differ by a rounding after a step, and more after each.)
		NEAR=5e-6 near "$SCRATCH/ma" "$SCRATCH/mb" .loss .entropy "select(.step == 1).grad_norm"
		# With them, their size said again takes no further step.
		spar update "${common[@]}" --per-device-train-batch-size=6 --out="$SCRATCH/b" <"$SCRATCH/in" >"$SCRATCH/mb"
		cmp "$SCRATCH/a/model.safetensors" "$SCRATCH/b/model.safetensors"
		diff <(timeless "$SCRATCH/ma") <(timeless "$SCRATCH/mb")
		spar update "${common[@]}" --threads=2 --out="$SCRATCH/b" <"$SCRATCH/in" >"$SCRATCH/mb"
		NEAR=5e-6 near "$SCRATCH/ma" "$SCRATCH/mb" .loss .entropy "select(.step == 1).grad_norm"
	done <<-END
		loss-type=dapo beta=0.05 entropy-coef=0.1
		loss-type=vespo num-iterations=2
	END
}

@test "sft: the size of micro-batches, accumulation and threads do not matter (B24)" {
	common=(--model="$MODEL" --loss-type=sft --no-shuffle-dataset --num-train-epochs=2 --learning-rate=1e-3 -q)
	spar update "${common[@]}" --per-device-train-batch-size=4 --out="$SCRATCH/a" <"$SFT" >"$SCRATCH/ma"
	spar update "${common[@]}" --per-device-train-batch-size=1 --gradient-accumulation-steps=4 --out="$SCRATCH/b" <"$SFT" >"$SCRATCH/mb"
	spar update "${common[@]}" --per-device-train-batch-size=4 --micro-batch-tokens=1 --out="$SCRATCH/c" <"$SFT" >"$SCRATCH/mc"
	spar update "${common[@]}" --per-device-train-batch-size=4 --threads=2 --out="$SCRATCH/d" <"$SFT" >"$SCRATCH/md"
	[ "$(jq -s 'map(.micro_batches) | add' "$SCRATCH/ma")" = 6 ]
	[ "$(jq -s 'map(.micro_batches) | add' "$SCRATCH/mb")" = 20 ]
	near "$SCRATCH/ma" "$SCRATCH/mb" .loss .entropy
	near "$SCRATCH/ma" "$SCRATCH/mc" .loss .entropy
	near "$SCRATCH/ma" "$SCRATCH/md" .loss .entropy
}
