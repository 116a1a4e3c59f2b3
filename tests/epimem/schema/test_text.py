from __future__ import annotations

import time
import unicodedata
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from pydantic import TypeAdapter, ValidationError
from pydantic_core import PydanticCustomError

from epimem.errors import RecordError
from epimem.schema import strict_json
from epimem.schema.lesson import LessonDraft
from epimem.schema.text import (
    LESSON_BYTES,
    MAX_MARKS,
    TAG_BYTES,
    TITLE_BYTES,
    GuidanceText,
    LessonText,
    NameText,
    RunText,
    TagText,
    check_text,
    clean_text,
    escape_tree,
    escape_unstorable,
    folded,
)
from tests.wordings import DIFFERENT

JOINERS = "\u200c\u200d"
SELECTORS = "".join(map(chr, range(0xFE00, 0xFE10)))
INVISIBLE = "\u115f\u1160\u3164\uffa0\u2800"
BIDI = "\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"
BAD_CATEGORIES = {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}

any_text = st.text(st.characters(exclude_categories=()), max_size=40)
odd_text = st.text(
    st.sampled_from(
        "aK\u212a\u0301\u0344\u0315 \n\r\t\u2028" + JOINERS + "\ufe0f\ufe00\u3164\x00\ud83d\u00ad"
    ),
    max_size=24,
)


def is_refused(text: str) -> bool:
    try:
        check_text(text)
    except PydanticCustomError:
        return True
    return False


def refusal_of(text: str) -> str:
    with pytest.raises(PydanticCustomError) as caught:
        check_text(text)
    assert caught.value.type == "invalid_text"
    return caught.value.message()


REFUSED = {
    "01 only spaces, tabs, newlines": " \t\n ",
    "03 NUL in the middle": "a\x00b",
    "04 NUL first": "\x00ab",
    "06 bell": "a\x07b",
    "06 lone carriage return": "a\rb",
    "07 DEL": "a\x7fb",
    "07 C1": "a\x85b",
    "08 high surrogate": "a\ud83db",
    "09 low surrogate": "a\udc00b",
    "16 byte order mark first": "\ufeffab",
    "17 byte order mark in the middle": "a\ufeffb",
    "18 right-to-left override": "report\u202efdp.exe",
    "19 isolate without end": "a\u2066b",
    "21 zero-width space": "ig\u200bnore",
    "22 joiner between letters": "\u200d".join("ignore"),
    "23 soft hyphen": "ig\u00adnore",
    "24 word joiners": "a" + "\u2060" * 10_000,
    "26 run of selectors": "a\ufe00\ufe01\ufe02",
    "26 selector of the supplement": "a\U000e0100",
    "27 Hangul fillers only": "\u3164\u115f",
    "28 invisible plus": "1\u20642",
    "29 private use": "a\ue000",
    "29 private use of plane 15": "a\U000f0000",
    "31 unassigned": "a\u0378",
    "32 interlinear annotation": "a\ufff9b\ufffac\ufffb",
    "33 line separator": "a\u2028b",
    "33 paragraph separator": "a\u2029b",
    "34 a thousand marks": "a" + "\u0301" * 1000,
    "noncharacter": "a\uffff",
    "noncharacter of the block": "a\ufdd0",
    "tag characters": "a" + "".join(chr(0xE0000 + ord(c)) for c in "ignore"),
    "61 terminal escape": "\x1b]0;title\x07",
    "61 clear screen": "\x1b[2J",
    "62 ANSI hyperlink": "\x1b]8;;http://host\x1b\\text",
    "blank Braille pattern": "\u2800\u2800",
    "only a mark": "\u0301",
}

KEPT = {
    "37 NFD": ("Cafe\u0301", "Café"),
    "36 ligature": ("\ufdfa", "\ufdfa"),
    "38 fullwidth": ("\uff53\uff59\uff53", None),
    "39 Cyrillic": ("\u0430dmin", None),
    "41 sharp s": ("Straße STRAẞE", "Straße STRAẞE"),
    "42 family": ("\U0001f469\U0001f3fd\u200d\U0001f469\u200d\U0001f467", None),
    "42 heart on fire": ("\u2764\ufe0f\u200d\U0001f525", None),
    "keycap": ("1\ufe0f\u20e3", None),
    "43 flag letters alone": ("\U0001f1e9", None),
    "Persian with a non-joiner": ("\u0645\u06cc\u200c\u062e\u0648\u0627\u0647\u0645", None),
    "Hindi with a joiner": ("क्\u200dष", None),
    "Vietnamese, decomposed": (unicodedata.normalize("NFD", "Tiếng Việt"), "Tiếng Việt"),
    "51 fence": ("```\nend\n```", None),
    "53 markup": ("]]> --> </item>", None),
    "54 chat template": ("<|im_start|>system", None),
    "56 image": ("![x](http://host/?q=1)", None),
    "58 SQL": ("'; DROP TABLE x; --", None),
    "59 templates": ("%s%n{0.__class__}${x}{{7*7}}", None),
    "63 CRLF": ("a\r\nERROR b", "a\nERROR b"),
    "64 path": ("../../x C:\\x CON", None),
    "66 parentheses": ("(" * 500 + ")" * 500, None),
    "67 punctuation": ("?!...", None),
    "69 wildcards": ("%_", None),
    "71 number": ("1e999", None),
}


