"""Folders as `epimem train sft` leaves them, made without training."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

from controllers.prompts import VERSION
from training.export.fingerprint import fingerprint


def write_run(
    folder: Path,
    base: Path,
    *,
    adapter: Path | None = None,
    weights: Path | None = None,
    **changes: Any,
) -> Path:
    """Write a finished run of the tree organizer and return its folder; `changes` go into its record."""
    folder.mkdir(parents=True)
    left = "adapter" if adapter is not None else "weights"
    source = adapter if adapter is not None else weights
    assert source is not None
    shutil.copytree(source, folder / left)
    record = {
        "format": "epimem-sft/1",
        "role": "tree_organizer",
        "model": base.name,
        "base": fingerprint(base),
        "prompts": VERSION,
        "config": {"method": "lora" if adapter is not None else "full", "epochs": 2},
        "data": {"train": "0" * 64, "dev": "0" * 64, "card": None},
        "versions": {"peft": "0.0"},
        "result": {"path": left, "step": 3, "steps": 3, "rows": 9, "accuracy": 0.75, "aside": {}},
        **changes,
    }
    (folder / "run.json").write_text(json.dumps(record))
    return folder
