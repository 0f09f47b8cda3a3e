# The parts of tokenizer.json that are not byte-level, on vocabularies small enough to follow by hand. What was expected was
# also given by the reference implementation.
load common

MARK='▁'
# A SentencePiece BPE vocabulary: <unk> 0, the mark 1, a 2, b 3, c 4, then "▁a" 5, "▁▁" 6, "ab" 7, then the bytes from 8 on.
BYTE0=8
MODEL='{"type":"BPE","unk_token":"<unk>","fuse_unk":true,"byte_fallback":true,"merges":["▁ a","▁ ▁","a b"]}'
STEPS='{"type":"Sequence","decoders":[{"type":"Replace","pattern":{"String":"▁"},"content":" "},{"type":"ByteFallback"},{"type":"Fuse"},{"type":"Strip","content":" ","start":1,"stop":0}]}'

# spm NAME JQ: a model folder; JQ edits the file. </s> is 264, <m> is 265 and not special.
spm() {
	mkdir -p "$SCRATCH/$1"
	jq -n -c --argjson model "$MODEL" --argjson decoder "$STEPS" '
		def hex: . as $b | "0123456789ABCDEF" as $d | "<0x" + $d[($b / 16 | floor):($b / 16 | floor) + 1] + $d[$b % 16:$b % 16 + 1] + ">";
		(["<unk>", "▁", "a", "b", "c", "▁a", "▁▁", "ab"] + [range(256) | hex]) as $tokens
		| {normalizer: null, pre_tokenizer: null, post_processor: null, decoder: $decoder,
		   added_tokens: [{id: 264, content: "</s>", special: true, normalized: false}, {id: 265, content: "<m>", special: false, normalized: false}],
		   model: ($model + {vocab: ($tokens | to_entries | map({key: .value, value: .key}) | from_entries)})}' |
		jq -c "$2" >"$SCRATCH/$1/tokenizer.json"
}

enc() { printf '%b' "$2" | spar text encode --model="$SCRATCH/$1" "${@:3}"; }
dec() { printf '%s\n' "$2" | spar text decode --model="$SCRATCH/$1" --json "${@:3}"; }
byte() { echo $((BYTE0 + $1)); }

@test "Prepend and Replace put the mark before each stretch between special tokens (B03)" {
	spm p '.normalizer = {type: "Sequence", normalizers: [{type: "Prepend", prepend: "▁"}, {type: "Replace", pattern: {String: " "}, content: "▁"}]}'
	[ "$(enc p ab)" = '[5,3]' ]
	[ "$(enc p ' a')" = '[1,5]' ]
	[ "$(enc p '  a')" = '[6,5]' ]
	[ "$(enc p '</s>a')" = '[264,5]' ]
	[ "$(enc p 'b</s> a')" = '[1,3,264,1,5]' ]
	[ "$(enc p '')" = '[]' ]
	[ "$(enc p 'a\u00e9')" = "[5,$(byte 0xC3),$(byte 0xA9)]" ]
	[ "$(dec p "$(enc p 'a  b')")" = '"a  b"' ]
	[ "$(dec p '[5,1,3]')" = '"a b"' ]
}

@test "Metaspace always, first and never, split or not (B03)" {
	for split in true false; do
		for scheme in always first never; do
			spm m "$(printf '.pre_tokenizer = {type: "Metaspace", replacement: "▁", prepend_scheme: "%s", split: %s} | .decoder = .pre_tokenizer' $scheme $split)"
			case $scheme in
			always) want='[5,264,5,5]' ;;
			first) want='[5,264,2,5]' ;;
			*) want='[2,264,2,5]' ;;
			esac
			[ "$(enc m 'a</s>a a')" = "$want" ]
		done
	done
	# without the newer option, add_prefix_space says it
	spm m '.pre_tokenizer = {type: "Metaspace", replacement: "▁", add_prefix_space: false}'
	[ "$(enc m a)" = '[2]' ]
	# the marks of the first token are dropped, unless none was put there
	spm m '.decoder = {type: "Metaspace", replacement: "▁", prepend_scheme: "always"}'
	[ "$(dec m '[5,5]')" = '"a a"' ]
	spm m '.decoder = {type: "Metaspace", replacement: "▁", prepend_scheme: "never"}'
	[ "$(dec m '[5,5]')" = '" a a"' ]
}

