# What tests of training share: a small model with its records, and comparisons of metrics. `load training` behind `load common`.

setup_file() {
	spar model init --config="$BATS_TEST_DIRNAME/../pipelines/models/tiny" --seed=1 --out="$BATS_FILE_TMPDIR/model"
	sft_records >"$BATS_FILE_TMPDIR/sft.jsonl"
	for batch in 0 1 2 3; do rollouts $batch; done >"$BATS_FILE_TMPDIR/rollouts.jsonl"
}

setup() {
	MODEL=$BATS_FILE_TMPDIR/model
	SFT=$BATS_FILE_TMPDIR/sft.jsonl
	ROLLOUTS=$BATS_FILE_TMPDIR/rollouts.jsonl
}

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
