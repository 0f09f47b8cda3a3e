"""Hold spar's training against TRL's: the same records, weights, settings and schedule to both, and their curves beside each
other.

    curves.py BUILD [RUN...]

SFT of 20 steps (all weights, an adapter) and GRPO of 10 (each loss) in float32. spar samples the rollouts and scores
them; TRL is given the same ids and rewards, and makes its own advantages. A line a curve; exits non-zero if one leaves TRL's by
more than 1e-4 (of figures above 1: of their size; the norm of the gradient, in which rounding shows first, by 1e-3)."""
import json, logging, os, shutil, subprocess, sys, tempfile, warnings

os.environ["TRL_EXPERIMENTAL_SILENCE"] = "1"
import datasets, torch, transformers
from peft import LoraConfig, PeftModel, get_peft_model
from transformers import AutoModelForCausalLM, AutoTokenizer, Qwen2Config
from trl import GRPOConfig, GRPOTrainer, SFTConfig, SFTTrainer

build, wanted = sys.argv[1], sys.argv[2:]
spar = os.path.join(build, "bin", "spar")
transformers.logging.set_verbosity_error()
transformers.logging.disable_progress_bar()
datasets.disable_progress_bars()
warnings.simplefilter("ignore")
logging.disable(logging.WARNING)
torch.set_num_threads(1)  # the models are small
TINY = "pipelines/models/tiny"
TEMPERATURE = 1.3
failed = 0

# What both sides are told, in the words that both have.
COMMON = dict(learning_rate=5e-4, warmup_steps=3, lr_scheduler_type="cosine", weight_decay=0.1, adam_beta2=0.99, max_grad_norm=0.5,
              per_device_train_batch_size=8)
SFT = dict(COMMON, max_steps=20, gradient_accumulation_steps=2)
GRPO = dict(COMMON, max_steps=10, gradient_accumulation_steps=1, num_generations=4, max_completion_length=24)
RUNS = {
    "sft": SFT,
    "sft-lora": dict(SFT, lr_scheduler_type="linear", learning_rate=5e-3),
    "sft-dft": dict(SFT, loss_type="dft", gradient_accumulation_steps=1),
    "grpo": dict(GRPO, loss_type="grpo", gradient_accumulation_steps=2),
    "grpo-kl": dict(GRPO, loss_type="grpo", num_iterations=2, beta=0.04, use_bias_correction_kl=False),
    "bnpo-kl": dict(GRPO, loss_type="bnpo", beta=0.1, use_bias_correction_kl=True),
    "dapo": dict(GRPO, loss_type="dapo", num_iterations=2, epsilon_high=0.28),
    "dr_grpo": dict(GRPO, loss_type="dr_grpo", gradient_accumulation_steps=2, max_grad_norm=1e9),
    "gspo": dict(GRPO, loss_type="grpo", importance_sampling_level="sequence", num_iterations=2, epsilon=3e-3, epsilon_high=4e-3),
    "cispo": dict(GRPO, loss_type="cispo", num_iterations=2, epsilon_high=5.0),
    "sapo": dict(GRPO, loss_type="sapo", num_iterations=2),
    "luspo": dict(GRPO, loss_type="luspo", importance_sampling_level="sequence", num_iterations=2, epsilon=3e-3),
    "vespo": dict(GRPO, loss_type="vespo", num_iterations=2),
    # (The first tokens of a group have one entropy, but not to TRL's last bit: the quantile must not lie among them.)
    "dapo-entropy": dict(GRPO, loss_type="dapo", num_iterations=2, entropy_coef=0.01, top_entropy_quantile=0.8, delta=1.5),
}


CLIPPING = {"cispo": ["cispo_clip_ratio"], "sapo": [], "vespo": ["vespo/phi_seq_mean"]}


def report(what, ok, figure):
    global failed
    failed += not ok
    print(f"{'ok' if ok else 'NOT OK'}  {what}: {figure}", flush=True)


def run(args, text=""):
    p = subprocess.run(args, input=text, capture_output=True, text=True)
    if p.returncode:
        raise RuntimeError(f"{' '.join(args)}: exit {p.returncode}: {p.stderr}")
    return p.stdout