@test "characters without a token: bytes, else unk, fused or not, else nothing" {
	spm u '.'
	[ "$(enc u 'xy')" = "[$(byte 120),$(byte 121)]" ]
	spm u '.model.byte_fallback = false'
	[ "$(enc u 'axyb')" = '[2,0,3]' ]
	spm u '.model += {byte_fallback: false, fuse_unk: false}'
	[ "$(enc u 'axyb')" = '[2,0,0,3]' ]
	spm u '.model += {byte_fallback: false, unk_token: null}'
	[ "$(enc u 'axyb')" = '[7]' ] # what is left out is not between its neighbours
}

@test "a word is cut only where no token reaches over" {
	spm w '.'
	[ "$(enc w "$(printf 'ab%.0s' {1..1000})" | jq -c '[length, (unique | length)]')" = '[1000,1]' ]
	[ "$(enc w 'cabac')" = '[4,7,2,4]' ]
}

@test "Unigram: the likeliest way, an unknown stretch as one unk or as bytes" {
	spm g '.model = {type: "Unigram", unk_id: 0, vocab: [["<unk>", 0], ["a", -1], ["b", -1], ["ab", -1.5], ["aba", -4], ["<0x78>", -9]]} | .added_tokens = []'
	[ "$(enc g ab)" = '[3]' ]
	[ "$(enc g aba)" = '[3,1]' ]
	[ "$(enc g axxb)" = '[1,0,2]' ]
	spm g '.model = {type: "Unigram", unk_id: 0, byte_fallback: true, vocab: [["<unk>", 0], ["a", -1], ["<0x78>", -9]]} | .added_tokens = []'
	[ "$(enc g axxa)" = '[1,2,2,1]' ]
	[ "$(enc g axya)" = '[1,0,1]' ] # no token for y's byte: all of the stretch is unk
	spm g '.model = {type: "Unigram", unk_id: null, vocab: [["a", -1]]} | .added_tokens = []'
	run -3 --separate-stderr enc g ax
	[[ $stderr == 'text: '*'a character of the text has no token, and the model no unk_id' ]]
}

