PYTHON ?= python3.11
VENV := .venv
STAMP := $(VENV)/.installed

.PHONY: demo test check test-long chaos clean

demo: $(STAMP)  ## three nodes on loopback with sample jobs, runs shown live; Ctrl-C cleans up
	@$(VENV)/bin/horae demo

test: $(STAMP)  ## every test but the long ones
	$(VENV)/bin/python -m pytest --ignore=tests/statemachine
	$(VENV)/bin/python -m pytest tests/statemachine --cov=statemachine --cov-branch --cov-fail-under=100 \
		--cov-report=term-missing:skip-covered

check: $(STAMP)  ## lint, types, tidiness
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/mypy
	$(VENV)/bin/python -m pytest tests/test_tidy.py

test-long: $(STAMP)  ## what takes minutes: property walks, simulations
	$(VENV)/bin/python -m pytest -m long

chaos: $(STAMP)  ## whole clusters on virtual time under faults (docs/chaos.md); minutes
	$(VENV)/bin/horae chaos sim --seeds 150
	$(VENV)/bin/horae chaos sim --seeds 40 --nodes 5

clean:
	rm -rf $(VENV) build *.egg-info

$(STAMP): pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(VENV)/bin/pip install --quiet --disable-pip-version-check -e '.[dev]'
	@touch $(STAMP)
