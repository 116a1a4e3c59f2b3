from __future__ import annotations

import json
from typing import Any

import pytest

from controllers.backends.base import Completion, Failure
from controllers.model.asking import ask
from controllers.model.protocols import GIVEN_UP_AFTER, Protocols
from controllers.prompts import OPERATIONS
from epimem.errors import ControllerError
from epimem.protocols import Reply
from epimem.schema.receipt import Usage
from tests.controllers.model.backend import Saying, completion, in_turn
from tests.controllers.prompts import samples

GOOD = json.dumps(samples.REPLIES["gate"])
ONE, TWO = (
    Usage(
        calls=count,
        tokens_in=100 * count,
        tokens_out=10 * count,
        cached=40 * count,
        seconds=0.5 * count,
    )
    for count in (1, 2)
)


def gates(
    backend: Saying, count: int = 1, *, protocols: Protocols | None = None
) -> list[Reply[Any]]:
    requests = [samples.gate() for _ in range(count)]
    return ask(backend, protocols or Protocols(), "gate", requests)


def asks_again(backend: Saying) -> list[int]:
    return [len(batch) for batch in backend.batches]


@pytest.mark.parametrize("name", OPERATIONS)
def test_a_batch_of_good_replies_is_one_call(name: str) -> None:
    request = samples.REQUESTS[name]()
    backend = Saying(lambda *_: json.dumps(samples.REPLIES[name]))
    replies = ask(backend, Protocols(), name, [request, request])
    value = OPERATIONS[name].parse(request, samples.REPLIES[name])
    assert replies == [Reply(value, usage=ONE)] * 2
    assert backend.batches == [[OPERATIONS[name].render(request)] * 2]


def test_item_7_of_20_that_fails_leaves_19_done() -> None:
    backend = Saying(lambda _, at: "no idea" if at in {7, 20} else GOOD)
    replies = gates(backend, 20)
    assert [at for at, reply in enumerate(replies) if reply.value is None] == [7]
    bad = replies[7]
    assert (bad.reason, bad.raw, bad.usage) == ("not_json", "no idea", TWO)
    assert bad.detail
    assert asks_again(backend) == [20, 1]
    assert all(reply.usage == ONE for reply in replies if reply.value is not None)


def test_all_that_failed_are_asked_again_together() -> None:
    backend = Saying(lambda prompt, _: GOOD if len(prompt.messages) > 2 else '{"gate": 7}')
    replies = gates(backend, 3)
    assert asks_again(backend) == [3, 3]
    assert replies == [Reply(1, usage=TWO)] * 3


def test_the_error_and_the_reply_are_quoted() -> None:
    backend = Saying(in_turn('{"gate": 7}', GOOD))
    gates(backend)
    said, wrong = backend.batches[1][0].messages[2:]
    assert said.text == '{"gate": 7}'
    assert "gate must be one of 0, 1" in wrong.text


def test_only_one_reask() -> None:
    backend = Saying(in_turn('{"gate": 7}', '{"gate": 8}', GOOD))
    (reply,) = gates(backend)
    assert (reply.value, reply.reason, reply.raw) == (None, "schema", '{"gate": 8}')
    assert asks_again(backend) == [1, 1]


@pytest.mark.parametrize(
    ("text", "sections"),
    [("no object at all", True), ('{"gate": 7}', False), ('{"gate": cut', False)],
)
def test_a_reply_without_any_object_is_asked_for_sections(text: str, *, sections: bool) -> None:
    backend = Saying(in_turn(text, "## GATE\n1"))
    (reply,) = gates(backend)
    (asked,) = backend.batches[1]
    assert (asked.schema == {}) is sections
    assert (reply.value == 1) is sections


def test_a_lawful_none_is_not_asked_again() -> None:
    backend = Saying(in_turn('{"merge": false}'))
    (reply,) = ask(backend, Protocols(), "merge", [samples.merge()])
    assert reply == Reply(None, usage=ONE)


def test_what_was_read_with_lenience_is_in_the_detail() -> None:
    (reply,) = gates(Saying(in_turn("{'Gate': 1, 'why': 'x'}")))
    assert reply.value == 1
    assert set(reply.detail.split("; ")) == {"single quotes", "read Gate as gate", "left out why"}


def test_an_answer_within_a_reply_that_was_cut_counts() -> None:
    (reply,) = gates(Saying(in_turn(completion(f"{GOOD} and so on", truncated=True))))
    assert reply.value == 1


def test_thinking_that_was_cut_off_is_no_answer() -> None:
    text = f"<think>Perhaps {GOOD}, or"
    for end, value in ((True, None), (False, 1)):
        (reply,) = gates(Saying(in_turn(*[completion(text, truncated=end)] * 2)))
        assert reply.value == value


# -- failures of the backend -----------------------------------------------------------------------


