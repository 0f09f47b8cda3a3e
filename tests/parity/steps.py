"""Hold small tokenizers of random parts against the tokenizers library: each normalizer, pre-tokenizer, model and decoder in
random sequences and with random options, on random strings.

    steps.py BUILD N [SEED]

N tokenizers. Exits non-zero if ids or text of one string differ."""
import json, os, random, subprocess, sys, tempfile

from tokenizers import Tokenizer

MARK = "▁"
TEXTS = "ab|Ab c|  a  b |a1b22 c٣|don't, stop!|é e\u0301 Å ﬁ İ|a\nb\t\u00a0c|日本 語|🙂👍🏽 x|<s>ab<s> c|x<m> <m>y a<m>|▁a ▁|$a+b=c_d|<0x0A>\x01|¿qué? «x»|a.b..c|\u2028a\u3000|aaaa bbbb||  ".split("|")
BYTE_LEVEL = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}


def alphabet():
    printable = list(range(33, 127)) + list(range(161, 173)) + list(range(174, 256))
    signs = {b: chr(b) for b in printable}
    for b in range(256):
        signs.setdefault(b, chr(256 + sum(1 for x in range(b) if x not in printable)))
    return [signs[b] for b in range(256)]


def pattern(r):
    return r.choice([{"String": " "}, {"String": "a"}, {"String": "."}, {"Regex": "\\s+"}, {"Regex": "\\p{L}+"}, {"Regex": "[^\\w\\s]"}, {"Regex": "\\d{1,2}|\\p{Lu}"}, {"Regex": "a(?!b)"}])


def normalizer(r):
    return r.choice([lambda: {"type": r.choice(["NFC", "NFD", "NFKC", "NFKD", "Lowercase", "StripAccents"])}, lambda: {"type": "Prepend", "prepend": MARK},
                     lambda: {"type": "Replace", "pattern": pattern(r), "content": r.choice([MARK, "", "xy"])},
                     lambda: {"type": "Strip", "strip_left": r.random() < 0.5, "strip_right": r.random() < 0.5}])()


def pretokenizer(r):
    behavior = r.choice(["Isolated", "Removed", "MergedWithPrevious", "MergedWithNext", "Contiguous"])
    return r.choice([lambda: {"type": "Split", "pattern": pattern(r), "behavior": behavior, "invert": r.random() < 0.3}, lambda: {"type": "Digits", "individual_digits": r.random() < 0.5},
                     lambda: {"type": "Whitespace"}, lambda: {"type": "WhitespaceSplit"}, lambda: {"type": "Punctuation", "behavior": behavior},
                     lambda: {"type": "CharDelimiterSplit", "delimiter": r.choice("a b")},
                     lambda: {"type": "Metaspace", "replacement": MARK, "prepend_scheme": r.choice(["always", "first", "never"]), "split": r.random() < 0.6}])()


def sequence(r, make, key, most):
    steps = [make(r) for _ in range(r.randint(0, most))]
    return r.choice([{"type": "Sequence", key: steps}, steps[0]]) if steps else None


def bpe(r, byte_level):
    signs = alphabet()
    vocab = {s: i for i, s in enumerate(signs)} if byte_level else {s: i for i, s in enumerate(dict.fromkeys(["<unk>"] + list("abcdexyz .,1'") + [MARK, "é", "日"] + [f"<0x{b:02X}>" for b in range(256)]))}
    merges = []
    letters = list(vocab) if byte_level else [s for s in vocab if len(s) == 1]
    favoured = [s for s in letters if s in "abcdexy1" + MARK + signs[32]]
    for _ in range(40):
        known = favoured + ["".join(m) for m in merges]
        a, b = r.choice(known), r.choice(known)
        if len(a + b) < 6 and [a, b] not in merges:
            merges.append([a, b])
            vocab.setdefault(a + b, len(vocab))
    flags = {"fuse_unk": r.random() < 0.5, "byte_fallback": not byte_level and r.random() < 0.5, "ignore_merges": r.random() < 0.3, "unk_token": None if byte_level or r.random() < 0.3 else "<unk>"}
    return {"type": "BPE", "dropout": None, "continuing_subword_prefix": None, "end_of_word_suffix": None, "vocab": vocab, "merges": merges, **flags}


def unigram(r):
    pieces = dict.fromkeys(["<unk>", MARK] + list("abcde1.") + ["".join(r.choice("abcd" + MARK) for _ in range(r.randint(2, 4))) for _ in range(30)] + [f"<0x{b:02X}>" for b in range(256)])
    return {"type": "Unigram", "unk_id": 0, "byte_fallback": r.random() < 0.5, "vocab": [[s, round(-r.random() * 10, 6)] for s in pieces]}


