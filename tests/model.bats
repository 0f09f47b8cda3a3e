load common

toy() { # a GGUF file with every type of tensor
	"$SPAR_BUILD/unit/gguf" --write "$SCRATCH/toy.gguf"
}

tokenizer_size() { jq '[.model.vocab[], .added_tokens[].id] | max + 1' "$TINY/tokenizer.json"; }

one() { # write 1.0f into the file $1 at byte $2
	printf '\0\0\200\77' | dd of="$1" bs=1 seek="$2" conv=notrunc status=none
}

# An adapter of rank 1 on every down_proj of the folder $1, written to $2: zeros.
adapter() {
	mkdir "$2"
	local n_layers hidden inner header='{' at=0 layer
	read -r n_layers hidden inner < <(jq -r '"\(.num_hidden_layers) \(.hidden_size) \(.intermediate_size)"' "$1/config.json")
	for ((layer = 0; layer < n_layers; layer++)); do
		name=base_model.model.model.layers.$layer.mlp.down_proj
		header+="\"$name.lora_A.weight\":{\"dtype\":\"F32\",\"shape\":[1,$inner],\"data_offsets\":[$at,$((at += 4 * inner))]},"
		header+="\"$name.lora_B.weight\":{\"dtype\":\"F32\",\"shape\":[$hidden,1],\"data_offsets\":[$at,$((at += 4 * hidden))]},"
	done
	header=${header%,}\}
	{
		printf "$(printf '\\x%02x\\x%02x\\x%02x\\x%02x' $((${#header} & 255)) $((${#header} >> 8 & 255)) $((${#header} >> 16)) 0)\0\0\0\0%s" "$header"
		head -c "$at" /dev/zero
	} >"$2/adapter_model.safetensors"
	jq -n --arg base "$1" '{peft_type: "LORA", base_model_name_or_path: $base, r: 1, lora_alpha: 2, target_modules: ["down_proj"]}' \
		>"$2/adapter_config.json"
}

@test "model: init is a function of the seed, and what it writes can be shown and verified" {
	spar model init --config="$TINY" --seed=1 --out="$SCRATCH/a"
	OMP_NUM_THREADS=1 spar model init --config="$TINY" --seed=1 --out="$SCRATCH/b"
	spar model init --config="$TINY" --seed=2 --out="$SCRATCH/c"
	cmp "$SCRATCH/a/model.safetensors" "$SCRATCH/b/model.safetensors"
	run -1 cmp -s "$SCRATCH/a/model.safetensors" "$SCRATCH/c/model.safetensors"
	cmp "$SCRATCH/a/tokenizer.json" "$TINY/tokenizer.json"
	run -0 spar model show "$SCRATCH/a"
	[[ $output == *"1033344 in 38 tensors, F32"* ]]
	run -0 spar model verify "$SCRATCH/a"
	[[ ${lines[0]} == *"38 tensors as the config wants them, 1033344 numbers, all finite" ]]
}

@test "model: show --json is one object that the schema knows" {
	spar model init --config="$TINY" --out="$SCRATCH/a"
	spar model show --json "$SCRATCH/a" >"$SCRATCH/shown"
	[ "$(jq -c '[.type, .layers, .vocab_size, .tokenizer_size, .tied, .adapter]' "$SCRATCH/shown")" = "[\"model\",4,1920,$(tokenizer_size),true,null]" ]
	diff <(jq -r 'keys[]' "$SCRATCH/shown") <(jq -r '.properties | keys[]' "$BATS_TEST_DIRNAME/../schemas/model.schema.json")
	[ "$(jq -r .hash "$SCRATCH/shown")" = "$(spar model show "$SCRATCH/a" | sed -n 's/^hash *//p')" ]
}

