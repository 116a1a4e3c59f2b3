"""Replies from a Python function or from a file: to replay a session, and for tests without a model.

A file holds one reply a line, as JSON:

    {"operation": "place", "reply": {"category": "C1", "new": null, "under": null}}
    {"operation": "derive", "when": "Kite Research", "reply": "a reply as text, however broken"}
    {"operation": "gate", "reply": {"gate": 1}, "times": null}

A line answers a prompt of its operation (of any, where it names none) whose text contains `when`; the
first such line is taken and used up. `times` says how often it may serve, null without end. `tokens_in`
and `tokens_out` may be given.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from controllers.backends.base import Completion, Failure
from controllers.prompts.message import Prompt
from epimem.errors import ConfigError, RecordError
from epimem.schema import strict_json

Script = Callable[[Prompt], str | Completion]
_FIELDS = {"operation", "when", "reply", "times", "tokens_in", "tokens_out"}
EXAMPLE = '{"operation": "gate", "reply": {"gate": 1}}'


class ScriptedBackend:
    """Completes prompts by a function, one after the other."""

    concurrency = 1

    def __init__(self, script: Script, *, name: str = "scripted") -> None:
        self.name = name
        self._script = script

    def complete(self, prompts: Sequence[Prompt]) -> Sequence[Completion]:
        """Return what the function says of each prompt; what it raises goes on to the caller."""
        return [_completion(self._script(prompt)) for prompt in prompts]

    def close(self) -> None:
        """Nothing is held."""


def _completion(said: str | Completion) -> Completion:
    return said if isinstance(said, Completion) else Completion(text=said)


@dataclass(frozen=True)
class Line:
    """One reply of a file; `left` is how often it may still serve, None without end."""

    completion: Completion
    operation: str = ""
    when: str = ""
    left: int | None = 1

    def answers(self, prompt: Prompt, text: str) -> bool:
        """Say whether this line is a reply to a prompt of this text."""
        mine = self.operation in {"", prompt.operation}
        return mine and self.when in text and (self.left is None or self.left > 0)


class Replay:
    """A script made of lines; safe for several threads."""

    def __init__(self, lines: Sequence[Line]) -> None:
        self._lines = list(lines)
        self._lock = threading.Lock()

    def __call__(self, prompt: Prompt) -> Completion:
        """Return the first reply that is left for this prompt."""
        text = "\n".join(message.text for message in prompt.messages)
        with self._lock:
            for place, line in enumerate(self._lines):
                if line.answers(prompt, text):
                    self._use_up(place, line)
                    return line.completion
        return Completion(error=Failure.NO_REPLY)

    def _use_up(self, place: int, line: Line) -> None:
        if line.left == 1:
            del self._lines[place]
        elif line.left is not None:
            self._lines[place] = replace(line, left=line.left - 1)


def from_file(path: Path) -> ScriptedBackend:
    """Return a backend that replays a file.

    Raises:
        ConfigError: the file cannot be read, or a line is not of the form above; names the line.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(
            f"the script cannot be read: {type(error).__name__}", got=path.name
        ) from None
    # Not `splitlines`: a reply may hold other separators, which JSON does not escape.
    numbered = [(number, line) for number, line in enumerate(text.split("\n"), 1) if line.strip()]
    lines = [read_line(line, number) for number, line in numbered]
    return ScriptedBackend(Replay(lines), name=f"scripted/{path.stem}")


def read_line(text: str, number: int) -> Line:
    """Read one line of a file.

    Raises:
        ConfigError: not an object of the known fields, or one of a wrong type.
    """
    try:
        value = strict_json.loads(text)
    except RecordError as error:
        raise _wrong(number, error.message) from None
    if not isinstance(value, dict) or "reply" not in value:
        raise _wrong(number, "not an object with a reply")
    if unknown := sorted(set(value) - _FIELDS):
        raise _wrong(number, f"unknown field {unknown[0]!r}")
    reply = value["reply"]
    return Line(
        completion=Completion(
            text=reply if isinstance(reply, str) else json.dumps(reply, ensure_ascii=False),
            tokens_in=_count(value, "tokens_in", 0, number),
            tokens_out=_count(value, "tokens_out", 0, number),
        ),
        operation=_text(value, "operation", number),
        when=_text(value, "when", number),
        left=None if value.get("times", 1) is None else _count(value, "times", 1, number),
    )


def _text(value: dict[str, Any], field: str, number: int) -> str:
    found = value.get(field, "")
    if not isinstance(found, str):
        raise _wrong(number, f"{field} is not text")
    return found


def _count(value: dict[str, Any], field: str, default: int, number: int) -> int:
    found = value.get(field, default)
    if not isinstance(found, int) or isinstance(found, bool) or found < 0:
        raise _wrong(number, f"{field} is not a number of 0 or more")
    return found


def _wrong(number: int, what: str) -> ConfigError:
    return ConfigError(f"line {number} of the script: {what}", hint=f"for example: {EXAMPLE}")
