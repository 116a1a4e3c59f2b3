"""Importer of the memory of CAMEL agents: lines of `MemoryRecord.to_dict()`, one file an agent.

A first line without a message may hold the model, CAMEL's version and the usage of tokens.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from epimem.schema import strict_json
from epimem.schema.ids import IdGenerator, uuid7
from epimem.schema.run import Cost
from harness_adapters.importer import Admit, FieldTally, Imported, Refused, Stamps
from harness_adapters.sessions import Session, read_sessions

FORMAT = "camel"
_ROLES = {"system": "system", "user": "user", "assistant": "assistant"}


class CamelImporter:
    """Reads memories of agents; see the module."""

    name = FORMAT
    help = "memory records of CAMEL agents, one a line: *.camel.jsonl"

    def __init__(self, *, ids: IdGenerator = uuid7, clock: Callable[[], float] = time.time) -> None:
        self._stamps = Stamps(ids, clock)

    def read(self, path: Path, *, admit: Admit) -> Iterator[Imported | Refused]:
        """Yield one run per file; see `Importer.read`."""
        yield from read_sessions(path, "*.camel.jsonl", _session, stamps=self._stamps, admit=admit)


def _session(events: Sequence[dict[str, Any]], file: Path, tally: FieldTally) -> Session:
    session = Session(harness="camel", name=file.name.removesuffix(".camel.jsonl"))
    for event in events:
        message = event.get("message")
        if isinstance(message, dict):
            tally.count("message", "mapped")
            session.messages.append(_message(message, str(event.get("role_at_backend"))))
        else:
            _take_head(session, event)
    session.finish_reason = "completed"
    return session


def _take_head(session: Session, event: Mapping[str, Any]) -> None:
    session.version = str(event.get("version", ""))
    if event.get("model"):
        session.models[str(event["model"])] = None
    usage = event.get("usage")
    if isinstance(usage, dict):
        session.tokens = Cost(
            tokens_in=int(usage.get("prompt_tokens") or 0),
            tokens_out=int(usage.get("completion_tokens") or 0),
        )


def _message(message: Mapping[str, Any], role: str) -> dict[str, Any]:
    if message.get("__class__") == "FunctionCallingMessage":
        return _function(message, role)
    return {"role": _ROLES.get(role, "user"), "content": _parts(message)}


def _function(message: Mapping[str, Any], role: str) -> dict[str, Any]:
    call_id = str(message.get("tool_call_id") or message.get("func_name"))
    if role == "assistant":
        arguments = strict_json.dumps(message.get("args") or {}).decode("utf-8")
        function = {"name": str(message.get("func_name")), "arguments": arguments}
        call = {"id": call_id, "type": "function", "function": function}
        return {"role": "assistant", "content": None, "tool_calls": [call]}
    return {"role": "tool", "tool_call_id": call_id, "content": str(message.get("result", ""))}


def _parts(message: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the pictures of a message, then its text: the order in which models are shown them."""
    found = []
    for picture in message.get("image_list") or ():
        data = picture.get("data", "") if isinstance(picture, dict) else ""
        found.append({"type": "image_url", "image_url": f"data:;base64,{data}"})
    text = message.get("content")
    if isinstance(text, str) and text:
        found.append({"type": "text", "text": text})
    return found
