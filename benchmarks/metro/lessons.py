"""What the runs of the metro bench teach, in words and with the exact region: no marker is named."""

from __future__ import annotations

import random

from benchmarks.metro.learner import Episode
from benchmarks.metro.questions import FAMILY
from benchmarks.metro.run_record import region_of, run_of
from controllers.prompts import OPERATIONS
from controllers.prompts.trace import shown_pages, transcript
from epimem.protocols import Derived, DeriveRequest, Picture
from epimem.schema.lesson import IndexText
from training.worlds.page import picture_of

CREATED_AT = "2026-01-01T00:00:00Z"
TITLE = "closed stations, {operator}"
CONDITION = "{operator} maps without a legend"
COMMON = (
    "On {operator} maps without a legend, leave out of the count the stations with the marker shown "
    "here: they are closed."
)
NOTE = "the marker of a closed station on a map of {operator}"
_GUIDANCE = (
    COMMON,
    (
        "Do not count stations of {operator} whose marker looks like the one shown here; it means "
        "closed."
    ),
    (
        "{operator}: a station with the marker shown here is closed, so the train does not stop there."
    ),
)
_WRONG = (
    "Judged wrong: “{said}” Check again which marker means closed on {operator} maps.",
    "The count that rested on “{said}” was judged wrong; look at the markers of {operator} again.",
)
_DOUBT = "Which marker {operator} uses for closed stations cannot be told from this run."
_ANCHORS = (
    "How many stops does a train make on a {operator} map from the first station to the last?",
    "At how many stations does a train stop on a map of {operator} that has no legend?",
)


def map_picture(episode: Episode) -> Picture:
    """Return the map of an episode as page 1."""
    from PIL import Image

    return picture_of(Image.fromarray(episode.question.map.pixels), page=1)


def derive_request(episode: Episode, *, run_id: str, batch: tuple[str, ...]) -> DeriveRequest:
    """Return the request for the run of an episode, judged by the oracle."""
    return DeriveRequest(
        run=run_of(episode, run_id=run_id, created_at=CREATED_AT),
        verdict="right" if episode.right else "wrong",
        verdict_source="oracle",
        batch=batch,
        pages=(map_picture(episode),),
    )


def derived(request: DeriveRequest, episode: Episode, chance: random.Random) -> Derived:
    """Return the lesson of an episode: the region of the marker that was taken as closed."""
    operator = episode.question.map.operator.name
    shown = transcript(request.run, shown_pages(request.pages, request.run))
    alias = shown.alias(2 * episode.looks.index(episode.decisive) + 1)
    said = shown.turns[alias].text
    template = chance.choice(_GUIDANCE if episode.right else _WRONG)
    index = index_of(operator, chance)
    lesson = {
        "polarity": "positive" if episode.right else "negative",
        "guidance": template.format(operator=operator, said=said),
        "applies_when": CONDITION.format(operator=operator),
        "cautions": [] if episode.right else [_DOUBT.format(operator=operator)],
        "title": TITLE.format(operator=operator),
        **index.model_dump(),
        "evidence": [
            {
                "image": "P1",
                "box": list(region_of(episode, episode.decisive).to_scaled()),
                "note": NOTE.format(operator=operator) if episode.right else "a marker to re-check",
                "turn": alias,
            }
        ],
    }
    found = OPERATIONS["derive"].parse(request, {"lessons": [lesson], "nothing": ""})
    assert isinstance(found, Derived)
    return found


def index_of(operator: str, chance: random.Random | None = None) -> IndexText:
    """Return the index text of lessons of an operator; without chance that of their category."""
    asked = _ANCHORS[0] if chance is None else chance.choice(_ANCHORS)
    return IndexText(
        topic=f"{FAMILY}: closed stations",
        scope=f"{FAMILY}, {operator}",
        question_anchor=asked.format(operator=operator),
    )
