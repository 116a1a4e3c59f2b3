"""Select: the rule or the lesson of this house and topic whose conditions hold; often nothing."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence

from controllers.prompts import select as prompt
from epimem import compose
from epimem.protocols import Picture, SelectRequest
from epimem.schema.memory_input import Selection
from epimem.schema.tree import Node
from training.worlds.page import Page
from training.worlds.practice import PracticeBank
from training.worlds.recalled import recalled
from training.worlds.shelf import Shelf

UNKNOWN, KEYED = 0.25, 0.35
"""Shares of questions (ours) on what the bank knows nothing of, and about pages with a key."""
FEWEST, MOST = 3, 8
"""Candidates that pass the floor of recall (ours)."""
BELOW = 2
"""Candidates at most that do not (ours)."""
CROPS = 2
"""Crops of a candidate at most (ours): the prompt shows eight in all, one of each first."""


def select(bank: PracticeBank, chance: random.Random) -> tuple[SelectRequest, Selection]:
    """Return a request and what applies to its question."""
    empty = [shelf for shelf in bank.shelves if not shelf.lessons]
    unknown = bool(empty) and chance.random() < UNKNOWN
    shelf = chance.choice(empty if unknown else bank.filled)
    keyed = chance.random() < KEYED
    question, page = bank.question(shelf.house, shelf.topic, chance, with_key=keyed)
    candidates = recalled(
        bank.growth,
        bank.encoder,
        question,
        passing=chance.randint(FEWEST, MOST),
        below=chance.randint(0, BELOW),
    )
    nodes = {each.node_id: bank.growth.tree.node(each.node_id) for each in candidates}
    request = SelectRequest(
        question=question,
        family=bank.world.family,
        candidates=candidates,
        nodes=nodes,
        max_rules=3,
        max_lessons=1,
        strict=chance.random() < 0.2,
        families=dict.fromkeys(nodes, bank.world.family),
        crops=_crops(bank, list(nodes.values())),
        pages=(page.picture,),
    )
    rules, lesson = _applying(shelf, request, page)
    return request, prompt.selection(request, rules, lesson)


def _applying(
    shelf: Shelf, request: SelectRequest, page: Page
) -> tuple[tuple[str, ...], str | None]:
    """Return the rule of the shelf, else its first lesson that says what to do, else any of it."""
    own = {known.node.node_id: known for known in shelf.lessons}
    shown = [each.node_id for each in request.candidates if each.passes]
    fitting = [
        key
        for key in shown
        if (key == shelf.category_id or key in own)
        and not (page.key is not None and excludes_key(request.nodes[key]))
    ]
    if shelf.category_id in fitting:
        return (shelf.category_id,), None
    positive = [key for key in fitting if own[key].positive]
    return (), next(iter(positive or fitting), None)


def excludes_key(node: Node) -> bool:
    """Tell whether the conditions of a rule or lesson exclude pages on which a key is printed."""
    said = node.lesson.applies_when if node.lesson is not None else node.applies_when
    return "key" in said


def _crops(bank: PracticeBank, nodes: Sequence[Node]) -> Mapping[str, tuple[Picture, ...]]:
    tree = bank.growth.tree
    sources = {key: tree.node(key) for node in nodes for key in node.supported_by}
    return {
        key: tuple(bank.crop(item) for item in found[:CROPS])
        for key, found in compose.evidence(nodes, sources).items()
    }
