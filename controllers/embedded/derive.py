"""Derive: what a run teaches, taken from its own words (DESIGN.md 5 A).

The verdict decides the polarity. `right`: one positive lesson of up to three statements. `wrong`:
one negative lesson that quotes what was judged wrong and says where to look again; the other
statements stand in its cautions, none becomes guidance. `unknown`: one positive lesson, its
source "none", with a caution that nobody checked it (ours): a run without a verdict has not been
found wrong, and a lesson with that source can hardly lift a rule, so the step from "not checked"
to "advice" stays visible.

Statements are exact pieces of turns. The templates around them hold no digit and no reference.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from controllers.embedded.anchors import anchor
from controllers.embedded.fitting import fitted, joined
from controllers.embedded.scopes import public_scope
from controllers.embedded.sentences import sentences
from controllers.embedded.statements import Salient, message_text, salient_statements
from controllers.embedded.term_weights import class_titles
from epimem.protocols import Derived, DeriveRequest
from epimem.schema.lesson import Evidence, IndexText, LessonDraft, Polarity, Statement, TurnRef
from epimem.schema.run import Event, Run, Turn, interleave
from epimem.schema.text import LESSON_BYTES, TAG_BYTES, TITLE_BYTES

MAX_EVIDENCE = 4
NOTE_BYTES = 400
NOTHING_SAID = "no turn holds a sentence that an agent said"
UNVERIFIED = "Not verified: nobody judged the answer of the run this comes from."
_NAME_BYTES = 60


def derive_lesson(
    request: DeriveRequest, shared_names: frozenset[tuple[str, ...]] = frozenset()
) -> Derived:
    """Return the one lesson of a run, or why there is nothing to learn.

    Args:
        request: run, verdict and verdict source.
        shared_names: names that other questions of the batch have as well; they stay in the anchor.
    """
    run = request.run
    turns = interleave(run)
    found = salient_statements(run, turns)
    if not found:
        return Derived((), nothing=NOTHING_SAID)
    wrong = request.verdict == "wrong"
    evidence = evidence_of(run, turns, found)
    scope = public_scope(run.task)
    asked = anchor(run.task.question, scope, shared_names)
    polarity: Polarity = "negative" if wrong else "positive"
    family = fitted(run.task.family, TITLE_BYTES)
    draft = LessonDraft(
        polarity=polarity,
        guidance=_wrong_guidance(run, turns, found[0], evidence) if wrong else _guidance(found),
        applies_when=fitted(f"Questions like: {asked}", LESSON_BYTES) if asked else "",
        cautions=_cautions(request.verdict, found),
        index=IndexText(topic=_topic(family, found), scope=scope, question_anchor=asked),
        evidence=evidence,
        statements=_statements(run, turns, found, polarity),
        family=family,
        question_key=run.task.question_key,
        group_key=run.task.group_key,
        verdict_source="none" if request.verdict == "unknown" else request.verdict_source,
        harness=fitted(run.system.harness, TAG_BYTES),
        backbone=fitted(run.system.backbones[0].id, TAG_BYTES) if run.system.backbones else "",
        agent=fitted(turns[found[0].turns[-1]].actor, TAG_BYTES),
        run_ids=(run.run_id,),
    )
    return Derived((draft,))


def _topic(family: str, found: Sequence[Salient]) -> str:
    """Return the family and the heaviest terms of the statements."""
    terms = class_titles([" ".join(item.text for item in found)])[0]
    return fitted(": ".join(part for part in (family, terms) if part), TITLE_BYTES)


def _guidance(found: Sequence[Salient]) -> str:
    return "\n".join(item.text for item in found)


def _wrong_guidance(
    run: Run, turns: Sequence[Turn], main: Salient, evidence: Sequence[Evidence]
) -> str:
    """Say that a statement was judged wrong, who said it and when, and what to look at again."""
    last = main.turns[-1]
    speaker = fitted(turns[last].actor, _NAME_BYTES) or "an agent"
    role = next((actor.role for actor in run.actors if actor.traj == turns[last].traj), "")
    title = fitted(role, _NAME_BYTES)
    who = f"{speaker} ({title})" if title and title != speaker else speaker
    lines = [
        f"Judged wrong: “{main.text}”",
        f"Re-check the step of {who} {_when(last, turns)} before you rely on it.",
    ]
    if any(item.turn is not None and item.turn.seq == turns[last].seq for item in evidence):
        lines.append("Look again at the region of the image that this step read.")
    return "\n".join(lines)


def _when(index: int, turns: Sequence[Turn]) -> str:
    """Say where in the run a turn stands, counted in turns that say something."""
    said = [at for at, turn in enumerate(turns) if at == index or message_text(turn)]
    rank = said.index(index)
    if rank == len(said) - 1:
        return "that ended the run"
    if rank == 0:
        return "that opened the run"
    return "late in the run" if 2 * rank >= len(said) else "early in the run"


def _cautions(
    verdict: Literal["right", "wrong", "unknown"], found: Sequence[Salient]
) -> tuple[str, ...]:
    if verdict == "unknown":
        return (UNVERIFIED,)
    if verdict == "right":
        return ()
    return tuple(f"Said in the same run, not confirmed: “{item.text}”" for item in found[1:])


def _statements(
    run: Run, turns: Sequence[Turn], found: Sequence[Salient], polarity: Polarity
) -> tuple[Statement, ...]:
    return tuple(
        Statement(
            text=item.text,
            polarity=polarity,
            turns=tuple(TurnRef(run_id=run.run_id, seq=turns[at].seq) for at in item.turns),
        )
        for item in found
    )


def evidence_of(run: Run, turns: Sequence[Turn], found: Sequence[Salient]) -> tuple[Evidence, ...]:
    """Return the regions that the salient turns looked at, best statement first, at most four.

    Where a statement says how things are done in the task's house, what it was read from is the
    evidence; what other turns looked at beside it belongs to this one question.
    """
    views = _views(turns)
    told = [item for item in found if item.convention and any(at in views for at in item.turns)]
    seen: dict[tuple[str, tuple[int, int, int, int]], Evidence] = {}
    for at in dict.fromkeys(at for item in told or found for at in item.turns):
        for event in views.get(at, ()):
            if event.page is None or event.region is None or event.page > len(run.task.pages):
                continue
            page = run.task.pages[event.page - 1]
            if (event.region.width, event.region.height) != (page.width, page.height):
                continue
            evidence = Evidence(
                image_id=page.image_id,
                region=event.region,
                note=_note(turns[at]),
                turn=TurnRef(run_id=run.run_id, seq=turns[at].seq),
            )
            seen.setdefault((page.image_id, event.region.box), evidence)
    return tuple(seen.values())[:MAX_EVIDENCE]


def _views(turns: Sequence[Turn]) -> dict[int, list[Event]]:
    """Return the view events by the index of the turn they belong to.

    A view names its step, or belongs to the last step of its sender before it.
    """
    places = {
        (turn.traj, turn.step.step_id): at for at, turn in enumerate(turns) if turn.step is not None
    }
    latest: dict[str, int] = {}
    result: dict[int, list[Event]] = {}
    for at, turn in enumerate(turns):
        event = turn.event
        if turn.step is not None:
            latest[turn.actor] = at
        elif event is not None and event.kind == "view":
            if event.step_ref is not None:
                found = places.get((event.step_ref.traj, event.step_ref.step))
            else:
                found = latest.get(turn.actor)
            if found is not None:
                result.setdefault(found, []).append(event)
    return result


def _note(turn: Turn) -> str:
    """Return what the turn says of its region: its longest sentence."""
    said = sentences(message_text(turn))
    return fitted(max(said, key=len, default=joined(turn.actor)), NOTE_BYTES)