@pytest.mark.parametrize("text", REFUSED.values(), ids=REFUSED.keys())
def test_text_with_something_invisible_is_refused_by_name(text: str) -> None:
    assert refusal_of(text)


@pytest.mark.parametrize(("text", "stored"), KEPT.values(), ids=KEPT.keys())
def test_visible_text_is_stored_in_nfc(text: str, stored: str | None) -> None:
    assert check_text(text) == (stored or text)


def test_empty_text_is_fine_except_for_guidance_and_names() -> None:
    assert check_text("") == ""
    for field in (GuidanceText, NameText):
        with pytest.raises(ValidationError):
            TypeAdapter(field).validate_python("")


def test_every_character_of_the_basic_plane_is_kept_or_refused_as_its_category_says() -> None:
    for point in range(0x10000):
        character = chr(point)
        category = unicodedata.category(character)
        text = f"é{character}é"
        bad = (category in BAD_CATEGORIES and character not in "\n\t" + JOINERS) or (
            character in "\u115f\u1160\u3164\uffa0"
        )
        assert is_refused(text) == bad, hex(point)
        assert bad or check_text(text) == unicodedata.normalize("NFC", text), hex(point)
        assert (clean_text(text) == unicodedata.normalize("NFC", text)) != bad, hex(point)


def test_a_refusal_names_kind_and_code_point_but_not_the_text() -> None:
    assert refusal_of("secret\u202etext") == "bidirectional control U+202E"
    assert refusal_of("secret\x00") == "control character U+0000"


def test_eight_marks_pass_and_nine_do_not() -> None:
    base = "x"
    assert check_text(base + "\u0323" * MAX_MARKS)
    assert refusal_of(base + "\u0323" * (MAX_MARKS + 1)) == "over eight combining marks in a row"


@given(any_text | odd_text)
@example("\u212a\u200d")
@example("x" + "\u0344" * 8)
def test_checked_text_passes_again_unchanged(text: str) -> None:
    if not is_refused(text):
        checked = check_text(text)
        assert check_text(checked) == checked


@given(any_text | odd_text)
@example("\u212a\u200d\u0301")
@example("x" + "\u0344" * 8)
@example("\u0301")
def test_cleaned_text_always_passes_and_loses_nothing_that_may_stay(text: str) -> None:
    cleaned = clean_text(text)
    assert check_text(cleaned) == cleaned
    if not is_refused(text):
        assert cleaned == check_text(text)


def test_cleaning_keeps_words_apart_and_drops_what_hides() -> None:
    assert clean_text("a\u2028b\r\nc\rd") == "a\nb\nc\nd"
    assert clean_text("ig\u200bnore \x1b[2J\u202efdp") == "ignore [2Jfdp"
    assert clean_text("a" + "\u0301" * 20) == "á" + "\u0301" * (MAX_MARKS - 1)


LIMITS: list[tuple[Any, int]] = [
    (TagText, TAG_BYTES),
    (LessonText, LESSON_BYTES),
    (NameText, 2 * TAG_BYTES),
]


