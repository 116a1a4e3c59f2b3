"""Does a value fit a JSON schema? Written apart from the product's own check, for the same keywords."""

from __future__ import annotations

from typing import Any

_TYPES: dict[str, type] = {
    "object": dict,
    "array": list,
    "string": str,
    "integer": int,
    "boolean": bool,
    "null": type(None),
}
_KNOWN = {
    *("type", "enum", "anyOf", "properties", "required", "additionalProperties", "items"),
    *("minItems", "maxItems", "minLength", "maxLength", "minimum", "maximum"),
}


def fits(value: Any, schema: dict[str, Any]) -> bool:
    """Say whether a value fits; a keyword that is not known here is an error of the test."""
    assert set(schema) <= _KNOWN, set(schema) - _KNOWN
    if "anyOf" in schema:
        return any(fits(value, one) for one in schema["anyOf"])
    kind = schema.get("type")
    if kind is not None and type(value) is not _TYPES[kind]:
        return False
    return value in schema.get("enum", [value]) and _within(value, schema)


def _within(value: Any, schema: dict[str, Any]) -> bool:
    if isinstance(value, dict):
        parts = schema["properties"]
        assert schema["additionalProperties"] is False
        whole = set(schema["required"]) <= set(value) <= set(parts)
        return whole and all(fits(value[name], parts[name]) for name in value)
    if isinstance(value, list):
        sized = _between(len(value), schema, "minItems", "maxItems")
        return sized and all(fits(item, schema["items"]) for item in value)
    if isinstance(value, str):
        return _between(len(value), schema, "minLength", "maxLength")
    return not isinstance(value, int) or _between(value, schema, "minimum", "maximum")


def _between(size: int, schema: dict[str, Any], least: str, most: str) -> bool:
    return schema.get(least, size) <= size <= schema.get(most, size)
