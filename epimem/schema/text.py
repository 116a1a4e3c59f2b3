"""Text rules (reference: the Unicode General Category; limits are ours).

Two kinds of text enter the bank. *Our* text (lessons, queries, tags, names) is normalised to NFC
and refused where it holds something a reader cannot see. *Run* text is evidence: it is kept as
given, except that what UTF-8, JSON or the database cannot hold is replaced by a visible escape and
flagged.
"""

from __future__ import annotations

import re
import unicodedata
from typing import Annotated, Any

from pydantic import AfterValidator
from pydantic_core import PydanticCustomError

LESSON_BYTES = 16 * 1024
BODY_BYTES = 256 * 1024
QUERY_BYTES = 8 * 1024
TITLE_BYTES = 256
TAG_BYTES = 64
MAX_MARKS = 8
# Composition turns at most four characters into one, so a longer text is too long after it as well.
_COMPOSED = 4

_BIDI = frozenset("\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")
# Joiners and variation selectors shape real scripts and emoji, so they are kept; runs are not.
_SELECTORS = frozenset(map(chr, range(0xFE00, 0xFE10)))
_JOINERS = frozenset("\u200c\u200d")
_FILLERS = frozenset("\u115f\u1160\u3164\uffa0")
_BLANKS = _FILLERS | {"\u2800"}
_UNSTORABLE = re.compile("[\x00\ud800-\udfff]")
_SUSPECT = re.compile(r"[^\n\t -~]")
# A word of letters, with the digit before it where it may be the unit of a number.
_WORD = re.compile(r"(\d ?)?([^\W\d_]+)")
_UNIT_LETTERS = 5
_TWO_LETTERS_LIST = "am an as at be by do go he if in is it me my no of ok on or so to up us we"
_TWO_LETTERS = frozenset(_TWO_LETTERS_LIST.split())
_CATEGORIES = {
    "Cc": "control character",
    "Cf": "format character",
    "Cs": "surrogate",
    "Co": "private-use character",
    "Cn": "unassigned character",
    "Zl": "line separator",
    "Zp": "paragraph separator",
}


def check_text(value: str) -> str:
    """Return `value` in NFC, or refuse it by name.

    Refused: NUL and control characters except tab and newline, surrogates, noncharacters,
    unassigned and private-use characters, bidirectional overrides, tag and other format characters,
    more than eight combining marks in a row, text with nothing visible in it.

    Raises:
        PydanticCustomError: type `invalid_text`.
    """
    value = value.replace("\r\n", "\n")
    if _SUSPECT.search(value):
        # Before NFC, whose time grows with the square of the length of a run of marks, and after
        # it, so that what is stored passes when it is read again.
        _check_marks(value)
        value = unicodedata.normalize("NFC", value)
        _check_marks(value)
        _check_characters(value)
    if value and not _visible(value):
        raise PydanticCustomError("invalid_text", "nothing visible in the text")
    return value


def _check_marks(value: str) -> None:
    marks = 0
    for character in value:
        marks = marks + 1 if _is_mark(character) else 0
        if marks > MAX_MARKS:
            raise PydanticCustomError("invalid_text", "over eight combining marks in a row")


def _check_characters(value: str) -> None:
    previous = ""
    for character in value:
        reason = _refusal(character, previous)
        if reason:
            raise PydanticCustomError(
                "invalid_text",
                "{reason} U+{point}",
                {"reason": reason, "point": f"{ord(character):04X}"},
            )
        previous = character


def _is_mark(character: str) -> bool:
    if character <= "~":
        return False
    return unicodedata.combining(character) > 0 or unicodedata.category(character) in {"Mn", "Me"}


def _refusal(character: str, previous: str) -> str | None:
    if character in "\n\t" or " " <= character <= "~":
        return None
    if character in _SELECTORS or character in _JOINERS:
        return _joiner_refusal(character, previous)
    return _block_refusal(character) or _CATEGORIES.get(unicodedata.category(character))


def _joiner_refusal(character: str, previous: str) -> str | None:
    """Allow one joiner or selector after a character, and a joiner after a selector (emoji)."""
    after_selector = previous in _SELECTORS and character in _SELECTORS
    if not previous or previous in _JOINERS or after_selector:
        return "run of joiners"
    if character in _JOINERS and previous.isascii() and previous.isalpha():
        return "joiner after a Latin letter"
    return None


def _block_refusal(character: str) -> str | None:
    point = ord(character)
    if character in _BIDI:
        return "bidirectional control"
    if character in _FILLERS:
        return "invisible filler"
    if 0xE0000 <= point <= 0xE0FFF:
        return "tag or variation character"
    if point & 0xFFFE == 0xFFFE or 0xFDD0 <= point <= 0xFDEF:
        return "noncharacter"
    return None


def _visible(value: str) -> bool:
    return any(
        unicodedata.category(character)[0] in "LNPS" and character not in _BLANKS
        for character in value
    )


