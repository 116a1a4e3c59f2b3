"""The sealed outcome of a run: references, scores, rewards and labels.

No prompt renderer, controller or operation may import this module (an import contract and a canary
test hold that). Only ingest reads it, and hands on nothing but a verdict and its source.
"""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from epimem.schema.base import Record, StrictFloat, StrictInt

RewardSource = Literal["oracle", "verifier", "self", "peer", "none"]


class Score(Record):
    """One score; `value` is 0..1 unless the scorer says otherwise."""

    name: str
    value: StrictFloat | StrictInt
    scorer: str = ""
    source: RewardSource


class ActorReward(Record):
    """The reward of one actor and sample."""

    actor: str
    sample: StrictInt = 0
    reward: StrictFloat | StrictInt
    source: RewardSource


class SealedOutcome(Record):
    """What became of a run. `verdict` is the judgement that construction may use."""

    run_id: str
    verdict: Literal["right", "wrong", "unknown"] = "unknown"
    source: RewardSource = "none"
    scores: tuple[Score, ...] = ()
    reference: str | None = None
    per_actor: tuple[ActorReward, ...] = ()
    labels: dict[str, Any] = Field(default_factory=dict)
    visible_to: tuple[Literal["offline", "construction"], ...] = ("offline", "construction")
