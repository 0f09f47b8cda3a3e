# Each program tests/unit/NAME.c checks one part of lib/ from the inside: it prints what is wrong and exits non-zero.
for program in "$SPAR_BUILD"/unit/*; do
	name=$(basename "$program")
	[ -x "$program" ] && bats_test_function --description "unit: $name" -- run_unit "$program"
done
run_unit() { "$1"; }
