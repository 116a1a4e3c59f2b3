from __future__ import annotations

import pytest

from controllers.embedded.claims import Claim, instructs, segments


def claims(text: str) -> list[Claim]:
    return [claim for segment in segments(text) for claim in segment.claims]


@pytest.mark.parametrize(
    "text",
    [
        "In Norden charts the hatched bars are forecasts: leave them out.",
        "On this page the struck-through prices are void, so skip them.",
        "When a row is shaded, skip it.",
    ],
)
def test_a_leading_clause_is_kept_where_the_rest_says_nothing_by_itself(text: str) -> None:
    (claim,) = claims(text)
    assert claim.kind == "out"
    assert {"forecast", "void", "row"} & set(claim.words)


def test_a_leading_condition_is_left_out_where_the_rest_speaks_for_itself() -> None:
    (claim,) = claims("In a chart with hatched bars, leave out the forecasts.")
    assert claim.words == ("forecast",)


def test_a_clause_that_only_points_back_belongs_to_the_one_before() -> None:
    (claim,) = claims("The hatched bars are forecasts, so leave those bars out.")
    assert (claim.kind, {"hatch", "bar", "forecast"} <= set(claim.words)) == ("out", True)
    looked, checked = claims("Find the bar above the year, then check it against the axis.")
    assert "axis" in checked.words
    assert "axis" not in looked.words


@pytest.mark.parametrize(
    ("text", "points"),
    [
        ("Leave out the stations with the marker shown here.", True),
        ("Leave out bars like those.", True),
        ("Count the rows in this region twice.", True),
        ("Leave out the hatched bars.", False),
        ("Leave out the hatched bars in this chart.", False),
    ],
)
def test_claims_that_leave_it_to_a_picture_are_told(text: str, *, points: bool) -> None:
    assert claims(text)[0].points is points


@pytest.mark.parametrize(
    "text",
    [
        "Leave out the hatched bars.",
        "The hatched bars are forecasts: leave them out.",
        "Prices are net, so add the tax.",
        "In ledgers of this house, do not count struck-through rows.",
        "Amounts must be multiplied by ten.",
    ],
)
def test_what_says_what_to_do_instructs(text: str) -> None:
    assert instructs(text)


@pytest.mark.parametrize(
    "text",
    [
        "The hatched bars are forecasts.",
        "Answer: 42.",
        "Start found: Clarke Quay is the second marker.",
        "Total = 12.",
        "The train stops nine times.",
        "",
    ],
)
def test_what_only_tells_does_not(text: str) -> None:
    assert not instructs(text)
