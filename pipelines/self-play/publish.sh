# Mirroring a run to a Hugging Face repository with the `hf` command, as functions; sourced by run.sh. Nothing is sent without a
# token and a repository. An upload that fails never stops training: it is tried again at the end.
#	HF_TOKEN, HUGGINGFACE_HUB_TOKEN or HUGGING_FACE_HUB_TOKEN
#	OSINT_HF_CHECKPOINT_REPO_ID          the repository; else that of SPACE_ID or HF_SPACE_ID with
#	OSINT_HF_CHECKPOINT_REPO_SUFFIX      behind its name (-checkpoints)
#	OSINT_HF_CHECKPOINT_REPO_TYPE        model
#	OSINT_HF_CHECKPOINT_REPO_PRIVATE     true, unless 0, false, no or off
#	OSINT_HF_CHECKPOINT_PATH_PREFIX      folder in the repository (the name of the run's folder)
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

upload() { # PATH
	local private=--private prefix=${OSINT_HF_CHECKPOINT_PATH_PREFIX:-$(slug "$(basename "$run")")}
	case ${OSINT_HF_CHECKPOINT_REPO_PRIVATE:-1} in 0 | false | no | off) private=--no-private ;; esac
	HF_TOKEN=$token hf upload "$(repository)" "$1" "$prefix/${1#"$run"/}" \
		--repo-type="${OSINT_HF_CHECKPOINT_REPO_TYPE:-model}" "$private" --exclude='policy/*' '*/trainer/*' '*.tmp' >&2
}

# Send a file or a folder of the run, once.
publish() { # PATH
	local token=${HF_TOKEN:-${HUGGINGFACE_HUB_TOKEN:-${HUGGING_FACE_HUB_TOKEN:-}}}
	[ -n "$token" ] && [ -n "$(repository)" ] && command -v hf >/dev/null || return 0
	! grep -qxF "$1" "$run/published.txt" 2>/dev/null || return 0
	if upload "$1"; then
		echo "$1" >>"$run/published.txt"
	else
		echo "self-play: $1 could not be uploaded; it is tried again at the end" >&2
		unpublished+=("$1")
	fi
}

publish_again() {
	local left=("${unpublished[@]}") path
	unpublished=()
	for path in "${left[@]}"; do publish "$path"; done
	[ "${#unpublished[@]}" = 0 ] || echo "self-play: not uploaded: ${unpublished[*]}" >&2
}

unpublished=()
