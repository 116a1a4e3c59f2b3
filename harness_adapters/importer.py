"""What an importer is: foreign files in; runs, sealed outcomes and ready lessons out.

    read(path) ──> Imported   one run and/or lessons, with a report of what became of its fields
               └─> Refused    one bad file or line, set aside with its reason; the rest goes on

Importers are found under the entry-point group `epimem.importers`. They read files and nothing
else: no address is fetched and no path leaves the folder of the document that names it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal, Protocol

from epimem.schema.ids import IdGenerator, uuid7
from epimem.schema.lesson import LessonDraft
from epimem.schema.outcome import SealedOutcome
from epimem.schema.run import SEALED_KEYS, Run

Fate = Literal["mapped", "extra", "native_only"]

# Names under which public data sets keep a reference or a score beside a conversation (ours). At
# the root of a foreign record they go to the sealed outcome, whatever they mean there.
SEALED_NAMES = SEALED_KEYS | {
    "answer",
    "answers",
    "correct",
    "expected",
    "expected_answer",
    "gold",
    "is_correct",
    "label",
    "labels",
    "reference",
    "reward",
    "score",
    "solution",
    "target",
    "verdict",
}
_REFERENCES = (
    "ground_truth",
    "reference_answer",
    "gold_answer",
    "reference",
    "expected_answer",
    "gold",
)


class AdmittedImage(Protocol):
    """What the bank says of an image it has stored: the hash of its pixels and its size."""

    @property
    def image_id(self) -> str:
        """SHA-256 of width, height and upright RGB pixels."""
        ...

    @property
    def width(self) -> int:
        """Pixels, upright."""
        ...

    @property
    def height(self) -> int:
        """Pixels, upright."""
        ...


Admit = Callable[[bytes], AdmittedImage]


@dataclass(frozen=True)
class FieldCount:
    """How often a native field was met, by what became of it."""

    mapped: int = 0
    extra: int = 0
    native_only: int = 0

    @property
    def native(self) -> int:
        """How often the field was met at all."""
        return self.mapped + self.extra + self.native_only

    def __add__(self, other: FieldCount) -> FieldCount:
        return FieldCount(
            self.mapped + other.mapped,
            self.extra + other.extra,
            self.native_only + other.native_only,
        )


@dataclass(frozen=True)
class Note:
    """One thing a reader should know of one source: an odd label, a replaced character, ..."""

    code: str
    source: str
    detail: str


@dataclass(frozen=True)
class LossReport:
    """What became of the native fields: mapped, kept under `extra`, or only in the original.

    A field is a path of keys with list positions left out, such as `messages[].role`. Fields that
    went to the sealed outcome count as mapped.
    """

    fields: Mapping[str, FieldCount] = field(default_factory=dict)
    notes: tuple[Note, ...] = ()

    def __add__(self, other: LossReport) -> LossReport:
        merged = dict(self.fields)
        for path, count in other.fields.items():
            merged[path] = merged.get(path, FieldCount()) + count
        return LossReport(merged, self.notes + other.notes)

    @property
    def total(self) -> FieldCount:
        """The sum over all fields."""
        return sum(self.fields.values(), FieldCount())

    def rows(self) -> list[tuple[str, int, int, int, int]]:
        """Return (field, native, mapped, extra, native only), by field name."""
        return [
            (path, count.native, count.mapped, count.extra, count.native_only)
            for path, count in sorted(self.fields.items())
        ]

    def note_counts(self) -> dict[str, int]:
        """Return how many notes there are of each code, by code."""
        codes = sorted(note.code for note in self.notes)
        return {code: codes.count(code) for code in dict.fromkeys(codes)}


class FieldTally:
    """Collects the loss report of one source while it is converted."""

    def __init__(self, source: str) -> None:
        self.source = source
        self._fields: dict[str, FieldCount] = {}
        self._notes: list[Note] = []

    def count(self, path: str, fate: Fate, times: int = 1) -> None:
        """Record that the field at `path` was met and what became of it."""
        self._fields[path] = self._fields.get(path, FieldCount()) + FieldCount(**{fate: times})

    def note(self, code: str, detail: str) -> None:
        """Record something a reader should know."""
        self._notes.append(Note(code, self.source, detail))

    def report(self) -> LossReport:
        """Return what was collected."""
        return LossReport(dict(self._fields), tuple(self._notes))


@dataclass(frozen=True)
class ImportedImage:
    """An image that was admitted for a record: the file's bytes, its name there, its id here."""

    data: bytes
    name: str
    image_id: str


@dataclass(frozen=True)
class Imported:
    """One foreign record as ours. `source` names file and line relative to what was read."""

    run: Run | None
    outcome: SealedOutcome | None
    lessons: tuple[LessonDraft, ...]
    images: tuple[ImportedImage, ...]
    source: str
    loss: LossReport


@dataclass(frozen=True)
class Refused:
    """One file or line that was set aside; `line` counts from 1 and is 0 for a whole file."""

    source: str
    line: int
    code: str
    message: str


class Importer(Protocol):
    """Turns the files of one foreign format into records."""

    name: str
    help: str

    def read(self, path: Path, *, admit: Admit) -> Iterator[Imported | Refused]:
        """Yield the records of a file or folder, streamed, in a stable order.

        Args:
            path: a file, or a folder that is walked.
            admit: stores the bytes of an image and says what it is; raises `ImageError`.

        Raises:
            NotFoundError: `path` does not exist or holds no file of this format.
        """
        ...


@dataclass(frozen=True)
class Stamps:
    """Where run ids and creation times come from; neither belongs to a run's content hash."""

    ids: IdGenerator = uuid7
    clock: Callable[[], float] = time.time

    def created_at(self) -> str:
        """Return the current UTC time as ISO 8601 with milliseconds."""
        return datetime.fromtimestamp(self.clock(), UTC).isoformat(timespec="milliseconds")


def split_sealed(
    values: Mapping[str, Any], names: frozenset[str] = SEALED_NAMES, where: str = ""
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return (what may stay visible, what belongs to the sealed outcome) of plain JSON data.

    A sealed value stands under the path of its key, below `where`, such as `info.ground_truth`.
    """
    visible: dict[str, Any] = {}
    sealed: dict[str, Any] = {}
    for key, value in values.items():
        if key.lower() in names:
            sealed[where + key] = value
        else:
            visible[key], below = _split_value(value, names, f"{where}{key}.")
            sealed |= below
    return visible, sealed


def _split_value(value: Any, names: frozenset[str], where: str) -> tuple[Any, dict[str, Any]]:
    if isinstance(value, dict):
        return split_sealed(value, names, where)
    if not isinstance(value, list):
        return value, {}
    pairs = [_split_value(item, names, f"{where}{place}.") for place, item in enumerate(value)]
    sealed: dict[str, Any] = {}
    for _, below in pairs:
        sealed |= below
    return [item for item, _ in pairs], sealed


def sealed_outcome(run_id: str, sealed: Mapping[str, Any]) -> SealedOutcome | None:
    """Return an outcome of unknown verdict that holds `sealed`, None where there is nothing.

    The first scalar under one of the usual names becomes the reference; a number or label under any
    other name is kept as a label, never interpreted as a verdict.
    """
    if not sealed:
        return None
    found = [key for key in _REFERENCES if isinstance(sealed.get(key), str | int | float)]
    labels = {key: value for key, value in sealed.items() if key not in found[:1]}
    reference = reference_text(sealed[found[0]]) if found else None
    return SealedOutcome(run_id=run_id, reference=reference, labels=labels)


def reference_text(value: object) -> str:
    """Return a reference of any JSON scalar type as text."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)
