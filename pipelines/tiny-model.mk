# The embedded model's base weights, pretrained from nothing: make tiny-model (about ten minutes on two cores).
# in:  pipelines/models/tiny: config.json, tokenizer files, corpus.awk
# out: model.safetensors and loss.jsonl (the loss curve, every 20 steps) in pipelines/models/tiny
# The text is synthetic (corpus.awk says what is in it); no action of the oracle is in it.

# ---- knobs ----
TINY := pipelines/models/tiny
TINY_RUN ?= runs/tiny-model
TINY_SEED ?= 1
TINY_EXERCISES ?= 110000
TINY_LR ?= 2e-3
TINY_BATCH ?= 64

$(TINY_RUN)/corpus.jsonl.zst: $(TINY)/corpus.awk | all
	mkdir -p $(@D)
	SYSTEM=$$(echo '{"op":"describe"}' | $(SPAR) env-cern | jq -r .system) \
		awk -v seed=$(TINY_SEED) -v n=$(TINY_EXERCISES) -v short_first=0.9 -v short_last=0.1 \
		-f $(TINY)/corpus.awk | zstd -q -f -o $@.tmp
	mv $@.tmp $@

$(TINY_RUN)/metrics.jsonl: $(TINY_RUN)/corpus.jsonl.zst
	$(SPAR) model init --config=$(TINY) --seed=$(TINY_SEED) --out=$(TINY_RUN)/init
	zstdcat $< | $(SPAR) update --model=$(TINY_RUN)/init --loss-type=sft --no-lora --no-shuffle-dataset \
		--learning-rate=$(TINY_LR) --lr-scheduler-type=cosine --warmup-steps=100 --weight-decay=0.01 \
		--per-device-train-batch-size=$(TINY_BATCH) --seed=$(TINY_SEED) --out=$(TINY_RUN)/model >$@.tmp
	mv $@.tmp $@

tiny-model: $(TINY_RUN)/metrics.jsonl ## pretrain the embedded model's base weights anew (about ten minutes)
	cp $(TINY_RUN)/model/model.safetensors $(TINY)/model.safetensors
	jq -c 'select(.step % 20 == 0) | {step, loss, learning_rate, num_tokens}' $< >$(TINY)/loss.jsonl
.PHONY: tiny-model
