from __future__ import annotations

import json
from typing import Any

import pytest

from controllers.model.memory_controller import ModelMemoryController
from controllers.model.protocols import GIVEN_UP_AFTER
from controllers.model.tree_organizer import ModelTreeOrganizer
from controllers.prompts import OPERATIONS, VERSION
from epimem import deadline
from epimem.protocols import Reply
from tests.controllers.model.backend import Saying
from tests.controllers.prompts import samples

ROLES: dict[type, tuple[str, ...]] = {
    ModelMemoryController: ("derive", "gate", "update"),
    ModelTreeOrganizer: ("place", "merge", "split_lift", "consolidate", "select"),
}
METHODS = [(role, name) for role, names in ROLES.items() for name in names]


def good(prompt: Any, _: int) -> str:
    return json.dumps(samples.REPLIES[prompt.operation])


def test_the_roles_have_all_operations_between_them() -> None:
    assert sorted(name for _, name in METHODS) == sorted(OPERATIONS)


@pytest.mark.parametrize(("role", "name"), METHODS)
def test_each_method_asks_for_its_operation(role: type, name: str) -> None:
    backend = Saying(good)
    request = samples.REQUESTS[name]()
    value = OPERATIONS[name].parse(request, samples.REPLIES[name])
    replies = getattr(role(backend), name)([request, request])
    assert [reply.value for reply in replies] == [value, value]
    assert [prompt.operation for batch in backend.batches for prompt in batch] == [name] * 2
    # What the journeys hold replies against.
    kind = int if name == "gate" else type(value)
    checked = deadline.call(name, lambda: replies, kind=kind, expected=2, deadline_s=5)
    assert [reply.value for reply in checked] == [value, value]


@pytest.mark.parametrize(("role", "name"), METHODS)
def test_rubbish_is_a_reply_without_a_value(role: type, name: str) -> None:
    request = samples.REQUESTS[name]()
    (reply,) = getattr(role(Saying(lambda *_: "rubbish")), name)([request])
    assert reply.value is None
    assert reply.reason == "not_json"
    assert reply.raw == "rubbish"
    (checked,) = deadline.call(name, lambda: [reply], kind=object, expected=1, deadline_s=5)
    assert checked == reply


@pytest.mark.parametrize("role", ROLES)
def test_a_role_is_called_after_its_model(role: type) -> None:
    backend = Saying(good)
    made = role(backend)
    assert (made.name, made.prompt_version, made.concurrency) == ("test/model", VERSION, 4)
    made.close()
    assert backend.closed == 1


@pytest.mark.parametrize(("role", "name"), METHODS)
def test_sections_from_the_start(role: type, name: str) -> None:
    backend = Saying(lambda *_: "rubbish")
    getattr(role(backend, sections=True), name)([samples.REQUESTS[name]()])
    assert [prompt.schema for batch in backend.batches for prompt in batch] == [{}, {}]


def test_what_a_model_has_shown_holds_for_all_operations_of_a_role() -> None:
    backend = Saying(lambda *_: "rubbish")
    organizer = ModelTreeOrganizer(backend)
    organizer.place([samples.place()] * GIVEN_UP_AFTER)
    organizer.merge([samples.merge()])
    assert [bool(batch[0].schema) for batch in backend.batches] == [True, False, False, False]


def test_replies_are_in_order() -> None:
    backend = Saying(lambda _, at: json.dumps({"gate": at % 2}))
    replies = ModelMemoryController(backend).gate([samples.gate()] * 6)
    assert [reply.value for reply in replies] == [0, 1, 0, 1, 0, 1]
    assert all(isinstance(reply, Reply) for reply in replies)
