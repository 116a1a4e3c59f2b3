"""A model in this process, by transformers: greedy, held to the schema where there is one, in batches.

One base serves both roles, each with its own adapter (`local_base`). Prompts are sorted by length and go
through the model in batches; a batch that does not fit into memory, or fails, is halved until what
fails is one prompt. Numbers in bfloat16 depend a little on what else is in a batch, so that a choice
between two near equals may fall otherwise in another batch.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from pathlib import Path

from controllers.backends.base import Completion, Failure
from controllers.backends.local_base import Base, acquire, release
from controllers.backends.local_inputs import Seen, Turn, read, see, tensors
from controllers.backends.local_packages import package
from controllers.prompts.message import Prompt
from epimem.errors import ControllerError

PRESETS = {"qwen3.5-2b": "Qwen/Qwen3.5-2B", "qwen3-vl-2b": "Qwen/Qwen3-VL-2B-Instruct"}
# Rows of a batch, and its tokens with padding and replies: 3.8 GB of keys and values at 2B (ours).
ROWS = 8
TOKENS = 32_768
_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class _Row:
    """A prompt on its way: its place among those asked, and how many tokens it has."""

    place: int
    prompt: Prompt
    seen: Seen
    tokens: int


class TransformersBackend:
    """Completes prompts with a local image-text-to-text model, or with a language model.

    A language model has no eyes: images are told it in words, as those that are gone.

    Args:
        model: a folder, a name of the hub, or one of `PRESETS`. Nothing is fetched where the environment
            says HF_HUB_OFFLINE=1.
        adapter: a LoRA adapter for this model: a folder or a name of the hub; None for the model alone.
        rows: of a batch at most.
        deadline_s: seconds of generation per prompt; a batch of n may take n times that. None: no end.

    Raises:
        ConfigError: no such model or adapter.
        PluginError: a package of the extra `transformers` is missing.
    """

    concurrency = 1

    def __init__(
        self,
        model: str,
        adapter: str | None = None,
        *,
        rows: int = ROWS,
        deadline_s: float | None = None,
    ) -> None:
        path = PRESETS.get(model, model)
        self.name = f"transformers/{_last(path)}" + (f"+{_last(adapter)}" if adapter else "")
        self._rows = rows
        self._deadline_s = deadline_s
        self._base: Base | None = acquire(path)
        try:
            self._adapter = self._base.adapt(adapter) if adapter else None
        except BaseException:
            release(self._base)
            raise

    def complete(self, prompts: Sequence[Prompt]) -> Sequence[Completion]:
        """Return one completion per prompt, in order.

        Raises:
            ControllerError: the backend is closed, or the accelerator is gone.
        """
        base = self._base
        if base is None:
            raise ControllerError("the backend is closed")
        conversations = [read(prompt) for prompt in prompts]
        found: dict[int, Completion] = {}
        rows: list[_Row] = []
        with base.speaking(self._adapter):
            for place, (prompt, turns) in enumerate(zip(prompts, conversations, strict=True)):
                row = _row(base, place, prompt, turns)
                if isinstance(row, Completion):
                    found[place] = row
                else:
                    rows.append(row)
            for batch in _batches(rows, self._rows):
                places = [row.place for row in batch]
                found.update(zip(places, self._try(base, batch), strict=True))
        return [found[place] for place in range(len(prompts))]

    def close(self) -> None:
        """Let go of adapter and base; they leave the memory with their last user."""
        base, self._base = self._base, None
        if base is not None:
            if self._adapter is not None:
                base.forget(self._adapter)
            release(base)

    def _try(self, base: Base, batch: Sequence[_Row]) -> list[Completion]:
        """Return a completion per row: of the batch as a whole, or of its halves where that fails."""
        start = time.monotonic()
        failure = None
        try:
            replies = _generate(base, batch, self._deadline_s)
        except Exception as error:  # noqa: BLE001 - foreign code; a bad prompt must not cost the others
            failure = _failure(error)
            _log.warning("%d prompts failed together: %s", len(batch), type(error).__name__)
        seconds = (time.monotonic() - start) / len(batch)
        # Outside of the handler: what the traceback held of the batch is free by now.
        if failure is not None and len(batch) == 1:
            replies = [Completion(tokens_in=batch[0].tokens, error=failure)]
        elif failure is not None:
            package("torch").cuda.empty_cache()
            middle = len(batch) // 2
            replies = [*self._try(base, batch[:middle]), *self._try(base, batch[middle:])]
        return [replace(reply, seconds=reply.seconds + seconds) for reply in replies]


def _last(path: str) -> str:
    """Return the last part of a path or hub name, the only one that says nothing about this machine."""
    return Path(path).name


def _row(base: Base, place: int, prompt: Prompt, turns: Sequence[Turn]) -> _Row | Completion:
    """Return a prompt ready to run, or why it cannot be run."""
    try:
        seen = see(turns, base.processor, base.markers, prompt.max_pixels)
        tokens = tensors([seen], base.processor)["input_ids"].shape[1]
        if prompt.schema:
            base.grammars.compiled(prompt.schema)
    except Exception as error:  # noqa: BLE001 - as above
        _log.warning("a prompt cannot be put to the model: %s", type(error).__name__)
        return Completion(error=Failure.MODEL)
    if tokens + prompt.max_tokens > base.context:
        return Completion(error=Failure.PROMPT_TOO_LONG)
    return _Row(place, prompt, seen, tokens)


def _batches(rows: Sequence[_Row], most: int) -> Iterator[list[_Row]]:
    """Yield what goes through the model together: of one kind, near in length, within both bounds."""
    for _, alike in groupby(sorted(rows, key=_kind), key=_kind):
        batch: list[_Row] = []
        for row in sorted(alike, key=lambda row: row.tokens):
            longest = row.tokens + row.prompt.max_tokens
            if batch and (len(batch) == most or (len(batch) + 1) * longest > TOKENS):
                yield batch
                batch = []
            batch.append(row)
        yield batch


def _kind(row: _Row) -> tuple[int, bool]:
    """Return what rows of a batch have in common: room for the reply, and whether it is constrained."""
    return row.prompt.max_tokens, bool(row.prompt.schema)


def _generate(base: Base, batch: Sequence[_Row], deadline_s: float | None) -> list[Completion]:
    inputs = tensors([row.seen for row in batch], base.processor)
    inputs = inputs.to(base.device, base.model.dtype)
    limit, constrained = _kind(batch[0])
    schemas = [row.prompt.schema for row in batch] if constrained else []
    until = {} if deadline_s is None else {"max_time": deadline_s * len(batch)}
    with package("torch").inference_mode():
        output = base.model.generate(
            **inputs,
            generation_config=base.generation(max_new_tokens=limit, **until),
            logits_processor=[base.grammars.processor(schemas)] if constrained else [],
        )
    replies = output[:, inputs["input_ids"].shape[1] :].tolist()
    return [_completion(base, row, ids, limit) for row, ids in zip(batch, replies, strict=True)]


def _completion(base: Base, row: _Row, ids: Sequence[int], limit: int) -> Completion:
    """Return what one row says; `ids` may go on behind its end, where others of the batch are longer."""
    end = next((place for place, token in enumerate(ids) if token in base.stops), None)
    if end is None and len(ids) < limit:
        return Completion(tokens_in=row.tokens, tokens_out=len(ids), error=Failure.DEADLINE)
    said = ids if end is None else ids[: end + 1]
    return Completion(
        text=base.processor.tokenizer.decode(said, skip_special_tokens=True),
        tokens_in=row.tokens,
        tokens_out=len(said),
        truncated=end is None,
    )


def _failure(error: Exception) -> Failure:
    """Return how a fault of the model is told.

    Raises:
        ControllerError: the accelerator itself is gone, and with it every later call.
    """
    torch = package("torch")
    if isinstance(error, torch.OutOfMemoryError | MemoryError) or "allocate memory" in str(error):
        return Failure.MEMORY
    if isinstance(error, torch.AcceleratorError):
        raise ControllerError("the accelerator failed") from error
    return Failure.MODEL
