"""Servers that do wrong, one kind at a time, over real sockets: a failure in our words, or none at all.

A call that hung would meet the time limit of the test.
"""

from __future__ import annotations

import logging
import traceback

import openai  # noqa: F401 - loaded before any deadline runs: on a busy machine it takes a second
import pytest

from controllers.backends.base import Completion, Failure
from controllers.backends.fake_faults import FAULTS
from controllers.backends.fake_server import FakeServer, after_probe
from epimem.errors import ControllerError
from tests.controllers.backends.chat_prompts import CANARY, KEY, backend, image, prompt

GOOD = '{"id": "L1"}'
DEADLINE_S = 0.4
LATE = [("silence", 1), ("slow:2", 1), ("slow-head:2", 1), ("late:30", 1)]
BROKEN = [("reset", 2), ("half", 2)]
TOO_LARGE = [("endless", 1), ("endless:500", 1), ("huge", 1), ("gzip-bomb", 1)]
NOT_CHAT = [
    "empty",
    "raw:hello",
    "raw:null",
    "deep",
    "two-answers",
    "event-stream",
    "wrong-charset",
    "no-choices",
    "empty-choices",
    "no-content",
]
LIMITED = ["status:429", "status:529", *(f"retry-after:{it}" for it in ("0", "past", "later"))]
NO_TEXT = [
    ("content:null", Failure.EMPTY),
    ("content:7", Failure.EMPTY),
    ("content:[]", Failure.EMPTY),
    ("tool-calls:1", Failure.TOOL_CALL),
    ("tool-calls:2", Failure.TOOL_CALL),
    ("refusal", Failure.REFUSED),
    ("finish:content_filter", Failure.FILTERED),
    ("other-model", Failure.OTHER_MODEL),
    ("redirect", Failure.REDIRECTED),
    ("redirect-loop", Failure.REDIRECTED),
    ("status:413", Failure.PROMPT_TOO_LONG),
]
HARMLESS = [
    "good",
    "parts",
    "late:0.1",
    "finish:stop",
    "finish:null",
    'usage:{"prompt_tokens": -5, "completion_tokens": -1}',
    "usage:null",
    'usage:"many"',
    'usage:{"prompt_tokens": 1e300}',
]
CASES = [
    *((name, Failure.DEADLINE, times) for name, times in LATE),
    *((name, Failure.CONNECTION, times) for name, times in BROKEN),
    *((name, Failure.TOO_LARGE, times) for name, times in TOO_LARGE),
    *((name, Failure.NOT_CHAT, 1) for name in NOT_CHAT),
    *((name, Failure.RATE_LIMITED, 2) for name in LIMITED),
    ("retry-after:86400", Failure.RATE_LIMITED, 1),
    ("status:500", Failure.SERVER, 2),
    ("status:503", Failure.SERVER, 2),
    ("status:408", Failure.SERVER, 2),
    ("status:400", Failure.REQUEST, 2),
    ("status:422", Failure.REQUEST, 2),
    ("prompt-echo", Failure.REQUEST, 2),
    ("prompt-echo:500", Failure.SERVER, 2),
    ("key-echo:500", Failure.SERVER, 2),
    *((name, failure, 1) for name, failure in NO_TEXT),
]
GONE = ["status:401", "status:402", "status:403", "status:404", "key-echo:401", "prompt-echo:404"]


def ask(server, caplog, **options):
    """Return what one prompt comes to, a completion or a fault; nothing that was said may leak."""
    options = {"deadline_s": DEADLINE_S, "reply_bytes": 1 << 20} | options
    model = backend(server, **options)
    caplog.set_level(logging.INFO)
    said = []
    try:
        (found,) = model.complete([prompt(CANARY, image(b"png " + CANARY.encode()))])
    except ControllerError as error:
        found = error
        said = traceback.format_exception(error)
    finally:
        model.close()
    for text in (repr(found), str(found), caplog.text, *said):
        assert KEY not in text
        assert CANARY not in text
    return found


@pytest.mark.timeout(30)
@pytest.mark.parametrize(("fault", "failure", "times"), CASES)
def test_a_call_that_brings_nothing_says_why(fault, failure, times, caplog):
    deadline_s = DEADLINE_S if failure == Failure.DEADLINE else 20.0
    with FakeServer(plan=after_probe(fault)) as server:
        found = ask(server, caplog, deadline_s=deadline_s)
        assert server.requests == 1 + times
    assert isinstance(found, Completion)
    assert (found.error, found.text) == (failure, "")


@pytest.mark.timeout(30)
@pytest.mark.parametrize("fault", GONE)
def test_what_is_gone_for_good_raises(fault, caplog):
    with FakeServer(plan=after_probe(fault)) as server:
        found = ask(server, caplog)
        assert server.requests == 2
    assert isinstance(found, ControllerError)
    assert found.code == "model_failed"


@pytest.mark.timeout(30)
@pytest.mark.parametrize("fault", HARMLESS)
def test_what_does_no_harm_is_let_pass(fault, caplog):
    with FakeServer(plan=after_probe(fault)) as server:
        found = ask(server, caplog, deadline_s=20.0)
    assert (found.error, found.text) == ("", GOOD)


def test_a_reply_that_its_limit_ended_says_so(caplog):
    with FakeServer(plan=after_probe("finish:length")) as server:
        found = ask(server, caplog, deadline_s=20.0)
    assert (found.text, found.truncated) == (GOOD, True)


def test_ids_that_were_not_shown_are_for_the_reader_to_refuse(caplog):
    with FakeServer(plan=after_probe("wrong-ids")) as server:
        assert ask(server, caplog, deadline_s=20.0).text == '{"id": "Z99"}'


def test_a_key_that_comes_back_in_a_good_reply_is_taken_out(caplog):
    with FakeServer(plan=after_probe("key-echo:200")) as server:
        assert ask(server, caplog, deadline_s=20.0).text == GOOD + " Bearer [key]"


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_no_other_server_is_asked(status, caplog):
    with FakeServer() as other:
        to = f"redirect:{status} {other.url}/chat/completions"
        with FakeServer(plan=after_probe(to)) as server:
            assert ask(server, caplog, deadline_s=20.0).error == Failure.REDIRECTED
        assert other.requests == 0


def test_the_bound_on_a_reply_is_as_set(caplog):
    with FakeServer(lambda _: "x" * 5000) as server:
        assert len(ask(server, caplog, deadline_s=20.0, reply_bytes=6000).text) == 5000
        found = ask(server, caplog, deadline_s=20.0, reply_bytes=5000)
    assert found.error == Failure.TOO_LARGE


def test_every_fault_of_the_server_is_tried_here():
    tried = {name.partition(":")[0] for name, *_ in CASES}
    tried |= {name.partition(":")[0] for name in [*GONE, *HARMLESS]}
    elsewhere = {"wrong-ids", "finish"}
    assert tried | elsewhere == set(FAULTS)
