# Everything that is downloaded or made stays in this folder: .cache, .tools, .venv, .turnmill.
# Python, a shell, make and git are all that this needs: recipes of the first commands call nothing else.
SHELL := /bin/sh
.SHELLFLAGS := -eu -c
.DEFAULT_GOAL := help
.PHONY: help demo test pytest durations coverage test-sdks test-producers drift findings test-browser screenshots lint format docs site jars chart test-chart image simulate chaos restarts soak attack fuzz bench compile interpreted test-compiled same-bytes test-all release wheel weigh bytecode setup tools clean

UV_VERSION := 0.13.8
export UV_CACHE_DIR := $(CURDIR)/.cache/uv
# make test PYTHON=3.13: that Python, in an environment of its own; pyenv's, where it has it, else uv finds or fetches one.
ifeq ($(origin PYTHON),command line)
PYENV := $(or $(PYENV_ROOT),$(HOME)/.pyenv)/versions
export UV_PYTHON := $(or $(lastword $(sort $(wildcard $(PYENV)/$(PYTHON)/bin/python $(PYENV)/$(PYTHON).*/bin/python))),$(PYTHON))
export UV_PROJECT_ENVIRONMENT := .venv-$(notdir $(PYTHON))
export UV_PYTHON_DOWNLOADS := automatic
export UV_PYTHON_INSTALL_DIR := $(CURDIR)/.cache/python
else
export UV_PYTHON_DOWNLOADS := never
endif
export UV_NO_PROGRESS := 1
# The tests start some hundreds of Python processes: each would compile all that it imports.
export PYTHONDONTWRITEBYTECODE :=
export TURNMILL_CACHE ?= $(CURDIR)/.cache/turnmill
ENVIRONMENT := $(or $(UV_PROJECT_ENVIRONMENT),.venv)
UV := $(or $(shell command -v uv 2>/dev/null),.tools/uv/bin/uv)
RUN := $(UV) run --no-sync
# How many processes run the tests: three for each core of a small machine, as most tests wait; none for a part of them.
JOBS ?= $(if $(ARGS),0,6)
CODE := turnmill topics pipeline tests docs examples helm compiled_core.py
# What says most about the core: all tests of it that need no broker.
CORE_TESTS := tests/unit tests/property tests/corpus tests/contract tests/simulation

help:  ## Show this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /\1\t/' | expand -t 14

demo: setup  ## From nothing to stored threads: a broker, a worker, and some hundreds of recorded runs
	@$(RUN) turnmill demo $(ARGS)

test: setup  ## All checks: every test, and lint beside them, with a real Kafka and a real Postgres (ARGS=tests/unit for a part)
	@exec $(RUN) python -m tests.beside .cache/lint.log $(MAKE) --no-print-directory lint -- \
	  $(MAKE) --no-print-directory pytest

pytest: setup $(if $(ARGS),,bytecode)
	@exec $(RUN) pytest -n $(JOBS) $(ARGS)

durations: setup  ## All tests, without lint; how long they took goes into tests/durations.json, which orders the next run
	@$(RUN) pytest -n 6 --store-durations

# Else each process that runs tests compiles all of them first. What is wrong with one, the tests themselves say.
bytecode: setup
	@$(RUN) pytest --collect-only >/dev/null 2>&1 || true

coverage: interpreted lint  ## The same tests, with the lines that none of them runs (half as long again)
	@$(RUN) pytest -n $(JOBS) --cov --cov-report=term:skip-covered $(ARGS)

test-sdks: setup  ## Runs of the real SDKs, recorded; and our exports of every wire in them, which go on (needs Node 20+)
	@PATH="$(CURDIR)/.tools/uv/bin:$$PATH" $(RUN) pytest -n $(if $(ARGS),0,2) tests/sdks/check_*.py $(ARGS)

test-producers: setup  ## Real clients and servers of other makes: what they write is read, stored and followed (needs Java, Maven, Go 1.26+, Rust, Node 20+)
	@PATH="$(CURDIR)/.tools/uv/bin:$$PATH" $(RUN) pytest $(or $(ARGS),tests/producers/test_*.py)

