"""One look at every demonstration before training: how long its row is, or why there can be none."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from epimem.errors import EpimemError
from training.sft.kinds import kind
from training.sft.rows import Row, RowMaker

if TYPE_CHECKING:
    from training.demonstrations.record import Demonstration

TOO_LONG = "too_long"


@dataclass(frozen=True)
class Found:
    """A row that can be learnt: the place of its demonstration, and its size.

    `kind` is its operation and what it decides for; `grids` holds the patches of each image: (frames,
    down, across).
    """

    place: int
    id: str
    length: int
    reply_tokens: int
    kind: str = ""
    grids: tuple[tuple[int, int, int], ...] = ()


@dataclass(frozen=True)
class Aside:
    """A demonstration that is not learnt, and why: the code of a fault, or `too_long`."""

    id: str
    operation: str
    reason: str
    detail: str


@dataclass(frozen=True)
class Survey:
    """Rows that can be learnt in the order of the demonstrations, and what was set aside."""

    rows: tuple[Found, ...]
    aside: tuple[Aside, ...]

    @property
    def lengths(self) -> list[int]:
        """Tokens of each row."""
        return [row.length for row in self.rows]

    @property
    def reply_tokens(self) -> int:
        """Tokens that are learnt, of all rows."""
        return sum(row.reply_tokens for row in self.rows)

    @property
    def kinds(self) -> list[str]:
        """Operation and decision of each row."""
        return [row.kind for row in self.rows]

    @property
    def reasons(self) -> dict[str, int]:
        """How many were set aside, by reason."""
        return dict(sorted(Counter(each.reason for each in self.aside).items()))


def survey(
    maker: RowMaker,
    found: Sequence[Demonstration],
    max_length: int,
    *,
    rank: int = 0,
    ranks: int = 1,
    gather: Callable[[list[Found | Aside]], list[Found | Aside]] = lambda mine: mine,
) -> Survey:
    """Make each row once and note its size.

    Args:
        maker: of the rows.
        found: the demonstrations.
        max_length: tokens of a row at most.
        rank: this process looks at every `ranks`-th demonstration, from here on.
        ranks: processes that share the work.
        gather: joins what all of them found.
    """
    mine: list[Found | Aside] = [
        _look(maker, place, found[place], max_length) for place in range(rank, len(found), ranks)
    ]
    every = gather(mine)
    rows = sorted((it for it in every if isinstance(it, Found)), key=lambda it: it.place)
    aside = sorted((it for it in every if isinstance(it, Aside)), key=lambda it: it.id)
    return Survey(tuple(rows), tuple(aside))


def write_aside(path: Path, found: Survey) -> None:
    """Write what was set aside as JSON Lines."""
    lines = [json.dumps(asdict(each), ensure_ascii=False) for each in found.aside]
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")


def _look(maker: RowMaker, place: int, each: Demonstration, most: int) -> Found | Aside:
    try:
        row = maker.row(each)
    except EpimemError as error:
        return Aside(each.id, each.operation, error.code, str(error))
    if row.length > most:
        detail = f"{row.length} tokens, {most} at most"
        return Aside(each.id, each.operation, TOO_LONG, detail)
    return _found(place, row, each)


def _found(place: int, row: Row, each: Demonstration) -> Found:
    return Found(place, row.id, row.length, row.reply_tokens, kind(each), row.grids)
