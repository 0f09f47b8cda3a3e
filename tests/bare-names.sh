#!/bin/bash
# Nothing in the tree may call a tool by its bare name: `eval` is a shell builtin, so `... | eval` would drop every record
# and exit 0. A tool name right after a pipe, or at the start of a command in a code block, is refused.
set -u -o pipefail
cd "$(dirname "$0")/.." || exit 1
names=$(basename -s .c tools/*.c | grep -vx spar | paste -sd'|')
if git grep -nE "\|[[:space:]]*($names)[[:space:]]" -- pipelines man README.md tests/*.bats '*.mk' | grep -vE 'spar (rollout|eval)|^\S+:[0-9]+:\.\\"'; then
	echo 'bare-names: call a tool as spar TOOL' >&2
	exit 1
fi
