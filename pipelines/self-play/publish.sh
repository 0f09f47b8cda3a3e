# Mirroring a run to a Hugging Face repository with the `hf` command, as functions; sourced by run.sh. Nothing is sent without a
# token and a repository. An upload that fails never stops training: it is tried again at the end.
#	HF_TOKEN, HUGGINGFACE_HUB_TOKEN or HUGGING_FACE_HUB_TOKEN
#	OSINT_HF_CHECKPOINT_REPO_ID          the repository; else that of SPACE_ID or HF_SPACE_ID with
#	OSINT_HF_CHECKPOINT_REPO_SUFFIX      behind its name (-checkpoints)
#	OSINT_HF_CHECKPOINT_REPO_TYPE        model
#	OSINT_HF_CHECKPOINT_REPO_PRIVATE     true, unless 0, false, no or off
#	OSINT_HF_CHECKPOINT_PATH_PREFIX      folder in the repository (the name of the run's folder)
#	OSINT_HF_UPLOAD_ON_SAVE              send each checkpoint when it is there, not with its phase: yes, unless 0, false, no or off
# shellcheck shell=bash disable=SC2154

slug() {
	printf %s "$1" | tr '[:upper:]' '[:lower:]' | sed -E 's/[^a-z0-9._-]+/-/g; s/^-+|-+$//g'
}

# "" if there is none.
repository() {
	local space=${SPACE_ID:-${HF_SPACE_ID:-}}
	if [ -n "${OSINT_HF_CHECKPOINT_REPO_ID:-}" ]; then
		echo "$OSINT_HF_CHECKPOINT_REPO_ID"
	elif [[ $space == */* ]]; then
		echo "${space%%/*}/$(slug "${space#*/}${OSINT_HF_CHECKPOINT_REPO_SUFFIX:--checkpoints}")"
	fi
}

is_off() {
	case $1 in 0 | false | no | off) true ;; *) false ;; esac
}

token=${HF_TOKEN:-${HUGGINGFACE_HUB_TOKEN:-${HUGGING_FACE_HUB_TOKEN:-}}}

is_mirrored() {
	[ -n "$token" ] && [ -n "$(repository)" ] && command -v hf >/dev/null
}

upload() { # PATH
	local private=--private prefix=${OSINT_HF_CHECKPOINT_PATH_PREFIX:-$(slug "$(basename "$run")")}
	local without=()
	! is_off "${OSINT_HF_CHECKPOINT_REPO_PRIVATE:-1}" || private=--no-private
	[ ! -d "$1" ] || without=(--exclude='policy/*' --exclude='checkpoint-*' --exclude='trainer/*' --exclude='*.tmp*')
	HF_TOKEN=$token hf upload "$(repository)" "$1" "$prefix/${1#"$run"/}" "$private" \
		--repo-type="${OSINT_HF_CHECKPOINT_REPO_TYPE:-model}" "${without[@]}" >&2
}

# Send a file or a folder of the run, once.
publish() { # PATH
	is_mirrored || return 0
	! grep -qxF "$1" "$run/published.txt" 2>/dev/null || return 0
	if upload "$1"; then
		echo "$1" >>"$run/published.txt"
	else
		echo "self-play: $1 could not be uploaded; it is tried again at the end" >&2
		unpublished+=("$1")
	fi
}

# A phase and its checkpoints, which are links into the policy directory.
publish_phase() { # DIR
	local checkpoint
	for checkpoint in "$1"/checkpoint-*; do
		[ ! -e "$checkpoint" ] || publish "$checkpoint"
	done
	publish "$1"
}

# Beside a phase that trains: send its checkpoints as they come, until its metrics are there. One that fails goes with the phase.
publish_checkpoints() { # DIR
	local checkpoint
	while [ ! -e "$1/metrics.jsonl" ] && kill -0 $$ 2>/dev/null; do
		sleep 2
		link_checkpoints "$1"
		for checkpoint in "$1"/checkpoint-*; do
			[ ! -e "$checkpoint" ] || publish "$checkpoint"
		done
	done
}

publish_again() {
	local left=("${unpublished[@]}") path
	unpublished=()
	for path in "${left[@]}"; do publish "$path"; done
	[ "${#unpublished[@]}" = 0 ] || echo "self-play: not uploaded: ${unpublished[*]}" >&2
}

unpublished=()
