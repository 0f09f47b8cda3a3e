# The EXAMPLES of the pages, run as they stand: only counts are made small, and a pager is left out.
load common

ROOT=$BATS_TEST_DIRNAME/..

# What the examples speak of: models under the names they use, and files that earlier commands would have left.
setup_file() {
	TINY=$BATS_TEST_DIRNAME/../pipelines/models/tiny
	cd "$BATS_FILE_TMPDIR" && mkdir run
	for name in DIR A B base warm policy answerer run/model pipelines; do ln -s "$(realpath "$TINY")" $name; done
	rm pipelines && ln -s "$(realpath "$BATS_TEST_DIRNAME/../pipelines")" pipelines
	printf '{"type":"task","id":"%d","messages":[{"role":"user","content":"1+1="}],"answer":"2"}\n' 1 2 >tasks.jsonl
	spar env-cern --tasks=2 --max-steps=2 |
		spar rollout -q --model="$TINY" --env='spar env-cern' -n 2 --max-completion-length=4 >rollouts.jsonl
	spar env-osint --tasks=1 --role=generator --messages | spar rollout -q --skip-bad --model="$TINY" -n 2 --max-completion-length=4 >posing.jsonl
	spar score -q <rollouts.jsonl >scored.jsonl
	spar sft-collect -q --episodes=2 --all --save=oracle.jsonl.zst >sft.jsonl
	printf '{"logprobs":[-1,-2],"old_logprobs":[-1,-1.5],"advantage":%d}\n' 1 -1 >step.jsonl
}

# examples PAGE: each command of its EXAMPLES into a file 1.cmd, 2.cmd, ... and what is printed below it into 1.out, ...
examples() {
	awk '
		/^\.Sh/ { on = /EXAMPLES/; next }
		!on { next }
		/^\.Bd/ { block = 1; fresh = 1; next }
		/^\.Ed/ { block = 0; next }
		/^\.Dl/ { sub(/^\.Dl /, ""); sub(/^\$ /, ""); n++; put("cmd"); next }
		!block { next }
		/^\$ / || fresh { fresh = 0; sub(/^\$ /, ""); n++; put("cmd"); next }
		/^[ \t]/ { put("cmd"); next }
		{ put("out") }
		function put(kind) { gsub(/\\e/, "\\"); gsub(/\\&/, ""); print > (n "." kind) }
	' "$1"
	for file in *.cmd; do
		sed -E -i 's/--(tasks|episodes)=[0-9]{2,}/--\1=2/; s/ \| less -R$//' "$file"
	done
}

@test "pages: every example of a tool's page does what it says" {
	for page in "$ROOT"/man/*.1; do
		rm -rf "$SCRATCH/here" && cp -RP "$BATS_FILE_TMPDIR" "$SCRATCH/here" && cd "$SCRATCH/here"
		examples "$page"
		[ -e 1.cmd ] # there are some
		for command in $(printf '%s\n' *.cmd | sort -n); do
			echo "== ${page##*/}: $(cat "$command")"
			! grep -q 'spar pose' "$command" || cp posing.jsonl rollouts.jsonl
			timeout 600 bash -eo pipefail "$command" >got 2>err </dev/null || { cat err; false; }
			[ ! -e "${command%.cmd}.out" ] || diff "${command%.cmd}.out" got
		done
	done
}

@test "pages: the environment in jq that spar-env(7) shows can be played" {
	awk '/^\.Bd/ { n++; next } /^\.Ed/ { on = 0 } n { if ($0 ~ /^foreach/) on = 1; if (on) { gsub(/\\e/, "\\"); print } }' "$ROOT/man/spar-env.7" >"$SCRATCH/odd.jq"
	cd "$SCRATCH"
	run -0 --separate-stderr spar rollout -q --model="$TINY" -n 2 --max-completion-length=4 --env='jq --unbuffered -ncf odd.jq' \
		< <(printf '{"id":"%d","env":"odd","seed":"%d"}\n' 1 1 2 2)
	[ "${#lines[@]}" = 4 ]
	jq -se 'all(.env.end == "answer" and (.env.success | type) == "boolean" and (.turns | length) == 1)' <<<"$output"
}
