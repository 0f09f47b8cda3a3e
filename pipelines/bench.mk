# Speed and memory of this build on this machine, in one run: make bench (some minutes when nothing else runs).
# in:  tests/bench: decode.c, peak.c, run.sh; llama-135m, the shape that is measured, with random weights
# out: a line for each measurement behind those in BENCH_RESULTS, and a table

# ---- knobs ----
BENCH_RESULTS ?= tests/bench/results/$(shell date -u +%F).jsonl

$(B)/bench/%: $(B)/obj/tests/bench/%.o $(B)/libspar.a
	@mkdir -p $(@D)
	$(CC) $(CFLAGS) $(LDFLAGS) -o $@ $^ $(LIBS)

bench: all $(B)/bench/decode $(B)/bench/peak ## measure decoding, a GRPO step and the memory of streams
	@mkdir -p $(dir $(BENCH_RESULTS))
	tests/bench/run.sh $(B) $(BENCH_RESULTS)
.PHONY: bench
