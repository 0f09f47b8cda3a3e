#!/usr/bin/env python3
"""Write objectives.jsonl (explained in objectives.md) to standard output.

    python objectives.py >objectives.jsonl

The numbers named `trl` and `verl` are what those systems' own functions gave in float64, to 9 digits. Rows for what they do
not have, or have no number for here, are computed below by plain formulas over torch tensors with autograd. The same
formulas must give all the numbers that are not ours, to 1e-8, or nothing is written. Needs torch and nothing else."""

import json
import math
import sys

import torch

torch.set_default_dtype(torch.float64)


def rows_of(*rows):
    return torch.tensor(rows)


L = rows_of([-0.5, -1.2, -0.3, -2.0], [-0.9, -0.1, -1.5, -0.7], [-2.5, -0.4, -0.8, -0.2], [-0.6, -1.1, -0.05, -3.0])
OLD = rows_of([-0.6, -1.0, -0.9, -2.0], [-0.8, -0.6, -1.4, -0.7], [-2.2, -0.5, -0.8, -0.9], [-0.6, -1.9, -0.30, -3.0])
REF = rows_of([-0.7, -1.1, -0.35, -1.8], [-0.85, -0.2, -1.3, -0.9], [-2.4, -0.3, -1.0, -0.25], [-0.5, -1.3, -0.10, -2.8])
H = rows_of([0.1, 0.9, 0.3, 1.4], [0.6, 0.2, 1.1, 0.5], [1.6, 0.4, 0.7, 0.15], [0.55, 0.8, 0.05, 2.0])
SAMPLED = rows_of([-0.65, -1.0, -0.5, -2.1], [-0.8, -0.2, -1.4, -0.7], [-2.1, -0.6, -0.8, -0.9], [-0.5, -1.1, -0.35, -2.6])
KEPT = rows_of([1, 0.9, 0.8, 1], [1, 1, 0.7, 1], [0.6, 1, 1, 1], [0.9, 0.9, 1, 1.0])
M = rows_of([1, 1, 1, 1], [1, 1, 1, 0], [1, 1, 0, 0], [1, 1, 1, 1.0])
A = torch.tensor([1, -0.5, 0.25, -0.75])
DEFAULTS = {"loss-type": "dapo", "epsilon": 0.2, "epsilon-high": None, "delta": 0, "beta": 0, "kl-estimator": "k3",
            "importance-sampling-level": "token", "use-bias-correction-kl": False, "entropy-coef": 0,
            "top-entropy-quantile": 1, "off-policy-mask-threshold": 0, "importance-sampling-mode": "token_truncate",
            "importance-sampling-clip-max": 3, "importance-sampling-clip-min": 0, "max-completion-length": 8,
            "mask-truncated-completions": False}


# ---- the formulas, over padded tensors as the field has them ----


def kl_of(kind, l):
    k = l - REF
    return {"k1": k, "k2": k * k / 2, "abs": k.abs(), "k3": (-k).exp() + k - 1}[kind]


def sampler_weight(o, old, sampled, m):
    log_w = (old - sampled + KEPT.log()) * m
    if o["importance-sampling-mode"].startswith("sequence"):
        log_w = log_w.sum(1, keepdim=True)
    w, low, high = log_w.exp(), o["importance-sampling-clip-min"], o["importance-sampling-clip-max"]
    if o["importance-sampling-mode"].endswith("truncate"):
        return w.clamp(low, high)
    return torch.where((w > high) | (w < low), 0.0, w)


def phi(d, w, m):
    log_w = (d.clamp(-20, 20) * m).sum(1)
    if w is not None:
        log_is = w.log().clamp(math.log(1e-8), 20)
        log_w = log_w + (log_is * m if w.shape[1] > 1 else log_is).sum(1)
    log_w = log_w.clamp(math.log(1e-8), 20)
    k, lam = torch.where(A >= 0, 2.0, 3.0), torch.where(A >= 0, 3.0, 2.0)
    return (lam + k * log_w - lam * log_w.exp()).exp().unsqueeze(1)