def clean_text(value: str) -> str:
    """Make text derived from a run fit for a lesson: drop what `check_text` refuses, then NFC.

    Used before extracted statements become *our* text; the run itself stays as it was. Returns an
    empty text where nothing visible is left.
    """
    value = value.replace("\r\n", "\n").replace("\r", "\n")
    if not _SUSPECT.search(value):
        return value if _visible(value) else ""
    # Twice: NFC turns some characters into others (the Kelvin sign into K), and dropping a joiner
    # brings a mark to its letter.
    for _ in range(2):
        value = unicodedata.normalize("NFC", _drop_refused(value))
    return value if _visible(value) else ""


def _drop_refused(value: str) -> str:
    kept: list[str] = []
    marks = 0
    for character in value:
        if _refusal(character, kept[-1] if kept else ""):
            if character in "\u2028\u2029":
                kept.append("\n")
                marks = 0
            continue
        marks = marks + 1 if _is_mark(character) else 0
        if marks <= MAX_MARKS:
            kept.append(character)
    return "".join(kept)


def folded(value: str) -> str:
    """Return the form in which two texts count as one wording: case, white space, NFC.

    Nothing else is folded: signs, digits and marks stay. Case stays where it may tell units apart
    (ours): in a short word directly after a number (5 mW, 5 MW), in one that mixes cases (kB, MHz),
    and in two capitals that are no English word (MB).
    """
    spaced = " ".join(value.split())
    return unicodedata.normalize("NFC", _WORD.sub(_fold_word, spaced))


def _fold_word(match: re.Match[str]) -> str:
    number, word = match.group(1) or "", match.group(2)
    small = word.casefold()
    if word.islower() or not _may_be_unit(word, small, of_number=bool(number)):
        return number + small
    return number + word


def _may_be_unit(word: str, small: str, *, of_number: bool) -> bool:
    if small in _TWO_LETTERS or len(word) > _UNIT_LETTERS:
        return False
    begins_large = len(word) == 1 or word[1:].islower()
    if of_number:
        return not begins_large or len(word) <= 3
    return not begins_large and not (word.isupper() and len(word) != 2)


def escape_unstorable(value: str) -> tuple[str, int]:
    """Return run text with NUL and lone surrogates as visible escapes, and how many there were."""
    if not _UNSTORABLE.search(value):
        return value, 0
    return _UNSTORABLE.subn(lambda match: f"\\u{ord(match.group()):04x}", value)


def escape_tree(value: Any) -> tuple[Any, int]:
    """Apply `escape_unstorable` to every text and key of plain JSON data; count what it replaced.

    Data without such a character is returned as it is, not copied. A key whose escape another key
    already has gets underscores at its end, so that no value is lost.
    """
    if isinstance(value, str):
        return escape_unstorable(value)
    if isinstance(value, list | tuple):
        pairs = [escape_tree(item) for item in value]
        count = sum(number for _, number in pairs)
        return ([item for item, _ in pairs], count) if count else (value, 0)
    if isinstance(value, dict):
        return _escape_keys(value)
    return value, 0


def _escape_keys(value: dict[str, Any]) -> tuple[dict[str, Any], int]:
    total = 0
    result: dict[str, Any] = {}
    for key, item in value.items():
        name, in_key = escape_unstorable(key)
        while in_key and (name in value or name in result):
            name += "_"
        result[name], in_item = escape_tree(item)
        total += in_key + in_item
    return (result, total) if total else (value, 0)


def _limited(limit: int) -> AfterValidator:
    def check(value: str) -> str:
        # First the length alone, so that a huge text is refused without being looked through.
        _check_size(len(value), _COMPOSED * limit)
        value = check_text(value)
        _check_size(len(value.encode("utf-8")), limit)
        return value

    return AfterValidator(check)


def _check_size(size: int, limit: int) -> None:
    if size > limit:
        raise PydanticCustomError(
            "too_large", "text of {size} bytes, limit {limit}", {"size": size, "limit": limit}
        )


def _not_empty(value: str) -> str:
    if not value.strip():
        raise PydanticCustomError("invalid_text", "empty text")
    return value


def _one_line(value: str) -> str:
    if "\n" in value or "\t" in value:
        raise PydanticCustomError("invalid_text", "a name is one line")
    return value


LessonText = Annotated[str, _limited(LESSON_BYTES)]
GuidanceText = Annotated[str, _limited(LESSON_BYTES), AfterValidator(_not_empty)]
BodyText = Annotated[str, _limited(BODY_BYTES)]
TitleText = Annotated[str, _limited(TITLE_BYTES)]
NameText = Annotated[
    str, _limited(TAG_BYTES * 2), AfterValidator(_not_empty), AfterValidator(_one_line)
]
TagText = Annotated[str, _limited(TAG_BYTES)]
# Text of a run wherever a record is built in memory; `Run.read` counts what it replaces besides.
RunText = Annotated[str, AfterValidator(lambda value: escape_unstorable(value)[0])]
