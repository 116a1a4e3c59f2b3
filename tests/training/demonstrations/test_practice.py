"""Practice banks: the product's own journeys ask, sound answers build, and queries stay apart."""

from __future__ import annotations

from contextlib import contextmanager

import pytest

from controllers.prompts import OPERATIONS
from epimem.protocols import Derived
from epimem.schema.lesson import Evidence
from epimem.schema.memory_input import Selection
from epimem.schema.proposal import NewCategory, Place
from epimem.schema.region import Region
from epimem.schema.working_memory import Update, VisualEvidence
from tests.training.demonstrations import small_runs
from training.demonstrations import practice
from training.demonstrations.grouping import Bundle, Group, bundles_of, groups_of
from training.demonstrations.intake import opened_runs
from training.demonstrations.practice import practise
from training.demonstrations.store import DemonstrationSet
from training.demonstrations.teacher import Teacher
from training.demonstrations.updates import revise_memories


@contextmanager
def job(tmp_path, teacher, pairs, images=()):
    source = small_runs.write_runs(tmp_path / "runs.jsonl", *pairs)
    with (
        DemonstrationSet.create(tmp_path / "out") as out,
        opened_runs(source, tmp_path / "work", images=images, progress=small_runs.nothing) as found,
    ):
        (bundle,) = bundles_of(groups_of(found.runs, seed=0), size=3, seed=0)
        taught = Teacher(out, teacher, None, source="data", seed=0)
        taught.turn_to(bundle.name, found.runs)
        yield out, found, bundle, taught


def practised(tmp_path, teacher, pairs, images=()):
    with job(tmp_path, teacher, pairs, images) as (out, source, bundle, taught):
        report = practise(
            tmp_path / "bank", bundle, source, taught, encoder=None, progress=small_runs.nothing
        )
        return report, list(out.read()), list(out.asides()), bundle


def pairs_of(houses, count, **more):
    return [small_runs.pair_of(house, n, **more) for house in houses for n in range(count)]


def of(found, operation):
    return [each for each in found if each.operation == operation]


def lesson_house(node):
    return node.lesson.index.scope.removesuffix(" pages")


def test_lessons_come_from_history_alone_and_queries_are_asked_of_them(tmp_path):
    report, found, _, bundle = practised(
        tmp_path, small_runs.scripted(), pairs_of(small_runs.HOUSES, 3)
    )
    history = {run.run.run_id for run in bundle.history}
    queries = {run.run.run_id for run in bundle.queries}
    assert (len(history), len(queries)) == (6, 3)
    derived = {run for each in of(found, "derive") for run in each.provenance.run_ids}
    assert derived == history
    asked = [each.request for each in of(found, "derive")]
    assert {(each.verdict, each.verdict_source) for each in asked} == {("wrong", "oracle")}
    assert (report.lessons, report.asked) == (6, 3)
    for each in of(found, "select"):
        named = set(each.provenance.run_ids)
        assert len(named & queries) == 1
        shown = {
            run
            for node in each.request.nodes.values()
            if node.lesson
            for run in node.lesson.run_ids
        }
        assert shown <= history
    assert len(of(found, "select")) == 3
    assert not (tmp_path / "bank").exists()


def test_place_is_asked_with_the_categories_of_other_groups_among_the_candidates(tmp_path):
    _, found, _, _ = practised(tmp_path, small_runs.scripted(), pairs_of(small_runs.HOUSES, 3))
    wrong = [
        view
        for each in of(found, "place")
        for view in each.request.candidates
        if lesson_house(view.examples[0]) != lesson_house(each.request.lesson)
    ]
    right = [each for each in of(found, "place") if each.value.category_id]
    assert wrong
    assert right


