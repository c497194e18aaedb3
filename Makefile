# Two commands do everything on a machine that has only Python (3.11 or newer) and make:
#   make demo    make test
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check

# BLAS threads fight with pytest's two workers; one thread each is faster on small matrices. Each
# worker takes one half of the files, so that fixtures of a module are made once, and then steals.
PYTEST := OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 $(BIN)/python -m pytest -n 2 --dist worksteal
SPHINX := OMP_NUM_THREADS=1 $(BIN)/python -m sphinx -W --keep-going -q

LOWEST := .venv-lowest

.PHONY: demo test test-slow test-lowest stress coverage dist-check lint types layers size unit docs gallery \
	linkcheck paper format clean

demo: $(VENV)/.cli
	$(BIN)/implicitmoments demo

# What needs one core runs two at a time; the tests have two workers of their own.
test: $(VENV)/.dev
	$(MAKE) --no-print-directory --jobs=2 lint types layers size docs
	$(MAKE) --no-print-directory unit

test-slow: $(VENV)/.dev
	$(PYTEST) -m slow

# On the lowest version of every direct dependency. SCIPY_ARRAY_API is what old versions of
# scikit-learn need for arrays of other libraries.
test-lowest: $(LOWEST)/.dev
	SCIPY_ARRAY_API=1 $(subst $(BIN),$(LOWEST)/bin,$(PYTEST)) -m "not slow" $(TESTS)

# In a random order, which the head of the output names, and with more workers than cores.
stress: $(VENV)/.dev
	$(subst -n 2,-n 6,$(PYTEST)) --order $(or $(SEED),$(shell date +%s)) -m "not slow" $(TESTS)

# Lines of src that the tests run; TESTS=tests/cli for those of some tests, without the bound.
coverage: $(VENV)/.dev
	$(PYTEST) -m "not slow" --cov --cov-report=term --cov-report=html:coverage \
		$(if $(TESTS),,--cov-fail-under=95) $(TESTS)

# A wheel and an sdist, each installed into an empty environment and used there.
dist-check: $(VENV)/.release
	$(BIN)/python tests/distributions.py

lint: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(VENV)/.dev
	$(BIN)/mypy

layers: $(VENV)/.dev
	$(BIN)/lint-imports

# Lines, codes, names, words and walks beside their ceilings; fails if a finished row is above.
size: $(VENV)/.dev
	OMP_NUM_THREADS=1 $(BIN)/python tests/size.py

unit: $(VENV)/.dev
	$(PYTEST) -m "not slow"

# The pages, without running the examples; a warning, such as a link that leads nowhere, is an error.
docs: $(VENV)/.dev
	rm -rf docs/generated  # pages of names that are gone
	$(SPHINX) -b html docs docs/_build/html

# The same with every example run, and its pictures.
gallery: $(VENV)/.dev
	GALLERY=1 $(SPHINX) -b html docs docs/_build/html

# Links to other sites too, for which the network is needed.
linkcheck: $(VENV)/.dev
	$(SPHINX) -b linkcheck docs docs/_build/linkcheck

# Two pages, by pandoc and LaTeX (Debian: pandoc, texlive-latex-recommended, lmodern).
paper:
	cd paper && pandoc paper.md --citeproc --include-in-header preamble.tex \
		--metadata author="The implicitmoments developers" --variable papersize=a4 \
		--variable geometry=hmargin=1.9cm,vmargin=1.6cm --output paper.pdf

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

$(VENV)/.release: $(VENV)/bin/python pyproject.toml
	$(PIP) --editable ".[release]"
	touch $@

$(LOWEST)/.dev: pyproject.toml constraints/lowest.txt
	$(PYTHON) -m venv --clear $(LOWEST)
	$(subst $(BIN),$(LOWEST)/bin,$(PIP)) --constraint constraints/lowest.txt --editable ".[cli,dev]"
	touch $@

clean:
	rm -rf docs/_build docs/generated docs/gallery docs/sg_execution_times.rst
	rm -rf $(VENV) $(LOWEST) coverage .coverage dist paper/paper.pdf .mypy_cache .pytest_cache .ruff_cache .import_linter_cache .hypothesis
