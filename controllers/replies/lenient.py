"""Finding where a JSON object or array ends in a text, and writing it down as strict JSON.

Some spellings that are not JSON are read as any person would read them: single quotes, keys without
quotes, a comma before a closing bracket, True, False and None, line breaks inside a text, comments.
None of them lets the reader choose: what could be read in two ways, or would need a value that is not
there, is refused, and so is everything that the reply ends in the middle of. Libraries for the purpose
do choose: `{"a": }` becomes an empty text, `{"a" "b": 1}` loses its number, `["L1", "L` gains an id
(DECISIONS.md).
"""

from __future__ import annotations

import json
import re
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Literal, NoReturn

MAX_DEPTH = 32
_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?")
_WORD = re.compile(r"[^\W\d]\w*")
# Comments are bounded (ours), so that a reply made of their beginnings is not read over and over.
_COMMENTS = r"(?://|#)[^\n]{0,300}\n|/\*.{0,300}?\*/"
_BLANK = re.compile(rf"(?:[ \t\r\n\u00a0]+|{_COMMENTS})*", re.DOTALL)
# All that needs no look at its characters one by one.
_PLAIN = {'"': re.compile(r'[^"\\\x00-\x1f]+'), "'": re.compile(r"[^'\\\x00-\x1f]+")}
_ESCAPE = re.compile(r'\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4})')
# A number or word that the text ends with: there may have been more of it.
_LAST_TOKEN = re.compile(r"[\w.+-]*\Z")
_CONTROLS = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}
_LITERALS = {
    "true": "true",
    "false": "false",
    "null": "null",
    "True": "true",
    "False": "false",
    "None": "null",
}
_CUT = "the reply ends before the object does"
_CLOSERS = {"{": "}", "[": "]"}


class Unreadable(Exception):  # noqa: N818 (what stands in a reply is no fault of the program)
    """No object or array stands here.

    `at` is where that was seen. `cut` says that the text ended before it was complete.
    """

    def __init__(self, message: str, at: int, *, cut: bool = False) -> None:
        super().__init__(message)
        self.message = message
        self.at = at
        self.cut = cut


@dataclass(frozen=True)
class Found:
    """An object or array: its strict JSON, where it stood, and what was read with lenience."""

    json: str
    start: int
    end: int
    repairs: tuple[str, ...] = ()


def scan(text: str, start: int, words: AbstractSet[str] = frozenset()) -> Found:
    """Read the object or array that begins at `text[start]`, which is a bracket.

    The result is JSON in form only: duplicate keys and the like are for the strict reader to refuse.

    Args:
        text: a reply.
        start: index of the opening bracket.
        words: what may stand as a value without quotes (the aliases of a call).

    Raises:
        Unreadable: nothing complete and readable stands there.
    """
    return _Scanner(text, start, words).scan()


Place = Literal["first", "key", "value", "after"]