drift: setup  ## What the newest SDKs can say that the pinned ones can't, and their recorded programs run again
	@PATH="$(CURDIR)/.tools/uv/bin:$$PATH" $(RUN) python -m tests.sdks.drift

findings:  ## What is true of public packages, each in a temporary folder of its own: findings/README.md
	@for finding in findings/*.sh; do echo "== $$finding"; sh "$$finding" || exit 1; done

test-browser: setup  ## The dashboard in a real headless Chromium, with a real Kafka (needs Node 20+; fetches the browser once)
	@$(RUN) pytest tests/browser/check_*.py $(ARGS)

screenshots: setup  ## The pictures of docs/images, and the moving one of README, of a pipeline that runs (some minutes)
	@$(RUN) python -m tests.browser.screenshots
	@$(RUN) python -m tests.browser.film

lint: setup  ## ruff, mypy, and the import contracts
	@$(RUN) ruff check --quiet $(CODE)
	@$(RUN) ruff format --check --quiet $(CODE)
	@$(RUN) mypy
	@$(RUN) lint-imports >.cache/lint-imports.log || { cat .cache/lint-imports.log; exit 1; }

format: setup  ## Format the code and mend what ruff can mend
	@$(RUN) ruff check --fix $(CODE)
	@$(RUN) ruff format $(CODE)

docs: setup  ## Write the generated parts of the documents
	@$(RUN) python docs/generate.py

site: setup  ## The documentation as a site, with the reference of Python, HTTP and Kafka, in dist/site (needs Node 20+)
	@$(UV) run --frozen --quiet --group site sphinx-build --quiet --fresh-env --fail-on-warning --conf-dir docs/site . dist/site
	@echo "open dist/site/index.html"

jars: setup  ## Pin the jars of the development broker, after a change of pipeline/devbroker/pom.xml (needs Maven and Java)
	@$(RUN) python -m pipeline.devbroker.maven

chart: setup  ## Write the generated parts of the Helm chart, and its README
	@$(RUN) python -m helm.generate
	@$(RUN) python tests/chart/tools.py helm-docs
	@.tools/chart/helm-docs --chart-search-root helm --sort-values-order file --log-level warning

test-chart: setup  ## The Helm chart on a real API server, its containers as processes (root, Go 1.26+, a JDK, Node 20+; builds its tools once)
	@$(RUN) python tests/chart/tools.py
	@$(RUN) pytest tests/chart/check_*.py $(ARGS)

image:  ## Build the container image with buildah, podman or docker (BUILDER=…)
	@$(or $(BUILDER),$(shell command -v buildah || command -v podman || command -v docker)) build -t turnmill:local .

simulate: setup  ## Tens of thousands of simulated schedules of the pipeline, each from a seed (ten minutes; ARGS="--seed 17")
	@$(RUN) python -m tests.simulation $(ARGS)

chaos: setup  ## Break brokers, workers, stores and data, and look whether anything was lost (about an hour)
	@$(RUN) python -m tests.chaos $(ARGS)

restarts: setup  ## How long stops, starts and a rolling restart take, at full load (about ten minutes)
	@$(RUN) python -m tests.chaos restarts $(ARGS)

soak: setup  ## Half of the peak for 30 minutes, with a kill every two
	@$(RUN) python -m tests.chaos soak $(ARGS)

attack: setup  ## Attack a running pipeline as another tenant would, over HTTP and Kafka (some minutes)
	@$(RUN) python -m tests.attack $(ARGS)

fuzz: setup  ## Hostile records and requests by the thousand, then a climb for the costliest (FUZZ_EXAMPLES, FUZZ_SECONDS; half an hour)
	@FUZZ_EXAMPLES=$(or $(FUZZ_EXAMPLES),2000) $(RUN) pytest --timeout 3600 tests/property/test_hostile_*.py \
	  tests/integration/gateway/test_fuzz.py $(ARGS)
	@FUZZ_SECONDS=$(or $(FUZZ_SECONDS),5) $(RUN) python -m tests.climbing

bench: setup  ## Measure assembly, and the whole way on a local broker
	@$(RUN) turnmill bench $(ARGS)

compile: setup  ## Compile the core in place, in about a minute and a half (needs a C compiler; again after each change of it)
	@$(RUN) python compiled_core.py

interpreted: setup  ## Remove what `make compile` has made
	@$(RUN) python compiled_core.py --remove

# PYTHONPATH, so that processes which tests start take the copy, too.
test-compiled: setup  ## The core's tests on a compiled copy of this checkout, which stays as it is (needs a C compiler)
	@$(RUN) python compiled_core.py --into .cache/compiled/copy
	@cd .cache/compiled/copy && PYTHONPATH="$$PWD" .venv/bin/python -m pytest -n $(JOBS) $(or $(ARGS),$(CORE_TESTS))

wheel: tools  ## The wheels of turnmill and turnmill-server, whose core is compiled, in dist/ (needs a C compiler)
	@echo "turnmill, the client"
	@$(UV) build --wheel --quiet --out-dir dist .
	@echo "turnmill-server: compiles the core, in about two minutes"
	@HATCH_BUILD_HOOKS_ENABLE=1 $(UV) build --wheel --quiet --out-dir dist pipeline
	@ls -1 dist/*.whl

# Of simulated schedules, a few write at other simulated times, compiled.
same-bytes: setup  ## What the interpreted and the compiled core make of all recorded streams: the same bytes (after make test-compiled)
	@$(RUN) python -m tests.same_bytes --schedules 0 2>/dev/null >.cache/interpreted.txt
	@cd .cache/compiled/copy && PYTHONPATH="$$PWD" .venv/bin/python -m tests.same_bytes --schedules 0 >../compiled.txt
	@cmp .cache/interpreted.txt .cache/compiled/compiled.txt
	@echo "the same of $$(wc -l <.cache/interpreted.txt) streams"

test-all:  ## All long commands, one after the other: what passed last, when, and on which commit (hours; ONLY="site fuzz")
	@.ci/test-all

release: setup  ## Make a release in a clone, without publishing: make release VERSION=1.2.3 (TAG=1 takes its commit and tag over)
	@.ci/release "$(VERSION)"

weigh: setup  ## How large the client is with all that it needs, and how long its import takes
	@$(RUN) python -m tests.weigh

# The environment follows the lock file; what is up to date already takes a moment.
setup: tools
	@$(if $(filter never,$(UV_PYTHON_DOWNLOADS)),$(UV) python find '>=3.11' >/dev/null 2>&1 || { \
	  echo "Python 3.11 or newer is missing: install it" >&2; exit 2; })
	@$(UV) sync --frozen --quiet

tools: $(if $(filter .tools/%,$(UV)),.tools/uv/bin/uv)

.tools/uv/bin/uv:
	@command -v python3 >/dev/null || { echo "Python 3.11 or newer is missing: install it" >&2; exit 2; }
	@echo "fetching uv $(UV_VERSION) into .tools"
	@python3 -m venv .tools/uv || { \
	  echo "python3 has no venv module: install it (Debian: python3-venv), or install uv" >&2; rm -rf .tools/uv; exit 2; }
	@.tools/uv/bin/python -m pip install --quiet --no-cache-dir --disable-pip-version-check uv==$(UV_VERSION) || { \
	  echo "pip can't fetch uv: check the network or pip's mirror, or install uv" >&2; rm -rf .tools/uv; exit 2; }

clean:  ## Stop the development broker; remove all that was made, but not what was downloaded
	@[ ! -x $(ENVIRONMENT)/bin/turnmill ] || $(ENVIRONMENT)/bin/turnmill down || true
	@rm -rf .turnmill .cache/turnmill/demo* .coverage .coverage.* .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache dist
	@find . \( -name ".venv*" -o -name .cache -o -name .tools \) -prune -o -name __pycache__ -print0 | xargs -0 rm -rf
