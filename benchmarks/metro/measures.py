"""What is measured on a bank itself: which regions became evidence, and whose rules there are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from benchmarks.metro.learner import Episode
from benchmarks.metro.operators import OPERATORS
from benchmarks.metro.run_record import region_of
from epimem import ExperienceMemory
from epimem.evaluation.side_banks import lesson_of, live_lessons
from epimem.protocols import Derived, DeriveRequest, GateRequest, MemoryController, Reply
from epimem.schema.ids import question_key
from epimem.schema.tree import Node


@dataclass(frozen=True)
class RegionHits:
    """Of how many lessons the first region is the decisive one; what drawing one look would give."""

    lessons: int
    first: int
    regions: int
    decisive: int
    by_chance: float


@dataclass(frozen=True)
class Rules:
    """Rules of a tree: how many, how many of one operator only, and for how many operators."""

    rules: int
    of_one: int
    operators: int


def region_hits(memory: ExperienceMemory, episodes: Sequence[Episode]) -> RegionHits:
    """Compare the evidence of the lessons of a bank with the looks of their episodes."""
    made = {_key(episode): episode for episode in episodes}
    found = [
        (lesson, made[lesson.question_key])
        for lesson in map(lesson_of, live_lessons(memory, memory.config.namespace))
        if lesson.question_key in made
    ]
    first = regions = decisive = 0
    for lesson, episode in found:
        wanted = region_of(episode, episode.decisive)
        own = [item for item in lesson.evidence if item.image_id == episode.question.map.image_id]
        first += bool(own) and own[0].region == wanted
        regions += len(own)
        decisive += sum(item.region == wanted for item in own)
    chance = [1 / len(episode.looks) for _, episode in found]
    return RegionHits(len(found), first, regions, decisive, sum(chance) / max(1, len(chance)))


def rules_of(memory: ExperienceMemory) -> Rules:
    """Count the rules of the tree and the operators behind each."""
    tree = memory.tree()
    rules = [] if tree is None else [node for node in tree.walk() if node.kind == "rule"]
    behind = [_operators(memory, node) for node in rules]
    named = frozenset().union(*behind)
    return Rules(len(rules), sum(len(names) == 1 for names in behind), len(named))


def rules_for(memory: ExperienceMemory, operator: str) -> list[Node]:
    """Return the rules that rest on lessons of an operator."""
    tree = memory.tree()
    rules = [] if tree is None else [node for node in tree.walk() if node.kind == "rule"]
    return [node for node in rules if operator in _operators(memory, node)]


def plain(found: RegionHits | Rules) -> dict[str, Any]:
    """Return the figures as JSON data."""
    return asdict(found)


class WithoutScopes:
    """Sabotage: a memory controller whose lessons have lost their scope."""

    def __init__(self, controller: MemoryController) -> None:
        self._controller = controller
        self.name = f"{controller.name}, no scopes"
        self.prompt_version = controller.prompt_version
        self.concurrency = getattr(controller, "concurrency", 1)

    def derive(self, requests: Sequence[DeriveRequest]) -> Sequence[Reply[Derived]]:
        """Return what the controller derives, with empty scopes."""
        return [_without_scopes(reply) for reply in self._controller.derive(requests)]

    def gate(self, requests: Sequence[GateRequest]) -> Sequence[Reply[Any]]:
        """Return what the controller decides."""
        return self._controller.gate(requests)

    def update(self, requests: Sequence[Any]) -> Sequence[Reply[Any]]:
        """Return what the controller proposes."""
        return self._controller.update(requests)


def _without_scopes(reply: Reply[Derived]) -> Reply[Derived]:
    if reply.value is None:
        return reply
    drafts = [
        draft.model_copy(update={"index": draft.index.model_copy(update={"scope": ""})})
        for draft in reply.value.drafts
    ]
    return Reply(Derived(tuple(drafts), reply.value.nothing), usage=reply.usage)


def _operators(memory: ExperienceMemory, node: Node) -> frozenset[str]:
    """Return the operators whose lessons support a node, by the scopes of those lessons."""
    lessons: Mapping[str, Node] = memory.bank.nodes(node.supported_by)
    scopes = [lesson_of(lesson).index.scope for lesson in lessons.values()]
    return frozenset(
        operator.name for operator in OPERATORS if any(operator.name in scope for scope in scopes)
    )


def _key(episode: Episode) -> str:
    return question_key(episode.question.text, (episode.question.map.image_id,))
