"""A question of a public data set, and a row that holds none."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

RowFault = Literal["missing_field", "no_question", "no_answer", "no_image", "bad_image", "bad_path"]
FAULTS: tuple[RowFault, ...] = get_args(RowFault)


class RowError(Exception):
    """A row that gives no question: counted under its `fault`, one of `FAULTS`, and left out."""

    def __init__(self, fault: RowFault, message: str, *, field: str | None = None) -> None:
        super().__init__(message)
        self.fault = fault
        self.message = message
        self.field = field


@dataclass(frozen=True)
class SourceQuestion:
    """One question as a data set has it.

    Attributes:
        id: unique in the data set, stable over calls.
        question: as it is asked; choices are part of it.
        images: files (PNG, JPEG, WebP) in page order.
        references: accepted answers, the first is the usual one; sealed, so not printed.
        family: public kind of task.
        group: document, competition or picture that related questions share; "" for the pictures.
    """

    id: str
    question: str
    images: tuple[bytes, ...]
    references: tuple[str, ...] = field(repr=False)
    family: str
    group: str = ""


def text_of(row: Mapping[str, Any], name: str, fault: RowFault = "missing_field") -> str:
    """Return a text or number of a row as text.

    Raises:
        RowError: it is not there or empty (`fault`), or something else than a text or number.
    """
    value = row.get(name)
    if isinstance(value, bool) or not isinstance(value, str | int | float | None):
        raise RowError("missing_field", "not a text", field=name)
    text = "" if value is None else str(value).strip()
    if not text:
        raise RowError(fault if name in row else "missing_field", "missing or empty", field=name)
    return text


def texts_of(row: Mapping[str, Any], name: str, fault: RowFault) -> tuple[str, ...]:
    """Return a list of texts of a row without empty ones and repeats, in order.

    Raises:
        RowError: no such field, not a list, or nothing in it (`fault`).
    """
    value = row.get(name)
    if name not in row or not isinstance(value, list | None):
        raise RowError("missing_field", "a list is wanted", field=name)
    found = (str(item).strip() for item in value or () if isinstance(item, str | int | float))
    kept = tuple(dict.fromkeys(item for item in found if item))
    if not kept:
        raise RowError(fault, "nothing in the list", field=name)
    return kept


def image_of(row: Mapping[str, Any], name: str) -> bytes:
    """Return the image file in a field of a row.

    Raises:
        RowError: `missing_field`, or `no_image` where the field is empty.
    """
    if name not in row:
        raise RowError("missing_field", "there is no such field", field=name)
    return image_bytes(row[name], name)


def image_bytes(value: object, name: str) -> bytes:
    """Return the file of an undecoded image of the library `datasets`: bytes, or bytes and path.

    Raises:
        RowError: `no_image`.
    """
    if isinstance(value, Mapping):
        value = value.get("bytes")
    if not isinstance(value, bytes) or not value:
        raise RowError("no_image", "there is no image in the row", field=name)
    return value
