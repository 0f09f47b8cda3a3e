#!/bin/bash
# A short run of self-play is mirrored to a stand-in for the hub by the `hf` that is found on PATH. The first five uploads
# fail: those of checkpoints on save, then with their phase; so two at least are tried again at the end.
#	tests/hub/mirror.sh BUILD WORK
set -eu -o pipefail
cd "$(dirname "$0")/../.."
build=$(realpath "$1") work=$2 hub=$2/hub
mkdir -p "$hub"

exec 8> >(exec "$build/hub/hub" "$hub" 5) # ends with this script
until [ -s "$hub/port" ]; do sleep 0.05; done

export HF_ENDPOINT HF_TOKEN=secret OSINT_HF_CHECKPOINT_REPO_ID=me/repo HF_HUB_DISABLE_TELEMETRY=1 HF_HUB_DISABLE_XET=1
HF_ENDPOINT=http://127.0.0.1:$(cat "$hub/port")
SPAR=$build/bin/spar pipelines/self-play/run.sh tests/data/self-play.json --run="$work/run" --quiet

# What has arrived, and that nothing else has.
for commit in "$hub"/commit-*; do
	jq -r 'select(.key == "file").value | "\(.path) \(.content)"' "$commit" | while read -r path content; do
		mkdir -p "$work/mirror/$(dirname "$path")"
		base64 -d <<<"$content" >"$work/mirror/$path"
	done
done
{
	echo post_training_evaluation.json
	echo self_play_summary.json
	cd "$work/run"
	for phase in round_*/{generator,answerer}; do
		find -L "$phase" -type f ! -path '*/policy/*' ! -path '*/trainer/*'
	done
} | sort >"$work/wanted"
(cd "$work/mirror/run" && find . -type f -printf '%P\n' | sort) | diff "$work/wanted" -
while read -r file; do cmp "$work/run/$file" "$work/mirror/run/$file"; done <"$work/wanted"
! grep ^POST "$hub/log" | grep -v ' secret$' || { echo 'a request without token' >&2; exit 1; }
echo "mirror: $(wc -l <"$work/wanted") files in $(find "$hub" -name 'commit-*' | wc -l) commits are equal; $(grep -c ' 500 ' "$hub/log") uploads failed first"
