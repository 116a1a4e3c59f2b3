"""What lessons of one category have in common, and where they conflict: exact, as their marks are known.

A lesson names its mark, or leaves it to its picture. Advice is shared by the larger of these two kinds
(of equals the one that names), as words alone can tell. Lessons that name different marks conflict; the
mark that most of them name leads. Lessons that were judged wrong support nothing. Pages with a key are
excluded where at least half of the supporting lessons exclude them.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence

from epimem.schema.lesson import IndexText
from epimem.schema.proposal import Consolidate
from epimem.schema.tree import Conflict, ConflictSide, Node
from training.worlds.shelf import Known
from training.worlds.wordings import Words

LEAST = 2
"""Lessons that must give an advice before it is common."""


def agreed(
    words: Words, node: Node, lessons: Sequence[Known], chance: random.Random
) -> Consolidate:
    """Return the consolidation of a category whose lessons are on one topic of one house.

    Args:
        words: of topic and house.
        node: the category; guidance that still holds is kept to the letter, and so is its name.
        lessons: in the order of their ids.
        chance: of the wording.
    """
    leading, supporters = _largest([known for known in lessons if known.positive])
    name = {} if node.title and node.index.text else _named(words)
    if len(supporters) < LEAST:
        return Consolidate(node_id=node.node_id, **name)
    guidance = words.common(chance, leading)
    if node.guidance and words.what(leading) in node.guidance:
        guidance = node.guidance
    unkeyed = 2 * sum(known.unkeyed for known in supporters) >= len(supporters)
    return Consolidate(
        node_id=node.node_id,
        guidance=guidance,
        applies_when=words.condition(unkeyed=unkeyed),
        cautions=_shared_cautions(supporters),
        supported_by=tuple(known.node.node_id for known in supporters),
        conflicts=_conflicts(words, guidance, leading, lessons),
        **name,
    )


def category_index(words: Words) -> IndexText:
    """Return the index text of a category of lessons on one topic of one house."""
    return IndexText(
        topic=f"{words.world.family}: {words.topic.name}",
        scope=words.scope(),
        question_anchor=words.general_question(),
    )


def _named(words: Words) -> dict[str, object]:
    return {"title": words.title(), "index": category_index(words)}


def _largest(lessons: Sequence[Known]) -> tuple[str | None, list[Known]]:
    """Return the mark (None: left to the picture) that most lessons have, and these lessons."""
    count = Counter(known.option for known in lessons)
    if not count:
        return None, []
    option = max(count, key=lambda name: (count[name], name is not None, name or ""))
    return option, [known for known in lessons if known.option == option]


def _shared_cautions(lessons: Sequence[Known]) -> tuple[str, ...]:
    """Return the cautions that at least two lessons have, in order of coming up."""
    count = Counter(
        text for known in lessons if known.node.lesson for text in known.node.lesson.cautions
    )
    return tuple(text for text, times in count.items() if times >= LEAST)


def _conflicts(
    words: Words, guidance: str, leading: str | None, lessons: Sequence[Known]
) -> tuple[Conflict, ...]:
    if leading is None:
        return ()
    sides: dict[str, list[Known]] = {}
    for known in lessons:
        if known.positive and known.option is not None:
            sides.setdefault(known.option, []).append(known)
    first = ConflictSide(
        statement=guidance,
        applies_when=words.condition(unkeyed=False),
        items=tuple(known.node.node_id for known in sides[leading]),
    )
    return tuple(
        Conflict(
            first=first,
            second=ConflictSide(
                statement=words.statement(option),
                applies_when=words.condition(unkeyed=False),
                items=tuple(known.node.node_id for known in found),
            ),
        )
        for option, found in sides.items()
        if option != leading
    )
