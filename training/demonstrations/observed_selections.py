"""From a worked example of a selection to the requests of select and gate.

The questions were written for the examples and have no picture of their own: what it would show stands
in words behind the question.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal

from epimem import compose
from epimem.protocols import GateRequest, SelectRequest
from epimem.schema.memory_input import Budget, Candidate, Selection
from epimem.schema.tree import Node
from training.demonstrations.observed_lessons import ObservedLessons
from training.demonstrations.record import OperationName

Made = tuple[OperationName, Any, Any]
Example = Mapping[str, Any]
Rules = Mapping[str, Node]


def select(
    given: Example, target: Example, lessons: ObservedLessons, rules: Rules
) -> Iterator[Made]:
    """Yield the selection of an example, and its gate."""
    nodes = [
        rules[each["rule"]] if "rule" in each else lessons.node(each["lesson"])
        for each in given["candidates"]
    ]
    families = {node.node_id: _family(node, lessons) for node in nodes}
    seen = given.get("image_description", "")
    # The question has no picture of its own: what it would show is said in words.
    question = f"{given['question']}\n(The picture shows: {seen})" if seen else given["question"]
    request = SelectRequest(
        question=question,
        family="",
        candidates=tuple(_candidate(node, at) for at, node in enumerate(nodes, 1)),
        nodes={node.node_id: node for node in nodes},
        max_rules=Budget().max_rules,
        max_lessons=Budget().max_lessons,
        families=families,
        crops=lessons.crops(nodes),
    )
    lesson = lessons.node(target["lesson"]) if target.get("lesson") else None
    chosen = [*(rules[house] for house in target["rules"]), *([lesson] if lesson else [])]
    value = Selection(
        rule_ids=tuple(rules[house].node_id for house in target["rules"]),
        lesson_id=lesson.node_id if lesson is not None else None,
    )
    yield "select", request, value
    yield from _gate(question, chosen, target["gate"], lessons)


def _gate(
    question: str, chosen: Sequence[Node], value: Literal[0, 1], lessons: ObservedLessons
) -> Iterator[Made]:
    """Yield the gate of a selection, where there is evidence to decide on."""
    sources = lessons.sources()
    evidence = compose.evidence(chosen, sources)
    if not any(evidence.values()):
        return
    request = GateRequest(
        question=question,
        question_images=1,
        items=compose.items(chosen, sources),
        crops={key: len(found) for key, found in evidence.items()},
        notes={key: tuple(item.note for item in found) for key, found in evidence.items()},
    )
    yield "gate", request, value


def _candidate(node: Node, at: int) -> Candidate:
    return Candidate(
        node_id=node.node_id, kind=node.kind, rank_score=round(1 / (60 + at), 6), passes=True
    )


def _family(node: Node, lessons: ObservedLessons) -> str:
    ids = {each.node_id: task_id for task_id, each in lessons.nodes.items()}
    key = node.node_id if node.node_id in ids else next(iter(node.supported_by), "")
    return lessons.seen[ids[key]].family if key in ids else ""