def test_a_pile_that_is_too_large_is_split_and_consolidated(tmp_path, monkeypatch):
    def one_pile(request):
        lesson = request.lesson
        if request.candidates:
            nearest = request.candidates[0].node.node_id
            return Place(lesson_id=lesson.node_id, category_id=nearest)
        return Place(lesson_id=lesson.node_id, new=NewCategory(title="all", index=lesson.index))

    monkeypatch.setattr(practice, "SHAPES", ((7, 3),))
    teacher = small_runs.scripted(organizer={"place": one_pile})
    _, found, _, _ = practised(tmp_path, teacher, pairs_of(["Rubra"], 13))
    (split,) = of(found, "split_lift")
    assert (len(split.request.children), split.request.capacity) == (9, 7)
    assert of(found, "consolidate")


def test_categories_that_are_alike_are_asked_about_and_may_be_left_apart(tmp_path):
    def always_new(request):
        new = NewCategory(title="one more", index=request.lesson.index)
        return Place(lesson_id=request.lesson.node_id, new=new)

    organizer = {"place": always_new, "merge": lambda _: None}
    _, found, aside, _ = practised(
        tmp_path, small_runs.scripted(organizer=organizer), pairs_of(["Rubra"], 7)
    )
    assert of(found, "merge")
    assert {each.value for each in of(found, "merge")} == {None}
    assert not [each for each in aside if each.operation == "merge"]


def test_an_empty_selection_is_kept(tmp_path):
    teacher = small_runs.scripted(organizer={"select": lambda _: Selection()})
    _, found, aside, _ = practised(tmp_path, teacher, pairs_of(small_runs.HOUSES[:2], 2))
    assert [each.value.item_ids for each in of(found, "select")] == [()] * 2
    assert not aside


def test_a_gate_is_asked_about_the_evidence_of_what_was_selected(tmp_path):
    png, page = small_runs.picture()
    (tmp_path / "page.png").write_bytes(png)

    def with_evidence(request):

        (draft,) = small_runs.lesson_of_the_house(request).drafts
        region = Region(x0=0, y0=0, x1=20, y1=15, width=40, height=30)
        seen = Evidence(image_id=page["image_id"], region=region, note="a mark")
        return Derived((draft.model_copy(update={"evidence": (seen,)}),))

    pairs = pairs_of(["Rubra"], 3, page=page)
    report, found, _, _ = practised(
        tmp_path, small_runs.scripted(derive=with_evidence), pairs, [str(tmp_path / "page.png")]
    )
    (gate,) = of(found, "gate")
    assert gate.value == 1
    assert list(gate.request.crops.values()) == [1]
    (select,) = of(found, "select")
    assert [shown.image_id for shown in select.request.pages] == [page["image_id"]]
    (crop,) = next(iter(select.request.crops.values()))
    assert crop.png(10_000)[:4] == b"\x89PNG"
    assert report.asked == 1


def test_what_a_run_derives_is_in_the_bank_only_where_it_was_found_sound(tmp_path):
    def leaky_for_one(request):
        (draft,) = small_runs.lesson_of_the_house(request).drafts
        run = request.run.run_id
        if run == "Rubra-0-1":
            draft = draft.model_copy(update={"guidance": "It is CANARY-Rubra-0."})

        return Derived((draft,))

    pairs = [small_runs.pair_of("Rubra", n) for n in range(6)]
    with job(tmp_path, small_runs.scripted(derive=leaky_for_one), pairs) as (
        out,
        source,
        _,
        taught,
    ):
        runs = tuple(source.runs)
        bundle = Bundle((Group("Rubra", runs[:5], runs[5:]),))
        practise(
            tmp_path / "bank", bundle, source, taught, encoder=None, progress=small_runs.nothing
        )
        aside = [(each.operation, each.check) for each in out.asides()]
        texts = [str(each.request) for each in out.read() if each.operation != "derive"]
    assert aside == [("derive", "provenance")]
    assert texts
    assert not any("CANARY" in text for text in texts)


def test_no_reference_stands_in_any_prompt_or_target_of_a_set(tmp_path):
    _, found, _, _ = practised(tmp_path, small_runs.scripted(), pairs_of(small_runs.HOUSES[:2], 3))
    for each in found:
        operation = OPERATIONS[each.operation]
        texts = [message.text for message in operation.render(each.request).messages]
        assert "CANARY" not in "".join(texts) + str(operation.target(each.request, each.value))
    for path in tmp_path.joinpath("out").rglob("*.jsonl"):
        assert "CANARY" not in path.read_text()


