# make reproduce   reproduce the paper: figures and verdicts below results/
# make test        everything that must hold: lint, format, types, layers, tests, docs
# make quick       the part of it to run all day (under a minute)
# make bench       speed, and other libraries on the same problems: numbers and a figure below results/bench

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
export PYRIGHT_PYTHON_CACHE_DIR := $(CURDIR)/$(VENV)/pyright
export PYRIGHT_PYTHON_IGNORE_WARNINGS := 1
export NO_MKDOCS_2_WARNING := 1
PYTEST := $(BIN)/python -m pytest -q -n 2 --dist worksteal

.PHONY: reproduce test quick peers bench docs clean
.SILENT:

reproduce: $(VENV)/.ready-run
	echo "reproducing the paper; figures and verdicts go below results/"
	$(BIN)/downside reproduce all --out results --resume

test: $(VENV)/.ready-dev
	echo "lint:    ruff check" && $(BIN)/ruff check -q .
	echo "format:  ruff format" && $(BIN)/ruff format -q --check .
	echo "layers:  import-linter" && $(BIN)/lint-imports --config pyproject.toml > $(VENV)/layers.log 2>&1 || { cat $(VENV)/layers.log; exit 1; }
	echo "types:   pyright, strict" && $(BIN)/pyright
	echo "docs:    mkdocs build --strict" && $(BIN)/mkdocs build -q --strict --site-dir $(VENV)/site
	echo "tests:   pytest, with doctests" && $(PYTEST) -m "not peers"

quick: $(VENV)/.ready-dev
	echo "lint and format: ruff" && $(BIN)/ruff check -q . && $(BIN)/ruff format -q --check .
	echo "tests:           pytest, without the slow ones" && $(PYTEST) -m "not peers and not slow"

peers: $(VENV)/.ready-dev
	echo "installing the libraries to compare with" && $(BIN)/pip install -q -e '.[peers]'
	$(BIN)/python -m pytest -q -m peers tests/peers tests/benchmarks

# BENCH="throughput scaling" for some parts, BENCH=--quick for toy sizes
bench: $(VENV)/.ready-run
	$(BIN)/python -m benchmarks $(BENCH)

docs: $(VENV)/.ready-dev
	$(BIN)/mkdocs serve

clean:
	rm -rf $(VENV) site .pytest_cache .ruff_cache .hypothesis .import_linter_cache

# The set-up, done once and again when pyproject.toml changes.
$(VENV)/.ready-run: pyproject.toml
	$(call install,report)

$(VENV)/.ready-dev: pyproject.toml
	$(call install,report$(comma)docs$(comma)dev)
	command -v strace > /dev/null || { echo "set-up:  installing strace for the crash tests, where that is allowed"; \
	  apt-get install -y strace > $(VENV)/strace.log 2>&1 || echo "set-up:  strace could not be installed; the crash tests that need it are skipped"; }
	command -v chromium > /dev/null || { echo "set-up:  installing chromium for the test of the report, where that is allowed"; \
	  apt-get install -y chromium > $(VENV)/chromium.log 2>&1 || echo "set-up:  chromium could not be installed; the test of the report in a browser is skipped"; }
	touch $(VENV)/.ready-run

comma := ,
define install
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || { \
	  echo "downside needs Python 3.11 or later; '$(PYTHON)' is $$($(PYTHON) --version 2>&1). Try: make PYTHON=python3.12 $(MAKECMDGOALS)"; exit 1; }
	$(BIN)/python -c 'import sys, pip; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || { \
	  echo "set-up:  creating $(VENV)"; rm -rf $(VENV); $(PYTHON) -m venv $(VENV) || { rm -rf $(VENV); \
	  echo "Python could not create a virtual environment; on Debian and Ubuntu install python3-venv."; exit 1; }; }
	echo "set-up:  installing downside[$(1)] (a few minutes the first time)"
	$(BIN)/python -m pip install -q --disable-pip-version-check -e '.[$(1)]' > $(VENV)/pip.log 2>&1 || { \
	  tail -n 5 $(VENV)/pip.log; \
	  echo "The packages could not be installed (see $(VENV)/pip.log). Is there a network connection to a package index?"; exit 1; }
	touch $@
endef
