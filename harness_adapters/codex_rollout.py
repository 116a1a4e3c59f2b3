"""Importer of rollouts of the Codex CLI: `sessions/YYYY/MM/DD/rollout-<time>-<thread>.jsonl`.

The lines of type `response_item` are what the model saw and said; what the harness adds by itself
(developer messages, the environment, instructions of a project) becomes system messages and is no
question. An item of type `error` is no failed run. Images are those the harness sent, resized by
it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from epimem.schema.ids import IdGenerator, uuid7
from epimem.schema.run import Cost
from harness_adapters.importer import Admit, FieldTally, Imported, Refused, Stamps
from harness_adapters.sessions import Session, read_sessions

FORMAT = "codex-rollout"
# What Codex puts around what the user wrote.
_ECHOES = ("<environment_context>", "<user_instructions>", "<skills_instructions>", "# AGENTS.md")
_IMAGE_TAGS = ("<image name=", "</image>")


class CodexRolloutImporter:
    """Reads rollouts; see the module."""

    name = FORMAT
    help = "rollouts of the Codex CLI: a file, or its sessions folder"

    def __init__(self, *, ids: IdGenerator = uuid7, clock: Callable[[], float] = time.time) -> None:
        self._stamps = Stamps(ids, clock)

    def read(self, path: Path, *, admit: Admit) -> Iterator[Imported | Refused]:
        """Yield one run per rollout; see `Importer.read`."""
        yield from read_sessions(
            path, "rollout-*.jsonl", _session, stamps=self._stamps, admit=admit
        )


def _session(events: Sequence[dict[str, Any]], _: Path, tally: FieldTally) -> Session:
    session = Session(harness="codex")
    for event in events:
        kind, payload = str(event.get("type")), event.get("payload")
        if not isinstance(payload, dict):
            continue
        if kind == "session_meta":
            session.name = str(payload.get("id", ""))
            session.version = str(payload.get("cli_version", ""))
        elif kind == "turn_context":
            session.models[str(payload.get("model", ""))] = None
        elif kind == "response_item":
            item = str(payload.get("type"))
            message = _MESSAGES[item](payload) if item in _MESSAGES else None
            tally.count(f"response_item[{item}]", "mapped" if message else "native_only")
            if message is not None:
                session.messages.append(message)
        elif kind == "token_usage_record":
            session.tokens = _sum(session.tokens, payload.get("usage"))
        elif payload.get("type") == "task_complete":
            session.finish_reason = "completed"
        else:
            tally.count(f"{kind}[{payload.get('type', '')}]", "native_only")
    return session


def _message(payload: Mapping[str, Any]) -> dict[str, Any] | None:
    role = str(payload.get("role"))
    parts = [part for part in map(_part, payload.get("content") or ()) if part is not None]
    if not parts:
        return None
    first = parts[0].get("text", "")
    if role == "developer" or (role == "user" and first.startswith(_ECHOES)):
        role = "system"
    return {"role": role, "content": parts}


def _part(part: Any) -> dict[str, Any] | None:
    """Return a part of a content, None for the tags that Codex puts around an image."""
    if part.get("type") == "input_image":
        return {"type": "image_url", "image_url": part.get("image_url")}
    text = part.get("text")
    if not isinstance(text, str) or text.startswith(_IMAGE_TAGS):
        return None
    return {"type": "text", "text": text}


def _call(payload: Mapping[str, Any]) -> dict[str, Any]:
    names = (payload.get("namespace"), payload.get("name"))
    function = {
        "name": ".".join(str(name) for name in names if name),
        "arguments": str(payload.get("arguments", "")),
    }
    call = {"id": str(payload.get("call_id")), "type": "function", "function": function}
    return {"role": "assistant", "content": None, "tool_calls": [call]}


def _result(payload: Mapping[str, Any]) -> dict[str, Any]:
    output = payload.get("output")
    if isinstance(output, list):
        content: Any = [part for part in map(_part, output) if part is not None]
    else:
        content = str(output or "")
    return {"role": "tool", "tool_call_id": str(payload.get("call_id")), "content": content}


def _reasoning(payload: Mapping[str, Any]) -> dict[str, Any] | None:
    texts = [str(part.get("text", "")) for part in payload.get("summary") or ()]
    said = "\n".join(text for text in texts if text)
    return {"role": "assistant", "content": "", "reasoning_content": said} if said else None


def _sum(total: Cost, usage: Any) -> Cost:
    if not isinstance(usage, dict):
        return total
    names = {
        "tokens_in": "input_tokens",
        "tokens_out": "output_tokens",
        "cached": "cached_input_tokens",
        "reasoning": "reasoning_output_tokens",
    }
    return total.model_copy(
        update={
            ours: getattr(total, ours) + int(usage.get(name, 0)) for ours, name in names.items()
        }
    )


_MESSAGES: dict[str, Callable[[Mapping[str, Any]], dict[str, Any] | None]] = {
    "message": _message,
    "function_call": _call,
    "function_call_output": _result,
    "reasoning": _reasoning,
}