def decoder(r, byte_level):
    if byte_level:
        return BYTE_LEVEL
    steps = [{"type": "Replace", "pattern": {"String": MARK}, "content": " "}, {"type": "ByteFallback"}, {"type": "Fuse"}, {"type": "Strip", "content": r.choice(" a"), "start": r.randint(0, 2), "stop": 0}]  # the reference breaks on tokens shorter than stop
    return r.choice([{"type": "Sequence", "decoders": steps}, {"type": "Sequence", "decoders": [steps[0], steps[3]]}, {"type": "Metaspace", "replacement": MARK, "prepend_scheme": r.choice(["always", "never"])}, None])


def tokenizer(r):
    byte_level = r.random() < 0.5
    pre = sequence(r, pretokenizer, "pretokenizers", 3)
    if byte_level:
        last = {**BYTE_LEVEL, "add_prefix_space": r.random() < 0.3, "use_regex": r.random() < 0.5}
        pre = {"type": "Sequence", "pretokenizers": ([pre] if pre else []) + [last]}
    model = bpe(r, byte_level) if byte_level or r.random() < 0.6 else unigram(r)
    n = len(model["vocab"])
    flags = lambda special: {k: r.random() < 0.3 for k in ("single_word", "lstrip", "rstrip", "normalized")} | {"special": special}
    normal = sequence(r, normalizer, "normalizers", 3)
    if normal and "first" in json.dumps(pre):  # spar's first piece is the text's, also when a normalizer took away what was before it
        normal = None
    return {"version": "1.0", "truncation": None, "padding": None, "normalizer": normal, "pre_tokenizer": pre, "post_processor": None,
            "decoder": decoder(r, byte_level), "model": model, "added_tokens": [{"id": n, "content": "<s>", **flags(True)}, {"id": n + 1, "content": "<m>", **flags(False)}]}


def run(args, text):
    p = subprocess.run(args, input=text.encode(), capture_output=True)
    return p.stdout.decode().split("\n")[:-1] if p.returncode == 0 else p.stderr.decode()


def main():
    build, n, seed = sys.argv[1], int(sys.argv[2]), int((sys.argv + ["1"])[3])
    spar, bad, compared, broken = os.path.join(build, "bin", "spar"), 0, 0, 0
    with tempfile.TemporaryDirectory() as folder:
        with open(os.path.join(folder, "chat_template.jinja"), "w") as f:
            f.write("{{ messages[0].content }}")
        for i in range(n):
            r = random.Random(f"{seed}/{i}")
            data = tokenizer(r)
            with open(os.path.join(folder, "tokenizer.json"), "w") as f:
                json.dump(data, f)
            theirs = Tokenizer.from_file(f.name)
            texts = [r.choice(TEXTS) + r.choice(["", " ", "a"]) + r.choice(TEXTS) for _ in range(30)]
            ours = run([spar, "text", "render", "--model", folder, "--ids", "--content-markers"], "".join(json.dumps({"messages": [{"role": "user", "content": t}]}) + "\n" for t in texts))
            try:
                wanted = [e.ids for e in theirs.encode_batch(texts, add_special_tokens=False)]
            except BaseException as e:  # the reference itself breaks on some sequences that move offsets
                if type(e).__name__ != "PanicException":
                    raise
                broken += 1
                continue
            back = run([spar, "text", "decode", "--model", folder, "--json"], "".join(json.dumps(w) + "\n" for w in wanted))
            shown = theirs.decode_batch(wanted, skip_special_tokens=False)
            compared += len(texts)
            wrong = [(t, w, o) for t, w, o in zip(texts, wanted, ours) if json.loads(o) != w] if isinstance(ours, list) else [ours]
            wrong += [(w, s, json.loads(b)) for w, s, b in zip(wanted, shown, back) if json.loads(b) != s and "\ufffd" not in s and not any(a["normalized"] for a in data["added_tokens"])]  # whose text the reference changes if isinstance(back, list) else [back]
            if wrong:
                bad += 1
                print(f"NOT OK  tokenizer {i}: {json.dumps({k: data[k] for k in ('normalizer', 'pre_tokenizer', 'decoder')}, ensure_ascii=False)} {[(k, v) for k, v in data['model'].items() if k not in ('vocab', 'merges')]} {data['added_tokens']}\n    {wrong[0]}", flush=True)
    print(f"{'NOT OK' if bad else 'ok'}  {n} tokenizers of random parts, ids and text of {compared} strings: {n - bad - broken} equal, {broken} broke the reference")
    sys.exit(bad > 0)


main()
