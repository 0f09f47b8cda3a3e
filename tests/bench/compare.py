"""Measure spar against llama.cpp, transformers and TRL, all in one run, sides alternated.

    compare.py BUILD MODEL RESULTS.jsonl

A JSON line for each measurement is appended to RESULTS.jsonl; the ratios go to standard output. MODEL is a Llama-shaped
folder (SmolLM2-135M-Instruct). Every side runs in a process of its own, so that it has its threads and its peak memory to
itself. Knobs, from the environment: PROMPTS (groups that share one), GENERATIONS, NEW_TOKENS, THREADS, ROUNDS, SIDES,
UPDATE_PROMPTS and STEP_PROMPTS (of the update's and the whole step's comparison, 0: leave it out), STEP_ROUNDS, GROWTH
(empty: leave it out)."""
import json, os, platform, random, statistics, subprocess, sys, tempfile, time

KNOBS = {"PROMPTS": 8, "GENERATIONS": 8, "NEW_TOKENS": 64, "PROMPT_TOKENS": 350, "THREADS": 2, "ROUNDS": 3, "UPDATE_PROMPTS": 8,
         "STEP_PROMPTS": 8, "STEP_ROUNDS": 1, "MICRO_SEQUENCES": 8}
for name, value in KNOBS.items():
    KNOBS[name] = int(os.environ.get(name, value))
VOCABULARY = 49152


def work(n_groups):
    """n_groups prompts and their completions, as ids: the same on every side."""
    rng = random.Random(1)
    ids = lambda n: [rng.randrange(10, VOCABULARY - 10) for _ in range(n)]
    return [(ids(KNOBS["PROMPT_TOKENS"]), [ids(KNOBS["NEW_TOKENS"]) for _ in range(KNOBS["GENERATIONS"])])
            for _ in range(n_groups)]


def conversations(n):
    """n prompts as a person writes them, of about PROMPT_TOKENS tokens: SmolLM2's template has 30, and a digit is one."""
    return [[{"role": "user", "content": (f"Go on counting for as long as you can: {g} " + "1 2 3 4 5 6 7 8 9 " * 100)
              [:KNOBS["PROMPT_TOKENS"] - 30]}] for g in range(n)]


# ---- the sides: each is run by itself, and returns its figures ----

def side_machine():
    """What a perfect program could reach: products of matrices, and reading memory."""
    import torch
    torch.set_num_threads(KNOBS["THREADS"])

    def best(run, n=5):
        times = []
        for _ in range(n):
            start = time.perf_counter()
            run()
            times.append(time.perf_counter() - start)
        return min(times)

    figures = {}
    for name, dtype in (("float32", torch.float32), ("bfloat16", torch.bfloat16)):
        a, b = torch.rand(2048, 2048).to(dtype), torch.rand(2048, 2048).to(dtype)
        figures[name + "_gflops"] = 2 * 2048**3 / best(lambda: a @ b) / 1e9
    big = torch.ones(1 << 28)
    figures["read_gb_per_s"] = big.numel() * 4 / best(big.sum) / 1e9
    return figures


