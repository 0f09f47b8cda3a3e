# What every filter does with its input and output, seen through `spar score`: zstd streams (two frames, skippable frames,
# cut-off ones, big windows) and JSON lines at the edges.
load common

frame() { printf '\x28\xb5\x2f\xfd\x04\x58\x41\x00\x00{"i":0}\n\xf7\xd7\x46\xe5'; } # one record, with checksum
empty_frame() { printf '\x28\xb5\x2f\xfd\x24\x00\x01\x00\x00\x99\xe9\xd8\x51'; }
skippable() { printf '\x50\x2a\x4d\x18\x04\x00\x00\x00abcd'; }
ids() { seq "$1" | sed 's/.*/{"id":&}/'; }

# Read `in`: what comes out without the keys of score is in `out`.
score() {
	spar score --quiet --reward n=null "$@" <"$SCRATCH/in" >"$SCRATCH/scored"
	local rc=$?
	sed 's/,"rewards":.*/}/' "$SCRATCH/scored" >"$SCRATCH/out"
	return $rc
}

@test "zstd: frames in a row, empty frames and skippable frames are one stream (B37)" {
	{ frame; frame; } >"$SCRATCH/in"
	run -0 --separate-stderr score
	[ "$(cat "$SCRATCH/out")" = $'{"i":0}\n{"i":0}' ]
	{ skippable; empty_frame; frame; skippable; frame; skippable; } >"$SCRATCH/in"
	run -0 --separate-stderr score
	[ "$(cat "$SCRATCH/out")" = $'{"i":0}\n{"i":0}' ]
}

@test "zstd: no bytes and an empty frame are zero records (B37)" {
	: >"$SCRATCH/in"
	run -0 --separate-stderr score
	[ ! -s "$SCRATCH/out" ]
	empty_frame >"$SCRATCH/in"
	run -0 --separate-stderr score
	[ ! -s "$SCRATCH/out" ]
}

@test "zstd: cut off in the checksum or in the header, junk behind, a changed byte: an error (B37)" {
	frame | head -c -1 >"$SCRATCH/in"
	run -3 --separate-stderr score
	[[ $stderr == "score: <stdin>: after line "?": cut off inside a zstd frame" ]]
	frame | head -c 6 >"$SCRATCH/in"
	run -3 --separate-stderr score
	[ ! -s "$SCRATCH/out" ]
	{ frame; echo junk; } >"$SCRATCH/in"
	run -3 --separate-stderr score
	[[ $stderr == *"bytes that are no zstd frame follow a zstd frame" ]]
	{ frame | head -c -1; printf x; } >"$SCRATCH/in"
	run -3 --separate-stderr score
	[[ $stderr == *checksum* ]]
}

@test "zstd: a stream cut in the middle gives whole records, then the error (B37)" {
	ids 100000 | zstd -q | head -c 30000 >"$SCRATCH/in"
	run -3 --separate-stderr score
	n=$(wc -l <"$SCRATCH/out")
	[ "$n" -gt 1000 ]
	cmp "$SCRATCH/out" <(ids "$n")
}

@test "zstd: a window over 128 MiB is refused with both sizes (B37)" {
	ids 10 | zstd -q --ultra --long=31 >"$SCRATCH/in"
	run -3 --separate-stderr score
	[[ $stderr == *"needs a window of 2147483648 bytes, the limit is 134217728" ]]
}

@test "--save: the same bytes, compressed with a checksum when the name says so, and only when whole" {
	ids 1000 >"$SCRATCH/in"
	run -0 --separate-stderr score --save "$SCRATCH/copy.zst"
	cmp <(zstdcat "$SCRATCH/copy.zst") "$SCRATCH/scored"
	zstd -lv "$SCRATCH/copy.zst" | grep -q XXH64
	echo '{"cut' >>"$SCRATCH/in"
	run -3 --separate-stderr score --save "$SCRATCH/other.zst"
	[ "$(wc -l <"$SCRATCH/out")" = 1000 ]
	[ -z "$(ls "$SCRATCH" | grep other)" ]
}

@test "json: ids, numbers, blanks and key order pass through byte for byte (B38)" {
	cat >"$SCRATCH/in" <<'END'
{"id":9007199254740993,"b":100000000000000000000,"x":1.0,"a" : 1.10 }
{ "z":1,"z":2, "u":"\u0000\ud83d\ude00\udc00" }
{"deep":{"rewards":1,"n":[1e5,-0]}}
END
	run -0 --separate-stderr spar score --quiet --reward n=null "$SCRATCH/in"
	[ "${lines[0]}" = '{"id":9007199254740993,"b":100000000000000000000,"x":1.0,"a" : 1.10 ,"rewards":{"n":null},"reward":null}' ]
	[ "${lines[1]}" = '{ "z":1,"z":2, "u":"\u0000\ud83d\ude00\udc00" ,"rewards":{"n":null},"reward":null}' ]
	[ "${lines[2]}" = '{"deep":{"rewards":1,"n":[1e5,-0]},"rewards":{"n":null},"reward":null}' ]
}

