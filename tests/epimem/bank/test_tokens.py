from __future__ import annotations

import string
import unicodedata
from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from epimem.bank.tokens import document_terms, question_terms, term_hash, tokens


def test_words_are_folded_and_everything_else_separates() -> None:
    assert tokens("Pre-edit, GB/s & don't: Ⅷ ﬁne STRASSE straße 3.5") == [
        *("pre", "edit", "gb", "s", "don", "t", "viii", "fine", "strasse", "strasse", "3", "5"),
    ]


def test_scripts_without_spaces_are_cut_into_pairs() -> None:
    assert tokens("人工智能") == ["人工", "工智", "智能"]
    assert tokens("東京のA駅") == ["東京", "京の", "a", "駅"]
    assert tokens("서울역") == ["서울", "울역"]
    assert tokens("น้ำ") == tokens("น้ำ")
    assert len(tokens("ต้มยำกุ้ง")) > 3
    assert tokens("\uff76\uff80\uff76\uff85") == ["カタ", "タカ", "カナ"]


def test_a_text_offers_single_characters_besides_the_pairs() -> None:
    counts, length = document_terms("黑猫, cat 猫 ต้")
    assert counts == Counter({"猫": 2, "黑": 1, "黑猫": 1, "cat": 1, "ต": 1, "ต้": 1})
    assert length == 4, "terms that are offered besides do not make a text longer"
    assert document_terms("of ascii, of course") == (Counter(of=2, ascii=1, course=1), 4)
    assert document_terms("") == (Counter(), 0)


def test_marks_stay_with_their_letters() -> None:
    assert tokens("हिन्दी भाषा") == ["हिन्दी", "भाषा"]
    assert tokens("Cafe\u0301") == tokens("CAFÉ") == ["café"]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("\uff21\uff22\uff23\uff11\uff12\uff13\uff0c\uff44\uff45", "abc123,de"),
        ("ｶﾞｲﾄﾞ", "ガイド"),
        ("\u1112\u1161\u11ab", "한"),
        ("İSTANBUL IĞDIR", "istanbul \u0131ğd\u0131r"),
        ("Istanbul Iğdir", "\u0131stanbul iğd\u0131r"),
        ("GROẞE STRAẞE", "grosse straße"),
        ("ΟΔΟΣ", "οδος"),
        ("\u0390".upper(), "\u0390"),
        ("שָׁלוֹם עֲלֵיכֶם", "שלום עליכם"),
        ("مُحَمَّدٌ كِتَـــاب", "محمد كتاب"),
        ("क्\u200dष", "क्ष"),
        ("co\u00adoperate", "cooperate"),
        ("don\u2019t \u201cquote\u201d \u2013 dash", 'don\'t "quote" - dash'),
        ("ob\u02bc\u0454kt Hawai\u02bbi", "ob'\u0454kt hawai'i"),
        ("٣ ۴ ५ ๖๗", "3 4 5 67"),
        ("5㎏ Acme™ №7 ①one", "5 kg acme tm no 7 1 one"),
        ("1½", "1 1/2"),
        ("\u2764\ufe0f", "\u2764"),
        ("👍🏽", "👍"),
        ("葛\U000e0100城", "葛城"),
        ("\u22125 3\u22174", "-5 3*4"),
    ],
    ids=ascii,
)
def test_what_a_reader_takes_for_the_same_is_the_same(one: str, other: str) -> None:
    assert tokens(one) == tokens(other) != []


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("🎉🔥", ["🎉", "🔥"]),
        ("Rome🇮🇹🇫🇷", ["rome", "🇮🇹", "🇫🇷"]),
        ("👩\u200d🚀!", ["👩\u200d🚀", "👩", "🚀"]),
        ("❤\ufe0f\u200d🔥", ["❤\u200d🔥", "❤", "🔥"]),
        ("🏃🏾\u200d♀\ufe0f", ["🏃\u200d♀", "🏃", "♀"]),
        ("🏳\ufe0f\u200d🌈", ["🏳\u200d🌈", "🏳", "🌈"]),
        ("🏴\U000e0067\U000e0062\U000e007f", ["🏴"]),
        ("👩\u200d", ["👩"]),
        ("\u200d👩 a\u200db", ["👩", "ab"]),
        ("1\ufe0f\u20e3 #\ufe0f\u20e3", ["1\u20e3", "1", "#\u20e3"]),
        ("price: €5 ≤ £6 → ∞", ["price", "€", "5", "≤", "£", "6", "→", "∞"]),
        ("│ a ▓ <b> $c + d = `e`", ["a", "b", "c", "d", "e"]),
        ("☎\u0301", ["☎"]),
    ],
    ids=ascii,
)
def test_emoji_and_symbols_are_terms_of_their_own(text: str, found: list[str]) -> None:
    assert tokens(text) == found


def test_a_letter_and_its_sign_are_a_name() -> None:
    assert sorted(tokens("C++, C# and f#!")) == ["and", "c", "c", "c#", "c++", "f", "f#"]
    assert sorted(tokens("\uff23\uff0b\uff0b für Größe")) == ["c", "c++", "für", "grösse"]
    assert tokens("issue#5 c+ abc++ a+++ 1++ #c") == [
        *("issue", "5", "c", "abc", "a", "1", "c"),
    ]


# Any character, and those that mean something here more often than chance has them.
SPECIAL = [
    "a1#+*\u0307\u0301\u064b\u05c1\u20e3\u200d\ufe0f\u00ad",
    "👩🏽🚀❤🇮🇹☎€猫กต้ק\u0627İ\u0131ß½™①\u2212\ud83d\0 ",
]
TEXT = st.text(st.characters() | st.sampled_from("".join(SPECIAL)), max_size=30)


@settings(max_examples=200, deadline=None)
@given(TEXT)
def test_any_text_has_terms_and_a_question_asks_for_nothing_that_it_does_not_offer(
    text: str,
) -> None:
    found = tokens(text)
    counts, length = document_terms(text)
    assert length == len(found)
    assert not Counter(found) - counts
    assert question_terms(text).tolist() == [term_hash(token) for token in dict.fromkeys(found)]
    letters = [c for c in text if c.isalnum() and c.isascii()]
    assert bool(found) >= bool(letters)


@settings(max_examples=200, deadline=None)
@given(TEXT)
def test_neither_the_form_nor_the_surroundings_of_a_text_change_its_terms(text: str) -> None:
    for form in ("NFC", "NFD"):
        assert tokens(unicodedata.normalize(form, text)) == tokens(text)
    beside = Counter(tokens(f"before\n{text}\nafter"))
    assert beside == Counter(["before", "after", *tokens(text)])


SPACELESS = st.sampled_from("猫犬黑白東京カナ서울역กขค")


@given(st.text(SPACELESS, min_size=1, max_size=9), st.data())
def test_every_piece_of_a_run_is_found_in_it(run: str, data: st.DataObject) -> None:
    start = data.draw(st.integers(0, len(run) - 1))
    end = data.draw(st.integers(start + 1, len(run)))
    counts, _ = document_terms(f"x {run} y")
    assert set(tokens(run[start:end])) <= set(counts)


@given(st.text(string.printable, max_size=40))
def test_the_short_way_of_ascii_gives_what_the_long_way_gives(text: str) -> None:
    """A single letter outside ASCII takes the whole text the long way."""
    assert sorted([*tokens(text), "é"]) == sorted(tokens(f"{text}\né"))


def test_terms_are_hashed_to_64_bits_that_no_run_changes() -> None:
    assert question_terms("white \ud83d").dtype == np.uint64
    assert term_hash("white") == 0x2637D5E02B567603