def side_llama(gguf):
    """llama.cpp: each prompt once, copied to its group's sequences; then steps of all sequences, each with its own stream of
    keys and values, flash attention, samplers over the whole vocabulary."""
    import llama_cpp as L
    groups, per_group, new = KNOBS["PROMPTS"], KNOBS["GENERATIONS"], KNOBS["NEW_TOKENS"]
    n = groups * per_group
    quiet = L.llama_log_callback(lambda level, text, data: None)
    L.llama_log_set(quiet, None)
    L.llama_backend_init()
    model = L.llama_model_load_from_file(gguf.encode(), L.llama_model_default_params())
    p = L.llama_context_default_params()
    p.n_ctx, p.n_seq_max, p.kv_unified = n * 512, n, False
    p.n_batch = p.n_ubatch = 512
    p.n_threads = p.n_threads_batch = KNOBS["THREADS"]
    p.flash_attn_type = 1
    context = L.llama_init_from_model(model, p)
    memory = L.llama_get_memory(context)
    batch = L.llama_batch_init(512, 0, 1)

    def decode(rows):
        """rows: (token, position, sequence, are its logits wanted)"""
        batch.n_tokens = len(rows)
        for i, (token, position, sequence, wanted) in enumerate(rows):
            batch.token[i], batch.pos[i], batch.n_seq_id[i], batch.seq_id[i][0], batch.logits[i] = \
                token, position, 1, sequence, wanted
        assert L.llama_decode(context, batch) == 0

    chains = []
    for i in range(n):
        chain = L.llama_sampler_chain_init(L.llama_sampler_chain_default_params())
        L.llama_sampler_chain_add(chain, L.llama_sampler_init_temp(1.0))
        L.llama_sampler_chain_add(chain, L.llama_sampler_init_dist(i))
        chains.append(chain)
    prompts = [prompt for prompt, _ in work(groups)]
    start = time.perf_counter()
    tokens = []
    for g, prompt in enumerate(prompts):
        decode([(t, i, g * per_group, i + 1 == len(prompt)) for i, t in enumerate(prompt)])
        for k in range(per_group):
            tokens.append(L.llama_sampler_sample(chains[g * per_group + k], context, -1))
            if k:
                L.llama_memory_seq_cp(memory, g * per_group, g * per_group + k, -1, -1)
    prompt_s = time.perf_counter() - start
    start = time.perf_counter()
    for step in range(new):
        decode([(t, KNOBS["PROMPT_TOKENS"] + step, i, True) for i, t in enumerate(tokens)])
        tokens = [L.llama_sampler_sample(chains[i], context, i) for i in range(n)]
    decode_s = time.perf_counter() - start
    return {"prompt_s": prompt_s, "decode_s": decode_s, "tokens_per_s": n * new / decode_s}


def side_transformers(model_dir):
    """generate, as TRL samples without vLLM: all sequences in one batch, nothing shared."""
    import torch
    from transformers import AutoModelForCausalLM
    torch.set_num_threads(KNOBS["THREADS"])
    model = AutoModelForCausalLM.from_pretrained(model_dir, dtype=torch.bfloat16)
    ids = torch.tensor([prompt for prompt, completions in work(KNOBS["PROMPTS"]) for _ in completions])

    def generate(n):
        start = time.perf_counter()
        out = model.generate(ids, attention_mask=torch.ones_like(ids), do_sample=True, top_k=0, min_new_tokens=n,
                             max_new_tokens=n, pad_token_id=0)
        assert out.shape[1] == ids.shape[1] + n
        return time.perf_counter() - start

    prompt_s = generate(1)
    decode_s = generate(KNOBS["NEW_TOKENS"]) - prompt_s
    return {"prompt_s": prompt_s, "decode_s": decode_s,
            "tokens_per_s": ids.shape[0] * (KNOBS["NEW_TOKENS"] - 1) / decode_s}


def train_with_trl(model_dir, data, n, **given):
    """Two steps of GRPOTrainer, of which the first warms up: the second's time and mean completion length."""
    import torch
    from datasets import Dataset
    from transformers import TrainerCallback
    from trl import GRPOConfig, GRPOTrainer
    torch.set_num_threads(KNOBS["THREADS"])
    micro = min(KNOBS["MICRO_SEQUENCES"], n)

    class Clock(TrainerCallback):
        times, lengths = [], []

        def on_step_begin(self, *args, **kwargs):
            self.start = time.perf_counter()

        def on_step_end(self, *args, **kwargs):
            self.times.append(time.perf_counter() - self.start)

        def on_log(self, *args, logs, **kwargs):
            self.lengths.append(logs.get("completions/mean_length"))

    with tempfile.TemporaryDirectory() as out:
        config = GRPOConfig(output_dir=out, use_cpu=True, bf16=True, gradient_checkpointing=False, max_steps=2,
                            per_device_train_batch_size=micro, gradient_accumulation_steps=n // micro,
                            num_generations=KNOBS["GENERATIONS"], max_completion_length=KNOBS["NEW_TOKENS"],
                            learning_rate=1e-6, report_to=[], save_strategy="no", disable_tqdm=True, logging_steps=1,
                            model_init_kwargs={"dtype": torch.float32})
        reward = lambda completions, **kwargs: [float(i % 5) for i in range(len(completions))]
        trainer = GRPOTrainer(model=model_dir, reward_funcs=reward, args=config,
                              train_dataset=Dataset.from_dict({"prompt": data * 2}), callbacks=[Clock()], **given)
        trainer.train()
    return {"step_s": Clock.times[-1], "sequences": n,
            "completion_tokens": n * next(l for l in reversed(Clock.lengths) if l)}


