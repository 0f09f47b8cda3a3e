# Job A: oracle trajectories -> SFT warm start -> GRPO in the environment -> evaluation.
#	make oracle sft grpo evaluate RUN=runs/x MODEL=DIR [KNOB=...]
# in:  MODEL, a model folder; ENV, an environment program; TASKS, what writes its tasks, with the options of spar env-cern
# out: RUN/oracle.jsonl.zst    oracle steps (sft records)         RUN/evidence/oracle.json    how the oracle did
#      RUN/sft/                warm-started model                 RUN/sft.metrics.jsonl       its training
#      RUN/grpo/policy/        every version, with trainer state  RUN/grpo/rollouts-*.jsonl.zst  every episode, with rewards
#      RUN/grpo/model/         trained model                      RUN/grpo.metrics.jsonl      its training
#      RUN/evaluation.json     base, sft and grpo side by side    RUN/evidence/sft_summary.json
# Each target is whole or not there; a killed run goes on with the same command.

# ---- knobs ----
RUN ?= runs/cern
MODEL ?= pipelines/models/tiny
ENV ?= spar env-cern
TASKS ?= $(patsubst spar,$(SPAR),$(ENV))
DIFFICULTY ?= mixed
ENV_STEPS ?= 8
SEED ?= 42
DTYPE ?= float32
DEVICE ?= cpu
LORA ?= r=16,alpha=32,dropout=0.05,targets=q_proj+k_proj+v_proj+o_proj

ORACLE_EPISODES ?= 200
ORACLE_SEED ?= 4242

SFT_EPOCHS ?= 1
SFT_LR ?= 1e-5
SFT_BATCH ?= 4
SFT_FLAGS ?=

GRPO_STEPS ?= 20
GRPO_GROUPS ?= 8
GRPO_SAMPLES ?= 8
GRPO_LR ?= 1e-5
GRPO_SEED ?= 100000
GRPO_LOSS ?= dapo
GRPO_FLAGS ?=
MAX_COMPLETION ?= 96
LAG ?= 0

# Held out: no other stage draws seeds from here.
EVAL_EPISODES ?= 200
EVAL_SEED ?= 1000000

LORA_FLAGS := $(if $(LORA),--lora=$(LORA) --merge,--no-lora)
SAMPLE_FLAGS = --env='$(ENV)' --max-completion-length=$(MAX_COMPLETION) --seed=$(SEED) --dtype=$(DTYPE) --device=$(DEVICE)
TASK_FLAGS = --difficulty=$(DIFFICULTY) --max-steps=$(ENV_STEPS)

oracle: $(RUN)/oracle.jsonl.zst ## collect oracle trajectories into RUN
$(RUN)/oracle.jsonl.zst: | all
	mkdir -p $(RUN)/evidence
	$(SPAR) sft-collect --env='$(ENV) --oracle' --episodes=$(ORACLE_EPISODES) $(TASK_FLAGS) \
		--seed=$(ORACLE_SEED) --model=$(MODEL) --summary=$(RUN)/evidence/oracle.json \
		--save=$@ >/dev/null

sft: $(RUN)/sft.metrics.jsonl ## warm-start MODEL on the oracle trajectories
$(RUN)/sft.metrics.jsonl: $(RUN)/oracle.jsonl.zst
	zstdcat $< | $(SPAR) update --model=$(MODEL) --loss-type=sft --num-train-epochs=$(SFT_EPOCHS) \
		--learning-rate=$(SFT_LR) --per-device-train-batch-size=$(SFT_BATCH) --seed=$(SEED) --dtype=$(DTYPE) --device=$(DEVICE) \
		$(LORA_FLAGS) $(SFT_FLAGS) --out=$(RUN)/sft >$@.tmp
	jq -s --slurpfile oracle $(RUN)/evidence/oracle.json '$$oracle[0] + {final_loss: .[-1].loss, epochs: $(SFT_EPOCHS), learning_rate: $(SFT_LR), base_model: "$(MODEL)", out_dir: "$(RUN)/sft", lora: $(if $(LORA),true,false), steps: length}' \
		$@.tmp >$(RUN)/evidence/sft_summary.json
	mv $@.tmp $@

grpo: $(RUN)/grpo.metrics.jsonl ## GRPO in the environment, from the warm start (START=DIR: from another model)
START ?= $(RUN)/sft
$(RUN)/grpo.metrics.jsonl: $(if $(filter $(RUN)/sft,$(START)),$(RUN)/sft.metrics.jsonl)
	mkdir -p $(RUN)
	. pipelines/live.sh; SPAR=$(SPAR); \
	$(TASKS) $(TASK_FLAGS) --tasks=$$(($(GRPO_STEPS) * $(GRPO_GROUPS))) --seed=$(GRPO_SEED) | \
	live $(RUN)/grpo --lag=$(LAG) --batch=$(GRPO_GROUPS) --num-generations=$(GRPO_SAMPLES) $(SAMPLE_FLAGS) -- \
		$(SPAR) score --reward=env --quiet -- -- \
		--model=$(START) --loss-type=$(GRPO_LOSS) --learning-rate=$(GRPO_LR) --max-steps=$(GRPO_STEPS) --seed=$(SEED) \
		--dtype=$(DTYPE) --device=$(DEVICE) $(LORA_FLAGS) $(GRPO_FLAGS) --out=$(RUN)/grpo/model >$@.tmp
	mv $@.tmp $@

# Every model on the same held-out tasks, greedy; grpo is compared with sft task by task.
$(RUN)/eval-tasks.jsonl: | all
	mkdir -p $(RUN)
	$(TASKS) $(TASK_FLAGS) --tasks=$(EVAL_EPISODES) --seed=$(EVAL_SEED) >$@.tmp
	mv $@.tmp $@

$(RUN)/eval-base.json: $(RUN)/eval-tasks.jsonl
	$(SPAR) eval --model=$(MODEL) $(SAMPLE_FLAGS) --summary=$@ --save=$(RUN)/eval-base.jsonl.zst <$< >/dev/null

$(RUN)/eval-grpo.json: $(RUN)/eval-tasks.jsonl $(RUN)/grpo.metrics.jsonl
	$(SPAR) eval --model=$(RUN)/grpo/model --original=$(START) $(SAMPLE_FLAGS) --summary=$@ \
		--save=$(RUN)/eval-grpo.jsonl.zst <$< >/dev/null

evaluate: $(RUN)/evaluation.json ## evaluate base, warm-started and trained model on held-out episodes
	@cat $(RUN)/evaluation.txt
$(RUN)/evaluation.json: $(RUN)/eval-base.json $(RUN)/eval-grpo.json
	jq -s '{base: .[0].models.finetuned, sft: .[1].models.original, grpo: .[1].models.finetuned, delta_vs_sft: .[1].delta_vs_original}' $^ >$@.tmp
	jq -r -f pipelines/evaluation.jq $@.tmp >$(RUN)/evaluation.txt
	mv $@.tmp $@

.PHONY: oracle sft grpo evaluate