def curves(lines):
    return [m for m in map(json.loads, lines.splitlines()) if m["type"] == "metric"]


def update(model, records, settings, *more):
    """spar's curves."""
    options = [f"--{k.replace('_', '-')}" + ("" if v is True else f"={v}") for k, v in settings.items() if k != "num_generations" and v is not False]
    with tempfile.TemporaryDirectory() as out:
        return curves(run([spar, "update", f"--model={model}", "--out", os.path.join(out, "new"), "--dtype=float32", "--threads=1", "-q", *options, *more], records))


def arguments(kind, work, settings, **more):
    return kind(output_dir=os.path.join(work, "trl"), use_cpu=True, bf16=False, gradient_checkpointing=False, logging_steps=1, report_to=[],
                save_strategy="no", disable_tqdm=True, shuffle_dataset=False, **settings, **more)


def history(trainer):
    trainer.remove_callback(transformers.PrinterCallback)
    trainer.train()
    return [m for m in trainer.state.log_history if "grad_norm" in m]


def load(folder):
    return AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)


def compare(name, ours, theirs, keys):
    """Each curve's largest distance, relative where it is above 1."""
    if len(ours) != len(theirs):
        return report(name, False, f"{len(ours)} steps, and {len(theirs)} of TRL")
    if os.environ.get("SHOW"):
        for a, b in zip(ours, theirs):
            print({k: (a[k], b[k]) for k in keys if k in b})
    for key in keys:
        pairs = [(a[key], b[key]) for a, b in zip(ours, theirs) if key in b]  # TRL tells of rewards where a batch begins
        worst = max(abs(a - b) / max(1, abs(b)) for a, b in pairs)
        report(f"{name}: {key} of {len(pairs)} steps", worst < (1e-3 if key == "grad_norm" else 1e-4), f"off by at most {worst:.1e}, from {pairs[0][1]:.6g} to {pairs[-1][1]:.6g}")


# ---- sft ----

def demonstrations(n):
    """Oracle steps of the environments, told as text."""
    said = [json.loads(line) for line in run([spar, "sft-collect", "-q", f"--episodes={n}", "--max-steps=4", "--all"]).splitlines()]
    steps = [(" ".join(m["content"] for m in s["messages"])[-200:].strip(), s["completion"]) for s in said if s["type"] == "sft"]
    return [dict(prompt=prompt + "\n", completion=completion[:60 + 7 * (i % 9)]) for i, (prompt, completion) in enumerate(steps)][:n]


def sft(name, model, settings, work):
    rows = demonstrations(settings["per_device_train_batch_size"] * settings["gradient_accumulation_steps"] * settings["max_steps"])
    records = "".join(json.dumps(dict(type="sft", **row)) + "\n" for row in rows)
    mine = dict(settings, loss_type=settings.get("loss_type", "sft"))
    start, trained, more = model, load(model), []
    if name.endswith("-lora"):
        start, more = os.path.join(work, "adapter"), ["--lora=dropout=0"]
        adapted = get_peft_model(trained, LoraConfig(r=8, lora_alpha=16, target_modules=["q_proj", "v_proj", "up_proj"], init_lora_weights="gaussian"))
        adapted.save_pretrained(start)
        with open(os.path.join(start, "adapter_config.json")) as f:
            said = json.load(f)
        with open(f.name, "w") as f:
            json.dump(dict(said, base_model_name_or_path=os.path.abspath(model)), f)
        trained = PeftModel.from_pretrained(load(model), start, is_trainable=True)
    ours = update(start, records, mine, "--no-shuffle-dataset", *more)
    args = arguments(SFTConfig, work, dict(settings, train_sampling_strategy="sequential"))
    trainer = SFTTrainer(model=trained, args=args, train_dataset=datasets.Dataset.from_list(rows), processing_class=AutoTokenizer.from_pretrained(TINY))
    return ours, history(trainer), ["loss", "grad_norm", "learning_rate", "num_tokens"] + ["entropy", "mean_token_accuracy"] * (settings["gradient_accumulation_steps"] == 1)


# ---- grpo ----

