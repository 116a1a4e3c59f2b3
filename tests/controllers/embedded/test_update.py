from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controllers.embedded.memory_controller import EmbeddedMemoryController
from controllers.embedded.update import LOOK_AGAIN, UNCONFIRMED
from epimem.operations.update import apply
from epimem.protocols import Picture, UpdateRequest
from epimem.schema.run import Run
from epimem.schema.working_memory import Update, VisualEvidence, WorkingMemory

REGION = {"x0": 10, "y0": 20, "x1": 60, "y1": 70, "width": 100, "height": 80}
OTHER = {**REGION, "x0": 30}
PAGE = {"page": 1, "image_id": "image-a", "width": 100, "height": 80}
SHOWN = Picture(image_id="image-a", width=100, height=80, page=1)
QUESTION = "What is the total in the chart?"
TURNS = (
    ("reader", "The chart has five solid bars and two hatched bars with numbers on top."),
    ("reader", "The hatched bars are forecasts, so the total of the solid bars is 40."),
)
Make = Callable[..., Run]


def revised(trace: Run | str, **changes: Any) -> Update:
    fields: dict[str, Any] = {
        "question": QUESTION,
        "pages": (SHOWN,),
        "memory": WorkingMemory(),
        "answer": "40",
        "trace": trace,
        "attempt": 1,
        "left": 4,
    }
    (reply,) = EmbeddedMemoryController().update([UpdateRequest(**fields | changes)])
    assert reply.value is not None
    return reply.value


def accepted(memory: WorkingMemory, proposal: Update, visual: Any = "evolving") -> WorkingMemory:
    found = apply(memory, proposal, pages={"image-a": (100, 80)}, visual=visual)
    assert isinstance(found, WorkingMemory)
    return found


@pytest.fixture
def run(make_run: Make) -> Run:
    """A run whose last statement was read from a region."""
    return make_run(
        TURNS, question=QUESTION, answer="40", pages=[PAGE], views=[(1, 1, REGION, True)]
    )


def test_the_memory_quotes_the_attempt_and_points_to_where_it_looked(run: Run) -> None:
    memory = accepted(WorkingMemory(), revised(run))
    assert "“40”" in memory.guidance
    assert f"“{TURNS[1][1]}”" in memory.guidance
    assert LOOK_AGAIN in memory.guidance
    assert memory.evidence is not None
    assert (memory.evidence.image_id, memory.evidence.region.plain()) == ("image-a", REGION)
    assert memory.evidence.note in TURNS[1][1]
    assert (memory.gate, memory.stop) == (1, False)
    assert memory.cautions
    assert all(text.startswith(UNCONFIRMED) for text in memory.cautions)
    assert all(TURNS[1][1] not in text for text in memory.cautions)


def test_nothing_of_it_says_that_the_attempt_was_right_or_wrong(run: Run) -> None:
    memory = accepted(WorkingMemory(), revised(run))
    said = " ".join((memory.guidance, *memory.cautions)).casefold()
    for word in ("wrong", "right", "correct"):
        assert word not in said


def test_an_attempt_that_says_the_same_is_the_last(run: Run) -> None:
    first = accepted(WorkingMemory(), revised(run))
    second = accepted(first, revised(run, memory=first, attempt=2, left=3))
    assert second == first.model_copy(update={"stop": True})


def test_another_answer_on_the_same_ground_is_news(run: Run) -> None:
    first = accepted(WorkingMemory(), revised(run))
    second = accepted(first, revised(run, memory=first, answer="41"))
    assert not second.stop
    assert "“41”" in second.guidance


def test_an_attempt_that_says_nothing_ends_it_and_leaves_the_memory(make_run: Make) -> None:
    silent = make_run((("reader", "ok"),), question=QUESTION)
    assert accepted(WorkingMemory(), revised(silent)) == WorkingMemory(stop=True)
    held = WorkingMemory(guidance="Look twice.", gate=0)
    assert accepted(held, revised(silent, memory=held)) == held.model_copy(update={"stop": True})


