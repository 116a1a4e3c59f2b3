"""BIG-Bench Hard as real text: 27 tasks, 6,511 items, read where the data lies beside the checkout.

An item becomes a ready lesson: its question is the question anchor, its guidance the question with
the right answer. No text of a lesson names the task; the label stays with the benchmark, for
judging.
"""

from __future__ import annotations

import json
import random
import re
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from pathlib import Path

from epimem.schema.ids import question_key
from epimem.schema.lesson import IndexText, LessonDraft

FOLDER = Path(__file__).resolve().parents[2] / ".." / "shared" / "data" / "bbh"
TASKS = 27
ANCHOR_BYTES = 4096
_OPTION = re.compile(r"^\((?P<letter>[A-Z])\)\s*(?P<text>.*)$", re.MULTILINE)


@dataclass(frozen=True)
class Item:
    """One question of a task. `task` is the label that nothing in the bank may see."""

    task: str
    number: int
    question: str
    target: str

    @property
    def answer(self) -> str:
        """The right answer in words: the text of the chosen option, else the target itself."""
        options = {f"({m['letter']})": m["text"].strip() for m in _OPTION.finditer(self.question)}
        return options.get(self.target) or self.target


def load_items(folder: Path = FOLDER, *, without: Collection[str] = ()) -> tuple[Item, ...]:
    """Return the items of all tasks but those in `without`, by task name and place in its file.

    Raises:
        FileNotFoundError: the data is not beside this checkout.
    """
    files = sorted(folder.glob("*.json"))
    if not files:
        raise FileNotFoundError(folder)
    return tuple(
        Item(path.stem, number, example["input"], example["target"])
        for path in files
        if path.stem not in without
        for number, example in enumerate(json.loads(path.read_text("utf-8"))["examples"])
    )


def split(items: Iterable[Item], *, seed: int) -> tuple[tuple[Item, ...], tuple[Item, ...]]:
    """Return (construction, held out): a random half of each task, the larger one for construction.

    The order of both is random too, so that tasks arrive mixed.
    """
    rng = random.Random(seed)
    by_task: dict[str, list[Item]] = {}
    for item in items:
        by_task.setdefault(item.task, []).append(item)
    construction: list[Item] = []
    held_out: list[Item] = []
    for task in sorted(by_task):
        members = by_task[task]
        rng.shuffle(members)
        half = (len(members) + 1) // 2
        construction += members[:half]
        held_out += members[half:]
    rng.shuffle(construction)
    rng.shuffle(held_out)
    return tuple(construction), tuple(held_out)


def index_of(item: Item) -> IndexText:
    """Return the index text of an item: its question and nothing else, cut to `ANCHOR_BYTES`."""
    question = item.question.encode("utf-8")[:ANCHOR_BYTES].decode("utf-8", "ignore")
    return IndexText(question_anchor=question.strip())


def draft(item: Item) -> LessonDraft:
    """Return the ready lesson of an item; its verdict is an oracle's, since BBH holds the answers."""
    index = index_of(item)
    return LessonDraft(
        guidance=f"{index.question_anchor}\nThe right answer was: {item.answer}",
        index=index,
        question_key=question_key(item.question),
        verdict_source="oracle",
    )
