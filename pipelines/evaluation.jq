# evaluation.json as a table for a person: a line a model, overall and by difficulty.
def pad(n): . + (" " * (n - length) // "");
def fixed: (. * 1000 | round) as $milli | ($milli | fabs | tostring | "0000"[length:] + .) as $digits
	| (if $milli < 0 then "-" else "" end) + $digits[:-3] + "." + $digits[-3:];
def line(cells): [cells] | (.[0] | pad(14)) + (.[1] | pad(10)) + (.[2] | pad(9)) + (.[3] | pad(17)) + .[4];
def row(name; m): line(name, (m.episodes | tostring), (m.success_rate | fixed),
	"[\(m.success_rate_ci[0] | fixed), \(m.success_rate_ci[1] | fixed)]", (m.mean_return | fixed));
def rows(name; m): row(name; m), (m.difficulty // {} | to_entries[] | row("  " + .key; .value));
line("model", "episodes", "success", "95 % interval", "mean return"), rows("base"; .base), rows("sft"; .sft), rows("grpo"; .grpo)
