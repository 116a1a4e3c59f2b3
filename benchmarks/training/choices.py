"""What a model would choose, by the likelihood of each choice; and whether what it writes is lawful.

A request of place, merge or select leaves a few choices: a shown category or a new one, merge or not, a
shown lesson or none. A choice is scored by the likelihood of the reply that makes it, up to where it
is made: `{"category": null,` stands for every new category, whatever it would be called, since no other
choice begins so. Which choice has the greatest likelihood is what decoding held to the schema would
give, up to the order of its steps.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from inspect import signature
from typing import Any

from benchmarks.training.requests import new_place
from controllers.backends.base import Backend
from controllers.backends.local_base import Base
from controllers.backends.local_grammar import SEPARATORS
from controllers.backends.local_inputs import read, see, tensors
from controllers.backends.local_packages import package
from controllers.prompts import OPERATIONS
from controllers.prompts.message import Refused
from controllers.prompts.select import selection
from epimem.protocols import MergeRequest, PlaceRequest, SelectRequest
from epimem.schema.memory_input import Selection
from epimem.schema.proposal import Merge, Place
from training.demonstrations.record import Demonstration
from training.sft.rows import RowMaker

OLD_CACHE = "past_key_values"
NOTHING = "nothing"
"""The choice of a new category, of no merge, of no lesson."""
# The field behind the choice; a reply of select is a choice as a whole.
_NEXT_FIELD = {"place": "new", "merge": "title"}


@dataclass(frozen=True)
class Choice:
    """A choice, the whole reply that makes it, and up to which character it is made."""

    name: str
    reply: str
    made_at: int


def choices(demonstration: Demonstration) -> tuple[Choice, ...]:
    """Return what a request leaves to choose, candidates first in the order shown, nothing last."""
    request = demonstration.request
    values = _VALUES[demonstration.operation](request)
    return tuple(
        _choice(
            demonstration.operation,
            name,
            OPERATIONS[demonstration.operation].target(request, value),
        )
        for name, value in values.items()
    )


def chosen(operation: str, value: Any) -> str:
    """Return the name of the choice that a value makes."""
    if operation == "place":
        return value.category_id or NOTHING
    if operation == "merge":
        return NOTHING if value is None else value.absorbed_id
    return value.lesson_id or NOTHING


def value_of(demonstration: Demonstration, name: str) -> Any:
    """Return the value that a choice stands for."""
    return _VALUES[demonstration.operation](demonstration.request)[name]


def _choice(operation: str, name: str, target: Mapping[str, Any]) -> Choice:
    reply = json.dumps(target, ensure_ascii=False, separators=SEPARATORS)
    field = _NEXT_FIELD.get(operation)
    return Choice(name, reply, reply.index(f',"{field}":') + 1 if field else len(reply))


def _of_place(request: PlaceRequest) -> dict[str, Place]:
    lesson_id = request.lesson.node_id
    keys = [view.node.node_id for view in request.candidates]
    return {
        **{key: Place(lesson_id=lesson_id, category_id=key) for key in keys},
        NOTHING: new_place(request),
    }


def _of_merge(request: MergeRequest) -> dict[str, Merge | None]:
    kept, absorbed = request.kept.node_id, request.absorbed.node_id
    return {absorbed: Merge(kept_id=kept, absorbed_id=absorbed), NOTHING: None}


def _of_select(request: SelectRequest) -> dict[str, Selection]:
    keys = [candidate.node_id for candidate in request.candidates]
    named = {**{key: key for key in keys}, NOTHING: None}
    return {name: selection(request, (), key) for name, key in named.items()}


_VALUES: Mapping[str, Any] = {"place": _of_place, "merge": _of_merge, "select": _of_select}


class Scorer:
    """Scores choices with a model in memory, alone or under an adapter.

    Args:
        base: the model.
        adapter: its name from `Base.adapt`, None for the model alone.
    """

    def __init__(self, base: Base, adapter: str | None = None) -> None:
        self._base = base
        self._adapter = adapter
        self._rows = RowMaker(base.processor, base.markers)

    def scores(self, demonstration: Demonstration) -> dict[str, float]:
        """Return the log-likelihood of each choice by name, in nats."""
        torch = package("torch")
        found = choices(demonstration)
        said = [self._tokens_of(choice) for choice in found]
        prompt = OPERATIONS[demonstration.operation].render(demonstration.request)
        base = self._base
        shown = see(read(prompt), base.processor, base.markers, prompt.max_pixels)
        asked = tensors([shown], base.processor)["input_ids"].to(base.device)
        with base.speaking(self._adapter) as model, torch.inference_mode():
            start = model(input_ids=asked, use_cache=True, logits_to_keep=1)
            # Newer transformers call it by the shorter name.
            name = "cache" if "cache" in signature(type(model).forward).parameters else OLD_CACHE
            past = start.get("cache") if "cache" in start else start[OLD_CACHE]
            past.batch_repeat_interleave(len(said))
            fill = [[*ids, *[0] * (max(map(len, said)) - len(ids))] for ids in said]
            ids = torch.tensor(fill, device=base.device)
            rest = model(input_ids=ids, use_cache=True, **{name: past})
            first = start.logits[:, -1:].expand(len(said), -1, -1)
            scores = torch.cat([first, rest.logits[:, :-1]], dim=1).float().log_softmax(-1)
        each = scores.gather(-1, ids[..., None])[..., 0]
        sums = [float(row[: len(ids)].sum()) for row, ids in zip(each, said, strict=True)]
        return {choice.name: total for choice, total in zip(found, sums, strict=True)}

    def _tokens_of(self, choice: Choice) -> list[int]:
        """Return the tokens of a reply up to the one with which its choice is made."""
        whole = self._rows.reply_ids(choice.reply)
        decode = self._base.processor.tokenizer.decode
        count = next(
            count for count in range(1, len(whole)) if len(decode(whole[:count])) >= choice.made_at
        )
        return whole[:count]


def best(scores: Mapping[str, float]) -> str:
    """Return the likeliest choice; the earlier one of two equals."""
    return max(scores, key=lambda name: scores[name])


def lawful(demonstration: Demonstration, text: str) -> bool:
    """Tell whether a text is, as a whole, a reply of the schema that holds a lawful value.

    Nothing is repaired and no field may be missing: this is what a harness without a constrained
    decoder and a lenient reader would have to work with.
    """
    operation = OPERATIONS[demonstration.operation]
    try:
        data = json.loads(text)
        operation.parse(demonstration.request, data)
    except (ValueError, Refused):
        return False
    return set(data) == set(operation.render(demonstration.request).schema["properties"])


def written(backend: Backend, demonstrations: Sequence[Demonstration]) -> list[str]:
    """Return what a model writes to each request when no schema holds it."""
    prompts = [OPERATIONS[each.operation].render(each.request) for each in demonstrations]
    return [reply.text for reply in backend.complete([replace(it, schema={}) for it in prompts])]
