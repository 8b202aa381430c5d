VENV ?= .venv
PYTHON ?= python3
# What to install where torch cannot be imported yet, and how to make the environment. The first import
# compiles a module: that takes less time than to compile all of them. Images of containers often forbid
# Python to keep the result, and then each process would compile torch again. pip uses one core: another
# one compiles torch meanwhile, which all processes of the tests would do at once. Older pips, such as that
# of Python 3.11, take twice as long to find all versions.
export PYTHONDONTWRITEBYTECODE :=
# For another build: make test TORCH="torch --index-url https://download.pytorch.org/whl/cu128"
TORCH ?= torch==2.13.0
VENV_FLAGS ?=
CONSTRAINTS ?= constraints.txt
PYTEST_ARGS ?=
# What make check looks at, and make goldens; all by default.
FILES ?=
GOLDENS ?= tests/test_filecheck.py tests/frontends/coda_text/test_errors.py
FAULTS ?=
SITE ?= build/site
PROGRAMS ?= 20000
SEED ?= 0
JOBS ?= 2
SECONDS ?= 600

BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
# What the tests do not need: ruff, pyright, Sphinx, atheris.
DEV_STAMP := $(VENV)/.installed-dev

.PHONY: help run test nightly random zoo faults fuzz goldens filecheck lint format types check site screenshots wheel clean
.DEFAULT_GOAL := help

help: ## Show this list
	@grep -E '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z]+):.*## */\1\t/' | \
	    while IFS="$$(printf '\t')" read -r target text; do printf '%-10s %s\n' "$$target" "$$text"; done

ZOO := PYTHONPATH=benchmarks:tests nice $(BIN)/python -m zoo --jobs $(JOBS)

$(STAMP): pyproject.toml $(CONSTRAINTS)
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV_FLAGS) $(VENV)
	-$(BIN)/python -m pip install --no-compile "pip>=26"
	$(BIN)/python -c "import torch" 2>/dev/null || $(BIN)/python -m pip install --no-compile $(TORCH)
	$(BIN)/python -c "import torch._dynamo, torch._inductor.compile_fx" 2>/dev/null & \
	    $(BIN)/python -m pip install --no-compile -c $(CONSTRAINTS) -e ".[test]" && wait
	touch $@

$(DEV_STAMP): $(STAMP)
	$(BIN)/python -m pip install --no-compile -c $(CONSTRAINTS) -e ".[dev]"
	touch $@

run: $(STAMP) ## Compile and run a Llama layer: kernels, fusions, bytes moved, error
	$(BIN)/python examples/llama_layer.py

test: $(STAMP) ## Run all tests (PYTEST_ARGS="-k name" to select)
	$(BIN)/python -m pytest -n auto --dist worksteal $(PYTEST_ARGS)

nightly: $(DEV_STAMP) ## Run all tests, all combinations of their parameters, all faults and random programs
	$(BIN)/python -m pytest -n auto --dist worksteal --nightly $(PYTEST_ARGS)
	$(MAKE) faults random

faults: $(STAMP) ## Plant all faults in passes and kernels (FAULTS=name to select), and count those that the checks notice
	PYTHONPATH=tests $(BIN)/python -W ignore -m faults --jobs $(JOBS) $(FAULTS)

fuzz: $(DEV_STAMP) ## Fuzz everything that reads text (TARGETS=pipeline, SECONDS=600, SEED=1 repeats a run)
	PYTHONPATH=tests $(BIN)/python -m fuzz --seconds $(SECONDS) --seed $(SEED) $(addprefix --target ,$(TARGETS))

goldens: $(STAMP) ## Rewrite failing goldens with the current output of the tools
	$(BIN)/python -m pytest -q -n 0 --update-goldens $(GOLDENS)

filecheck: $(STAMP) ## Run the lit goldens only
	$(BIN)/lit -v tests/filecheck

zoo: $(STAMP) ## Run tiny models of many architectures as emitted Triton, and gradients of 40
	$(BIN)/python -c "import diffusers" 2>/dev/null || $(BIN)/python -m pip install -c $(CONSTRAINTS) diffusers
	$(ZOO) --layers 1 --json benchmarks/results/zoo.json
	$(ZOO) --gradients --json benchmarks/results/zoo_gradients.json

random: $(STAMP) ## Check random programs (PROGRAMS=20000 SEED=0 JOBS=2): the nightly run
	PYTHONPATH=tests $(BIN)/python -m generator run --programs $(PROGRAMS) --seed $(SEED) --jobs $(JOBS)

lint: $(DEV_STAMP) ## Check style with ruff (FILES=path to select)
	$(BIN)/ruff check $(FILES)
	$(BIN)/ruff format --check $(FILES)

format: $(DEV_STAMP) ## Format the sources
	$(BIN)/ruff check --fix
	$(BIN)/ruff format
	find examples -name '*.coda' -exec $(BIN)/coda-fmt -i {} +

types: $(DEV_STAMP) ## Check types with pyright (FILES=path to select)
	$(BIN)/pyright $(FILES)

site: $(DEV_STAMP) ## Build the documentation into build/site
	$(BIN)/sphinx-build -c docs/site --fail-on-warning --keep-going -q . $(SITE)

screenshots: $(STAMP) ## Take the pictures of the explorer in docs/images, with Chromium
	$(BIN)/python -c "import diffusers" 2>/dev/null || $(BIN)/python -m pip install -c $(CONSTRAINTS) diffusers
	PYTHONPATH=tests $(BIN)/python -m support.screenshots

check: lint types test ## Run everything that a change must pass

wheel: $(STAMP) ## Build the wheel into dist/
	$(BIN)/python -m pip wheel --no-deps -w dist .

clean: ## Remove build outputs, but not the environment
	rm -rf build dist *.egg-info .pytest_cache .ruff_cache
