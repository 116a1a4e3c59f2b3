from __future__ import annotations

import pytest

from controllers.embedded.anchors import ANCHOR_BYTES, anchor, shared_names
from controllers.embedded.names import name_words
from controllers.embedded.scopes import public_scope
from epimem.schema.run import Task
from harness_adapters.importer import Imported


def of(question: str, scope: str = "", others: tuple[str, ...] = ()) -> str:
    return anchor(question, scope, shared_names([question, *others]))


def test_names_numbers_and_quoted_strings_are_blanked() -> None:
    question = "According to the Norden Statistik chart, what is the total of 'Egg output' in 2019?"
    assert of(question, "chart, Norden Statistik") == (
        "According to the Norden Statistik chart, what is the total of … in …?"
    )


def test_a_name_of_the_scope_stays_even_when_the_batch_holds_one_question() -> None:
    assert "Rubra Metro" in of("On this Rubra Metro diagram, go to Yew Tee.", "metro, Rubra")
    assert "Yew Tee" not in of("On this Rubra Metro diagram, go to Yew Tee.", "metro, Rubra")


def test_a_name_that_another_question_has_stays() -> None:
    question = "What is the sum of the Amount column?"
    assert of(question) == "What is the sum of the … column?"
    assert of(question, others=("Print the Amount column.",)) == question


def test_the_same_question_twice_does_not_make_its_names_shared() -> None:
    question = "How far is it from Berlin to Rome?"
    assert of(question, others=(question,)) == "How far is it from … to …?"


def test_a_capital_at_a_sentence_start_is_no_name() -> None:
    assert name_words("Count the stations. Then report. On Monday we met.") == {"monday"}


def test_two_capitals_at_a_sentence_start_are_a_name() -> None:
    assert name_words("Clarke Quay is a station.") == {"clarke", "quay"}


def test_a_cjk_run_is_a_name_inside_other_prose_only() -> None:
    assert of("A train leaves 广卫站 and runs on.") == "A train leaves … and runs on."
    assert of("列车从广卫站开往联大街站。一共停几站？") == "列车从广卫站开往联大街站。一共停几站？"  # noqa: RUF001


def test_connecting_words_stay_inside_a_name() -> None:
    assert of("Ask the University of Leicester about it.") == "Ask the … about it."


@pytest.mark.parametrize("question", ["", "   ", "\u200b", "…", "'" * 5000, '"' * 5000, "A" * 9000])
def test_odd_questions_give_a_bounded_anchor(question: str) -> None:
    assert len(of(question).encode()) <= ANCHOR_BYTES


def test_three_rounds_of_a_house_get_nearly_one_anchor(visual_runs: list[Imported]) -> None:
    tasks = [item.run.task for item in visual_runs if item.run is not None]
    shared = shared_names([task.question for task in tasks])
    found: dict[str, set[str]] = {}
    for task in tasks:
        blanked = anchor(task.question, public_scope(task), shared)
        found.setdefault(task.house, set()).add(blanked.replace("（换乘站）", ""))  # noqa: RUF001
    assert len(found) == 12
    assert all(len(anchors) == 1 for anchors in found.values()), found
    assert all(house.split()[0] in min(anchors) for house, anchors in found.items())


def test_the_scope_is_family_and_house_or_niche() -> None:
    task = Task(task_id="t", family="metro", house="Rubra", question="?")
    assert public_scope(task) == "metro, Rubra"
    niche = Task(task_id="t", family="gaia", question="?", public={"niche": "files"})
    assert public_scope(niche) == "gaia, files"
    assert public_scope(Task(task_id="t", question="?")) == ""
    long = Task(task_id="t", family="f" * 400, house="h" * 400, question="?")
    assert len(public_scope(long).encode()) <= 256
