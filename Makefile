# spar: build, check, install. `make help` lists the targets; pipelines/*.mk hold the training jobs.

# ---- knobs ----
PREFIX ?= /usr/local
CC ?= cc
CXX ?= c++
CFLAGS ?= -O2 -g
CXXFLAGS ?= -O1
LIBTORCH ?=
SAN ?=
CHECK ?= tests

SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DELETE_ON_ERROR:
.SECONDARY:
.DEFAULT_GOAL := all

# ---- where things are built: the tree below $(B) has the shape of the installed one ----
B := build$(if $(SAN),-san)
SPAR := $(CURDIR)/$(B)/bin/spar

comma := ,

# ---- libtorch: LIBTORCH=, else the torch package of the active python3, else the system's ----
TORCH_PY := $(if $(LIBTORCH),,$(shell python3 -c 'import importlib.util as u; s = u.find_spec("torch"); print(s.submodule_search_locations[0] if s else "")' 2>/dev/null))
TORCH_DIR := $(or $(LIBTORCH),$(TORCH_PY))
ifneq ($(TORCH_DIR),)
TORCH_CPPFLAGS := -isystem $(TORCH_DIR)/include -isystem $(TORCH_DIR)/include/torch/csrc/api/include
TORCH_LIBS = -L$(TORCH_DIR)/lib -Wl,-rpath,$(TORCH_DIR)/lib -Wl,--no-as-needed -ltorch_cpu \
	$(if $(wildcard $(TORCH_DIR)/lib/libtorch_cuda.so),-ltorch_cuda -lc10_cuda) -lc10 -Wl,--as-needed -lstdc++
