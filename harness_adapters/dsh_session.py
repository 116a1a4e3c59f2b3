"""Importer of sessions of DeepSeek Harness: `<home>/sessions/<folder>/<id>/session.v4.jsonl`.

Images stand in the log by the hash of their bytes; the files are read from the home's own store. A
log that the harness compressed has to be decompressed first.
"""

from __future__ import annotations

import base64
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from epimem.schema.ids import IdGenerator, sha256, uuid7
from epimem.schema.run import Cost
from harness_adapters.importer import Admit, FieldTally, Imported, Refused, Stamps
from harness_adapters.sessions import Session, read_sessions

FORMAT = "dsh-session"
_ATTACHMENT = re.compile(r"sha256:([0-9a-f]{64})")


class DshSessionImporter:
    """Reads sessions; see the module."""

    name = FORMAT
    help = "sessions of DeepSeek Harness: a session.v4.jsonl, or a home folder"

    def __init__(self, *, ids: IdGenerator = uuid7, clock: Callable[[], float] = time.time) -> None:
        self._stamps = Stamps(ids, clock)

    def read(self, path: Path, *, admit: Admit) -> Iterator[Imported | Refused]:
        """Yield one run per session; see `Importer.read`."""
        yield from read_sessions(
            path, "session.v*.jsonl", _session, stamps=self._stamps, admit=admit
        )


def _session(events: Sequence[dict[str, Any]], file: Path, tally: FieldTally) -> Session:
    session = Session(harness="deepseek-harness")
    store = _store(file)
    for event in events:
        kind, data = str(event.get("type")), event.get("data")
        if kind == "session":
            session.name = str(event.get("id", ""))
            session.version = f"session.v{event.get('version', '')}"
        if not isinstance(data, dict):
            continue
        mapped = kind in _MESSAGES
        tally.count(kind, "mapped" if mapped else "native_only")
        if mapped:
            session.messages.append(_MESSAGES[kind](data, store))
            session.tokens = _sum(session.tokens, data)
        elif kind == "request/context":
            session.models[str(data.get("model", ""))] = None
        elif kind == "turn/end":
            session.finish_reason = str((data.get("reason") or {}).get("kind", ""))
    return session


Store = Callable[[str], str]


def _store(file: Path) -> Store:
    """Return what gives an image of this session's home as a data URL, or an address that says so."""
    home = file.parents[3] if len(file.parents) > 3 else file.parent
    objects = home / "attachments" / "v1" / "objects"

    def address(name: str) -> str:
        match = _ATTACHMENT.fullmatch(name)
        path = objects / match[1][:2] / match[1] if match else None
        if match is None or path is None or not path.is_file():
            return f"attachment:{name}"
        data = path.read_bytes()
        if sha256(data) != match[1]:
            return f"attachment:{name}"
        return f"data:;base64,{base64.b64encode(data).decode('ascii')}"

    return address


def _system(data: Mapping[str, Any], store: Store) -> dict[str, Any]:
    return {"role": "system", "content": _parts(data["message"].get("content"), store)}


def _user(data: Mapping[str, Any], store: Store) -> dict[str, Any]:
    # What the harness says by itself comes as a user message too, from another source.
    own = (data.get("source") or {}).get("kind") != "user"
    return {"role": "system" if own else "user", "content": _parts(data.get("content"), store)}


def _assistant(data: Mapping[str, Any], store: Store) -> dict[str, Any]:
    content = data["message"].get("content") or []
    calls = [
        {
            "id": str(part.get("id")),
            "type": "function",
            "function": {"name": str(part.get("name")), "arguments": str(part.get("arguments"))},
        }
        for part in content
        if part.get("type") == "tool-call"
    ]
    thought = "\n".join(str(p.get("text", "")) for p in content if p.get("type") == "reasoning")
    said = [part for part in content if part.get("type") not in {"tool-call", "reasoning"}]
    return {
        "role": "assistant",
        "content": _parts(said, store) or None,
        "tool_calls": calls or None,
        "reasoning_content": thought or None,
    }


def _tool(data: Mapping[str, Any], store: Store) -> dict[str, Any]:
    message = data["message"]
    return {
        "role": "tool",
        "tool_call_id": str(message.get("toolCallId")),
        "content": _parts(message.get("content"), store),
    }


def _parts(content: Any, store: Store) -> list[dict[str, Any]]:
    found = []
    for part in content or ():
        if part.get("type") == "image":
            name = str((part.get("attachment") or {}).get("attachmentId", ""))
            found.append({"type": "image_url", "image_url": store(name)})
        else:
            found.append(part)
    return found


def _sum(total: Cost, data: Mapping[str, Any]) -> Cost:
    """Add what the stream of an answer says of its tokens."""
    for event in data.get("stream") or ():
        usage = (event.get("chunk") or {}).get("usage")
        if isinstance(usage, dict):
            total = total.model_copy(
                update={
                    "tokens_in": total.tokens_in + int(usage.get("inputTokens", 0)),
                    "tokens_out": total.tokens_out + int(usage.get("outputTokens", 0)),
                }
            )
    return total


_MESSAGES: dict[str, Callable[[Mapping[str, Any], Store], dict[str, Any]]] = {
    "system/message": _system,
    "user/message": _user,
    "assistant/message": _assistant,
    "tool/result": _tool,
}
