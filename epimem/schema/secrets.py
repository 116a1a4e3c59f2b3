"""Secrets and personal data are taken out of text at the door, each replaced by a marker that names it.

    redacted   of one text: `the key is ghp_...` becomes `the key is [redacted: github-token]`
    scrubbed   of a whole run or lesson: free text only, never ids, hashes, times and names of schemas

Looked through are the text as a reader sees it (without zero-width characters), what a line break
split in two, and what stands in base64 once. Not found: secrets inside images, encoded twice, split
over two fields, or without form or name. The time is linear in the size of the text.
"""

from __future__ import annotations

import base64
import bisect
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any, TypeVar

from epimem.schema.base import Record
from epimem.schema.lesson import LessonDraft
from epimem.schema.run import Run
from epimem.schema.secret_kinds import GROUPS, KINDS, Kind
from epimem.schema.secret_values import chain_of_words, named_secret
from epimem.schema.text import BODY_BYTES, LESSON_BYTES, TAG_BYTES, TITLE_BYTES

_Span = tuple[int, int, str]
_Item = TypeVar("_Item", bound=Record)

_LONGEST_MARKER = 64
_MARKER = re.compile(r"\[redacted: [a-z0-9-]{1,40}\]")
# What is replaced may bring two parts together that are a secret only now; more rounds were never seen.
_ROUNDS = 6
_INVISIBLE = re.compile("[\u00ad\u180e\u200b-\u200f\u202a-\u202e\u2060-\u2064\ufe00-\ufe0f\ufeff]+")
_SPLIT = re.compile(r"(?<=[\w+/=.-])[ \t]{0,8}\r?\n[ \t>|]{0,8}(?=[\w+/=.-])")
_SPLITS = 2
_UNBROKEN = re.compile(r"[\w$+/=.-]{1,512}+[ \t]{0,8}\r?\n")
# A split token is looked for as far as this; a longer one leaves its end behind.
_WINDOW = 2048
_BASE64 = re.compile(r"(?<![\w+/-])[\w+/-]{24,}+={0,2}", re.ASCII)
_HEAD = 32
_UNREADABLE = re.compile(rb"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]")
_STANDARD = str.maketrans("-_", "+/")
_NEXT_LINE = re.compile(r"[ \t]{0,8}\r?\n[ \t>|]{0,8}([\w+/=.-]{6,512}+)", re.ASCII)
# A match that was refused and is longer than this is skipped whole, so that many refusals stay linear.
_LONG = 512


def redacted(text: str) -> tuple[str, Counter[str]]:
    """Replace each secret of a text by `[redacted: KIND]`; return it, and how many of each kind.

    A text without one comes back as it is; doing it twice changes nothing.
    """
    counts: Counter[str] = Counter()
    for _ in range(_ROUNDS):
        spans = _outside_markers(text, [*_found(text)])
        if not spans:
            break
        text = _replaced(text, spans)
        counts.update(kind for _, _, kind in spans)
    return text, counts


def _replaced(text: str, spans: list[_Span]) -> str:
    parts: list[str] = []
    done = 0
    for start, end, kind in spans:
        parts += (text[done:start], f"[redacted: {kind}]")
        done = end
    return "".join((*parts, text[done:]))


def _outside_markers(text: str, spans: list[_Span]) -> list[_Span]:
    """Return spans that do not overlap, in order; what stands inside a marker is none."""
    if spans and "[redacted: " in text:
        spans = [*((*match.span(), "") for match in _MARKER.finditer(text)), *spans]
    return [span for span in _joined(spans) if span[2]]


def _joined(spans: list[_Span]) -> list[_Span]:
    """Join spans that overlap, under the name of the first; a marker has none of its own."""
    joined: list[_Span] = []
    for start, end, kind in sorted(spans, key=lambda span: span[0]):
        if not joined or start >= joined[-1][1]:
            joined.append((start, end, kind))
        elif joined[-1][2] or end > joined[-1][1]:
            first, last, name = joined[-1]
            joined[-1] = (first, max(end, last), name or kind)
    return joined


# -- finding -------------------------------------------------------------------------------------------


def _found(text: str) -> Iterator[_Span]:
    if _INVISIBLE.search(text) is None:
        yield from _visible(text)
        return
    visible, places = _without_invisible(text)
    for start, end, kind in _visible(visible):
        yield _original(places, start), _original(places, end - 1) + 1, kind


def _without_invisible(text: str) -> tuple[str, list[tuple[int, int]]]:
    """Return the visible text, and from which place in it on how many characters were left out."""
    parts: list[str] = []
    places = [(0, 0)]
    done = left_out = 0
    for match in _INVISIBLE.finditer(text):
        parts.append(text[done : match.start()])
        done = match.end()
        left_out += done - match.start()
        places.append((done - left_out, left_out))
    return "".join((*parts, text[done:])), places


