"""A prompt as the tensors that a local model takes: chat template, pictures, padding."""

from __future__ import annotations

import io
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from controllers.backends.base import MISSING_IMAGE, pieces
from controllers.backends.local_packages import package
from controllers.backends.local_text import in_words
from controllers.prompts.message import Prompt

# The Qwen family takes no image that is longer than this many times its breadth.
MAX_RATIO = 200
Turn = dict[str, Any]


@dataclass(frozen=True)
class Seen:
    """A prompt as the model sees it: its text, with a placeholder for each image, and the images."""

    text: str
    images: tuple[Any, ...]


def read(prompt: Prompt) -> list[Turn]:
    """Return the conversation of a prompt with its pictures read; this needs no model."""
    return [
        {"role": turn.role, "content": [_part(piece) for piece in pieces(turn, prompt.max_pixels)]}
        for turn in prompt.messages
    ]


def _part(piece: str | bytes) -> Turn:
    if isinstance(piece, str):
        return {"type": "text", "text": piece}
    from PIL import Image

    with Image.open(io.BytesIO(piece)) as opened:
        picture = opened.convert("RGB")
    if max(picture.size) > MAX_RATIO * min(picture.size):
        return {"type": "text", "text": MISSING_IMAGE}
    return {"type": "image", "image": picture}


def see(turns: Sequence[Turn], processor: Any, markers: Sequence[str], max_pixels: int) -> Seen:
    """Return what the model sees of a conversation.

    Control tokens that stand in a text are broken up: they are signs there, and nothing else. Where the
    chat template can switch thinking off, it is off. A model without eyes is told of images in words.
    """
    plain = [
        {**turn, "content": [_tame(part, markers) for part in _shown(turn["content"], processor)]}
        for turn in turns
    ]
    quiet = {"enable_thinking": False} if "enable_thinking" in str(processor.chat_template) else {}
    text = processor.apply_chat_template(plain, add_generation_prompt=True, tokenize=False, **quiet)
    images = [
        part["image"] for turn in plain for part in turn["content"] if part["type"] == "image"
    ]
    patch = _patch(processor)
    if patch is None:
        return Seen(text, tuple(images))
    return Seen(text, _whole_patches(images, patch, _least(processor, max_pixels), max_pixels))


def tensors(seen: Sequence[Seen], processor: Any) -> Any:
    """Return the inputs of a batch: rows filled up on the left, images of all rows in order."""
    sized = {"do_resize": False} if _patch(processor) is not None else {}
    return processor(
        text=[each.text for each in seen],
        images=[list(each.images) for each in seen] if any(each.images for each in seen) else None,
        padding=True,
        return_tensors="pt",
        # The chat template has written them.
        add_special_tokens=False,
        **sized,
    )


def _shown(parts: Sequence[Turn], processor: Any) -> Sequence[Turn]:
    return in_words(parts) if processor.image_processor is None else parts


def _tame(part: Turn, markers: Sequence[str]) -> Turn:
    if part["type"] != "text" or not markers:
        return part
    known = "|".join(re.escape(marker) for marker in markers)
    text = re.sub(known, lambda found: f"{found[0][0]} {found[0][1:]}", part["text"])
    return {**part, "text": text}


def _patch(processor: Any) -> int | None:
    """Return the side of a patch where images are cut as the Qwen family does it, else None."""
    cutter = processor.image_processor
    same = getattr(cutter, "merge_size", None) == 2
    return int(cutter.patch_size) if same else None


def _least(processor: Any, max_pixels: int) -> int:
    """Return the pixels that a smaller image is scaled up to, as servers do: the checkpoint says it.

    A quarter of the bound at most (ours): sides are filled up to whole patches after that.
    """
    return min(int(processor.image_processor.size["shortest_edge"]), max_pixels // 4)


def _whole_patches(
    images: Sequence[Any], patch: int, min_pixels: int, max_pixels: int
) -> tuple[Any, ...]:
    """Scale images to whole patches within both bounds, by the family's own rule."""
    if not images:
        return ()
    bounds = {"min_pixels": min_pixels, "max_pixels": max_pixels}
    content = [{"type": "image", "image": image, **bounds} for image in images]
    vision = package("qwen_vl_utils")
    scaled, _ = vision.process_vision_info(
        [{"role": "user", "content": content}], image_patch_size=patch
    )
    return tuple(scaled)
