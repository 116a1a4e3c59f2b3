"""Feedback as counts: bounds, distinct questions, base rates, and levels that only go down by it."""

from __future__ import annotations

import random
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from epimem.bank import usage
from epimem.bank.bank import Bank
from epimem.bank.intake import Caller
from epimem.config import Config
from epimem.errors import NotFoundError, RecordError
from epimem.feedback import Feedback, Hurt
from epimem.memory import ExperienceMemory
from epimem.operations.rules import Standing
from epimem.schema.lesson import IndexText, LessonDraft
from epimem.schema.tree import Node
from epimem.testing import ScriptedMemoryController, ScriptedTreeOrganizer
from tests.journeys.crash import (
    ENCODER,
    SETTINGS,
    add_lessons,
    new_bank,
    problems,
    run_maintain,
    vectorize,
)

ALICE, BOB = Caller("alice", "red"), Caller("bob", "blue")
HOUSE = IndexText(topic="counting", scope="mill", question_anchor="how many in the mill?")
QUESTION = "how many in the mill?"


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("template") / "bank"
    with new_bank(folder):
        pass
    return folder


@pytest.fixture
def bank(template: Path, tmp_path: Path) -> Iterator[Bank]:
    shutil.copytree(template, tmp_path / "bank")
    with Bank.open(tmp_path / "bank") as opened:
        yield opened


def signal(bank: Bank, node_id: str, question: str, kind: Any, caller: Caller = ALICE) -> bool:
    return bank.add_signal(node_id, question, kind, caller=caller, source="peer", detail="not so")


def verdict(bank: Bank, question: str, *, right: bool, items: list[str], **changes: Any) -> bool:
    fields: dict[str, Any] = {
        "namespace": "n",
        "reader": "",
        "family": "mills",
        "source": "peer",
        "caller": ALICE,
    }
    return bank.add_verdict(
        question_key=question,
        verdict="right" if right else "wrong",
        items=items,
        **{**fields, **changes},
    )


def standing(bank: Bank, node_id: str, family: str = "mills") -> Standing:
    return bank.standing([(node_id, "n", family)])[node_id]


# ---- signals


def test_a_signal_counts_once_a_question_whoever_repeats_it(bank: Bank) -> None:
    (node_id,) = add_lessons(bank, 1)
    assert signal(bank, node_id, "q1", "helped")
    assert not signal(bank, node_id, "q1", "helped")
    assert not signal(bank, node_id, "q1", "helped", BOB)
    assert signal(bank, node_id, "q1", "hurt", BOB)
    assert signal(bank, node_id, "q2", "helped", BOB)
    assert standing(bank, node_id) == Standing(helped=2, hurt=1)
    assert problems(bank) == []


