#!/bin/bash
# Print the version from which a phase goes on, v000000 for a new one. What a killed one left is a copy of its rollouts
# under a temporary name: the records of steps that will not be drawn again, those below that version, go to the final
# name; the rest, and a last record that was cut short, are drawn again.
#	first=$(pipelines/rescue.sh DIR)
set -eu

first=$(basename "$(readlink "$1/policy/latest" || echo v000000)")
for part in "$1"/rollouts-*.jsonl.zst.tmp.*; do
	[ -e "$part" ] || continue
	whole=${part%.tmp.*}
	{ zstdcat "$part" 2>/dev/null || true; } | awk -v first="${first#v}" '
		match($0, /"step":[0-9]+/) && substr($0, RSTART + 7, RLENGTH - 7) + 0 < first + 0 && /}$/' |
		zstd -q -f -o "$whole.rescued"
	mv "$whole.rescued" "$whole"
	rm "$part"
done
echo "$first"
