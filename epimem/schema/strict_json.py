"""The one JSON reader and writer.

Refused, all as `bad_json`: other encodings and a byte order mark, duplicate keys, NaN and Infinity,
lone surrogates, integers beyond 64 bits, nesting deeper than 32, more than 1,000 keys in one
object. Lone surrogates written as escapes may be kept for the text of runs, which is never refused
for them (see `epimem.schema.text.escape_tree`).
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable
from typing import Any, NoReturn

from epimem.errors import RecordError

MAX_DEPTH = 32
MAX_KEYS = 1000
MIN_INT = -(2**63)
MAX_INT = 2**63 - 1
# A run record nests an ATIF document, so its reader may go deeper than a request body may.
RUN_DEPTH = 64


def loads(
    data: bytes | str,
    *,
    max_depth: int = MAX_DEPTH,
    max_keys: int = MAX_KEYS,
    keep_surrogates: bool = False,
) -> Any:
    """Parse one JSON text strictly.

    Args:
        data: UTF-8 bytes or text, without a byte order mark.
        max_depth: greatest nesting of arrays and objects.
        max_keys: greatest number of keys in one object.
        keep_surrogates: hand lone surrogates on to a caller that replaces them.

    Raises:
        RecordError: with code `bad_json`.
    """
    text = _decode(data)
    try:
        value = json.loads(
            text,
            object_pairs_hook=lambda pairs: _object(pairs, max_keys),
            parse_constant=_refuse_constant,
            parse_float=_float,
            parse_int=_int,
        )
    except RecursionError:
        raise _bad("nested too deeply", limit=max_depth) from None
    except json.JSONDecodeError as error:
        raise _bad(f"not JSON: {error.msg}", got=error.pos) from None
    _check_depth(value, max_depth)
    if not keep_surrogates and _may_hold_surrogate(text):
        _check_surrogates(value)
    return value


def dumps(value: Any) -> bytes:
    """Write canonical JSON: sorted keys, no spaces, UTF-8, no NaN.

    Raises:
        RecordError: with code `bad_json` for what JSON or UTF-8 cannot hold.
    """
    try:
        text = json.dumps(
            value, sort_keys=True, ensure_ascii=False, allow_nan=False, separators=(",", ":")
        )
        return text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise _bad("lone surrogate", got=error.start) from None
    except (TypeError, ValueError, RecursionError) as error:
        raise _bad("not representable in JSON", got=type(error).__name__) from error


def _decode(data: bytes | str) -> str:
    if isinstance(data, bytes):
        try:
            data = data.decode("utf-8")
        except UnicodeDecodeError as error:
            raise _bad("not UTF-8", got=error.start) from None
    if data.startswith("\ufeff"):
        raise _bad("starts with a byte order mark")
    return data


def _object(pairs: Iterable[tuple[str, Any]], max_keys: int) -> dict[str, Any]:
    pairs = list(pairs)
    result = dict(pairs)
    if len(result) != len(pairs):
        raise _bad("duplicate key")
    if len(pairs) > max_keys:
        raise _bad("too many keys in one object", got=len(pairs), limit=max_keys)
    return result


def _refuse_constant(name: str) -> NoReturn:
    raise _bad("not a JSON number", got=name)


def _float(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise _bad("number out of range", got=text)
    return value


def _int(text: str) -> int:
    if len(text) > 20 or not MIN_INT <= int(text) <= MAX_INT:
        raise _bad("integer beyond 64 bits", got=text)
    return int(text)


def _check_depth(value: Any, max_depth: int) -> None:
    level = [value]
    depth = 0
    while level := [item for item in level if isinstance(item, dict | list)]:
        depth += 1
        if depth > max_depth:
            raise _bad("nested too deeply", got=depth, limit=max_depth)
        level = [
            child for item in level for child in (item.values() if isinstance(item, dict) else item)
        ]


def _may_hold_surrogate(text: str) -> bool:
    # Bytes that decode hold none, so one can only come from an escape or from a Python text.
    return "\\u" in text or not _encodes(text)


def _check_surrogates(value: Any) -> None:
    stack = [value]
    while stack:
        item = stack.pop()
        if isinstance(item, str) and not _encodes(item):
            raise _bad("lone surrogate")
        if isinstance(item, dict):
            stack.extend(item)
            stack.extend(item.values())
        elif isinstance(item, list):
            stack.extend(item)


def _encodes(text: str) -> bool:
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True


def _bad(message: str, *, got: str | int | None = None, limit: int | None = None) -> RecordError:
    return RecordError(message, code="bad_json", got=got, limit=limit)
