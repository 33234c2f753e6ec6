# `make demo` and `make test` do all their own set-up. See CONTRIBUTING.md for the rest.
#
#   PYTHON=/path/to/python3   another interpreter (3.11 to 3.14)
#   TESTS="tests/core -k gate" what `make unit` runs

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:

PYTHON ?=
export PYTHON
TESTS ?= tests
BIN := .venv/bin
ENV := .venv/.set-up
DEPS := build/.test-deps
FUZZ := build/fuzz-venv/.set-up
SOURCES := $(shell find broker ui policies packaging -type f -not -name '*.pyc' 2>/dev/null)

.PHONY: help setup test-deps demo test lint types imports unit explore live bench tamper-table prompts lock pages wheel wheel-test clean

help: ## this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 12

setup: $(ENV) ## the environment in .venv, from requirements-dev.lock

$(ENV): requirements-dev.lock pyproject.toml packaging/setup-venv.sh
	@packaging/setup-venv.sh .venv requirements-dev.lock -e .
	@touch $@

$(FUZZ): requirements-fuzz.lock packaging/setup-venv.sh
	@packaging/setup-venv.sh build/fuzz-venv requirements-fuzz.lock
	@touch $@

test-deps: $(DEPS) ## what the live tests need besides Python (Debian)

$(DEPS): packaging/setup-test-deps.sh
	@packaging/setup-test-deps.sh
	@mkdir -p build && touch $@

demo: $(ENV) ## the main job end to end, on a throw-away vault; no key press
	@$(BIN)/python -I packaging/demo/run.py

test: $(ENV) $(DEPS) $(FUZZ) lint types imports build/.wheel ## everything that CI runs
	@PATH="$$PATH:/usr/sbin:/sbin" tests/run_all.sh

lint: $(ENV) ## style and format
	@$(BIN)/ruff check --quiet .
	@$(BIN)/ruff format --quiet --check .

types: $(ENV) ## mypy, strict
	@$(BIN)/mypy --no-error-summary

imports: $(ENV) ## which part may import which
	@mkdir -p build
	@$(BIN)/lint-imports --no-logo > build/imports.log 2>&1 || { cat build/imports.log; exit 1; }

unit: $(ENV) ## the fast tests; TESTS= narrows them
	@$(BIN)/python -m pytest -q -m "not live" $(TESTS)

explore: $(ENV) ## the property tests with other examples than yesterday's
	@DOORWARD_EXPLORE=1 $(BIN)/python -m pytest -q $$(grep -rl --include='test_*.py' hypothesis tests)

live: $(ENV) $(DEPS) $(FUZZ) ## the tests with a real daemon, nginx and tmux
	@PATH="$$PATH:/usr/sbin:/sbin" $(BIN)/python -m pytest -q -m live $(TESTS)

tamper-table: $(ENV) ## every change of an audit log that we know of, its verdict, and what journalctl says of the like
	@$(BIN)/python -m tests.tampering.table

prompts: $(ENV) ## how often a human is asked in three days of agents, when, and for what
	@$(BIN)/python -m tests.flow.agent_days

bench: $(ENV) ## measure against the goals
	@$(BIN)/python -m pytest -q -s -o python_files='bench_*.py' tests/bench

lock: ## write all lock files anew (needs uv)
	@uv pip compile --quiet --universal --generate-hashes --no-header --python-version 3.11 --all-extras \
		pyproject.toml -o requirements.lock
	@uv pip compile --quiet --universal --generate-hashes --no-header --python-version 3.11 --all-extras \
		--group dev pyproject.toml -o requirements-dev.lock
	@uv pip compile --quiet --universal --generate-hashes --no-header --python-version 3.11 \
		packaging/fuzz.in -o requirements-fuzz.lock

pages: $(ENV) ## the shell completions and the manual page, from the command's own parsers
	@$(BIN)/python packaging/make_pages.py

wheel: build/.wheel ## the wheel, in build/wheel

build/.wheel: $(ENV) README.md LICENSE $(SOURCES)
	@rm -rf build/wheel && mkdir -p build
	@$(BIN)/python -m build --wheel --no-isolation --outdir build/wheel . > build/wheel.log 2>&1 \
		|| { cat build/wheel.log; exit 1; }
	@touch $@

wheel-test: build/.wheel ## the wheel in an environment of its own, with the runtime lock alone
	@tests/shipped/wheel_smoke.sh build/wheel build/wheel-venv

clean: ## remove what was built (not .venv)
	rm -rf build dist .coverage .mypy_cache .ruff_cache .pytest_cache .import_linter_cache