def policy_term(o, l, d, c, w, m):
    kind, adv = o["loss-type"], A.unsqueeze(1)
    high = o["epsilon-high"] if o["epsilon-high"] is not None else 5 if kind == "cispo" else o["epsilon"]
    if kind == "sft":
        return -l
    if kind == "dft":
        return -l.exp().detach() * l
    if kind == "cispo":
        return -c.clamp(max=high).detach() * adv * l
    if kind == "vespo":
        return -phi(d, w, m).detach() * adv * l
    if kind == "sapo":
        tau = torch.where(adv > 0, 1.0, 1.05)
        return -adv * torch.sigmoid(tau * (c - 1)) * 4 / tau
    capped = c.clamp(max=o["delta"]) if o["delta"] else c
    return -torch.min(capped * adv, c.clamp(1 - o["epsilon"], 1 + high) * adv)


def aggregate(o, x, m):
    kind, rows = o["loss-type"], m.sum(1).clamp(min=1)
    n = (m.sum(1) > 0).sum()
    if kind in ("grpo", "sapo"):
        return ((x * m).sum(1) / rows).sum() / n
    if kind == "dr_grpo":
        return (x * m).sum() / (n * o["max-completion-length"])
    if kind == "luspo":
        return (x * m).sum() / n
    return (x * m).sum() / m.sum()


def loss_of(o, l, old, h, sampled, m):
    d = l - old
    log_c = d if o["importance-sampling-level"] == "token" else ((d * m).sum(1) / m.sum(1).clamp(min=1)).unsqueeze(1)
    c = log_c.exp()
    w = sampler_weight(o, old, sampled, m).detach() if sampled is not None else None
    x = policy_term(o, l, d, c, w, m)
    if o["off-policy-mask-threshold"]:
        away = (((sampled if sampled is not None else old) - l) * m).sum(1) / m.sum(1).clamp(min=1)
        x = x * ~((A < 0) & (away > o["off-policy-mask-threshold"])).unsqueeze(1)
    uncertain = m
    if o["top-entropy-quantile"] < 1:
        threshold = torch.quantile(h[m.bool()].float(), 1 - o["top-entropy-quantile"])  # float32, as TRL has it
        uncertain = m * (h >= threshold)
        x = x * uncertain
    if w is not None and o["loss-type"] != "vespo":
        x = x * w
    if o["beta"]:
        kl = kl_of(o["kl-estimator"], l)
        x = x + o["beta"] * (kl * c if o["use-bias-correction-kl"] else kl)
    loss = aggregate(o, x.expand_as(l), m)
    if o["entropy-coef"]:
        loss = loss - o["entropy-coef"] * (h * uncertain).sum() / uncertain.sum()
    return loss


# ---- rows ----

failed = []


def check(name, got, want):
    got, want = torch.as_tensor(got), torch.as_tensor(want)
    if (got - want).abs().max() > 1e-8:
        failed.append(f"{name}: {got.tolist()} is not {want.tolist()}")


def digits(t):
    return [[round(v, 12) for v in row] for row in t.tolist()]


def loss_row(name, source, options, loss=None, gradient=None, metrics=None, l=L, old=OLD, sampler=False, lengths=(), **more):
    """One case. loss and gradient: the source's, of which ours must be one; None: ours alone."""
    o = {**DEFAULTS, **options}
    l, h = l.clone().requires_grad_(True), H.clone().requires_grad_(True)
    m = M.clone()
    if o["mask-truncated-completions"]:
        m[list(lengths)] = 0
    value = loss_of(o, l, old, h, SAMPLED if sampler else None, m)
    grad, entropy_grad = torch.autograd.grad(value, (l, h), allow_unused=True)
    if loss is not None:
        check(name, value, loss)
    if gradient is not None:
        check(name, grad, gradient)
    records = []
    for i in range(4):
        r = {"logprobs": l[i].tolist(), "old_logprobs": old[i].tolist(), "ref_logprobs": REF[i].tolist(),
             "entropies": H[i].tolist(), "mask": [int(v) for v in M[i].tolist()], "advantage": A[i].item()}
        if sampler:
            r |= {"sampling_logprobs": SAMPLED[i].tolist(), "kept_mass": KEPT[i].tolist()}
        if i in lengths:
            r["finish_reason"] = "length"
        records.append(r)
    want = {"loss": loss if loss is not None else round(value.item(), 12),
            "gradient": gradient if gradient is not None else digits(grad)}
    if entropy_grad is not None:
        want["entropy_gradient"] = digits(entropy_grad)
    args = [f"--{k}" if v is True else f"--{k}={v}" for k, v in {"max-completion-length": 8, **options}.items()]
    print(json.dumps({"case": name, "source": source, "tool": "loss", "options": args, **more, "records": records,
                      "want": want | ({"metrics": metrics} if metrics else {})}))


