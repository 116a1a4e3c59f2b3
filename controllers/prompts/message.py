"""What a prompt is made of, and how a reply is refused."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from epimem.protocols import Picture
from epimem.schema.proposal import Reason

MAX_PIXELS = 262_144  # of each image that goes to the model (ours): 512 x 512

Role = Literal["system", "user", "assistant"]


@dataclass(frozen=True)
class Text:
    """A piece of text."""

    text: str


@dataclass(frozen=True)
class Image:
    """A picture at its place among the texts; `label` is its alias, e.g. "P1".

    The line of text that announces it stands before it already.
    """

    picture: Picture
    label: str


@dataclass(frozen=True)
class Message:
    """One message: texts and images in order."""

    role: Role
    parts: tuple[Text | Image, ...]

    @property
    def text(self) -> str:
        """The texts alone, joined by line breaks."""
        return "\n".join(part.text for part in self.parts if isinstance(part, Text))


@dataclass(frozen=True)
class Prompt:
    """One call: the messages, the JSON schema of the reply, and its limits.

    `operation` is one of the names in `controllers.prompts.OPERATIONS`. In `schema`, ids are enums of
    the aliases shown. `max_tokens` is the room for the reply; `max_pixels` bounds each image, which
    goes to the model as `picture.png(max_pixels)`.
    """

    operation: str
    messages: tuple[Message, ...]
    schema: Mapping[str, Any]
    max_tokens: int
    max_pixels: int = MAX_PIXELS

    @property
    def images(self) -> tuple[Image, ...]:
        """All images, in order."""
        return tuple(
            part for message in self.messages for part in message.parts if isinstance(part, Image)
        )


class Refused(Exception):  # noqa: N818 (a reply is refused; the program has no fault)
    """A reply that holds no lawful value: why, from the closed list, and a detail for the model.

    `detail` may be quoted to the model when it is asked again.
    """

    def __init__(self, reason: Reason, detail: str) -> None:
        super().__init__(f"{reason}: {detail}")
        self.reason = reason
        self.detail = detail
