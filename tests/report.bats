# spar report: event files that TensorBoard reads, and the page. The frames are taken apart here by other means than spar's.
load common

setup() {
	RUN=$SCRATCH/x BOARD=$SCRATCH/board
	mkdir -p "$RUN/answerer"
	metrics 1 2 >"$RUN/answerer/metrics.jsonl"
}

metrics() { # FIRST LAST
	jq -nc 'range($ARGS.positional[0]; $ARGS.positional[1] + 1) |
		{type: "metric", step: ., loss: (1 / .), kl: null, skipped: false, loss_type: "grpo", step_time: 2}' --jsonargs "$@"
}

events() { cat "$BOARD/x/$1/events.out.tfevents.spar"; }

# CRC-32C of the bytes that follow, masked as the format says.
masked_crc() { # BYTE...
	local crc=$((0xffffffff)) byte bit
	for byte; do
		((crc ^= byte))
		for bit in 1 2 3 4 5 6 7 8; do ((crc = crc & 1 ? crc >> 1 ^ 0x82f63b78 : crc >> 1)); done
	done
	((crc ^= 0xffffffff))
	echo $((((crc >> 15 | crc << 17) + 0xa282ead8) & 0xffffffff))
}

little() { # BYTE...
	local v=0 i
	for ((i = $#; i >= 1; i--)); do ((v = v << 8 | ${!i})); done
	echo "$v"
}

# The payloads of the frames of standard input as hexadecimal, a line each; stops where a frame is wrong.
frames() {
	local bytes n
	mapfile -t bytes < <(od -An -v -tu1 -w1 | tr -d ' ')
	set -- "${bytes[@]}"
	while [ $# -gt 0 ]; do
		n=$(little "${@:1:8}")
		[ "$(little "${@:9:4}")" = "$(masked_crc "${@:1:8}")" ] || return 1
		[ "$(little "${@:13+n:4}")" = "$(masked_crc "${@:13:n}")" ] || return 1
		printf %02x "${@:13:n}"
		echo
		shift $((16 + n))
	done
}

hex() { printf %s "$1" | od -An -v -tx1 | tr -d ' \n'; }

@test "report: event files: frames, checksums, and what is in them" {
	[ "$(masked_crc $(printf %s 123456789 | od -An -tu1))" = $((((0xe3069283 >> 15 | 0xe3069283 << 17) + 0xa282ead8) & 0xffffffff)) ]
	touch -d @1700000002 "$RUN/answerer/metrics.jsonl"
	run -0 --separate-stderr spar report --tensorboard="$BOARD" "$RUN"
	[ "$stderr" = "report: 4 new figures" ]
	[ -z "$output" ]
	run -0 frames < <(events answerer)
	[ "${#lines[@]}" = 5 ]
	[ "${lines[0]}" = "0900000000000000001a0d$(hex brain.Event:2)" ]
	# 1700000000 as a double; step 1; summary { value { tag: "loss", simple_value: 1 } }
	[ "${lines[1]}" = "0900000040fc54d94110012a0d0a0b0a04$(hex loss)150000803f" ]
	[[ ${lines[3]} == 0900008040fc54d94110022a* ]] # two seconds later
	[ "$(grep -c "$(hex step_time)" <<<"$output")" = 2 ]
}

@test "report: shown again, a run adds what is new, and a cut-off end is written again" {
	spar report --quiet --tensorboard="$BOARD" "$RUN"
	events answerer >"$SCRATCH/before"
	run -0 --separate-stderr spar report --tensorboard="$BOARD" "$RUN/"
	[ "$stderr" = "report: 0 new figures" ]
	events answerer | cmp - "$SCRATCH/before"
	metrics 1 3 >"$RUN/answerer/metrics.jsonl"
	run -0 --separate-stderr spar report --tensorboard="$BOARD" "$RUN"
	[ "$stderr" = "report: 2 new figures" ]
	events answerer >"$SCRATCH/after"
	head -c "$(stat -c %s "$SCRATCH/before")" "$SCRATCH/after" | cmp - "$SCRATCH/before"
	for cut in 1 4 10 16 20; do
		head -c "-$cut" "$SCRATCH/after" >"$BOARD/x/answerer/events.out.tfevents.spar"
		spar report --quiet --tensorboard="$BOARD" "$RUN"
		diff <(events answerer | frames | sort) <(frames <"$SCRATCH/after" | sort)
	done
}

@test "report: a damaged file of events, and one that is none, are refused" {
	spar report --quiet --tensorboard="$BOARD" "$RUN"
	file=$BOARD/x/answerer/events.out.tfevents.spar
	cp "$file" "$SCRATCH/good"
	printf '\377' | dd of="$file" bs=1 seek=60 conv=notrunc status=none
	run -3 --separate-stderr spar report --tensorboard="$BOARD" "$RUN"
	[ "$stderr" = "report: $file: the event at byte 40 is damaged" ]
	echo 'this is something else' >"$file"
	run -3 --separate-stderr spar report --tensorboard="$BOARD" "$RUN"
	[ "$stderr" = "report: $file: no event at byte 0" ]
	[ "$(cat "$file")" = "this is something else" ]
	rm "$file" && mkdir "$file"
	run -1 --separate-stderr spar report --tensorboard="$BOARD" "$RUN"
	[ "$stderr" = "report: $file: Is a directory" ]
}

@test "report: rollouts give the means of a batch, summaries their numbers; what is still written counts as far as it goes" {
	printf '%s\n' '{"type":"rollout","verdict":{"graph_f1":0.5,"correct":true},"env":null}' \
		'{"type":"rollout","verdict":{"graph_f1":1,"correct":false},"env":{"success":true,"end":"x"}}' \
		'{"type":"batch","step":0,"groups":1}' '{"type":"rollout","verdict":{"graph_f1":1}}' |
		tee "$RUN/answerer/rollouts-v000000.jsonl" | zstd -q >"$RUN/answerer/rollouts-v000001.jsonl.zst.tmp.12"
	truncate -s -3 "$RUN/answerer/rollouts-v000001.jsonl.zst.tmp.12"
	{ metrics 4 4; printf '{"type":"met'; } >"$RUN/sft.metrics.jsonl.tmp"
	echo '{"round":2,"valid_rate":0.25,"generator":{"ci":[0.5,0.75],"name":"x"}}' >"$RUN/round.json"
	mkdir "$RUN/policy" && metrics 1 9 >"$RUN/policy/metrics.jsonl"
	run -0 --separate-stderr spar report --tensorboard="$BOARD" "$RUN"
	[ "$stderr" = "report: 13 new figures" ]
	events answerer | frames | grep -q "10012a190a170a10$(hex verdict/graph_f1)150000403f"
	events answerer | frames | grep -q "$(hex verdict/correct)150000003f"
	events answerer | frames | grep -q "$(hex env/success)150000803f"
	events . | frames | grep -q "10022a.*$(hex round/generator/ci/1)150000403f"
	events sft | frames | grep -q "10042a.*$(hex loss)150000803e"
	[ ! -e "$BOARD/x/policy" ]
}

@test "report: a page of two runs" {
	cp -r "$RUN" "$SCRATCH/y<&"
	echo '{"round":1,"valid_rate":0.25}' >"$RUN/round.json"
	run -0 --separate-stderr spar report "$RUN" "$SCRATCH/y<&"
	[ -z "$stderr" ]
	[ "$(grep -c '<polyline' <<<"$output")" = 4 ]
	[ "$(grep -c '<figcaption>' <<<"$output")" = 2 ]
	grep -q 'points="56.0,0.0 420.0,180.0"><title>y&lt;&amp;/answerer</title>' <<<"$output"
	grep -qx '<tr><td>x</td><td>round/valid_rate</td><td>0.25</td></tr>' <<<"$output"
	! grep -q '<script\|http' <<<"$output"
}

@test "report: what is wrong is named; a run without figures is warned of" {
	printf '{"type":"metric","step":1}\n{"type":\n' >"$RUN/sft.metrics.jsonl"
	run -3 --separate-stderr spar report "$RUN"
	[[ $stderr == "report: $RUN/sft.metrics.jsonl:2: "* ]]
	[ -z "$output" ]
	run -1 --separate-stderr spar report "$SCRATCH/nowhere"
	[ "$stderr" = "report: $SCRATCH/nowhere: No such file or directory" ]
	run -2 --separate-stderr spar report
	mkdir "$SCRATCH/empty"
	run -0 --separate-stderr spar report "$SCRATCH/empty"
	[ "$stderr" = "report: warning: $SCRATCH/empty: there are no figures in it" ]
	rm "$RUN/sft.metrics.jsonl"
	run -1 --separate-stderr bash -c 'spar report "$1" >/dev/full' _ "$RUN"
	[ "$stderr" = "report: <stdout>: No space left on device" ]
}