else
TORCH_CPPFLAGS := -isystem /usr/include/torch/csrc/api/include
# Debian's libtorch finds its BLAS by name: the OpenMP build must be the one found (the pthread build fights libgomp).
OPENBLAS_OPENMP = $(firstword $(wildcard /usr/lib/*/openblas-openmp))
TORCH_LIBS = $(if $(OPENBLAS_OPENMP),-Wl$(comma)--disable-new-dtags$(comma)-rpath$(comma)$(OPENBLAS_OPENMP)) -ltorch_cpu -lc10 -lstdc++
endif

# ---- flags ----
SAN_FLAGS := $(if $(SAN),-fsanitize=address$(comma)undefined -fno-sanitize-recover=undefined -fno-omit-frame-pointer)
WARN := -Wall -Wextra -Wpedantic -Werror
OUR_CPPFLAGS := -D_POSIX_C_SOURCE=200809L -Ilib -MMD -MP
OUR_CFLAGS := -std=c11 $(WARN) -Wstrict-prototypes -Wmissing-prototypes -fopenmp $(SAN_FLAGS)
OUR_CXXFLAGS := -std=c++17 $(WARN) -fvisibility=hidden -fopenmp $(SAN_FLAGS)
LIBS := -ljq -lzstd -lpcre2-8 -lutf8proc -lm -fopenmp $(SAN_FLAGS)

# ---- what there is ----
TORCH_SRC := lib/tensor/tensor.cpp lib/model/graph.c $(wildcard lib/model/graph/*.c lib/rl/trainer*.c) lib/rl/step.c lib/rl/train_state.c
LIB_SRC := $(filter-out $(TORCH_SRC),$(wildcard lib/*/*.c lib/*/*/*.c))
TOOLS := $(filter-out spar,$(basename $(notdir $(wildcard tools/*.c))))
TORCH_TOOLS := update
DEVICE_TOOLS := rollout eval # each has a twin in libexec/spar-torch that samples with libtorch (lib/rl/sampler.h)
UNITS := $(basename $(notdir $(wildcard tests/unit/*.c)))
FUZZERS := $(basename $(notdir $(wildcard tests/fuzz/*.c)))
TORCH_UNITS := $(filter tensor% graph% trainer%,$(UNITS))
PAGES := $(wildcard man/*.[1-9])

obj = $(patsubst %,$(B)/obj/%.o,$(basename $(1)))

all: $(B)/bin/spar $(TOOLS:%=$(B)/libexec/spar/%) $(DEVICE_TOOLS:%=$(B)/libexec/spar-torch/%) ## build everything into build/

$(B)/libspar.a: $(call obj,$(LIB_SRC))
	@rm -f $@
	$(AR) rcs $@ $^

$(B)/libspartorch.a: $(call obj,$(TORCH_SRC))
	@rm -f $@
	$(AR) rcs $@ $^

$(B)/obj/%.o: %.c Makefile
	@mkdir -p $(@D)
	$(CC) $(OUR_CPPFLAGS) $(CPPFLAGS) $(OUR_CFLAGS) $(CFLAGS) -c -o $@ $<

$(B)/obj/torch/%.o: %.c Makefile
	@mkdir -p $(@D)
	$(CC) $(OUR_CPPFLAGS) -DSPAR_TORCH $(CPPFLAGS) $(OUR_CFLAGS) $(CFLAGS) -c -o $@ $<

# The object remembers which libtorch it was made for.
$(B)/torch.stamp: FORCE
	@mkdir -p $(@D); echo '$(TORCH_CPPFLAGS)' | cmp -s - $@ || echo '$(TORCH_CPPFLAGS)' >$@

$(B)/obj/lib/tensor/tensor.o: lib/tensor/tensor.cpp $(B)/torch.stamp Makefile
	@mkdir -p $(@D)
	$(CXX) $(OUR_CPPFLAGS) $(TORCH_CPPFLAGS) $(CPPFLAGS) $(OUR_CXXFLAGS) $(CXXFLAGS) -c -o $@ $<

$(B)/bin/spar: $(B)/obj/tools/spar.o
	@mkdir -p $(@D)
	$(CC) $(CFLAGS) $(SAN_FLAGS) $(LDFLAGS) -o $@ $<

$(TORCH_TOOLS:%=$(B)/libexec/spar/%): $(B)/libexec/spar/%: $(B)/obj/tools/%.o $(B)/libspartorch.a $(B)/libspar.a
	@mkdir -p $(@D)
	$(CC) $(CFLAGS) $(LDFLAGS) -o $@ $^ $(TORCH_LIBS) $(LIBS)

$(B)/libexec/spar-torch/%: $(B)/obj/torch/tools/%.o $(B)/libspartorch.a $(B)/libspar.a
	@mkdir -p $(@D)
	$(CC) $(CFLAGS) $(LDFLAGS) -o $@ $^ $(TORCH_LIBS) $(LIBS)

$(B)/libexec/spar/%: $(B)/obj/tools/%.o $(B)/libspar.a
	@mkdir -p $(@D)
	$(CC) $(CFLAGS) $(LDFLAGS) -o $@ $^ $(LIBS)

$(TORCH_UNITS:%=$(B)/unit/%): $(B)/unit/%: $(B)/obj/tests/unit/%.o $(B)/libspartorch.a $(B)/libspar.a
	@mkdir -p $(@D)
	$(CC) $(CFLAGS) $(LDFLAGS) -o $@ $^ $(TORCH_LIBS) $(LIBS)

$(B)/unit/%: $(B)/obj/tests/unit/%.o $(B)/libspar.a
	@mkdir -p $(@D)
	$(CC) $(CFLAGS) $(LDFLAGS) -o $@ $^ $(LIBS)

$(B)/fuzz/%: $(B)/obj/tests/fuzz/%.o $(B)/libspar.a
	@mkdir -p $(@D)
	$(CC) $(CFLAGS) $(LDFLAGS) -o $@ $^ $(LIBS)

$(B)/hub/hub: $(B)/obj/tests/hub/hub.o $(B)/libspar.a
	@mkdir -p $(@D)
	$(CC) $(CFLAGS) $(LDFLAGS) -o $@ $^ $(LIBS)

units: $(UNITS:%=$(B)/unit/%) $(FUZZERS:%=$(B)/fuzz/%) $(B)/hub/hub

# ---- check ----
check: deps ## install what is missing, build, run the tests (SAN=1: under ASan and UBSan; CHECK=tests/x.bats: one file)
	$(MAKE) all units
	tests/run $(B) $(CHECK)

include $(wildcard pipelines/*.mk)

clean: ## remove what was built
	rm -rf build build-san build-fuzz build-torch2

help: ## this list
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 18

FORCE:
.PHONY: all units check clean help FORCE
-include $(shell find $(B)/obj -name '*.d' 2>/dev/null)
