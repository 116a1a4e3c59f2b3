"""The lessons of a folder of observed runs, in a bank, so that they are nodes as a bank has them.

runs.jsonl      task_id, family, house, question, image
lessons.jsonl   task_id, guidance, applies_when, cautions, topic, scope, question_anchor,
                evidence {region (0..1000), note}
images/         the pictures that the runs name
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from epimem import compose, pictures
from epimem.bank.bank import Bank
from epimem.bank.encoder import NodeVectors, load_encoder, node_vectors
from epimem.config import Config, EncoderConfig
from epimem.errors import EpimemError, NotFoundError, RecordError, StorageError
from epimem.memory import ExperienceMemory
from epimem.protocols import Encoder, Picture
from epimem.schema import strict_json
from epimem.schema.ids import counting_ids, question_key
from epimem.schema.lesson import Evidence, IndexText, LessonDraft
from epimem.schema.region import Region
from epimem.schema.tree import Node
from epimem.serving import STAND_IN

RUNS, LESSONS, EXAMPLES = "runs.jsonl", "lessons.jsonl", "organizer.jsonl"
NAMESPACE = "default"


@dataclass(frozen=True)
class Seen:
    """What is known of one lesson beside its node: whose page it is from, and what kind of task."""

    house: str
    family: str


@dataclass(frozen=True)
class ObservedLessons:
    """Lessons by their task id, in a bank that has their pictures.

    Attributes:
        bank: open as long as these are used.
        nodes: by task id.
        seen: by task id.
        refused: lessons that the bank refused, with the reason, by task id.
        encoder: for likenesses.
    """

    bank: Bank
    nodes: Mapping[str, Node]
    seen: Mapping[str, Seen]
    refused: Mapping[str, str]
    encoder: Encoder

    def node(self, task_id: str) -> Node:
        """Return a lesson.

        Raises:
            RecordError: there is none, or it was refused.
        """
        if task_id not in self.nodes:
            why = self.refused.get(task_id, "there is no such lesson")
            raise RecordError(f"{task_id}: {why}", field=LESSONS)
        return self.nodes[task_id]

    def of(self, task_ids: Sequence[str]) -> tuple[Node, ...]:
        """Return lessons in the order of their task ids."""
        return tuple(self.node(task_id) for task_id in task_ids)

    def vectors(self, texts: Sequence[IndexText]) -> list[NodeVectors]:
        """Return the vectors of index texts, in order."""
        return node_vectors(self.encoder, texts)

    def sources(self) -> dict[str, Node]:
        """Return all lessons by node id."""
        return {node.node_id: node for node in self.nodes.values()}

    def crops(self, nodes: Sequence[Node]) -> dict[str, tuple[Picture, ...]]:
        """Return pictures of the evidence of nodes, by node id."""
        return pictures.crops(self.bank, compose.evidence(nodes, self.sources()))


def new_bank(folder: Path, encoder: Encoder | None) -> ExperienceMemory:
    """Return a new bank in a folder; an earlier one is removed."""
    shutil.rmtree(folder, ignore_errors=True)
    settings = EncoderConfig(model="none" if encoder is None else encoder.name)
    return ExperienceMemory.create(
        folder, Config(encoder=settings), encoder=encoder, ids=counting_ids()
    )


def contributed(source: Path, memory: ExperienceMemory, encoder: Encoder | None) -> ObservedLessons:
    """Hand the lessons of a source to a bank and return them as its nodes.

    Raises:
        NotFoundError: the folder lacks a file.
        RecordError: a line is no JSON object.
    """
    runs = {str(line.get("task_id")): line for line in lines_of(source / RUNS)}
    ids: dict[str, str] = {}
    refused: dict[str, str] = {}
    for line in lines_of(source / LESSONS):
        task_id = str(line.get("task_id"))
        try:
            draft = _draft(line, runs[task_id], source, memory)
            ids[task_id] = memory.contribute(draft).id or ""
        except (EpimemError, KeyError, TypeError, ValueError) as error:
            refused[task_id] = str(error) or type(error).__name__
    nodes = memory.bank.nodes(list(ids.values()))
    seen = {
        key: Seen(str(line.get("house", "")), str(line.get("family", "")))
        for key, line in runs.items()
    }
    found = {task_id: nodes[key] for task_id, key in ids.items() if key in nodes}
    used = encoder if encoder is not None else load_encoder(STAND_IN)
    assert used is not None
    return ObservedLessons(memory.bank, found, seen, refused, used)


def lines_of(path: Path) -> Iterator[dict[str, Any]]:
    """Yield the objects of a JSON Lines file.

    Raises:
        NotFoundError: no such file.
        RecordError: a line is no JSON object.
    """
    try:
        data = path.read_bytes()
    except (FileNotFoundError, NotADirectoryError) as error:
        raise NotFoundError("no such file", field="--observed", got=str(path)) from error
    except OSError as error:
        raise StorageError("the file cannot be read", field=str(path)) from error
    for number, line in enumerate(data.split(b"\n"), 1):
        if line.strip():
            value = strict_json.loads(line)
            if not isinstance(value, dict):
                raise RecordError("a JSON object is wanted", field=f"{path.name}:{number}")
            yield value


def _draft(
    line: Mapping[str, Any], run: Mapping[str, Any], source: Path, memory: ExperienceMemory
) -> LessonDraft:
    image = memory.add_image((source / str(run["image"])).read_bytes())
    evidence: tuple[Evidence, ...] = ()
    if line.get("evidence"):
        box = tuple(line["evidence"]["region"])
        region = Region.from_scaled(box, image.width, image.height)
        note = line["evidence"].get("note", "")
        evidence = (Evidence(image_id=image.image_id, region=region, note=note),)
    cautions = line.get("cautions")
    return LessonDraft.read(
        {
            "guidance": line["guidance"],
            "applies_when": line.get("applies_when", ""),
            "cautions": [cautions] if cautions else [],
            "title": line.get("topic", ""),
            "index": {name: line.get(name, "") for name in IndexText.model_fields},
            "evidence": [item.plain() for item in evidence],
            "family": run.get("family", ""),
            "question_key": question_key(run["question"], [image.image_id]),
            "group_key": run.get("house", ""),
            "verdict_source": "oracle",
        }
    )
