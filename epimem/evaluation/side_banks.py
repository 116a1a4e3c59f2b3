"""Side banks: the lessons of a bank again, as they are or permuted, as controls.

    flat       every live lesson, never maintained: no tree, no rules
    shuffled   every live lesson with the content of another, maintained with the same settings

Everything goes through the facade: images are cut out whole and added again, lessons are contributed
anew, once for each question that supports them. Feedback counters and runs are not copied.
"""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from epimem.bank.intake import Caller
from epimem.memory import ExperienceMemory
from epimem.protocols import Encoder
from epimem.schema.lesson import Evidence, Lesson, LessonDraft, Support
from epimem.schema.region import Region
from epimem.schema.tree import Node

Progress = Callable[[str, int, int], None]
# What a lesson says; the rest says which episode it came from and where it is found.
CONTENT = ("guidance", "cautions", "body", "title", "evidence", "statements", "tags", "pair")


@dataclass(frozen=True)
class Stored:
    """A lesson to contribute: the episode that is searched for, and whose content it states."""

    episode: Node
    content: Node

    @property
    def draft(self) -> LessonDraft:
        """The draft: index text, conditions and provenance of the episode, content of the other."""
        own, other = lesson_of(self.episode), lesson_of(self.content)
        fields = {name: getattr(own, name) for name in LessonDraft.model_fields}
        fields.update({name: getattr(other, name) for name in CONTENT})
        fields["evidence"] = tuple(item for item in other.evidence if item.state == "present")
        # Authority was settled when the lesson was stored, and parents have other ids here.
        fields["parents"] = ()
        return LessonDraft.model_construct(**fields)


def lesson_of(node: Node) -> Lesson:
    """Return the lesson of a leaf."""
    assert node.lesson is not None
    return node.lesson


def live_lessons(memory: ExperienceMemory, namespace: str) -> list[Node]:
    """Return every live lesson of a namespace, in the tree or waiting, in order of creation."""
    tree = memory.tree(namespace)
    placed = list(tree.lessons()) if tree is not None else []
    waiting = memory.bank.waiting(namespace)
    inbox = memory.bank.inbox(namespace, limit=waiting) if waiting else ()
    return sorted([*placed, *inbox], key=lambda node: node.node_id)


def permuted(lessons: Sequence[Node], seed: int) -> list[Stored]:
    """Return the lessons with their contents permuted over the episodes, uniformly at random.

    Only contents of the same form, polarity and audience change places, so that the bank holds as
    much of each as before. A content may come back to its own place, as in any permutation.
    """
    shelves: dict[tuple[object, ...], list[Node]] = {}
    for node in lessons:
        shelves.setdefault((node.shelf, lesson_of(node).polarity), []).append(node)
    pairs: dict[str, Stored] = {}
    for place, shelf in enumerate(shelves.values()):
        contents = list(shelf)
        random.Random(f"shuffled {seed} {place}").shuffle(contents)  # noqa: S311 - no secret
        pairs.update(
            {node.node_id: Stored(node, other) for node, other in zip(shelf, contents, strict=True)}
        )
    return [pairs[node.node_id] for node in lessons]


def flat_bank(
    memory: ExperienceMemory,
    folder: Path,
    *,
    namespace: str,
    encoder: Encoder | None = None,
    progress: Progress | None = None,
) -> ExperienceMemory:
    """Make the bank of the same lessons without a tree; arguments as for `side_bank`."""
    stored = [Stored(node, node) for node in live_lessons(memory, namespace)]
    return side_bank(
        memory,
        folder,
        stored,
        namespace=namespace,
        maintain=False,
        encoder=encoder,
        progress=progress,
    )


def shuffled_bank(
    memory: ExperienceMemory,
    folder: Path,
    *,
    namespace: str,
    seed: int,
    encoder: Encoder | None = None,
    progress: Progress | None = None,
) -> ExperienceMemory:
    """Make the bank of permuted lessons with a tree; arguments as for `side_bank`."""
    return side_bank(
        memory,
        folder,
        permuted(live_lessons(memory, namespace), seed),
        namespace=namespace,
        maintain=True,
        encoder=encoder,
        progress=progress,
    )


