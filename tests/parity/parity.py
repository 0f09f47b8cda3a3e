"""Hold spar against transformers: ids on varied strings, rendered chats, logits.

    parity.py BUILD MODEL

Prints one line a comparison and exits non-zero if one fails."""
import json, os, random, subprocess, sys, tempfile

import numpy as np
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

build, model_dir = sys.argv[1:3]
spar = os.path.join(build, "bin", "spar")
failed = 0


def report(what, ok, figure):
    global failed
    failed += not ok
    print(f"{'ok' if ok else 'NOT OK'}  {what}: {figure}", flush=True)


def strings(n, seed=1):
    """Words, numbers, code, JSON, Unicode of many blocks, long runs of blanks, control characters."""
    r = random.Random(seed)
    words = "the quick brown Fox don't I'M we're naïve café Ärger 日本語 привет नमस्ते مرحبا 👍🏽 👨‍👩‍👧 x² ½ ① 1234567 3.14 $1,000.50 2024-01-02".split(" ")
    code = ['{"a": [1, 2.5, null], "b": "c\\n"}', "def f(x):\n\treturn x ** 2  # no\n", "for (int i = 0; i < n; i++) {\r\n", "<|im_end|>", "<|im_start|>user\n"]
    blanks = [" ", "  ", "   ", "\n", "\n\n", "\t", "\r\n", "\u00a0", "\u3000", " \n ", ""]
    out = []
    while len(out) < n:
        parts = []
        for _ in range(r.randint(1, 12)):
            k = r.random()
            if k < 0.5:
                parts.append(r.choice(words))
            elif k < 0.6:
                parts.append(r.choice(code))
            elif k < 0.7:
                parts.append(str(r.randint(0, 10 ** r.randint(1, 12))))
            elif k < 0.8:
                parts.append("".join(chr(c) for c in (r.randint(1, 0x10FFFF) for _ in range(4)) if not 0xD800 <= c < 0xE000))
            else:
                parts.append(r.choice(blanks) * r.randint(1, 5))
            parts.append(r.choice(blanks))
        out.append("".join(parts))
    return out


def run(args, text):
    p = subprocess.run(args, input=text, capture_output=True)
    if p.returncode:
        sys.exit(f"{args}: exit {p.returncode}: {p.stderr.decode()}")
    return p.stdout


tokenizer = AutoTokenizer.from_pretrained(model_dir)
texts = strings(1000)
lines = "".join(json.dumps({"messages": [{"role": "user", "content": t}]}) + "\n" for t in texts).encode()
with tempfile.NamedTemporaryFile("w", suffix=".jinja") as identity:  # a text may hold newlines: let a record carry it
    identity.write("{{ messages[0].content }}")
    identity.flush()
    ids = run([spar, "text", "render", "--model", model_dir, "--template", identity.name, "--ids", "--content-markers"], lines)
ours = [json.loads(x) for x in ids.splitlines()]
theirs = tokenizer(texts, add_special_tokens=False)["input_ids"]
bad = [i for i, (a, b) in enumerate(zip(ours, theirs)) if a != b]
report("ids of 1,000 varied strings", not bad and len(ours) == len(texts), f"{len(texts) - len(bad)} equal" + (f", first other: {texts[bad[0]]!r} {ours[bad[0]]} {theirs[bad[0]]}" if bad else ""))

chats = [[{"role": "user", "content": "hi"}], [{"role": "system", "content": ""}, {"role": "user", "content": " a \n"}],
         [{"role": "user", "content": "2+2?"}, {"role": "assistant", "content": "4"}, {"role": "user", "content": "sure? ñ"}]]
records = "".join(json.dumps({"messages": c}) + "\n" for c in chats).encode()
ours_text = [json.loads(x) for x in run([spar, "text", "render", "--model", model_dir, "--json"], records).splitlines()]
theirs_text = [tokenizer.apply_chat_template(c, tokenize=False, add_generation_prompt=True) for c in chats]
report("rendered chats", ours_text == theirs_text, f"{sum(a == b for a, b in zip(ours_text, theirs_text))} of {len(chats)} equal")

prompts = [tokenizer(t, add_special_tokens=False)["input_ids"][:48] for t in theirs_text + texts[:17]]
prompts = [p for p in prompts if len(p) > 1] + [tokenizer("".join(texts[17:47]), add_special_tokens=False)["input_ids"][:300]]
lines = "".join(json.dumps(p) + "\n" for p in prompts).encode()
engine = np.frombuffer(run([os.path.join(build, "parity", "logits"), model_dir, "float32"], lines), dtype="<f4").reshape(len(prompts), -1)
graph = np.frombuffer(run([os.path.join(build, "parity", "graph"), model_dir, "logprobs"], lines), dtype="<f4")


def reference(model):
    """Logits after each prompt, log-probabilities of all its tokens but the first."""
    logits, logprobs = [], []
    with torch.no_grad():
        for p in prompts:
            rows = model(torch.tensor([p])).logits[0]
            logits.append(rows[-1].numpy())
            logprobs.append(rows[:-1].log_softmax(-1).gather(1, torch.tensor(p[1:])[:, None])[:, 0].numpy())
    return np.stack(logits), np.concatenate(logprobs)


def distance(a, b):
    return float(np.abs(a - b).max())


# transformers rounds too: float64 tells who is off.
model = AutoModelForCausalLM.from_pretrained(model_dir, dtype=torch.float32)
single, exact = reference(model), reference(model.double())
for what, ours, i in (f"engine: logits after {len(prompts)} prompts", engine, 0), (f"graph: log-probabilities of {len(graph)} tokens", graph, 1):
    report(f"{what}, from transformers in float32", distance(ours, single[i]) < 1e-4, f"at most {distance(ours, single[i]):.1e}")
    report(f"{what}, from float64", distance(ours, exact[i]) < 1e-4, f"at most {distance(ours, exact[i]):.1e} (transformers in float32: {distance(single[i], exact[i]):.1e})")
sys.exit(failed > 0)
