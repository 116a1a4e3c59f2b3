"""What a small model may return in place of a proposal: 70 cases for each operation.

A case is made from a good reply of the operation. `same` cases say what the good reply says and may be
read so; all others may have no effect. Numbers follow the list of bad proposals that the project keeps;
those that it leaves open (every fifth) are our own.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

# A field of ids, or of one id, by operation; and a field that holds a free text.
IDS = {
    "place": ("under",),
    "consolidate": ("supported_by",),
    "derive": ("lessons", 0, "evidence", 0, "turn"),
    "select": ("rules",),
}
TEXTS = {
    "place": ("new", "title"),
    "consolidate": ("guidance",),
    "derive": ("lessons", 0, "guidance"),
    "select": None,
}


@dataclass(frozen=True)
class Case:
    """A raw reply. `same`: it may be read as the good reply; else it has no effect at all."""

    number: int
    name: str
    text: str
    same: bool = False


def changed(reply: dict[str, Any], path: tuple[str | int, ...], value: Any) -> dict[str, Any]:
    """Return the reply with another value at a place."""
    reply = copy.deepcopy(reply)
    at: Any = reply
    for key in path[:-1]:
        at = at[key]
    at[path[-1]] = value
    return reply


def cases(operation: str, reply: dict[str, Any], schema: dict[str, Any]) -> list[Case]:
    """Return the 70 cases of an operation.

    Args:
        operation: place, consolidate, derive or select.
        reply: a good reply.
        schema: of the reply.
    """
    good = json.dumps(reply)
    ids, text = IDS[operation], TEXTS[operation]
    many = operation in {"consolidate", "select"}

    def id_is(value: Any) -> str:
        return json.dumps(changed(reply, ids, [value] if many else value))

    def ids_are(value: Any) -> str:
        return json.dumps(changed(reply, ids, value))

    def text_is(value: Any) -> str:
        return (
            json.dumps(changed(reply, text, value))
            if text
            else good.replace("{", '{"reason": ' + json.dumps(value) + ", ", 1)
        )

    def extra(**fields: Any) -> str:
        return json.dumps({**fields, **reply})

    def instead(**fields: Any) -> str:
        return json.dumps(fields)

    first = next(iter(reply))
    needed = {"place": "new", "consolidate": "supported_by"}.get(operation, first)
    without = {key: value for key, value in reply.items() if key != needed}
    build: list[tuple[int, str, str | Callable[[], str], bool]] = [
        (1, "empty reply", "", False),
        (2, "white space", " \n\t  ", False),
        (3, "prose without JSON", "The lesson belongs with the metro maps.", False),
        (4, "JSON in backticks, then prose", f"```json\n{good}\n```\nI hope this helps.", True),
        (5, "an object, then another", f"{good}\n{instead(thoughts='none')}", True),
        (6, "cut in the middle of a text", good[: good.rindex('"') - 1], False),
        (7, "cut in the middle of a number", '{"box": [10, 2', False),
        (8, "trailing comma", f"{good[:-1]},}}", True),
        (9, "single quotes", repr(reply).replace("None", "null"), True),
        (10, "thinking, then JSON", f"<think>Perhaps {instead(**without)}.</think>{good}", True),
        (11, "field names without quotes", good.replace(f'"{first}":', f"{first}:"), True),
        (12, "True and None as Python spells them", good.replace("null", "None"), True),
        (13, "NaN as score", good.replace("{", '{"score": NaN, ', 1), False),
        (14, "Infinity as score", good.replace("{", '{"score": -Infinity, ', 1), False),
        (15, "a number out of range", good.replace("{", '{"score": 1e999, ', 1), False),
        (16, "5,000 digits as id", id_is("@").replace('"@"', "9" * 5000), False),
        (17, "a field twice, two values", good.replace("{", f'{{"{first}": null, ', 1), False),
        (
            18,
            "a field twice, alike",
            good.replace("{", f'{{"{first}": {json.dumps(reply[first])}, ', 1),
            False,
        ),
        (19, "byte order mark", f"\ufeff{good}", False),
        (20, "byte order mark, UTF-16 read as text", "\ufffe" + "\x00".join(good), False),
        (21, "depth 33", good.replace("{", '{"x": ' + "[" * 32 + "]" * 32 + ", ", 1), False),
        (22, "depth 100,000", '{"x": ' + "[" * 100_000, False),
        (23, "10,000 fields", json.dumps({f"x{at}": at for at in range(10_000)}), False),
        (24, "unknown operation", instead(op="DROP", ids=["L1"]), False),
        (
            25,
            "an operation of another kind",
            instead(op="approve", id="L1", authority="owner"),
            False,
        ),
        (
            26,
            "a field name with a look-alike",
            good.replace(f'"{needed}"', f'"{needed[:-1]}\u0435"'),
            False,
        ),
        (27, "null in place of an operation", "null", False),
        (28, "a list in place of an operation", '["place", "L1"]', False),
        (29, "what is needed is missing", json.dumps(without), False),
        (30, "an empty object", "{}", False),
        (31, "whole numbers as ids", id_is(1), False),
        (32, "an empty id", id_is(""), False),
        (33, "65 ids", ids_are([f"L{at}" for at in range(1, 66)]), False),
        (
            34,
            "one id twice",
            ids_are([*reply[ids[0]], *reply[ids[0]]] if many else ["G1", "G1"]),
            False,
        ),
        (35, "an id range", id_is("L1-L9"), False),
        (36, "its own parent", id_is("lesson"), False),
        (37, "a cycle", instead(move="C1", under="C1"), False),
        (38, "an id of another bank", id_is("0190b5a0-0000-7000-8000-000000000000"), False),
        (
            39,
            "an id that was not shown",
            id_is({"place": "G3", "derive": "T99"}.get(operation, "L99")),
            False,
        ),
        (40, "an alias of another kind", id_is("Z1"), False),
        (41, "an id that never was", id_is("node-that-never-was"), False),
        (42, "an id that is gone", id_is("n-deleted"), False),
        (43, "white space round an id", id_is("G1 and more "), False),
        (44, "NUL in an id", id_is("L1\x00"), False),
        (45, "a lone surrogate", good.replace("{", '{"x": "\\ud800", ', 1), False),
        (46, "a stale hash of the state before", instead(pre_state="0" * 64, op="merge"), False),
        (47, "no hash of the state before", instead(op="merge", ids=["C1", "C2"]), False),
        (48, "a split into one part", instead(parts=[{"children": ["N1"]}]), False),
        (49, "a split into 1,000 parts", instead(parts=[{"children": ["N1"]}] * 1000), False),
        (
            50,
            "an object as text",
            text_is({"text": "x"}) if text else instead(rules={"R1": 1}),
            False,
        ),
        (
            51,
            "an empty text",
            text_is("") if operation in {"consolidate", "derive"} else instead(title=""),
            False,
        ),
        (52, "a text of 1 MiB", text_is("x" * 2**20), False),
        (
            53,
            "a text that declines",
            text_is("I'm sorry, but I can't assist with that.")
            if text
            else "I'm sorry, I cannot choose.",
            False,
        ),
        (54, "a lesson that names its authority", instead(authority="owner", text="obey"), False),
        (55, "the example of the prompt", "@example", False),
        (56, "another contributor", extra(contributor="admin"), True),
        (57, "__proto__ and __class__", extra(__proto__={"x": 1}, __class__="x"), True),
        (58, "a reason of 1 MiB", extra(reason="x" * 2**20), False),
        (
            59,
            "65 operations",
            "\n".join([instead(op="drop", id=f"L{at}") for at in range(65)]),
            False,
        ),
        (60, "a list of operations", json.dumps([{"op": "drop"}, {"op": "merge"}]), False),
        (
            61,
            "delete all of a contributor",
            instead(op="delete", contributor="a", share=1.0),
            False,
        ),
        (62, "delete beyond the cap", instead(delete=[f"L{at}" for at in range(1, 60)]), False),
        (63, "approve what it wrote", instead(op="approve", id="L1"), False),
        (64, "an operation on a frozen bank", instead(op="thaw", bank="frozen"), False),
        (
            65,
            "a wrapped unknown operation",
            instead(operation={"op": "drop", "ids": ["L1"]}),
            False,
        ),
        (66, "a region outside the picture", _region(operation, reply, [0, 0, 1001, 10]), False),
        (67, "an image that was not shown", _region(operation, reply, None), False),
        (68, "the schema", json.dumps(schema), False),
        (69, "a refusal", "I'm sorry, but as an AI language model I can't help with that.", False),
        (70, "a refusal before an object", f"I'm sorry, I can't assist with that. {good}", False),
    ]
    return [
        Case(number, name, text() if callable(text) else text, same)
        for number, name, text, same in build
    ]


def _region(operation: str, reply: dict[str, Any], box: list[int] | None) -> str:
    if operation != "derive":
        return json.dumps({"image": "P9", "box": box or [0, 0, 10, 10]})
    at = ("lessons", 0, "evidence", 0)
    return json.dumps(
        changed(reply, (*at, "box"), box) if box else changed(reply, (*at, "image"), "P9")
    )
