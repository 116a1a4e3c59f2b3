from __future__ import annotations

from dataclasses import replace

import pytest

from epimem.protocols import Derived
from epimem.schema.lesson import IndexText
from epimem.schema.run import Run
from epimem.schema.working_memory import Update, WorkingMemory
from tests.controllers.prompts import samples
from tests.training.demonstrations import made
from training.demonstrations import leaks
from training.demonstrations.checks import check

CANARY = "canary 7f3a-Zürich"


def in_draft(**changes):
    found = made.demonstration("derive", samples.derive())
    first = found.value.drafts[0].model_copy(update=changes)
    return replace(found, value=Derived((first,)))


def in_update(**changes):
    return made.demonstration("update", samples.update(), Update(guidance="look", **changes))


def in_request(name: str, **changes):
    found = made.demonstration(name, samples.REQUESTS[name]())
    return replace(found, request=replace(found.request, **changes))


def noted():
    evidence = in_draft().value.drafts[0].evidence[0]
    return in_draft(evidence=(evidence.model_copy(update={"note": f"seen: {CANARY}"}),))


def placed(**changes):
    found = made.demonstration("place", samples.place())
    new = found.value.new.model_copy(update=changes)
    return replace(found, value=found.value.model_copy(update={"new": new}))


def consolidated(**changes):
    found = made.demonstration("consolidate", samples.consolidate())
    return replace(found, value=found.value.model_copy(update=changes))


def run_saying(where: str) -> Run:
    plain = samples.run().plain()
    if where == "step":
        plain["trajectory"]["steps"][1]["message"] = f"it is {CANARY}"
    elif where == "call":
        plain["trajectory"]["steps"][0]["tool_calls"][0]["arguments"] = {"deep": [{"x": CANARY}]}
    elif where == "key":
        plain["trajectory"]["steps"][0]["tool_calls"][0]["arguments"] = {CANARY: 1}
    elif where == "extra":
        plain["trajectory"]["steps"][0]["extra"]["sealed"] = CANARY
    elif where == "public":
        plain["task"]["public"] = {"hint": CANARY}
    return Run.read(plain)


def lesson_saying():
    return samples.lesson(1, CANARY)


TARGETS = {
    "guidance": in_draft(guidance=f"The answer is {CANARY}."),
    "conditions": in_draft(applies_when=f"when it is {CANARY}"),
    "cautions": in_draft(cautions=("fine", f"not {CANARY}")),
    "title": in_draft(title=CANARY),
    "topic": in_draft(index=IndexText(topic=CANARY, scope="s", question_anchor="q")),
    "anchor": in_draft(index=IndexText(topic="t", scope="s", question_anchor=f"is it {CANARY}")),
    "note of evidence": noted(),
    "reason for nothing": replace(in_draft(), value=Derived((), f"it was {CANARY}")),
    "notes": in_update(applies_when=CANARY),
    "cautions of notes": in_update(cautions=(CANARY,)),
    "new category": placed(title=CANARY),
    "cautions of a rule": consolidated(cautions=(CANARY,)),
    "another spelling": in_draft(guidance="the CANARY  \n 7f3a-Zu\u0308rich"),
}
REQUESTS = {
    "question": in_request("gate", question=f"Is it {CANARY}?"),
    "batch": in_request("derive", batch=("another", CANARY)),
    "memory": in_request("update", memory=WorkingMemory(cautions=(CANARY,))),
    "answer": in_request("update", answer=CANARY),
    "transcript": in_request("update", trace=f"one: two\nthree: {CANARY}"),
    "lesson": in_request("place", lesson=lesson_saying()),
    "lessons of a category": in_request("merge", absorbed_lessons=(lesson_saying(),)),
    "notes of crops": in_request("gate", notes={"node-0001": ("a", CANARY)}),
    "families": in_request("select", families={"node-0001": CANARY}),
    **{
        f"{where} of the run": in_request("derive", run=run_saying(where))
        for where in ("step", "call", "key", "extra", "public")
    },
}


@pytest.mark.parametrize("where", TARGETS)
def test_a_reference_in_the_target_is_found(where) -> None:
    found = TARGETS[where]
    assert leaks.leaked(found, [CANARY]) == "the target holds reference 1"
    # What agents said is no excuse for a target.
    assert leaks.leaked(found, ["other", CANARY], said=[CANARY]) == "the target holds reference 2"


@pytest.mark.parametrize("where", REQUESTS)
def test_a_reference_in_the_request_is_found(where) -> None:
    assert leaks.leaked(REQUESTS[where], [CANARY]) == "the request holds reference 1"
    assert not leaks.leaked(REQUESTS[where], [CANARY], said=["x", f"it is {CANARY.upper()}!"])


@pytest.mark.parametrize("where", [*TARGETS, *REQUESTS])
def test_what_is_asked_in_the_question_is_no_secret(where) -> None:
    found = {**TARGETS, **REQUESTS}[where]
    assert not leaks.leaked(found, [CANARY], question=f"Is it {CANARY} or London?")
    assert leaks.leaked(found, [CANARY], question="Is it Basel or London?")


@pytest.mark.parametrize("where", ["guidance", "note of evidence", "batch", "step of the run"])
def test_a_leak_sets_the_demonstration_aside_and_does_not_repeat_it(where) -> None:
    found = {**TARGETS, **REQUESTS}[where]
    assert check(found) is None  # nothing but the reference is wrong with it
    problem = check(found, references=[CANARY])
    assert problem is not None
    assert problem.check == "provenance"
    assert "canary" not in problem.reason
    assert check(found, references=[CANARY], question=CANARY) is None
    if where in REQUESTS:
        assert check(found, references=[CANARY], said=[CANARY]) is None


@pytest.mark.parametrize("where", [*TARGETS, *REQUESTS])
def test_sabotage_a_check_that_looks_at_nothing_lets_every_canary_through(
    where, monkeypatch
) -> None:
    """Shows that the canaries above are found by the search, and by nothing else."""
    monkeypatch.setattr(leaks, "texts_of", lambda _: iter(()))
    assert not leaks.leaked({**TARGETS, **REQUESTS}[where], [CANARY])


def test_without_the_reference_nothing_is_found() -> None:
    for found in (*TARGETS.values(), *REQUESTS.values()):
        assert not leaks.leaked(found, ["canary 7f3a-Bern"])
        assert not leaks.leaked(found, [])


def test_a_short_reference_counts_as_a_whole_guidance_only() -> None:
    for reference in ("12", "B", "Yes"):
        assert leaks.leaked(in_draft(guidance=f" {reference}. "), [reference])
        assert not leaks.leaked(in_draft(guidance=f"say {reference} where it fits"), [reference])
        assert not leaks.leaked(in_draft(title=reference), [reference])
        assert not leaks.leaked(in_request("gate", question=reference), [reference])
    assert leaks.leaked(in_draft(guidance="say 1234 where"), ["1234"])
    assert leaks.leaked(consolidated(guidance="12"), ["12"])


def test_an_empty_reference_is_none() -> None:
    for reference in ("", "  ", "\n"):
        assert not leaks.leaked(in_draft(guidance=""), [reference])
        assert check(in_draft(), references=[reference]) is None


def test_ids_and_hashes_are_no_texts() -> None:
    found = in_request("gate", crops={"0190a1b2-1234-7000-8000-000000000000": 1})
    assert not leaks.leaked(found, ["1234"])
    assert not leaks.leaked(in_request("gate", crops={f"sha256:{'1234' * 16}": 1}), ["1234"])
    assert leaks.leaked(in_request("gate", crops={"room 1234": 1}), ["1234"])