def test_a_question_that_the_bank_refuses_is_counted_and_the_others_are_asked(tmp_path):
    pairs = [small_runs.pair_of("Rubra", n) for n in range(4)]
    pairs[0]["run"]["task"]["question"] = "  "
    with job(tmp_path, small_runs.scripted(), pairs) as (_, source, _, taught):
        runs = tuple(source.runs)
        bundle = Bundle((Group("Rubra", runs[2:], runs[:2]),))
        report = practise(
            tmp_path / "bank", bundle, source, taught, encoder=None, progress=small_runs.nothing
        )
    assert dict(report.refused) == {"invalid_text": 1}
    assert report.asked == 1


def updates_of(tmp_path, teacher, pairs, images=()):
    with job(tmp_path, teacher, pairs, images) as (out, source, bundle, taught):
        revise_memories(bundle, source, taught, small_runs.nothing)
        return [each for each in out.read() if each.operation == "update"]


def test_the_attempts_of_a_question_meet_the_memory_that_the_earlier_ones_left(tmp_path):
    pairs = [small_runs.pair_of("Rubra", 0, attempt=attempt) for attempt in (1, 2, 3)]
    found = updates_of(tmp_path, small_runs.scripted(), pairs)
    requests = [each.request for each in found]
    assert [(each.attempt, each.left) for each in requests] == [(1, 4), (2, 3), (3, 2)]
    assert [each.memory.guidance for each in requests] == [
        "",
        "After attempt 1: look at the marks again.",
        "After attempt 2: look at the marks again.",
    ]


def test_the_evidence_of_the_memory_is_shown_as_its_crop(tmp_path):
    png, page = small_runs.picture()
    (tmp_path / "page.png").write_bytes(png)
    region = Region(x0=0, y0=0, x1=20, y1=15, width=40, height=30)

    def look(request):
        seen = VisualEvidence(image_id=page["image_id"], region=region, note="a mark")
        first = request.attempt == 1
        return Update(
            guidance="Look here.",
            visual="replace" if first else "retain",
            evidence=seen if first else None,
            gate=1,
        )

    pairs = [small_runs.pair_of("Rubra", 0, attempt=attempt, page=page) for attempt in (1, 2)]
    teacher = small_runs.scripted(update=look)
    first, second = updates_of(tmp_path, teacher, pairs, [str(tmp_path / "page.png")])
    assert first.request.crop is None
    assert second.request.memory.evidence.region == region
    assert (second.request.crop.width, second.request.crop.height) == (21, 16)
    assert second.request.crop.png(10_000)[:4] == b"\x89PNG"


def test_an_update_that_was_set_aside_leaves_the_memory_as_it_was(tmp_path):
    def second_is_wrong(request):
        stop = request.attempt == 2
        return Update(guidance=f"After {request.attempt}.", stop=stop)

    pairs = [small_runs.pair_of("Rubra", 0, attempt=attempt) for attempt in (1, 2, 3)]
    found = updates_of(tmp_path, small_runs.scripted(update=second_is_wrong), pairs)
    assert [each.request.memory.guidance for each in found] == ["", "After 1."]
    assert [each.request.attempt for each in found] == [1, 3]


@pytest.mark.parametrize(("count", "asked"), [(1, 1), (5, 4), (6, 4)])
def test_nothing_is_revised_after_the_last_attempt_that_there_may_be(tmp_path, count, asked):
    pairs = [small_runs.pair_of("Rubra", 0, attempt=at + 1) for at in range(count)]
    assert len(updates_of(tmp_path, small_runs.scripted(), pairs)) == asked


def test_a_question_whose_answer_was_judged_ready_is_not_revised_again(tmp_path):
    pairs = [small_runs.pair_of("Rubra", 0, attempt=at, verdict="right") for at in (1, 2)]
    teacher = small_runs.scripted(update=lambda _: Update(guidance="Ready.", stop=True))
    assert len(updates_of(tmp_path, teacher, pairs)) == 1
