# Heavy checks, apart from `make check`: parity with the Python reference implementations.

VENV ?= .venv-parity
PARITY_MODEL ?= pipelines/models/tiny
PARITY_CACHE ?= $(VENV)/cache
PARITY_STRINGS ?= 160000

$(VENV)/ready:
	python3 -m venv $(VENV)
	$(VENV)/bin/pip install -q torch==2.13.0 numpy
	$(VENV)/bin/pip install -q transformers==5.24.0 peft==0.21.2 trl==1.16.0 datasets==5.2.0 gguf==0.19.0 sentencepiece==0.2.3 protobuf==7.36.2 tensorboard==2.21.0
	touch $@

$(B)/parity/%: $(B)/obj/tests/parity/%.o $(B)/libspar.a
	@mkdir -p $(@D)
	$(CC) $(CFLAGS) $(LDFLAGS) -o $@ $^ $(LIBS)

$(B)/parity/graph: $(B)/obj/tests/parity/graph.o $(B)/libspartorch.a $(B)/libspar.a
	@mkdir -p $(@D)
	$(CC) $(CFLAGS) $(LDFLAGS) -o $@ $^ $(TORCH_LIBS) $(LIBS)

parity: all $(B)/hub/hub $(B)/parity/logits $(B)/parity/graph $(B)/parity/blocks $(VENV)/ready ## compare with transformers, tokenizers, peft, trl and llama.cpp's files, in a virtual environment it makes
	$(VENV)/bin/python tests/parity/parity.py $(B) $(PARITY_MODEL)
	$(VENV)/bin/python tests/parity/families.py $(B) $(PARITY_CACHE)
	$(VENV)/bin/python tests/parity/blocks.py $(B)
	$(VENV)/bin/python tests/parity/ids.py $(B) $(PARITY_CACHE) $(PARITY_STRINGS)
	$(VENV)/bin/python tests/golden/objectives.py | cmp - tests/golden/objectives.jsonl
	$(VENV)/bin/python tests/parity/steps.py $(B) 1000
	$(VENV)/bin/python tests/parity/templates.py $(B) $(PARITY_CACHE)
	$(VENV)/bin/python tests/parity/curves.py $(B)
	$(VENV)/bin/python tests/parity/tensorboard_read.py $(B)
	rm -rf $(B)/mirror; PATH=$(CURDIR)/$(VENV)/bin:$$PATH tests/hub/mirror.sh $(B) $(B)/mirror
	@echo 'parity: all comparisons hold'

# ---- speed beside others: builds llama.cpp first; then half an hour on two quiet cores ----
COMPARE_MODEL ?=

$(VENV)/bench: $(VENV)/ready
	CMAKE_ARGS=-DGGML_NATIVE=ON $(VENV)/bin/pip install -q --no-binary llama-cpp-python llama-cpp-python==0.3.36
	touch $@

bench-compare: all $(B)/bench/decode $(VENV)/bench ## measure beside llama.cpp, transformers and TRL (COMPARE_MODEL=DIR, say SmolLM2-135M-Instruct)
	@test -n "$(COMPARE_MODEL)" || { echo 'bench-compare: give COMPARE_MODEL, a folder with a Llama-shaped model' >&2; exit 2; }
	@mkdir -p $(dir $(BENCH_RESULTS))
	$(VENV)/bin/python tests/bench/compare.py $(B) $(COMPARE_MODEL) $(BENCH_RESULTS)

.PHONY: parity bench-compare
