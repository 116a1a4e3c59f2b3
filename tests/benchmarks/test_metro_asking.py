"""How the metro arms ask, and that what stands for a broken product is broken."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from benchmarks.metro.asking import BUDGET, FrequentOnce, OnceAWording, at_random
from benchmarks.metro.learner import episodes
from benchmarks.metro.measures import WithoutScopes
from benchmarks.metro.operators import draw_conventions
from benchmarks.metro.questions import Oracle
from benchmarks.metro.run_record import run_of
from controllers.embedded.memory_controller import EmbeddedMemoryController
from epimem.evaluation import Asking, Frequent, PublicTask
from epimem.protocols import DeriveRequest
from tests.benchmarks.metro_towns import SPLIT

BANKS = [SimpleNamespace(bank=SimpleNamespace(path=name)) for name in ("one", "other")]


def task(number, question):
    return PublicTask(id=f"e{number}", question=question, image_ids=(f"image {number}",))


@pytest.fixture
def asked(monkeypatch):
    """Return what a bank was really asked."""
    seen = []

    def ask(_asking, memory, one):
        seen.append((memory.bank.path, one.question))
        return f"{memory.bank.path}: {one.question}"

    monkeypatch.setattr(Asking, "ask", ask)
    return seen


def test_each_bank_is_asked_once_for_each_wording(asked):
    asking = OnceAWording(budget=BUDGET)
    tasks = [task(number, f"wording {number % 2}") for number in range(6)]
    answers = [asking.ask(bank, one) for one in tasks for bank in BANKS]
    assert len(asked) == len(set(asked)) == 4
    assert answers == [f"{bank.bank.path}: {one.question}" for one in tasks for bank in BANKS]


def test_retrieval_at_random_asks_something_else(asked):
    tasks = [task(number, f"wording {number}") for number in range(40)]
    asking = at_random(tasks)
    answers = [asking.ask(BANKS[0], one) for one in tasks]
    own = sum(answer == f"one: {one.question}" for answer, one in zip(answers, tasks, strict=True))
    assert own < 5
    assert len(set(answers)) > 10
    assert len(asked) == len(set(asked))


def test_the_prior_is_composed_once_for_each_wording(monkeypatch):
    seen = []
    monkeypatch.setattr(
        Frequent, "handouts", lambda _self, one, _seed: seen.append(one.question) or [one.question]
    )
    prior = FrequentOnce(None, Asking())
    tasks = [task(number, f"wording {number % 2}") for number in range(6)]
    assert [prior.handouts(one, 0) for one in tasks] == [(one.question,) for one in tasks]
    assert len(seen) == 2


def test_without_scopes_a_lesson_names_none_and_keeps_the_rest():
    (episode,) = episodes(
        SPLIT.construction, Oracle(draw_conventions(0)), count=1, rate=0.0, seed=0
    )
    run = run_of(episode, run_id="run", created_at="2026-01-01T00:00:00Z")
    request = DeriveRequest(run, "right", "oracle")
    controller = EmbeddedMemoryController()
    (whole,) = controller.derive([request])
    (robbed,) = WithoutScopes(controller).derive([request])
    (ours,), (theirs,) = whole.value.drafts, robbed.value.drafts
    assert (ours.index.scope, theirs.index.scope) == (f"metro, {run.task.house}", "")
    assert theirs.guidance == ours.guidance
    assert theirs.index.question_anchor == ours.index.question_anchor
