#!/bin/bash
# Self-play on a machine of one's own, from a fresh clone.
#	TRAIN_SELF_PLAY_CONFIG_PATH=pipelines/configs/l40s-full.json pipelines/train_self_play_standalone.sh
# Variables:
#	TRAIN_SELF_PLAY_CONFIG_PATH   configuration (pipelines/configs/example.json)
#	TRAIN_ENV_CONFIG_PATH         the environment's configuration, as other trainers have it: its blocks environment and seeding
#	TRAIN_SELF_PLAY_OUTPUT_DIR    where to write (the configuration's output_dir)
#	TRAIN_SELF_PLAY_ROUNDS        rounds (the configuration's)
#	RUN_SELF_PLAY_DRY_RUN         1: write every artifact, train nothing; 0: train whatever the configuration says
#	TRAIN_SETUP_COMMAND           run before all else
#	TRAIN_LOG_PATH                also write what is said here
# Without effect, as there is no Python here: VENV_PATH BOOTSTRAP_VENV INSTALL_TRAIN_DEPS
set -eu -o pipefail
cd "$(dirname "$0")/.."

for name in VENV_PATH BOOTSTRAP_VENV INSTALL_TRAIN_DEPS; do
	[ -z "${!name:-}" ] || echo "train_self_play_standalone: $name has no effect" >&2
done
[ -z "${TRAIN_SETUP_COMMAND:-}" ] || bash -euc "$TRAIN_SETUP_COMMAND"

flags=()
if [ -n "${TRAIN_ENV_CONFIG_PATH:-}" ]; then
	said=$(jq -r --arg path "$TRAIN_ENV_CONFIG_PATH" -f pipelines/self-play/environment.jq "$TRAIN_ENV_CONFIG_PATH")
	while read -r what text; do
		case $what in
		set) flags+=("--set $text") ;;
		note) echo "train_self_play_standalone: $TRAIN_ENV_CONFIG_PATH: $text" >&2 ;;
		stop) echo "train_self_play_standalone: $TRAIN_ENV_CONFIG_PATH: $text" >&2; exit 3 ;;
		esac
	done <<<"$said"
fi
[ -z "${TRAIN_SELF_PLAY_ROUNDS:-}" ] || flags+=("--set rounds=$TRAIN_SELF_PLAY_ROUNDS")
case ${RUN_SELF_PLAY_DRY_RUN:-} in
1) flags+=(--dry-run) ;;
0) flags+=(--no-dry-run) ;;
esac
${MAKE:-make} self-play CONFIG="${TRAIN_SELF_PLAY_CONFIG_PATH:-pipelines/configs/example.json}" \
	${TRAIN_SELF_PLAY_OUTPUT_DIR:+RUN="$TRAIN_SELF_PLAY_OUTPUT_DIR"} SELF_PLAY_FLAGS="${flags[*]}" 2>&1 |
	tee ${TRAIN_LOG_PATH:+"$TRAIN_LOG_PATH"}
