"""From a demonstration to a training row: the tokens that serving feeds, then the reply to learn.

The prompt takes the path of `controllers.backends.transformers`: render, read, see, tensors. The reply
is the JSON that the constrained decoder of `controllers.backends.local_grammar` writes for the target:
keys in the order of the schema, no spaces between, no character escaped that JSON lets stand. Labels
cover the reply and the token that ends the turn, nothing else.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from controllers.backends.local_grammar import SEPARATORS
from controllers.backends.local_inputs import read, see, tensors
from controllers.backends.local_packages import package
from controllers.prompts import OPERATIONS
from controllers.prompts.message import Image, Message, Prompt
from epimem.errors import ConfigError, ImageError, RecordError
from training.sft.choices import overlapping, spans

if TYPE_CHECKING:
    from training.demonstrations.record import Demonstration

IGNORED = -100
"""The label of a token that is not learnt: torch's own default."""
_PROBE = "0"


@dataclass(frozen=True)
class Row:
    """One demonstration as tokens.

    `tokens` holds what the model takes per token, each of shape (length,): `input_ids`, `attention_mask`
    and, where the family has it, `mm_token_type_ids`. `vision` holds what it takes per image, as the
    processor gave it: `pixel_values` of shape (patches, values), `image_grid_thw` of shape (images, 3);
    empty without images. `labels` and `chosen` have shape (length,); `chosen` is 1 for the tokens of the
    reply by which it chooses (`choices`), else 0.
    """

    id: str
    operation: str
    tokens: Mapping[str, Any]
    labels: Any
    chosen: Any
    vision: Mapping[str, Any] = field(default_factory=dict)

    @property
    def input_ids(self) -> Any:
        """Token ids of the prompt, the reply and its end."""
        return self.tokens["input_ids"]

    @property
    def length(self) -> int:
        """Number of tokens, those of images included."""
        return int(self.labels.shape[0])

    @property
    def reply_tokens(self) -> int:
        """Number of tokens that are learnt."""
        return int((self.labels != IGNORED).sum())

    @property
    def grids(self) -> tuple[tuple[int, int, int], ...]:
        """Patches of each image: (frames, down, across)."""
        found = self.vision.get("image_grid_thw")
        return () if found is None else tuple(tuple(grid) for grid in found.tolist())


class RowMaker:
    """Makes rows for one model.

    Args:
        processor: of the model, as `controllers.backends.local_base.Base` has it.
        markers: the texts of its control tokens, likewise.

    Raises:
        ConfigError: its chat template ends a reply without any control token, or its tokenizer cannot
            say which characters a token covers, without which choices in a reply are not found.
    """

    def __init__(self, processor: Any, markers: Sequence[str]) -> None:
        if not processor.tokenizer.is_fast:
            raise ConfigError(
                "the tokenizer of the model does not say which characters a token covers",
                got=type(processor.tokenizer).__name__,
                hint="fine-tuning needs the fast tokenizer: a folder of a model that has tokenizer.json",
            )
        self._processor = processor
        self._markers = tuple(markers)
        self.end = _end(processor, self._markers)
        self.pad = int(processor.tokenizer.pad_token_id)

    def row(self, demonstration: Demonstration) -> Row:
        """Return a demonstration as a row.

        Raises:
            ImageError: an image of the prompt is gone or cannot be read.
            RecordError: the value is none that the request allows, or the tokens cannot be made.
        """
        prompt = OPERATIONS[demonstration.operation].render(demonstration.request)
        return self.of(prompt, reply(demonstration), demonstration.id)

    def of(self, prompt: Prompt, text: str, row_id: str) -> Row:
        """Return a prompt and the reply to it as a row; raises as `row` does."""
        torch = package("torch")
        prompt = _with_images(prompt)
        said = self.reply_ids(text)
        marks = self._chosen(text, prompt.schema)
        try:
            turns = read(prompt)
        except (OSError, SyntaxError) as error:  # how Pillow tells that a file is no image
            raise ImageError("an image of the prompt is damaged", field=row_id) from error
        try:
            seen = see(turns, self._processor, self._markers, prompt.max_pixels)
            given = tensors([seen], self._processor)
        except (ValueError, KeyError, TypeError) as error:
            raise RecordError(
                f"the prompt cannot be put to the model ({type(error).__name__})",
                field=row_id,
            ) from error
        asked = int(given["input_ids"].shape[1])
        # What is made per token has the shape of the ids; what follows it in the reply is plain text.
        each = {name: part for name, part in given.items() if part.shape == (1, asked)}
        fill = {"input_ids": said, "attention_mask": [1] * len(said)}
        tokens = {
            name: torch.cat([part[0], part.new_tensor(fill.get(name, [0] * len(said)))])
            for name, part in each.items()
        }
        labels = tokens["input_ids"].clone()
        labels[:asked] = IGNORED
        chosen = torch.tensor([0] * asked + [int(marked) for marked in marks])
        vision = {name: part for name, part in given.items() if name not in each}
        return Row(row_id, prompt.operation, tokens, labels, chosen, vision)

    def reply_ids(self, text: str) -> list[int]:
        """Return the tokens of a reply and of the end of the turn.

        A control token that stands in the text is spelt out, as the decoder has to: it may not choose
        the token itself.
        """
        ids = self._processor.tokenizer.encode(
            text, add_special_tokens=False, split_special_tokens=True
        )
        return [*ids, self.end]

    def _chosen(self, text: str, schema: Mapping[str, Any]) -> list[bool]:
        """Say of each token of a reply, and of its end, whether the reply chooses by it."""
        found = self._processor.tokenizer(
            text, add_special_tokens=False, split_special_tokens=True, return_offsets_mapping=True
        )
        return [*overlapping(found["offset_mapping"], spans(json.loads(text), schema)), False]


