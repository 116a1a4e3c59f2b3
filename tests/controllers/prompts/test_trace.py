from __future__ import annotations

from controllers.prompts.trace import FIRST_TURNS, LAST_TURNS, aliases_of, shown_pages, transcript
from epimem.protocols import Picture
from epimem.schema.run import Run, interleave
from tests.controllers.prompts import samples

PAGES = {"P1": samples.PAGES[0], "P2": samples.PAGES[1]}


def test_turns_of_all_agents_stand_in_the_order_they_happened() -> None:
    found = transcript(samples.run(), PAGES)
    assert list(found.turns) == ["T1", "T2", "T3", "T4"]
    assert [turn.seq for turn in found.turns.values()] == [0, 1, 2, 4]
    first, view, *_ = found.lines
    assert first["turn"] == "T1"
    assert first["by"] == "reader  (reads )"
    assert first["called"] == ['zoom  {"on": ""}']
    assert view["looked at"] == "P2 box [91, 34, 270, 83]"
    assert view["text"] == "a legend "
    assert found.alias(2) == "T3"


def test_a_view_of_a_page_that_is_not_shown_says_so() -> None:
    (_, view, *_) = transcript(samples.run(), {"P1": samples.PAGES[0]}).lines
    assert view["looked at"].startswith("page 2, not shown box [")


def test_of_a_long_run_the_first_and_last_turns_are_shown() -> None:
    run = samples.run(turns=100)
    found = transcript(run, PAGES)
    assert len(interleave(run)) == 101
    assert len(found.turns) == FIRST_TURNS + LAST_TURNS
    assert list(found.turns)[FIRST_TURNS - 1 : FIRST_TURNS + 1] == ["T6", "T68"]
    assert found.lines[FIRST_TURNS] == {"left_out": "61 turns"}
    assert found.lines[-1]["text"] == "Turn 99: "


def test_other_events_are_named() -> None:
    data = samples.run().plain()
    data["trajectory"]["extra"]["epimem"]["events"] = [{"seq": 9, "kind": "vote", "from": "judge"}]
    last = transcript(Run.read(data), PAGES).lines[-1]
    assert (last["by"], last["event"]) == ("judge", "vote")


def test_equal_pages_have_the_alias_of_the_first() -> None:
    page = Picture("same", 10, 10, 1)
    assert aliases_of({"P1": page, "P2": page}) == {"same": "P1"}


def test_pages_keep_their_numbers() -> None:
    assert list(shown_pages(samples.PAGES, samples.run())) == ["P1", "P2"]
    assert list(shown_pages(samples.PAGES * 6, None)) == [f"P{at}" for at in range(1, 9)]
