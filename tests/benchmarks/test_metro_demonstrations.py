"""Demonstrations from the metro bench: exact where the pixels and the oracle can tell."""

from __future__ import annotations

import io
import json

import numpy as np
import pytest
from PIL import Image

from benchmarks.metro.demonstrations import banks, main
from benchmarks.metro.experiment import DEVELOPMENT_SEED
from benchmarks.metro.networks import FOLDER, load_cities, split_cities
from benchmarks.metro.practice import OF_A_BANK
from benchmarks.metro.reading import read_crop_file, read_map
from benchmarks.metro.run_record import CANARY
from epimem.errors import ConfigError
from epimem.schema import strict_json
from tests.benchmarks.metro_towns import SPLIT
from training.demonstrations.checks import check
from training.demonstrations.store import DemonstrationSet

SEED = DEVELOPMENT_SEED + 7


@pytest.fixture(scope="module")
def bank():
    (made,) = banks(SPLIT.construction, seed=SEED, count=OF_A_BANK)
    return made


@pytest.fixture(scope="module")
def found(bank):
    return list(bank.demonstrations())


def of(found, operation):
    return [item for item in found if item.operation == operation]


def pixels(picture):
    with Image.open(io.BytesIO(picture.png(10**9))) as opened:
        return np.array(opened.convert("RGB"))


def operator_in(text):
    return next(name for name in ("Carmine", "Cobalt", "Saffron", "Jade", "Umber") if name in text)


def test_every_demonstration_passes_the_checks_and_five_operations_are_there(found):
    assert all(check(item) is None for item in found)
    assert {item.operation for item in found} == {
        "derive",
        "gate",
        "place",
        "consolidate",
        "select",
    }
    assert len({item.id for item in found}) == len(found)
    assert {item.group for item in found} == {f"metro-{SEED}"}


def test_the_region_of_a_lesson_shows_the_marker_that_was_taken_as_closed(bank, found, tmp_path):
    derived = of(found, "derive")
    assert len(derived) == OF_A_BANK
    for episode, item in zip(bank.episodes, derived, strict=True):
        (draft,) = item.value.drafts
        (evidence,) = draft.evidence
        box = evidence.region
        page = pixels(item.request.pages[0])
        path = tmp_path / f"{item.id}.png"
        Image.fromarray(page[box.y0 : box.y1, box.x0 : box.x1]).save(path)
        at = episode.decisive.at
        assert evidence.region == episode.question.map.regions[at]
        assert read_crop_file(path) == episode.question.map.markers[at]
        assert (draft.polarity == "positive") == (item.request.verdict == "right")


def test_crops_go_along_exactly_with_maps_that_print_no_legend(found):
    values = set()
    for item in of(found, "gate"):
        read = read_map(pixels(item.request.pages[0]))
        assert item.value == int(not read.has_legend)
        assert operator_in(item.request.question) in item.request.items[0].title
        values.add(item.value)
    assert values == {0, 1}


def test_lessons_go_to_the_category_of_their_operator(bank, found):
    new = 0
    for item in of(found, "place"):
        operator = operator_in(item.request.lesson.title)
        if item.value.new is None:
            views = {view.node.node_id: view.node.title for view in item.request.candidates}
            assert operator in views[item.value.category_id]
        else:
            assert operator in bank.left_out
            assert not any(operator in view.node.title for view in item.request.candidates)
            new += 1
    assert 0 < new < len(of(found, "place"))


def test_common_guidance_rests_on_right_runs_only(found):
    consolidated = of(found, "consolidate")
    assert any(item.value.guidance for item in consolidated)
    for item in consolidated:
        right = [node.node_id for node in item.request.lessons if node.polarity == "positive"]
        assert list(item.value.supported_by) == (right if len(right) >= 2 else [])


def test_a_rule_is_selected_for_its_operator_and_nothing_where_a_legend_is_printed(found):
    chosen = nothing = 0
    for item in of(found, "select"):
        legend = read_map(pixels(item.request.pages[0])).has_legend
        operator = operator_in(item.request.question)
        titles = [item.request.nodes[key].title for key in item.value.item_ids]
        assert all(operator in title for title in titles)
        assert not (legend and titles)
        chosen += bool(titles)
        nothing += not titles and not legend
    assert chosen > 3
    assert nothing > 0


def test_no_reference_and_no_canary_stands_in_a_demonstration(found):
    for item in found:
        assert CANARY not in repr(item.request)
        assert CANARY not in repr(item.value)


def test_banks_have_seeds_of_their_own_and_never_one_that_decides():
    seeds = [bank.seed for bank in banks(SPLIT.construction, seed=SEED, count=OF_A_BANK + 5)]
    assert seeds == [SEED, SEED + 1]
    with pytest.raises(ConfigError, match="decide"):
        next(banks(SPLIT.construction, seed=DEVELOPMENT_SEED - 1, count=5))


@pytest.mark.skipif(not FOLDER.is_dir(), reason="no station data beside the checkout")
def test_the_command_writes_a_set_of_construction_cities_and_goes_on_with_one(tmp_path, capsys):
    assert main([str(tmp_path / "set"), "--episodes", "5"]) == 0
    assert main([str(tmp_path / "set"), "--episodes", "5"]) == 0
    counts = json.loads(capsys.readouterr().out.splitlines()[-1])
    read = list(DemonstrationSet.open(tmp_path / "set").read())
    assert len(read) == sum(counts.values())
    ours = {city.name for city in split_cities(load_cities()).construction}
    runs = [item.request.run for item in read if item.operation == "derive"]
    assert {run.task.group for run in runs} <= ours
    assert main([str(tmp_path / "other"), "--seed", "1"]) != 0
    assert not (tmp_path / "other").exists()
    assert strict_json.loads((tmp_path / "set" / "splits.json").read_bytes())
