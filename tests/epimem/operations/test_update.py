"""Updates of question-level memory: joint, checked, and without effect where they are refused."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from epimem.operations import update
from epimem.schema.proposal import Rejection
from epimem.schema.region import Region
from epimem.schema.working_memory import Update, VisualEvidence, WorkingMemory

PAGES = {"map": (100, 80), "table": (40, 60)}


def evidence(image="map", size=None, box=(0, 0, 10, 10), note=""):
    width, height = size or PAGES.get(image, (100, 80))
    x0, y0, x1, y1 = box
    region = Region(x0=x0, y0=y0, x1=x1, y1=y1, width=width, height=height)
    return VisualEvidence(image_id=image, region=region, note=note)


def apply(proposal, memory=None, visual="evolving"):
    return update.apply(memory or WorkingMemory(), proposal, pages=PAGES, visual=visual)


HELD = WorkingMemory(guidance="Count the triangles.", evidence=evidence("table"), gate=1)


def test_text_region_gate_and_stop_are_taken_together():
    found = apply(
        Update(
            guidance="Leave out the hollow ones.",
            applies_when="no legend",
            cautions=("two look alike",),
            visual="replace",
            evidence=evidence(),
            gate=1,
            stop=True,
        ),
        HELD,
    )
    assert found == WorkingMemory(
        guidance="Leave out the hollow ones.",
        applies_when="no legend",
        cautions=("two look alike",),
        evidence=evidence(),
        gate=1,
        stop=True,
    )


def test_evidence_is_retained_replaced_or_removed():
    kept = apply(Update(guidance="x", visual="retain", gate=1), HELD)
    assert (kept.evidence, kept.gate) == (HELD.evidence, 1)
    other = apply(Update(guidance="x", visual="replace", evidence=evidence()), HELD)
    assert (other.evidence, other.gate) == (evidence(), 0)
    gone = apply(Update(guidance="x", visual="remove", gate=1), HELD)
    assert (gone.evidence, gone.gate) == (None, 0)


def test_a_shut_gate_deletes_nothing():
    assert apply(Update(guidance="x", gate=0), HELD).evidence == HELD.evidence


@pytest.mark.parametrize(
    ("proposal", "reason"),
    [
        (Update(guidance="x", visual="replace"), "schema"),
        (Update(guidance="x", visual="retain", evidence=evidence()), "schema"),
        (Update(guidance="x", visual="remove", evidence=evidence()), "schema"),
        (Update(guidance="x", visual="replace", evidence=evidence("other")), "not_shown"),
        (
            Update(guidance="x", visual="replace", evidence=evidence("map", size=(50, 50))),
            "image",
        ),
        (Update(), "schema"),
    ],
)
def test_an_invalid_update_is_refused_and_leaves_the_memory_to_the_byte(proposal, reason):
    before = HELD.canonical() if proposal != Update() else WorkingMemory().canonical()
    memory = HELD if proposal != Update() else WorkingMemory()
    found = apply(proposal, memory)
    assert isinstance(found, Rejection)
    assert (found.op, found.reason) == ("update", reason)
    assert memory.canonical() == before


def test_frozen_evidence_is_set_once_and_then_stays():
    first = apply(Update(guidance="x", visual="replace", evidence=evidence()), visual="frozen")
    assert first.evidence == evidence()
    for proposal in (
        Update(guidance="y", visual="replace", evidence=evidence("table")),
        Update(guidance="y", visual="remove"),
    ):
        found = apply(proposal, first, visual="frozen")
        assert (found.guidance, found.evidence) == ("y", evidence())


def test_text_only_holds_no_evidence_whatever_is_proposed():
    proposal = Update(guidance="x", visual="replace", evidence=evidence(), gate=1)
    found = apply(proposal, HELD, visual="none")
    assert (found.evidence, found.gate) == (None, 0)


boxes = st.builds(
    lambda x, y, w, h: (x, y, x + w, y + h),
    st.integers(0, 30),
    st.integers(0, 30),
    st.integers(1, 9),
    st.integers(1, 9),
)
proposals = st.builds(
    Update,
    guidance=st.sampled_from(["", "Count again.", "换乘站"]),
    cautions=st.lists(st.sampled_from(["careful", "see the legend"]), max_size=2).map(tuple),
    visual=st.sampled_from(["retain", "replace", "remove"]),
    evidence=st.none()
    | st.builds(
        evidence,
        st.sampled_from(["map", "table", "other"]),
        st.sampled_from([None, (50, 50)]),
        boxes,
    ),
    gate=st.sampled_from([0, 1]),
    stop=st.booleans(),
)


@given(st.lists(proposals, max_size=6), st.sampled_from(["none", "frozen", "evolving"]))
def test_whatever_is_proposed_the_memory_stays_lawful(given_proposals, visual):
    memory = WorkingMemory()
    for proposal in given_proposals:
        before = memory.canonical()
        found = update.apply(memory, proposal, pages=PAGES, visual=visual)
        if isinstance(found, Rejection):
            assert memory.canonical() == before
            continue
        memory = found
        assert memory.gate == 0 or memory.evidence is not None
        if memory.evidence is not None:
            region = memory.evidence.region
            assert visual != "none"
            assert PAGES[memory.evidence.image_id] == (region.width, region.height)