def _original(places: list[tuple[int, int]], place: int) -> int:
    before = bisect.bisect_right(places, place, key=lambda item: item[0])
    return place + places[before - 1][1]


def _visible(text: str) -> Iterator[_Span]:
    yield from _written_out(text)
    yield from _encoded(text)


def _written_out(text: str) -> Iterator[_Span]:
    lowered = _lowered(text)
    for kind in KINDS:
        for start in kind.starts:
            yield from _from_start(kind, start, text, lowered)
        if not kind.starts and kind.hint in text:
            for match in kind.pattern.finditer(text):
                yield from _as_span(kind, match)
    for group in GROUPS:
        for screened in group.screen.finditer(text):
            for kind in group.kinds:
                yield from _as_span(kind, kind.pattern.match(text, screened.start()))


def _as_span(kind: Kind, match: re.Match[str] | None) -> Iterator[_Span]:
    span = kind.span(match) if match is not None else None
    if span is not None:
        yield *span, kind.name


def _lowered(text: str) -> str:
    """Return the text in small letters, each at its place: one letter alone grows when it is lowered."""
    return text.replace("\u0130", "I").lower()


def _from_start(kind: Kind, start: str, text: str, lowered: str) -> Iterator[_Span]:
    place = lowered.find(start)
    while place >= 0:
        after = place + 1
        match = kind.pattern.match(text, place)
        span = kind.span(match) if match is not None else None
        if span is not None:
            begin, after = span
            yield begin, _beyond_line(kind, text, after), kind.name
        elif match is None:
            yield from _across_lines(kind, text, place)
        elif match.end() - place > _LONG:
            after = match.end()
        place = lowered.find(start, after)


def _across_lines(kind: Kind, text: str, place: int) -> Iterator[_Span]:
    """Yield the token that begins here and is whole only when lines are joined."""
    if not kind.wraps or _UNBROKEN.match(text, place, place + _WINDOW) is None:
        return
    window = text[place : place + _WINDOW]
    cuts = [match.span() for match in islice(_SPLIT.finditer(window), _SPLITS)]
    if not cuts:
        return
    ends = [*(start for start, _ in cuts), len(window)]
    begins = [0, *(end for _, end in cuts)]
    before = text[max(0, place - 1) : place]
    pieces = [window[begin:end] for begin, end in zip(begins, ends, strict=True)]
    match = kind.pattern.match(before + "".join(pieces), len(before))
    if match is None or kind.span(match) is None:
        return
    end = match.end() - len(before)
    for begin, piece in zip(begins, pieces, strict=True):
        if end <= len(piece):
            yield place, place + begin + end, kind.name
            return
        end -= len(piece)


def _beyond_line(kind: Kind, text: str, end: int) -> int:
    """Return where a token of no fixed length ends, if it was split after enough of it to be known."""
    rest = _NEXT_LINE.match(text, end) if kind.open_ended else None
    return end if rest is None or chain_of_words(rest[1]) else rest.end()


def _encoded(text: str) -> Iterator[_Span]:
    for match in _BASE64.finditer(text):
        decoded = _decoded(match.group())
        kind = next((name for _, _, name in _written_out(decoded)), None) if decoded else None
        if kind is not None:
            yield *match.span(), kind


