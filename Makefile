# Two commands matter: `make demo` and `make test`. Each does its own set-up; a second run has none to do.
# `make help` lists the rest.

PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
# netesto-flow is compiled with the installation.
SOURCES := setup.py setup.cfg pyproject.toml $(wildcard netesto/traffic/native/source/* netesto/emulator/source/*)
# A lab on this kernel needs root; without sudo the demo runs in a user-mode kernel.
AS_ROOT := $(if $(filter-out 0,$(shell id -u)),$(shell command -v sudo))

# A guest kernel forgets what it compiles; this it finds.
COMPILE := $(BIN)/python -m compileall -q netesto

# A test of a whole run waits for its flows about as long as it computes. By that, two of them for each processor
# leave it idle for a sixth of the time, three for a fortieth.
WORKERS ?= -n $(shell expr 3 \* $$(nproc)) --dist loadgroup --no-loadscope-reorder

.DEFAULT_GOAL := help
.PHONY: docs reliability oldest truth chance help demo test check coverage kernel format proto completions bench dist setup packages clean

help: ## this list
	@sed -n 's/^\([a-z]*\):.*## /  make \1\t/p' $(MAKEFILE_LIST) | expand -t 20

demo: setup ## two real TCP flows compete on this machine; ends with a page to look at
	@$(AS_ROOT) $(BIN)/netesto run scripts/two-flows.nts

# Every worker compiles 40,000 lines of tests, unless it finds them compiled.
test: $(VENV)/.dev ## everything that is true without luck; real namespaces and tools where we may
	@$(COMPILE)
	@.ci/sshd
	@.ci/runc
	@.ci/slurm
	@PYTHONDONTWRITEBYTECODE= $(BIN)/pytest $(WORKERS)

check: $(VENV)/.dev ## form, types, and who imports whom
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	.ci/types-of-tests $(BIN)/mypy
	$(BIN)/lint-imports

coverage: $(VENV)/.dev ## which branches the tests reach that need no guest; fails below 90 %
	@$(COMPILE)
	@.ci/sshd
	@.ci/runc
	@.ci/slurm
	@$(BIN)/pytest $(WORKERS) -m "not thorough and not uml and not sim" --cov --cov-report=term:skip-covered

kernel: setup ## the kernel for simulated time (--ground sim): some minutes, once
	@remote/install-packages kernel
	@$(BIN)/netesto kernel build

format: $(VENV)/.dev ## put the form right
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

proto: $(VENV)/.dev ## generate the protocol's descriptor and types from agent.proto
	$(BIN)/python -m grpc_tools.protoc -I. --descriptor_set_out=netesto/proto/agent.desc --pyi_out=. netesto/proto/agent.proto
	mv netesto/proto/agent_pb2.pyi netesto/proto/messages.pyi

docs: $(VENV)/.dev ## write what the code decides: tables of the manual, and the lines of fields.txt
	@$(BIN)/python tests/docs/tables.py

reliability: $(VENV)/.dev ## what make test leaves out: all other faults of docs/reliability.md, moments and grounds
	@$(COMPILE)
	@.ci/sshd
	@.ci/runc
	@.ci/slurm
	@$(BIN)/pytest $(WORKERS) -m thorough
	@$(BIN)/python tests/reliability/faults.py >docs/reliability.md

oldest: ## tests of agents and of calls with the oldest grpcio, protobuf and psutil that setup.cfg allows
	@.ci/oldest $(WORKERS)

# With TRUTH=--ci the smallest set that has every kind of link, and no page.
truth: $(VENV)/.dev ## links and TCP against theory; writes docs/truth.md (ten minutes)
	@$(COMPILE)
	@$(BIN)/python tests/truth/truth.py $(TRUTH)

chance: $(VENV)/.dev ## end 200 runs at random instants, and send 100,000 hostile streams (half an hour)
	@$(BIN)/pytest $(WORKERS) tests/system/test_system_instants.py --instants 200 --instants-grounds hosts,lab,uml,sim
	@$(BIN)/pytest $(WORKERS) tests/agent/test_agent_hostile.py --streams 100000

completions: $(VENV)/.dev ## generate the shells' completions from the command line's options
	@for kind in bash:netesto.bash zsh:_netesto; do $(BIN)/shtab --shell=$${kind%%:*} netesto.cli.options.parser >completions/$${kind##*:} || exit 1; done
	@cat completions/definitions.bash >>completions/netesto.bash

bench: $(VENV)/.dev ## the benchmarks, as ratios
	@missed=; for bench in bench/*/bench_*.py; do echo "== $$bench"; $(BIN)/python $$bench || missed="$$missed $$bench"; done; \
	[ -z "$$missed" ] || { echo "limits missed:$$missed"; exit 1; }

dist: $(VENV)/.dev ## what a release consists of: dist/*.tar.gz and dist/*.whl, tried
	@.ci/dist $(BIN)/python

setup: $(VENV)/.installed ## what the demo needs: Debian packages, a virtual environment, the package

packages:
	@remote/install-packages

$(VENV)/bin/python: | packages
	@echo "Making a virtual environment in $(VENV)"
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
		|| { echo "netesto needs Python 3.11 or newer; '$(PYTHON)' is $$($(PYTHON) -V 2>&1). Use: make PYTHON=python3.11"; exit 3; }
	@$(PYTHON) -m venv $(VENV)

$(VENV)/.installed: $(SOURCES) $(VENV)/bin/python | packages
	@echo "Installing netesto and its Python packages into $(VENV)"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable .
	@$(COMPILE)
	@touch $@

$(VENV)/.dev: $(SOURCES) $(VENV)/bin/python | packages
	@echo "Installing netesto, its Python packages and the test tools into $(VENV)"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[dev]'
	@$(COMPILE)
	@touch $@ $(VENV)/.installed

clean: ## remove the virtual environment and caches; results stay
	rm -rf $(VENV) $(VENV)-oldest build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis
