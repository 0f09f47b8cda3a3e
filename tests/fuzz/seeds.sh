#!/bin/bash
# Files to begin fuzzing with, made from what the tree has: seeds.sh BUILD OUT writes OUT/TARGET/* for each target.
set -eu -o pipefail
cd "$(dirname "$0")/../.."
build=$(realpath "$1") out=$2 tiny=pipelines/models/tiny
PATH=$build/bin:$PATH
rm -rf "$out"
for target in tests/fuzz/*.c; do mkdir -p "$out/$(basename "$target" .c)"; done

spar env-cern --tasks=1 >"$out/record/task"
spar sft-collect --quiet --episodes=1 --max-steps=1 --all >"$out/record/sft"
spar rollout --quiet --model=$tiny -n 1 --max-completion-length=4 --top-k=5 <<<'{"id":1.0,"prompt":"x"}' |
	spar score --quiet --reward='a=1' >"$out/record/rollout"
printf '%s' '{"type":"a","n":[1e-7,-0.0,123456789012345678901,"\ud83d\ude00\u0000\\"],"o":{"a":{"b":[]}},"a":null,"a":true}' >"$out/record/odd"

"$build/unit/gguf" --write "$out/gguf/toy"
spar model import "$out/gguf/toy" --out="$out/model"
cp "$out/model/model.safetensors" "$out/safetensors/toy"
head='{"__metadata__":{"format":"pt"},"a":{"dtype":"BF16","shape":[2,1],"data_offsets":[0,4]},"b":{"dtype":"F32","shape":[],"data_offsets":[4,8]}}'
printf '%b%s12345678' "\\x$(printf %02x ${#head})\0\0\0\0\0\0\0" "$head" >"$out/safetensors/small"

# A byte-level tokenizer of some 280 tokens, and what others are made of.
# shellcheck disable=SC2016
small='.model.vocab |= with_entries(select(.value < 270)) | .model.vocab as $v | .added_tokens |= map(select(.id < 270))
	| .model.merges |= map(select((if type == "array" then . else split(" ") end) | add | in($v)))'
jq -c "$small" $tiny/tokenizer.json >"$out/tokenizer/small"
jq -c '.normalizer = {type: "Sequence", normalizers: [{type: "NFC"}, {type: "Prepend", prepend: "▁"}, {type: "Replace", pattern: {String: " "}, content: "▁"}]}
	| .pre_tokenizer = null | .model += {byte_fallback: true, fuse_unk: true, unk_token: "<unk>"} | .model.vocab = {"<unk>": 0, "▁": 1, "a": 2, "▁a": 3, "<0x0A>": 4}
	| .model.merges = [["▁", "a"]] | .added_tokens = [{id: 0, content: "<unk>", special: true, lstrip: true, rstrip: true, single_word: false, normalized: true}]
	| .decoder = {type: "Sequence", decoders: [{type: "Replace", pattern: {String: "▁"}, content: " "}, {type: "ByteFallback"}, {type: "Fuse"}, {type: "Strip", content: " ", start: 1, stop: 0}]}' \
	"$out/tokenizer/small" >"$out/tokenizer/fallback"
jq -c '.pre_tokenizer = {type: "Sequence", pretokenizers: [{type: "Split", pattern: {Regex: "(?i:'"'"'s|'"'"'t)|\\p{L}+|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+"}, behavior: "Isolated", invert: false},
		{type: "ByteLevel", add_prefix_space: false, trim_offsets: true, use_regex: false}]} | .model.ignore_merges = true
	| .post_processor = {type: "TemplateProcessing", single: [{SpecialToken: {id: "b", type_id: 0}}, {Sequence: {id: "A", type_id: 0}}], pair: [], special_tokens: {b: {id: "b", ids: [1], tokens: ["b"]}}}' \
	"$out/tokenizer/small" >"$out/tokenizer/split"
jq -c '.pre_tokenizer = {type: "Metaspace", replacement: "▁", prepend_scheme: "first", split: true} | .decoder = .pre_tokenizer' "$out/tokenizer/fallback" >"$out/tokenizer/metaspace"
jq -c '.model = {type: "Unigram", unk_id: 0, vocab: [["<unk>", 0], ["▁", -2], ["a", -3.5], ["▁a", -3], ["<0x0A>", -9]], byte_fallback: true}
	| .normalizer = {type: "Sequence", normalizers: [{type: "NFKC"}, {type: "Lowercase"}, {type: "StripAccents"}, {type: "Strip", strip_left: true, strip_right: false}, {type: "Replace", pattern: {Regex: " {2,}"}, content: "▁"}]}' \
	"$out/tokenizer/metaspace" >"$out/tokenizer/unigram"
jq -c --rawfile table tests/data/charsmap.base64 '.normalizer.normalizers += [{type: "Precompiled", precompiled_charsmap: ($table | rtrimstr("\n"))}]' \
	"$out/tokenizer/unigram" >"$out/tokenizer/charsmap"

jq -rj .chat_template $tiny/tokenizer_config.json >"$out/template/tiny"
cat >"$out/template/all" <<'END'
{%- set ns = namespace(n=0) -%}{% macro show(m, i=1) %}<{{ m.role | upper }}|{{ m['content'] | trim | tojson }}>{% endmacro %}
{% for m in messages if m.role != 'tool' %}{% if loop.first and not (m.content is string) or m.role in ['a', "b"] %}{{ raise_exception('x' ~ loop.index0) }}
{% elif m.content[:3].startswith(' ') %}{{ show(m) }}{% else %}{% set ns.n = ns.n + loop.index * 2 % 7 // 1 %}{{ m.content.split('x')[-1] + '\n' }}{% endif %}{% endfor %}
{{ bos_token if add_generation_prompt else '' }}{{ ns.n - 1.5 }}{# note #}{{ messages | length }}{{ {'a': [1, (2, 3)]}.items() | list }}{{ x is defined }}{{ "%s" | replace('s', 'd') }}
END
cp $tiny/config.json "$out/config/tiny"
printf '%s' '{"model_type":"llama","num_hidden_layers":1,"hidden_size":4,"intermediate_size":2,"vocab_size":8,"num_attention_heads":2,"num_key_value_heads":1,"head_dim":2,"rope_theta":1e4,"rope_scaling":{"rope_type":"default"},"tie_word_embeddings":true,"eos_token_id":[1,2],"bos_token_id":0,"torch_dtype":"bfloat16"}' >"$out/config/small"
printf '%s' '{"peft_type":"LORA","r":4,"lora_alpha":8,"lora_dropout":0.1,"use_rslora":true,"target_modules":["q_proj","model.layers.0.mlp.up_proj"],"base_model_name_or_path":"../base","bias":"none","fan_in_fan_out":false,"modules_to_save":null,"rank_pattern":{"q_proj":8,"layers\\.[0-3]\\.mlp":2},"alpha_pattern":{".*q_proj":4}}' >"$out/adapter/json"
printf '%s' 'r=16,alpha=32,dropout=0.05,targets=q_proj+k_proj' >"$out/adapter/text"
printf '%s' 'rslora=true,targets=all-linear' >"$out/adapter/linear"
printf '%s' 'I think {"action_type":"submit_discovery_claim","parameters":{"channel":"four_lepton","mass_gev":343.0,"significance":8.5}} done' >"$out/cern-action/claim"
printf '%s' '```json
{"action_type": "scan_bump", "parameters": {}}
```' >"$out/cern-action/scan"
printf '%s' '{"action_type":"answer","parameters":{"answer":"user_7","supporting_edges":[{"src":"a","rel":"b","dst":"c"}]}}' >"$out/osint-action/answer"
rm -r "$out/model"
