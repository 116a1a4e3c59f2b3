"""Derive: the lesson of an episode, with the exact region that it rests on."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any, Literal

from controllers.prompts import OPERATIONS
from epimem.protocols import Derived, DeriveRequest
from training.worlds.episode import Episode

UNKEYED = 0.5
"""Share of lessons (ours) whose conditions exclude pages on which a key is printed."""
NOTHING = (
    "The answer is printed on the page; no convention was needed.",
    "Nothing to learn: the run reads off what the page says in words.",
    "The page answers the question by itself.",
)


def derive_request(
    episode: Episode, *, batch: Sequence[str] = (), judged: bool = True
) -> DeriveRequest:
    """Return the request for an episode.

    Args:
        episode: what happened.
        batch: questions that were handed in around it.
        judged: whether an oracle gave a verdict; else it is unknown.
    """
    return DeriveRequest(
        run=episode.run,
        verdict=episode.verdict if judged else "unknown",
        verdict_source="oracle" if judged else "none",
        batch=tuple(batch) or (episode.question,),
        pages=(episode.page.picture,),
    )


def derived(request: DeriveRequest, episode: Episode, chance: random.Random) -> Derived:
    """Return the lesson that the episode of this request teaches, or why there is none."""
    if episode.assumed is None:
        reply: dict[str, Any] = {"lessons": [], "nothing": chance.choice(NOTHING)}
    else:
        lesson = _lesson(episode, chance, request.verdict)
        lesson["evidence"] = [_evidence(request, episode)]
        reply = {"lessons": [lesson], "nothing": ""}
    found = OPERATIONS["derive"].parse(request, reply)
    assert isinstance(found, Derived)
    return found


def _lesson(
    episode: Episode, chance: random.Random, verdict: Literal["right", "wrong", "unknown"]
) -> dict[str, Any]:
    words = episode.words
    wrong = verdict == "wrong"
    if wrong:
        guidance = words.wrong(chance, episode.decisive.text)
        cautions: Sequence[str] = (words.not_known(chance),)
    else:
        guidance = words.advice(chance, episode.shown_option)
        cautions = words.cautions(chance, chance.randint(0, 2))
    return {
        "polarity": "negative" if wrong else "positive",
        "guidance": guidance,
        "applies_when": words.applies_when(chance, unkeyed=chance.random() < UNKEYED),
        "cautions": list(cautions),
        "title": words.title(),
        "topic": words.index_topic(chance),
        "scope": words.scope(),
        "question_anchor": words.anchor(chance),
    }


def _evidence(request: DeriveRequest, episode: Episode) -> dict[str, Any]:
    """Return what was looked at when the mark was taken for the one with the meaning."""
    option = episode.shown_option
    if request.verdict == "wrong":
        note = f"what the {episode.words.world.page} shows where the run went wrong"
    else:
        note = episode.words.note(option)
    return {
        "image": "P1",
        "box": list(episode.decisive.region.to_scaled()),
        "note": note,
        # The turns of an episode have the numbers 0, 1, 2, ...; their names begin at 1.
        "turn": f"T{episode.decisive_seq + 1}",
    }
