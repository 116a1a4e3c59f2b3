from __future__ import annotations

from collections.abc import Callable

import pytest

from controllers.embedded.agreement import contradictions, ground, voice, yielded
from controllers.embedded.claims import segments
from epimem.schema.lesson import Evidence, Statement
from epimem.schema.region import Region
from epimem.schema.tree import Node

Make = Callable[..., Node]


def claims(text: str) -> list[tuple[set[str], str, set[str]]]:
    return [
        (set(claim.words), claim.kind, set(claim.numbers))
        for segment in segments(text)
        for claim in segment.claims
    ]


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("Count the hatched bars.", ""),
        ("Do not count the hatched bars.", "out"),
        ("Don't count the hatched bars.", "out"),
        ("Leave the hatched bars out of the total.", "out"),
        ("Skip the hatched bars.", "out"),
        ("Do not skip the hatched bars.", ""),
        ("Never leave the hatched bars out.", ""),
        ("Subtract the hatched bars.", "minus"),
        ("Treat the hatched bars as negative.", "minus"),
        ("Count all bars and subtract the hatched ones.", "out"),
        ("不要跳过白色圆圈", "out"),
    ],
)
def test_the_kind_of_a_claim_is_what_is_done_with_its_object(text: str, kind: str) -> None:
    assert claims(text)[-1][1] == kind


def test_clauses_are_cut_before_verbs_and_conditions_are_no_claims() -> None:
    found = claims("In old charts, leave hatched bars out, then multiply the rest by 10.")
    assert [(kind, numbers) for _, kind, numbers in found] == [("out", set()), ("", {"10"})]
    assert "chart" not in found[0][0]


def test_an_enumeration_stays_with_its_verb() -> None:
    ((words, kind, _),) = claims("Leave out the triangles, the squares and the diamonds.")
    assert kind == "out"
    assert len(words) == 3


def test_asides_are_not_compared() -> None:
    assert claims("Count the bars (659 + 714 = 1373) twice.")[0][2] == {"2"}


def test_number_words_are_numbers() -> None:
    assert claims("Multiply by 12.")[0][2] == claims("Multiply by a dozen.")[0][2]


def agree(make: Make, one: str, two: str) -> bool:
    """Tell whether the second lesson yields a claim of the first."""
    voices = [voice(make("a", one)), voice(make("b", two))]
    common = ground(voices)
    return any(yielded(claim, voices[1], common)[1] for claim in voices[0].claims)


def clash(make: Make, one: str, two: str) -> bool:
    voices = [voice(make("a", one)), voice(make("b", two))]
    pairs = contradictions(voices[0], voices[1], ground(voices))
    assert bool(pairs) == bool(contradictions(voices[1], voices[0], ground(voices)))
    return bool(pairs)


@pytest.mark.parametrize(
    ("one", "two"),
    [
        ("Leave out the hatched bars.", "Do not count bars with hatching."),
        ("Leave out stations drawn as white triangles.", "Do not count white triangle markers."),
        ("Multiply the value by 10.", "Multiply printed values by 10 before answering."),
        ("Subtract amounts in round brackets.", "Treat amounts in parentheses as negative."),
        ("Count the last bar twice.", "When totalling, count the last bar twice, the others once."),
    ],
)
def test_two_wordings_of_one_advice_agree(lesson: Make, one: str, two: str) -> None:
    assert agree(lesson, one, two)
    assert not clash(lesson, one, two)


@pytest.mark.parametrize(
    ("one", "two"),
    [
        # another mark in the same place
        ("Leave out the white diamonds.", "Leave out the white circles."),
        ("Do not count white diamond markers.", "Do not count white circle markers."),
        # another number
        ("Multiply the printed value by 10.", "Multiply the printed value by 100."),
        # negation
        ("Leave out the hatched bars.", "Count the hatched bars."),
        ("Skip the dashed line.", "Do not skip the dashed line."),
        # taken off is not left out
        ("Subtract the italic amounts.", "Leave out the italic amounts."),
        # nothing in common but the question
        ("Read the total of the chart.", "Print the total of the chart."),
        # the same figure only
        ("The answer is 3.", "FINAL ANSWER: 3"),
        # one word of advice is not enough
        ("Look at the axis.", "Check it against the axis."),
    ],
)
def test_different_advice_does_not_agree(lesson: Make, one: str, two: str) -> None:
    assert not agree(lesson, one, two)
    assert not agree(lesson, two, one)


