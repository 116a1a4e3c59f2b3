"""From the text of a reply to the value it says, or to why it says none.

text ─ objects ─ each: an echo? ─ shape ─ parse ─> the first that passes
  └─── sections, where the model was asked for them ───────┘
                                    nothing passes: why the first one did not
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from pydantic import ValidationError

from controllers.prompts.message import Prompt, Refused
from controllers.replies.echoes import Echoes
from controllers.replies.objects import Held, Objects, members_of, objects_of
from controllers.replies.refusals import is_refusal
from controllers.replies.sections import read_sections
from controllers.replies.shape import Notes, free_texts, shaped
from controllers.replies.thinking import without_thinking
from epimem.errors import EpimemError

# Longer than any reply that our limits on tokens allow (ours).
MAX_CHARS = 262_144
_OF_FORM = frozenset({"not_json", "schema"})
V = TypeVar("V")
Parse = Callable[[Mapping[str, Any]], V]


@dataclass(frozen=True)
class Read(Generic[V]):
    """What a reply says: a value, or why there is none; and what was done to it on the way.

    `json` says that the reply tried to give an object: one that does not belongs to a model that may
    not be able to. A value may be None where that is lawful (`refused` is None then).
    """

    value: V | None
    refused: Refused | None = None
    notes: tuple[str, ...] = ()
    json: bool = False
    protocol: str = ""


def read(
    text: str,
    prompt: Prompt,
    parse: Parse[V],
    *,
    sections: bool = False,
    truncated: bool = False,
) -> Read[V]:
    """Read one reply.

    Args:
        text: as it came.
        prompt: what it answers; its schema says the names, its messages what may have been copied.
        parse: from plain data to the value; raises `Refused`.
        sections: the model was asked for sections; an object is taken all the same.
        truncated: the limit on tokens ended the reply.
    """
    if len(text) > MAX_CHARS:
        message = f"the reply has {len(text)} characters, at most {MAX_CHARS} are read"
        return Read(None, Refused("limit", message))
    if text.startswith("\ufeff"):
        return Read(None, Refused("not_json", "the reply starts with a byte order mark"), json=True)
    objects = objects_of(text, members_of(prompt.schema), truncated=truncated)
    if is_refusal(objects.said or text):
        return Read(None, Refused("not_json", "the reply declines to answer"), json=False)
    found = _first(objects, prompt, parse)
    if found.refused is None or not sections:
        return found
    if truncated:
        # Where a text ends is for the next heading to say, so the last one may be cut anywhere.
        cut = Refused("not_json", "the limit on the length of a reply ended it")
        return found if found.json else Read(None, cut)
    said = without_thinking(text).said
    return _by_sections(said, prompt, parse, found)


def _first(objects: Objects, prompt: Prompt, parse: Parse[V]) -> Read[V]:
    """Return the first object that says a value, else why the first one says none.

    Only an object that fails in form makes way for the next: one that is well formed and unlawful is
    what the model wanted to say.
    """
    if not objects.held:
        message = "the reply ends before the object does" if objects.cut else "no JSON object in it"
        return Read(None, Refused("not_json", message), json=objects.attempted)
    echoes = Echoes(prompt)
    refused: Read[V] | None = None
    for held in objects.held:
        result = _value_of(held, prompt, parse, echoes)
        if result.refused is None or result.refused.reason not in _OF_FORM:
            return result
        refused = refused or result
    assert refused is not None
    return refused


def _value_of(held: Held, prompt: Prompt, parse: Parse[V], echoes: Echoes) -> Read[V]:
    if held.problem:
        return Read(None, Refused("not_json", held.problem), json=True)
    if echoes.holds(held):
        copied = Refused("schema", "the object is copied from the instructions")
        return Read(None, copied, json=True)
    notes = Notes()
    for repair in held.repairs:
        notes.add(repair)
    try:
        value = _parsed(held.data, prompt, parse, notes, echoes)
    except Refused as refused:
        return Read(None, refused, json=True)
    return Read(value, notes=tuple(notes), json=True, protocol="json")


def _by_sections(text: str, prompt: Prompt, parse: Parse[V], found: Read[V]) -> Read[V]:
    data = read_sections(text, prompt.schema)
    if data is None:
        if found.json:
            return found
        return Read(None, Refused("not_json", "neither sections nor a JSON object in it"))
    try:
        value = _parsed(data, prompt, parse, Notes(), Echoes(prompt))
    except Refused as refused:
        return Read(None, refused, json=found.json)
    return Read(value, notes=("in sections",), json=found.json, protocol="sections")


def _parsed(data: Any, prompt: Prompt, parse: Parse[V], notes: Notes, echoes: Echoes) -> V:
    value = shaped(data, prompt.schema, notes)
    for text in free_texts(value, prompt.schema):
        wrong = "a text that declines to answer" if is_refusal(text) else echoes.copied(text)
        if wrong:
            raise Refused("schema", f"the reply holds {wrong}")
    try:
        return parse(value)
    except ValidationError as error:
        raise Refused("schema", str(error.errors(include_url=False)[0]["msg"])) from None
    except EpimemError as error:
        raise Refused("schema", error.message) from None