def side_bank(
    memory: ExperienceMemory,
    folder: Path,
    stored: Sequence[Stored],
    *,
    namespace: str,
    maintain: bool,
    encoder: Encoder | None = None,
    progress: Progress | None = None,
) -> ExperienceMemory:
    """Contribute lessons to a new bank with the settings of another, freeze it, open it to evaluate.

    Args:
        memory: gives settings, encoder, controllers and images.
        folder: of the new bank; what is there is replaced.
        stored: in order of contribution.
        namespace: as in the bank.
        maintain: whether to build the tree.
        encoder: the same one in another wrapping; that of `memory` by default.
        progress: called with (phase, done, total); may raise to stop.
    """
    drop_bank(folder)
    folder.parent.mkdir(parents=True, exist_ok=True)
    encoder = encoder or memory.encoder
    with ExperienceMemory.create(
        folder, memory.config, encoder=encoder, controllers=memory.controllers
    ) as made:
        for done, item in enumerate(stored):
            if progress is not None:
                progress(f"bank {folder.name}", done, len(stored))
            _contribute(memory, made, item, namespace)
        if maintain:
            made.maintain(progress=progress)
        made.freeze()
    return ExperienceMemory.open(
        folder,
        read_only=True,
        phase="evaluation",
        encoder=encoder,
        controllers=memory.controllers,
    )


def drop_bank(folder: Path) -> None:
    """Delete a side bank with what lies beside it."""
    shutil.rmtree(folder, ignore_errors=True)
    shutil.rmtree(folder.with_name(folder.name + ".side"), ignore_errors=True)


def _contribute(
    source: ExperienceMemory, target: ExperienceMemory, stored: Stored, namespace: str
) -> None:
    """Contribute a lesson with its images, once for each question that supports it."""
    draft, episode = stored.draft, stored.episode
    for evidence in {item.image_id: item for item in draft.evidence}.values():
        target.add_image(_image(source, evidence))
    first, *others = lesson_of(episode).supports or (Support(question_key=""),)
    _hand_in(target, draft, first, episode, namespace)
    bare = draft.model_copy(update={"evidence": (), "cautions": (), "run_ids": ()})
    for support in others:
        _hand_in(target, bare, support, episode, namespace)


def _hand_in(
    target: ExperienceMemory, draft: LessonDraft, support: Support, episode: Node, namespace: str
) -> None:
    """Contribute a draft as the question and the contributor of one support gave it."""
    lesson = lesson_of(episode)
    target.caller = Caller(
        contributor=support.contributor or lesson.contributor,
        organisation=support.organisation or lesson.organisation,
        authority=lesson.authority,
    )
    target.contribute(
        draft.model_copy(
            update={
                "question_key": support.question_key or lesson.question_key,
                "verdict_source": support.verdict_source,
                "run_ids": draft.run_ids or ((support.run_id,) if support.run_id else ()),
            }
        ),
        namespace=namespace,
    )


def _image(memory: ExperienceMemory, evidence: Evidence) -> bytes:
    """Return a source image of a bank as PNG: the crop that is the whole of it."""
    width, height = evidence.region.width, evidence.region.height
    blob = memory.bank.image(evidence.image_id)
    whole = Region.whole(width, height)
    return memory.bank.images.crop(blob, whole, margin=0.0, max_pixels=width * height).png


class RememberingEncoder:
    """An encoder that keeps every vector it made: permuting lessons asks for the same texts again.

    One bank of a seed after the other costs no encoding then; 10,000 lessons keep some 45 MB.
    """

    def __init__(self, encoder: Encoder) -> None:
        self._encoder = encoder
        self.name, self.dimension = encoder.name, encoder.dimension
        self.fingerprint = encoder.fingerprint
        self._known: dict[str, NDArray[np.float32]] = {}

    def encode(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return an array of shape (len(texts), dimension), each row of unit length."""
        missing = [text for text in dict.fromkeys(texts) if text not in self._known]
        if missing:
            self._known.update(zip(missing, self._encoder.encode(missing), strict=True))
        if not texts:
            return np.zeros((0, self.dimension), dtype=np.float32)
        return np.stack([self._known[text] for text in texts])
