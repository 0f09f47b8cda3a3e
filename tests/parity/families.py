"""Hold spar against transformers and peft, family by family, on small models with random weights made on the spot.

    families.py BUILD CACHE [FAMILY...]

For each: logits of the engine; loss and every gradient of the training graph; an adapter made by peft, read as it is and
merged; an adapter trained by spar, read by peft; a checkpoint written by spar, read by transformers; the GGUF file that
llama.cpp's converter makes, imported, and beside it the one that spar exports. One line a comparison;
exits non-zero if one fails."""
import copy, json, os, shutil, subprocess, sys, tempfile, warnings

import llama_cpp
import numpy as np
import torch
import transformers
from gguf import GGUFReader
from peft import LoraConfig, PeftModel, get_peft_model
from transformers import AutoModelForCausalLM
from transformers import GemmaConfig, Gemma2Config, Gemma3TextConfig, GPT2Config, LlamaConfig, MistralConfig, Qwen2Config, Qwen3Config, SmolLM3Config

build, cache, wanted = sys.argv[1], sys.argv[2], sys.argv[3:]
spar = os.path.join(build, "bin", "spar")
transformers.logging.set_verbosity_error()
transformers.logging.disable_progress_bar()
warnings.simplefilter("ignore")
failed = 0

TINY = "pipelines/models/tiny"  # its tokenizer goes with every model
SIZES = dict(vocab_size=1920, hidden_size=64, intermediate_size=96, num_hidden_layers=3, num_attention_heads=4, num_key_value_heads=2,
             max_position_embeddings=256, bos_token_id=1, eos_token_id=2, pad_token_id=0)
LLAMA3 = dict(rope_type="llama3", rope_theta=500000.0, factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0, original_max_position_embeddings=16)
YARN = dict(rope_type="yarn", rope_theta=10000.0, factor=4.0, original_max_position_embeddings=32)
FAMILIES = {
    "llama": LlamaConfig(**SIZES),
    "llama-biases": LlamaConfig(**SIZES, attention_bias=True, mlp_bias=True, tie_word_embeddings=True),
    "llama3": LlamaConfig(**SIZES, rope_parameters=LLAMA3),
    "llama-linear": LlamaConfig(**SIZES, rope_parameters=dict(rope_type="linear", rope_theta=10000.0, factor=4.0)),
    "llama-yarn": LlamaConfig(**SIZES, rope_parameters=YARN),
    "llama-yarn-mscale": LlamaConfig(**SIZES, rope_parameters=dict(YARN, mscale=0.7, mscale_all_dim=1.0, beta_fast=8.0, beta_slow=2.0, truncate=False)),
    "mistral": MistralConfig(**SIZES, sliding_window=7, head_dim=32),
    "mistral-no-window": MistralConfig(**SIZES, sliding_window=None),
    "qwen2": Qwen2Config(**SIZES),
    "qwen2-window": Qwen2Config(**SIZES, use_sliding_window=True, sliding_window=17, max_window_layers=1),
    "qwen3": Qwen3Config(**SIZES, head_dim=32, tie_word_embeddings=True),
    "smollm3": SmolLM3Config(**dict(SIZES, num_hidden_layers=5), no_rope_layer_interval=4),
    "gemma": GemmaConfig(**SIZES, head_dim=32),
    "gemma2": Gemma2Config(**SIZES, head_dim=32, sliding_window=5, query_pre_attn_scalar=24, attn_logit_softcapping=2.0, final_logit_softcapping=3.0),
    "gemma3": Gemma3TextConfig(**dict(SIZES, num_hidden_layers=7), head_dim=32, sliding_window=9, query_pre_attn_scalar=24, _sliding_window_pattern=6,
                               layer_types=["sliding_attention"] * 5 + ["full_attention", "sliding_attention"]),
    "gpt2": GPT2Config(vocab_size=1920, n_positions=256, n_embd=64, n_layer=3, n_head=4, bos_token_id=1, eos_token_id=2),
}


def report(what, ok, figure):
    global failed
    failed += not ok
    print(f"{'ok' if ok else 'NOT OK'}  {what}: {figure}", flush=True)


