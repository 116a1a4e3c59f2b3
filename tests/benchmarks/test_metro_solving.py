"""The metro host: what it takes from memory, and what it makes of it."""

from __future__ import annotations

import random

import numpy as np
import pytest
from PIL import Image

from benchmarks.metro.ablation import Ablation, removed
from benchmarks.metro.maps import draw_map
from benchmarks.metro.networks import Segment
from benchmarks.metro.operators import OPERATORS
from benchmarks.metro.shapes import SHAPES
from benchmarks.metro.solving import closed_marker, solver_of
from epimem.evaluation import Handout, PublicTask
from epimem.schema.memory_input import Crop, Item, MemoryInput

CLOSED = "Stations with the marker shown here are closed: leave them out."
SEGMENT = Segment("town", tuple(f"Stop {letter}" for letter in "ABCDEFGH"))


@pytest.fixture(scope="module")
def drawn():
    return draw_map(SEGMENT, OPERATORS[0], random.Random(1))


@pytest.fixture
def given(drawn, tmp_path):
    """Make a handout: items as (guidance, polarity), crops as (item, shape)."""

    def make(items, crops):
        paths, cut = [], []
        for number, (item, shape) in enumerate(crops):
            region = drawn.regions[drawn.markers.index(shape)]
            path = tmp_path / f"{number}.png"
            Image.fromarray(drawn.pixels[region.y0 : region.y1, region.x0 : region.x1]).save(path)
            paths.append(path)
            cut.append(
                Crop(
                    node_id=f"item {item}",
                    image_id=drawn.image_id,
                    region=region,
                    blob=str(number),
                    width=region.x1 - region.x0,
                    height=region.y1 - region.y0,
                )
            )
        shown = tuple(
            Item(node_id=f"item {at}", kind="lesson", guidance=text, polarity=polarity)
            for at, (text, polarity) in enumerate(items)
        )
        answer = MemoryInput(retrieval_id="r", bank_seq=1, items=shown, crops=tuple(cut), gate=1)
        return Handout(answer, tuple(paths))

    return make


def several(drawn, count):
    """Return that many shapes which are on the map."""
    return [shape for shape in SHAPES if shape in drawn.markers][:count]


def test_the_majority_of_crops_counts_and_of_equals_the_first(drawn, given):
    one, two = several(drawn, 2)
    says = [(CLOSED, "positive")]
    assert closed_marker(given(says, [(0, one), (0, two), (0, two)])) == two
    assert closed_marker(given(says, [(0, one), (0, two)])) == one
    assert closed_marker(given(says, [])) is None


def test_cautions_and_items_that_say_nothing_of_it_do_not_count(drawn, given):
    one, two = several(drawn, 2)
    items = [(CLOSED, "negative"), ("Read the line from left to right.", "positive")]
    assert closed_marker(given(items, [(0, one), (1, one)])) is None
    assert (
        closed_marker(given([*items, (CLOSED, "positive")], [(0, one), (1, one), (2, two)])) == two
    )


def task_of(drawn, folder):
    path = folder / "map.png"
    path.write_bytes(drawn.png)
    return PublicTask(id="e0", question="?", images=(str(path),), image_ids=(drawn.image_id,))


def test_the_host_counts_all_stops_unless_lesson_and_crop_tell(drawn, given, tmp_path):
    solve, task = solver_of(), task_of(drawn, tmp_path)
    (one,) = several(drawn, 1)
    everything = str(len(drawn.markers))
    assert solve(task, None, 0) == everything
    assert solve(task, given([(CLOSED, "positive")], []), 0) == everything
    told = given([(CLOSED, "positive")], [(0, one)])
    assert solve(task, told, 0) == str(len(drawn.markers) - drawn.markers.count(one))
    assert solve(task, removed(task, told), 0) == everything


def test_the_hosts_own_legend_goes_before_any_lesson(given, drawn, tmp_path):
    one, two = several(drawn, 2)
    printed = draw_map(SEGMENT, OPERATORS[0], random.Random(1), closed=one)
    told = given([(CLOSED, "positive")], [(0, two)])
    right = str(len(printed.markers) - printed.markers.count(one))
    assert solver_of()(task_of(printed, tmp_path), told, 0) == right


def test_ablations_change_the_pictures_and_nothing_else(given, drawn, tmp_path):
    (one,) = several(drawn, 1)
    task = task_of(drawn, tmp_path)
    told = given([(CLOSED, "positive")], [(0, one)])
    ablation = Ablation(tmp_path / "made", None, {drawn.image_id: drawn.pixels}, [task])
    blank = ablation.blanked(task, told)
    assert closed_marker(blank) is None
    assert (np.asarray(Image.open(blank.crops[0])) == 255).all()
    shifted = ablation.shifted(60)(task, told)
    for made in (blank, shifted):
        assert made.input.items == told.input.items
        assert len(made.input.crops) == len(told.input.crops)
        assert made.key != told.key
    same = ablation.shifted(0)(task, told)
    with Image.open(same.crops[0]) as ours, Image.open(told.crops[0]) as theirs:
        assert np.array_equal(np.asarray(ours), np.asarray(theirs))
