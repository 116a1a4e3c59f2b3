"""A language model without eyes: its tokenizer behind the face of a processor, and images in words."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from controllers.backends.base import MISSING_IMAGE
from controllers.backends.local_packages import package

Turn = dict[str, Any]


class TextProcessor:
    """What `local_inputs` asks of a processor, for a tokenizer with a chat template.

    `image_processor` is None: that tells that there is nothing to show images with.
    """

    image_processor = None

    def __init__(self, tokenizer: Any) -> None:
        self.tokenizer = tokenizer

    @property
    def chat_template(self) -> str | None:
        """The template of the tokenizer; None where it has none."""
        template: str | None = self.tokenizer.chat_template
        return template

    def apply_chat_template(self, turns: Sequence[Turn], **more: Any) -> str:
        """Return a conversation as text; templates of such models take a turn as one string."""
        plain = [
            {**turn, "content": "".join(part["text"] for part in in_words(turn["content"]))}
            for turn in turns
        ]
        return str(self.tokenizer.apply_chat_template(plain, **more))

    def __call__(self, *, text: Sequence[str], images: None = None, **more: Any) -> Any:
        """Return the tensors of a batch: token ids and which of them count; there are no images."""
        del images
        found = self.tokenizer(list(text), **more)
        # Some tokenizers add token types, which not every model takes.
        names = ("input_ids", "attention_mask")
        return package("transformers").BatchFeature({name: found[name] for name in names})

    def save_pretrained(self, folder: str) -> None:
        """Write the files that a checkpoint of the model needs."""
        self.tokenizer.save_pretrained(folder)


def in_words(parts: Sequence[Turn]) -> list[Turn]:
    """Return the parts of a turn with each image told as one that is gone, as `base.pieces` does."""
    return [
        part if part["type"] == "text" else {"type": "text", "text": MISSING_IMAGE}
        for part in parts
    ]
