.DEFAULT_GOAL := help
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.ready

# Results of the tests behind the claims of `lakebed conform`, and their packaged summary. Written only if all of these
# tests ran and none failed.
EVIDENCE := --evidence=tests/conform/evidence.json --evidence-summary=src/lakebed/conform/evidence_summary.json

# Two processes take tests in order. Both work on the same file at a time, so that shared fixtures start at most twice.
SHARED := -n 2 --dist loadgroup

# Keep bytecode: otherwise every pytest process rewrites the asserts of all test files, and each of the hundreds of
# servers that tests start compiles the whole package.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help setup demo test test-fast test-all evidence check bench clean

help: ## List the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-10s %s\n", $$1, $$2}'

setup: $(STAMP) ## Create .venv/ with all development dependencies

$(STAMP): requirements/dev.txt pyproject.toml hatch_build.py $(shell find src -name '*.c')
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "Lakebed needs Python 3.11 or newer. Install it, then: make PYTHON=/path/to/python3 $(MAKECMDGOALS)"; exit 1; }
	@$(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements/dev.txt
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-build-isolation --no-deps -e .
	@touch $(STAMP)

demo: setup ## Run the product end to end and print the results
	@$(BIN)/python -m lakebed demo

test-fast: setup ## The quick tests: under 3 minutes
	@$(BIN)/python -m pytest -q -n 2 --hypothesis-profile=look -m "not slow and not integration and not heavy"

test: setup ## The test suite: under 25 minutes on 2 cores
	@$(BIN)/python -m pytest -q $(SHARED) -m "not heavy"

test-all: setup ## The test suite with the heavy parts; records the evidence of claims
	@$(BIN)/python -m pytest -q $(SHARED) $(EVIDENCE)

evidence: setup ## The tests behind the claims of `lakebed conform`; records their results
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

stream-messages: setup ## Generate the message classes of streams from their .proto
	@cd src/lakebed/wire/fluss && $(CURDIR)/$(PYTHON) -m grpc_tools.protoc -I . --python_out=. --pyi_out=. messages.proto

clean: ## Remove generated files from this checkout
	@find src tests benchmarks examples -name __pycache__ -prune -exec rm -rf {} +
	@rm -rf $(VENV) .demo .pytest_cache .mypy_cache .ruff_cache .hypothesis build dist \
	  src/lakebed/objects/blobs/_md5_lanes.so src/lakebed/select/formats/_json_lines.so \
	  src/lakebed/fluss/_kv_records.so
