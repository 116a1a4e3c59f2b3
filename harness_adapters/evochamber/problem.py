"""A task as the pool sees it, what a reply is worth, and what a team did with it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

RewardSource = Literal["oracle", "verifier", "self"]


@dataclass(frozen=True)
class Mark:
    """What a reply is worth, in [0, 1], and the answer found in it, in normal form; "" for none."""

    reward: float
    answer: str


@dataclass(frozen=True)
class Problem:
    """A task.

    Attributes:
        task_id: unique in a stream.
        niche: its subdomain.
        question: what is asked.
        images: files, in page order.
        mark: says what a reply is worth; the reference stays in there.
        source: where the rewards come from.
    """

    task_id: str
    niche: str
    question: str
    mark: Callable[[str], Mark]
    images: tuple[Path, ...] = ()
    source: RewardSource = "oracle"


@dataclass(frozen=True)
class Turn:
    """One reply of one agent, and what it was for."""

    agent: str
    tag: str
    reply: str


@dataclass
class Attempt:
    """What a team made of a task.

    Attributes:
        answer: the team's reply.
        finals: the last reply of each member that gave an answer of its own.
        turns: all replies, in order.
    """

    answer: str
    finals: dict[str, str] = field(default_factory=dict)
    turns: list[Turn] = field(default_factory=list)