def test_new_ground_brings_its_own_region(make_run: Make, run: Run) -> None:
    first = accepted(WorkingMemory(), revised(run))
    turns = (*TURNS[:1], ("reader", "The axis begins at ten, so the total of all bars is 60."))
    later = make_run(
        turns, question=QUESTION, answer="60", pages=[PAGE], views=[(1, 1, OTHER, True)]
    )
    proposal = revised(later, memory=first, answer="60")
    assert proposal.visual == "replace"
    second = accepted(first, proposal)
    assert second.evidence is not None
    assert second.evidence.region.plain() == OTHER


def test_ground_without_a_region_takes_the_old_one_away(make_run: Make, run: Run) -> None:
    first = accepted(WorkingMemory(), revised(run))
    turns = (*TURNS[:1], ("reader", "The axis begins at ten, so the total of all bars is 60."))
    later = make_run(turns, question=QUESTION, answer="60", pages=[PAGE])
    second = accepted(first, revised(later, memory=first, answer="60"))
    assert (second.evidence, second.gate) == (None, 0)
    assert LOOK_AGAIN not in second.guidance


@pytest.mark.parametrize(
    "pages",
    [
        (),
        (Picture(image_id="image-b", width=100, height=80, page=1),),
        (Picture("image-a", 99, 80),),
    ],
)
def test_a_region_of_no_page_of_the_question_is_left_out(
    run: Run, pages: tuple[Picture, ...]
) -> None:
    proposal = revised(run, pages=pages)
    assert (proposal.visual, proposal.evidence, proposal.gate) == ("retain", None, 0)
    assert LOOK_AGAIN not in proposal.guidance


def test_frozen_evidence_is_set_once(make_run: Make, run: Run) -> None:
    first = accepted(WorkingMemory(), revised(run, visual="frozen"), "frozen")
    assert first.evidence is not None
    turns = (*TURNS[:1], ("reader", "The axis begins at ten, so the total of all bars is 60."))
    later = make_run(
        turns, question=QUESTION, answer="60", pages=[PAGE], views=[(1, 1, OTHER, True)]
    )
    proposal = revised(later, memory=first, answer="60", visual="frozen")
    assert proposal.visual == "retain"
    second = accepted(first, proposal, "frozen")
    assert second.evidence == first.evidence
    assert second.guidance != first.guidance


def test_text_only_proposes_no_evidence(run: Run) -> None:
    proposal = revised(run, visual="none")
    assert (proposal.visual, proposal.evidence, proposal.gate) == ("retain", None, 0)
    assert LOOK_AGAIN not in proposal.guidance


def test_the_gate_stays_shut_where_nothing_seen_is_spoken_of(make_run: Make) -> None:
    turns = (("solver", "Therefore the answer to the sum of both amounts is 40."),)
    run = make_run(
        turns, question="What is the sum?", answer="40", pages=[PAGE], views=[(0, 1, REGION, True)]
    )
    proposal = revised(run, question="What is the sum?")
    assert proposal.evidence is not None
    assert proposal.gate == 0


def test_a_transcript_is_read_as_a_run_is(run: Run) -> None:
    by_text = revised("\n".join(text for _, text in TURNS))
    assert f"“{TURNS[1][1]}”" in by_text.guidance
    assert (by_text.visual, by_text.evidence, by_text.gate) == ("retain", None, 0)
    held = WorkingMemory(
        guidance="Old.",
        evidence=VisualEvidence.model_validate({"image_id": "image-a", "region": REGION}),
    )
    assert revised("\n".join(text for _, text in TURNS), memory=held).visual == "remove"
    del run


@given(
    trace=st.text(max_size=400),
    answer=st.text(max_size=60),
    visual=st.sampled_from(["none", "frozen", "evolving"]),
)
def test_every_proposal_is_lawful(trace: str, answer: str, visual: Any) -> None:
    memory = WorkingMemory()
    for attempt in (1, 2):
        proposal = revised(trace, memory=memory, answer=answer, visual=visual, attempt=attempt)
        memory = accepted(memory, Update.read(proposal.canonical()), visual)
    assert memory.stop
