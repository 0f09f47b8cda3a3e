# What tests of training share: records for the tiny model, and comparisons of metrics. `load training` behind `load common`.

sft_records() {
	jq -nc 'range(10) | {type: "sft", messages: [{role: "user", content: "repeat \(.) \(. * 7)"}],
		completion: "\(.) \(. * 7)"}'
}

# Two groups of three two-turn episodes and their batch record; every length differs. $1: number of the batch.
rollouts() {
	jq -nc --argjson batch "$1" '
		def ids($n; $salt): [range($n) | (. * 37 + $salt * 101 + $batch * 11) % 900 + 20];
		(range(2) as $g | range(3) as $s | ids(5; $g) as $prompt | ids(2 + $s; 7 + $s) as $first |
		{type: "rollout", group: "b\($batch)g\($g)", sample: $s, group_size: 3, task: {id: "b\($batch)g\($g)"},
		 policy: {path: "p", version: $batch, hash: "0"}, sampling: {temperature: 1},
		 turns: [{prompt_ids: $prompt, completion_ids: $first, logprobs: [$first[] | -6.9],
		          completion: "", finish_reason: "stop"},
		         {prompt_ids: ($prompt + $first + ids(3; 20)), completion_ids: ids(1 + $g; 30 + $s),
		          logprobs: [range(1 + $g) | -6.9], completion: "", finish_reason: "stop"}],
		 env: null, reward: ($s / 2), advantage: ($s - 1)}),
		{type: "batch", step: $batch, groups: 2, rollouts: 6}'
}

# Metrics without what no two runs share.
timeless() { jq -c 'del(.step_time)' "$1"; }

# near FILE FILE JQ...: the values agree within NEAR (1e-6), relative.
near() {
	for key in "${@:3}"; do
		jq -e -n --slurpfile a "$1" --slurpfile b "$2" "
			[\$a[] | ($key)] as \$x | [\$b[] | ($key)] as \$y | (\$x | length) == (\$y | length) and (\$x | length) > 0 and
			all([\$x, \$y] | transpose[]; (.[0] - .[1] | fabs) <= ${NEAR:-1e-6} * (1 + (.[0] | fabs)))"
	done
}