def test_a_prompt_without_usable_text_fails_alone_and_is_not_asked_again() -> None:
    failed = Completion(seconds=2.0, error=Failure.DEADLINE)
    backend = Saying(in_turn(GOOD, failed, GOOD))
    replies = gates(backend, 3)
    assert [reply.value for reply in replies] == [1, None, 1]
    bad = replies[1]
    assert (bad.reason, bad.raw) == ("not_json", "")
    assert bad.detail == f"the model failed: {Failure.DEADLINE}"
    assert bad.usage == Usage(calls=1, seconds=2.0)
    assert asks_again(backend) == [3]


def test_a_failure_of_the_reask_keeps_the_first_reason_and_reply() -> None:
    failed = Completion(seconds=2.0, error=Failure.SERVER)
    (reply,) = gates(Saying(in_turn('{"gate": 7}', failed)))
    assert (reply.value, reply.reason, reply.raw) == (None, "schema", '{"gate": 7}')
    assert "gate must be one of 0, 1" in reply.detail
    assert Failure.SERVER in reply.detail
    assert reply.usage.calls == 2


def _gone(*_: object) -> str:
    raise ControllerError("the server is gone")


def test_a_backend_that_can_do_nothing_raises() -> None:
    with pytest.raises(ControllerError):
        gates(Saying(_gone), 2)


def test_a_backend_that_goes_between_the_rounds_takes_nothing_back() -> None:
    def say(_: object, at: int) -> str:
        return [GOOD, '{"gate": 7}'][at] if at < 2 else _gone()

    good, bad = gates(Saying(say), 2)
    assert good == Reply(1, usage=ONE)
    assert (bad.value, bad.reason, bad.raw) == (None, "schema", '{"gate": 7}')


def test_a_backend_that_goes_before_anything_was_read_raises() -> None:
    def say(_: object, at: int) -> str:
        return '{"gate": 7}' if at < 2 else _gone()

    with pytest.raises(ControllerError):
        gates(Saying(say), 2)


def test_a_backend_that_miscounts_raises() -> None:
    class Short(Saying):
        def complete(self, prompts: Any) -> Any:
            return super().complete(prompts)[1:]

    with pytest.raises(ControllerError) as caught:
        gates(Short(lambda *_: GOOD), 3)
    assert caught.value.code == "model_failed"


# -- requests that need no model -------------------------------------------------------------------


def test_what_is_settled_is_not_asked() -> None:
    open_, closed = samples.select(), samples.select()
    for candidate in closed.candidates:
        assert candidate.passes
    nothing = type(closed)(
        closed.question, closed.family, (), {}, closed.max_rules, closed.max_lessons
    )
    backend = Saying(lambda *_: json.dumps(samples.REPLIES["select"]))
    first, second, third = ask(backend, Protocols(), "select", [nothing, open_, nothing])
    assert first.value.item_ids == third.value.item_ids == ()
    assert second.value.item_ids
    assert asks_again(backend) == [1]
    assert (first.usage, second.usage, third.usage) == (Usage(), ONE, Usage())


def test_an_empty_batch_calls_nothing() -> None:
    backend = Saying(_gone)
    assert gates(backend, 0) == []
    assert backend.batches == []


# -- the second protocol ---------------------------------------------------------------------------


def test_a_model_that_cannot_do_json_is_asked_in_sections_from_the_next_batch_on() -> None:
    protocols = Protocols()
    backend = Saying(lambda prompt, _: "## GATE\n1" if not prompt.schema else "well")
    for count in (GIVEN_UP_AFTER - 1, 1, 2):
        assert all(reply.value == 1 for reply in gates(backend, count, protocols=protocols))
    first, _, second, _, third = backend.batches
    assert all(prompt.schema for prompt in (*first, *second))
    assert not any(prompt.schema for prompt in third)
    assert all(len(prompt.messages) == 2 for prompt in third)


def test_a_batch_is_asked_in_one_protocol_whatever_its_size() -> None:
    backend = Saying(lambda prompt, _: "## GATE\n1" if not prompt.schema else "well")
    gates(backend, 3 * GIVEN_UP_AFTER)
    assert all(prompt.schema for prompt in backend.batches[0])


def test_one_object_in_time_keeps_json() -> None:
    protocols = Protocols()
    said = ["well"] * (GIVEN_UP_AFTER - 1) + ['{"gate": 7}'] + ["well"] * (GIVEN_UP_AFTER - 1)
    backend = Saying(lambda prompt, at: said[at] if len(prompt.messages) == 2 else "well")
    gates(backend, len(said), protocols=protocols)
    assert not protocols.sections
    protocols.note([False])
    assert protocols.sections
    protocols.note([True] * 100)
    assert protocols.sections


def test_in_sections_the_reask_is_in_sections_too() -> None:
    backend = Saying(in_turn("{well: 1}", "## GATE\n0"))
    (reply,) = gates(backend, protocols=Protocols(sections=True))
    assert reply == Reply(0, detail="in sections", usage=TWO)
    assert [batch[0].schema for batch in backend.batches] == [{}, {}]


def test_failures_of_the_backend_do_not_count_against_json() -> None:
    protocols = Protocols()
    gates(
        Saying(lambda *_: Completion(error=Failure.SERVER)), 2 * GIVEN_UP_AFTER, protocols=protocols
    )
    assert not protocols.sections