def losses():
    clip = {"clip_ratio/low_mean": 0, "clip_ratio/high_mean": 1 / 13, "clip_ratio/high_max": 0.25, "entropy": 0.769230769}
    token = [[-0.085013148, -0.062979289, 0, -0.076923077], [0.034801439, 0.063412357, 0.034801439, 0],
             [-0.014246504, -0.021253287, 0, 0], [0.057692308, 0.128396592, 0.074078389, 0.057692308]]
    loss_row("grpo", "trl", {"loss-type": "grpo"}, 0.086929745,
             [[-0.069073182, -0.051170672, 0, -0.0625], [0.037701559, 0.06869672, 0.037701559, 0],
              [-0.023150569, -0.034536591, 0, 0], [0.046875, 0.104322231, 0.060188691, 0.046875]], clip)
    loss_row("bnpo", "trl", {"loss-type": "bnpo"}, 0.098151835, token, clip)
    loss_row("dapo", "trl", {"loss-type": "dapo"}, 0.098151835, token, clip)
    loss_row("dr_grpo", "trl", {"loss-type": "dr_grpo"}, 0.039874183,
             [[-0.034536591, -0.025585336, 0, -0.03125], [0.014138085, 0.02576127, 0.014138085, 0],
              [-0.005787642, -0.008634148, 0, 0], [0.0234375, 0.052161116, 0.030094346, 0.0234375]], clip)
    loss_row("dapo, epsilon_high 0.28", "trl", {"epsilon-high": 0.28}, 0.091997989, token)
    loss_row("dapo, delta 1.5", "trl", {"delta": 1.5}, 0.050573656,
             [[-0.085013148, -0.062979289, 0, -0.076923077], [0.034801439, 0, 0.034801439, 0],
              [-0.014246504, -0.021253287, 0, 0], [0.057692308, 0, 0.074078389, 0.057692308]])
    loss_row("dapo, delta 1.1", "trl", {"delta": 1.1}, 0.025069393, None, clip,
             note="TRL's clip metrics are 0 here, since it counts after the cap")
    loss_row("dapo, beta 0.04", "trl", {"beta": 0.04}, 0.098554668,
             [[-0.084455396, -0.063302892, 0.000150063, -0.077604316], [0.034643682, 0.063705165, 0.0341202, 0],
              [-0.014570107, -0.02157689, 0, 0], [0.057368705, 0.128954344, 0.074228453, 0.057011068]],
             {"kl": 0.010070832})
    for kind, value in (("grpo", 0.087305828), ("bnpo", 0.098554668), ("dr_grpo", 0.040037834)):
        loss_row(f"{kind}, beta 0.04", "trl", {"loss-type": kind, "beta": 0.04}, value)
    gspo = {"loss-type": "grpo", "importance-sampling-level": "sequence"}
    loss_row("gspo", "trl", gspo, 0.042090001,
             [[-0.070821778] * 4, [0.046048788] * 3 + [0], [-0.028276169] * 2 + [0, 0], [0.060945772] * 4])
    loss_row("gspo, epsilon 0.3", "trl", gspo | {"epsilon": 0.3}, 0.042090001)
    loss_row("gspo, epsilon 0.1", "trl", gspo | {"epsilon": 0.1}, 0.050377114, None, {"clip_ratio/high_mean": 0.25})
    loss_row("cispo, cap 1.5", "trl", {"loss-type": "cispo", "epsilon-high": 1.5}, -0.045220386,
             [[-0.085013148, -0.062979289, -0.115384615, -0.076923077], [0.034801439, 0.057692308, 0.034801439, 0],
              [-0.014246504, -0.021253287, 0, 0], [0.057692308, 0.086538462, 0.074078389, 0.057692308]],
             {"cispo_clip_ratio": 1 / 13})
    loss_row("sapo", "trl", {"loss-type": "sapo"}, 0.013036551,
             [[-0.068882531, -0.050752615, -0.096616662, -0.0625], [0.037607611, 0.061306326, 0.037607611, 0],
              [-0.022766095, -0.034441265, 0, 0], [0.046875, 0.070758197, 0.058869999, 0.046875]])
    luspo = {"loss-type": "luspo", "importance-sampling-level": "sequence"}
    loss_row("luspo", "trl", luspo, 0.143318315,
             [[-0.283287113] * 4, [0.138146365] * 3 + [0], [-0.056552339] * 2 + [0, 0], [0.243783088] * 4])
    loss_row("luspo, beta 0.04", "spar", luspo | {"beta": 0.04},
             note="TRL gives 0.144747317, or 0.169458601 with ref_logprobs[1][3] = -5: its mean takes in the padding")
    loss_row("dapo, top entropy quantile 0.5", "trl", {"top-entropy-quantile": 0.5}, 0.066741469,
             [[0, -0.062979289, 0, -0.076923077], [0, 0, 0.034801439, 0], [-0.014246504, 0, 0, 0],
              [0, 0.128396592, 0, 0.057692308]],
             note="the median entropy is 0.6, in float32 a little more: the token that has it is left out")
    loss_row("dapo, entropy_coef 0.1", "trl", {"entropy-coef": 0.1}, 0.021228758, token, {"policy_loss": 0.098151835})
    loss_row("dapo, l and l_old exchanged", "trl", {}, 0.001947116, None,
             {"clip_ratio/low_mean": 0.230769232, "clip_ratio/low_min": 0, "clip_ratio/high_mean": 0.15384616,
              "clip_ratio/high_max": 0.5}, l=OLD, old=L)

    loss_row("token-mean", "verl", {}, 0.098151835, None, {"clip_ratio/region_mean": 0.076923077, "ppo_kl": -0.126923077})
    loss_row("seq-mean-token-mean", "verl", {"loss-type": "grpo"}, 0.086929745)
    loss_row("seq-mean-token-sum", "verl", {"loss-type": "luspo"}, 0.318993464,
             note="seq-mean-token-sum-norm has the same value here, because the padded length is the number of sequences")
    for kind, value in (("k1", -0.034615385), ("abs", 0.126923077), ("k2", 0.009903846), ("k3", 0.010070832)):
        loss_row(f"kl {kind}", "verl", {"beta": 1, "kl-estimator": kind}, None, None, {"kl": value})

    loss_row("sft", "spar", {"loss-type": "sft"})
    loss_row("dft", "spar", {"loss-type": "dft"})
    loss_row("cispo, the paper's cap", "spar", {"loss-type": "cispo"})
    loss_row("cispo, sequence level", "spar", {"loss-type": "cispo", "importance-sampling-level": "sequence"})
    loss_row("sapo, sequence level", "spar", {"loss-type": "sapo", "importance-sampling-level": "sequence"})
    loss_row("vespo", "spar", {"loss-type": "vespo"})
    for kind in ("dapo", "grpo", "vespo"):
        for mode, bounds in (("token_truncate", {"importance-sampling-clip-min": 0.5, "importance-sampling-clip-max": 1.1}),
                             ("token_mask", {"importance-sampling-clip-max": 1.1}),
                             ("sequence_truncate", {"importance-sampling-clip-max": 0.6}),
                             ("sequence_mask", {"importance-sampling-clip-max": 0.6})):
            loss_row(f"{kind}, {mode}", "spar", {"loss-type": kind, "importance-sampling-mode": mode, **bounds}, sampler=True)
    loss_row("gspo, token_truncate", "spar", gspo, sampler=True)
    loss_row("dapo, off-policy mask", "spar", {"off-policy-mask-threshold": 0.04}, sampler=True)
    loss_row("dapo, bias-corrected KL", "spar", {"beta": 0.5, "use-bias-correction-kl": True})
    loss_row("gspo, bias-corrected KL", "spar", gspo | {"beta": 0.5, "use-bias-correction-kl": True})
    loss_row("dapo, entropy_coef 0.1, top entropy quantile 0.3", "spar", {"entropy-coef": 0.1, "top-entropy-quantile": 0.3})
    for kind in ("grpo", "dapo", "dr_grpo"):
        loss_row(f"{kind}, truncated completions masked", "spar", {"loss-type": kind, "mask-truncated-completions": True},
                 lengths=(1,))


# ---- advantages: NaN is a reward that is not there ----

NONE = math.nan


def nan_std(x, unbiased=True):
    x = x[~x.isnan()]
    return x.std(unbiased=unbiased) if len(x) > 1 else torch.tensor(0.0)


def others(row, i):
    rest = torch.cat([row[:i], row[i + 1:]])
    return rest[~rest.isnan()]


def whiten_tokens(x, tokens):
    every = torch.repeat_interleave(x, tokens)
    return (x - every.mean()) * torch.rsqrt(every.var() + 1e-8)


def advantages_of(o, rewards, tokens):
    """rewards (groups, n), or (groups, n, kinds) with weights."""
    eps = o.get("std-epsilon", 1e-6 if o.get("convention") == "verl" else 1e-4)
    unbiased, kind = not o.get("population-std"), o.get("estimator", "grpo")
    scale = o.get("scale-rewards", "group" if kind in ("grpo", "leave_one_out") else "none")
    if rewards.dim() == 3:
        w = torch.tensor([float(v.split("=")[1]) for v in o["reward-weights"].split(",")])
        if o.get("multi-objective-aggregation") == "normalize_then_sum":
            z = torch.stack([advantages_of({}, rewards[..., k], tokens) for k in range(len(w))], -1)
            s = (z * w).sum(-1)
            return (s - s.mean()) / (s.std() + eps)
        rewards = (rewards.nan_to_num() * w).sum(-1)
    if kind == "rae":
        b, out = 0.0, []
        for r in rewards.flatten():
            b = 0.95 * b + 0.05 * r
            out.append(r - b)
        return torch.stack(out).view_as(rewards)
    if kind == "reinforce_plus_plus":
        return whiten_tokens(rewards.flatten(), tokens).view_as(rewards)
    out = torch.zeros_like(rewards)
    for g, row in enumerate(rewards):
        std = nan_std(row, unbiased) if scale == "group" else nan_std(rewards.flatten(), unbiased)
        by = std + eps if scale != "none" else 1
        for i, r in enumerate(row):
            if kind in ("rloo", "leave_one_out"):
                own = nan_std(others(row, i), unbiased)
                by_own = own + eps if own > 0 else 1
                out[g, i] = (r - others(row, i).mean()) / (by_own if kind == "leave_one_out" and scale == "group" else by)
            elif kind == "max_rl":
                out[g, i] = (r - row.nanmean()) / row.nanmean() if row.nanmean() > 0 else 0
            elif len(row) == 1:
                out[g, i] = r / (1 + eps) if o.get("convention") == "verl" else 0
            else:
                out[g, i] = (r - row.nanmean()) / by
    if kind == "reinforce_plus_plus_baseline":
        return whiten_tokens(out.flatten(), tokens).view_as(out)
    return out.nan_to_num()


