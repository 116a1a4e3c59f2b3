"""What the tests of the command line share: a result to look at, and records to hand in."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

QUESTION = "How many stations does the train call at on the red line diagram?"


@dataclass
class Result:
    status: int
    lines: list[Any]
    out: str
    err: str


Epimem = Callable[..., Result]


def lesson(number: int, **more: object) -> dict[str, Any]:
    operator = ("Rubra", "Azul", "Orio")[number % 3]
    return {
        "guidance": f"On {operator} diagrams leave out the white triangles ({number}).",
        "applies_when": f"{operator} Metro line diagram with white triangles",
        "title": f"white triangles on {operator} diagrams",
        "index": {
            "topic": "stations skipped by marker shape",
            "scope": f"{operator} Metro line diagrams",
            "question_anchor": "How many stations does the train call at on the line diagram?",
        },
        "question_key": f"q{number}",
        "verdict_source": "oracle",
        **more,
    }


def write(path: Path, *values: object) -> Path:
    path.write_text("".join(json.dumps(value) + "\n" for value in values), encoding="utf-8")
    return path


def lines_of(path: Path) -> list[str]:
    return path.read_text(encoding="utf-8").splitlines()


def run_record(run_id: str, text: str = "Six stations.", **task: object) -> dict[str, Any]:
    return {
        "schema": "epimem-run/1",
        "run_id": run_id,
        "created_at": "2026-01-01T00:00:00Z",
        "task": {"task_id": run_id, "question": f"{QUESTION} ({run_id})", **task},
        "system": {"harness": "h"},
        "trajectory": {
            "schema_version": "ATIF-v1.8",
            "agent": {"name": "solver", "version": "1"},
            "steps": [{"step_id": 1, "source": "agent", "message": text}],
        },
        "answer": {"text": "6"},
    }
