"""Does a bank say nothing where it knows nothing, and the right thing where it knows something?

    python -m benchmarks.text.nothing                  the result: questions 819-1318, splits 1, 2, 3
    python -m benchmarks.text.nothing --development    questions 0-499, split 0: what was tuned on

Real text that nobody on this project wrote. Half of the items of each BIG-Bench Hard task become
ready lessons (index text: the item's question and nothing else, no label anywhere); the bank is
maintained, and asked through `retrieve`, without a family.

Line 1: a bank without the three tasks that are about sums answers "nothing" to at least 95 % of 500
GSM8K questions, and to at most 10 % of the held-out items of its own 24 tasks. Two controls must
fail: with a floor of zero the first half, with a floor that nothing reaches the second. Beside it,
without a line: of the answers of a bank of all 27 tasks, the share whose items are of the question's
own task. The table goes to stdout, progress to stderr, everything as JSON to a file with --json.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal

from benchmarks.text.bbh import FOLDER, Item, draft, load_items, split
from benchmarks.text.vectors import cached_encoder
from epimem.bank.floor import Floor
from epimem.memory import ExperienceMemory
from epimem.protocols import Encoder

Mode = Literal["fused", "dense", "lexical"]
MODES: tuple[Mode, ...] = ("fused", "dense", "lexical")
UNKNOWN_TASKS = ("multistep_arithmetic_two", "object_counting", "penguins_in_a_table")
QUESTIONS = FOLDER.parent / "gsm8k" / "test.jsonl"
DEVELOPMENT = (range(500), (0,))
RESULT = (range(819, 1319), (1, 2, 3))
LEAST_NOTHING, MOST_NOTHING = 0.95, 0.10
ARM_SHARE = 3  # of every how many held-out items one is asked of what has no line
Control = Literal["zero", "unreachable"]


@dataclass(frozen=True)
class Precision:
    """Of `answered` of `asked` questions, how many answers were of the question's own task.

    `first` counts answers whose first item is, `all_items` those all of whose items are.
    """

    asked: int
    answered: int
    first: int
    all_items: int


@dataclass(frozen=True)
class Outcome:
    """What one split gave. Shares, in [0, 1], are of questions that got no item.

    `unknown` is of GSM8K questions by mode of recall, `own` of held-out items of the bank's own
    tasks; `asked` counts both. `zero_floor` (GSM8K) and `unreachable_floor` (held-out items) are
    those of the controls. `precision` is by mode, in a bank of all tasks.
    """

    seed: int
    lessons: int
    asked: tuple[int, int]
    unknown: Mapping[Mode, float]
    own: float
    own_by_task: Mapping[str, float]
    precision: Mapping[Mode, Precision]
    zero_floor: float | None
    unreachable_floor: float | None

    @property
    def holds(self) -> bool:
        """Whether both halves of the line hold, with recall as it is by default."""
        return self.unknown[MODES[0]] >= LEAST_NOTHING and self.own <= MOST_NOTHING

    @property
    def controls_fail(self) -> bool:
        """Whether the line notices both sabotaged floors."""
        zero, unreachable = self.zero_floor, self.unreachable_floor
        return (
            zero is not None
            and unreachable is not None
            and zero < LEAST_NOTHING
            and unreachable > MOST_NOTHING
        )


class TaskBank:
    """A maintained bank of lessons, and which task each of its items is of.

    Args:
        folder: an absent folder.
        encoder: the text encoder.
        items: what becomes lessons.
    """

    def __init__(self, folder: Path, encoder: Encoder, items: Sequence[Item]) -> None:
        self.memory = ExperienceMemory.create(folder, encoder=encoder)
        self._tasks: dict[str, set[str]] = defaultdict(set)
        for place, item in enumerate(items):
            receipt = self.memory.contribute(draft(item))
            assert receipt.id is not None
            self._tasks[receipt.id].add(item.task)
            _progress(f"{place + 1} of {len(items)} lessons", last=place + 1 == len(items))
        self.memory.maintain(progress=lambda *done: _progress(f"maintain {done[1]} of {done[2]}"))
        _progress("maintained", last=True)
        tree = self.memory.tree()
        for node in tree.walk() if tree is not None else ():
            for key in node.supported_by:
                self._tasks[node.node_id] |= self._tasks[key]

    def answer(self, question: str, mode: Mode) -> list[set[str]]:
        """Return the tasks of each item of the answer, in order; empty for nothing."""
        answer = self.memory.retrieve(question, mode=mode)
        return [self._tasks[item.node_id] for item in answer.items]

    def silent(self, what: str, questions: Sequence[str], mode: Mode) -> list[bool]:
        """Ask all questions; return for each whether it got nothing."""
        silent = []
        for place, question in enumerate(questions):
            silent.append(not self.answer(question, mode))
            _progress(f"{what}, {mode}: {place + 1} of {len(questions)}")
        _progress(f"{what}, {mode}: nothing for {sum(silent)} of {len(questions)}", last=True)
        return silent

    def precision(self, items: Sequence[Item], mode: Mode) -> Precision:
        """Ask for all items and judge the answers by their tasks."""
        answered = first = all_items = 0
        for place, item in enumerate(items):
            found = self.answer(item.question, mode)
            answered += bool(found)
            first += bool(found) and found[0] == {item.task}
            all_items += bool(found) and all(tasks == {item.task} for tasks in found)
            _progress(f"precision, {mode}: {place + 1} of {len(items)}")
        _progress(f"precision, {mode}: {all_items} of {answered}", last=True)
        return Precision(len(items), answered, first, all_items)


def run(
    items: Sequence[Item],
    questions: Sequence[str],
    seed: int,
    *,
    encoder: Encoder,
    modes: Sequence[Mode] = MODES,
    controls: bool = True,
) -> Outcome:
    """Run one split.

    Args:
        items: of all tasks.
        questions: those the bank knows nothing about.
        seed: of the split.
        encoder: the text encoder.
        modes: of recall, the default one among them first.
        controls: whether the two controls are run too.
    """
    known = [item for item in items if item.task not in UNKNOWN_TASKS]
    construction, held_out = split(known, seed=seed)
    lessons, own_questions = len(construction), [item.question for item in held_out]
    zero = unreachable = None
    with tempfile.TemporaryDirectory(prefix="epimem-nothing-") as folder:
        bank = TaskBank(Path(folder) / "own", encoder, construction)
        with bank.memory:
            unknown = {mode: bank.silent("GSM8K", questions, mode) for mode in modes}
            own = bank.silent("own tasks", own_questions, MODES[0])
            if controls:
                with floor_of("zero"):
                    zero = _share(bank.silent("floor of zero, GSM8K", questions, MODES[0]))
                with floor_of("unreachable"):
                    unreachable = _share(bank.silent("no floor met", own_questions, MODES[0]))
        construction, everything = split(items, seed=seed)
        bank = TaskBank(Path(folder) / "all", encoder, construction)
        with bank.memory:
            parts = {mode: ARM_SHARE if place else 1 for place, mode in enumerate(modes)}
            precision = {mode: bank.precision(everything[::n], mode) for mode, n in parts.items()}
    return Outcome(
        seed=seed,
        lessons=lessons,
        asked=(len(questions), len(held_out)),
        unknown={mode: _share(silent) for mode, silent in unknown.items()},
        own=_share(own),
        own_by_task=_by_task(held_out, own),
        precision=precision,
        zero_floor=zero,
        unreachable_floor=unreachable,
    )


def _share(silent: Sequence[bool]) -> float:
    return sum(silent) / len(silent)


def _by_task(items: Sequence[Item], silent: Sequence[bool]) -> dict[str, float]:
    found: dict[str, list[bool]] = defaultdict(list)
    for item, nothing in zip(items, silent, strict=True):
        found[item.task].append(nothing)
    return {task: _share(found[task]) for task in sorted(found)}


@contextmanager
def floor_of(control: Control) -> Iterator[None]:
    """Replace the test of every floor: sabotage that the lines must notice."""
    before = Floor.passes

    def passes(*_: object, **__: object) -> bool:
        return control == "zero"

    Floor.passes = passes  # type: ignore[method-assign]
    try:
        yield
    finally:
        Floor.passes = before  # type: ignore[method-assign]


def gsm8k(numbers: range, path: Path = QUESTIONS) -> list[str]:
    """Return questions of GSM8K's test set by number.

    Raises:
        FileNotFoundError: the data is not beside this checkout.
    """
    lines = path.read_text(encoding="utf-8").splitlines()
    return [json.loads(lines[number])["question"] for number in numbers]


def rows(outcomes: Sequence[Outcome]) -> list[tuple[str, str, str]]:
    """Return the table: what, found per split (where it was asked for), line."""
    found = [_shares(outcome) for outcome in outcomes]
    return [
        (what, " / ".join(f"{shares[what][0]:.1%}" for shares in found if what in shares), line)
        for what, (_, line) in found[0].items()
    ]


def _shares(outcome: Outcome) -> dict[str, tuple[float, str]]:
    """Return each share of one split by what it is of, with its line."""
    unknown, own = outcome.asked
    table = {
        f"nothing for {unknown} GSM8K questions, {mode}": (
            share,
            f">= {LEAST_NOTHING:.0%}" if mode == MODES[0] else "-",
        )
        for mode, share in outcome.unknown.items()
    }
    table[f"nothing for {own} held-out items"] = (outcome.own, f"<= {MOST_NOTHING:.0%}")
    if outcome.zero_floor is not None:
        table["control, floor of zero: nothing for GSM8K"] = (outcome.zero_floor, "must fail")
    if outcome.unreachable_floor is not None:
        table["control, floor out of reach: nothing held out"] = (
            outcome.unreachable_floor,
            "must fail",
        )
    for mode, arm in outcome.precision.items():
        table |= {
            f"27 tasks: answered, {mode}": (arm.answered / arm.asked, "-"),
            f"27 tasks: first item of the same task, {mode}": (arm.first / arm.answered, "-"),
            f"27 tasks: all items of the same task, {mode}": (arm.all_items / arm.answered, "-"),
        }
    return table


def _progress(text: str, *, last: bool = False) -> None:
    terminal = sys.stderr.isatty()
    if terminal or last:
        line = f"\r\x1b[K{text}" if terminal else text
        print(line, end="\n" if last else "", file=sys.stderr, flush=True)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run and print; 0 when the line holds for every split."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--development", action="store_true", help="what constants were tuned on")
    parser.add_argument("--json", type=Path, help="write everything to this file")
    given = parser.parse_args(arguments)
    numbers, seeds = DEVELOPMENT if given.development else RESULT
    encoder = cached_encoder()
    items, questions = load_items(), gsm8k(numbers)
    outcomes: list[Outcome] = []
    for seed in seeds:
        print(f"split {seed}", file=sys.stderr)
        first = not outcomes  # what has no line is asked of the first split only: it takes long
        modes = MODES if first else MODES[:1]
        outcome = run(items, questions, seed, encoder=encoder, modes=modes, controls=first)
        outcomes.append(outcome)
        for what, found, line in rows([outcome]):
            print(f"  {what:<52} {found:<10} {line}", file=sys.stderr, flush=True)
        encoder.save()
    print(f"GSM8K {numbers.start}-{numbers.stop - 1}, splits {', '.join(map(str, seeds))}")
    for what, found, line in rows(outcomes):
        print(f"{what:<52} {found:<26} {line}")
    holds = all(outcome.holds for outcome in outcomes) and outcomes[0].controls_fail
    print("the line holds" if holds else "the line does NOT hold")
    if given.json is not None:
        content = {"questions": [numbers.start, numbers.stop], "holds": holds}
        content["splits"] = [asdict(outcome) for outcome in outcomes]
        given.json.write_text(json.dumps(content, indent=1), encoding="utf-8")
    return 0 if holds else 1


if __name__ == "__main__":
    sys.exit(main())
