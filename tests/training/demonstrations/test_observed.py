"""Worked examples with their lessons and pictures, read into the requests that a bank would make."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest

from epimem.errors import NotFoundError
from tests.training.demonstrations import small_runs
from training.demonstrations.observed import observe
from training.demonstrations.store import DemonstrationSet

FOLDER = Path(__file__).resolve().parents[4] / "shared" / "data" / "vlm_runs"
MEMBERS = ["rubra-0", "rubra-1", "azul-0", "azul-1", "rubra-2", "azul-2", "azul-3", "rubra-3"]


def lesson(name, picture_name="page.png"):
    house = name.split("-")[0].title()
    return {
        "task_id": name,
        "guidance": f"On {house} pages leave out the white marks ({name}).",
        "applies_when": f"{house} head",
        "cautions": "Seen once.",
        "topic": "marks",
        "scope": f"{house} pages",
        "question_anchor": f"How many marks count on a {house} page?",
        "evidence": {"region": [0, 0, 500, 500], "note": "a white mark"},
    }, {
        "task_id": name,
        "family": "metro",
        "house": house,
        "question": f"How many on {name}?",
        "image": f"images/{picture_name}",
        "steps": [],
        "answer": 1,
    }


def category(key, *members):
    return {"id": key, "title": f"title {key}", "scope": f"scope {key}", "members": list(members)}


def consolidation(*, conflicts=()):
    return {
        "op": "consolidate",
        "input": {"group": category("x"), "lessons": ["rubra-0", "rubra-1", "rubra-2"]},
        "target": {
            "guidance": "Leave out the white marks.",
            "applies_when": "Rubra head",
            "cautions": "Seen three times.",
            "supports": ["rubra-0", "rubra-1"],
            "conflicts": list(conflicts),
            "confidence": 0.9,
        },
    }


def selection(rules=(), chosen=None, gate=0, question="How many count?"):
    return {
        "op": "select",
        "input": {
            "question": question,
            "image_description": "A red frame.",
            "candidates": [{"lesson": "azul-0"}, {"rule": "Rubra"}, {"lesson": "rubra-3"}],
        },
        "target": {"rules": list(rules), "lesson": chosen, "gate": gate},
    }


@pytest.fixture
def read(tmp_path):
    """Write a folder with these examples and return what became of it."""

    def write_and_observe(*examples, times=1):
        folder = tmp_path / "small"
        (folder / "images").mkdir(parents=True)
        (folder / "images" / "page.png").write_bytes(small_runs.picture()[0])
        lessons, runs = zip(*map(lesson, MEMBERS), strict=True)
        small_runs.write_runs(folder / "lessons.jsonl", *lessons)
        small_runs.write_runs(folder / "runs.jsonl", *runs)
        small_runs.write_runs(folder / "organizer.jsonl", *examples)
        with DemonstrationSet.create(tmp_path / "out") as out:
            for _ in range(times):
                counts = observe(
                    folder, out, tmp_path / "work", encoder=None, progress=small_runs.nothing
                )
            aside = [each for each in out.asides() if each.operation != "derive"]
            return list(out.read()), aside, counts, list(out.asides())

    return write_and_observe


def test_lessons_written_with_the_reference_in_view_are_no_targets_of_derive(read):
    found, _, counts, asides = read(consolidation())
    assert len(asides) == len(MEMBERS)
    assert {(each.operation, each.check) for each in asides} == {("derive", "provenance")}
    assert all("reference in view" in each.reason for each in asides)
    assert not [each for each in found if each.operation == "derive"]
    assert counts["set_aside"] == len(MEMBERS)


def test_a_place_shows_lesson_and_categories_by_likeness_and_names_one_or_a_new_one(read):
    categories = [category("c1", "azul-1", "azul-2"), category("c2", "rubra-1")]
    given = {"lesson": "rubra-0", "categories": categories}
    new = {"title": "Rubra", "topic": "marks", "scope": "Rubra pages"}
    known = {"op": "place", "input": given, "target": {"category": "c2"}}
    opened = {"op": "place", "input": {**given, "lesson": "rubra-2"}, "target": {"new": new}}
    (first, second), aside, _, _ = read(known, opened)
    assert not aside
    request = first.request
    assert first.value.category_id == "c2"
    assert request.lesson.lesson.guidance.endswith("(rubra-0).")
    assert [view.likeness for view in request.candidates] == sorted(
        (view.likeness for view in request.candidates), reverse=True
    )
    sizes = {view.node.node_id: view.size for view in request.candidates}
    assert sizes == {"c1": 2, "c2": 1}
    assert second.value.new.index.scope == "Rubra pages"
    assert second.value.new.index.question_anchor == "How many marks count on a Rubra page?"


def test_a_merge_keeps_the_larger_one_and_may_leave_two_apart(read):
    given = {"a": category("g1", "rubra-0"), "b": category("g2", "rubra-1", "azul-2")}
    apart = {"a": category("g3", "rubra-0"), "b": category("g4", "rubra-1")}
    (first, second), aside, _, _ = read(
        {"op": "merge", "input": given, "target": {"merge": True, "title": "both"}},
        {"op": "merge", "input": apart, "target": {"merge": False}},
    )
    assert not aside
    assert (first.value.kept_id, first.value.absorbed_id, first.value.title) == ("g2", "g1", "both")
    assert second.value is None
    # That of the two least alike lessons.
    assert first.request.likeness < second.request.likeness == 1.0


def test_a_split_deals_every_child_and_a_bad_one_is_set_aside_by_coverage(read):
    whole = {
        "op": "split_lift",
        "input": {"group": category("g1", *MEMBERS)},
        "target": {
            "groups": [
                {"title": "R", "scope": "Rubra", "members": [m for m in MEMBERS if "rubra" in m]},
                {"title": "A", "scope": "Azul", "members": [m for m in MEMBERS if "azul" in m]},
            ]
        },
    }
    short = json.loads(json.dumps(whole))
    short["input"]["group"]["id"] = "g2"
    short["target"]["groups"][0]["members"].pop()
    (found,), (aside,), _, _ = read(whole, short)
    assert len(found.request.children) > found.request.capacity
    assert sorted(len(part.child_ids) for part in found.value.parts) == [4, 4]
    assert found.value.parts[0].index.scope == "Rubra"
    assert set(found.request.vectors) == {child.node_id for child in found.request.children}
    assert (aside.operation, aside.check) == ("split_lift", "coverage")


def test_a_conflict_sets_the_guidance_against_the_lesson_that_contradicts_it(read):
    conflicts = [
        {"between": ["rubra-2", "rubra-0"], "about": "which marks"},
        {"between": ["rubra-2", "rubra-1"], "about": "which marks"},
    ]
    (found,), _, _, _ = read(consolidation(conflicts=conflicts))
    ids = {node.lesson.guidance[-8:-2]: node.node_id for node in found.request.lessons}
    (conflict,) = found.value.conflicts
    assert conflict.first.statement == found.value.guidance
    assert len(conflict.first.items) == 2
    assert conflict.second.items == (ids["ubra-2"],)
    assert len(found.value.supported_by) == 2


def test_a_selection_shows_the_rule_of_a_consolidation_and_crops_and_asks_the_gate(read):
    chosen = selection(["Rubra"], "rubra-3", gate=1)
    found, aside, _, _ = read(consolidation(), chosen, selection(question="Is it far?"))
    assert not aside
    select, gate, empty = found[1:]
    assert [each.operation for each in (select, gate, empty)] == ["select", "gate", "select"]
    assert select.value.rule_ids == ("rule-Rubra",)
    rule = select.request.nodes["rule-Rubra"]
    assert (rule.kind, rule.guidance, rule.height) == ("summary", "Leave out the white marks.", 1)
    assert select.request.families["rule-Rubra"] == "metro"
    assert len(select.request.crops["rule-Rubra"]) == 2
    assert select.request.question == "How many count?\n(The picture shows: A red frame.)"
    assert (gate.value, gate.request.crops["rule-Rubra"]) == (1, 2)
    assert empty.value.item_ids == ()


def test_what_an_example_names_and_is_not_there_costs_that_example_alone(read):
    strange = selection(["Nobody"], question="Is it far?")
    unknown = {"op": "paint", "input": {}, "target": {}}
    missing = {"op": "place", "input": {"lesson": "nobody", "categories": []}, "target": {}}
    found, aside, counts, _ = read(consolidation(), strange, unknown, missing, selection())
    assert [each.operation for each in found] == ["consolidate", "select"]
    assert [each.check for each in aside] == ["schema"] * 3
    assert "nobody: there is no such lesson" in aside[2].reason
    assert counts["accepted"] == 2


def test_the_same_folder_again_adds_nothing(read):
    found, _, counts, asides = read(consolidation(), selection(), times=2)
    assert len(found) == 2
    assert counts == {"accepted": 0, "set_aside": 0, "known": 2 + len(asides)}


def test_a_folder_without_examples_is_named(tmp_path):
    with (
        DemonstrationSet.create(tmp_path / "out") as out,
        pytest.raises(NotFoundError) as missing,
    ):
        observe(tmp_path, out, tmp_path / "work", encoder=None, progress=small_runs.nothing)
    assert missing.value.field == "--observed"


@pytest.mark.long
@pytest.mark.skipif(not FOLDER.is_dir(), reason="the observed runs are not beside this checkout")
def test_every_example_of_the_observed_runs_is_taken(tmp_path):
    with DemonstrationSet.create(tmp_path / "out") as out:
        observe(FOLDER, out, tmp_path / "work", encoder=None, progress=small_runs.nothing)
        found = Counter(each.operation for each in out.read())
        empty = [each for each in out.read(operations=["select"]) if not each.value.item_ids]
        aside = Counter((each.operation, each.check) for each in out.asides())
    assert found == {
        "place": 36,
        "merge": 8,
        "split_lift": 5,
        "consolidate": 12,
        "select": 30,
        "gate": 22,
    }
    assert len(empty) == 8
    assert aside == {("derive", "provenance"): 36}
