# Heavy checks, apart from `make check`: parity with the Python reference implementations.

VENV ?= .venv-parity
PARITY_MODEL ?= pipelines/models/tiny
PARITY_CACHE ?= $(VENV)/cache
PARITY_STRINGS ?= 160000

$(VENV)/ready:
	python3 -m venv $(VENV)
	$(VENV)/bin/pip install -q torch==2.13.0 numpy
	$(VENV)/bin/pip install -q transformers==5.24.0 peft==0.21.2
	touch $@

$(B)/parity/%: $(B)/obj/tests/parity/%.o $(B)/libspar.a
	@mkdir -p $(@D)
	$(CC) $(CFLAGS) $(LDFLAGS) -o $@ $^ $(LIBS)

$(B)/parity/graph: $(B)/obj/tests/parity/graph.o $(B)/libspartorch.a $(B)/libspar.a
	@mkdir -p $(@D)
	$(CC) $(CFLAGS) $(LDFLAGS) -o $@ $^ $(TORCH_LIBS) $(LIBS)

parity: all $(B)/parity/logits $(B)/parity/graph $(VENV)/ready ## compare with transformers (PARITY_MODEL=DIR), in a virtual environment
	$(VENV)/bin/python tests/parity/parity.py $(B) $(PARITY_MODEL)
	$(VENV)/bin/python tests/parity/families.py $(B)
	$(VENV)/bin/python tests/parity/ids.py $(B) $(PARITY_CACHE) $(PARITY_STRINGS)
	$(VENV)/bin/python tests/golden/objectives.py | cmp - tests/golden/objectives.jsonl
	$(VENV)/bin/python tests/parity/steps.py $(B) 1000
	$(VENV)/bin/python tests/parity/templates.py $(B) $(PARITY_CACHE)

.PHONY: parity
