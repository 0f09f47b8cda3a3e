#!/bin/bash
# What a killed phase left: a copy of its rollouts under a temporary name. The records of steps that will not be drawn
# again, those below version FIRST, go to the final name; the rest, and a last record that was cut short, are drawn again.
#	pipelines/rescue.sh DIR FIRST
set -eu

for part in "$1"/rollouts-*.jsonl.zst.tmp.*; do
	[ -e "$part" ] || continue
	whole=${part%.tmp.*}
	{ zstdcat "$part" 2>/dev/null || true; } | awk -v first="${2#v}" '
		match($0, /"step":[0-9]+/) && substr($0, RSTART + 7, RLENGTH - 7) + 0 < first + 0 && /}$/' |
		zstd -q -f -o "$whole.rescued"
	mv "$whole.rescued" "$whole"
	rm "$part"
done
