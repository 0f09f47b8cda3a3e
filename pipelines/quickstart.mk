# The whole of job A on the embedded model: make quickstart (a few minutes on two cores once built).
# The warm start is stopped early, at a quarter of a pass over the oracle's steps: with more of it the model reaches what
# imitation of the oracle can give, and GRPO would have nothing to show. Settings were chosen on tasks from seed 2000000, never evaluated here.
# out: runs/quickstart/ as pipelines/train.mk says; the table at the end

quickstart: deps ## install, build, and train the embedded model from oracle steps to evaluation
	$(MAKE) all
	$(MAKE) evaluate RUN=runs/quickstart MODEL=$(TINY) LORA= SFT_EPOCHS=0.25 SFT_LR=6e-4 SFT_BATCH=16 \
		GRPO_STEPS=80 GRPO_GROUPS=8 GRPO_SAMPLES=16 GRPO_LR=3e-4 EVAL_EPISODES=200
.PHONY: quickstart
