# Fuzzing the parsers of outside bytes, under ASan and UBSan: make fuzz, or make fuzz FUZZ=tokenizer T=600.
# in:  tests/fuzz/*.c, a target each; tests/fuzz/seeds.sh, what to begin with
# out: fuzz-TARGET.failed, the input that failed; run build-fuzz/fuzz/TARGET on it to see it again

# ---- knobs ----
FUZZ ?= $(FUZZERS)
T ?= 60

# Inputs are led by the code they reach: tests/fuzz/driver.h keeps those that reach more.
fuzz: ## fuzz the parsers for T seconds each (FUZZ=NAME: one of them)
	$(MAKE) build/bin/spar $(addprefix build/libexec/spar/,env-cern model rollout score sft-collect) build/unit/gguf
	$(MAKE) SAN=1 B=build-fuzz CFLAGS='-O1 -g -fsanitize-coverage=trace-pc' $(FUZZ:%=build-fuzz/fuzz/%)
	tests/fuzz/seeds.sh build build-fuzz/seeds
	export UBSAN_OPTIONS=print_stacktrace=1 ASAN_OPTIONS=allocator_may_return_null=1:max_allocation_size_mb=4096 \
		LSAN_OPTIONS=suppressions=tests/lsan.supp:print_suppressions=0; \
	for name in $(FUZZ); do build-fuzz/fuzz/$$name -t $(T) build-fuzz/seeds/$$name/*; done
.PHONY: fuzz
