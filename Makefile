# Two commands on a machine with Python 3.11+ and make: `make reproduce` (figures and tables) and `make test`.
# Both build the environment first and skip what is already done.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# Figures: what is archived and computed live (`make reproduce FROM=scratch` computes everything; PRESET=quick, full).
PRESET ?= best
FROM ?= archive
JOBS ?= 2
CHECK_SECONDS ?= 120
INSTALLED := $(VENV)/.installed
EXTRAS := networks,dev,bench,cluster,evidence,parquet,archive,lm,docs,browser
# pip compiles modules one after another, which is half of an installation: it is done afterwards, on all cores.
PIP_INSTALL := $(BIN)/python -m pip install -qq --disable-pip-version-check --no-compile --constraint constraints.txt

# Many small arrays: one thread per process is fastest, and test workers must not fight for cores.
ONE_THREAD := OMP_NUM_THREADS=1 MKL_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1

.PHONY: help install test suite quick lint reproduce explorer site gpu-check bench pins clean
.DELETE_ON_ERROR:

help:
	@echo "make install    set up .venv with the pinned packages"
	@echo "make test       set up, check style and types, run the test suite (the nightly job runs more)"
	@echo "make quick      set up, run most of the physics: about a minute"
	@echo "make reproduce  set up, write every figure and table into build/ from theory and archived networks, check a sample"
	@echo "                (FROM=scratch computes everything, PRESET=full the long runs, FIGURES='a b' draws only these)"
	@echo "make explorer   build the page that \`phasekit explore\` opens, from formulas, views and archived networks"
	@echo "make site       build the documentation into build/site, with the reference and the notebooks, offline"
	@echo "make gpu-check  compare every device path with its CPU reference (needs a GPU)"
	@echo "make bench      print the measured ratios of benchmarks/"
	@echo "make pins       write constraints.txt and the environment files from what .venv holds"
	@echo "make clean      remove build/ and the caches (not .venv)"

install: $(INSTALLED)

$(INSTALLED): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	    || { echo "error: $(PYTHON) is older than 3.11; name another: make PYTHON=python3.12"; exit 2; }
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@echo "Installing the pinned packages into $(VENV) (minutes, once) ..."
	@$(PIP_INSTALL) setuptools
	@$(PIP_INSTALL) --no-build-isolation --editable '.[$(EXTRAS)]'
	@$(BIN)/python -m compileall -q -j 0 $(VENV)/lib > /dev/null 2>&1 || true  # some packages hold templates that are no Python
	@touch $@

# A file's tests stay on one worker, so that what they share is made once.
PYTEST := $(ONE_THREAD) $(BIN)/python -m pytest --numprocesses auto --dist loadfile

# mypy has one core to itself for a minute, if it isn't given other work beside it.
test: $(INSTALLED)
	@$(MAKE) --no-print-directory --jobs 2 lint suite

suite: $(INSTALLED)
	@$(PYTEST) -m "not nightly" --durations 20 $(PYTEST_ARGS)

# Most of the physics; no pictures, nothing that is killed, nothing that takes long.
quick: $(INSTALLED)
	@$(PYTEST) -m "not slow and not nightly" --ignore tests/figures --ignore tests/runs/test_kills.py --ignore tests/runs/test_dask.py \
	    $(PYTEST_ARGS)

lint: $(INSTALLED)
	@$(BIN)/ruff check --quiet .
	@$(BIN)/ruff format --quiet --check . || { $(BIN)/ruff format --check .; exit 1; }
	@$(BIN)/mypy --no-error-summary

# Networks and samples come from sims/archive, and a random sample of them is computed again; theory is computed live.
# From scratch every sweep uses all cores, so figures are drawn one after another.
reproduce: $(INSTALLED)
	@$(ONE_THREAD) $(BIN)/phasekit figures --changed --out build/figures --preset $(PRESET) --from $(FROM) \
	    --jobs $(if $(filter scratch,$(FROM)),1,$(JOBS)) $(FIGURES)
	@echo "Figures and tables are in build/figures."
	@test $(FROM) = scratch || $(ONE_THREAD) $(BIN)/phasekit archive verify --seconds $(CHECK_SECONDS) --jobs $(JOBS)

explorer: $(INSTALLED)
	@$(BIN)/python -m derivations.emit > /dev/null
	@$(BIN)/python -m phasekit.explorer.build

site: $(INSTALLED)
	@PATH="$(CURDIR)/$(BIN):$$PATH" $(ONE_THREAD) $(BIN)/python -m sphinx -b html -W --keep-going -q docs build/site
	@echo "The site is in build/site: open build/site/index.html"

gpu-check: $(INSTALLED)
	@$(BIN)/phasekit check-device

bench: $(INSTALLED)
	@$(BIN)/python -m benchmarks

pins: $(INSTALLED)
	@$(BIN)/python .ci/pins.py

clean:
	rm -rf build .mypy_cache .pytest_cache .ruff_cache .hypothesis
