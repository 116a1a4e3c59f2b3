"""Families of made-up questions, a small plan and a tiny model: a proof in seconds."""

from __future__ import annotations

from benchmarks.text.bbh import Item
from benchmarks.training.families import DECIDING, Families, divided
from benchmarks.training.proof_plan import Plan
from epimem.bank.encoder import TableEncoder

WORDS = (
    *("amber", "birch", "cedar", "delta", "ember", "fjord", "grove", "heron"),
    *("inlet", "jetty", "kelp", "lotus", "maple", "north", "orbit", "pearl"),
)
PRACTICE = 6
PLAN = Plan(
    learnt={"place": 2, "merge": 1, "select": 1},
    asked={"place": 20, "merge": 10, "select": 10},
    written={"place": 2, "merge": 1, "select": 1},
    rows_a_step=2,
    rank=2,
)
ENCODER = TableEncoder(64)


def items(groups: int = DECIDING + PRACTICE, each: int = 8) -> list[Item]:
    """Return items of which those of a family share a word and a form."""
    return [
        Item(
            task=f"task_{WORDS[group]}",
            number=number,
            question=f"{WORDS[group]} {WORDS[group][::-1]} {WORDS[number]} {number}?",
            target=str(number),
        )
        for group in range(groups)
        for number in range(each)
    ]


def families() -> Families:
    """Return them as families: ten groups that decide, and six for practice."""
    return divided(items())
