# Every fuzz target runs its seeds and some changes of them; make fuzz goes on from there.
load common

@test "fuzz: each target has seeds and takes a few hundred changes of them" {
	cd "$BATS_TEST_DIRNAME/.."
	tests/fuzz/seeds.sh "$SPAR_BUILD" "$SCRATCH/seeds"
	for target in tests/fuzz/*.c; do
		name=$(basename "$target" .c)
		echo "$name"
		"$SPAR_BUILD/fuzz/$name" -n 100 "$SCRATCH/seeds/$name"/*
	done
}

@test "fuzz: what fails is kept" {
	cd "$SCRATCH"
	cat >breaks.c <<'END'
#include "fuzz.h"
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
	if (n > 3 && data[0] == 'a' && data[3] != 'd')
		abort();
	return 0;
}
END
	root=$BATS_TEST_DIRNAME/..
	${CC:-cc} -std=c11 -D_POSIX_C_SOURCE=200809L -fopenmp -I"$root/lib" -I"$root/tests/fuzz" -o breaks breaks.c $([[ $SPAR_BUILD == *-san ]] && echo -fsanitize=address,undefined) "$SPAR_BUILD/libspar.a" -ljq -lzstd -lpcre2-8 -lutf8proc -lm
	printf abcd >seed
	run -134 ./breaks -t 5 seed
	[[ $output == *"breaks: failed on the input in fuzz-breaks.failed"* ]]
	[ "$(head -c 1 fuzz-breaks.failed)" = a ]
	run -134 ./breaks fuzz-breaks.failed
}
