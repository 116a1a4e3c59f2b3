# `make demo` and `make test` each set everything up on a fresh machine, the virtual environment included.

PYTHON ?= python3.11
VENV   := .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.installed
# One thread a process: the tests start many, and small matrices are slower on several.
RUN    := OMP_NUM_THREADS=1 $(BIN)/

.PHONY: demo test test-long check fix figures arc real-text clean

$(STAMP): pyproject.toml
	@start=$$(date +%s); \
	$(PYTHON) -m venv $(VENV) && \
	$(BIN)/pip install --quiet --disable-pip-version-check --upgrade pip && \
	$(BIN)/pip install --quiet "torch==2.13.0" && \
	$(BIN)/pip install --quiet -e ".[encoder,demo,test,check]" && \
	touch $(STAMP) && echo "installed in $$(( $$(date +%s) - start )) s"

demo: $(STAMP)
	@$(RUN)python -m benchmarks.arc.demo

test: $(STAMP)
	$(RUN)python -m pytest -q -m "not long" -n 2 --dist loadfile --durations=15

test-long: $(STAMP)
	$(RUN)python -m pytest -q -m long --durations=15 --timeout=3600

figures: $(STAMP)
	$(RUN)python -m benchmarks.speed
	$(RUN)python -m benchmarks.recall

# Some half hour, and it goes on where it was interrupted: ten banks of 400 tasks, asked about 400 others.
arc: $(STAMP)
	$(RUN)python -m benchmarks.arc.experiment

# Tens of minutes: each line of both experiments on BIG-Bench Hard and GSM8K, read beside the checkout.
real-text: $(STAMP)
	$(RUN)python -m benchmarks.text.tree
	$(RUN)python -m benchmarks.text.nothing

check: $(STAMP)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy epimem controllers harness_adapters benchmarks
	$(BIN)/lint-imports
	$(BIN)/codespell

fix: $(STAMP)
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

clean:
	rm -rf $(VENV) build dist *.egg-info
