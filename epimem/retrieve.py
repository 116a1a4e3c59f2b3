"""Retrieve (journey C): recall, select, gate, compose. Once per question and reader.

Recall filters by namespace, audience and authority before any likeness is computed. The organizer
selects among what it was shown; what it names beyond that is refused. "Nothing" is a normal answer,
and a controller that fails gives an empty memory input with a warning, not a crash.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

from epimem import calls, compose, gate, pictures
from epimem.bank.bank import Bank
from epimem.bank.costs import Costs
from epimem.bank.journal import timestamp
from epimem.bank.recall import MAX_K, Recall, RecallResult
from epimem.config import GateMode
from epimem.errors import (
    BankBusyError,
    BankCorruptError,
    ControllerError,
    RecordError,
    StorageError,
)
from epimem.protocols import MemoryController, SelectRequest, TreeOrganizer
from epimem.schema.ids import IdGenerator, question_key
from epimem.schema.lesson import AUTHORITIES, Authority
from epimem.schema.memory_input import (
    Budget,
    Candidate,
    Crop,
    MemoryInput,
    Selection,
    Verdict,
)
from epimem.schema.names import checked_id
from epimem.schema.receipt import Usage
from epimem.schema.run import MAX_PAGES
from epimem.schema.secrets import redacted
from epimem.schema.tree import Node, family_of

ADDED_RULES = 4
SHARING, SHARE = 3, 0.4
"""From how many organisations on candidates are shared out, and the largest share of one."""


@dataclass(frozen=True)
class Question:
    """What is asked, and by whom.

    `reader` is the agent that will see the answer (audiences are matched against it); `run_id` makes
    the retrieval idempotent: the same run and reader get the same answer again. `exclude` names
    items that the caller has already: the next ones are wanted.
    """

    text: str
    namespace: str
    image_ids: tuple[str, ...] = ()
    family: str = ""
    reader: str = ""
    run_id: str | None = None
    minimum_authority: Authority = "none"
    exclude: tuple[str, ...] = ()

    @property
    def key(self) -> str:
        """SHA-256 of the normalised question and its image ids.

        Of the question as a run of it is stored, without secrets, so that both are one question.
        """
        return question_key(redacted(self.text)[0], self.image_ids)


@dataclass(frozen=True)
class Roles:
    """Who decides, how long a call of each may take (seconds), and whether the gate is asked at all."""

    controller: MemoryController
    organizer: TreeOrganizer
    gate_deadline_s: float
    select_deadline_s: float
    gate: GateMode = "adaptive"


def retrieve(
    bank: Bank,
    recall: Recall,
    roles: Roles,
    question: Question,
    *,
    budget: Budget,
    candidates: int,
    mode: str,
    strict_selection: bool,
    ids: IdGenerator,
    now: float,
) -> MemoryInput:
    """Answer one question from the bank, and log how.

    Raises:
        RecordError: `invalid_text` or `invalid_field`, the question is not one.
    """
    _check(question)
    known = logged(bank, question)
    if known is not None:
        return known
    before = bank.changed
    found = recall.find(
        question.text,
        namespace=question.namespace,
        reader=question.reader or None,
        minimum_authority=question.minimum_authority,
        k=candidates,
        mode=mode,
        without=_had(bank, question),
    )
    nodes = bank.nodes([candidate.node_id for candidate in found.candidates])
    if len(found.candidates) >= min(candidates, MAX_K):
        found, nodes = _with_rules(bank, question, found, nodes)
    sources = bank.nodes([key for node in nodes.values() for key in node.supported_by])
    found = replace(found, candidates=shared_out(found.candidates, nodes, sources))
    selection, warning, usage = _select(
        bank, roles, question, found, (nodes, sources), budget=budget, strict=strict_selection
    )
    chosen = [nodes[node_id] for node_id in _in_order(selection, found, nodes)]
    items = compose.items(chosen, sources)
    evidence = compose.evidence(chosen, sources)
    opened = gate.decide(
        bank,
        roles.controller,
        question.text,
        question.image_ids,
        items,
        evidence,
        mode=roles.gate,
        deadline_s=roles.gate_deadline_s,
    )
    answer = compose.memory_input(
        bank,
        retrieval_id=ids(),
        bank_seq=found.bank_seq,
        items=items,
        evidence=evidence,
        gate=opened.value,
        budget=budget,
    ).model_copy(
        update={
            "searchable": found.searchable,
            "question_shortened": found.question_shortened,
            "truncated_tokens": found.truncated_tokens,
            "warning": "; ".join(
                part for part in (warning, opened.warning, _withheld(bank)) if part
            ),
            "usage": usage + opened.usage,
        }
    )
    answer = _log(bank, question, answer, found, selection, now)
    revoked = bank.revoked_since(found.bank_seq) if bank.changed != before else []
    if not revoked:
        return answer
    # They may have purged log and cache before this answer came into them: purged again, asked again.
    # Where a reader of the log keeps old pages, its rows are gone all the same.
    for item in revoked:
        with suppress(BankBusyError):
            bank.side.purge(item.node_ids, item.run_ids)
    return retrieve(
        bank,
        recall,
        roles,
        question,
        budget=budget,
        candidates=candidates,
        mode=mode,
        strict_selection=strict_selection,
        ids=ids,
        now=now,
    )


def _with_rules(
    bank: Bank,
    question: Question,
    found: RecallResult,
    nodes: dict[str, Node],
) -> tuple[RecallResult, dict[str, Node]]:
    """Add rules and summaries that candidates support and that these crowded out (ours).

    The larger a category, the surer its lessons take all places of the candidates, just where a rule
    is worth most. One that is added stands behind them, with the scores of its best lesson. An
    excluded rule is not: what it speaks for is no candidate either.
    """
    parents = {node.parent_id: None for node in nodes.values() if node.parent_id is not None}
    wanted = [key for key in parents if key not in nodes]
    lowest = AUTHORITIES.index(question.minimum_authority)
    added: list[Candidate] = []
    for node in bank.nodes(wanted).values():
        best = next((c for c in found.candidates if c.node_id in node.supported_by), None)
        if best is not None and node.level > 0 and AUTHORITIES.index(node.authority) >= lowest:
            added.append(best.model_copy(update={"node_id": node.node_id, "kind": node.kind}))
            nodes = {**nodes, node.node_id: node}
    added.sort(key=lambda candidate: -candidate.rank_score)
    return replace(found, candidates=(*found.candidates, *added[:ADDED_RULES])), nodes


def shared_out(
    candidates: tuple[Candidate, ...], nodes: Mapping[str, Node], sources: Mapping[str, Node]
) -> tuple[Candidate, ...]:
    """Leave out the last candidates of an organisation that would have more than two of five (ours).

    That is done where at least three organisations have one that passes the floor: one writer may not
    crowd out the others, and where there are no others nothing is lost. What several organisations
    support belongs to none.

    Args:
        candidates: best first.
        nodes: the candidates' nodes.
        sources: the lessons that rules and summaries among them rest on.
    """
    owners = {it.node_id: _owner(nodes.get(it.node_id), sources) for it in candidates}
    passing = [owners[it.node_id] for it in candidates if it.passes]
    if len({owner for owner in passing if owner}) < SHARING:
        return candidates
    most = max(1, int(len(passing) * SHARE))
    kept, taken = [], Counter[str]()
    for candidate in candidates:
        owner = owners[candidate.node_id]
        if candidate.passes and owner:
            taken[owner] += 1
            if taken[owner] > most:
                continue
        kept.append(candidate)
    return tuple(kept)


def _owner(node: Node | None, sources: Mapping[str, Node]) -> str:
    """Return the organisation that alone stands behind a node, empty where there are several."""
    if node is None:
        return ""
    lessons = (
        [node]
        if node.lesson is not None
        else [sources[key] for key in node.supported_by if key in sources]
    )
    found = {
        support.organisation
        for each in lessons
        if each.lesson is not None
        for support in each.lesson.supports
    }
    return next(iter(found)) if len(found) == 1 else ""


def _had(bank: Bank, question: Question) -> frozenset[str]:
    """Return the excluded items and the lessons that an excluded rule or summary speaks for."""
    nodes = bank.nodes(question.exclude) if question.exclude else {}
    spoken_for = (key for node in nodes.values() for key in node.supported_by)
    return frozenset((*question.exclude, *spoken_for))


def _in_order(
    selection: Selection, found: RecallResult, nodes: Mapping[str, Node]
) -> tuple[str, ...]:
    """Return the selected items, most relevant first; a rule is as relevant as its best lesson (ours).

    What finds no room in the budget is then what fits the question least.
    """
    places = {candidate.node_id: place for place, candidate in enumerate(found.candidates)}
    beyond = len(places)

    def place(node_id: str) -> int:
        return min(places.get(key, beyond) for key in (node_id, *nodes[node_id].supported_by))

    return tuple(sorted(selection.item_ids, key=place))


def _check(question: Question) -> None:
    from pydantic_core import PydanticCustomError

    from epimem.schema.text import check_text

    try:
        text = check_text(question.text)
    except PydanticCustomError as error:
        raise RecordError(error.message(), code="invalid_text", field="question") from error
    if not text.strip():
        raise RecordError("the question is empty", code="invalid_text", field="question")
    if len(question.image_ids) > MAX_PAGES:
        raise RecordError(
            "too many images", code="too_large", got=len(question.image_ids), limit=MAX_PAGES
        )
    if question.minimum_authority not in AUTHORITIES:
        raise RecordError("no such authority", field="minimum_authority")


def _select(
    bank: Bank,
    roles: Roles,
    question: Question,
    found: RecallResult,
    stored: tuple[Mapping[str, Node], Mapping[str, Node]],
    *,
    budget: Budget,
    strict: bool,
) -> tuple[Selection, str, Usage]:
    nodes, sources = stored
    candidates = tuple(c for c in found.candidates if c.node_id in nodes)
    if not candidates:
        return Selection(), "", Usage()
    request = SelectRequest(
        question=question.text,
        family=question.family,
        candidates=candidates,
        nodes=nodes,
        max_rules=budget.max_rules,
        max_lessons=budget.max_lessons,
        strict=strict,
        families={key: _family(node, sources) for key, node in nodes.items()},
        crops=pictures.crops(bank, compose.evidence(list(nodes.values()), sources)),
        pages=pictures.stored_pages(bank, question.image_ids),
    )
    try:
        reply = calls.ask(
            Costs(bank),
            "tree organizer",
            roles.organizer,
            "select",
            [request],
            kind=Selection,
            deadline_s=roles.select_deadline_s,
        )[0]
    except ControllerError as error:
        return Selection(), str(error), Usage()
    if reply.value is None:
        return Selection(), f"select gave nothing usable: {reply.reason}", reply.usage
    selection, warning = _lawful(reply.value, request)
    return selection, warning, reply.usage


def _family(node: Node, sources: Mapping[str, Node]) -> str:
    """Return the family of a lesson, or of the lessons that a rule or summary rests on."""
    lessons = (
        [node]
        if node.lesson is not None
        else [sources[key] for key in node.supported_by if key in sources]
    )
    return family_of(lessons)


def _withheld(bank: Bank) -> str:
    """Return a remark on damaged items, which recall leaves out."""
    count = len(bank.damaged)
    return f"{count} damaged item(s) withheld: run `epimem check`" if count else ""


def _lawful(selection: Selection, request: SelectRequest) -> tuple[Selection, str]:
    """Return the selection if it names only what was shown and keeps its bounds, else nothing."""
    rules, lesson = selection.rule_ids, selection.lesson_id
    shown = {candidate.node_id for candidate in request.candidates}
    broken = (
        not set(selection.item_ids) <= shown
        or len(set(selection.item_ids)) != len(selection.item_ids)
        or len(rules) > request.max_rules
        or (lesson is not None and request.max_lessons == 0)
        or (request.strict and bool(rules) and lesson is not None)
    )
    if not broken:
        kinds = request.nodes
        broken = any(kinds[key].kind == "lesson" for key in rules) or (
            lesson is not None and kinds[lesson].kind != "lesson"
        )
    if broken:
        return Selection(verdicts=selection.verdicts), "the selection broke its bounds"
    return selection, ""


def logged(bank: Bank, question: Question) -> MemoryInput | None:
    """Return the answer that this run and reader already got, None where there is none."""
    if question.run_id is None:
        return None
    try:
        with bank.side.log() as log:
            row = log.execute(
                "SELECT answer FROM retrievals"
                " WHERE run_id = ? AND namespace = ? AND reader = ? AND excluded = ?",
                (question.run_id, question.namespace, question.reader, _excluded(question)),
            ).fetchone()
    except (StorageError, BankCorruptError):  # the log is no truth of the bank
        return None
    return MemoryInput.read(row["answer"]) if row is not None else None


def _excluded(question: Question) -> str:
    return json.dumps(sorted(set(question.exclude)))


def _log(
    bank: Bank,
    question: Question,
    answer: MemoryInput,
    found: RecallResult,
    selection: Selection,
    now: float,
) -> MemoryInput:
    verdicts = {verdict.node_id: verdict for verdict in selection.verdicts}
    nothing = Verdict(node_id="", chosen=False, reason="not judged")
    candidates = [
        {
            **c.plain(),
            "verdict": verdicts.get(c.node_id, nothing).reason,
            "chosen": c.node_id in selection.item_ids,
        }
        for c in found.candidates
    ]
    values = (
        answer.retrieval_id,
        timestamp(now),
        answer.bank_seq,
        question.run_id,
        question.reader,
        question.namespace,
        question.family,
        question.key,
        # What was shown: an item that found no room in the budget is not in the answer.
        json.dumps([item.node_id for item in answer.items]),
        answer.canonical().decode("utf-8"),
        json.dumps(candidates),
        _excluded(question),
    )
    try:
        with bank.side.log() as log:
            log.execute(
                "INSERT OR IGNORE INTO retrievals VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
                values,
            )
            log.executemany(
                "INSERT OR IGNORE INTO crops VALUES (?, ?)",
                [(crop.blob, answer.retrieval_id) for crop in answer.crops],
            )
    except (StorageError, BankCorruptError) as error:
        # A full or failing disk may cost the log of an answer, never the answer.
        remark = f"not logged ({error.code}): feedback on it will not be found"
        warning = f"{answer.warning}; {remark}" if answer.warning else remark
        return answer.model_copy(update={"warning": warning})
    # Two calls for one run at the same moment: the one that was logged first is the answer.
    return logged(bank, question) or answer


def namespace_of(bank: Bank, retrieval_id: str) -> str | None:
    """Return the namespace that a logged retrieval searched; None where there is no such retrieval."""
    with bank.side.log() as log:
        row = log.execute(
            "SELECT namespace FROM retrievals WHERE retrieval_id = ?",
            (checked_id(retrieval_id, "retrieval_id"),),
        ).fetchone()
    return None if row is None else str(row["namespace"])


def shown(bank: Bank, blob: str) -> Iterator[tuple[str, Crop]]:
    """Yield a crop by the hash of its PNG, with each namespace in which it was shown."""
    query = (
        "SELECT namespace, answer FROM crops JOIN retrievals USING (retrieval_id) WHERE blob = ?"
    )
    with bank.side.log() as log:
        rows = log.execute(query, (checked_id(blob, "blob"),)).fetchall()
    for row in rows:
        crops = MemoryInput.read(row["answer"]).crops
        yield row["namespace"], next(crop for crop in crops if crop.blob == blob)


def explain(bank: Bank, retrieval_id: str | None = None) -> dict[str, Any] | None:
    """Return one logged retrieval with its candidates and verdicts; the last one by default."""
    query = "SELECT * FROM retrievals"
    with bank.side.log() as log:
        if retrieval_id is None:
            row = log.execute(f"{query} ORDER BY rowid DESC LIMIT 1").fetchone()
        else:
            row = log.execute(f"{query} WHERE retrieval_id = ?", (retrieval_id,)).fetchone()
    if row is None:
        return None
    found = dict(row)
    for name in ("items", "answer", "candidates", "excluded"):
        found[name] = json.loads(found[name])
    return found
