"""A harness in sixty lines: one request to a server of Chat Completions.

What a harness has to do: show pictures, then the prompt; keep a log that an importer reads; return both.
"""

from __future__ import annotations

import base64
import json
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

from epimem.errors import ControllerError
from harness_adapters.harness import Asked, Solved
from harness_adapters.openai_chat import OpenAIChatImporter


class OneRequest:
    """Asks a model once.

    Args:
        endpoint: base URL of a server of Chat Completions.
        model: its name there.
        timeout_s: of the request.
    """

    name = "one-request"

    def __init__(self, *, endpoint: str, model: str, timeout_s: float = 600) -> None:
        self.importer = OpenAIChatImporter()
        self._endpoint, self._model, self._timeout_s = endpoint, model, timeout_s

    def solve(self, asked: Asked) -> Solved:
        """Ask, and write the conversation down."""
        pictures = [{"type": "image_url", "image_url": {"url": _url(p)}} for p in asked.pictures]
        content = [*pictures, {"type": "text", "text": asked.prompt}]
        messages: list[dict[str, Any]] = [{"role": "user", "content": content}]
        done = self._post({"model": self._model, "messages": messages})
        choice = done["choices"][0]
        messages.append(choice["message"])
        log = asked.folder / "conversation.json"
        told = {"messages": messages, "model": self._model, "usage": done.get("usage")}
        log.write_text(json.dumps({**told, "harness": self.name}), "utf-8")
        return Solved(choice["message"]["content"], log, choice["finish_reason"])

    def _post(self, body: dict[str, Any]) -> dict[str, Any]:
        request = urllib.request.Request(
            f"{self._endpoint}/chat/completions",
            json.dumps(body).encode(),
            {"content-type": "application/json"},
        )
        try:
            with urllib.request.urlopen(request, timeout=self._timeout_s) as answer:
                found: dict[str, Any] = json.load(answer)
        except (urllib.error.URLError, TimeoutError) as error:
            raise ControllerError(f"the model did not answer: {error}") from error
        return found


def _url(path: Path) -> str:
    return f"data:image/png;base64,{base64.b64encode(path.read_bytes()).decode('ascii')}"
