"""References and canaries that leak, and questions that the bank was built from."""

# ruff: noqa: ARG005 - solvers, scorers and arms are handed more than each test looks at

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from epimem import ExperienceMemory, IndexText, LessonDraft
from epimem.config import Config, EncoderConfig
from epimem.evaluation import EvalResult, EvalTask, Given, Handout, Nothing, Retrieved, evaluate
from epimem.evaluation.guards import Sealed
from epimem.schema.ids import question_key
from epimem.schema.memory_input import Item, MemoryInput

LONG = "the north gate of the old mill"


def task(reference: str, **more: Any) -> EvalTask:
    fields = {"id": "q", "question": "Which gate is open?", **more}
    return EvalTask(reference=reference, **fields)


def leaks_of(text: str, reference: str, canaries: tuple[str, ...] = ()) -> list[tuple[str, str]]:
    """Return what an arm that hands out `text` leaks of a reference."""
    items = (Item(node_id="n", kind="lesson", guidance=text),)
    given = Handout(MemoryInput(retrieval_id="r", bank_seq=1, items=items, text=text))
    arms = {"none": Nothing(), "product": Given(lambda task, seed: given)}
    result = evaluate([task(reference)], lambda *_: "none", arms=arms, seeds=[0], canaries=canaries)
    return [(leak.task, leak.what) for leak in result.leaks]


def test_a_reference_in_a_memory_input_is_a_leak() -> None:
    assert leaks_of("It is The  North gate\nof the OLD mill.", LONG) == [("q", "reference")]
    assert leaks_of("It is the south gate of the old mill.", LONG) == []


def test_a_short_reference_is_no_leak_by_its_words_and_its_canary_is() -> None:
    assert leaks_of("Count to 7.", "7") == []
    sealed = Sealed([task("7")])
    carried = sealed._sealed["q"]  # what wiring the wrong value through would hand on
    assert sealed.in_text(task("7").public, f"see {carried}") == "canary"
    assert Sealed([task("7")]).canary != sealed.canary


def test_the_scorer_gets_the_reference_without_the_canary() -> None:
    sealed = Sealed([task("7")])

    assert sealed.judge(lambda task, answer, reference: answer == reference, task("7").public, "7")


def test_a_canary_of_the_data_set_is_a_leak() -> None:
    assert leaks_of("BENCHMARK DATA 26b5c67b", "7", ("data 26b5c67b",)) == [("q", "canary")]


def test_what_the_question_says_itself_is_no_secret() -> None:
    said = task(LONG, question=f"Is {LONG} open?")

    assert Sealed([said]).in_text(said.public, f"It is {LONG}.") == ""


@pytest.fixture(scope="module")
def bank(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("gates") / "bank"
    with ExperienceMemory.create(path, Config(encoder=EncoderConfig(model="none"))) as memory:
        memory.contribute(
            LessonDraft(
                guidance="Look for the lantern.",
                body=f"Last time it was {LONG}. canary-5b1d",
                index=IndexText(scope="gates", question_anchor="Which gate?"),
                question_key=question_key("Which gate was open in May?"),
                group_key="mill",
            )
        )
        memory.freeze()
    return path


def found(bank: Path, asked: EvalTask, canaries: tuple[str, ...] = ()) -> list[tuple[str, str]]:
    with ExperienceMemory.open(bank, read_only=True, phase="evaluation") as memory:
        result: EvalResult = evaluate(
            [asked],
            lambda *_: "none",
            arms={"product": Retrieved(memory)},
            seeds=[0],
            canaries=canaries,
        )
    return [(leak.task, leak.what) for leak in result.leaks]


def test_a_reference_in_a_lesson_is_a_leak_even_if_it_is_not_handed_out(bank: Path) -> None:
    asked = task(LONG, question="Who wrote the first opera?")

    assert found(bank, asked) == [("q", "reference")]
    assert found(bank, task("the north gate of the new mill")) == []


def test_a_canary_in_a_lesson_is_a_leak(bank: Path) -> None:
    assert found(bank, task("7"), ("canary-5b1d",)) == [("", "canary")]
    assert found(bank, task("7"), ("canary-0000",)) == []


def test_a_question_that_the_bank_was_built_from_is_a_leak(bank: Path) -> None:
    assert found(bank, task("7", question="Which gate was  open in MAY?")) == [("q", "question")]


def test_a_group_that_the_bank_was_built_from_is_a_leak(bank: Path) -> None:
    assert found(bank, task("7", group="mill")) == [("q", "group")]
    assert found(bank, task("7", group="tower")) == []
