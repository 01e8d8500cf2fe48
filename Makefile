# Everything from nothing but Python 3.11+, pip and make. `uv run ...` works as well.
PYTHON ?= python3
BIN := .venv/bin
READY := .venv/.ready

.PHONY: demo test lint bench docs relock clean

$(READY): pyproject.toml requirements-dev.lock
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	  echo "nowcast-alfred needs Python 3.11 or later; name one with: make PYTHON=python3.12"; exit 1; }
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet uv
	$(BIN)/uv pip install --quiet --python $(BIN)/python -r requirements-dev.lock -e .
	@touch $@

## Evaluate two canned policies on the embedded store, through vf-eval.
demo: $(READY)
	$(BIN)/nowcast-alfred demo

## All tests, in parallel.
test: $(READY)
	$(BIN)/python -m pytest -n auto $(ARGS)

## Style and types.
lint: $(READY)
	$(BIN)/ruff format --check src tests benchmarks
	$(BIN)/ruff check src tests benchmarks
	$(BIN)/mypy

## The numbers of benchmarks/README.md, each beside its peer in one run.
bench: $(READY)
	$(BIN)/python -m benchmarks $(ARGS)

## Write the generated references in docs/ again.
docs: $(READY)
	$(BIN)/python -m nowcast_alfred.lab.reference docs/reference.md

## Write the lock of the development tools again, after a change in pyproject.toml.
relock: $(READY)
	$(BIN)/uv lock --quiet
	$(BIN)/uv export --frozen --quiet --no-emit-project --no-hashes --no-annotate --no-header \
	  --output-file requirements-dev.lock

clean:
	rm -rf .venv dist outputs
