"""Select: which candidates apply to a question, with a reason for every one of them.

A candidate applies when it passed the floor of recall, may be handed out (no loser of a conflict,
no bare category), is of the question's family where both are known, and its scope does not
contradict the question. Taken are rules and summaries that are near, rules first, in order of
recall; then at most one lesson, a positive one before one that says what was judged wrong. Nothing
is a normal answer.

A rule is as near as its best lesson or itself, and near among the first `NEAR` that apply (ours): a
rule from further down is about other questions, and few readers can afford to try it. What says the
same as something taken before it is passed over, so that no room goes to saying it twice (ours).

A scope contradicts a question (ours) when the question lacks a name of it and either names
another candidate's scope in full, or names something that the candidate's own question and
guidance do not, although one of these holds the missing name: "Norden Statistik" is expected in a
question like "what is the total in a Norden Statistik chart", and "Norden Energi" there is
another house. A question that names nothing contradicts nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from controllers.embedded.claims import Claim, segments
from controllers.embedded.names import name_words
from controllers.embedded.scopes import Scope, names_in, node_anchor, node_scope
from controllers.embedded.words import tokens
from epimem.operations.rules import may_select
from epimem.protocols import SelectRequest
from epimem.schema.memory_input import Candidate, Selection, Verdict
from epimem.schema.tree import Node

NEAR = 5
SAME_ADVICE_MIN = 0.8


@dataclass(frozen=True)
class _Asked:
    """The question: its text, family, names, the scopes it names in full; candidates' families."""

    text: str
    family: str
    families: Mapping[str, str]
    names: frozenset[str]
    named_scopes: tuple[Scope, ...]


def select(request: SelectRequest) -> Selection:
    """Return rules and at most one lesson, or nothing; a verdict for every candidate."""
    nodes = {
        candidate.node_id: request.nodes[candidate.node_id]
        for candidate in request.candidates
        if candidate.node_id in request.nodes
    }
    scopes = {key: node_scope(node, request.family) for key, node in nodes.items()}
    asked = _asked(request, scopes)
    refused = {
        candidate.node_id: _refusal(candidate, nodes, scopes, asked)
        for candidate in request.candidates
    }
    fitting = [nodes[key] for key in refused if not refused[key]]
    rules = _rules(request, fitting)
    lesson = _lesson(request, fitting, rules)
    chosen = {node.node_id for node in rules} | ({lesson.node_id} if lesson is not None else set())
    verdicts = []
    for key, reason in refused.items():
        taken = key in chosen
        said = reason or (
            _accepted(nodes[key]) if taken else _passed_over(nodes[key], fitting, rules, request)
        )
        verdicts.append(Verdict(node_id=key, chosen=taken, reason=said))
    return Selection(
        rule_ids=tuple(node.node_id for node in rules),
        lesson_id=lesson.node_id if lesson is not None else None,
        verdicts=tuple(verdicts),
    )


def _asked(request: SelectRequest, scopes: Mapping[str, Scope]) -> _Asked:
    named = tuple(
        scope
        for scope in dict.fromkeys(scopes.values())
        if scope.names and names_in(request.question, scope.names) == scope.names
    )
    families = {
        key: node.lesson.family for key, node in request.nodes.items() if node.lesson is not None
    }
    return _Asked(
        text=request.question,
        family=request.family,
        families={**families, **request.families},
        names=name_words(request.question),
        named_scopes=named,
    )


def _refusal(
    candidate: Candidate,
    nodes: Mapping[str, Node],
    scopes: Mapping[str, Scope],
    asked: _Asked,
) -> str:
    """Return why a candidate does not apply, empty when it does."""
    node = nodes.get(candidate.node_id)
    if node is None:
        return "not shown"
    if not candidate.passes:
        return "no signal of recall reached its floor"
    if not may_select(node):
        return "a bare category" if node.kind == "category" else "lost a conflict"
    family = asked.families.get(candidate.node_id, "")
    if family and asked.family and family.casefold() != asked.family.casefold():
        return f"of the family {family}, the question is of {asked.family}"
    return _other_scope(scopes[candidate.node_id], node, asked)


