# Each target does one thing; `make help` lists them. PYTHON is the interpreter that creates .venv (3.11 or newer).
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check --no-input
# The control plane for tests is a package in the folder of the tests.
CONTROLPLANE := PYTHONPATH=tests $(BIN)/python -m controlplane
TESTS ?=

.PHONY: help
help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-13s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: demo
demo: venv ## set up, then run the operator on an in-memory API server; needs Python and a network, takes less than a minute
	@$(BIN)/dra-operator demo

.PHONY: venv
venv: $(VENV)/.run ## create .venv with what the operator needs at run time, and the command dra-operator

.PHONY: dev
dev: $(VENV)/.dev ## create .venv also with what tests and linters need

.PHONY: test
test: dev lint site ## set up, lint, build the site, control plane and nodes (10 minutes the first time, needs Go) and run all tests
	@# Without Go, the tests that need it are skipped and say so; in CI they are required.
	@$(CONTROLPLANE) build || [ "$${CI:-}" != true ]
	$(BIN)/python -m pytest --numprocesses auto --maxprocesses 4 --dist loadfile --durations 10 $(TESTS)

.PHONY: conformance
conformance: dev ## compare N=2000 new scenarios and as many CEL expressions with Kubernetes' own code; SEED=..., KUBERNETES=1.38, ARGS=--default-gates; needs Go
	@PYTHONPATH=tests $(BIN)/python -m conformance --count $(or $(N),2000) $(if $(SEED),--seed $(SEED)) $(if $(KUBERNETES),--kubernetes $(KUBERNETES)) $(ARGS)

FUZZ := PYTHONPATH=tests $(BIN)/python -m
FUZZ_ARGS = $(if $(N),--cases $(N)) $(if $(SEED),--seed $(SEED)) $(ARGS)

.PHONY: stepfuzz
stepfuzz: dev ## check the allocator's decisions in N=2000 random worlds of 50 steps; SEED=... repeats a run
	@$(FUZZ) $@ $(FUZZ_ARGS)

.PHONY: gatefuzz
gatefuzz: dev ## run gated pods through N=2000 random interleavings of writes, watches and crashes; SEED=... repeats a run
	@$(FUZZ) $@ $(FUZZ_ARGS)

.PHONY: questionfuzz
questionfuzz: dev ## ask questions in N=500 clusters at random, and do what is asked about; SEED=... repeats a run
	@$(FUZZ) $@ $(FUZZ_ARGS)

.PHONY: changefuzz
changefuzz: dev ## apply each change that would make a claim fit, for N=2000 claims at random; SEED=... repeats a run
	@$(FUZZ) $@ $(FUZZ_ARGS)

.PHONY: decisionfuzz
decisionfuzz: dev ## compare decisions about gated pods with brute force in N=1000 random worlds; SEED=... repeats a run
	@$(FUZZ) $@ $(FUZZ_ARGS)

.PHONY: bridgefuzz
bridgefuzz: dev ## run the bridge through N=300 random histories of crashes, plugins and claims; SEED=... repeats a run
	@$(FUZZ) $@ $(FUZZ_ARGS)

.PHONY: replayfuzz
replayfuzz: dev ## compare replays of N=300 random histories with a simulation that tries everything at every event; SEED=... repeats a run
	@$(FUZZ) $@ $(FUZZ_ARGS)

.PHONY: gangfuzz
gangfuzz: dev ## compare decisions about gangs with brute force in N=1000 random worlds; SEED=... repeats a run
	@$(FUZZ) $@ $(FUZZ_ARGS)

.PHONY: library
library: dev ## install the wheel beside the oldest and the newest pydantic that it admits, and run the examples of docs/library.md; 5 minutes
	@$(BIN)/python .ci/library_versions.py

.PHONY: bench
bench: dev ## measure allocations against Kubernetes' own allocator; W="cluster mig-00100" ARGS="--rounds 9" choose which and how; needs Go to compare
	@$(BIN)/python bench/allocator.py $(W) $(ARGS)

.PHONY: lint
lint: dev ## check style, format, types and layers
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	@# Once more for the Python version of the image, which need not be installed.
	$(BIN)/mypy --python-version 3.14
	$(BIN)/lint-imports

.PHONY: format
format: dev ## format the code and fix what ruff can fix
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

.PHONY: controlplane
controlplane: dev ## build etcd, kube-apiserver, kubelet, containerd and the others into ~/.cache/dra-operator
	@$(CONTROLPLANE) build

.PHONY: cluster
cluster: dev ## run a control plane with scheduler and controller manager until Ctrl-C, and print its KUBECONFIG
	@$(CONTROLPLANE) run --full

LOCK := .lock-venv/bin/uv pip compile --quiet --universal --generate-hashes --python-version 3.11 \
  --custom-compile-command "make lock"

