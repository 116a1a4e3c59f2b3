"""The results of one seed: rows of each evaluation by its name, figures of the banks, leaks."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

from epimem.evaluation import EvalResult
from epimem.evaluation.rows import Row


@dataclass
class SeedResults:
    """What was found under one seed."""

    rows: dict[str, list[Row]] = field(default_factory=dict)
    measures: dict[str, dict[str, Any]] = field(default_factory=dict)
    leaks: list[str] = field(default_factory=list)
    banks: list[str] = field(default_factory=list)

    def add(self, name: str, result: EvalResult) -> None:
        """Take in an evaluation."""
        self.rows[name] = list(result.rows)
        self.leaks += [
            f"{leak.what} of {leak.task or 'the data'} in {leak.where}" for leak in result.leaks
        ]
        self.banks += [digest.files for digest in result.digests]

    def save(self, path: Path) -> None:
        """Write everything, whole or not at all."""
        plain = {
            "rows": {
                name: [row.model_dump(exclude_defaults=True) for row in rows]
                for name, rows in self.rows.items()
            },
            "measures": self.measures,
            "leaks": self.leaks,
            "banks": self.banks,
        }
        temporary = path.with_suffix(".tmp")
        temporary.write_text(json.dumps(plain), encoding="utf-8")
        temporary.replace(path)

    @classmethod
    def load(cls, path: Path) -> Self:
        """Read what `save` wrote."""
        plain = json.loads(path.read_text(encoding="utf-8"))
        rows = {
            name: [Row.model_validate(row) for row in rows] for name, rows in plain["rows"].items()
        }
        return cls(rows, plain["measures"], plain["leaks"], plain["banks"])
