#!/bin/bash
# Nothing in the tree may call a tool by its bare name: `eval` is a shell builtin, so `... | eval` would drop every record
# and exit 0. A tool name right after a pipe, or at the start of a command in a code block, is refused.
set -u -o pipefail
cd "$(dirname "$0")/.." || exit 1
names='rollout|score|advantage|update|sft-collect|eval|env-cern|text|model|view'
if git grep -nE "\|[[:space:]]*($names)[[:space:]]" -- pipelines man README.md tests/*.bats '*.mk' | grep -vE 'spar (rollout|eval)|^\S+:[0-9]+:\.\\"'; then
	echo 'bare-names: call tools through `spar TOOL`' >&2
	exit 1
fi
