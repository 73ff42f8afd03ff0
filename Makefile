.DEFAULT_GOAL := help
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.ready

# Results of the tests that `lakebed conform` makes its claims from, and the summary of them that is packaged. Written
# only if all of these tests ran and none failed.
EVIDENCE := --evidence=tests/conform/evidence.json --evidence-summary=src/lakebed/conform/evidence_summary.json

# Two processes share the tests. Each takes the next one in their order, so that both are in the same file, and what its
# tests share is started twice at most.
SHARED := -n 2 --dist loadgroup

# Bytecode is kept, whatever the shell says: the asserts of every test file would be rewritten by each process of every
# run, and each of the hundreds of servers that tests start would compile the whole package.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help setup demo test test-fast test-all evidence check bench clean

help: ## Print these lines
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-10s %s\n", $$1, $$2}'

setup: $(STAMP) ## Make .venv/ with everything the other commands need

$(STAMP): requirements/dev.txt pyproject.toml hatch_build.py $(shell find src -name '*.c')
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "Lakebed needs Python 3.11 or newer. Install it, then: make PYTHON=/path/to/python3 $(MAKECMDGOALS)"; exit 1; }
	@$(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements/dev.txt
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-build-isolation --no-deps -e .
	@touch $(STAMP)

demo: setup ## Start a server, use it end to end, print what happened
	@$(BIN)/python -m lakebed demo

test-fast: setup ## The quick tests: under 3 minutes
	@$(BIN)/python -m pytest -q -n 2 --hypothesis-profile=look -m "not slow and not integration and not heavy"

test: setup ## The test suite: under 25 minutes on 2 cores
	@$(BIN)/python -m pytest -q $(SHARED) -m "not heavy"

test-all: setup ## The test suite with the heavy parts; records what it showed
	@$(BIN)/python -m pytest -q $(SHARED) $(EVIDENCE)

evidence: setup ## Only the tests that `lakebed conform` stands on; records what they showed
	@$(BIN)/python -m pytest -q $(SHARED) $(EVIDENCE) --evidence-alone

check: setup ## Format, lint, types, import layers
	@$(BIN)/ruff format --check .
	@$(BIN)/ruff check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports --no-cache

bench: setup ## Benchmarks beside peers
	@$(BIN)/python -m benchmarks.s3
	@$(BIN)/python -m benchmarks.catalog
	@$(BIN)/python -m benchmarks.pipeline
	@$(BIN)/python -m benchmarks.governance
	@$(BIN)/python -m benchmarks.events
	@$(BIN)/python -m benchmarks.select
	@$(BIN)/python -m benchmarks.streams
	@$(BIN)/python -m benchmarks.streams.tiering

stream-messages: setup ## Make the classes of stream messages from their .proto
	@cd src/lakebed/wire/fluss && $(CURDIR)/$(PYTHON) -m grpc_tools.protoc -I . --python_out=. --pyi_out=. messages.proto

clean: ## Remove what the other commands made in this checkout
	@find src tests benchmarks examples -name __pycache__ -prune -exec rm -rf {} +
	@rm -rf $(VENV) .demo .pytest_cache .mypy_cache .ruff_cache .hypothesis build dist \
	  src/lakebed/objects/blobs/_md5_lanes.so src/lakebed/select/formats/_json_lines.so \
	  src/lakebed/fluss/_kv_records.so
