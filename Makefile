# Everything runs in a virtual environment that the first command makes.
PYTHON ?= python3
VENV ?= .venv
WORKSPACE ?= $(or $(VSE_WORKSPACE),workspace)
PORT ?= 5000
PROCESSES ?= 2

BIN := $(VENV)/bin
RUN := OMP_NUM_THREADS=1 $(BIN)/python
PIP := $(BIN)/python -m pip install --quiet --no-compile --disable-pip-version-check -c constraints.txt
# Containers often set this, and pip is told not to compile: without it every process would compile torch, Ray and MLflow
# anew, which made a test run a third longer and `import torch` nearly twice.
unexport PYTHONDONTWRITEBYTECODE

MLFLOW_DB := sqlite:///$(abspath $(WORKSPACE))/mlflow/mlflow.db

.PHONY: help install install-dev sweep ui test test-slow test-all lint evidence evidence-faults benchmark clean-venv

help:  ## this list
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## */\t/' | expand -t 14

install: $(VENV)/.installed  ## the virtual environment with all that jobs need
install-dev: $(VENV)/.installed-dev  ## ... and with all that tests need

$(VENV)/.installed: pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(PIP) -e .
	touch $@

$(VENV)/.installed-dev: $(VENV)/.installed
	$(PIP) -e '.[dev]'
	touch $@

sweep: $(VENV)/.installed  ## from nothing to the alpha curve, on the rendered data set
	$(BIN)/python jobs/sweep_alpha.py --workspace $(WORKSPACE) $(ARGS)

ui: $(VENV)/.installed  ## MLflow's pages on the runs of WORKSPACE, on this machine only
	@case "$(WORKSPACE)" in *://*) echo "make ui: WORKSPACE=$(WORKSPACE) is not a folder; its runs are in the MLflow server that jobs were given" >&2; exit 2;; esac
	$(RUN) -c "import sys; from vse.tracking.shipping import ship_all; ship_all(sys.argv[1])" $(WORKSPACE)
	@echo 'make ui: http://127.0.0.1:$(PORT) shows the runs in a few seconds'
	MLFLOW_SERVER_ENABLE_JOB_EXECUTION=false $(BIN)/mlflow ui --app-name vse --backend-store-uri $(MLFLOW_DB) --host 127.0.0.1 --port $(PORT) --workers 1

test: $(VENV)/.installed-dev  ## everything that takes seconds
	$(RUN) -m pytest -n $(PROCESSES) --dist loadfile -m "not slow and not benchmark" $(ARGS)

test-slow: $(VENV)/.installed-dev  ## what takes minutes
	$(RUN) -m pytest -m "slow and not benchmark" $(ARGS)

test-all: test test-slow  ## both

lint: $(VENV)/.installed-dev  ## style, formatting and types
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/pyright --pythonpath $(BIN)/python

evidence: $(VENV)/.installed  ## the long measurements; may be stopped and continued
	$(BIN)/python jobs/evidence.py --workspace $(WORKSPACE) $(ARGS)

evidence-faults: $(VENV)/.installed-dev  ## kills at random moments, compared; may be stopped and continued
	$(RUN) -m tests.faults.campaign --workspace $(WORKSPACE)/faults --copy evidence/faults/runs.jsonl $(ARGS)

benchmark: $(VENV)/.installed-dev  ## speed ratios, without the checks of shapes that tests have
	JAXTYPING_DISABLE=1 $(RUN) -m pytest -m benchmark -s tests/benchmarks $(ARGS)

clean-venv:  ## remove the virtual environment
	rm -rf $(VENV)
