# The embedded model's base weights, pretrained from nothing: make tiny-model (about ten minutes on two cores).
# in:  pipelines/models/tiny: config.json, tokenizer files, corpus.awk
# out: model.safetensors and loss.jsonl (the loss curve of both passes, every 20 steps) in pipelines/models/tiny
# The text is synthetic (corpus.awk says what is in it); no action of an oracle is in it.

# ---- knobs ----
TINY := pipelines/models/tiny
TINY_RUN ?= runs/tiny-model
TINY_INIT_SEED ?= 1
# Of each pass: the seed of its exercises, their number.
TINY_PASS_1 ?= 1 220000
TINY_PASS_2 ?= 9 64000
TINY_LR ?= 2e-3
TINY_BATCH ?= 64

$(TINY_RUN)/corpus-%.jsonl.zst: $(TINY)/corpus.awk | all
	mkdir -p $(@D)
	SYSTEM=$$(echo '{"op":"describe"}' | $(SPAR) env-cern | jq -r .system) \
	EDGE_SYSTEM=$$($(SPAR) env-osint --tasks=1 --messages | jq -r '.messages[0].content') \
		awk -v pass=$* -v seed=$(word 1,$(TINY_PASS_$*)) -v n=$(word 2,$(TINY_PASS_$*)) -f $(TINY)/corpus.awk | \
		zstd -q -f -o $@.tmp
	mv $@.tmp $@

$(TINY_RUN)/init: $(TINY)/config.json $(TINY)/tokenizer.json | all
	$(SPAR) model init --config=$(TINY) --seed=$(TINY_INIT_SEED) --out=$@

# Each pass goes on from the model before it.
$(TINY_RUN)/1.jsonl: $(TINY_RUN)/init
$(TINY_RUN)/2.jsonl: $(TINY_RUN)/1.jsonl
$(TINY_RUN)/%.jsonl: $(TINY_RUN)/corpus-%.jsonl.zst
	zstdcat $< | $(SPAR) update --model=$(TINY_RUN)/$(if $(filter 1,$*),init,1) --loss-type=sft --no-lora --num-train-epochs=1 \
		--no-shuffle-dataset --learning-rate=$(TINY_LR) --lr-scheduler-type=cosine --warmup-steps=100 --weight-decay=0.01 \
		--per-device-train-batch-size=$(TINY_BATCH) --seed=1 --out=$(TINY_RUN)/$* >$@.tmp
	mv $@.tmp $@

tiny-model: $(TINY_RUN)/2.jsonl ## pretrain the embedded model's base weights anew (about ten minutes)
	cp $(TINY_RUN)/2/model.safetensors $(TINY)/model.safetensors
	jq -c '{pass: input_filename[-7:-6] | tonumber, step, loss, learning_rate, num_tokens} | select(.step % 20 == 0)' \
		$(TINY_RUN)/1.jsonl $(TINY_RUN)/2.jsonl >$(TINY)/loss.jsonl
.PHONY: tiny-model