def _other_scope(scope: Scope, node: Node, asked: _Asked) -> str:
    missing = scope.names - names_in(asked.text, scope.names)
    if not missing:
        return ""
    absent = ", ".join(sorted(missing))
    if any(not named.agrees(scope) for named in asked.named_scopes):
        return f"for another scope: the question does not name {absent}"
    guidance = node.lesson.guidance if node.lesson is not None else node.guidance
    pattern = {token.casefold() for token in tokens(f"{node_anchor(node)}\n{guidance}")}
    own = asked.names - pattern
    if missing & pattern and own:
        return f"for another scope: the question names {', '.join(sorted(own))}, not {absent}"
    return ""


def _rules(request: SelectRequest, fitting: list[Node]) -> list[Node]:
    """Return the rules and summaries to take, best first."""
    near = _near(fitting)
    rules: list[Node] = []
    for kind in ("rule", "summary"):
        for node in near:
            if node.kind == kind and not _repeats(node, rules):
                rules.append(node)
    return rules[: request.max_rules]


def _near(fitting: list[Node]) -> list[Node]:
    """Return the rules and summaries that stand near the question, in order of nearness."""
    places = {node.node_id: place for place, node in enumerate(fitting)}
    best = {
        node.node_id: min(
            places[key] for key in (node.node_id, *node.supported_by) if key in places
        )
        for node in fitting
        if node.kind != "lesson"
    }
    near = [node for node in fitting if best.get(node.node_id, NEAR) < NEAR]
    return sorted(near, key=lambda node: best[node.node_id])


def _repeats(node: Node, taken: list[Node]) -> bool:
    """Tell whether one of the items that were taken says everything that a node says."""
    return any(_same_advice(node, other) for other in taken)


def _same_advice(node: Node, other: Node) -> bool:
    if node.polarity != other.polarity:
        return False
    ours, theirs = _claims(node), _claims(other)
    return bool(ours) and all(any(_same_claim(one, two) for two in theirs) for one in ours)


def _claims(node: Node) -> list[Claim]:
    guidance = node.lesson.guidance if node.lesson is not None else node.guidance
    return [claim for segment in segments(guidance) for claim in segment.claims]


def _same_claim(one: Claim, other: Claim) -> bool:
    exact = (one.kind, one.numbers, one.code, one.partial)
    if exact != (other.kind, other.numbers, other.code, other.partial):
        return False
    return len(one.bag & other.bag) >= SAME_ADVICE_MIN * len(one.bag | other.bag)


def _lesson(request: SelectRequest, fitting: list[Node], rules: list[Node]) -> Node | None:
    if request.max_lessons < 1 or (request.strict and rules):
        return None
    said = _said_by(rules)
    lessons = [
        node
        for node in fitting
        if node.kind == "lesson" and node.node_id not in said and not _repeats(node, rules)
    ]
    positive = [node for node in lessons if node.polarity == "positive"]
    return next(iter(positive or lessons), None)


def _said_by(rules: list[Node]) -> frozenset[str]:
    """Return the lessons whose guidance a chosen rule gives: to show them too says it twice (ours)."""
    return frozenset(key for rule in rules for key in rule.supported_by)


def _accepted(node: Node) -> str:
    return f"applies: {node.kind}" + (", a caution" if node.polarity == "negative" else "")


def _passed_over(node: Node, fitting: list[Node], rules: list[Node], request: SelectRequest) -> str:
    """Return why a candidate that applies was not taken."""
    if node.kind != "lesson":
        return _rule_passed_over(node, fitting, rules, request)
    if request.strict and rules:
        return "a rule was chosen instead"
    if request.max_lessons < 1:
        return "applies, but no lesson was asked for"
    if node.node_id in _said_by(rules) or _repeats(node, rules):
        return "a chosen rule says it"
    return "applies, but a lesson before it was taken"


def _rule_passed_over(
    node: Node, fitting: list[Node], rules: list[Node], request: SelectRequest
) -> str:
    if node not in _near(fitting):
        return f"applies, but none of its lessons is among the {NEAR} nearest"
    if _repeats(node, rules):
        return "a chosen rule says it"
    return f"applies, but {request.max_rules} rules are the limit"
