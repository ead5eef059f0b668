# `make run` and `make test` do all their own set-up, in .venv beside this file.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
DEV := $(VENV)/.dev-ready

.PHONY: help run test check fast bench schema clean

help:
	@echo "make run    set up, then start the daemon on this folder's jobs.yaml (page on http://127.0.0.1:8765)"
	@echo "make test   set up, then run every test"
	@echo "make check  format, lint, types, import directions, unit tests (make fast: the part under a minute)"
	@echo "make bench  print the figures of docs/benchmarks.md"

$(BIN)/python:
	@echo "Making a virtual environment in $(VENV) ..."
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "Python 3.11 or newer is needed: make PYTHON=python3.12 $(MAKECMDGOALS)"; exit 1; }
	@$(PYTHON) -m venv $(VENV) || { echo "The venv module is missing: on Debian, apt-get install python3-venv"; rm -rf $(VENV); exit 1; }

$(READY): pyproject.toml | $(BIN)/python
	@echo "Installing hermes-cron (one or two minutes, once) ..."
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -e .
	@touch $@

$(DEV): pyproject.toml | $(BIN)/python
	@echo "Installing hermes-cron and what its tests need (two or three minutes, once) ..."
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[dev]'
	@touch $@ $(READY)

run: $(READY)
	@echo "Starting the daemon; the page is on http://127.0.0.1:8765 . Ctrl-C ends it."
	@exec $(BIN)/hermes-cron run

test: $(DEV)
	@sh tests/prepare.sh $(BIN)
	@echo "Running every test ..."
	@$(BIN)/python -m pytest -q -n 2 --dist worksteal

fast: $(DEV)
	@$(BIN)/ruff format --check --quiet .
	@$(BIN)/ruff check --quiet .
	@$(BIN)/mypy
	@$(BIN)/lint-imports --no-logo
	@$(BIN)/python -m pytest -q -n 2 --dist worksteal tests/unit --ignore-glob='*/test_schedule_*'

check: fast
	@$(BIN)/python -m pytest -q -n 2 --dist worksteal tests/unit/cron

bench: $(DEV)
	@for script in bench/*.py; do echo "== $$script"; $(BIN)/python $$script || exit 1; done

clean:
	rm -rf $(VENV) build *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