def advantage_row(name, source, group, rewards, options=None, want=None, zero_std=None):
    o, several = options or {}, isinstance(rewards[0], list)
    r = torch.tensor([[NONE if v is None else v for v in row] if several else NONE if row is None else row for row in rewards],
                     dtype=torch.float64)
    tokens = torch.arange(len(rewards)) % 3 + 1
    got = advantages_of(o, r.view(-1, group, *r.shape[1:]), tokens).flatten()
    if want is not None:
        check(name, got, want)
    records = []
    for i, row in enumerate(rewards):
        record = {"group": f"g{i // group}", "sample": i % group, "group_size": group,
                  "turns": [{"completion_ids": [7] * int(tokens[i])}]}
        record |= {"rewards": dict(zip("ab", row))} if several else {"reward": row}
        records.append(record | ({"reward": None} if several else {}))
    want = {"advantages": want if want is not None else [round(v, 12) for v in got.tolist()]}
    if zero_std is not None:
        want["frac_reward_zero_std"] = zero_std
    args = [f"--{k}" if v is True else f"--{k}={v}" for k, v in o.items()]
    print(json.dumps({"case": name, "source": source, "tool": "advantage", "options": args, "records": records, "want": want}))


def advantages():
    two = [1, 0, 0, 1, 0.5, 0.5, 0.5, 0.5]
    zeros = [0] * 4
    advantage_row("two groups, group", "trl", 4, two, {}, [0.86587543, -0.86587543, -0.86587543, 0.86587543] + zeros, 0.5)
    advantage_row("two groups, batch", "trl", 4, two, {"scale-rewards": "batch"},
                  [1.322525748, -1.322525748, -1.322525748, 1.322525748] + zeros, 0)
    advantage_row("two groups, none", "trl", 4, two, {"scale-rewards": "none"}, [0.5, -0.5, -0.5, 0.5] + zeros, 0.5)
    advantage_row("1 to 4", "trl", 4, [1, 2, 3, 4], {}, [-1.161805011, -0.387268337, 0.387268337, 1.161805011], 0)
    advantage_row("one hit of 8", "trl", 8, [1] + [0] * 7, {}, [2.474173932] + [-0.353453419] * 7, 0)
    advantage_row("a group without rewards", "trl", 2, [None, None, 1, 0], {}, [0, 0, 0.707006795, -0.707006795])
    several = [[1, 0.2], [0, 0.8], [1, None], [0, 0.1]]
    weights = {"reward-weights": "a=1,b=0.5"}
    advantage_row("several, sum_then_normalize", "trl", 4, several, weights,
                  [0.92674739, -0.475897308, 0.726369576, -1.177219657], 0)
    advantage_row("several, normalize_then_sum", "trl", 4, several, weights | {"multi-objective-aggregation": "normalize_then_sum"},
                  [0.676124232, -0.307516116, 0.906504305, -1.275112421], 0)
    advantage_row("TRL's asynchronous trainer", "trl", 2, [1, 3], {"population-std": True, "std-epsilon": 1e-8}, [-1, 1])

    verl = {"convention": "verl"}
    advantage_row("two groups, verl", "verl", 4, two, verl, [0.866023904, -0.866023904, -0.866023904, 0.866023904] + zeros)
    advantage_row("two groups, verl without std", "verl", 4, two, verl | {"scale-rewards": "none"}, [0.5, -0.5, -0.5, 0.5] + zeros)
    advantage_row("1 to 4, verl", "verl", 4, [1, 2, 3, 4], verl, [-1.161894104, -0.387298035, 0.387298035, 1.161894104])
    advantage_row("a group of one, verl", "verl", 1, [0.7], verl, [0.6999993])
    advantage_row("a group of one", "spar", 1, [0.7], {}, [0], 1)

    mixed = [1, 0, 0, 0.75, 0.25, 0.5, 0.5, 1, 0, 0, 0, 1]
    for kind in ("rloo", "leave_one_out", "reinforce_plus_plus", "reinforce_plus_plus_baseline", "max_rl", "rae"):
        advantage_row(kind, "spar", 4, mixed, {"estimator": kind})
    advantage_row("rloo, scaled by the batch", "spar", 4, mixed, {"estimator": "rloo", "scale-rewards": "batch"})


losses()
advantages()
if failed:
    sys.exit("\n".join(failed))
