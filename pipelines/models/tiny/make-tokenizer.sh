#!/bin/sh
# Make the embedded model's tokenizer.json from vocabulary.txt: byte-level BPE, trained until every word of that text is one
# token, which makes it so in any text. What a word is, the pre-tokenizer says: a small model learns by copying, so a name
# has one id wherever it stands: blanks join punctuation before them ("," and " " as one), never a name, and each digit
# stands alone; but a name with a number of two digits (user_27) is a word, and "NN" in the text stands for all of them.
# The few joints of the environment's page (" z ", " GeV") swallow their blanks.
#	./make-tokenizer.sh <vocabulary.txt >tokenizer.json		(awk and jq; the same bytes every time)
set -eu
export LC_ALL=C
split=' (?:z|global|\+-) | (?:GeV|fb)(?![A-Za-z0-9_])|[a-z]+_[0-9]{2}(?![A-Za-z0-9_])|[A-Za-z_]+|[0-9]|[^\sA-Za-z0-9_]+ ?|\n+| +|[^\S\n ]+'

# One merge a line, "left<TAB>right". The patterns are those of `split`, as far as ASCII text needs them.
merges() {
	awk '
	function cut(line,    word) {
		while (line != "") {
			if (!match(line, /^ (z|global|\+-) /) && !(match(line, /^ (GeV|fb)/) && line !~ /^ (GeV|fb)[A-Za-z0-9_]/) &&
			    !(match(line, /^[a-z]+_[0-9][0-9]/) && line !~ /^[a-z]+_[0-9][0-9][A-Za-z0-9_]/) && !match(line, /^[A-Za-z_]+/) && !match(line, /^[0-9]/) && !match(line, /^[^ A-Za-z0-9_]+ ?/))
				match(line, /^ +/)
			word = substr(line, 1, RLENGTH)
			line = substr(line, RLENGTH + 1)
			if (word in seen)
				continue
			seen[word] = ++n
			for (size[n] = 0; size[n] < length(word); size[n]++)
				piece[n, size[n]] = substr(word, size[n] + 1, 1)
		}
	}
	function join(l, r,    w, i, k) {
		for (w = 1; w <= n; w++) {
			for (i = k = 0; i < size[w]; i++) {
				if (i + 1 < size[w] && piece[w, i] == l && piece[w, i + 1] == r)
					piece[w, k++] = l piece[w, ++i]
				else
					piece[w, k++] = piece[w, i]
			}
			size[w] = k
		}
	}
	# NN: every number of two digits.
	/_NN/ { line = $0; for (i = 10; i < 100; i++) { $0 = line; gsub(/_NN/, "_" i); cut($0) }; next }
	{ cut($0) }
	END {
		for (;;) {
			split("", times)
			most = 0
			# The first of the most frequent pairs in reading order: no tie is left to chance.
			for (w = 1; w <= n; w++)
				for (i = 0; i + 1 < size[w]; i++)
					if (++times[piece[w, i] "\t" piece[w, i + 1]] > most)
						most = times[piece[w, i] "\t" piece[w, i + 1]]
			if (!most)
				exit
			best = ""
			for (w = 1; w <= n && best == ""; w++)
				for (i = 0; i + 1 < size[w] && best == ""; i++)
					if (times[piece[w, i] "\t" piece[w, i + 1]] == most)
						best = piece[w, i] "\t" piece[w, i + 1]
			print best
			split(best, pair, "\t")
			join(pair[1], pair[2])
		}
	}'
}

merges | jq -R -n --indent 1 --arg split "$split" '
def printable: . >= 33 and . <= 126 or . >= 161 and . <= 172 or . >= 174;
# Byte-level alphabet: printable bytes stand for themselves, the others for U+0100 and up, in order.
def alphabet: [range(256) | select(printable)] + ([range(256) | select(printable | not)] | [range(length)] | map(. + 256))
	| map([.] | implode);
def marker($id): {id: $id, content: ["<|endoftext|>", "<|im_start|>", "<|im_end|>"][$id], single_word: false, lstrip: false,
	rstrip: false, normalized: false, special: true};
[inputs | gsub(" "; "Ġ") / "\t"] as $merges
| [marker(range(3))] as $added
| {
	version: "1.0", truncation: null, padding: null, added_tokens: $added, normalizer: null,
	pre_tokenizer: {type: "Sequence", pretokenizers: [
		{type: "Split", pattern: {Regex: $split}, behavior: "Isolated", invert: false},
		{type: "ByteLevel", add_prefix_space: false, trim_offsets: true, use_regex: false}]},
	post_processor: null,
	decoder: {type: "ByteLevel", add_prefix_space: true, trim_offsets: true, use_regex: true},
	model: {type: "BPE", dropout: null, unk_token: null, continuing_subword_prefix: null, end_of_word_suffix: null,
		fuse_unk: false, byte_fallback: false, ignore_merges: false,
		# Two merges may give one token.
		vocab: (reduce (($added[] | .content), alphabet[], ($merges[] | add)) as $token ({};
			if has($token) then . else .[$token] = length end)),
		merges: ($merges | map(join(" ")))}
}'
