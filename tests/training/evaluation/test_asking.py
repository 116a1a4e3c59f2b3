"""Asking a controller whatever it does, keeping what it said, and going on later."""

from __future__ import annotations

import json

import pytest

from epimem.errors import BankBusyError, ConfigError, ControllerError, RecordError
from epimem.protocols import Reply
from epimem.schema.receipt import Usage
from tests.controllers.prompts import samples
from training.demonstrations.record import Demonstration, Provenance
from training.evaluation import asking
from training.evaluation.answers import Answer, Answers
from training.evaluation.asking import ask
from training.evaluation.measures import NO_VALUE
from training.evaluation.subjects import Controller

ORIGIN = Provenance(teacher="test", source="test")


def demonstrations(count, operation="gate", start=0):
    values = {"gate": 1, "merge": None}
    return [
        Demonstration(
            f"{operation}-{at}",
            operation,
            f"g{at}",
            samples.REQUESTS[operation](f"question {at}."),
            values[operation],
            ORIGIN,
        )
        for at in range(start, start + count)
    ]


class Subject:
    """Answers by a function of (operation, demonstration); counts what it was asked."""

    name = fingerprint = "subject"
    spec = None

    def __init__(self, reply):
        self._reply = reply
        self.asked = []
        self.closed = 0

    def answer(self, operation, asked):
        self.asked.append([it.id for it in asked])
        return [self._reply(operation, it) for it in asked]

    def close(self):
        self.closed += 1


@pytest.fixture
def file(tmp_path):
    return tmp_path / "answers.jsonl"


def asked(subject, found, file, **more):
    with Answers(file) as answers:
        ask(subject, found, answers, **more)
        return {it.id: answers[subject.fingerprint, it.id] for it in found}


def good(operation, demonstration):
    del operation
    return Reply(demonstration.value, usage=Usage(calls=1, tokens_in=7, tokens_out=2, seconds=0.5))


def test_every_operation_is_asked_by_itself_and_the_subject_is_closed(file):
    subject = Subject(good)
    found = asked(subject, [*demonstrations(2, "merge"), *demonstrations(3)], file)
    assert subject.asked == [["gate-0", "gate-1", "gate-2"], ["merge-0", "merge-1"]]
    assert subject.closed == 1
    answer = found["gate-0"]
    assert (answer.value, answer.calls, answer.tokens_in, answer.tokens_out) == (1, 1, 7, 2)
    assert answer.seconds == 0.5
    assert found["merge-0"].valid
    assert found["merge-0"].typed() is None


def test_an_interrupted_evaluation_goes_on_where_it_stopped(file, monkeypatch):
    monkeypatch.setattr(asking, "BATCH", 2)
    found = demonstrations(6)

    def stop(name, done, total):
        assert (name, total) == ("subject", 6)
        if done == 4:
            raise KeyboardInterrupt

    subject = Subject(good)
    with pytest.raises(KeyboardInterrupt):
        asked(subject, found, file, progress=stop)
    assert subject.closed == 1
    again, told = Subject(good), []
    assert len(asked(again, found, file, progress=lambda *it: told.append(it))) == 6
    assert again.asked == [["gate-4", "gate-5"]]
    assert told == [("subject", 6, 6)]


def test_a_line_that_a_crash_cut_off_is_asked_again(file):
    asked(Subject(good), demonstrations(3), file)
    file.write_bytes(file.read_bytes()[:-5])
    again = Subject(good)
    asked(again, demonstrations(3), file)
    assert again.asked == [["gate-2"]]
    once_more = Subject(good)
    asked(once_more, demonstrations(3), file)
    assert once_more.asked == []


def test_answers_of_another_controller_are_not_taken(file):
    asked(Subject(good), demonstrations(2), file)
    other = Subject(good)
    other.fingerprint = "other"
    asked(other, demonstrations(2), file)
    assert other.asked == [["gate-0", "gate-1"]]


def test_one_that_fails_costs_no_other_and_is_asked_again(file):
    def raising(operation, demonstration):
        if demonstration.id == "gate-1":
            raise ValueError("a fault of somebody's code")
        return good(operation, demonstration)

    found = asked(Subject(raising), demonstrations(3), file)
    assert [found[f"gate-{at}"].failure for at in range(3)] == ["", "ValueError", ""]
    assert found["gate-1"].typed() is NO_VALUE
    assert not found["gate-1"].valid
    again = Subject(good)
    assert asked(again, demonstrations(3), file)["gate-1"].valid
    assert again.asked == [["gate-1"]]


def test_a_controller_that_is_gone_is_not_asked_for_ever(file, monkeypatch):
    monkeypatch.setattr(asking, "BATCH", 2)

    def gone(*_):
        raise ControllerError("the server is gone")

    subject = Subject(gone)
    found = asked(subject, demonstrations(10), file)
    assert len(subject.asked) == asking.LOST * 3
    assert found["gate-0"].failure == "the server is gone"
    assert found["gate-9"].failure == "not asked: the controller is gone"
    assert file.read_bytes() == b""


def test_a_controller_that_cannot_be_loaded_ends_the_evaluation(file):
    def wrong(*_):
        raise ConfigError("no such model")

    with pytest.raises(ConfigError, match="no such model"):
        asked(Subject(wrong), demonstrations(2), file)


def test_a_controller_that_miscounts_has_failed(file):
    class Short(Subject):
        def answer(self, operation, asked):
            return super().answer(operation, asked)[:-1]

    found = asked(Short(good), demonstrations(2), file)
    assert all("not one reply" in answer.failure for answer in found.values())


def test_first_replies_and_replies_after_the_second_asking_are_told_apart(tmp_path, file):
    lines = [
        {"operation": "gate", "when": "question 0.", "reply": {"gate": 1}, "tokens_in": 5},
        {"operation": "gate", "when": "question 1.", "reply": {"gate": 7}},
        {"operation": "gate", "when": "question 1.", "reply": {"gate": 0}},
        {"operation": "gate", "when": "question 2.", "reply": {"gate": 7}, "times": 2},
    ]
    script = tmp_path / "script.jsonl"
    script.write_text("".join(json.dumps(line) + "\n" for line in lines))
    subject = Controller(f"scripted:{script}", deadline_s=5.0)
    found = list(asked(subject, demonstrations(4), file).values())
    assert [it.valid_first for it in found] == [True, False, False, False]
    assert [it.valid for it in found] == [True, True, False, False]
    assert [it.calls for it in found[:3]] == [1, 2, 2]
    assert found[1].typed() == 0
    assert found[2].reason == "schema"
    # There was no reply at all to the last one: that says nothing of what the model can do.
    assert "no reply is recorded" in found[3].failure


def test_two_evaluations_cannot_write_one_file(file):
    with Answers(file), pytest.raises(BankBusyError):
        Answers(file)


@pytest.mark.parametrize(
    "line",
    [
        b"{}\n",
        b'{"controller":"c","id":"i","operation":"gate","value":2}\n',
        b'{"controller":"c","id":"i","operation":"gate","value":"1"}\n',
        b"not json\n",
    ],
)
def test_a_file_of_other_things_is_refused(file, line):
    file.write_bytes(line)
    with pytest.raises(RecordError, match="not an answer"):
        Answers(file)


def test_an_answer_is_read_back_as_it_was():
    answer = Answer(controller="c", id="i", operation="gate", value=0, calls=1, seconds=0.25)
    assert Answer.read(answer.canonical()) == answer
    assert answer.typed() == 0
