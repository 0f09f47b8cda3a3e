# evaluation.json as a table for a person: a line a model, overall and by difficulty.
def fixed(n): (. * pow(10; n) | round) / pow(10; n) | tostring;
def row(name; m): "\(name)\t\(m.episodes)\t\(m.success_rate | fixed(3))\t[\(m.success_rate_ci[0] | fixed(3)), \(m.success_rate_ci[1] | fixed(3))]\t\(m.mean_return | fixed(3))";
def rows(name; m): row(name; m), (m.difficulty // {} | to_entries[] | row("  " + .key; .value));
"model\tepisodes\tsuccess\t95 % interval\tmean return", rows("base"; .base), rows("sft"; .sft), rows("grpo"; .grpo)