# words JQ TEXT: the pieces that a pre-tokenizer makes, shown by a vocabulary that has no merges but whole words
words() {
	spm k ".pre_tokenizer = ($1) | .decoder = null | .model += {ignore_merges: true, byte_fallback: false, merges: []}
		| .model.vocab = ([\"<unk>\", \"a\", \"b\", \"aa\", \"ab\", \"a1\", \"1\", \"11\", \"a.\", \".\", \"..\", \".a\", \" \", \" a\", \"a \", \"1a\"] | to_entries | map({key: .value, value: .key}) | from_entries)
		| .added_tokens = []"
	spar text decode --model="$SCRATCH/k" --json <<<"$(enc k "$2")"
}

@test "pre-tokenizers: every kind, every behaviour" {
	[ "$(words '{type: "Digits", individual_digits: true}' 'a11')" = '"a 1 1"' ]
	[ "$(words '{type: "Digits", individual_digits: false}' 'a11')" = '"a 11"' ]
	[ "$(words '{type: "WhitespaceSplit"}' 'aa \u3000 ab')" = '"aa ab"' ]
	[ "$(words '{type: "Whitespace"}' 'aa..ab a')" = '"aa .. ab a"' ]
	[ "$(words '{type: "Punctuation", behavior: "Isolated"}' 'a..a')" = '"a . . a"' ]
	[ "$(words '{type: "CharDelimiterSplit", delimiter: "b"}' 'aabab')" = '"aa a"' ]
	split() { words "$(printf '{type: "Split", pattern: {String: "."}, behavior: "%s", invert: %s}' "$1" "${3:-false}")" "$2"; }
	[ "$(split Isolated a.a)" = '"a . a"' ]
	[ "$(split Removed a.a)" = '"a a"' ]
	[ "$(split MergedWithPrevious a.a)" = '"a. a"' ]
	[ "$(split MergedWithNext a.a)" = '"a .a"' ]
	[ "$(split Contiguous a..a)" = '"a .. a"' ]
	[ "$(split Removed a..a true)" = '". ."' ]
}

@test "normalizers, one after the other" {
	norm() { spm n ".normalizer = {type: \"Sequence\", normalizers: [$1]}" && dec n "$(enc n "$2")"; }
	[ "$(norm '{type: "Lowercase"}' 'A\u0130\u00c9')" = '"ai̇é"' ]
	[ "$(norm '{type: "NFD"}, {type: "StripAccents"}' '\u00e9a')" = '"ea"' ]
	[ "$(norm '{type: "NFKC"}' '\ufb01')" = '"fi"' ]
	[ "$(norm '{type: "Strip", strip_left: true, strip_right: false}' '  a ')" = '"a "' ]
	[ "$(norm '{type: "Strip", strip_left: false, strip_right: true}' 'b  ')" = '"b"' ]
	[ "$(norm '{type: "Replace", pattern: {Regex: "a+"}, content: "b"}, {type: "Prepend", prepend: "c"}' 'xaaa')" = '"cxb"' ]
	# an added token of normalized text is looked for in its own normal form, and in content a special one stays text
	spm n '.normalizer = {type: "Lowercase"} | .added_tokens[0] += {normalized: true, content: "<S>"}'
	[ "$(enc n 'a<S><s>')" = '[2,264,264]' ]
	printf '%s' '<S>{{ messages[0].content }}' >"$SCRATCH/n/chat_template.jinja"
	[ "$(spar text render --model="$SCRATCH/n" --ids <<<'{"messages":[{"role":"user","content":"<S>"}]}' | jq -c 'map(select(. == 264))')" = '[264]' ]
}

# data/charsmap.base64 is what sentencepiece 0.2.3 writes for these rules: U+FB01 is "ab", CR a blank, c with U+0301 is "b", U+00BD is "aaa",
# U+00AD nothing.
@test "Precompiled: a table of replacements, for characters as people count them and for single ones" {
	map() {
		spm t ".normalizer = {type: \"Precompiled\", precompiled_charsmap: \"$(cat "$DATA/charsmap.base64")\"}"
		dec t "$(enc t "$1")"
	}
	[ "$(map 'x\ufb01a\u00bd\u00ad')" = '"xabaaaa"' ]
	[ "$(map 'a\rb')" = '"a b"' ]
	[ "$(map 'a\r\nb')" = '"a b"' ]       # the two are one character, and the table has its beginning
	[ "$(map 'c\u0301a')" = '"ba"' ]
	[ "$(map '\u00bd\u1ae9a')" = "$(map '\u00bda')" ]   # a mark of Unicode 17
	[ "$(map 'c\u0301\u0302\u0302')" = "$(printf '"c\u0301\u0302\u0302"')" ] # too long to be looked up whole
	spm t '.normalizer = {type: "Precompiled", precompiled_charsmap: "AAQAAA=="}'
	run -3 --separate-stderr enc t a
	[[ $stderr == 'text: '*'.normalizer.precompiled_charsmap: a trie of 1024 bytes in a table of 4' ]]
	spm t '.normalizer = {type: "Precompiled", precompiled_charsmap: "A*"}'
	run -3 --separate-stderr enc t a
	[[ $stderr == 'text: '*'.normalizer.precompiled_charsmap: not base64' ]]
	# A trie that points beyond itself has nothing; a text beyond the table is refused.
	spm t '.normalizer = {type: "Precompiled", precompiled_charsmap: "BAAAAAD//38="}'
	[ "$(enc t a)" = '[2]' ]
	spm t '.normalizer = {type: "Precompiled", precompiled_charsmap: "BAAAAP///4A="}'
	run -3 --separate-stderr enc t a
	[[ $stderr == 'text: '*'.normalizer.precompiled_charsmap: a text at byte 16777215 of 0' ]]
}

@test "decoding: bytes become one character, a half one shows as U+FFFD, Strip takes one blank of the whole only (B05)" {
	spm d '.'
	[ "$(dec d "[2,$(byte 0xF0),$(byte 0x9F),$(byte 0x99),$(byte 0x82)]")" = '"a🙂"' ]
	[ "$(dec d "[2,$(byte 0xF0),$(byte 0x9F)]")" = '"a�"' ]
	[ "$(dec d '[1,1,2]')" = '" a"' ]
	[ "$(dec d '[264,2,265]' --skip-special-tokens)" = '"a<m>"' ]
	spm d '.decoder = {type: "Strip", content: "a", start: 1, stop: 0}'
	[ "$(dec d '[7,2,3]')" = '"bb"' ]
	spm d '.decoder.decoders += [{type: "Replace", pattern: {String: "a"}, content: "b"}]'
	run -3 --separate-stderr dec d '[2]'
	[[ $stderr == *'.decoder: Replace behind Fuse is not supported' ]]
}
