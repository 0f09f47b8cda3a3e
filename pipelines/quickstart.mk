# The whole of job A on the embedded model: make quickstart (about ten minutes on two cores after installation).
# out: runs/quickstart/ as pipelines/train.mk says; the table at the end

quickstart: deps ## install, build, and train the embedded model from oracle steps to evaluation
	$(MAKE) all
	$(MAKE) evaluate RUN=runs/quickstart MODEL=$(TINY) LORA= SFT_EPOCHS=4 SFT_LR=1e-3 SFT_BATCH=16 \
		GRPO_STEPS=30 GRPO_GROUPS=8 GRPO_SAMPLES=8 GRPO_LR=2e-4 EVAL_EPISODES=300
.PHONY: quickstart
