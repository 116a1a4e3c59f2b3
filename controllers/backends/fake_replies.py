"""What the fake server says where no rule is given: the smallest value that a JSON schema allows."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

from controllers.backends.json_probe import FORCED

PLAIN_TEXT = "This is the fake server. No model read your prompt."


def smallest_reply(body: Mapping[str, Any]) -> str:
    """Return a reply of the schema that a chat request asks for, or a fixed sentence without one."""
    schema = schema_of(body)
    return PLAIN_TEXT if schema is None else json.dumps(smallest(schema), ensure_ascii=False)


def schema_of(body: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """Return the JSON schema of a chat request, None where it asks for none."""
    wanted = body.get("response_format")
    inner = wanted.get("json_schema") if isinstance(wanted, dict) else None
    schema = inner.get("schema") if isinstance(inner, dict) else None
    return schema if isinstance(schema, dict) else None


def is_probe(body: Mapping[str, Any]) -> bool:
    """Say whether a request is the one that finds out whether schemas are honoured."""
    schema = schema_of(body)
    return schema is not None and smallest(schema) == FORCED


def text_of(body: Mapping[str, Any]) -> str:
    """Return all texts of a chat request, one message a line."""
    return "\n".join(_content(message.get("content")) for message in body.get("messages", []))


def _content(content: Any) -> str:
    if isinstance(content, str):
        return content
    return "".join(str(part.get("text", "")) for part in content or [])


def smallest(schema: Mapping[str, Any]) -> Any:
    """Return a small value of a schema: first enum, required keys only, shortest list, lowest number.

    References are not followed, patterns are not met: prompts of this project hold neither.
    """
    if "const" in schema:
        return schema["const"]
    choices = schema.get("enum") or schema.get("anyOf") or schema.get("oneOf")
    if choices:
        return choices[0] if schema.get("enum") else smallest(choices[0])
    kind = schema.get("type")
    kind = kind[0] if isinstance(kind, list) else kind
    make = _BY_TYPE.get(str(kind))
    return None if make is None else make(schema)


def _object(schema: Mapping[str, Any]) -> dict[str, Any]:
    known = schema.get("properties", {})
    return {name: smallest(known.get(name, {})) for name in schema.get("required", [])}


def _array(schema: Mapping[str, Any]) -> list[Any]:
    fixed = [smallest(item) for item in schema.get("prefixItems", [])]
    missing = max(0, int(schema.get("minItems", 0)) - len(fixed))
    items = schema.get("items")
    return fixed + [smallest(items if isinstance(items, dict) else {})] * missing


def _string(schema: Mapping[str, Any]) -> str:
    return "x" * int(schema.get("minLength", 0))


def _number(schema: Mapping[str, Any]) -> Any:
    lowest = schema.get("minimum", schema.get("exclusiveMinimum", -1) + 1)
    return min(lowest, schema.get("maximum", lowest))


_BY_TYPE: Mapping[str, Callable[[Mapping[str, Any]], Any]] = {
    "object": _object,
    "array": _array,
    "string": _string,
    "integer": _number,
    "number": _number,
    "boolean": lambda _: False,
}
