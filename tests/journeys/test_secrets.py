"""A bank that is handed secrets holds none: not in its files, not beside it, not in an answer."""

from __future__ import annotations

from collections import Counter

import pytest

from epimem import feedback, ingest, memory
from epimem.config import Config, EncoderConfig
from epimem.memory import ExperienceMemory
from epimem.protocols import Derived
from epimem.schema.lesson import IndexText, LessonDraft
from epimem.testing import ScriptedMemoryController, ScriptedTreeOrganizer, small_run
from tests.fake_secrets import fakes

PLAIN = Config(encoder=EncoderConfig(model="none"))
QUESTION = "How many stations does a Rubra Metro train call at?"
DOORS = {"contribute": memory, "ingest": ingest, "feedback": feedback}
OWN = "sk" + "-proj-" + "q7W3" * 12


def planted():
    """Return fakes whose secrets stand in a file as they are, whatever JSON escapes."""
    found = [item for _, _, item in fakes(seed=66, each=1)]
    return [item for item in found if not set('\n"\\\u200d') & set("".join(item.secrets))]


def lesson(number, text):
    return LessonDraft(
        guidance=f"Leave out the white triangles. {text}",
        title=f"Stations {number}",
        cautions=(text,),
        index=IndexText(topic="stations", scope="Rubra Metro", question_anchor=QUESTION),
        family="metro",
        question_key=f"q{number}",
        verdict_source="oracle",
    )


def derive(request):
    """Write what the run said, and a secret that no run held."""
    index = IndexText(scope="Rubra Metro", question_anchor=QUESTION)
    guidance = f"{request.run.answer.text} Use {OWN}."
    return Derived((LessonDraft(guidance=guidance, index=index, family="metro"),))


def told(bank, receipts, reader):
    """Ask, and say of the answer what holds a secret; return the answer."""
    answer = bank.retrieve(QUESTION, family="metro", reader=reader)
    hurt = tuple(
        feedback.Hurt(node_id=item.node_id, statement=f"It said {OWN}.") for item in answer.items
    )
    said = feedback.Feedback(
        retrieval_id=answer.retrieval_id, verdict="right", hurt=hurt, comment=f"Mind {OWN}."
    )
    receipts.append(bank.give_feedback(said))
    return answer


def used(folder, items):
    """Live through a day of a bank with secrets in all that it is handed; return what it showed."""
    pair = (ScriptedMemoryController(derive=derive), ScriptedTreeOrganizer())
    with ExperienceMemory.create(folder, PLAIN, controllers=pair) as bank:
        receipts = [bank.contribute(lesson(n, item.text)) for n, item in enumerate(items)]
        for number, item in enumerate(items):
            run = small_run(number, answer=f"It is {number}. {item.text}", family="metro")
            receipts.append(bank.contribute(run))
        report = bank.ingest()
        bank.maintain()
        answers = [told(bank, receipts, "early")]
        bank.freeze()
        answers.append(told(bank, receipts, "late"))
    return receipts, report, answers


def in_files(folder, secrets):
    """Return the secrets of which a byte stands in the bank or beside it."""
    beside = folder.with_name(folder.name + ".side")
    files = [path for root in (folder, beside) for path in root.rglob("*") if path.is_file()]
    assert len(files) > 2
    data = b"\n".join(path.read_bytes() for path in files)
    return {secret for secret in secrets if secret.encode() in data}


def leave_open(monkeypatch, *doors):
    """Take the scrubbing away from some of the places where text comes in."""
    for module in [module for name, module in DOORS.items() if name in doors]:
        if module is not feedback:
            monkeypatch.setattr(module, "scrubbed", lambda record: (record, Counter()))
    if "ingest" in doors:
        monkeypatch.setattr(ingest, "redacted", lambda text: (text, Counter()))
    if "feedback" in doors:
        monkeypatch.setattr(feedback, "scrubbed_text", lambda text: (text, 0))


@pytest.fixture(scope="module")
def items():
    found = planted()
    assert len(found) >= 60
    return found


def test_no_byte_of_a_secret_is_stored_or_shown(items, tmp_path):
    folder = tmp_path / "bank"
    secrets = {OWN, *(secret for item in items for secret in item.secrets)}
    receipts, report, answers = used(folder, items)
    assert all(receipt.redacted >= 1 for receipt in receipts)
    assert report.lessons + report.folded == len(items)
    assert in_files(folder, secrets) == set()
    shown = "\n".join(answer.model_dump_json() for answer in answers)
    assert "white triangles" in shown
    assert not {secret for secret in secrets if secret in shown}


def test_the_search_finds_them_where_nothing_is_scrubbed(items, tmp_path, monkeypatch):
    leave_open(monkeypatch, "contribute", "ingest", "feedback")
    folder = tmp_path / "bank"
    secrets = {OWN, *(secret for item in items for secret in item.secrets)}
    used(folder, items)
    assert in_files(folder, secrets) == secrets


@pytest.mark.parametrize("door", DOORS)
def test_a_single_door_that_is_left_open_is_noticed(door, items, tmp_path, monkeypatch):
    leave_open(monkeypatch, door)
    folder = tmp_path / "bank"
    used(folder, items[:3])
    assert in_files(folder, {OWN, *(secret for item in items[:3] for secret in item.secrets)})


def test_the_same_run_is_a_duplicate_whatever_secret_it_held(tmp_path):
    with ExperienceMemory.create(tmp_path / "bank", PLAIN) as bank:
        first = bank.contribute(small_run(1, answer=f"use {OWN}"))
        other = small_run(1, answer="use " + OWN.replace("W", "V")).model_copy(
            update={"run_id": "another"}
        )
        second = bank.contribute(other)
    assert (first.status, first.redacted) == ("queued", 2)
    assert (second.status, second.redacted, second.id) == ("duplicate", 2, first.id)


def test_what_a_failing_controller_says_is_scrubbed(tmp_path):
    def fail(_):
        raise RuntimeError(f"401: {OWN} is not valid")

    folder = tmp_path / "bank"
    pair = (ScriptedMemoryController(derive=fail), ScriptedTreeOrganizer())
    with ExperienceMemory.create(folder, PLAIN, controllers=pair) as bank:
        bank.contribute(small_run(1))
        report = bank.ingest()
    assert report.failures
    assert OWN not in str(report.failures)
    assert in_files(folder, {OWN}) == set()


def test_a_question_with_a_secret_is_the_question_of_its_run(tmp_path):
    asked = f"How many stations does jane.doe@{'example'}.org pass? Use {OWN}."
    run = small_run(1)
    run = run.model_copy(update={"task": run.task.model_copy(update={"question": asked})})
    with ExperienceMemory.create(tmp_path / "bank", PLAIN) as bank:
        bank.contribute(run)
        answer = bank.retrieve(asked)
        (queued,) = bank.bank.queued_runs(limit=2)
        assert OWN not in queued.run.task.question
        logged = bank.explain(answer.retrieval_id)
    assert logged["question_key"] == queued.run.task.question_key
    assert OWN not in str(logged)
