# Setting up: what is needed, lint, install.

TORCH_GIVEN := $(if $(TORCH_DIR),yes)
LINT_C := $(wildcard lib/*/*.[ch] lib/*/*/*.[ch] lib/*/*.cpp tools/*.c tests/*/*.[ch])
LINT_SH := $(wildcard pipelines/*.sh pipelines/self-play/*.sh pipelines/models/*/*.sh tests/run .ci/run tests/*.sh tests/*/*.sh) tests/hub/hf

deps: ## install what is missing (apt; sudo when not root)
	@pipelines/deps.sh $(TORCH_GIVEN)

lint: ## clang-format, cppcheck, mandoc -T lint, shellcheck, bare tool names
	clang-format --dry-run -Werror $(LINT_C)
	cppcheck --quiet --std=c11 --language=c --inline-suppr --error-exitcode=1 --enable=warning,portability \
		--suppress=missingIncludeSystem -Ilib $(filter %.c,$(LINT_C))
	$(if $(PAGES),mandoc -T lint -W warning $(PAGES))
	shellcheck -x $(LINT_SH)
	tests/bare-names.sh

install: all ## install below PREFIX (/usr/local)
	install -d $(DESTDIR)$(PREFIX)/bin $(DESTDIR)$(PREFIX)/libexec/spar $(DESTDIR)$(PREFIX)/libexec/spar-torch \
		$(DESTDIR)$(PREFIX)/share/spar/schemas
	install $(B)/bin/spar $(DESTDIR)$(PREFIX)/bin/spar
	install $(TOOLS:%=$(B)/libexec/spar/%) $(DESTDIR)$(PREFIX)/libexec/spar/
	install $(DEVICE_TOOLS:%=$(B)/libexec/spar-torch/%) $(DESTDIR)$(PREFIX)/libexec/spar-torch/
	install -m 644 schemas/*.json $(DESTDIR)$(PREFIX)/share/spar/schemas/
	cp -R pipelines $(DESTDIR)$(PREFIX)/share/spar/
	for page in $(PAGES); do \
		install -D -m 644 $$page $(DESTDIR)$(PREFIX)/share/man/man$${page##*.}/$${page##*/}; done

.PHONY: deps lint install