class _Scanner:
    """One pass with a stack of open brackets; linear in what it reads."""

    def __init__(self, text: str, start: int, words: AbstractSet[str]) -> None:
        self.text = text
        self.start = self.at = start
        self.words = words
        self.out: list[str] = []
        self.open: list[str] = []
        self.repairs: dict[str, None] = {}

    def scan(self) -> Found:
        place: Place = self._opening(self.text[self.at])
        while self.open:
            self._blank()
            place = self._step(place, self._peek())
        return Found("".join(self.out), self.start, self.at, tuple(self.repairs))

    def _step(self, place: Place, mark: str) -> Place:
        if place == "after":
            return self._separator(mark)
        if mark == _CLOSERS[self.open[-1]] and place != "value":
            return self._closing(mark, trailing=place == "key")
        if self.open[-1] == "[" or place == "value":
            return self._value(mark)
        self._key(mark)
        return "value"

    # -- brackets and separators -----------------------------------------------------------------

    def _opening(self, mark: str) -> Place:
        if len(self.open) == MAX_DEPTH:
            self._refuse(f"nested deeper than {MAX_DEPTH}")
        self.open.append(mark)
        self.out.append(mark)
        self.at += 1
        return "first"

    def _closing(self, mark: str, *, trailing: bool) -> Place:
        if trailing:
            self.out.pop()  # the comma
            self.repairs["a comma before a closing bracket"] = None
        self.open.pop()
        self.out.append(mark)
        self.at += 1
        return "after"

    def _separator(self, mark: str) -> Place:
        if mark == _CLOSERS[self.open[-1]]:
            return self._closing(mark, trailing=False)
        if mark != ",":
            self._refuse("expected a comma or a closing bracket")
        self.out.append(",")
        self.at += 1
        return "key"

    def _key(self, mark: str) -> None:
        if mark in _PLAIN:
            self._string(mark)
        else:
            word = _WORD.match(self.text, self.at)
            if word is None:
                self._refuse("expected a field name")
            self._take(word)
            self.out.append(json.dumps(word.group()))
            self.repairs["a field name without quotes"] = None
        self._blank()
        if self._peek() != ":":
            self._refuse("expected a colon after a field name")
        self.out.append(":")
        self.at += 1

    # -- values ----------------------------------------------------------------------------------

    def _value(self, mark: str) -> Place:
        if mark in _CLOSERS:
            return self._opening(mark)
        if mark in _PLAIN:
            self._string(mark)
        elif mark == "-" or mark.isdecimal():
            self._number()
        else:
            self._bare()
        return "after"

    def _number(self) -> None:
        number = _NUMBER.match(self.text, self.at)
        if number is None:
            self._refuse("not a JSON number")
        self._take(number)
        self.out.append(number.group())

    def _bare(self) -> None:
        word = _WORD.match(self.text, self.at)
        if word is None:
            self._refuse("expected a value")
        self._take(word)
        literal = _LITERALS.get(word.group())
        if literal is None and word.group() in self.words:
            literal = json.dumps(word.group())
            self.repairs["a text without quotes"] = None
        elif literal is None:
            self._refuse("expected a value")
        elif literal != word.group():
            self.repairs["True, False or None"] = None
        self.out.append(literal)

    # -- texts -----------------------------------------------------------------------------------

    def _string(self, quote: str) -> None:
        pieces = ['"']
        self.at += 1
        while True:
            plain = _PLAIN[quote].match(self.text, self.at)
            if plain is not None:
                self._take(plain)
                pieces.append(plain.group().replace('"', '\\"'))
            mark = self._peek()
            if mark == quote and not self._apostrophe(quote):
                break
            pieces.append(self._special(mark))
        self.at += 1
        self.out.append("".join((*pieces, '"')))
        if quote == "'":
            self.repairs["single quotes"] = None

    def _apostrophe(self, quote: str) -> bool:
        """Tell whether a single quote stands between two letters, where none can close a text."""
        before, after = self.text[self.at - 1], self.text[self.at + 1 : self.at + 2]
        return quote == "'" and before.isalpha() and after.isalpha()

    def _special(self, mark: str) -> str:
        if mark == "'":
            self.at += 1
            return mark
        if mark in _CONTROLS:
            self.repairs["a line break or tab inside a text"] = None
            self.at += 1
            return _CONTROLS[mark]
        escape = _ESCAPE.match(self.text, self.at)
        if escape is not None:
            self._take(escape)
            return escape.group()
        if self.text.startswith("\\'", self.at):
            self.repairs["an escaped single quote"] = None
            self.at += 2
            return "'"
        if mark == "\\" and self.at + 1 >= len(self.text):
            raise Unreadable(_CUT, self.at, cut=True)
        raise Unreadable("a control character or an escape that JSON does not have", self.at)

    # -- moving ----------------------------------------------------------------------------------

    def _peek(self) -> str:
        if self.at >= len(self.text):
            raise Unreadable(_CUT, self.at, cut=True)
        return self.text[self.at]

    def _take(self, match: re.Match[str]) -> None:
        self.at = match.end()

    def _blank(self) -> None:
        blank = _BLANK.match(self.text, self.at)
        if blank is not None and blank.end() > self.at:
            if blank.group().strip():
                self.repairs["a comment"] = None
            self._take(blank)

    def _refuse(self, message: str) -> NoReturn:
        raise Unreadable(message, self.at, cut=_LAST_TOKEN.match(self.text, self.at) is not None)