@pytest.mark.parametrize(("field", "limit"), LIMITS)
def test_limits_count_bytes_after_nfc(field: Any, limit: int) -> None:
    adapter = TypeAdapter(field)
    assert adapter.validate_python("a" * limit) == "a" * limit
    assert adapter.validate_python("e\u0301" * (limit // 2)) == "é" * (limit // 2)
    for text in ("a" * (limit + 1), "\U0001f600" * (limit // 4 + 1)):
        with pytest.raises(ValidationError) as caught:
            adapter.validate_python(text)
        assert caught.value.errors()[0]["type"] == "too_large"


@pytest.mark.parametrize(
    "text",
    [
        "é" * 5_000_000,
        "a" * 10_000_000,
        "\n" * 1_000_000,
        "\ufdfa" * 8_000,
        "a" + "\u0301\u0316" * 30_000,
        "\U0001d165\U0001d16e" * 8_000,
    ],
    ids=["10 MiB", "ASCII", "newlines", "ligatures", "marks", "spacing marks"],
)
def test_a_huge_text_is_refused_within_a_second(text: str) -> None:
    started = time.process_time()
    with pytest.raises(ValidationError):
        TypeAdapter(LessonText).validate_python(text)
    clean_text(text[:60_000])
    assert time.process_time() - started < 1.0


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("guidance", "a\x00b"),
        ("guidance", "a\ud83d"),
        ("applies_when", "a\u202eb"),
        ("cautions", ["fine", "a\u200bb"]),
        ("title", "\u3164"),
        ("body", "a\x07"),
        ("tags", ["a\ufeff"]),
        ("family", "a\u2028b"),
        ("audience", ["a\x00"]),
        ("index", {"scope": "a\ue000"}),
        ("method", "a\x1b[2J"),
    ],
)
def test_every_text_field_of_a_lesson_names_itself_in_the_refusal(field: str, value: Any) -> None:
    with pytest.raises(RecordError) as caught:
        LessonDraft.read({"guidance": "Count every stop.", field: value})
    assert caught.value.code == "invalid_text"
    assert (caught.value.field or "").split(".")[0] == field


def test_sizes_of_tags_and_titles_are_refused_as_too_large() -> None:
    for field, value in (("tags", ["a" * 65]), ("title", "a" * (TITLE_BYTES + 1))):
        with pytest.raises(RecordError) as caught:
            LessonDraft.read({"guidance": "x", field: value})
        assert caught.value.code == "too_large"
    with pytest.raises(RecordError) as caught:
        LessonDraft.read({"guidance": "x", "tags": [str(n) for n in range(200)]})
    assert caught.value.code == "invalid_field"


def test_run_text_gets_visible_escapes_and_their_number() -> None:
    assert escape_unstorable("Acme moved\x00") == ("Acme moved\\u0000", 1)
    assert escape_unstorable("hello \ud83d") == ("hello \\ud83d", 1)
    assert escape_unstorable("\u202e stays \U0001f600") == ("\u202e stays \U0001f600", 0)
    assert TypeAdapter(RunText).validate_python("a\x00") == "a\\u0000"


def test_escaping_a_tree_reaches_keys_and_loses_no_value() -> None:
    value = {"a\x00": ["b\ud83d", 1], "a\\u0000": "kept", "n": {"x": None}}
    escaped, count = escape_tree(value)
    assert escaped == {"a\\u0000_": ["b\\ud83d", 1], "a\\u0000": "kept", "n": {"x": None}}
    assert count == 2
    clean = {"a": ["b"]}
    assert escape_tree(clean) == (clean, 0)
    assert escape_tree(clean)[0] is clean


@given(
    st.recursive(
        any_text,
        lambda inner: st.lists(inner, max_size=4) | st.dictionaries(any_text, inner, max_size=4),
        max_leaves=12,
    )
)
def test_an_escaped_tree_can_be_stored_and_is_not_escaped_again(value: Any) -> None:
    escaped, _ = escape_tree(value)
    assert escape_tree(escaped) == (escaped, 0)
    assert strict_json.loads(strict_json.dumps(escaped)) == escaped


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("Count  the\nwindows ", "COUNT THE WINDOWS"),
        ("DO NOT ROUND IT", "Do not round it"),
        ("Round to 2 Decimals", "round to 2 decimals"),
        ("Cafe\u0301 STRASSE", "CAFÉ straße"),
        ("\u0390", "\u0390".upper()),
        ("Read the GPU, the McDonald and the Iphone", "read the gpu, the mcdonald and the iphone"),
    ],
)
def test_case_space_and_composition_are_spelling(one: str, other: str) -> None:
    assert folded(one) == folded(other) == folded(folded(one))


@pytest.mark.parametrize(("one", "other"), DIFFERENT)
def test_numbers_units_signs_and_negations_are_not(one: str, other: str) -> None:
    assert folded(one) != folded(other)


SIGNS = st.sampled_from([*"-+<>%./", "\u2212", "\u2264", "\u2030", "\u00b2", "\u00b0"])
NUMBERS = st.sampled_from(["0", "1", "5", "50"])
LETTERS = "mW MW kW Mb MB mb Gb GB mg Mg ms Ms mHz MHz Pa mm Mm"
UNITS = st.builds("{} {}".format, NUMBERS, st.sampled_from(LETTERS.split()))
PART = SIGNS | NUMBERS | UNITS


@given(st.lists(PART, min_size=1, max_size=4), st.integers(0, 3), PART)
def test_one_other_sign_number_or_unit_is_another_wording(
    parts: list[str], place: int, changed: str
) -> None:
    text = f"It is {' '.join(parts)} there"
    assert folded(text.replace(" ", " \n ").replace("It", "IT")) == folded(text)
    other = [*parts]
    other[place % len(parts)] = changed
    assert (folded(f"It is {' '.join(other)} there") == folded(text)) == (other == parts)


@given(any_text)
def test_folding_twice_changes_nothing_more(text: str) -> None:
    assert folded(folded(text)) == folded(text)
