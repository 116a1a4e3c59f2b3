"""Demonstrations as plain JSON data and back, without loss.

Types decide how a part is read back: records by their own schema, requests field by field, arrays as
base64 of little-endian float32, pictures by the name of the PNG that is stored for them. Reading is
strict: a field too many or too few, or of another type, is refused with the place where it stands.
"""

from __future__ import annotations

import base64
import binascii
import collections.abc
import types
from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from functools import cache
from typing import Any, Union, get_args, get_origin, get_type_hints

import numpy as np
from numpy.typing import NDArray
from pydantic import TypeAdapter, ValidationError

from epimem.errors import RecordError
from epimem.protocols import Picture
from epimem.schema.base import Record, record_error
from training.demonstrations.record import (
    FORMAT,
    REQUEST_OF,
    VALUE_OF,
    Demonstration,
    OperationName,
    Provenance,
)

Read = Callable[[int], bytes | None]
"""Gives the PNG of a picture of at most so many pixels; see `epimem.protocols.Picture`."""
_FIELDS = ("format", "id", "operation", "group", "request", "value", "provenance")
_PICTURE = ("image_id", "width", "height", "page")


def own_name(picture: Picture) -> str:
    """Return the image id of a picture: the name of its PNG unless it is a crop of that image."""
    return picture.image_id


def to_plain(
    demonstration: Demonstration, name_of: Callable[[Picture], str] = own_name
) -> dict[str, Any]:
    """Return a demonstration as plain JSON data.

    Args:
        demonstration: what to write.
        name_of: gives the name under which the PNG of a picture is stored. A crop bears the id of the
            image it was cut from, so its own PNG has another name.
    """
    return {
        "format": FORMAT,
        "id": demonstration.id,
        "operation": demonstration.operation,
        "group": demonstration.group,
        "request": _plain(demonstration.request, name_of),
        "value": _plain(demonstration.value, name_of),
        "provenance": _plain(demonstration.provenance, name_of),
    }


def from_plain(plain: Any, pictures: Callable[[str], Read]) -> Demonstration:
    """Return the demonstration that plain JSON data holds.

    Args:
        plain: what `to_plain` gave, after any way through JSON.
        pictures: gives the reader of a stored PNG by its name; may raise where there is none.

    Raises:
        RecordError: `invalid_field`, another format, a field too many, too few or of another type.
    """
    _check_format(plain)
    found = _members(plain, _FIELDS, "the demonstration")
    for name in ("id", "operation", "group"):
        if not isinstance(found[name], str) or not found[name]:
            raise _refused("a text that is not empty is wanted", name, found[name])
    operation = found["operation"]
    if operation not in REQUEST_OF:
        raise _refused(f"one of {', '.join(REQUEST_OF)} is wanted", "operation", operation)
    reader = _Reader(pictures)
    return Demonstration(
        id=found["id"],
        operation=operation,
        group=found["group"],
        request=reader.read(REQUEST_OF[operation], found["request"], "request"),
        value=read_value(operation, found["value"]),
        provenance=reader.read(Provenance, found["provenance"], "provenance"),
    )


def read_value(operation: OperationName, plain: Any) -> Any:
    """Return the value of an operation from plain JSON data.

    Raises:
        RecordError: `invalid_field`.
    """
    return _Reader(_no_picture).read(VALUE_OF[operation], plain, "value")


def _no_picture(name: str) -> Read:
    raise _refused("a value holds no picture", "value", name)


def _check_format(plain: Any) -> None:
    if not isinstance(plain, dict):
        raise _refused("a JSON object is wanted", "the demonstration", plain)
    if plain.get("format") != FORMAT:
        raise RecordError(
            f"not a demonstration of format {FORMAT}",
            field="format",
            got=str(plain.get("format")),
            hint="read it with the release that wrote it, or collect it again",
        )


def _plain(part: Any, name_of: Callable[[Picture], str]) -> Any:
    if isinstance(part, Record):
        return part.plain()
    if isinstance(part, Picture):
        return _picture(part, name_of(part))
    if isinstance(part, np.ndarray):
        return base64.b64encode(part.astype("<f4").tobytes()).decode("ascii")
    if is_dataclass(part):
        part = {each.name: getattr(part, each.name) for each in fields(part)}
    if isinstance(part, Mapping):
        return {key: _plain(value, name_of) for key, value in part.items()}
    if isinstance(part, list | tuple):
        return [_plain(item, name_of) for item in part]
    return part.item() if isinstance(part, np.generic) else part


def _picture(picture: Picture, name: str) -> dict[str, Any]:
    plain = {key: getattr(picture, key) for key in _PICTURE}
    return plain if name == picture.image_id else {**plain, "png": name}


