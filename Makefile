# Two commands do everything on a fresh machine with Python 3.11 or later: make run, make test. make docs writes site/.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

.PHONY: run test test-lowest-ray lint bench docs clean

run: $(VENV)/base
	rm -rf runs/llama3-70b
	$(BIN)/dse codesign llama3-70b --space chips-2026 --power-cap 1000 --out runs/llama3-70b

# One worker more than there are cores: some wait for processes and disks.
WORKERS = $(shell $(BIN)/python -c "import os; print(min(os.cpu_count() + 1, 4))")

test: $(VENV)/test
	$(BIN)/python -m pytest -n $(WORKERS) --dist loadgroup --no-loadscope-reorder --durations 15 -rsfE

# Ray is used through its public interfaces: one test of each of them holds this against the lowest version that
# pyproject.toml allows. What the marker says is left out.
LOWEST_RAY = 2.50
test-lowest-ray: $(VENV)/test
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --upgrade \
	  --target $(VENV)/lowest-ray "ray==$(LOWEST_RAY).*"
	PYTHONPATH=$(abspath $(VENV)/lowest-ray) \
	  $(BIN)/python -m pytest -m ray_interface -n 2 --dist loadgroup --no-loadscope-reorder -rs

lint: $(VENV)/test
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python -m docs.making.lint
	$(BIN)/python -m benchmarks.truth --gate

bench: $(VENV)/test
	$(BIN)/python -m benchmarks

# mkdocs and its theme print advertisements of their successors.
docs: $(VENV)/docs
	NO_MKDOCS_2_WARNING=1 DISABLE_MKDOCS_2_WARNING=true $(BIN)/python -m mkdocs build

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	  || { echo "error: Python 3.11 or later is needed; name one with make PYTHON=python3.12 …"; exit 2; }
	$(PYTHON) -m venv $(VENV)

$(VENV)/base: pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable .
	@touch $@

$(VENV)/test: pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable ".[test]"
	@touch $@ $(VENV)/base

$(VENV)/docs: pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable ".[docs]"
	@touch $@ $(VENV)/base

clean:
	rm -rf $(VENV) runs site build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache
