"""Names and ids that are handed in beside a record, held to the same rules as those inside one.

A namespace that is not normalized would be another namespace than the one that its lessons carry, and
an id that UTF-8 cannot hold would end in a driver's error instead of ours.
"""

from __future__ import annotations

from collections.abc import Collection

from epimem.errors import RecordError
from epimem.schema.base import Record
from epimem.schema.text import NameText, TitleText


def addressed(audience: Collection[str], reader: str | None) -> bool:
    """Whether an item with this audience is for a reader (ours).

    An empty audience is for all; a name is compared, never searched for. A name `@GROUP/MEMBER` binds
    the readers of that group alone (a reader of the group's own name, `@GROUP`, among them): to a reader
    of another group, or of none, such a name says nothing, so that what one team hands to some of its
    members is not lost to other teams. An audience that has any other name binds everybody.

    Args:
        audience: names of readers.
        reader: who asks; None where nobody is named.
    """
    if not audience or reader in audience:
        return True
    if not all(name.startswith("@") and "/" in name for name in audience):
        return False
    group = (reader or "").partition("/")[0]
    return all(name.partition("/")[0] != group for name in audience)


class _Name(Record):
    value: NameText


class _Title(Record):
    value: TitleText


def checked_name(value: str, field: str) -> str:
    """Return a namespace, reader or contributor in NFC: visible text of 1 to 128 bytes.

    Raises:
        RecordError: `invalid_text`, `too_large` or `invalid_field`, naming `field`.
    """
    return _named(_Name, value, field)


def checked_title(value: str, field: str) -> str:
    """Return a task family in NFC: text of at most 256 bytes, empty where there is none.

    Raises:
        RecordError: as for names.
    """
    return _named(_Title, value, field)


def _named(kind: type[_Name | _Title], value: str, field: str) -> str:
    try:
        return kind.read({"value": value}).value
    except RecordError as error:
        raise RecordError(
            error.message, code=error.code, field=field, got=error.got, limit=error.limit
        ) from error


def checked_id(value: str, field: str) -> str:
    """Return an id as it is: any text that UTF-8 can hold.

    Ids are looked up, never shown as text of ours, so nothing visible is asked of them.

    Raises:
        RecordError: `invalid_text`, it holds a lone surrogate; `invalid_field`, it is no text.
    """
    if not isinstance(value, str):
        raise RecordError("an id is a text", field=field, got=type(value).__name__)
    try:
        value.encode("utf-8")
    except UnicodeEncodeError as error:
        raise RecordError(
            "lone surrogate", code="invalid_text", field=field, got=error.start
        ) from None
    return value
