"""Update: the notes of a question after an attempt, judged from the page alone.

A key on the page settles which mark means what. Where the attempt took another mark, the notes say what
the key says and point to it, and another attempt follows; where it took that mark, or no key is there to
judge by, the answer stands. Evidence that shows nothing of use is replaced or removed.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Literal

from epimem.protocols import Picture, UpdateRequest
from epimem.schema.region import Region
from epimem.schema.run import Run
from epimem.schema.working_memory import Update, VisualEvidence, WorkingMemory
from training.worlds.episode import Episode
from training.worlds.practice import PracticeBank

Visual = Literal["none", "frozen", "evolving"]
KEYED, WRONG, HELD, AS_TEXT = 0.75, 0.6, 0.45, 0.25
"""Shares (ours): pages with a key, attempts against it, notes with evidence, traces as text."""
ATTEMPTS = 5
_MODES: tuple[Visual, ...] = ("evolving", "evolving", "evolving", "frozen", "none")
_MEND = (
    "The key of the page says that {what} {means}: {action}.",
    "Read the key first: {what} {means} here, so {action}.",
)
_MENDED = (
    "The attempt took other marks for it.",
    "The last answer rests on another mark than the one of the key.",
)
_HOLDS = (
    "The key of the page confirms that {what} {means}; the answer follows from it.",
    "As the key says, {what} {means}; nothing is left to check.",
)
_OPEN = (
    "No key is printed: that {what} {means} cannot be checked on this page.",
    "The page has no key, so which mark has the meaning stays as the attempt took it.",
)
_OPEN_CAUTION = "Which mark is meant is an assumption."
_BEFORE = ("Look at the marks of the page.", "Find out what the marks mean before you count.")
_CONDITION = "This page only"
_NOTE = "the key that says what the marks mean"


@dataclass(frozen=True)
class _State:
    """What the page says of an attempt: a key, and whether the attempt went against it."""

    episode: Episode
    key: Region | None
    against: bool


def update(bank: PracticeBank, chance: random.Random) -> tuple[UpdateRequest, Update]:
    """Return a request and the revised notes."""
    state = _attempt(bank, chance)
    page = state.episode.page
    visual = chance.choice(_MODES)
    memory, crop = _memory(state, chance, visual)
    attempt = chance.randint(1 if memory == WorkingMemory() else 2, ATTEMPTS - 1)
    request = UpdateRequest(
        question=state.episode.question,
        pages=(page.picture,),
        memory=memory,
        answer=state.episode.answer,
        trace=_trace(state.episode, chance),
        attempt=attempt,
        left=ATTEMPTS - attempt,
        crop=crop,
        visual=visual,
    )
    return request, _revised(state, request, chance)


def _attempt(bank: PracticeBank, chance: random.Random) -> _State:
    """Return an attempt at a page; one against the key gives another answer than the key does."""
    house, topic = chance.choice(bank.houses), chance.choice(bank.world.topics)
    own = house.options[topic.name]
    keyed = chance.random() < KEYED
    against = keyed and chance.random() < WRONG
    assumed = chance.choice([name for name in topic.options if name != own]) if against else own
    page = bank.world.new_page(house, topic, chance, want=assumed, with_key=keyed)
    while against and page.answer(assumed) == page.answer():
        page = bank.world.new_page(house, topic, chance, want=assumed, with_key=keyed)
    episode = bank.solved(house, topic, page, chance, assumed=assumed)
    return _State(episode, page.key, against)


def _memory(
    state: _State, chance: random.Random, visual: Visual
) -> tuple[WorkingMemory, Picture | None]:
    """Return the notes before the attempt: none, or such with evidence of the key or of the head."""
    if chance.random() >= HELD:
        return WorkingMemory(), None
    page = state.episode.page
    guidance = chance.choice(_BEFORE)
    if visual == "none":
        return WorkingMemory(guidance=guidance, applies_when=_CONDITION), None
    useful = state.key is not None and chance.random() < 0.5
    region = state.key if useful and state.key is not None else page.header
    note = _NOTE if useful else "the head of the page"
    held = VisualEvidence(image_id=page.image_id, region=region, note=note)
    memory = WorkingMemory(
        guidance=guidance, applies_when=_CONDITION, evidence=held, gate=chance.choice((0, 1))
    )
    return memory, page.crop(region)


def _trace(episode: Episode, chance: random.Random) -> Run | str:
    if chance.random() < AS_TEXT:
        return "\n".join(look.text for look in episode.looks)
    return episode.run


def _revised(state: _State, request: UpdateRequest, chance: random.Random) -> Update:
    episode, page = state.episode, state.episode.page
    if state.against:
        templates, caution = _MEND, chance.choice(_MENDED)
    elif state.key is not None:
        templates, caution = _HOLDS, ""
    else:
        templates, caution = _OPEN, _OPEN_CAUTION
    own = page.house.options[page.topic.name]
    # Without a key, nothing on the page names the mark but the attempt itself.
    option = own if state.key is not None else episode.shown_option
    visual, evidence = _visual(state, request)
    held = request.memory.evidence if visual == "retain" else evidence
    return Update(
        guidance=chance.choice(templates).format(
            what=episode.words.what(option), means=page.topic.means, action=page.topic.action
        ),
        applies_when=_CONDITION,
        cautions=(caution,) if caution else (),
        visual=visual,
        evidence=evidence,
        gate=1 if state.against and request.visual != "none" and _shows_key(state, held) else 0,
        stop=not state.against,
    )


def _visual(
    state: _State, request: UpdateRequest
) -> tuple[Literal["retain", "replace", "remove"], VisualEvidence | None]:
    """Return what becomes of the evidence: the key where it must be read, nothing without use."""
    held = request.memory.evidence
    settled = request.visual == "none" or (request.visual == "frozen" and held is not None)
    if settled or _shows_key(state, held):
        return "retain", None
    if state.against and state.key is not None:
        image_id = state.episode.page.image_id
        return "replace", VisualEvidence(image_id=image_id, region=state.key, note=_NOTE)
    return ("remove", None) if held is not None else ("retain", None)


def _shows_key(state: _State, held: VisualEvidence | None) -> bool:
    return held is not None and held.region == state.key
