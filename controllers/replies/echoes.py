"""Knowing what a model copied out of its prompt from what it says.

Whole objects: an example, a schema, an object in a sentence of ours. Texts: a placeholder (small models
make up their own, "<what to check again>"), an alias where a text is wanted, the marks around items.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from controllers.prompts.message import Prompt
from controllers.replies.objects import Held, search

_CONTEXT = 10
_PLACEHOLDER = re.compile(r"\s*<[^<>]*>\s*\Z")
_ALIAS = re.compile(r"\s*([A-Z])([0-9]{1,4})\s*\Z")
_MARK = re.compile(r"<<[0-9a-f]{12} ")


class Echoes:
    """What there is to copy in one prompt: its schema, examples in its instructions, its sentences."""

    def __init__(self, prompt: Prompt) -> None:
        self._schema = prompt.schema
        self._texts = [_spaced(message.text) for message in prompt.messages]
        instructions = (message.text for message in prompt.messages if message.role == "system")
        held = (item for text in instructions for item in search(text).held)
        self._examples = [item.data for item in held if not item.problem]

    def holds(self, held: Held) -> bool:
        """Tell whether an object was copied.

        It is an example or a schema, or it stands in a sentence of the prompt as it does in the reply.
        """
        data = held.data
        if data == self._schema or data in self._examples:
            return True
        if isinstance(data, dict) and any(_is_schema(part) for part in (data, *_inner(data))):
            return True
        before, middle, after = map(_spaced, held.around)
        sentences = [
            sentence
            for context, sentence in ((before, before + middle), (after, middle + after))
            if len(context.strip()) >= _CONTEXT
        ]
        return any(sentence in text for sentence in sentences for text in self._texts)

    def copied(self, text: str) -> str:
        """Return what a text was copied from, in words; empty where it is the model's own."""
        if _PLACEHOLDER.match(text):
            return "a placeholder in place of a text"
        if _MARK.search(text):
            return "a mark that stands around data"
        alias = _ALIAS.match(text)
        if alias is not None and self._shows(alias[1], alias[2]):
            return "an id in place of a text"
        return ""

    def _shows(self, letter: str, number: str) -> bool:
        """Tell whether the prompt has an item of that name, or an example one."""
        quoted = f'"{letter}{number}"'
        return any(quoted in text for text in self._texts)


def _is_schema(data: Mapping[str, Any]) -> bool:
    """A schema describes fields; no reply of ours has a field of such a name."""
    properties = data.get("properties")
    return isinstance(properties, dict) or "$schema" in data or "additionalProperties" in data


def _inner(data: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    return (item for item in data.values() if isinstance(item, dict))


def _spaced(text: str) -> str:
    """White space runs as one space; those at the ends count, as a context may end in one."""
    left = " " if text[:1].isspace() else ""
    right = " " if text[-1:].isspace() and text.strip() else ""
    return f"{left}{' '.join(text.split())}{right}"