@test "model: import makes a folder from a GGUF file, exact in float32 and rounded once in bfloat16" {
	toy
	spar model import "$SCRATCH/toy.gguf" --out="$SCRATCH/f32"
	spar model import --dtype=bfloat16 --out="$SCRATCH/bf16" "$SCRATCH/toy.gguf"
	run -0 spar model verify "$SCRATCH/f32"
	[[ $output == *"7 tokens, all within the vocabulary; its chat template compiles"* ]]
	[ "$(jq -r .torch_dtype "$SCRATCH/f32/config.json")" = float32 ]
	[ "$(jq -r .torch_dtype "$SCRATCH/bf16/config.json")" = bfloat16 ]
	[ "$(spar model show --json "$SCRATCH/bf16" | jq -c '[.dtype, .parameters, .end_ids]')" = '["BF16",6464,[2]]' ]
	[ "$(jq -c '[.added_tokens[].id]' "$SCRATCH/f32/tokenizer.json")" = '[0,1,2]' ]
	[ "$(jq -c .pre_tokenizer.pretokenizers[0] "$SCRATCH/f32/tokenizer.json")" = '{"type":"Digits","individual_digits":true}' ]
}

@test "model: export is the reverse of import" {
	toy
	for dtype in float32 bfloat16; do
		spar model import --dtype=$dtype "$SCRATCH/toy.gguf" --out="$SCRATCH/$dtype"
		spar model export --gguf "$SCRATCH/$dtype" --out="$SCRATCH/$dtype.gguf"
		spar model import --dtype=$dtype "$SCRATCH/$dtype.gguf" --out="$SCRATCH/$dtype.again"
		diff -r "$SCRATCH/$dtype" "$SCRATCH/$dtype.again"
	done
	spar model export --gguf --type=bf16 "$SCRATCH/float32" --out="$SCRATCH/rounded.gguf"
	cmp "$SCRATCH/rounded.gguf" "$SCRATCH/bfloat16.gguf"
	spar model export --gguf --type=f16 "$SCRATCH/bfloat16" --out="$SCRATCH/f16.gguf"
	spar model import --dtype=bfloat16 "$SCRATCH/f16.gguf" --out="$SCRATCH/f16" # its numbers fit into both
	diff -r "$SCRATCH/bfloat16" "$SCRATCH/f16"
}

@test "model: export of an untied head, of rows without a token, and of an adapter" {
	toy
	spar model import "$SCRATCH/toy.gguf" --out="$SCRATCH/toy"
	cp -r "$SCRATCH/toy" "$SCRATCH/shape"
	jq '.tie_word_embeddings = false | .vocab_size = 9' "$SCRATCH/toy/config.json" >"$SCRATCH/shape/config.json"
	spar model init --config="$SCRATCH/shape" --out="$SCRATCH/base"
	adapter "$SCRATCH/base" "$SCRATCH/adapter"
	for folder in base adapter; do
		spar model export --gguf "$SCRATCH/$folder" --out="$SCRATCH/x.gguf"
		spar model import "$SCRATCH/x.gguf" --out="$SCRATCH/again"
		cmp "$SCRATCH/base/model.safetensors" "$SCRATCH/again/model.safetensors"
		cmp "$SCRATCH/base/tokenizer.json" "$SCRATCH/again/tokenizer.json"
	done
}

@test "model: export of other families, and back" {
	toy
	spar model import "$SCRATCH/toy.gguf" --out="$SCRATCH/toy"
	cp -r "$SCRATCH/toy" "$SCRATCH/shape"
	rm "$SCRATCH/shape/model.safetensors"
	usual='hidden_size: 32, intermediate_size: 48, num_attention_heads: 4, num_key_value_heads: 2, max_position_embeddings: 64, rms_norm_eps: 1e-6'
	while read -r family layers config; do
		jq -n "{model_type: \"$family\", vocab_size: 9, $config} | if .n_layer then . else {num_hidden_layers: $layers, $usual} + . end" >"$SCRATCH/shape/config.json"
		spar model init --config="$SCRATCH/shape" --out="$SCRATCH/$family"
		spar model export --gguf "$SCRATCH/$family" --out="$SCRATCH/a.gguf"
		spar model import "$SCRATCH/a.gguf" --out="$SCRATCH/again"
		spar model export --gguf "$SCRATCH/again" --out="$SCRATCH/b.gguf"
		cmp "$SCRATCH/$family/model.safetensors" "$SCRATCH/again/model.safetensors"
		cmp "$SCRATCH/a.gguf" "$SCRATCH/b.gguf"
		rm -r "${SCRATCH:?}/$family" "$SCRATCH/again"
	done <<-'END'
		llama 2 attention_bias: true, mlp_bias: true
		llama 1 rope_scaling: {rope_type: "llama3", factor: 8, low_freq_factor: 1, high_freq_factor: 4, original_max_position_embeddings: 8192}
		mistral 1 sliding_window: null
		qwen2 2 tie_word_embeddings: true
		qwen3 2 head_dim: 16
		smollm3 5 rope_theta: 5e6
		gpt2 2 n_layer: 2, n_embd: 32, n_head: 4, n_positions: 64
	END
}