def run(args, text=b""):
    p = subprocess.run(args, input=text, capture_output=True)
    if p.returncode:
        raise RuntimeError(f"{' '.join(args)}: exit {p.returncode}: {p.stderr.decode()}")
    return p.stdout


def random_model(config, seed):
    """Weights large enough that every part shows in the logits."""
    torch.manual_seed(seed)
    model = AutoModelForCausalLM.from_config(config, attn_implementation="eager").float().eval()
    with torch.no_grad():
        for name, p in model.named_parameters():
            noise = torch.randn_like(p)
            vector = p.dim() == 1
            p.copy_(p + 0.2 * noise if vector else noise * (0.5 if "wte" in name or "embed" in name else 1.5 / p.shape[-1] ** 0.5))
    return model


def load(folder):
    return AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, attn_implementation="eager").eval()


def sequences():
    """Two that share a beginning, a long one and a short one; of ids that the tokenizer has."""
    r = np.random.default_rng(7)
    a = r.integers(3, 1857, 40).tolist()
    return [a, a[:25] + r.integers(3, 1857, 30).tolist(), r.integers(3, 1857, 150).tolist(), [5, 6]]


def lines(seqs):
    return "".join(json.dumps(s) + "\n" for s in seqs).encode()


def engine_logits(folder, seqs):
    raw = run([os.path.join(build, "parity", "logits"), folder, "float32"], lines(seqs))
    return torch.from_numpy(np.frombuffer(raw, dtype="<f4").reshape(len(seqs), -1).copy())


def last_logits(model, seqs):
    """In float64: transformers in float32 is further from them than spar is."""
    model = copy.deepcopy(model).double()
    with torch.no_grad():
        return torch.stack([model(torch.tensor([s])).logits[0, -1] for s in seqs])


def compare_logits(what, ours, theirs):
    worst, largest = float((ours - theirs).abs().max()), float(theirs.abs().max())
    report(what, worst < 1e-5 * largest, f"largest difference {worst:.1e} of {largest:.1f}")


def compare_gradients(what, folder, model, seqs):
    head, raw = run([os.path.join(build, "parity", "graph"), folder, "gradients"], lines(seqs)).split(b"\n", 1)
    head, values = json.loads(head), np.frombuffer(raw, dtype="<f4")
    model.zero_grad()
    n = sum(len(s) - 1 for s in seqs)
    loss = 0
    for s in seqs:
        ids = torch.tensor([s])
        logprobs = torch.log_softmax(model(ids).logits[0, :-1].double(), -1)
        part = -logprobs.gather(1, ids[0, 1:, None]).sum() / n
        part.backward()
        loss += part.item()
    theirs = {k.removeprefix("base_model.model.").replace(".default.weight", ""): p.grad for k, p in model.named_parameters() if p.grad is not None}
    worst, at, seen = 0.0, "", 0
    for name, size in head["parameters"]:
        ours, values = torch.from_numpy(values[:size].copy()), values[size:]
        g = theirs.pop(name)
        if any(x in name for x in ("c_attn.weight", "c_proj.weight", "c_fc.weight")):
            g = g.t()
        d = float((ours - g.reshape(-1)).norm() / (g.norm() + 1e-12))
        worst, at = max((worst, at), (d, name))
        seen += 1
    ok = abs(loss - head["loss"]) < 1e-5 and worst < 1e-4 and not theirs
    report(what, ok, f"loss {loss:.6f}, off by {abs(loss - head['loss']):.1e}; {seen} gradients, largest relative difference {worst:.1e} ({at})" + (f"; missing {sorted(theirs)[:3]}" if theirs else ""))


LORA = dict(r=4, lora_alpha=8, task_type="CAUSAL_LM")
PATTERNS = dict(target_modules=r".*\.(q|v|down|gate)_proj", rank_pattern={"v_proj": 7, r"layers\.1\.mlp\.down_proj": 2}, alpha_pattern={"self_attn.q_proj": 20})
ADAPTERS = {  # what a family's adapter looks like; others adapt three kinds of modules
    "gpt2": LoraConfig(**LORA, target_modules="all-linear", fan_in_fan_out=True),
    "llama": LoraConfig(**LORA, **PATTERNS),
    "mistral": LoraConfig(**LORA, target_modules=["q_proj", "o_proj"], use_rslora=True),
}


