"""Sets of demonstrations and settings that train in seconds."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.training.demonstrations.made import demonstration, drawn, request
from training.demonstrations.store import DemonstrationSet
from training.sft.config import SftConfig, parse

SETTINGS: dict[str, Any] = {
    "epochs": 2,
    "checkpoint_every": 3,
    "seed": 5,
    "lora": {"rank": 4, "alpha": 8, "dropout": 0.1},
    "optimizer": {"learning_rate": 1e-2},
    "batch": {"tokens": 2_400, "rows": 2, "accumulate": 1},
    "dev": {"rows": 2, "patience": 0},
}
ROLE = "memory_controller"


def settings(**changed: Any) -> SftConfig:
    return parse({**SETTINGS, **changed})


def write_set(folder: Path, groups: int = 10) -> DemonstrationSet:
    """Write a finished set: one decision of the gate per group, yes and no in turn."""
    with DemonstrationSet.create(folder) as made:
        for number in range(groups):
            pages = drawn(made, number)
            asked = request("gate", pages, f"{number} " + "stations " * (number * 5))
            made.add(
                demonstration(
                    "gate", asked, number % 2, key=f"gate-{number}", group=f"group-{number}"
                )
            )
        made.finish(seed=1)
    return DemonstrationSet.open(folder)


def steps(out: Path) -> list[tuple[int, float]]:
    """Return the loss of each optimizer step in the log, in the order of the lines."""
    lines = map(json.loads, (out / "log.jsonl").read_text(encoding="utf-8").splitlines())
    return [(line["step"], line["loss"]) for line in lines if line["event"] == "step"]
