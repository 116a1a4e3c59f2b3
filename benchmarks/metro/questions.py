"""Questions about maps, in public words, and the references, which only the oracle and the scorer have.

The words name operator (anybody sees it by the frame) and whether a legend is printed; never a shape,
never a station. Construction and evaluation use different words for the same question.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.metro.maps import MetroMap, draw_map
from benchmarks.metro.networks import City, segment
from benchmarks.metro.operators import OPERATORS, Conventions, Operator
from epimem.evaluation import EvalTask

FAMILY = "metro"


@dataclass(frozen=True)
class Wording:
    """How a question is put: with a place for the operator and one for what is said of the legend."""

    text: str
    without: str
    with_one: str

    def of(self, operator: str, *, legend: bool) -> str:
        """Return the question about a map of this operator."""
        said = self.with_one if legend else self.without
        return self.text.format(operator=operator, legend=said)


ASKED = Wording(
    "How many stops does a train make on this {operator} map from the first station to the last, "
    "both counted? {legend}",
    "The map has no legend.",
    "The map has a legend.",
)
"""In construction."""
ASKED_LATER = (
    Wording(
        "At how many stations does the train stop on this map of {operator}, which is printed {legend}? "
        "Count both ends.",
        "without a legend",
        "with a legend",
    ),
    Wording(
        "This is a {operator} map and {legend}. What is the number of stops along the line, the ends "
        "included?",
        "there is no legend on it",
        "there is a legend on it",
    ),
)
"""In evaluation."""


@dataclass(frozen=True, eq=False)
class Question:
    """A map with its public question."""

    id: str
    map: MetroMap
    text: str


class Oracle:
    """Judges answers by the conventions; nothing else knows them but who draws legends."""

    def __init__(self, conventions: Conventions) -> None:
        self._conventions = dict(conventions)

    def reference(self, drawn: MetroMap) -> str:
        """Return the number of stops: stations whose marker does not mean closed."""
        closed = self._conventions[drawn.operator.name]
        return str(sum(shape != closed for shape in drawn.markers))

    def right(self, drawn: MetroMap, answer: str) -> bool:
        """Tell whether an answer is the reference."""
        return answer == self.reference(drawn)


def construction_question(
    number: int, cities: Sequence[City], operator: Operator, chance: random.Random
) -> Question:
    """Return a question on a map without a legend, in the words of construction."""
    drawn = draw_map(segment(cities, chance), operator, chance)
    return Question(f"c{number}", drawn, ASKED.of(operator.name, legend=False))


def evaluation_questions(
    cities: Sequence[City], conventions: Conventions, *, count: int, seed: int
) -> list[Question]:
    """Return questions in turn over operators and legends: half of each operator's have one."""
    chance = random.Random(f"metro questions {seed}")
    found = []
    for number in range(count):
        operator = OPERATORS[number % len(OPERATORS)]
        legend = has_legend(f"e{number}")
        closed = conventions[operator.name] if legend else None
        drawn = draw_map(segment(cities, chance), operator, chance, closed=closed)
        asked = chance.choice(ASKED_LATER).of(operator.name, legend=legend)
        found.append(Question(f"e{number}", drawn, asked))
    return found


def has_legend(task_id: str) -> bool:
    """Tell by the id of an evaluation question whether its map prints a legend."""
    return int(task_id.removeprefix("e")) // len(OPERATORS) % 2 == 1


def stream(questions: Sequence[Question], oracle: Oracle, folder: Path) -> list[EvalTask]:
    """Write the maps as files and return the tasks, references sealed."""
    folder.mkdir(parents=True, exist_ok=True)
    tasks = []
    for question in questions:
        drawn = question.map
        path = folder / f"{drawn.image_id}.png"
        if not path.exists():
            path.write_bytes(drawn.png)
        tasks.append(
            EvalTask(
                id=question.id,
                question=question.text,
                images=(str(path),),
                image_ids=(drawn.image_id,),
                family=FAMILY,
                group=drawn.segment.city,
                reference=oracle.reference(drawn),
            )
        )
    return tasks
