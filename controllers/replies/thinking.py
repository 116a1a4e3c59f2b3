"""Taking a model's thinking out of its reply, so that a draft in it is not read as the answer."""

from __future__ import annotations

import re
from dataclasses import dataclass

_NAMES = "think|thinking|thought|thoughts|reasoning|reflection|analysis|scratchpad"
_TAG = re.compile(
    rf"<\s*(?P<shut>/?)\s*(?:{_NAMES})\s*>|\[(?P<shut2>/?)THINK\]|\u25c1(?P<shut3>/?)think\u25b7",
    re.IGNORECASE,
)


@dataclass(frozen=True)
class Spoken:
    """A reply without its thinking: what was said, and the thinking that was never closed."""

    said: str
    unclosed: str = ""


def without_thinking(text: str) -> Spoken:
    """Leave out what stands in think blocks.

    A closing tag without an opening one ends a block that began with the reply. What follows an
    opening tag that is never closed is handed over apart: some models end their thinking without
    saying so and answer in it.
    """
    said: list[str] = []
    at, opened = 0, False
    for tag in _TAG.finditer(text):
        shut = bool(tag["shut"] or tag["shut2"] or tag["shut3"])
        if shut and not opened:
            said.clear()
        elif not opened:
            said.append(text[at : tag.start()])
        opened = not shut
        at = tag.end()
    rest = text[at:]
    return Spoken("".join(said), rest) if opened else Spoken("".join((*said, rest)))