.PHONY: lock
lock: ## regenerate requirements/*.txt from pyproject.toml, keeping versions that still fit
	@$(PYTHON) -m venv .lock-venv
	@trap 'rm -rf .lock-venv' EXIT; \
	  .lock-venv/bin/python -m pip install --quiet --disable-pip-version-check uv && \
	  $(LOCK) pyproject.toml --extra history --extra postgres --output-file requirements/run.txt && \
	  $(LOCK) requirements/build.in --constraint requirements/run.txt --output-file requirements/build.txt && \
	  $(LOCK) pyproject.toml requirements/build.in --group dev --constraint requirements/run.txt \
	    --constraint requirements/build.txt --output-file requirements/dev.txt && \
	  $(LOCK) --group site --output-file requirements/site.txt && \
	  $(LOCK) pyproject.toml --extra bridge --constraint requirements/run.txt --constraint requirements/dev.txt \
	    --output-file requirements/bridge.txt && \
	  $(LOCK) requirements/plugin.in --no-deps --constraint requirements/run.txt --output-file requirements/plugin.txt && \
	  $(LOCK) requirements/release.in --allow-unsafe --constraint requirements/build.txt --output-file requirements/release.txt

PLUGIN := .plugin-venv/bin/python -m
PLUGIN_NAMES = $$(sed 's/\#.*//' requirements/plugin.in)

.PHONY: plugin
plugin: ## build dist/kubectl-dra, the plugin for kubectl as one file, for this platform and PYTHON; needs a network
	@rm -rf .plugin-venv dist/wheels && $(PYTHON) -m venv .plugin-venv
	@trap 'rm -rf .plugin-venv dist/wheels' EXIT; \
	  $(PLUGIN) pip install --quiet --disable-pip-version-check 'pex>=2.105,<3' && \
	  $(PLUGIN) pip wheel --quiet --no-deps --require-hashes --requirement requirements/plugin.txt --wheel-dir dist/wheels && \
	  $(PLUGIN) pip wheel --quiet --no-deps --wheel-dir dist/wheels . && \
	  $(PLUGIN) pex --no-pypi --find-links dist/wheels --intransitive --venv prepend --sh-boot \
	    --console-script kubectl-dra --output-file dist/kubectl-dra dra-operator $(PLUGIN_NAMES)
	@printf '#!/bin/sh\nexec kubectl-dra __complete "$$@"\n' > dist/kubectl_complete-dra && chmod +x dist/kubectl_complete-dra
	@echo "dist/kubectl-dra ($$(du -h dist/kubectl-dra | cut -f1)); put it and dist/kubectl_complete-dra into a folder of your PATH"

.PHONY: release
release: ## build dist/release: packages, chart, image context, kubectl-dra for three platforms, SBOM, checksums, provenance; needs a network
	@rm -rf .release-venv dist/release && $(PYTHON) -m venv .release-venv
	@trap 'rm -rf .release-venv' EXIT; \
	  .release-venv/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes --requirement requirements/release.txt && \
	  .release-venv/bin/python .ci/release.py dist/release

.PHONY: templates
templates: dev ## test the chart's templates with helm-unittest, which is built once; needs Go
	@$(BIN)/python .ci/chart_values.py --check
	@PYTHONPATH=tests $(BIN)/python -m controlplane.helm_unittest

.PHONY: signing
signing: dev ## push a release to a registry here, sign it with a key made for that, verify it and refuse what was changed; builds cosign once, needs Go
	@$(BIN)/python -m pytest tests/controlplane/cosign/signing.py

.PHONY: reference
reference: dev ## write the pages that are made from the code
	@$(BIN)/python .ci/reference.py
	@$(BIN)/dra-operator config --markdown > docs/settings.md
	@PYTHONPATH=tests $(BIN)/python -m version_table > docs/versions.md
	@$(BIN)/python .ci/chart_values.py

.PHONY: site
site: .site-venv/.ready ## build the site into dist/site, strictly; SITE_URL=... is where it will be
	@NO_MKDOCS_2_WARNING=1 .site-venv/bin/mkdocs build --quiet --strict

.PHONY: clean
clean: ## remove .venv, caches and builds, but not ~/.cache/dra-operator
	rm -rf $(VENV) .lock-venv .site-venv .plugin-venv .release-venv dist workloads .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis
	find operator tests bench -name __pycache__ -prune -exec rm -rf {} +

# Not targets to call: files that record what .venv contains.

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "Python 3.11 or newer is needed, but $(PYTHON) is $$($(PYTHON) --version 2>&1); choose another one: make PYTHON=python3.11 ..." >&2; exit 1; }
	@echo "creating $(VENV) with $$($(PYTHON) --version)"
	@$(PYTHON) -m venv $(VENV)

$(VENV)/.run: requirements/run.txt requirements/build.txt pyproject.toml | $(BIN)/python
	@echo "installing what the operator needs ($$(grep -c == requirements/run.txt) packages, hashes checked)"
	@$(PIP) install --quiet --require-hashes --requirement requirements/run.txt --requirement requirements/build.txt
	@$(PIP) install --quiet --no-deps --no-build-isolation --editable .
	@touch $@

$(VENV)/.dev: requirements/dev.txt $(VENV)/.run
	@echo "installing what tests and linters need ($$(grep -c == requirements/dev.txt) packages, hashes checked)"
	@$(PIP) install --quiet --require-hashes --requirement requirements/dev.txt
	@touch $@

.site-venv/.ready: requirements/site.txt
	@$(PYTHON) -m venv .site-venv
	@.site-venv/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes --requirement requirements/site.txt
	@touch $@
