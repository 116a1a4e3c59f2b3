"""All four training commands on a tiny random model: `python -m benchmarks.training.smoke [FOLDER]`.

Worlds are drawn, the memory controller's operations learnt for some steps, the adapter measured beside
`embedded` and exported with merged weights, all through the command line as a user would. The model
knows nothing and learns next to nothing: what is shown is that the parts fit together. Ends with status
1 where a command failed or left something else than it should.
"""

from __future__ import annotations

import contextlib
import io
import json
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.controllers.backends import tiny_qwen3_vl, torchvision_beside

SETTINGS = """
epochs = 1
max_steps = 4
checkpoint_every = 4
[optimizer]
learning_rate = 5e-3
[batch]
tokens = 4_096
accumulate = 1
[dev]
rows = 3
"""
ROLE = "memory_controller"


def main(folder: Path) -> int:
    """Run the four commands in a folder and print a line for each; return the exit status."""
    torchvision_beside.enable()
    folder.mkdir(parents=True, exist_ok=True)
    model = tiny_qwen3_vl.write_checkpoint(folder / "model")
    settings = folder / "settings.toml"
    settings.write_text(SETTINGS, encoding="utf-8")
    found, run = folder / "demonstrations", folder / "run"
    report = folder / "report.json"
    spec = f"transformers:{model}+{run / 'adapter'}"

    card = command("demonstrations", found, "--world", "charts", "--count", 18, "--encoder", "none")
    told("demonstrations", card, f"{card['demonstrations']} accepted")
    sft = ("sft", found, run, "--role", ROLE, "--config", settings, "--model", model)
    trained = command(*sft)
    losses = [line["loss"] for line in _log(run) if line["event"] == "step"]
    told("sft", trained, f"{trained['steps']} steps, loss {losses[0]:.3f} to {losses[-1]:.3f}")
    again = command(*sft)
    measured = command(
        *("evaluate", found, "--role", ROLE, "--report", report, "--encoder", "none"),
        *("--controllers", spec, "--controllers", "embedded", "--json"),
    )
    failed = sum(line["failed"] for line in _lines(measured))
    asked = f"{len(measured['operations'])} operations, {len(measured['controllers'])} controllers"
    told("evaluate", measured, f"{asked}, {failed} without a reply")
    exported = command("export", run, folder / "export", "--merge", "--json")
    told("export", exported, ", ".join(sorted(exported["commands"])))
    wrong = {
        "the loss did not fall": losses[-1] >= losses[0],
        "a finished run was done again": again != {**trained, "seconds": again["seconds"]},
        "no merged weights": not list((folder / "export").glob("merged/*.safetensors")),
        "rows were set aside": bool(trained["aside"]),
        "the model failed on some prompts": bool(failed),
    }
    for what in (what for what, so in wrong.items() if so):
        print(f"wrong: {what}")
    return int(any(wrong.values()))


def command(*arguments: Any) -> dict[str, Any]:
    """Run one command of `epimem train` and return the JSON line that it ends with, and its seconds."""
    from epimem.cli import main as epimem

    began, said = time.monotonic(), io.TextIOWrapper(io.BytesIO(), encoding="utf-8")
    with contextlib.redirect_stdout(said):
        status = epimem(["train", *map(str, arguments)])
    if status:
        sys.exit(f"epimem train {arguments[0]} ended with {status}")
    said.seek(0)
    found: dict[str, Any] = json.loads(said.read().splitlines()[-1])
    return {**found, "seconds": time.monotonic() - began}


def told(name: str, found: dict[str, Any], text: str) -> None:
    """Print what a command did."""
    print(f"{name:16}{found['seconds']:6.0f} s   {text}", flush=True)


def _log(run: Path) -> list[dict[str, Any]]:
    text = (run / "log.jsonl").read_text(encoding="utf-8")
    return [json.loads(line) for line in text.splitlines()]


def _lines(report: dict[str, Any]) -> Sequence[dict[str, Any]]:
    return [line for operation in report["operations"] for line in operation["lines"]]


if __name__ == "__main__":
    if len(sys.argv) > 1:
        sys.exit(main(Path(sys.argv[1])))
    with tempfile.TemporaryDirectory() as temporary:
        sys.exit(main(Path(temporary)))
