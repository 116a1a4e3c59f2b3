"""A small task stream that needs the right lesson and its crop: stations on line diagrams.

Twelve houses draw lines as rows of coloured stations. Each has a hidden convention: stations of one
colour are left out, or counted twice. No question says which; a lesson does, in words (left out or
twice) and in the picture it shows (the colour). The solver is code: it counts pixels, reads the words
of the first item that gives a convention, and takes the colour from the pixels of its crop.
"""

from __future__ import annotations

import io
import json
import random
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from PIL import Image

from epimem import Evidence, ExperienceMemory, IndexText, LessonDraft, Region
from epimem.config import Config, EncoderConfig
from epimem.evaluation import EvalTask, Handout, PublicTask, SolverAnswer

HOUSES = (
    "Rubra",
    "Verda",
    "Kestrel",
    "Norden",
    "Palisade",
    "Quorum",
    "Tamarind",
    "Umbra",
    "Wexford",
    "Yarrow",
    "Zephyr",
    "Ibis",
)
COLORS = (
    (200, 30, 30),
    (30, 140, 30),
    (30, 60, 200),
    (220, 160, 0),
    (140, 40, 160),
    (20, 160, 170),
)
PAPER = (255, 255, 255)
CELL = 8
LEFT_OUT = "Leave out every station drawn in the color of the marker shown, then count the rest."
TWICE = "Count every station drawn in the color of the marker shown twice, and the others once."


@dataclass(frozen=True)
class Convention:
    color: tuple[int, int, int]
    twice: bool

    def count(self, stations: Counter[tuple[int, int, int]]) -> int:
        extra = stations[self.color]
        return stations.total() + (extra if self.twice else -extra)


def convention(house: str) -> Convention:
    number = HOUSES.index(house)
    return Convention(COLORS[number % len(COLORS)], twice=number >= len(COLORS))


def draw(colors: Sequence[tuple[int, int, int]]) -> Image.Image:
    """Return stations as squares in a row, a blank cell between two."""
    image = Image.new("RGB", ((2 * len(colors) + 1) * CELL, 3 * CELL), PAPER)
    for place, color in enumerate(colors):
        left = (2 * place + 1) * CELL
        image.paste(color, (left, CELL, left + CELL, 2 * CELL))
    return image


def png(image: Image.Image) -> bytes:
    buffer = io.BytesIO()
    image.save(buffer, "PNG")
    return buffer.getvalue()


def read(path: str | Path) -> Counter[tuple[int, int, int]]:
    """Count the stations of an image by color."""
    with Image.open(path) as image:
        rows = image.convert("RGB")
        middle = [rows.getpixel((x, rows.height // 2)) for x in range(rows.width)]
    found: Counter[tuple[int, int, int]] = Counter()
    for before, now in zip([PAPER, *middle], middle, strict=False):
        if now not in {before, PAPER}:
            found[now] += 1
    return found


def stations(house: str, number: int) -> list[tuple[int, int, int]]:
    """Return the stations of a line: each color once at least, in an order of its own."""
    draw_ = random.Random(f"{house} {number}")
    chosen = [*COLORS, *draw_.choices(COLORS, k=draw_.randint(4, 9))]
    draw_.shuffle(chosen)
    return chosen


def lesson(house: str, image_id: str, size: tuple[int, int], *, scope: bool = True) -> LessonDraft:
    """Return what the house's convention is; the marker it speaks of is in the picture only."""
    width, height = size
    marker = Region(x0=CELL, y0=CELL, x1=2 * CELL, y1=2 * CELL, width=width, height=height)
    name = f"{house} " if scope else ""
    return LessonDraft(
        guidance=TWICE if convention(house).twice else LEFT_OUT,
        applies_when=f"A {name}line diagram.",
        index=IndexText(
            topic="stations that count differently",
            scope=f"{name}line diagrams" if scope else "",
            question_anchor=f"How many stations are there on a {name}line diagram?",
        ),
        evidence=(Evidence(image_id=image_id, region=marker, note="the marker"),),
        family="lines",
        verdict_source="oracle",
    )


def build(folder: Path, *, scope: bool = True, supports: int = 2) -> Path:
    """Make the frozen bank of all conventions, each learned from `supports` questions."""
    config = Config(encoder=EncoderConfig(model="table:64"))
    with ExperienceMemory.create(folder, config) as memory:
        for house in HOUSES:
            image = memory.add_image(png(draw([convention(house).color])))
            draft = lesson(house, image.image_id, (image.width, image.height), scope=scope)
            for number in range(supports):
                key = f"{house}-{number}" if scope else f"{number}-{house}"
                memory.contribute(draft.model_copy(update={"question_key": key}))
        memory.maintain()
        memory.freeze()
    return folder


def tasks(folder: Path, each: int = 3) -> list[EvalTask]:
    """Draw the questions: `each` lines of every house."""
    folder.mkdir(parents=True, exist_ok=True)
    found = []
    for house in HOUSES:
        for number in range(each):
            line = stations(house, number)
            path = folder / f"{house}-{number}.png"
            draw(line).save(path)
            found.append(
                EvalTask(
                    id=f"{house}-{number}",
                    question=f"The {house} diagram shows line {number}: how many stations count?",
                    images=(str(path),),
                    family="lines",
                    reference=str(convention(house).count(Counter(line))),
                )
            )
    return found


def answer(image: str, text: str, crops: Sequence[str | Path]) -> str:
    """Solve a question from pixels, with what the memory says and shows."""
    line = read(image)
    places = {text.find(words): words == TWICE for words in (LEFT_OUT, TWICE) if words in text}
    if not places:
        return str(line.total())
    twice = places[min(places)]
    marker = Counter(shown for crop in crops[:1] for shown in read(crop))
    if not marker:
        return str(line.total())
    return str(Convention(marker.most_common(1)[0][0], twice).count(line))


def solver(task: PublicTask, memory: Handout | None, seed: int) -> SolverAnswer:
    del seed
    text = memory.text if memory is not None else ""
    return SolverAnswer(answer(task.images[0], text, memory.crops if memory is not None else ()))


def serve() -> None:
    """Be a solver that is a program: one JSON line in, one out."""
    for line in sys.stdin:
        asked = json.loads(line)
        memory = asked["memory"] or {"text": "", "crops": []}
        said = answer(asked["images"][0], memory["text"], memory["crops"])
        sys.stdout.write(json.dumps({"id": asked["id"], "answer": said}) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    serve()
