# The live stream of an on-policy phase, as a function; sourced by train.mk and self-play. $SPAR: the program.
# shellcheck shell=bash
#	live DIR [rollout's options] -- scoring command -- [advantage's options] -- [update's options] <tasks >metrics
# out: DIR/policy/                    every version, with the trainer's state
#      DIR/rollouts-VERSION.jsonl.zst every episode from that version on, with rewards and advantages
# One pipeline that stays up for the whole phase. Killed, the same command goes on from the newest saved version.

live() {
	local dir=$1 stages=(rollout score advantage update) at=0 word first
	local rollout=() score=() advantage=() update=()
	shift
	for word; do
		if [ "$word" = -- ]; then
			at=$((at + 1))
		else
			local -n stage=${stages[at]}
			stage+=("$word")
		fi
	done
	mkdir -p "$dir"
	first=$("$(dirname "${BASH_SOURCE[0]}")/rescue.sh" "$dir")
	"$SPAR" rollout --policy="$dir/policy" "${rollout[@]}" --quiet |
		"${score[@]}" |
		"$SPAR" advantage "${advantage[@]}" --quiet --save="$dir/rollouts-$first.jsonl.zst" |
		"$SPAR" update --policy="$dir/policy" "${update[@]}"
}
