"""A language model as the methods call it: messages with images in, text and token counts out.

    load("openai:qwen3-8b@http://127.0.0.1:8000/v1")     any server that speaks the protocol of OpenAI
    load("mine:argument")                                an entry point of the group epimem.llms

Every call says what it is for (`tag`): costs are told apart by it, and a program that stands in for a
model in tests and experiments knows by it what it is asked.
"""

from __future__ import annotations

import base64
import os
import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, Protocol

from epimem import plugins
from epimem.errors import ConfigError, ControllerError, PluginError

LLMS = "epimem.llms"
KEY = "OPENAI_API_KEY"
_THOUGHT = re.compile(r"\A\s*<think>.*?</think>\s*", re.DOTALL)
_KINDS = {".png": "image/png", ".jpg": "image/jpeg", ".jpeg": "image/jpeg", ".webp": "image/webp"}


@dataclass(frozen=True)
class Message:
    """One message: its role, its text, and pictures that go before the text."""

    role: Literal["system", "user", "assistant"]
    text: str
    images: tuple[Path, ...] = ()


@dataclass(frozen=True)
class Completion:
    """A reply without the model's thoughts, and what it cost in tokens, thoughts included."""

    text: str
    tokens_in: int = 0
    tokens_out: int = 0


class LLM(Protocol):
    """A model, or what stands in for one."""

    name: str

    def complete(self, messages: Sequence[Message], *, max_tokens: int, tag: str) -> Completion:
        """Return the reply to a conversation.

        Args:
            messages: in order; the last one is a user's.
            max_tokens: most tokens of the reply.
            tag: what the call is for, as "solve".

        Raises:
            ControllerError: `model_failed`, there was no reply.
        """
        ...


@dataclass
class Spent:
    """Calls, tokens and seconds."""

    calls: int = 0
    tokens_in: int = 0
    tokens_out: int = 0
    time_s: float = 0.0

    @property
    def tokens(self) -> int:
        """Tokens in and out."""
        return self.tokens_in + self.tokens_out

    def add(self, other: Spent) -> None:
        """Count what else was spent."""
        self.calls += other.calls
        self.tokens_in += other.tokens_in
        self.tokens_out += other.tokens_out
        self.time_s += other.time_s

    def plain(self) -> dict[str, Any]:
        """Return plain JSON data; seconds to the millisecond."""
        return {
            "calls": self.calls,
            "tokens_in": self.tokens_in,
            "tokens_out": self.tokens_out,
            "time_s": round(self.time_s, 3),
        }

    @classmethod
    def read(cls, data: Mapping[str, Any]) -> Spent:
        """Return what `plain` was called on."""
        return cls(**data)


@dataclass
class Metered:
    """A model whose costs are kept by tag."""

    llm: LLM
    spent: dict[str, Spent] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """That of the model."""
        return self.llm.name

    def complete(self, messages: Sequence[Message], *, max_tokens: int, tag: str) -> Completion:
        """As `LLM.complete`; a call that fails is counted too."""
        own = self.spent.setdefault(tag, Spent())
        began = time.perf_counter()
        done = Completion("")
        try:
            done = self.llm.complete(messages, max_tokens=max_tokens, tag=tag)
        finally:
            took = time.perf_counter() - began
            own.add(Spent(1, done.tokens_in, done.tokens_out, took))
        return done

    def taken(self) -> dict[str, Spent]:
        """Return what was spent since the last time, by tag."""
        spent, self.spent = self.spent, {}
        return spent


def load(spec: str) -> LLM:
    """Return the model that a spec names: `openai:MODEL@URL`, or `NAME[:ARGUMENT]` of an entry point.

    Raises:
        ConfigError: the spec is none; the key of a server is not set.
        PluginError: no such entry point, or a package is missing.
    """
    name, _, argument = spec.partition(":")
    if name == "openai":
        model, _, url = argument.rpartition("@")
        if not model or not url:
            raise ConfigError(
                "openai:MODEL@URL is needed",
                field="llm",
                got=spec,
                hint="openai:qwen3-8b@http://...",
            )
        return OpenAI(model, url)
    made: LLM = plugins.load(LLMS, name)(argument)
    return made


class OpenAI:
    """A model behind a server that speaks Chat Completions.

    Args:
        model: as the server names it.
        url: of the server, ending in /v1.
        timeout_s: for one reply.
    """

    def __init__(self, model: str, url: str, *, timeout_s: float = 600.0) -> None:
        try:
            import openai
        except ImportError as error:
            raise PluginError(
                "a server needs the package openai", hint="pip install 'epimem[openai]'"
            ) from error
        self.name = model
        self._faults = openai.OpenAIError
        self._client = openai.OpenAI(
            base_url=url, api_key=os.environ.get(KEY, "none"), timeout=timeout_s, max_retries=2
        )

    def complete(self, messages: Sequence[Message], *, max_tokens: int, tag: str) -> Completion:
        """Return the reply; thoughts between <think> and </think> at its beginning are left out."""
        asked: Any = [{"role": each.role, "content": _content(each)} for each in messages]
        try:
            reply = self._client.chat.completions.create(
                model=self.name, messages=asked, max_tokens=max_tokens
            )
        except self._faults as error:
            raise ControllerError(
                f"the model gave no reply for {tag}: {type(error).__name__}", hint=str(error)[:200]
            ) from error
        text = (reply.choices[0].message.content or "") if reply.choices else ""
        usage = reply.usage
        return Completion(
            text=_THOUGHT.sub("", text),
            tokens_in=usage.prompt_tokens if usage else 0,
            tokens_out=usage.completion_tokens if usage else 0,
        )


def _content(message: Message) -> str | list[dict[str, Any]]:
    if not message.images:
        return message.text
    shown = [{"type": "image_url", "image_url": {"url": _address(path)}} for path in message.images]
    return [*shown, {"type": "text", "text": message.text}]


def _address(path: Path) -> str:
    kind = _KINDS.get(path.suffix.lower(), "image/png")
    return f"data:{kind};base64,{base64.b64encode(path.read_bytes()).decode('ascii')}"