@test "json: keys that are owned and there are replaced in place, the last of a pair, also when escaped" {
	cat >"$SCRATCH/in" <<'END'
{"reward":5,"x":1,"rewards":{"old":1}}
{"reward":5,"reward":6,"rewards":null}
{"re\u0077ard":5,"x":"reward","rewards":0}
{}
END
	run -0 --separate-stderr spar score --quiet --reward n=2 "$SCRATCH/in"
	[ "${lines[0]}" = '{"reward":2,"x":1,"rewards":{"n":2}}' ]
	[ "${lines[1]}" = '{"reward":5,"reward":2,"rewards":{"n":2}}' ]
	[ "${lines[2]}" = '{"re\u0077ard":2,"x":"reward","rewards":{"n":2}}' ]
	[ "${lines[3]}" = '{"rewards":{"n":2},"reward":2}' ]
}

@test "json: a BOM, CR, blank lines and a last line without newline are no trouble (B38)" {
	printf '\xef\xbb\xbf{"i":0}\r\n\n \t\r\n{"i":1}' >"$SCRATCH/in"
	run -0 --separate-stderr score
	[ "$(cat "$SCRATCH/out")" = $'{"i":0}\n{"i":1}' ]
}

@test "json: what is not one object of strict JSON is refused, with line and byte (B38)" {
	while IFS=$'\t' read -r line what; do
		printf '{"i":0}\n\n%b\n' "$line" >"$SCRATCH/in"
		run -3 --separate-stderr score
		echo "$line -> $stderr"
		[ "$(cat "$SCRATCH/out")" = '{"i":0}' ]
		[[ $stderr == "score: <stdin>:3: $what"* ]]
	done <<'END'
{"a":NaN}	not JSON: byte 6: not a JSON value
{"a":-Infinity}	not JSON: byte 7: bad number
{"a":1}{"b":2}	not JSON: byte 8: more than one value
{"a":1	not JSON: byte 7: unexpected end
{"a":"\\ud83d"}	not JSON: Invalid
{"a":"\xff"}	not JSON: byte 7: not UTF-8
{"a":"\x01"}	not JSON: byte 7: control character
[1]	expected object, got array
{"type":3}	.type: expected string, got number
END
}

@test "json: --skip-bad goes on, counts and keeps what it refused (B38)" {
	printf '%s\n' '{"i":0}' '{"i":' '{"i":2}' '[]' >"$SCRATCH/in"
	run -0 --separate-stderr score --skip-bad --rejects "$SCRATCH/rejects"
	[ "$(cat "$SCRATCH/out")" = $'{"i":0}\n{"i":2}' ]
	[ "$(cat "$SCRATCH/rejects")" = $'{"i":\n[]' ]
	[[ $stderr == *"<stdin>:2: not JSON"*"<stdin>:4: expected object"*"2 of 4 records refused" ]]
	run -2 --separate-stderr score --rejects "$SCRATCH/rejects"
}

@test "json: a line of 70 MB works (B38)" {
	{ printf '{"x":"'; head -c 70000000 /dev/zero | tr '\0' a; printf '"}\n'; } >"$SCRATCH/in"
	run -0 --separate-stderr bash -c 'spar score --quiet --reward "n=.x|length" <"$1" | tail -c 42' - "$SCRATCH/in"
	[[ $output == *'"reward":70000000}' ]]
}

@test "a live pipe: each record comes out before the next goes in" {
	mkfifo "$SCRATCH/to" "$SCRATCH/from"
	spar score --quiet --reward n=null <"$SCRATCH/to" >"$SCRATCH/from" &
	exec 8>"$SCRATCH/to" 9<"$SCRATCH/from"
	for i in 1 2 3; do
		echo "{\"i\":$i}" >&8
		read -r -t 20 line <&9
		[[ $line == "{\"i\":$i,"* ]]
	done
	exec 8>&-
	wait $!
	exec 9<&-
}

@test "a last stage that fails ends the stages before it, also while they wait for input" {
	mkfifo "$SCRATCH/tasks"
	sleep 60 >"$SCRATCH/tasks" 3>&- & # holds the input open, and says nothing
	local holder=$!
	run timeout 50 bash -o pipefail -c 'spar score --quiet <"$1" | spar advantage --quiet | false' - "$SCRATCH/tasks"
	[ "$status" -eq 1 ]
	run timeout 50 bash -o pipefail -c 'spar rollout --policy="$1" --num-generations=2 --quiet <"$2" | spar score --quiet | false' - \
		"$SCRATCH/policy" "$SCRATCH/tasks"
	[ "$status" -eq 1 ]
	kill "$holder"
}

@test "a reader that leaves ends the writer quietly; a full disk is an error" {
	run -0 --separate-stderr bash -c 'seq 200000 | sed "s/.*/{\"i\":&}/" | spar score --quiet --reward n=null | head -1'
	[ -z "$stderr" ]
	ids 10 >"$SCRATCH/in"
	run -1 --separate-stderr bash -c 'spar score --quiet --reward n=null <"$1" >/dev/full' - "$SCRATCH/in"
	[ "$stderr" = "score: <stdout>: No space left on device" ]
}