@pytest.mark.parametrize(
    ("one", "two"),
    [
        ("Multiply the printed value by 10.", "Multiply the printed value by 100."),
        ("Leave out the hatched bars.", "Count the hatched bars."),
        ("Subtract the italic amounts.", "Leave out the italic amounts."),
    ],
)
def test_advice_that_cannot_both_hold_contradicts(lesson: Make, one: str, two: str) -> None:
    assert clash(lesson, one, two)


def test_the_kind_decides_even_for_words_of_the_topic(lesson: Make) -> None:
    texts = ("Leave out the hatched bars.", "Count the hatched bars.")
    voices = [voice(lesson(text, text, topic="hatched bars in totals")) for text in texts]
    common = ground(voices)
    assert common.topics
    assert not any(yielded(claim, voices[1], common)[1] for claim in voices[0].claims)


def test_not_every_is_no_contradiction_of_some(lesson: Make) -> None:
    assert not clash(lesson, "Do not count every hatched bar.", "Count the hatched bars.")


def test_what_was_judged_wrong_contradicts_the_same_advice(lesson: Make) -> None:
    right = voice(lesson("a", "Count the hatched bars."))
    wrong = voice(lesson("b", "Count the hatched bars.", polarity="negative"))
    assert contradictions(right, wrong, ground([right, wrong]))


def test_a_negative_lesson_speaks_only_in_the_statement_it_quotes(lesson: Make) -> None:
    node = lesson(
        "a",
        "Judged wrong: “Nine stations.”\nRe-check the step of checker.",
        polarity="negative",
        statements=[{"text": "Nine stations."}, {"text": "The line has no legend."}],
    )
    assert [segment.text for segment in voice(node).segments] == ["Nine stations."]


def test_lessons_that_quote_other_code_neither_agree_nor_clash(lesson: Make) -> None:
    same = "apply `rotate_half` then `crop`, then recolor"
    assert agree(lesson, f"Program: {same}.", f"It is reproduced when you {same}.")
    for other in (
        "apply `crop` then `rotate_half`, then recolor",
        "apply `rotate_half`, then recolor",
        "apply `mirror` then `crop`, then recolor",
    ):
        assert not agree(lesson, f"Program: {same}.", f"Program: {other}.")
        assert not clash(lesson, f"Program: {same}.", f"Program: {other}.")
    assert clash(
        lesson, "Call `rotate_half` before cropping.", "Do not call `rotate_half` before cropping."
    )
    # The same words in another order of code: an alternative, not a denial.
    assert not clash(
        lesson, "Call `crop` then `turn` on it.", "Do not call `turn` then `crop` on it."
    )


POINTING = "Leave out the rows with the mark shown here."
NAMED = "Leave out the rows with a red mark."


@pytest.mark.parametrize(
    ("guidance", "right_at", "wrong_at", "conflict"),
    [
        (POINTING, 10, 50, False),
        (POINTING, 10, 10, True),
        (POINTING, 10, None, True),
        (NAMED, 10, 50, True),
    ],
)
def test_what_was_judged_wrong_of_another_region_contradicts_nothing_that_points(
    lesson: Make, guidance: str, right_at: int, wrong_at: int | None, *, conflict: bool
) -> None:
    def shown(left: int | None) -> tuple[Evidence, ...]:
        if left is None:
            return ()
        region = Region(x0=left, y0=0, x1=left + 5, y1=5, width=100, height=80)
        return (Evidence(image_id="page", region=region),)

    statement = (Statement(text=guidance),)
    against = (Statement(text=guidance, polarity="negative"),)
    right = voice(lesson("a", guidance, statements=statement, evidence=shown(right_at)))
    wrong = voice(
        lesson(
            "b",
            f"Judged wrong: “{guidance}”",
            polarity="negative",
            statements=against,
            evidence=shown(wrong_at),
        )
    )
    common = ground([right, wrong])
    assert bool(contradictions(right, wrong, common)) is conflict
    assert bool(contradictions(wrong, right, common)) is conflict
