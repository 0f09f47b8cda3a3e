# Manners that all tools share. The loops run over what is built, so a new tool is held to them without being named here.
load common

ROOT=$BATS_TEST_DIRNAME/..

tools() { ls "$SPAR_BUILD/libexec/spar"; }
filters() { # tools that read a stream of records from standard input
	for tool in $(tools); do
		if spar "$tool" --help | grep -q -- --skip-bad; then echo "$tool"; fi
	done
}

@test "every tool in tools/ is built, and nothing else" {
	diff <(tools) <(cd "$ROOT/tools" && ls ./*.c | sed 's,^\./,,;s,\.c$,,' | grep -vx spar | LC_ALL=C sort)
}

@test "--help goes to standard output, exits 0 and starts with the usage" {
	for tool in $(tools); do
		for flag in --help -h; do
			echo "$tool $flag"
			run -0 --separate-stderr spar "$tool" $flag </dev/null
			[[ ${lines[0]} == "usage: spar $tool"* ]]
			[ -z "$stderr" ]
		done
	done
}

@test "an unknown option and a missing value: one line and the usage on standard error, exit 2" {
	for tool in $(tools); do
		echo "$tool"
		run -2 --separate-stderr spar "$tool" --no-such-option </dev/null
		[ -z "$output" ]
		[ "${#stderr_lines[@]}" = 2 ]
		[ "${stderr_lines[0]}" = "$tool: unknown option --no-such-option" ]
		[[ ${stderr_lines[1]} == "usage: spar $tool"* ]]
		option=$(spar "$tool" --help | sed -nE 's/^ .*--([a-z0-9-]+)=.*/\1/p' | head -1)
		[ -n "$option" ] || continue
		run -2 --separate-stderr spar "$tool" "--$option" </dev/null
		[ "${stderr_lines[0]}" = "$tool: --$option needs a value" ]
	done
}

@test "--help and the man page have the same options, with the same names for their values" {
	for tool in $(tools); do
		echo "$tool"
		spar "$tool" --help | sed -nE 's/^ +(-., )?--([a-z0-9-]+(=[^ ]+)?).*/\2/p' | LC_ALL=C sort >"$SCRATCH/help"
		# .It Fl n , -name Ns = Ns Ar ARG
		sed -nE '/^\.It Fl /{s/^\.It Fl (. , )?-//;s/ Ns = Ns (Ar|Cm) /=/;s/ Ns (\||Ar|Cm)//g;s/ \| /|/g;p;}' "$ROOT/man/spar-$tool.1" |
			sed 's/ Ns$//' | grep -vx help | LC_ALL=C sort >"$SCRATCH/page"
		[ -s "$SCRATCH/help" ]
		diff "$SCRATCH/help" "$SCRATCH/page"
	done
}

@test "every tool has a page with its exit status and examples; pages are clean" {
	command -v mandoc >/dev/null || skip "no mandoc"
	for tool in $(tools); do
		echo "$tool"
		grep -q '^\.Sh EXIT STATUS' "$ROOT/man/spar-$tool.1"
		grep -q '^\.Sh EXAMPLES' "$ROOT/man/spar-$tool.1"
		grep -q "Xr spar-$tool 1" "$ROOT/man/spar.1"
	done
	mandoc -T lint -W warning "$ROOT"/man/*.[1-9]
}

@test "filters: a line that is no record is exit 3 with its place, an input file that is not there exit 1" {
	[ "$(filters | wc -l)" -ge 2 ]
	for tool in $(filters); do
		echo "$tool"
		run -3 --separate-stderr spar "$tool" $(required "$tool") <<<'{"type":'
		[ -z "$output" ]
		[[ $stderr == "$tool: <stdin>:1: "* ]]
		run -1 --separate-stderr spar "$tool" $(required "$tool") "$SCRATCH/nowhere" </dev/null
		[ "$stderr" = "$tool: $SCRATCH/nowhere: No such file or directory" ]
	done
}

# What a filter cannot do without, before it looks at its input.
required() {
	case $1 in
	rollout | eval) echo "--model=$TINY" ;;
	update) echo "--model=$TINY --out=$SCRATCH/out-$1 --loss-type=sft" ;;
	esac
}

@test "filters: a full disk is exit 1, not silence" {
	for tool in score advantage loss; do
		run -1 --separate-stderr bash -c "spar $tool >/dev/full <<<'{\"type\":\"batch\",\"step\":0,\"groups\":0}'"
		[ "$stderr" = "$tool: <stdout>: No space left on device" ]
	done
	for tool in $(tools); do
		echo "$tool"
		run -1 --separate-stderr bash -c "spar $tool --help >/dev/full"
	done
}

@test "tools that need no tensors do not link libtorch and start in milliseconds" {
	for tool in $(tools); do
		[ "$tool" != update ] || continue
		echo "$tool"
		[ -z "$(ldd "$SPAR_BUILD/libexec/spar/$tool" | grep torch)" ]
		# The best of five: the machine may be busy. Sanitizers start slower.
		best=$(for _ in 1 2 3 4 5; do
			start=$EPOCHREALTIME
			spar "$tool" --help >/dev/null
			end=$EPOCHREALTIME
			echo $((${end/./} - ${start/./}))
		done | sort -n | head -1)
		echo "$best us"
		[[ $SPAR_BUILD == *-san ]] || [ "$best" -lt 50000 ]
	done
}

@test "every record type has a schema that names and describes each field" {
	for schema in "$ROOT"/schemas/*.json; do
		echo "$schema"
		jq -e '."$schema" == "https://json-schema.org/draft/2020-12/schema" and .description != null and
			([.. | objects | .properties? // empty | to_entries[] | select(.value.description | length < 3) | .key] == [])' "$schema"
		[ "$(jq -r .properties.type.const "$schema")" = "$(basename "$schema" .schema.json)" ]
	done
}

@test "nothing calls a tool by its bare name" {
	[ -e "$ROOT/.git" ] || skip "not a git checkout"
	"$BATS_TEST_DIRNAME/bare-names.sh"
}

@test "spar: help, no tool, no such tool" {
	run -0 --separate-stderr spar --help
	[ "$(sed -n 's/^  \([a-z-]*\)  .*/\1/p' <<<"$output" | sort)" = "$(ls "$SPAR_BUILD/libexec/spar" | sort)" ]
	run -2 --separate-stderr spar
	[ -z "$output" ]
	for name in nosuch ../bin/spar .hidden -x; do
		run -2 --separate-stderr spar "$name"
		[[ $stderr == "spar: no such tool: "* ]]
	done
}
