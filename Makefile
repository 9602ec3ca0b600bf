# Everything runs from .venv, made here by the first target that needs it.
PYTHON ?= $(shell command -v python3.11 || command -v python3)
RUN := .venv/bin/python
OUT ?= out
# More words for the command behind the target, e.g. ARGS="--data reviews.parquet"
ARGS ?=

.PHONY: help install reproduce test check bench clean

help:
	@echo "make reproduce  redo both papers' figures and verdicts into $(OUT)/report.html"
	@echo "make test       run all tests"
	@echo "make check      lint and type-check"
	@echo "make bench      measure against the peers (installs them)"
	@echo "make install    only create .venv and install"

install: .venv/installed

# Built beside and stamped last: an interrupted install is simply begun again.
.venv/installed: pyproject.toml
	"$(PYTHON)" -c 'import sys; sys.exit(sys.version_info < (3, 11) and "keytokens needs Python 3.11 or newer; set PYTHON=")'
	"$(PYTHON)" -m venv .venv
	$(RUN) -m pip install --quiet --disable-pip-version-check -e '.[lab,distributed,dev]'
	@touch $@

reproduce: install
	$(RUN) -m keytokens reproduce --quick --out "$(OUT)" $(ARGS)
	@echo "The page: $(OUT)/report.html"

test: install
	$(RUN) -m pytest $(ARGS)

check: install
	$(RUN) -m ruff check .
	$(RUN) -m ruff format --check .
	$(RUN) -m mypy src

# torch is named first and pinned, so that no other package pulls in a build with CUDA
.venv/benched: .venv/installed
	$(RUN) -m pip install --quiet --disable-pip-version-check -e '.[bench]'
	@touch $@

bench: .venv/benched
	$(RUN) benchmarks/run.py

clean:
	rm -rf .venv "$(OUT)"
