"""Feedback (journey F): verdicts and signals move counters, and may demote; nothing is promoted here.

On a frozen bank, and in the evaluation phase, feedback is kept in the log beside the bank and no
reader ever sees it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Literal

from epimem.bank.bank import Bank
from epimem.bank.intake import Caller
from epimem.bank.journal import timestamp
from epimem.errors import NotFoundError, RecordError
from epimem.operations.rules import relevel
from epimem.schema.base import Record
from epimem.schema.lesson import VerdictSource
from epimem.schema.receipt import Receipt
from epimem.schema.secrets import scrubbed_text
from epimem.schema.text import GuidanceText, LessonText
from epimem.schema.tree import family_of


class Hurt(Record):
    """A named contradiction: the item, and the statement in it that proved wrong."""

    node_id: str
    statement: GuidanceText


class Feedback(Record):
    """What became of a question that memory was retrieved for.

    `verdict` counts for every item that the memory input held; `helped` and `hurt` name single items
    of it. A wrong answer alone is no `hurt`: that takes a statement that was contradicted.
    """

    retrieval_id: str
    verdict: Literal["right", "wrong"] | None = None
    source: VerdictSource = "none"
    helped: tuple[str, ...] = ()
    hurt: tuple[Hurt, ...] = ()
    comment: LessonText = ""


def feedback(bank: Bank, given: Feedback, *, caller: Caller, now: float) -> Receipt:
    """Count feedback once per question and reader; secrets in its texts are replaced first.

    Raises:
        NotFoundError: no such retrieval in this log.
        RecordError: an item that the retrieval did not show; nothing given at all.
    """
    shown = _retrieval(bank, given.retrieval_id)
    items = json.loads(shown["items"])
    named = [*given.helped, *(hurt.node_id for hurt in given.hurt)]
    if not set(named) <= set(items):
        raise RecordError("feedback names an item that was not shown", field="helped, hurt")
    if given.verdict is None and not named:
        raise RecordError("feedback says nothing", hint="give a verdict, helped or hurt")
    given, secrets = _scrubbed(given)
    if bank.frozen is not None or caller.phase == "evaluation":
        kept = _set_aside(bank, given, now)
        return _receipt(bank, given, stored=kept, secrets=secrets)
    counted = _count(bank, given, shown, items, caller)
    demote(bank, items)
    return _receipt(bank, given, stored=counted, secrets=secrets)


def _receipt(bank: Bank, given: Feedback, *, stored: bool, secrets: int) -> Receipt:
    return Receipt(
        status="stored" if stored else "duplicate",
        id=given.retrieval_id,
        seq=bank.head_seq,
        redacted=secrets,
    )


def _scrubbed(given: Feedback) -> tuple[Feedback, int]:
    """Return feedback without secrets in its texts, and how many there were."""
    comment, found = scrubbed_text(given.comment)
    hurt = []
    for item in given.hurt:
        statement, more = scrubbed_text(item.statement)
        hurt.append(item.model_copy(update={"statement": statement}))
        found += more
    return given.model_copy(update={"comment": comment, "hurt": tuple(hurt)}), found


def _retrieval(bank: Bank, retrieval_id: str) -> dict[str, Any]:
    with bank.side.log() as log:
        row = log.execute(
            "SELECT * FROM retrievals WHERE retrieval_id = ?", (retrieval_id,)
        ).fetchone()
    if row is None:
        raise NotFoundError("no such retrieval in the log", field="retrieval_id", got=retrieval_id)
    return dict(row)


def _set_aside(bank: Bank, given: Feedback, now: float) -> bool:
    """Keep feedback in the log, once per retrieval; False when there is some already."""
    with bank.side.log() as log:
        known = "SELECT 1 FROM feedback WHERE retrieval_id = ?"
        if log.execute(known, (given.retrieval_id,)).fetchone() is not None:
            return False
        log.execute(
            "INSERT INTO feedback (at, retrieval_id, body) VALUES (?, ?, ?)",
            (timestamp(now), given.retrieval_id, given.canonical().decode("utf-8")),
        )
    return True


def _count(
    bank: Bank, given: Feedback, shown: Mapping[str, Any], items: Sequence[str], caller: Caller
) -> bool:
    counted = False
    if given.verdict is not None:
        counted |= bank.add_verdict(
            namespace=shown["namespace"],
            question_key=shown["question_key"],
            reader=shown["reader"],
            family=shown["family"],
            verdict=given.verdict,
            source=given.source,
            items=items,
            caller=caller,
        )
    for node_id in given.helped:
        counted |= bank.add_signal(
            node_id, shown["question_key"], "helped", caller=caller, source=given.source
        )
    for hurt in given.hurt:
        counted |= bank.add_signal(
            hurt.node_id,
            shown["question_key"],
            "hurt",
            caller=caller,
            source=given.source,
            detail=hurt.statement,
        )
    return counted


def demote(bank: Bank, node_ids: Sequence[str]) -> tuple[str, ...]:
    """Lower every summary or rule among `node_ids` that no longer qualifies; return the lowered."""
    lowered = []
    for node_id, node in sorted(bank.nodes(node_ids).items()):
        if node.kind not in {"summary", "rule"}:
            continue
        tree = bank.tree(node.namespace)
        if tree is None or node_id not in tree:
            continue
        lessons = tree.child_nodes(node_id)
        standing = bank.standing([(node_id, node.namespace, family_of(lessons))])[node_id]
        after = relevel(node, lessons, standing)
        if after.level < node.level and bank.lower(node, after):
            lowered.append(node_id)
    return tuple(lowered)