def _decoded(value: str) -> str:
    """Return the text that base64 stands for, empty where it stands for none."""
    value = value.rstrip("=").translate(_STANDARD)
    if _UNREADABLE.search(base64.b64decode(value[: min(_HEAD, len(value) // 4 * 4)])):
        return ""
    # One character over a multiple of four stands for nothing.
    value = value[:-1] if len(value) % 4 == 1 else value
    data = base64.b64decode(value + "=" * (-len(value) % 4))
    try:
        return "" if _UNREADABLE.search(data) else data.decode("utf-8")
    except UnicodeDecodeError:
        return ""


# -- records -------------------------------------------------------------------------------------------

# Fields of records that name, count or order things. Whatever stands in them stays as it is.
_OF_RUNS = (
    "schema run_id created_at task_id split_role group image_id id revision scaffold_snapshot path"
    " bank_snapshot harness_version schema_version version timestamp ts kind type media_type model_name"
    " session_id reasoning_effort trajectory_id continued_trajectory_ref tool_call_id source_call_id"
    " traj backbone adapter from to retrieval_id item_ids shown_text_hash images blob format"
    " finish_reason"
)
_OF_LESSONS = (
    "form polarity image_id run_id run_ids parents question_key group_key verdict_source audience pair"
    " contributor state"
)
_KEPT = {Run: frozenset(_OF_RUNS.split()), LessonDraft: frozenset(_OF_LESSONS.split())}
_FREE = frozenset({"public", "arguments", "extra", "data", "tool_definitions"})
_ENVELOPE = frozenset({"actors", "events"})
_LIMITS = {
    **dict.fromkeys(("title", "topic", "scope", "family"), TITLE_BYTES),
    **dict.fromkeys(("tags", "method", "harness", "backbone", "agent"), TAG_BYTES),
    "body": BODY_BYTES,
}


def scrubbed(record: _Item) -> tuple[_Item, Counter[str]]:
    """Return a run or lesson with every free text `redacted`, and how many secrets of each kind it held.

    Ids, hashes, times, names of models and readers, and question keys stay; so do numbers. A text of a
    lesson that grew past its limit is cut there. A record without a secret comes back as it is.

    Raises:
        RecordError: a run whose envelope does not hold together any more; none was seen.
    """
    kind = Run if isinstance(record, Run) else LessonDraft
    scrubber = _Scrubber(_KEPT[kind], limited=kind is LessonDraft)
    plain = scrubber.record(record.plain())
    if not scrubber.counts:
        return record, scrubber.counts
    return type(record).read(plain), scrubber.counts


def scrubbed_text(text: str, limit: int = LESSON_BYTES) -> tuple[str, int]:
    """Return one text `redacted` and cut to `limit` bytes, and how many secrets it held."""
    text, counts = redacted(text)
    return (_cut(text, limit) if counts else text), counts.total()


class _Scrubber:
    """Walks plain data of one record and counts what it replaced."""

    def __init__(self, kept: frozenset[str], *, limited: bool) -> None:
        self.counts: Counter[str] = Counter()
        self._kept = kept
        self._limited = limited

    def record(self, value: dict[str, Any]) -> dict[str, Any]:
        """Walk the fields of a record of ours."""
        return {name: self._field(name, item) for name, item in value.items()}

    def _field(self, name: str, value: Any) -> Any:
        if name in self._kept:
            return value
        if name == "extra" and isinstance(value, dict):
            return self._extra(value)
        if name in _FREE:
            return self._free(value)
        if name == "by_actor":
            return {actor: self._text(text) for actor, text in value.items()}
        return self._structured(name, value)

    def _structured(self, name: str, value: Any) -> Any:
        if isinstance(value, str):
            return self._text(value, _LIMITS.get(name, LESSON_BYTES) if self._limited else None)
        if isinstance(value, dict):
            return self.record(value)
        if isinstance(value, list):
            return [self._structured(name, item) for item in value]
        return value

    def _extra(self, value: dict[str, Any]) -> dict[str, Any]:
        """Walk what a harness noted, in which `epimem` holds records of ours."""
        envelope = value.get("epimem")
        if not isinstance(envelope, dict):
            return self._mapping(value)
        ours = {key: self._structured(key, envelope[key]) for key in envelope if key in _ENVELOPE}
        foreign = {key: item for key, item in envelope.items() if key not in _ENVELOPE}
        rest = {key: item for key, item in value.items() if key != "epimem"}
        return {**self._mapping(rest), "epimem": {**self._mapping(foreign), **ours}}

    def _free(self, value: Any) -> Any:
        if isinstance(value, str):
            return self._text(value)
        if isinstance(value, dict):
            return self._mapping(value)
        if isinstance(value, list):
            return [self._free(item) for item in value]
        return value

    def _mapping(self, value: Mapping[str, Any]) -> dict[str, Any]:
        """Walk values and keys; a value that its key calls a secret is one whatever it looks like."""
        result: dict[str, Any] = {}
        for key, item in value.items():
            name = self._text(key)
            while name != key and (name in value or name in result):
                name += "_"
            if isinstance(item, str) and named_secret(key, item):
                self.counts["named-secret"] += 1
                result[name] = "[redacted: named-secret]"
            else:
                result[name] = self._free(item)
        return result

    def _text(self, text: str, limit: int | None = None) -> str:
        text, counts = redacted(text)
        self.counts.update(counts)
        return _cut(text, limit) if counts and limit is not None else text


def _cut(text: str, limit: int) -> str:
    """Return as much of a text as fits; a marker stays whole or goes."""
    data = text.encode("utf-8")
    if len(data) <= limit:
        return text
    kept = data[:limit].decode("utf-8", "ignore")
    for marker in _MARKER.finditer(text, max(0, len(kept) - _LONGEST_MARKER)):
        if marker.start() < len(kept) < marker.end():
            return kept[: marker.start()]
    return kept