def reply(demonstration: Demonstration) -> str:
    """Return the text that a model should have replied.

    Raises:
        RecordError: the value is none that the request allows.
    """
    try:
        target = OPERATIONS[demonstration.operation].target(
            demonstration.request, demonstration.value
        )
    except (KeyError, AttributeError, AssertionError, ValueError, TypeError) as error:
        raise RecordError(
            f"the value is none for this request ({type(error).__name__})", field=demonstration.id
        ) from error
    return json.dumps(target, ensure_ascii=False, separators=SEPARATORS)


def collate(rows: Sequence[Row], pad: int) -> dict[str, Any]:
    """Return a batch: rows filled up on the right, images of all rows in order.

    Args:
        rows: at least one.
        pad: the token that fills up; it is neither attended to nor learnt.
    """
    torch = package("torch")
    fills = {"input_ids": pad}

    def stacked(parts: Sequence[Any], fill: int) -> Any:
        return torch.nn.utils.rnn.pad_sequence(list(parts), batch_first=True, padding_value=fill)

    batch = {
        name: stacked([row.tokens[name] for row in rows], fills.get(name, 0))
        for name in rows[0].tokens
    }
    batch["labels"] = stacked([row.labels for row in rows], IGNORED)
    names = dict.fromkeys(name for row in rows for name in row.vision)
    for name in names:
        batch[name] = torch.cat([row.vision[name] for row in rows if name in row.vision])
    return batch


def chosen(rows: Sequence[Row]) -> Any:
    """Return which tokens of a batch the replies choose by, of the shape of its labels."""
    pad = package("torch").nn.utils.rnn.pad_sequence
    return pad([row.chosen for row in rows], batch_first=True, padding_value=0)


def _with_images(prompt: Prompt) -> Prompt:
    """Return a prompt whose images are read.

    In serving, an image that is gone is told in words. To learn from that would be to learn to answer
    without having looked.

    Raises:
        ImageError: an image is gone or unreadable.
    """
    return replace(prompt, messages=tuple(_message(turn, prompt) for turn in prompt.messages))


def _message(turn: Message, prompt: Prompt) -> Message:
    parts = tuple(
        _image(part, prompt.max_pixels) if isinstance(part, Image) else part for part in turn.parts
    )
    return replace(turn, parts=parts)


def _image(part: Image, max_pixels: int) -> Image:
    png = part.picture.png(max_pixels)
    if png is None:
        raise ImageError(
            "an image of the prompt is gone or cannot be read",
            field=part.label,
            got=part.picture.image_id,
        )
    return replace(part, picture=replace(part.picture, read=lambda _: png))


def _end(processor: Any, markers: Sequence[str]) -> int:
    """Return the token that ends a reply: the first control token behind one in the chat template."""
    turns = [
        {"role": role, "content": [{"type": "text", "text": text}]}
        for role, text in (("user", "?"), ("assistant", _PROBE))
    ]
    text = processor.apply_chat_template(turns, add_generation_prompt=False, tokenize=False)
    rest = text[text.rindex(_PROBE) + len(_PROBE) :]
    found = [marker for marker in markers if marker in rest]
    if not found:
        raise ConfigError("the chat template of the model ends a reply without a control token")
    first = min(found, key=rest.index)
    return int(processor.tokenizer.convert_tokens_to_ids(first))
