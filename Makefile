# Two commands do everything on a machine that has only Python (3.11 or newer) and make:
#   make demo    make test
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check

# BLAS threads fight with pytest's two workers; one thread each is faster on small matrices.
PYTEST := OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 $(BIN)/python -m pytest -n 2

.PHONY: demo test test-slow lint types layers unit format clean

demo: $(VENV)/.cli
	$(BIN)/implicitmoments demo

test: lint types layers unit

test-slow: $(VENV)/.dev
	$(PYTEST) -m slow

lint: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(VENV)/.dev
	$(BIN)/mypy

layers: $(VENV)/.dev
	$(BIN)/lint-imports

unit: $(VENV)/.dev
	$(PYTEST) -m "not slow"

format: $(VENV)/.dev
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

$(VENV)/bin/python:
	$(PYTHON) -m venv $(VENV)

$(VENV)/.cli: $(VENV)/bin/python pyproject.toml
	$(PIP) --editable ".[cli]"
	touch $@

$(VENV)/.dev: $(VENV)/bin/python pyproject.toml
	$(PIP) --editable ".[cli,dev,bench]"
	touch $@

clean:
	rm -rf $(VENV) .mypy_cache .pytest_cache .ruff_cache .import_linter_cache .hypothesis