class _Reader:
    """Reads a part by its type; `where` names the place for errors."""

    def __init__(self, pictures: Callable[[str], Read]) -> None:
        self._pictures = pictures

    def read(self, kind: Any, plain: Any, where: str) -> Any:
        if kind is Picture:
            return self._picture(plain, where)
        if is_dataclass(kind):
            return self._fields(kind, plain, where)
        origin = get_origin(kind)
        if origin is np.ndarray:
            return _vector(plain, where)
        if origin in {Union, types.UnionType}:
            return self._one_of(get_args(kind), plain, where)
        if origin in {tuple, collections.abc.Mapping}:
            return self._container(kind, plain, where)
        return _leaf(kind, plain, where)

    def _fields(self, kind: Any, plain: Any, where: str) -> Any:
        hints = _hints(kind)
        found = _members(plain, tuple(hints), where)
        return kind(
            **{
                name: self.read(hint, found[name], f"{where}.{name}")
                for name, hint in hints.items()
            }
        )

    def _container(self, kind: Any, plain: Any, where: str) -> Any:
        """Read a tuple of one type, or a mapping from text to one type."""
        if get_origin(kind) is tuple:
            items = enumerate(_typed(list, plain, where))
            return tuple(self.read(get_args(kind)[0], item, f"{where}[{at}]") for at, item in items)
        members = _typed(dict, plain, where).items()
        return {key: self.read(get_args(kind)[1], item, f"{where}.{key}") for key, item in members}

    def _one_of(self, kinds: tuple[Any, ...], plain: Any, where: str) -> Any:
        """Read "something or None", or a run or its transcript."""
        if plain is None and types.NoneType in kinds:
            return None
        if isinstance(plain, str) and str in kinds:
            return plain
        (kind,) = (kind for kind in kinds if kind not in {str, types.NoneType})
        return self.read(kind, plain, where)

    def _picture(self, plain: Any, where: str) -> Picture:
        named = isinstance(plain, dict) and "png" in plain
        found = _members(plain, (*_PICTURE, "png") if named else _PICTURE, where)
        for name in ("image_id", *(("png",) if named else ())):
            _typed(str, found[name], f"{where}.{name}")
        for name, least in (("width", 1), ("height", 1), ("page", 0)):
            if _typed(int, found[name], f"{where}.{name}") < least:
                raise _refused(f"at least {least} is wanted", f"{where}.{name}", found[name])
        read = self._pictures(found.pop("png", found["image_id"]))
        return Picture(**found, read=read)


@cache
def _hints(kind: Any) -> dict[str, Any]:
    hints = get_type_hints(kind)
    return {each.name: hints[each.name] for each in fields(kind)}


@cache
def _adapter(kind: Any) -> TypeAdapter[Any]:
    return TypeAdapter(kind)


def _leaf(kind: Any, plain: Any, where: str) -> Any:
    """Read a record, which is strict by its own schema, or a JSON scalar of exactly this type."""
    try:
        if isinstance(kind, type) and issubclass(kind, Record):
            return kind.model_validate(_typed(dict, plain, where))
        found = _adapter(kind).validate_python(plain, strict=True)
    except ValidationError as error:
        refused = record_error(error)
        refused.field = f"{where}.{refused.field}" if refused.field else where
        raise refused from error
    if type(found) is not type(plain) and kind is not float:  # true and 1.0 equal 1
        raise _refused(f"{type(found).__name__} is wanted", where, plain)
    return found


def _vector(plain: Any, where: str) -> NDArray[np.float32]:
    try:
        data = base64.b64decode(_typed(str, plain, where), validate=True)
        return np.frombuffer(data, dtype="<f4").astype(np.float32)
    except (binascii.Error, ValueError) as error:
        raise _refused("base64 of float32 numbers is wanted", where, plain) from error


def _typed(kind: type, plain: Any, where: str) -> Any:
    if type(plain) is not kind:
        raise _refused(f"{kind.__name__} is wanted", where, plain)
    return plain


def _members(plain: Any, names: tuple[str, ...], where: str) -> dict[str, Any]:
    """Return an object that has exactly these fields."""
    found: dict[str, Any] = _typed(dict, plain, where)
    strange = sorted(found.keys() - set(names))
    missing = [name for name in names if name not in found]
    if strange or missing:
        said = f"unknown field {strange[0]}" if strange else f"field {missing[0]} is missing"
        raise _refused(said, where, plain)
    return dict(found)


def _refused(message: str, where: str, plain: Any) -> RecordError:
    got = plain if isinstance(plain, int | float | str) else type(plain).__name__
    return RecordError(message, field=where, got=got)