def adapters(name, folder, work, seqs):
    tuned = get_peft_model(load(folder), ADAPTERS.get(name, LoraConfig(**LORA, target_modules=["q_proj", "v_proj", "down_proj"]))).eval()
    with torch.no_grad():
        for k, p in tuned.named_parameters():
            if "lora_" in k:
                p.copy_(torch.randn_like(p) * 0.2)
    adapter, merged, trained = (os.path.join(work, x) for x in ("adapter", "merged", "trained"))
    tuned.save_pretrained(adapter)
    config = os.path.join(adapter, "adapter_config.json")
    said = json.load(open(config))
    said["base_model_name_or_path"] = folder
    json.dump(said, open(config, "w"))
    want = last_logits(tuned, seqs)
    compare_logits(f"{name}: peft's adapter in the engine", engine_logits(adapter, seqs), want)
    compare_gradients(f"{name}: gradients of its factors", adapter, tuned, seqs)
    run([spar, "model", "merge", "--out", merged, adapter])
    compare_logits(f"{name}: merged, in transformers", last_logits(load(merged), seqs), want)
    # With the usual targets: those of GPT-2 are none of them, so all its linear layers are adapted. Llama's goes on from peft's.
    start = adapter if name == "llama" else folder
    records = "".join(json.dumps(dict(type="sft", prompt=f"What is {i}?", completion=f" {i} is a number.")) + "\n" for i in range(4)).encode()
    run([spar, "update", "--loss-type", "sft", "--lora", "dropout=0,r=3", "--learning-rate", "0.01", "--max-steps", "3", "-q", "--model", start, "--out", trained], records)
    theirs = last_logits(PeftModel.from_pretrained(load(folder), trained).eval(), seqs)
    compare_logits(f"{name}: an adapter that spar trained, in peft", engine_logits(trained, seqs), theirs)
    change = float((theirs - (want if name == "llama" else last_logits(load(folder), seqs))).abs().max())
    report(f"{name}: it does something", change > 1e-2, f"largest change {change:.2f}")


def stored(name, work, folder, seqs):
    """float16 and bfloat16, in shards; what spar writes of them."""
    for dtype in (torch.float16, torch.bfloat16):
        half, again = (os.path.join(work, x + str(dtype)) for x in ("half", "again"))
        load(folder).to(dtype).save_pretrained(half, max_shard_size="200KB")
        for file in ("tokenizer.json", "tokenizer_config.json"):
            shutil.copy(os.path.join(TINY, file), half)
        want = last_logits(load(half), seqs)
        compare_logits(f"{name}: {dtype} in shards", engine_logits(half, seqs), want)
    records = json.dumps(dict(type="sft", prompt="a", completion="b")).encode()
    run([spar, "update", "--loss-type", "sft", "--learning-rate", "1e-3", "--max-steps", "1", "-q", "--model", half, "--out", again], records)
    compare_logits(f"{name}: a checkpoint that spar trained, in transformers", engine_logits(again, seqs), last_logits(load(again), seqs))


# Not in a file of llama.cpp's, or not in one that spar would take for something else.
NO_IMPORT = {"mistral": "llama.cpp leaves its window out", "qwen2-window": "llama.cpp leaves its window out"}
REFUSED_IMPORT = {"llama3": "factors of no scaling that is known", "llama-yarn-mscale": "yarn_beta_fast: not supported"}
REFUSED_EXPORT = {"mistral": "sliding windows", "qwen2-window": "sliding windows", "llama-linear": "rope scaling", "llama-yarn": "rope scaling", "llama-yarn-mscale": "rope scaling",
                  "gemma": "gemma", "gemma2": "gemma2", "gemma3": "gemma3_text"}
# Of the converter's metadata: what spar's file does not say, as it follows from the rest or tells nothing of the model.
UNSAID = ("general.", "GGUF.", "tokenizer.ggml.add_", "tokenizer.ggml.padding_token_id",
          "tokenizer.ggml.bos_token_id")  # config.json has one, the tokenizer none