@test "model: export refuses by name what a GGUF file would not say" {
	toy
	spar model init --config="$TINY" --out="$SCRATCH/tiny"
	run -3 --separate-stderr spar model export --gguf "$SCRATCH/tiny" --out="$SCRATCH/x.gguf"
	[ "$stderr" = "model: $SCRATCH/tiny/tokenizer.json: .pre_tokenizer: GGUF has no name that we know for this rule" ]
	spar model import "$SCRATCH/toy.gguf" --out="$SCRATCH/toy"
	jq '.rope_scaling = {type: "linear", factor: 2}' "$SCRATCH/toy/config.json" >"$SCRATCH/config.json"
	mv "$SCRATCH/config.json" "$SCRATCH/toy"
	run -3 --separate-stderr spar model export --gguf "$SCRATCH/toy" --out="$SCRATCH/x.gguf"
	[ "$stderr" = "model: $SCRATCH/toy: config.json: export of rope scaling is not supported" ]
	while IFS=: read -r what model_type change; do
		spar model import "$SCRATCH/toy.gguf" --out="$SCRATCH/$model_type"
		jq -c ".model_type = \"$model_type\" | $change" "$SCRATCH/$model_type/config.json" >"$SCRATCH/config.json"
		mv "$SCRATCH/config.json" "$SCRATCH/$model_type"
		rm "$SCRATCH/$model_type/model.safetensors"
		spar model init --config="$SCRATCH/$model_type" --out="$SCRATCH/odd"
		run -3 --separate-stderr spar model export --gguf "$SCRATCH/odd" --out="$SCRATCH/x.gguf"
		[ "$stderr" = "model: $SCRATCH/odd: config.json: export of $what is not supported" ]
		rm -r "$SCRATCH/odd" "${SCRATCH:?}/$model_type"
	done <<-END
		sliding windows:mistral:.sliding_window = 4
		gemma2:gemma2:.
		biases:qwen3:.attention_bias = true
		layers without rotary positions at other places:smollm3:.no_rope_layer_interval = 1
	END
	[ ! -e "$SCRATCH/x.gguf" ]
	run -2 --separate-stderr spar model export "$SCRATCH/toy" --out="$SCRATCH/x.gguf"
	[ "${stderr_lines[0]}" = "model: export needs --gguf" ]
}

@test "model: import of a damaged file says what is wrong, exit 3, and leaves nothing" {
	toy
	head -c 9000 "$SCRATCH/toy.gguf" >"$SCRATCH/cut.gguf"
	run -3 --separate-stderr spar model import "$SCRATCH/cut.gguf" --out="$SCRATCH/x"
	[ "$stderr" = "model: $SCRATCH/cut.gguf: truncated: tensor 'blk.0.attn_output.weight' ends past the end of the file" ]
	sed 's/smollm/smellm/' "$SCRATCH/toy.gguf" >"$SCRATCH/pre.gguf"
	run -3 --separate-stderr spar model import "$SCRATCH/pre.gguf" --out="$SCRATCH/x"
	[ "$stderr" = "model: $SCRATCH/pre.gguf: tokenizer.ggml.pre: 'smellm' is not known" ]
	[ -z "$(find "$SCRATCH" -name 'x*')" ]
	run -1 --separate-stderr spar model import "$SCRATCH/absent.gguf" --out="$SCRATCH/x"
}

