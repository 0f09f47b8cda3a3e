# The whole of job A on the embedded model: make quickstart (about a minute on two cores once built).
# out: runs/quickstart/ as pipelines/train.mk says; the table at the end

quickstart: deps ## install, build, and train the embedded model from oracle steps to evaluation
	$(MAKE) all
	$(MAKE) evaluate RUN=runs/quickstart MODEL=$(TINY) LORA= SFT_EPOCHS=3 SFT_LR=1e-3 SFT_BATCH=16 \
		GRPO_STEPS=16 GRPO_GROUPS=8 GRPO_SAMPLES=8 GRPO_LR=3e-4 EVAL_EPISODES=200
.PHONY: quickstart
