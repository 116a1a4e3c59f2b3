from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controllers.embedded.agreement import ground, voice, yielded
from controllers.embedded.claims import segments
from controllers.embedded.consolidate import consolidate
from controllers.embedded.contrasts import contrasts, opposed
from epimem.protocols import ConsolidateRequest
from epimem.schema.tree import Node
from tests.wordings import DIFFERENT

Make = Callable[..., Node]
TURNED = [
    ("Keep values above 10.", "Keep values below 10."),
    ("Keep values over 10 in the table.", "Keep values under 10 in the table."),
    ("Keep values > 10 in the table.", "Keep values below 10 in the table."),
    ("Keep values ≤ 10 in the table.", "Keep values < 10 in the table."),
    ("Keep values >= 10 in the table.", "Keep values < 10 in the table."),
    ("Wait at least 5 minutes for the pump.", "Wait at most 5 minutes for the pump."),
    ("Wait no more than 5 minutes there.", "Wait more than 5 minutes there."),
    ("Open the valve before heating.", "Open the valve after heating."),
    ("Turn the switch on for the pump.", "Turn the switch off for the pump."),
    ("Round the total up to tens.", "Round the total down to tens."),
    ("Use the first column of the table.", "Use the second column of the table."),
    ("Use the last column of the table.", "Use the first column of the table."),
    ("Use the 3rd column of the table.", "Use the fourth column of the table."),
    ("Multiply the printed value by -1.", "Multiply the printed value by 1."),
    ("Subtract 5 % of the total.", "Subtract 5 of the total."),
    ("Subtract 5 % of the total.", "Subtract 5 ‰ of the total."),
    ("Zähle die schraffierten Balken.", "Zähle die schraffierten Balken nicht."),
    ("Compte les barres noires.", "Ne compte pas les barres noires."),
    ("Cuenta las barras negras.", "Nunca cuenta las barras negras."),
    ("计算黑色条形", "别计算黑色条形"),
    ("黒い棒を数える", "黒い棒を数えない"),
    ("검은 막대를 세세요", "검은 막대를 세지 마세요"),
]


@pytest.mark.parametrize(("one", "other"), TURNED + DIFFERENT)
def test_what_turns_a_statement_round_supports_nothing(
    lesson: Make, category: Make, one: str, other: str
) -> None:
    nodes = [lesson("a", one), lesson("b", other)]
    voices = [voice(node) for node in nodes]
    common = ground(voices)
    for speaker, listener in (voices, voices[::-1]):
        assert not any(yielded(claim, listener, common)[1] for claim in speaker.claims)
    assert consolidate(ConsolidateRequest(category(), tuple(nodes))).supported_by == ()


@pytest.mark.parametrize(("one", "other"), TURNED[:12])
def test_what_is_turned_round_is_a_conflict(
    lesson: Make, category: Make, one: str, other: str
) -> None:
    nodes = (lesson("a", one), lesson("b", other))
    (conflict,) = consolidate(ConsolidateRequest(category(), nodes)).conflicts
    assert {conflict.first.statement, conflict.second.statement} == {one, other}


@pytest.mark.parametrize(("one", "other"), TURNED + DIFFERENT)
def test_a_caution_is_not_dropped_for_one_that_it_turns_round(
    lesson: Make, category: Make, one: str, other: str
) -> None:
    texts = ("Add the solid bars of Norden.", "Add solid bars of the Norden chart.")
    nodes = [
        lesson(f"n{at}", text, cautions=(said,))
        for at, (text, said) in enumerate(zip(texts, (one, other), strict=True))
    ]
    found = consolidate(ConsolidateRequest(category(), tuple(nodes)))
    assert len(found.supported_by) == 2
    assert set(found.cautions) >= {one, other}


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("Count up the bars, then count down.", "Count down the bars."),
        ("The second and the first row", "First, read the row"),
        ("Look before answering", "Look after reading"),
        ("Pages 3-5", "Pages 5 to 9"),
        ("Take 5 stops", "Take 5 markers"),
        ("Read all of it", "Read it"),
        ("More than 5, at most 9", "At most 9"),
        ("Write it down", "Round it up"),
        ("Stay no less than an hour", "Stay at least an hour"),
    ],
)
def test_a_side_in_common_or_another_dimension_is_no_opposition(one: str, other: str) -> None:
    assert not opposed(contrasts(one), contrasts(other))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("Use the 3rd row", "Use the 4th row"),
        ("Stay no less than an hour", "Stay at most an hour"),
        ("Stay no fewer than 3 days", "Stay fewer than 3 days"),
        ("Start at -1", "Start at 1"),
        ("Go (-1, 2)", "Go (1, 2)"),
    ],
)
def test_small_words_and_signs_are_sides(one: str, other: str) -> None:
    assert opposed(contrasts(one), contrasts(other))


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("棒を数えません", "out"),
        ("黒い棒なし", "out"),
        ("棒を数えない", "out"),
        ("棒が少ない", ""),
        ("막대를 세지 말 것", "out"),
        ("막대 없이", "out"),
        ("特别计算条形", ""),
        ("别计算条形", "out"),
        ("Ne compte les barres que le soir", "out"),
        ("Compte pas les barres", "out"),
        ("Никогда считай столбцы", "out"),
        ("Считай столбцы без полос", "out"),
        ("Zähle keine Balken", "out"),
        ("Conta as barras sem cor", "out"),
        ("Use non-zero bars", ""),
    ],
)
def test_negations_of_other_languages_are_known(text: str, kind: str) -> None:
    assert segments(text)[0].claims[0].kind == kind


@given(st.text(max_size=60), st.text(max_size=60))
def test_no_text_opposes_itself_and_opposition_is_mutual(one: str, other: str) -> None:
    assert not opposed(contrasts(one), contrasts(one))
    assert opposed(contrasts(one), contrasts(other)) == opposed(contrasts(other), contrasts(one))
