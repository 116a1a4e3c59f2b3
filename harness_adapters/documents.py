"""Foreign files as a stream of JSON documents: whole files, or the lines of a JSONL file.

One document is in memory at a time. A document that cannot be read is yielded as `Refused`.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from pydantic import BaseModel, ConfigDict, ValidationError

from epimem.errors import ImageError, NotFoundError, RecordError, StorageError
from epimem.schema import strict_json
from epimem.schema.base import record_error
from epimem.schema.text import escape_tree
from harness_adapters.importer import FieldTally, Imported, Refused

# What may be wrong with a document; any other error is not the document's fault.
FAULTS = (ValidationError, RecordError, ImageError)
MAX_DOCUMENT = 64 * 1024 * 1024
# A run record nests a foreign document a few levels deeper than it stood in its file.
MAX_DEPTH = strict_json.RUN_DEPTH - 8


class Foreign(BaseModel):
    """A record of another system; fields we do not know are kept in `model_extra`."""

    model_config = ConfigDict(frozen=True, extra="allow", allow_inf_nan=False)


@dataclass(frozen=True)
class Document:
    """One JSON text: where it stands, the folder its images may lie in, and its bytes."""

    source: str
    line: int
    folder: Path
    data: bytes

    @property
    def label(self) -> str:
        """File and line, for reports."""
        return f"{self.source}:{self.line}" if self.line else self.source

    @property
    def stem(self) -> str:
        """The file's name without folder and ending; with the line where there is one."""
        stem = Path(self.source).stem
        return f"{stem}-{self.line}" if self.line else stem

    def parse(self, tally: FieldTally) -> tuple[dict[str, Any], int]:
        """Return the object in the document, and how many characters of it had to be replaced.

        Raises:
            RecordError: `bad_json`, or `invalid_field` where it is not an object.
        """
        value = strict_json.loads(self.data, max_depth=MAX_DEPTH, keep_surrogates=True)
        value, replaced = escape_tree(_object(value))
        if replaced:
            tally.note("characters_replaced", f"{replaced} NUL or lone surrogate characters")
        return value, replaced

    def parse_strictly(self) -> dict[str, Any]:
        """Return the object in a document that is not run text, so that nothing is replaced.

        Raises:
            RecordError: `bad_json`, or `invalid_field` where it is not an object.
        """
        return _object(strict_json.loads(self.data))


def documents(path: Path, endings: tuple[str, ...]) -> Iterator[Document | Refused]:
    """Yield the documents of a file, or of all files with one of `endings` in a folder.

    Files ending in `.jsonl` hold one document a line, others one document. Folders are walked in
    the order of names, numbers in them by value; links that lead out of the folder are refused.

    Raises:
        NotFoundError: nothing is there, or no file with one of the endings.
    """
    if path.is_dir():
        yield from _walk(path, endings)
    elif path.is_file():
        yield from _file(path, path.name)
    else:
        raise NotFoundError("no such file or folder to import from", field="path")


def guarded(
    document: Document, convert: Callable[[Document, FieldTally], Imported]
) -> Imported | Refused:
    """Convert one document; a fault of the document becomes a `Refused`, any other is raised."""
    try:
        return convert(document, FieldTally(document.label))
    except FAULTS as error:
        return refusal(document, error)


def refusal(document: Document, error: ValidationError | RecordError | ImageError) -> Refused:
    """Return the refusal of a document for `error`."""
    if isinstance(error, ValidationError):
        error = record_error(error)
    return Refused(document.source, document.line, error.code, str(error))


def inside(folder: Path, target: Path) -> bool:
    """Say whether `target`, links followed, is a regular file inside `folder`."""
    try:
        resolved = target.resolve()
        return resolved.is_relative_to(folder.resolve()) and resolved.is_file()
    except (OSError, RuntimeError, ValueError):
        return False


def _walk(root: Path, endings: tuple[str, ...]) -> Iterator[Document | Refused]:
    met = False
    for target in _files(root):
        linked_folder = target.is_symlink() and target.is_dir()
        if target.suffix not in endings and not linked_folder:
            continue
        met = True
        source = target.relative_to(root).as_posix()
        if inside(root, target):
            yield from _file(target, source)
        else:
            message = "not a regular file, or a link that leads to a folder or out of this one"
            yield Refused(source, 0, "invalid_field", message)
    if not met:
        raise NotFoundError(
            "the folder holds no file of this format", field="path", hint=" or ".join(endings)
        )


def _files(folder: Path) -> Iterator[Path]:
    try:
        entries = sorted(os.scandir(folder), key=lambda entry: _natural(entry.name))
    except OSError as error:
        raise StorageError("a folder cannot be listed", hint=folder.name) from error
    for entry in entries:
        if entry.is_dir(follow_symlinks=False):
            yield from _files(Path(entry.path))
        else:
            yield Path(entry.path)


def _natural(name: str) -> tuple[int, int, str]:
    digits = Path(name).stem
    number = int(digits) if digits.isascii() and digits.isdigit() and len(digits) < 19 else -1
    return (0, number, name) if number >= 0 else (1, 0, name)


def _file(target: Path, source: str) -> Iterator[Document | Refused]:
    try:
        file = target.open("rb")
    except OSError:
        yield Refused(source, 0, "storage_failed", "the file cannot be opened")
        return
    with file:
        if target.suffix == ".jsonl":
            for line, _, data in lines(file):
                yield bounded(Document(source, line, target.parent, data))
        else:
            yield bounded(Document(source, 0, target.parent, file.read(MAX_DOCUMENT + 1)))


def lines(file: BinaryIO) -> Iterator[tuple[int, int, bytes]]:
    """Yield (number, offset in bytes, bytes) of the lines that are not blank, a bound of each."""
    number = offset = 0
    while data := file.readline(MAX_DOCUMENT + 1):
        number += 1
        rest, place = data, offset
        offset += len(data)
        while rest and not rest.endswith(b"\n"):
            rest = file.readline(MAX_DOCUMENT + 1)
            offset += len(rest)
        if data.strip():
            yield number, place, data


def bounded(document: Document) -> Document | Refused:
    """Return the document, or its refusal where it is larger than `MAX_DOCUMENT`."""
    if len(document.data) <= MAX_DOCUMENT:
        return document
    error = RecordError("document too large", code="too_large", limit=MAX_DOCUMENT)
    return refusal(document, error)


def _object(value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise RecordError("expected a JSON object", got=type(value).__name__)
    return value