@test "model: merge writes a full checkpoint, in the base's type unless told" {
	toy
	spar model import --dtype=bfloat16 "$SCRATCH/toy.gguf" --out="$SCRATCH/base"
	adapter "$SCRATCH/base" "$SCRATCH/lora"
	run -0 spar model show "$SCRATCH/lora"
	[[ $output == *"adapter     r 1, alpha 2, scale 2, on down_proj"* ]]
	spar model merge "$SCRATCH/lora" --out="$SCRATCH/merged"
	cmp "$SCRATCH/merged/model.safetensors" "$SCRATCH/base/model.safetensors" # zeros were added
	cmp "$SCRATCH/merged/tokenizer.json" "$SCRATCH/base/tokenizer.json"
	local weights=$SCRATCH/lora/adapter_model.safetensors
	one "$weights" $(($(wc -c <"$weights") - 4))              # B, its last row
	one "$weights" $((8 + $(od -An -tu8 -N8 "$weights")))     # A, its first column
	spar model merge "$SCRATCH/lora" --out="$SCRATCH/merged"
	run -1 cmp -l "$SCRATCH/merged/model.safetensors" "$SCRATCH/base/model.safetensors"
	[ "${#lines[@]}" -ge 1 ] && [ "${#lines[@]}" -le 2 ] # bytes of the one weight that changed
	spar model merge --dtype=float32 "$SCRATCH/lora" --out="$SCRATCH/merged"
	[ "$(jq -r .torch_dtype "$SCRATCH/merged/config.json")" = float32 ]
	run -3 --separate-stderr spar model merge "$SCRATCH/base" --out="$SCRATCH/other"
	[ "$stderr" = "model: $SCRATCH/base: no adapter_config.json: nothing to merge" ]
}

@test "model: an adapter of scale 0 is told of (B29)" {
	toy
	spar model import "$SCRATCH/toy.gguf" --out="$SCRATCH/base"
	adapter "$SCRATCH/base" "$SCRATCH/lora"
	sed -i 's/"lora_alpha": 2/"lora_alpha": 0/' "$SCRATCH/lora/adapter_config.json"
	run -0 --separate-stderr spar model show "$SCRATCH/lora"
	[ "$stderr" = "model: warning: $SCRATCH/lora: lora_alpha is 0: the adapter changes nothing" ]
}

@test "model: verify finds a number that is not finite, and a tokenizer that is too large" {
	spar model init --config="$TINY" --out="$SCRATCH/a"
	n=$(wc -c <"$SCRATCH/a/model.safetensors")
	printf '\0\0\300\177' | dd of="$SCRATCH/a/model.safetensors" bs=1 seek=$((n - 4)) conv=notrunc status=none
	run -3 --separate-stderr spar model verify "$SCRATCH/a"
	[ "$stderr" = "model: $SCRATCH/a: tensor 'model.norm.weight': element 127 is not finite" ]
	[ -z "$output" ]
	toy
	spar model import "$SCRATCH/toy.gguf" --out="$SCRATCH/b"
	cp "$TINY"/tokenizer*.json "$SCRATCH/b"
	run -3 --separate-stderr spar model verify "$SCRATCH/b"
	[ "$stderr" = "model: $SCRATCH/b: tokenizer of $(tokenizer_size) tokens, but .vocab_size is 7" ]
}

@test "model: a folder without weights, a wrong command and a missing option say so" {
	mkdir "$SCRATCH/empty"
	run -1 --separate-stderr spar model show "$SCRATCH/empty"
	[[ $stderr == "model: $SCRATCH/empty/config.json: "* ]]
	cp "$TINY/config.json" "$SCRATCH/empty"
	run -3 --separate-stderr spar model show "$SCRATCH/empty"
	[ "$stderr" = "model: $SCRATCH/empty: no model.safetensors and no model.safetensors.index.json" ]
	run -2 --separate-stderr spar model explode x
	[ "${stderr_lines[0]}" = "model: no such command: explode" ]
	run -2 --separate-stderr spar model init --config="$TINY"
	[ "${stderr_lines[0]}" = "model: init needs --out" ]
	run -2 --separate-stderr spar model verify
	[ "${stderr_lines[0]}" = "model: verify needs a folder or file" ]
	run -2 --separate-stderr spar model show --out=x y
	[ "${stderr_lines[0]}" = "model: show does not take --out" ]
	run -2 --separate-stderr spar model show x y
	[ "${stderr_lines[0]}" = "model: one folder or file at most, got 'y' too" ]
}

@test "model: damaged weights never kill a reader (B32)" {
	toy
	spar model import "$SCRATCH/toy.gguf" --out="$SCRATCH/toy"
	"$SPAR_BUILD/fuzz/gguf" -n 100 "$SCRATCH/toy.gguf"
	"$SPAR_BUILD/fuzz/safetensors" -n 1000 "$SCRATCH/toy/model.safetensors"
}
