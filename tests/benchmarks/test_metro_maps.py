"""Metro maps: what is drawn is read, and nothing else; the networks and their split."""

from __future__ import annotations

import io
import random
from collections import Counter

import numpy as np
import pytest
from PIL import Image

from benchmarks.metro import networks, operators
from benchmarks.metro.maps import HEIGHT, WIDTH, draw_map
from benchmarks.metro.networks import City, Segment, Split, development_split, split_cities
from benchmarks.metro.operators import OPERATORS, draw_conventions
from benchmarks.metro.reading import read_crop_file, read_map, with_mistakes
from benchmarks.metro.shapes import SHAPES, recognized

STATIONS = tuple(f"Stop {letter}" for letter in "ABCDEFGHI")


@pytest.fixture(scope="module")
def drawn():
    chance = random.Random(7)
    found = []
    for number in range(40):
        segment = Segment("town", STATIONS[: 6 + number % 4])
        closed = SHAPES[number % 4] if number % 2 else None
        operator = OPERATORS[number % 5]
        found.append((draw_map(segment, operator, chance, closed=closed), closed))
    return found


def test_a_map_is_read_as_it_was_drawn(drawn):
    for one, closed in drawn:
        reading = read_map(one.pixels)
        assert reading.operator == one.operator.name
        assert reading.markers == one.markers
        assert (reading.has_legend, reading.closed) == (closed is not None, closed)


def test_a_reader_counts_what_is_not_closed(drawn):
    one, _ = drawn[0]
    reading = read_map(one.pixels)
    for shape in SHAPES:
        assert reading.stops(shape) == len(one.markers) - one.markers.count(shape)
    assert reading.stops(None) == len(one.markers)


def test_no_pixel_of_a_map_without_legend_depends_on_what_is_closed():
    segment = Segment("town", STATIONS[:6])
    maps = [draw_map(segment, OPERATORS[0], random.Random(3)) for _ in range(2)]
    assert maps[0].image_id == maps[1].image_id
    told = [draw_map(segment, OPERATORS[0], random.Random(3), closed=shape) for shape in SHAPES]
    assert len({one.image_id for one in told}) == len(SHAPES)
    assert {one.markers for one in (*maps, *told)} == {maps[0].markers}


def test_regions_hold_their_marker_and_the_frame_holds_none(drawn, tmp_path):
    one, _ = drawn[0]
    for shape, region in zip(one.markers, one.regions, strict=True):
        path = tmp_path / f"{region.x0}.png"
        Image.fromarray(one.pixels[region.y0 : region.y1, region.x0 : region.x1]).save(path)
        assert read_crop_file(path) == shape
    frame = one.pixels[one.frame.y0 : one.frame.y1, one.frame.x0 : one.frame.x1]
    Image.fromarray(frame).save(tmp_path / "frame.png")
    assert read_crop_file(tmp_path / "frame.png") is None


def test_the_png_of_a_map_is_its_pixels(drawn):
    one, _ = drawn[0]
    with Image.open(io.BytesIO(one.png)) as opened:
        assert np.array_equal(np.asarray(opened), one.pixels)
    assert one.pixels.shape == (HEIGHT, WIDTH, 3)


def test_nothing_and_a_thin_line_are_no_marker():
    assert recognized(np.zeros((20, 20), dtype=bool)) is None
    ring = np.ones((21, 21), dtype=bool)
    ring[2:19, 2:19] = False
    assert recognized(ring) is None


def test_markers_are_mistaken_at_the_stated_rate_and_the_same_way_again(drawn):
    errors = total = 0
    for number in range(100):
        one, _ = drawn[number % len(drawn)]
        reading = read_map(one.pixels)
        found = with_mistakes(reading, rate=0.05, stamp=str(number))
        assert found == with_mistakes(reading, rate=0.05, stamp=str(number))
        errors += sum(a != b for a, b in zip(found.markers, reading.markers, strict=True))
        total += len(reading.markers)
    assert 0.03 < errors / total < 0.07
    assert with_mistakes(reading, rate=0.0, stamp="x") == reading


def test_every_operator_has_a_convention_and_a_changed_one_is_another():
    seen = Counter()
    for seed in range(50):
        conventions = draw_conventions(seed)
        assert conventions.keys() == {operator.name for operator in OPERATORS}
        assert set(conventions.values()) == set(SHAPES)
        seen.update(conventions.items())
        after = operators.changed(conventions, "Jade Metro", seed)
        differing = {name for name in conventions if conventions[name] != after[name]}
        assert differing == {"Jade Metro"}
    assert len(seen) == len(OPERATORS) * len(SHAPES)


def test_cities_are_on_one_side_only():
    cities = [City(f"town {number}", (STATIONS,)) for number in range(9)]
    split = split_cities(cities)
    assert len(split.construction) + len(split.evaluation) == 9
    assert split_cities(cities[::-1]) == split
    with pytest.raises(AssertionError, match="on both sides"):
        Split(tuple(cities[:3]), tuple(cities[2:]))
    known = {city.name for city in split.construction}
    tried = development_split(split)
    assert {city.name for city in (*tried.construction, *tried.evaluation)} == known


def test_a_segment_is_a_part_of_a_line_either_way():
    city = City("town", (STATIONS,))
    ways = set()
    for number in range(40):
        found = networks.segment([city], random.Random(number)).stations
        forth = STATIONS[STATIONS.index(found[0]) :][: len(found)] == found
        back = STATIONS[::-1][STATIONS[::-1].index(found[0]) :][: len(found)] == found
        assert forth or back
        ways.add(forth)
    assert ways == {True, False}


def test_the_real_networks_are_thirty_cities_halved():
    if not networks.FOLDER.is_dir():
        pytest.skip("the shared data folder is not on this machine")
    cities = networks.load_cities()
    split = split_cities(cities)
    assert (len(split.construction), len(split.evaluation)) == (15, 15)
    names = [station for city in cities for line in city.lines for station in line]
    assert not any("(Transfer" in name or "换乘" in name for name in names)
    assert {"Shady Grove", "环城南路", "Vörösmarty tér"} <= set(names)