def test_one_contributor_counts_only_so_often_and_does_not_stop_the_others(
    bank: Bank, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert usage.MAX_PER_CONTRIBUTOR == 100
    monkeypatch.setattr(usage, "MAX_PER_CONTRIBUTOR", 3)
    first, second = add_lessons(bank, 2)
    assert [signal(bank, first, f"q{n}", "hurt") for n in range(5)] == [True] * 3 + [False] * 2
    assert standing(bank, first).hurt == 3
    assert signal(bank, first, "q1", "helped"), "the other signal has a bound of its own"
    assert signal(bank, second, "q1", "hurt"), "so has the other item"
    assert signal(bank, first, "q9", "hurt", BOB), "so has the other contributor"
    assert standing(bank, first) == Standing(helped=1, hurt=4)


def test_feedback_never_changes_support_or_authority(bank: Bank) -> None:
    (node_id,) = add_lessons(bank, 1)
    before = bank.node(node_id)
    digest = bank.state_digest()
    for number in range(5):
        signal(bank, node_id, f"q{number}", "helped")
        verdict(bank, f"q{number}", right=True, items=[node_id])
    assert bank.node(node_id) == before
    assert bank.state_digest() == digest, "usage is no content"


# ---- verdicts and the base rate


def test_a_verdict_counts_once_a_question_and_reader(bank: Bank) -> None:
    (node_id,) = add_lessons(bank, 1)
    assert verdict(bank, "q1", right=True, items=[node_id, node_id])
    assert not verdict(bank, "q1", right=False, items=[node_id])
    assert standing(bank, node_id) == Standing(used_right=1)
    assert verdict(bank, "q2", right=False, items=[node_id])
    assert standing(bank, node_id) == Standing(used_right=1, used_wrong=1)
    assert verdict(bank, "q1", right=True, items=[node_id], reader="another agent")
    assert standing(bank, node_id).used_right == 1, "still one question"


def test_the_base_rate_is_that_of_the_family_without_the_items_own_questions(bank: Bank) -> None:
    first, second = add_lessons(bank, 2)
    verdict(bank, "q1", right=True, items=[first])
    verdict(bank, "q2", right=False, items=[first])
    verdict(bank, "q3", right=True, items=[second])
    verdict(bank, "q4", right=False, items=[])
    verdict(bank, "q5", right=False, items=[])
    verdict(bank, "q6", right=True, items=[], family="barns")
    verdict(bank, "q7", right=True, items=[], namespace="m")
    verdict(bank, "q8", right=True, items=[first], family="barns")
    assert standing(bank, first) == Standing(used_right=2, used_wrong=1, base_right=1, base_wrong=2)
    assert standing(bank, second) == Standing(used_right=1, base_right=1, base_wrong=3)
    assert standing(bank, first, "barns") == Standing(
        used_right=2, used_wrong=1, base_right=1, base_wrong=0
    )


def test_counters_are_those_of_a_count_by_hand(bank: Bank) -> None:
    chance = random.Random(8)
    ids = add_lessons(bank, 4)
    table: list[tuple[str, str, bool, set[str]]] = []
    signals: set[tuple[str, str, str]] = set()
    for number in range(60):
        family = chance.choice(("mills", "barns"))
        items = set(chance.sample(ids, chance.randint(0, 3)))
        right = chance.random() < 0.5
        verdict(bank, f"q{number}", right=right, items=sorted(items), family=family)
        table.append((f"q{number}", family, right, items))
        if items and chance.random() < 0.5:
            node_id, kind = chance.choice(sorted(items)), chance.choice(("helped", "hurt"))
            signal(bank, node_id, f"q{number}", kind)
            signals.add((node_id, f"q{number}", kind))
    wanted = [(node_id, "n", family) for node_id in ids for family in ("mills", "barns")]
    for node_id, _, family in wanted:
        used = [right for _, _, right, items in table if node_id in items]
        base = [r for _, of, r, items in table if of == family and node_id not in items]
        found = bank.standing([(node_id, "n", family)])[node_id]
        assert found == Standing(
            helped=sum(node == node_id and kind == "helped" for node, _, kind in signals),
            hurt=sum(node == node_id and kind == "hurt" for node, _, kind in signals),
            used_right=sum(used),
            used_wrong=len(used) - sum(used),
            base_right=sum(base),
            base_wrong=len(base) - sum(base),
        )
    assert problems(bank) == []


# ---- the journey


def ruled(bank: Bank, supports: int = 6) -> Node:
    """Build a category whose lesson has so many supports, and return it."""
    draft = LessonDraft(
        guidance="Count twice",
        index=HOUSE,
        question_key="s0",
        verdict_source="oracle",
        family="mills",
    )
    vectors = vectorize([draft.index])[0]
    for number in range(supports):
        again = draft.model_copy(update={"question_key": f"s{number}"})
        bank.add_lesson(again, vectors, caller=ALICE, namespace="n")
    run_maintain(bank)
    tree = bank.tree("n")
    assert tree is not None
    (node,) = [n for n in tree.walk() if n.height == 1]
    return node


@pytest.fixture
def memory(template: Path, tmp_path: Path) -> Iterator[ExperienceMemory]:
    shutil.copytree(template, tmp_path / "asked")
    controllers = (ScriptedMemoryController(), ScriptedTreeOrganizer(select=_rule_first))
    config = Config(namespace="n", tree=SETTINGS)
    with ExperienceMemory.open(
        tmp_path / "asked", config=config, encoder=ENCODER, controllers=controllers
    ) as opened:
        yield opened


def _rule_first(request: Any) -> Any:
    from epimem.schema.memory_input import Selection

    rules = [c.node_id for c in request.candidates if c.kind != "lesson"]
    return Selection(rule_ids=tuple(rules[:1]))


def level_now(memory: ExperienceMemory, node: Node) -> str:
    return memory.bank.node(node.node_id).kind


def test_a_rule_is_demoted_by_named_contradictions_and_never_promoted_by_praise(
    memory: ExperienceMemory,
) -> None:
    node = ruled(memory.bank, supports=10)
    assert node.kind == "rule"
    kinds = []
    for number in range(8):
        found = memory.retrieve(QUESTION + f" ({number})", family="mills")
        assert [item.node_id for item in found.items] == [node.node_id]
        memory.feedback(
            found.retrieval_id, verdict="wrong", source="peer", hurt={node.node_id: "Count twice"}
        )
        kinds.append(level_now(memory, node))
    assert kinds[0] == "rule", "one contradiction does not kill"
    assert "summary" in kinds
    assert kinds == sorted(kinds), "rule, then summary"
    for number in range(30):
        found = memory.retrieve(QUESTION + f" (again {number})", family="mills")
        memory.feedback(found.retrieval_id, verdict="right", source="oracle", helped=[node.node_id])
        assert level_now(memory, node) == kinds[-1], "feedback promotes nothing"
    assert problems(memory.bank) == []


def test_a_rule_that_goes_worse_than_without_it_is_demoted(memory: ExperienceMemory) -> None:
    bank = memory.bank
    node = ruled(bank)
    for number in range(25):
        verdict(bank, f"without {number}", right=number % 5 != 0, items=[])
    for number in range(20):
        found = memory.retrieve(QUESTION + f" ({number})", family="mills")
        memory.feedback(
            found.retrieval_id, verdict="right" if number % 2 else "wrong", source="peer"
        )
        if level_now(memory, node) == "summary":
            break
    counted = standing(bank, node.node_id)
    assert level_now(memory, node) == "summary"
    assert counted.used_right + counted.used_wrong >= 10, "not before ten uses"
    assert (counted.base_right, counted.base_wrong) == (20, 5)


def test_a_wrong_answer_alone_hurts_nothing(memory: ExperienceMemory) -> None:
    node = ruled(memory.bank)
    for number in range(30):
        found = memory.retrieve(QUESTION + f" ({number})", family="mills")
        memory.feedback(found.retrieval_id, verdict="wrong", source="oracle")
    assert standing(memory.bank, node.node_id) == Standing(used_wrong=30)
    assert level_now(memory, node) == "rule", "nothing is known of doing without"


def test_a_hurt_needs_a_statement_and_an_item_that_was_shown(memory: ExperienceMemory) -> None:
    node = ruled(memory.bank)
    found = memory.retrieve(QUESTION, family="mills")
    for statement in ("", "  \n "):
        with pytest.raises(RecordError):
            memory.feedback(found.retrieval_id, hurt={node.node_id: statement})
    with pytest.raises(RecordError):
        Feedback.read({"retrieval_id": "r", "hurt": [{"node_id": "x"}]})
    (lesson,) = memory.bank.tree("n").lessons()  # type: ignore[union-attr]
    for wrong in ({"helped": [lesson.node_id]}, {"hurt": {"nobody": "it was not so"}}, {}):
        with pytest.raises(RecordError):
            memory.feedback(found.retrieval_id, **wrong)  # type: ignore[arg-type]
    with pytest.raises(NotFoundError):
        memory.feedback("nothing of the kind", verdict="right")
    assert standing(memory.bank, node.node_id) == Standing()
    assert Hurt(node_id="x", statement="y").statement == "y"


def test_the_same_feedback_again_is_a_duplicate(memory: ExperienceMemory) -> None:
    node = ruled(memory.bank)
    found = memory.retrieve(QUESTION, family="mills")
    given: dict[str, Any] = {"verdict": "right", "source": "peer", "helped": [node.node_id]}
    assert memory.feedback(found.retrieval_id, **given).status == "stored"
    counted = standing(memory.bank, node.node_id)
    assert memory.feedback(found.retrieval_id, **given).status == "duplicate"
    again = memory.retrieve(QUESTION, family="mills")
    assert again.retrieval_id != found.retrieval_id
    assert memory.feedback(again.retrieval_id, **given).status == "duplicate", "one question"
    assert standing(memory.bank, node.node_id) == counted


def test_feedback_in_the_evaluation_phase_is_kept_aside(memory: ExperienceMemory) -> None:
    node = ruled(memory.bank)
    memory.caller = Caller("alice", "red", phase="evaluation")
    found = memory.retrieve(QUESTION, family="mills")
    head = memory.bank.head_seq
    receipt = memory.feedback(found.retrieval_id, verdict="wrong", source="oracle")
    assert receipt.status == "stored"
    assert memory.bank.head_seq == head
    assert standing(memory.bank, node.node_id) == Standing()
