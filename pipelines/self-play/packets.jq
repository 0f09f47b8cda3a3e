# What the workers wrote becomes part of the prompt, before its last line, and `workers`, which the scorers count.
. as $in |
def line: (.completion // "") | gsub("[\n\r]+"; " ") | .[:200];
(["path_agent", "question_agent", "context_agent"] | map(select(. as $k | $in[$k]))) as $ran |
$in | [$ran[] as $k | "\($k): \($in[$k] | line)"] as $packets |
.messages[-1].content |= (split("\n") | .[:-1] + $packets + .[-1:] | join("\n")) |
.workers = [$ran[] as $k | $in[$k]] | delpaths([$ran[] | [.]])
