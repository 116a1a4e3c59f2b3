from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controllers.embedded.fitting import cleaned, fitted
from controllers.embedded.words import content_words, overlap, stem
from epimem.schema.text import TITLE_BYTES, check_text, clean_text


@pytest.mark.parametrize(
    "forms",
    [
        ("hatched", "hatching", "hatch"),
        ("totals", "total", "totalling"),
        ("underlined", "underline", "underlines"),
        ("multiply", "multiplied", "multiplies"),
        ("boxes", "box"),
        ("calls", "calling", "called", "call"),
        ("Norden's", "Norden", "norden"),
        ("shaded", "shades", "shade"),
    ],
)
def test_forms_of_one_word_have_one_stem(forms: tuple[str, ...]) -> None:
    assert len({stem(form) for form in forms}) == 1


@pytest.mark.parametrize(
    ("left", "right"), [("diamond", "circle"), ("shaded", "unshaded"), ("red", "read")]
)
def test_different_words_have_different_stems(left: str, right: str) -> None:
    assert stem(left) != stem(right)


def test_content_words_leave_out_function_words_numbers_and_letters() -> None:
    assert content_words("Count the 7 white circles, not the A or B.") == ("count", "whit", "circl")


def test_cjk_text_is_compared_in_character_pairs() -> None:
    assert content_words("白色圆圈") == ("白色", "色圆", "圆圈")


def test_overlap_is_of_the_smaller_set() -> None:
    assert overlap({"a", "b"}, {"b", "c", "d"}) == 0.5
    assert overlap(set(), {"a"}) == 0.0


wild = st.text(st.characters(codec="utf-8"), max_size=60)


@given(wild)
def test_fast_cleaning_equals_cleaning(text: str) -> None:
    assert cleaned(text) == clean_text(text)


@given(wild, st.integers(4, TITLE_BYTES))
def test_fitted_text_passes_the_text_rules_within_its_bound(text: str, limit: int) -> None:
    line = fitted(text, limit)
    assert check_text(line) == line
    assert len(line.encode("utf-8")) <= limit
    assert "\n" not in line


def test_long_text_is_cut_at_a_word_and_shows_it() -> None:
    assert fitted("one two three four", 12) == "one two…"