def refused(args, why):
    p = subprocess.run(args, capture_output=True)
    return p.returncode == 3 and why in p.stderr.decode()


def gguf(name, folder, work, seqs):
    """A copy with a way of cutting text that GGUF has a name for."""
    named, theirs, ours, imported = (os.path.join(work, x) for x in ("named", "theirs.gguf", "ours.gguf", "imported"))
    shutil.copytree(folder, named)
    with open(os.path.join(named, "tokenizer.json")) as f:
        tokenizer = json.load(f)
    tokenizer["pre_tokenizer"] = {"type": "Sequence", "pretokenizers": [{"type": "Digits", "individual_digits": True},
                                                                        {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}]}
    with open(f.name, "w") as f:
        json.dump(tokenizer, f)
    with open(os.path.join(named, "config.json")) as f:
        config = json.load(f)
    if name == "gpt2":
        config["n_ctx"] = config["n_positions"]  # the converter reads the older name
    if name in ("gemma2", "gemma3"):
        config["query_pre_attn_scalar"] = config["head_dim"]  # no file says it: llama.cpp takes what the published models have
    with open(f.name, "w") as f:
        json.dump(config, f)
    want = last_logits(load(named), seqs)
    if name not in NO_IMPORT:
        llama_cpp.convert(cache, named, theirs, "smollm")
        command = [spar, "model", "import", theirs, "--out", imported]
        if name in REFUSED_IMPORT:
            report(f"{name}: llama.cpp's file refused by name", refused(command, REFUSED_IMPORT[name]), REFUSED_IMPORT[name])
        else:
            run(command)
            got = engine_logits(imported, seqs)  # of some families without the rows beyond the tokenizer
            compare_logits(f"{name}: llama.cpp's file", got, want[:, :got.shape[1]])
    command = [spar, "model", "export", "--gguf", named, "--out", ours]
    if name in REFUSED_EXPORT:
        report(f"{name}: export refused by name", refused(command, f"export of {REFUSED_EXPORT[name]} is not supported"), REFUSED_EXPORT[name])
        return
    run(command)
    compare_files(f"{name}: the file that spar exports, and llama.cpp's", ours, theirs)


def compare_files(what, ours, theirs):
    a, b = GGUFReader(ours), GGUFReader(theirs)
    x, y = ({t.name: t.data for t in r.tensors} for r in (a, b))
    wrong = sorted(x.keys() ^ y.keys()) + [k for k in x.keys() & y.keys() if x[k].shape != y[k].shape or not np.allclose(x[k], y[k], rtol=1e-6, atol=0)]
    x, y = ({k: f.contents() for k, f in r.fields.items() if not k.startswith(UNSAID)} for r in (a, b))
    wrong += sorted(y.keys() - x.keys()) + [f"{k}: {str(x[k])[:60]}, theirs {str(y[k])[:60]}" for k in x.keys() & y.keys() if x[k] != y[k]]
    report(what, not wrong, f"{len(a.tensors)} tensors and {len(x.keys() & y.keys())} keys are equal" if not wrong else wrong)


def family(name, config, work):
    folder, seqs = os.path.join(work, "model"), sequences()
    model = random_model(config, 1)
    model.save_pretrained(folder)
    for file in ("tokenizer.json", "tokenizer_config.json"):
        shutil.copy(os.path.join(TINY, file), folder)
    model = load(folder)
    compare_logits(f"{name}: logits", engine_logits(folder, seqs), last_logits(model, seqs))
    compare_gradients(f"{name}: loss and gradients", folder, model, seqs)
    adapters(name, folder, work, seqs)
    gguf(name, folder, work, seqs)
    if name in ("qwen2", "gpt2"):
        stored(name, work, folder, seqs)


for name, config in FAMILIES.items():
    if wanted and name not in wanted:
        continue
    with tempfile.TemporaryDirectory() as work:
        try:
            family(name, config, work)
        except Exception as e:
            report(name, False, e)
sys.exit(failed > 0)
