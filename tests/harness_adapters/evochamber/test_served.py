"""A pool on a real, weak language model: SmolLM2-135M-Instruct behind a server (`make test-served`).

It is asked for nothing but that everything works: replies of such a model are read, costs counted, the
run goes on where it stopped. What it scores is printed.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path

import pytest

from harness_adapters.streams import gsm8k
from harness_adapters.streams.task import lines

ROOT = Path(__file__).parents[3]
PYTHON = ROOT / ".venv-smol" / "bin" / "python"
DATA = ROOT.parent / "shared" / "data" / "gsm8k" / "test.jsonl"
TASKS = 6

pytestmark = [
    pytest.mark.served,
    pytest.mark.skipif(not PYTHON.exists(), reason="`make test-served` installs the server"),
    pytest.mark.skipif(not DATA.exists(), reason="no shared data beside the checkout"),
]


@pytest.fixture(scope="module")
def url():
    """Serve the model on loopback."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    words = [PYTHON, ROOT / "benchmarks" / "replies" / "serve.py", port, 1, 2]
    process = subprocess.Popen(list(map(str, words)), stdout=subprocess.DEVNULL)
    base = f"http://127.0.0.1:{port}"
    until = time.monotonic() + 120
    while True:
        try:
            urllib.request.urlopen(f"{base}/health", timeout=2).close()
            break
        except (urllib.error.URLError, OSError):
            assert process.poll() is None
            assert time.monotonic() < until
            time.sleep(0.2)
    yield f"{base}/v1"
    process.terminate()
    process.wait(30)


def run(place, url, *more):
    words = [sys.executable, "-m", "epimem", "run", "evochamber", "--llm", f"openai:smollm2@{url}"]
    small = ["agents=4", "solve_tokens=160", "dream_tokens=96", "when_all_fail=run"]
    settings = [word for each in small for word in ("--set", each)]
    done = subprocess.run(
        [*words, "--stream", str(place / "s.jsonl"), *settings, *more],
        cwd=place,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=1500,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_a_weak_model_is_a_pool_all_the_same(tmp_path, url, capsys):
    tasks = [task for task, _ in zip(gsm8k.tasks(DATA), range(TASKS), strict=False)]
    (tmp_path / "s.jsonl").write_bytes(b"".join(lines(tasks)))
    subprocess.run(
        [sys.executable, "-m", "epimem", "init", "bank"],
        cwd=tmp_path,
        check=True,
        capture_output=True,
    )
    *told, summary = run(tmp_path, url, "--bank", "bank")
    assert len(told) == summary["tasks"] == TASKS
    assert {"choose", "review", "solve"} <= set(summary["spent"])
    assert all(cost["tokens_in"] > 0 for cost in summary["spent"].values())
    assert run(tmp_path, url, "--bank", "bank") == [summary]
    with capsys.disabled():
        print("\n" + json.dumps(summary))  # noqa: T201 - what a person runs this for
