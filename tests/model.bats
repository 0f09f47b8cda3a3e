load common

@test "model: init is a function of the seed, and what it writes can be shown and verified" {
	spar model init --config="$TINY" --seed=1 --out="$SCRATCH/a"
	spar model init --config="$TINY" --seed=1 --out="$SCRATCH/b"
	spar model init --config="$TINY" --seed=2 --out="$SCRATCH/c"
	cmp "$SCRATCH/a/model.safetensors" "$SCRATCH/b/model.safetensors"
	run -1 cmp -s "$SCRATCH/a/model.safetensors" "$SCRATCH/c/model.safetensors"
	cmp "$SCRATCH/a/tokenizer.json" "$TINY/tokenizer.json"
	run -0 spar model show "$SCRATCH/a"
	[[ $output == *"918656 in 38 tensors"* ]]
	run -0 spar model verify "$SCRATCH/a"
}

@test "model: a folder without weights, a wrong command and a missing option say so" {
	mkdir "$SCRATCH/empty"
	run ! --separate-stderr spar model show "$SCRATCH/empty"
	[[ $stderr == model:* ]]
	run -2 spar model explode x
	run -2 spar model init --config="$TINY"
	run -2 spar model verify
}
