# Loaded by every bats file: `load common`.
bats_require_minimum_version 1.5.0
DATA=$BATS_TEST_DIRNAME/data
TINY=$BATS_TEST_DIRNAME/../pipelines/models/tiny
SCRATCH=$BATS_TEST_TMPDIR
