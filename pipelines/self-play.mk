# Job B: adversarial self-play over knowledge graphs: a generator poses tasks, an answerer solves them, in turns.
#	make self-play CONFIG=pipelines/configs/tiny.json [RUN=DIR] [SELF_PLAY_FLAGS='--no-dry-run --set rounds=1']
# in:  CONFIG, see spar-self-play(1); what SELF_PLAY_FLAGS say stands over it
# out: RUN (output_dir of the configuration): what pipelines/self-play/run.sh says at its top
# A killed run goes on with the same command; every file is whole or not there.

SELF_PLAY_FLAGS ?=

self-play: all ## adversarial self-play: warm start, rounds, evaluation (CONFIG=FILE)
	@test -n "$(CONFIG)" || { echo 'self-play: give CONFIG, say pipelines/configs/tiny.json' >&2; exit 2; }
	SPAR=$(SPAR) pipelines/self-play/run.sh $(CONFIG) $(if $(filter command line environment,$(origin RUN)),--run=$(RUN)) $(SELF_PLAY_FLAGS)
.PHONY: self-play
