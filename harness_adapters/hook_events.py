"""Events of coding harnesses: memory before a prompt, the session handed in when it stops.

An event is an object with `hook_event_name`, `session_id`, `turn_id`, `prompt`, `transcript_path`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from epimem.cli.output import one_line
from epimem.errors import EpimemError, RecordError
from epimem.schema import strict_json
from harness_adapters.client import Client
from harness_adapters.codex_rollout import CodexRolloutImporter
from harness_adapters.dsh_session import DshSessionImporter
from harness_adapters.hook import MAX_EVENT, notice
from harness_adapters.importer import Imported, Importer

READER = "hook"
_IMPORTERS: dict[str, Callable[[], Importer]] = {
    "rollout-": CodexRolloutImporter,
    "session.v": DshSessionImporter,
}


@dataclass(frozen=True)
class Event:
    """What a harness tells its hook."""

    name: str
    session: str
    turn: str
    prompt: str
    transcript: str

    @classmethod
    def read(cls, data: bytes) -> Event:
        """Return an event.

        Raises:
            RecordError: it is none, or too long.
        """
        if len(data) > MAX_EVENT:
            raise RecordError("the event is too long", code="too_large", limit=MAX_EVENT)
        value = strict_json.loads(data, max_depth=strict_json.RUN_DEPTH, keep_surrogates=True)
        if not isinstance(value, dict):
            raise RecordError("an event is an object", got=type(value).__name__)
        names = ("hook_event_name", "session_id", "turn_id", "prompt", "transcript_path")
        return cls(*(str(value.get(name) or "") for name in names))


def response(data: bytes, bank: Callable[[], Client], namespace: str | None) -> dict[str, Any]:
    """Return the answer to an event; a fault that has a name is a notice.

    Args:
        data: the event.
        bank: opens it.
        namespace: of it; None for its own.
    """
    try:
        return _done(Event.read(data), bank, namespace)
    except EpimemError as error:
        return notice(one_line(str(error)))


def _done(event: Event, bank: Callable[[], Client], namespace: str | None) -> dict[str, Any]:
    if event.name == "UserPromptSubmit" and event.prompt.strip():
        with bank() as client:
            return _context(client, event, namespace)
    if event.name == "Stop" and event.transcript:
        with bank() as client:
            return _handed_in(client, event, namespace)
    return {}


def _context(client: Client, event: Event, namespace: str | None) -> dict[str, Any]:
    # A turn asks once: the same event again gets the same answer.
    once = f"{event.session}-{event.turn}" if event.session and event.turn else None
    given = client.retrieve(event.prompt, run_id=once, reader=READER, namespace=namespace)
    if not given.text:
        return {}
    return {
        "hookSpecificOutput": {
            "hookEventName": event.name,
            "additionalContext": f"retrieval_id: {given.retrieval_id}\n{given.text}",
        }
    }


def _handed_in(client: Client, event: Event, namespace: str | None) -> dict[str, Any]:
    path = Path(event.transcript)
    kind = next((kind for start, kind in _IMPORTERS.items() if path.name.startswith(start)), None)
    if kind is None:
        return notice(f"no importer for transcripts like {path.name[:60]}")
    found = next(iter(kind().read(path, admit=client.add_image)), None)
    if not isinstance(found, Imported) or found.run is None:
        return notice("the transcript cannot be read")
    client.contribute(found.run, namespace=namespace, idempotency_key=None)
    return {}
