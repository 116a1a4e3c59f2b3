"""The part of a JSON schema that decoders can be trusted to hold a reply to.

A grammar of xgrammar (which vLLM uses too) for a string with `maxLength` takes control characters as
they are, which is not JSON, and takes no escapes, so that no quotation mark can be said (0.2.8). Without
a length it is right. The limit on new tokens bounds a reply in any case, and the reader its texts.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_LENGTHS = frozenset({"minLength", "maxLength"})
_NAMED = frozenset({"properties", "$defs"})


def held(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return a copy of a schema without lengths of strings; properties of such a name stay."""
    found: dict[str, Any] = {}
    for key, value in schema.items():
        if key in _NAMED:
            found[key] = {name: held(inner) for name, inner in value.items()}
        elif key not in _LENGTHS:
            found[key] = _inside(value)
    return found


def _inside(value: Any) -> Any:
    if isinstance(value, Mapping):
        return held(value)
    return [_inside(item) for item in value] if isinstance(value, list | tuple) else value
