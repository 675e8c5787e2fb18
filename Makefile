PYTHON ?= python3.11
VENV := .venv
STAMP := $(VENV)/.installed
SHORT_NEMESES := kill,pause,partition,one-way,isolate-leader,transfer,reset,restart,disk-full,clock

.PHONY: demo test check test-long chaos chaos-short chaos-tools container-tools s3-tools clean

demo: $(STAMP)  ## three nodes on loopback with sample jobs, runs shown live; Ctrl-C cleans up
	@$(VENV)/bin/horae demo

test: $(STAMP)  ## every test but the long ones
	$(VENV)/bin/python -m pytest --ignore=tests/statemachine -n 2 --dist loadgroup
	$(VENV)/bin/python -m pytest tests/statemachine -n 2 --cov=statemachine --cov-branch --cov-fail-under=100 \
		--cov-report=term-missing:skip-covered

check: $(STAMP)  ## lint, types, tidiness
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/mypy
	$(VENV)/bin/python -m pytest tests/test_tidy.py

test-long: $(STAMP)  ## what takes minutes: property walks, simulations
	$(VENV)/bin/python -m pytest -m long

chaos: $(STAMP) chaos-tools  ## simulated clusters and a real one under faults (docs/chaos.md); ten minutes
	$(VENV)/bin/horae chaos sim --seeds 150
	$(VENV)/bin/horae chaos sim --seeds 30 --nodes 5
	$(VENV)/bin/horae chaos live --duration 4m

chaos-short: $(STAMP) chaos-tools  ## the same with few faults a seed, for CI
	$(VENV)/bin/horae chaos sim --seeds 200 --steps 3
	$(VENV)/bin/horae chaos live --seed 1 --duration 40s --nemesis $(SHORT_NEMESES)

chaos-tools:  ## what live chaos needs; without root it kills and pauses only, and says so
	@if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null && ! { command -v ip && command -v iptables \
		&& command -v faketime && command -v mkfs.ext4; } >/dev/null; then \
		apt-get update -qq && apt-get install -qq -y --no-install-recommends iproute2 iptables faketime e2fsprogs \
			>/dev/null || echo "could not install iproute2, iptables, faketime and e2fsprogs" >&2; \
	fi

container-tools:  ## what the tests of containers need; without root they are skipped, and say so
	@if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null && ! { command -v dockerd && command -v busybox; } >/dev/null; then \
		apt-get update -qq && apt-get install -qq -y --no-install-recommends docker.io busybox-static >/dev/null \
			|| echo "could not install docker.io and busybox-static" >&2; \
	fi
s3-tools: $(STAMP)  ## a real S3 server for the tests of the log store; without go they are skipped
	@test -x $(VENV)/bin/versitygw || ! command -v go >/dev/null || GOBIN=$(abspath $(VENV)/bin) GOFLAGS=-mod=mod \
		go install github.com/versity/versitygw/cmd/versitygw@v1.8.0

clean:
	rm -rf $(VENV) build *.egg-info

$(STAMP): pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(VENV)/bin/pip install --quiet --disable-pip-version-check -e '.[dev]'
	@touch $(STAMP)
