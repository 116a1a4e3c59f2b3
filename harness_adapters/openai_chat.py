"""Importer of conversations in the shape of chat completions: one JSON object a line.

    {"messages": [...], "model": ..., "tools": [...], "usage": {...}, "id": ...,
     "task": text or {"task_id", "question", "family", "house", "group", ...}, "metadata": the same,
     "harness": ..., "outcome": {"verdict": ..., "source": ..., "reference": ...}, ...}

Only `messages` is needed. Without a question in `task` or `metadata`, the first user message is it.
A run has one chain, and one more for each speaker where assistant messages carry several names. A
tool result goes to the step that called the tool; one that comes after another message, or answers
no call, becomes a system step with an observation. Images come from data URLs only; any other
address is replaced by a text that says so. At the root, what may be a reference or a score (see
`SEALED_NAMES`) goes to the sealed outcome; other unknown fields are kept under `extra.native`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

from pydantic import Field

from epimem.errors import RecordError
from epimem.schema.atif import Trajectory
from epimem.schema.base import StrictInt
from epimem.schema.ids import IdGenerator, uuid7
from epimem.schema.outcome import SealedOutcome
from epimem.schema.run import Answer, Backbone, Cost, Costs, Native, Run, System, Task
from harness_adapters.chat_turns import Chains, Message
from harness_adapters.documents import Document, Foreign, documents, guarded
from harness_adapters.importer import (
    Admit,
    FieldTally,
    Imported,
    Refused,
    Stamps,
    sealed_outcome,
    split_sealed,
)
from harness_adapters.pictures import Pictures

HARNESS = "openai-chat"
_TASK_FIELDS = ("task_id", "question", "family", "house", "group")


class _Details(Foreign):
    cached_tokens: StrictInt | None = None
    reasoning_tokens: StrictInt | None = None


class _Usage(Foreign):
    prompt_tokens: StrictInt | None = None
    completion_tokens: StrictInt | None = None
    prompt_tokens_details: _Details | None = None
    completion_tokens_details: _Details | None = None

    def cost(self, calls: int) -> Cost:
        """Return the tokens of the conversation; `cached` is part of `tokens_in`."""
        read = self.prompt_tokens_details or _Details()
        written = self.completion_tokens_details or _Details()
        return Cost(
            tokens_in=self.prompt_tokens or 0,
            tokens_out=self.completion_tokens or 0,
            cached=read.cached_tokens or 0,
            reasoning=written.reasoning_tokens or 0,
            calls=calls,
        )


class _Conversation(Foreign):
    messages: tuple[Message, ...] = Field(min_length=1)
    id: str | int | None = None
    model: str | None = None
    tools: tuple[dict[str, Any], ...] | None = None
    usage: _Usage | None = None
    finish_reason: str | None = None
    harness: str | None = None
    task: str | dict[str, Any] | None = None
    metadata: dict[str, Any] | None = None
    outcome: dict[str, Any] | None = None


class OpenAIChatImporter:
    """Reads a JSONL file of conversations, a JSON file with one, or a folder of such files."""

    name = HARNESS
    help = "JSONL of chat completions conversations, images as data URLs"

    def __init__(self, *, ids: IdGenerator = uuid7, clock: Callable[[], float] = time.time) -> None:
        self._stamps = Stamps(ids, clock)

    def read(self, path: Path, *, admit: Admit) -> Iterator[Imported | Refused]:
        """Yield one run per conversation; see `Importer.read`."""
        for document in documents(path, (".jsonl", ".json")):
            if isinstance(document, Refused):
                yield document
            else:
                yield guarded(document, partial(_convert, stamps=self._stamps, admit=admit))


def _convert(document: Document, tally: FieldTally, stamps: Stamps, admit: Admit) -> Imported:
    value, replaced = document.parse(tally)
    conversation = _Conversation.model_validate(value)
    pictures = Pictures(admit, tally)
    chains = Chains(conversation.messages, pictures, tally)
    asked, hidden = _asked(conversation)
    native, sealed = split_sealed(conversation.model_extra or {})
    native |= {key: part for key, part in asked.pop("native").items() if part}
    question = asked.pop("question", None) or chains.question
    if not question and not chains.question_parts:
        raise RecordError("no user message and no question in `task`", field="messages")
    run = Run(
        run_id=stamps.ids(),
        created_at=stamps.created_at(),
        task=Task(
            task_id=asked.pop("task_id", None) or str(conversation.id or document.stem),
            question=question,
            pages=pictures.pages(chains.question_parts),
            **asked,
        ),
        system=System(
            harness=conversation.harness or HARNESS,
            backbones=(Backbone(id=conversation.model),) if conversation.model else (),
        ),
        trajectory=_trajectory(conversation, chains, native),
        answer=Answer(text=chains.answer, finish_reason=conversation.finish_reason or ""),
        costs=Costs(mas=(conversation.usage or _Usage()).cost(chains.calls)),
        native=Native(format=HARNESS),
        replaced=replaced,
    )
    outcome = _outcome(conversation, run.run_id, hidden | sealed | chains.sealed)
    _count(value, tally)
    return Imported(run, outcome, (), tuple(pictures.images), document.label, tally.report())


def _asked(conversation: _Conversation) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return what `task` and `metadata` say of the task, and what of them must be sealed.

    The rest of both stands under `native`.
    """
    task = conversation.task
    if isinstance(task, str):
        task = {"question": task}
    found: dict[str, Any] = {}
    native: dict[str, Any] = {}
    sealed: dict[str, Any] = {}
    for name, values in (("metadata", conversation.metadata), ("task", task)):
        visible, hidden = split_sealed(values or {})
        known = [key for key in _TASK_FIELDS if isinstance(visible.get(key), str)]
        found |= {key: visible.pop(key) for key in known}
        native[name] = visible
        sealed |= hidden
    return found | {"native": native}, sealed


def _trajectory(conversation: _Conversation, chains: Chains, native: dict[str, Any]) -> Trajectory:
    extra: dict[str, Any] = {"epimem": {"actors": chains.actors(), "events": []}}
    if native:
        extra["native"] = native
    return chains.trajectory(
        name=conversation.harness or HARNESS,
        model=conversation.model,
        tools=conversation.tools,
        extra=extra,
    )


def _outcome(
    conversation: _Conversation, run_id: str, sealed: dict[str, Any]
) -> SealedOutcome | None:
    outcome = sealed_outcome(run_id, sealed)
    if conversation.outcome is None:
        return outcome
    known: dict[str, Any] = outcome.plain() if outcome else {}
    return SealedOutcome.read(known | conversation.outcome | {"run_id": run_id})


def _count(value: dict[str, Any], tally: FieldTally) -> None:
    unknown = set(value) - set(_Conversation.model_fields)
    visible, _ = split_sealed(dict.fromkeys(unknown))
    for key in value:
        tally.count(key, "extra" if key in visible else "mapped")
