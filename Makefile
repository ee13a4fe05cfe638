# Everything runs in a virtual environment that the first command makes.
PYTHON ?= python3
VENV ?= .venv
PORT ?= 5000
PROCESSES ?= 2
ifeq ($(origin WORKSPACE),undefined)
WORKSPACE := $(or $(value VSE_WORKSPACE),workspace)
endif

# As they were given, and read by recipes from the environment: paths may hold spaces, quotes and dollar signs. That is
# also why the environment is no target of its own. ARGS is part of a command line, quoted as in a shell.
override WORKSPACE := $(value WORKSPACE)
override VENV := $(value VENV)
override ARGS := $(value ARGS)
export WORKSPACE VENV

BIN := "$$VENV/bin/python"
RUN := OMP_NUM_THREADS=1 $(BIN)
# `requires-python` of pyproject.toml, checked before there is an environment of another Python, which pip would refuse
SUPPORTED := import sys; sys.exit(not (3, 11) <= sys.version_info[:2] < (3, 14))
CHECK_PYTHON := { $(PYTHON) -c "$(SUPPORTED)" 2>/dev/null || { echo "make install: PYTHON=$(PYTHON) is not Python 3.11 to 3.13; name one, as in make install PYTHON=python3.12" >&2; exit 2; }; }
PIP := $(BIN) -m pip install --quiet --no-compile --disable-pip-version-check -c constraints.txt
# pip first: the one that comes with Python 3.11 takes nearly twice as long for all that follows.
INTO_VENV := { test -x $(BIN) || { $(CHECK_PYTHON) && $(PYTHON) -m venv "$$VENV"; }; } && $(PIP) pip && $(PIP)
IS_NEW = { test "$$VENV/$1" -nt pyproject.toml && test "$$VENV/$1" -nt constraints.txt; }
# Containers often set this variable, and pip is told not to compile. With it, every process would compile torch, Ray and
# MLflow again: a test run took a third longer and `import torch` nearly twice as long.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help install install-dev sweep ui test test-process test-push test-slow test-all lint docs evidence evidence-faults benchmark clean-venv

help:  ## this list
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## */\t/' | expand -t 14

install:  ## the virtual environment with all that jobs need
	@$(call IS_NEW,.installed) || { $(INTO_VENV) -e . && touch "$$VENV/.installed"; }

install-dev:  ## ... and with all that tests need
	@$(call IS_NEW,.installed-dev) || \
	{ $(INTO_VENV) -e '.[dev,docs,notebooks]' && touch "$$VENV/.installed" "$$VENV/.installed-dev"; }

sweep: install  ## from nothing to the alpha curve, on the rendered data set
	$(BIN) jobs/sweep_alpha.py --workspace "$$WORKSPACE" $(ARGS)

ui: install  ## MLflow's pages on the runs of WORKSPACE, on this machine only
	@case "$$WORKSPACE" in *://*) echo "make ui: WORKSPACE=$$WORKSPACE is not a folder; its runs are in the MLflow server that jobs were given" >&2; exit 2;; esac
	$(RUN) -c "import sys; from vse.tracking.shipping import ship_all; ship_all(sys.argv[1])" "$$WORKSPACE"
	@echo 'make ui: http://127.0.0.1:$(PORT) shows the runs in a few seconds'
	uri=$$($(RUN) -c "import sys; from vse.tracking.shipping import embedded_uri; print(embedded_uri(sys.argv[1]))" "$$WORKSPACE") && \
	MLFLOW_SERVER_ENABLE_JOB_EXECUTION=false $(BIN) -m mlflow ui --app-name vse --backend-store-uri "$$uri" --host 127.0.0.1 --port $(PORT) --workers 1

test: install-dev  ## what takes less than a second and starts no process and no server: five minutes
	$(RUN) -m pytest -n $(PROCESSES) --dist loadfile -m "not seconds and not process and not slow and not benchmark" $(ARGS)

# One process more than cores, since these tests wait for processes, servers and Ray for a fifth of their time.
test-process: install-dev  ## what takes seconds, or starts processes, servers or Ray
	$(RUN) -m pytest -n $$(( $(PROCESSES) + 1 )) --dist loadfile --no-loadscope-reorder \
		-m "(seconds or process) and not slow and not benchmark" $(ARGS)

# The tests of both in one call, which reads the files of tests once.
test-push: install-dev  ## `make test` and `make test-process` in one call, as for every push
	$(RUN) -m pytest -n $$(( $(PROCESSES) + 1 )) --dist loadfile --no-loadscope-reorder -m "not slow and not benchmark" $(ARGS)

test-slow: install-dev  ## whole trainings, sweeps, faults and clusters: hours
	$(RUN) -m pytest -m "slow and not benchmark" $(ARGS)

test-all: test test-process test-slow  ## every test

lint: install-dev  ## style, formatting and types
	$(BIN) -m ruff check .
	$(BIN) -m ruff format --check .
	$(BIN) -m pyrefly check --python-interpreter-path $(BIN)

docs: install-dev  ## the documentation, as a site in build/site
	NO_MKDOCS_2_WARNING=1 $(BIN) -m mkdocs build --strict --quiet
	@echo 'make docs: build/site/index.html'

evidence: install  ## the long measurements; may be stopped and continued
	$(BIN) jobs/evidence.py --workspace "$$WORKSPACE" $(ARGS)

evidence-faults: install-dev  ## kills at random moments, compared; may be stopped and continued
	$(RUN) -m tests.faults.campaign --workspace "$$WORKSPACE/faults" --copy evidence/faults/runs.jsonl $(ARGS)

benchmark: install-dev  ## speed ratios, without the checks of shapes that tests have
	JAXTYPING_DISABLE=1 $(RUN) -m pytest -m benchmark -s tests/benchmarks $(ARGS)

clean-venv:  ## remove the virtual environment
	rm -rf -- "$$VENV"
