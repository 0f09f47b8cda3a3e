#!/bin/bash
# Self-play as a job on a rented GPU: prints the command that starts it, or with --run starts it.
#	pipelines/hf-job.sh [--run] REPOSITORY [CONFIG]
# REPOSITORY is a git URL that the job can clone. Variables: HF_JOB_FLAVOR (l40s), HF_JOB_TIMEOUT (8h),
# HF_JOB_IMAGE (pytorch/pytorch: its torch package is what update links).
set -eu

run=
[ "${1:-}" != --run ] || { run=yes; shift; }
[ $# -ge 1 ] || { sed -n 's/^#\t/usage: /p' "$0" >&2; exit 2; }

job="git clone $1 spar && cd spar && make deps"
job+=" && hf download Qwen/Qwen2.5-0.5B-Instruct --local-dir models/Qwen2.5-0.5B-Instruct && RUN_SELF_PLAY_DRY_RUN=0"
job+=" TRAIN_SELF_PLAY_CONFIG_PATH=${2:-pipelines/configs/l40s-full.json} pipelines/train_self_play_standalone.sh"
command=(hf jobs run --flavor "${HF_JOB_FLAVOR:-l40s}" --timeout "${HF_JOB_TIMEOUT:-8h}" --secrets HF_TOKEN
	"${HF_JOB_IMAGE:-pytorch/pytorch}" bash -c "$job")
if [ -n "$run" ]; then
	exec "${command[@]}"
fi
printf '%q ' "${command[@]}"
echo