def side_trl(model_dir):
    """One step of GRPOTrainer on given completions."""
    groups = work(KNOBS["UPDATE_PROMPTS"])

    def given(prompts, trainer):
        of = {str(g): group for g, group in enumerate(groups)}
        count, out = {}, {"prompt_ids": [], "completion_ids": [], "logprobs": None}
        for prompt in prompts:
            k = count[prompt] = count.get(prompt, -1) + 1
            out["prompt_ids"].append(of[prompt][0])
            out["completion_ids"].append(of[prompt][1][k % KNOBS["GENERATIONS"]])
        return out

    return train_with_trl(model_dir, [str(g) for g in range(len(groups))], len(groups) * KNOBS["GENERATIONS"],
                          rollout_func=given)


def side_trl_step(model_dir):
    """One step of GRPOTrainer as it is used: it samples, too."""
    n = KNOBS["STEP_PROMPTS"]
    return train_with_trl(model_dir, conversations(n), n * KNOBS["GENERATIONS"])


SIDES = {"machine": side_machine, "llama.cpp": side_llama, "transformers": side_transformers, "trl": side_trl,
         "trl-step": side_trl_step}


# ---- running the sides ----

def run(command, **kwargs):
    """Standard output of a command, and what it took: CPU seconds and its peak memory."""
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, **kwargs)
    out = process.stdout.read()
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        sys.exit(f"compare: {' '.join(command)}: exit {process.returncode}")
    return out, {"cpu_s": used.ru_utime + used.ru_stime, "max_rss_mib": used.ru_maxrss // 1024}


def python_side(name, *args):
    out, used = run([sys.executable, __file__, "--side", name, *args])
    return json.loads(out.splitlines()[-1]) | used


def spar_decode(build, sequences, groups, prompt=None, dtype="bfloat16"):
    out, used = run([f"{build}/bench/decode", f"--dtype={dtype}", f"--threads={KNOBS['THREADS']}", f"--groups={groups}",
                     f"--prompt-tokens={prompt or KNOBS['PROMPT_TOKENS']}", f"--new-tokens={KNOBS['NEW_TOKENS']}",
                     str(sequences)])
    return json.loads(out) | used


def spar_update(build, model, n_groups, *options):
    """Two steps of all weights on the same completions; the figures are the second's."""
    with tempfile.TemporaryDirectory() as scratch:
        with open(f"{scratch}/in", "w") as f:
            for step in range(2):
                for g, (prompt, completions) in enumerate(work(n_groups)):
                    for k, completion in enumerate(completions):
                        turn = {"prompt_ids": prompt, "completion_ids": completion, "logprobs": [-1.0] * len(completion),
                                "completion": "", "finish_reason": "length"}
                        print(json.dumps({"type": "rollout", "group": f"{step}.{g}", "sample": k,
                                          "group_size": len(completions), "task": {"id": str(g)}, "turns": [turn],
                                          "env": None, "reward": k % 5, "advantage": k % 5 - 2}), file=f)
                print(json.dumps({"type": "batch", "step": step, "groups": n_groups}), file=f)
        out, used = run([f"{build}/bin/spar", "update", f"--model={model}", f"--out={scratch}/out", "--dtype=bfloat16",
                         f"--threads={KNOBS['THREADS']}", "--learning-rate=1e-6", "--loss-type=dapo", "--quiet",
                         *options, f"{scratch}/in"])
    metric = json.loads(out.splitlines()[-1])
    return {"step_s": metric["step_time"], "sequences": metric["sequences"], "tokens": metric["tokens"],
            "tokens_distinct": metric["tokens_distinct"]} | used


def spar_step(build, model):
    """The pipeline of a run, all weights trained: three steps, of which the first has no beginning and is left out."""
    n, steps = KNOBS["STEP_PROMPTS"], 3
    spar, common = f"{build}/bin/spar", f"--dtype=bfloat16 --threads={KNOBS['THREADS']} --quiet"
    with tempfile.TemporaryDirectory() as scratch:
        with open(f"{scratch}/tasks", "w") as f:
            for step in range(steps):
                for i, messages in enumerate(conversations(n)):
                    print(json.dumps({"id": f"{step}.{i}", "messages": messages}), file=f)
        pipeline = f"""set -o pipefail
            {spar} rollout {common} --policy={scratch}/policy --batch={n} -n {KNOBS['GENERATIONS']} --step-time \
                --max-completion-length={KNOBS['NEW_TOKENS']} {scratch}/tasks |
            {spar} score --quiet --reward 'ids=([.turns[].completion_ids[]] | add % 97) / 97' |
            {spar} advantage --quiet |
            {spar} update {common} --model={model} --policy={scratch}/policy --learning-rate=1e-6 --loss-type=dapo \
                --max-steps={steps}"""
        process = subprocess.Popen(["bash", "-c", pipeline], stdout=subprocess.PIPE, text=True)
        metrics = [json.loads(line) | {"at": time.perf_counter()} for line in process.stdout]
        if process.wait():
            sys.exit(f"compare: the whole step: exit {process.returncode}")
    rest = metrics[1:]
    mean = lambda key: sum(m[key] for m in rest) / len(rest)
    return {"step_s": (metrics[-1]["at"] - metrics[0]["at"]) / len(rest), "sequences": rest[-1]["sequences"],
            "completion_tokens": mean("loss_tokens"), "update_s": mean("step_time"),
            "logp_difference_mean": mean("sampling/sampling_logp_difference/mean"),
            "logp_difference_max": max(m["sampling/sampling_logp_difference/max"] for m in rest)}


class Results:
    def __init__(self, path):
        self.file, self.all = open(path, "a"), []
        cpu = next((l.split(":")[1].strip() for l in open("/proc/cpuinfo") if l.startswith("model name")), "")
        self.common = {"date": time.strftime("%FT%TZ", time.gmtime()), "machine": cpu, "cores": os.cpu_count(),
                       "threads": KNOBS["THREADS"], "python": platform.python_version(), **versions()}

    def put(self, bench, side, figures):
        line = {**figures, "bench": bench, "side": side, **self.common, "load_average": os.getloadavg()[0]}
        print(json.dumps(line), file=self.file, flush=True)
        self.all.append(line)
        print(f"{bench:14} {side:13}", *(f"{k} {v:.4g}" for k, v in figures.items() if isinstance(v, (int, float))),
              f"load {line['load_average']:.1f}", flush=True)

    def median(self, bench, side, key):
        values = [l[key] for l in self.all if l["bench"] == bench and l["side"] == side]
        return statistics.median(values) if values else None


def versions():
    from importlib.metadata import PackageNotFoundError, version
    found = {}
    for package in ("torch", "transformers", "trl", "llama_cpp_python"):
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            pass
    commit = subprocess.run(["git", "describe", "--always", "--dirty"], capture_output=True, text=True)
    return found | {"version": commit.stdout.strip()}


def compare_sampling(build, model, results, sides, scratch):
    gguf = f"{scratch}/model.gguf"
    n = KNOBS["PROMPTS"] * KNOBS["GENERATIONS"]
    if "llama.cpp" in sides:
        run([f"{build}/bin/spar", "model", "export", "--gguf", "--type=bf16", f"--out={gguf}", model])
    for _ in range(KNOBS["ROUNDS"]):
        results.put("sampling", "spar", spar_decode(build, n, KNOBS["PROMPTS"]))
        if "llama.cpp" in sides:
            results.put("sampling", "llama.cpp", python_side("llama.cpp", gguf))
        if "transformers" in sides:
            results.put("sampling", "transformers", python_side("transformers", model))


def compare_update(build, model, results, sides):
    groups = KNOBS["UPDATE_PROMPTS"]
    for _ in range(KNOBS["ROUNDS"]):
        results.put("update", "spar", spar_update(build, model, groups))
        if "trl" in sides:
            results.put("update", "trl", python_side("trl", model))
    results.put("update", "spar+checkpoints", spar_update(build, model, groups, "--gradient-checkpointing"))


def compare_step(build, model, results, sides):
    for _ in range(KNOBS["STEP_ROUNDS"]):
        results.put("step", "spar", spar_step(build, model))
        if "trl" in sides:
            results.put("step", "trl", python_side("trl-step", model))


def grow(build, model, results):
    """Time and memory should follow the distinct tokens."""
    saved = dict(KNOBS)
    for generations in (2, 4, 8, 16, 32):
        KNOBS["GENERATIONS"] = generations
        results.put("growth", "decode", spar_decode(build, generations, 1) | {"generations": generations})
        results.put("growth", "update", spar_update(build, model, 1) | {"generations": generations})
    KNOBS["GENERATIONS"] = saved["GENERATIONS"]
    for prompt in (100, 400, 1600):
        KNOBS["PROMPT_TOKENS"] = prompt
        results.put("growth", "decode", spar_decode(build, saved["GENERATIONS"], 1, prompt))
        results.put("growth", "update", spar_update(build, model, 1) | {"prompt_tokens": prompt})
    KNOBS.update(saved)


def report(model, results):
    m = results.median

    def ratio(what, ours, theirs):
        if ours and theirs:
            print(f"{what:52} {theirs / ours:8.2f}x")

    for side in ("llama.cpp", "transformers"):
        ratio(f"decode, spar over {side}", m("sampling", side, "tokens_per_s"), m("sampling", "spar", "tokens_per_s"))
        ratio(f"prompts, spar over {side}", m("sampling", "spar", "prompt_s"), m("sampling", side, "prompt_s"))
    ratio("update, spar over TRL", m("update", "spar", "step_s"), m("update", "trl", "step_s"))
    ratio("peak memory of an update, spar's share of TRL's", m("update", "trl", "max_rss_mib"),
          m("update", "spar", "max_rss_mib"))
    ratio("a whole step, spar over TRL", m("step", "spar", "step_s"), m("step", "trl", "step_s"))
    per_token = {side: m("step", side, "step_s") and m("step", side, "step_s") / m("step", side, "completion_tokens")
                 for side in ("spar", "trl")}
    ratio("the same for each token that was sampled", per_token["spar"], per_token["trl"])
    roofline(model, results)


def roofline(model, results):
    """Shares of the measured peak of bfloat16 products. Only products with weights count: two operations for each of a token's
    weights, three times as many with the backward pass; the head works where a token is predicted."""
    with open(f"{model}/config.json") as f:
        c = json.load(f)
    hidden, heads = c["hidden_size"], c["num_attention_heads"]
    head_dim = c.get("head_dim") or hidden // heads
    layer = hidden * head_dim * (2 * heads + 2 * c["num_key_value_heads"]) + 3 * hidden * c["intermediate_size"]
    layers, head = layer * c["num_hidden_layers"], hidden * c["vocab_size"]
    peak = results.median("machine", "peak", "bfloat16_gflops") * 1e9

    def share(what, operations):
        print(f"{what:52} {100 * operations / peak:7.1f} % of {peak / 1e9:.0f} GFLOP/s")

    m = results.median
    if m("sampling", "spar", "tokens_per_s"):
        share("decode, all steps", 2 * (layers + head) * m("sampling", "spar", "tokens_per_s"))
        share("decode, the median step", 2 * (layers + head) * m("sampling", "spar", "median_step_tokens_per_s"))
        share("decode, the fastest step", 2 * (layers + head) * m("sampling", "spar", "fastest_step_tokens_per_s"))
        share("prompts", 2 * layers * m("sampling", "spar", "prompt_tokens_per_s"))
    if m("update", "spar", "step_s"):
        predicted = m("update", "spar", "sequences") * KNOBS["NEW_TOKENS"]
        share("update, distinct tokens",
              6 * (layers * m("update", "spar", "tokens_distinct") + head * predicted) / m("update", "spar", "step_s"))


def main(build, model, path):
    sides = os.environ.get("SIDES", "llama.cpp transformers trl").split()
    os.environ.setdefault("OMP_NUM_THREADS", str(KNOBS["THREADS"]))
    results = Results(path)
    results.put("machine", "peak", python_side("machine"))
    with tempfile.TemporaryDirectory() as scratch:
        compare_sampling(build, model, results, sides, scratch)
    if KNOBS["UPDATE_PROMPTS"]:
        compare_update(build, model, results, sides)
    if KNOBS["STEP_PROMPTS"]:
        compare_step(build, model, results, sides)
    if os.environ.get("GROWTH", "1"):
        grow(build, model, results)
    results.put("machine", "peak", python_side("machine"))
    report(model, results)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--side"]:
        print(json.dumps(SIDES[sys.argv[2]](*sys.argv[3:])))
    elif len(sys.argv) == 4:
        main(*sys.argv[1:])
    else:
        sys.exit(__doc__)
