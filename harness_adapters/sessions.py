"""Session logs of harnesses: a file of events becomes chat messages, and these become one run.

What an importer of a log does by itself is to say which events are messages (`Session`); chains, images,
sealing and counting are the same for all of them. What a run was shown of a memory is taken out of its
steps and named under `retrievals` instead: a lesson must not be learnt again from its own echo.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from epimem.compose import PREAMBLE
from epimem.errors import RecordError
from epimem.schema import strict_json
from epimem.schema.run import Answer, Backbone, Cost, Costs, Native, Retrieval, Run, System, Task
from epimem.schema.text import escape_tree
from harness_adapters.chat_turns import Chains, Message
from harness_adapters.documents import FAULTS, MAX_DEPTH, MAX_DOCUMENT, Document, inside, refusal
from harness_adapters.importer import Admit, FieldTally, Imported, Refused, Stamps
from harness_adapters.pictures import Pictures

# A rendered memory input, with the line that names its retrieval where it came by a tool or a hook.
_BLOCK = re.compile(
    rf"(?:retrieval_id: (?P<id>[0-9a-f-]{{36}})\n)?{re.escape(PREAMBLE)}"
    r"(?:\n<<(?P<mark>[0-9a-f]{24}) item .*?\n<<(?P=mark) end \d+>>)+",
    re.DOTALL,
)


@dataclass
class Session:
    """What a log says, event by event.

    Attributes:
        messages: as chat messages (plain data), in order.
        name: of the session, for the task.
        harness: its name and version.
        models: that answered.
        tokens: read, written, read from a cache, spent on reasoning.
        finish_reason: of the last turn.
    """

    messages: list[dict[str, Any]] = field(default_factory=list)
    name: str = ""
    harness: str = ""
    version: str = ""
    models: dict[str, None] = field(default_factory=dict)
    tokens: Cost = field(default_factory=Cost)
    finish_reason: str = ""


Reader = Callable[[Sequence[dict[str, Any]], Path, FieldTally], Session]


def read_sessions(
    path: Path, pattern: str, reader: Reader, *, stamps: Stamps, admit: Admit
) -> Iterator[Imported | Refused]:
    """Yield one run for each log.

    Args:
        path: a log, or a folder that is searched for `pattern`.
        pattern: of the names of logs.
        reader: reads the events of one.
        stamps: for the runs.
        admit: stores an image.

    Raises:
        RecordError: `not_found`, there is no log.
    """
    files = [path] if path.is_file() else sorted(path.rglob(pattern))
    if not files:
        raise RecordError("no session log is there", code="not_found", field="path", got=pattern)
    root = path if path.is_dir() else path.parent
    for file in files:
        document = Document(file.relative_to(root).as_posix(), 0, file.parent, b"")
        if not inside(root, file):
            yield Refused(document.source, 0, "invalid_field", "a link that leads elsewhere")
            continue
        tally = FieldTally(document.label)
        try:
            session = reader(_events(file, tally), file, tally)
            yield _run(session, document, tally, stamps, admit)
        except FAULTS as error:
            yield refusal(document, error)


def _events(file: Path, tally: FieldTally) -> list[dict[str, Any]]:
    """Return the events of a log; a last line that was not written whole is left out.

    Raises:
        RecordError: `too_large`; `bad_json`, a line that is none.
    """
    if file.stat().st_size > MAX_DOCUMENT:
        raise RecordError("the log is too large", code="too_large", limit=MAX_DOCUMENT)
    lines = [line for line in file.read_bytes().splitlines() if line.strip()]
    found = []
    for number, line in enumerate(lines, 1):
        try:
            value = strict_json.loads(line, max_depth=MAX_DEPTH, keep_surrogates=True)
        except RecordError:
            if number < len(lines):
                raise
            tally.note("cut_off", f"line {number} was not written whole")
            continue
        if isinstance(value, dict):
            found.append(value)
    return found


def _run(
    session: Session, document: Document, tally: FieldTally, stamps: Stamps, admit: Admit
) -> Imported:
    plain, replaced = escape_tree(session.messages)
    shown = _Shown()
    messages = [Message.model_validate(shown.without(message)) for message in plain]
    pictures = Pictures(admit, tally)
    chains = Chains(messages, pictures, tally)
    if not chains.question and not chains.question_parts:
        raise RecordError("nobody asked anything in this session", field="messages")
    run = Run(
        run_id=stamps.ids(),
        created_at=stamps.created_at(),
        task=Task(
            task_id=session.name or document.stem,
            question=chains.question,
            pages=pictures.pages(chains.question_parts),
        ),
        system=System(
            harness=session.harness,
            harness_version=session.version,
            backbones=tuple(Backbone(id=model) for model in session.models),
        ),
        trajectory=chains.trajectory(
            name=session.harness,
            model=next(iter(session.models), None),
            tools=None,
            extra={"epimem": {"actors": chains.actors(), "events": []}},
        ),
        retrievals=shown.retrievals,
        answer=Answer(text=chains.answer, finish_reason=session.finish_reason),
        costs=Costs(mas=session.tokens.model_copy(update={"calls": chains.calls})),
        native=Native(format=session.harness, version=session.version),
        replaced=replaced,
    )
    return Imported(run, None, (), tuple(pictures.images), document.label, tally.report())


class _Shown:
    """What a session was shown of a memory: by its own tool calls, by a hook, before its prompt."""

    def __init__(self) -> None:
        self._found: dict[str, None] = {}

    @property
    def retrievals(self) -> tuple[Retrieval, ...]:
        """The retrievals that are named in it, in order."""
        return tuple(Retrieval(retrieval_id=key) for key in self._found)

    def without(self, message: dict[str, Any]) -> dict[str, Any]:
        """Return a message without what a memory said in it; pictures that came with it go as well."""
        content = message.get("content")
        if isinstance(content, str):
            return {**message, "content": self._cut(content)}
        if not isinstance(content, list):
            return message
        texts = {at: part["text"] for at, part in enumerate(content) if _is_text(part)}
        cut = {at: self._cut(text) for at, text in texts.items()}
        if cut == texts:
            return message
        told = message.get("role") == "tool"
        parts = [
            {**part, "text": cut[at]} if at in cut else part
            for at, part in enumerate(content)
            if at in cut or not told
        ]
        return {**message, "content": parts}

    def _cut(self, text: str) -> str:
        return _BLOCK.sub(self._named, text)

    def _named(self, match: re.Match[str]) -> str:
        found = match["id"] or ""
        if found:
            self._found[found] = None
        return memory_note(found)


def _is_text(part: Any) -> bool:
    return isinstance(part, dict) and isinstance(part.get("text"), str)


def memory_note(retrieval_id: str) -> str:
    """Return what stands in a run where it was shown a memory."""
    return f"[memory {retrieval_id}]" if retrieval_id else "[memory]"
