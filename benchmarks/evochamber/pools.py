"""What the pools of these benches share: programs in a model's place, and a run on a bank of its own."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from epimem.bank.encoder import load_encoder
from epimem.config import Config, EncoderConfig
from epimem.memory import ExperienceMemory
from harness_adapters.client import Client
from harness_adapters.evochamber.agent import PERSONA
from harness_adapters.evochamber.chamber import Chamber, Episode
from harness_adapters.evochamber.problem import Problem
from harness_adapters.evochamber.running import Folder, run
from harness_adapters.evochamber.settings import Settings
from harness_adapters.evochamber.sharing import Sharing
from harness_adapters.llm import LLM, Completion, Message


class Player(ABC):
    """A program in a model's place; the tag tells it what it is asked. Tokens are counted as words."""

    name = "player"

    def complete(self, messages: Sequence[Message], *, max_tokens: int, tag: str) -> Completion:
        """Return a reply to a system prompt and a user's text."""
        del max_tokens
        system, user = messages[0].text, messages[-1].text
        text = self.said(tag, system, user)
        return Completion(text, len(f"{system} {user}".split()), len(text.split()))

    @abstractmethod
    def said(self, tag: str, system: str, user: str) -> str:
        """Return what it says."""


def persona(name: str) -> str:
    """Return the persona of an agent: the program knows by its name what it can do."""
    return f"{PERSONA} You are {name}."


def on_bank(
    folder: Path,
    setup: Mapping[str, Any],
    settings: Settings,
    model: LLM,
    problems: Sequence[Problem],
    *,
    seed: int,
    encoder: str,
) -> list[Episode]:
    """Run a pool on a bank of its own, both in a folder; goes on where it stopped.

    Args:
        folder: of the run.
        setup: names it.
        settings: of the pool.
        model: behind every agent.
        problems: the stream.
        seed: for draws.
        encoder: of the bank and of the pool.
    """
    work = Folder(folder)
    with work.opened(setup):
        bank = folder / "bank"
        if not bank.is_dir():
            ExperienceMemory.create(bank, Config(encoder=EncoderConfig(model=encoder))).close()
        loaded = load_encoder(encoder)
        assert loaded is not None
        with Client.local(bank, contributor="pool") as client:
            sharing = Sharing(client, "pool", folder / "crops")
            chamber = Chamber(settings, model, loaded, seed=seed, sharing=sharing, persona=persona)
            return run(chamber, problems, work)