def rollouts(model, settings):
    """What spar samples of the starting model and scores, a list of groups."""
    steps = settings["max_steps"] // settings.get("num_iterations", 1)
    per_step = settings["per_device_train_batch_size"] * settings["gradient_accumulation_steps"] // settings["num_generations"]
    prompts = "".join(json.dumps(dict(id=str(i), prompt=f"{i}: say {'abc'[i % 3]} and {i * i}\n")) + "\n" for i in range(steps * per_step))
    sampled = run([spar, "rollout", "-q", f"--model={model}", f"-n{settings['num_generations']}", f"--batch={per_step}", f"--temperature={TEMPERATURE}",
                   f"--max-completion-length={settings['max_completion_length']}", "--dtype=float32"], prompts)
    reward = '.turns[0].completion | ((explode | map(select(. > 100)) | length) * 0.13) - (length % 5)'
    return run([spar, "advantage", "-q"], run([spar, "score", "-q", f"--reward=r={reward}"], sampled))


def grpo(name, model, settings, work):
    records = rollouts(model, settings)
    ours = update(model, records, settings)
    sampled = [r for r in map(json.loads, records.splitlines()) if r["type"] == "rollout"]
    groups = {}
    for r in sampled:
        groups.setdefault(r["task"]["id"], []).append(r)

    def given(prompts, trainer):
        taken = [groups[prompt][i % settings["num_generations"]] for i, prompt in enumerate(prompts)]
        turns = [r["turns"][0] for r in taken]
        return {"prompt_ids": [t["prompt_ids"] for t in turns], "completion_ids": [t["completion_ids"] for t in turns], "logprobs": None,
                "recorded": [r["reward"] for r in taken]}

    args = arguments(GRPOConfig, work, settings, temperature=TEMPERATURE)
    trainer = GRPOTrainer(model=load(model), reward_funcs=lambda recorded, **rest: recorded, args=args, rollout_func=given,
                          train_dataset=datasets.Dataset.from_dict({"prompt": list(groups)}), processing_class=AutoTokenizer.from_pretrained(TINY))
    keys = ["loss", "grad_norm", "learning_rate", "num_tokens", "reward", "reward_std", "frac_reward_zero_std"]
    keys += [f"completions/{which}_{what}" for what in ("length", "terminated_length") for which in ("mean", "min", "max")] + ["completions/clipped_ratio"]
    if settings["gradient_accumulation_steps"] == 1:  # TRL takes the mean over micro steps of means over tokens
        keys += ["entropy"] + ["kl"] * ("beta" in settings) + CLIPPING.get(name, ["clip_ratio/low_mean", "clip_ratio/high_mean"])
    keys += ["policy_loss", "entropy_coef"] * ("entropy_coef" in settings)
    return ours, history(trainer), keys


# ---- models ----

def store(model, folder):
    """Without two things that the sides take differently: ids that the tokenizer has no string for (spar gives them no
    probability), and a padding id (transformers gives its embedding no gradient, also where the token is text)."""
    tokenizer = AutoTokenizer.from_pretrained(TINY)
    model.resize_token_embeddings(len(tokenizer))
    model.config.pad_token_id = None
    model.save_pretrained(folder)
    for file in ("tokenizer.json", "tokenizer_config.json"):
        shutil.copy(os.path.join(TINY, file), folder)
    return folder


def random_model():
    torch.manual_seed(1)
    model = AutoModelForCausalLM.from_config(Qwen2Config(vocab_size=1920, hidden_size=64, intermediate_size=96, num_hidden_layers=3, num_attention_heads=4, num_key_value_heads=2,
                                                         initializer_range=0.15, max_position_embeddings=512, bos_token_id=1, eos_token_id=2)).float()
    with torch.no_grad():
        for p in model.parameters():
            if p.dim() == 1:
                p += 0.1 * torch.randn_like(p)
    return model


with tempfile.TemporaryDirectory() as work:
    models = {"tiny": store(load(TINY), os.path.join(work, "tiny")), "qwen2 of random weights": store(random_model(), os.path.join(work, "qwen2"))}
    for name, settings in RUNS.items():
        for which, model in models.items():
            if not wanted or name in wanted:
                ours, theirs, keys = (sft if name.startswith("sft") else grpo)(name, model, settings, work)
                compare(f"{name}, {which}", ours, theirs, keys)
sys.exit(failed > 0)
