"""What is drawn is where it is said to be, and nothing but a printed key says what it means."""

import io
from dataclasses import replace

import numpy as np
import pytest
from PIL import Image

from epimem.schema import ids
from epimem.schema.region import Region
from training.worlds import WORLDS
from training.worlds.chance import chance
from training.worlds.chart_topics import AXIS, FORECAST, REVISED, SCALE
from training.worlds.house import NAMES, House, draw_house, house_name
from training.worlds.ledger_topics import EMBLEM, OUTGOINGS
from training.worlds.table_topics import BLANKS
from training.worlds.topic import Mark
from training.worlds.world import SIZES, Order, dealt

ALL = [(world, topic) for world in WORLDS.values() for topic in world.topics]
BLANK, MANY = 230, 3000
"""Paper and its specks are lighter than the first; so many houses are compared."""
NAMED = [f"{world.name}: {topic.name}" for world, topic in ALL]
REGION = Region(x0=0, y0=0, x1=1, y1=1, width=1, height=1)


def house(world, seed=1):
    return draw_house(world.name, seed, world.topics, seed=seed)


def drawn(world, topic, seed=1, **order):
    return world.new_page(house(world, seed), topic, chance("test", seed), **order)


def pixels(page):
    return np.asarray(page.image)


@pytest.mark.parametrize(("world", "topic"), ALL, ids=NAMED)
def test_the_same_seed_draws_the_same_page_and_another_seed_another(world, topic):
    once, again, other = (drawn(world, topic, seed) for seed in (1, 1, 2))
    assert once.image_id == again.image_id
    assert once.marks == again.marks
    assert once.image_id != other.image_id


@pytest.mark.parametrize(("world", "topic"), ALL, ids=NAMED)
def test_every_page_has_the_wanted_mark_and_things_of_a_page_have_others_beside_it(world, topic):
    for seed in range(3):
        own = house(world, seed).options[topic.name]
        for want in topic.options:
            page = drawn(world, topic, seed, want=want)
            options = {mark.option for mark in page.marks}
            assert want in options
            assert topic.of_page or (own in options and len(options - {""}) >= 2)


@pytest.mark.parametrize(
    ("world", "topic"),
    [(WORLDS["charts"], SCALE), (WORLDS["charts"], AXIS), (WORLDS["ledgers"], EMBLEM)],
)
def test_two_pages_that_differ_in_the_mark_of_the_page_differ_in_its_region_alone(world, topic):
    first, second, *_ = topic.options
    one, other = (pixels(drawn(world, topic, 3, want=want)) for want in (first, second))
    box = drawn(world, topic, 3, want=first).marks[0].region
    assert one.shape == other.shape
    rows, columns = np.nonzero((one != other).any(axis=2))
    assert len(rows) > 10
    assert box.y0 <= rows.min() <= rows.max() < box.y1
    assert box.x0 <= columns.min() <= columns.max() < box.x1


def test_the_region_of_a_plain_bar_is_the_bar_to_the_pixel():
    page = drawn(WORLDS["charts"], FORECAST)
    shown = pixels(page)
    plain = next(mark.region for mark in page.marks if not mark.option)
    inside = shown[plain.y0 : plain.y1, plain.x0 : plain.x1].reshape(-1, 3)
    assert len(np.unique(inside, axis=0)) == 1
    assert (shown[plain.y0 : plain.y1, plain.x0 - 1] != inside[0]).any(axis=1).all()
    assert (shown[plain.y0 : plain.y1, plain.x1] != inside[0]).any(axis=1).all()
    assert (shown[plain.y0 - 1, plain.x0 : plain.x1] != inside[0]).any(axis=1).all()


@pytest.mark.parametrize(("world", "topic"), ALL, ids=NAMED)
def test_things_with_different_marks_look_different(world, topic):
    for seed in range(3):
        by_option = {}
        for want in topic.options:
            page = drawn(world, topic, seed, want=want)
            for mark in page.marks:
                region = mark.region
                cut = pixels(page)[region.y0 : region.y1, region.x0 : region.x1]
                assert (cut < 200).any(), (seed, mark)
                by_option.setdefault(mark.option, cut.tobytes())
        assert len(set(by_option.values())) == len(by_option)


@pytest.mark.parametrize(("world", "topic"), ALL, ids=NAMED)
def test_a_key_is_printed_where_it_is_ordered_and_nothing_else_stands_in_its_strip(world, topic):
    for seed in range(4):
        without, keyed = (drawn(world, topic, seed, with_key=key) for key in (False, True))
        assert without.key is None
        box = keyed.key
        assert (pixels(without)[box.y0 : box.y1] > BLANK).all()
        strip = pixels(keyed).copy()
        assert (strip[box.y0 : box.y1, box.x0 : box.x1] <= BLANK).any()
        strip[box.y0 : box.y1, box.x0 : box.x1] = 255
        assert (strip[box.y0 : box.y1] > BLANK).all()


@pytest.mark.parametrize("world", WORLDS.values(), ids=list(WORLDS))
def test_keys_stand_above_and_below_the_body_and_at_either_end(world):
    keys = [drawn(world, world.topics[0], seed, with_key=True).key for seed in range(40)]
    places = [(2 * key.y0 < key.height, key.x0 == 12) for key in keys]
    assert {
        places.count((above, left)) > 4 for above in (True, False) for left in (True, False)
    } == {True}
    assert all(key.x1 < key.width - 4 for key in keys)


@pytest.mark.parametrize(("world", "topic"), ALL, ids=NAMED)
def test_the_spare_corner_is_empty_and_the_header_is_not(world, topic):
    page = drawn(world, topic)
    shown = pixels(page)
    for region, empty in ((page.spare, True), (page.header, False)):
        cut = shown[region.y0 : region.y1, region.x0 : region.x1]
        assert bool((cut > BLANK).all()) == empty


def test_a_picture_is_named_by_its_pixels_and_is_scaled_down_to_what_is_asked_for():
    page = drawn(WORLDS["tables"], BLANKS)
    picture = page.picture
    with Image.open(io.BytesIO(picture.png(10**9))) as opened:
        rgb = opened.convert("RGB")
    assert picture.image_id == ids.image_id(*rgb.size, rgb.tobytes())
    assert rgb.size == (picture.width, picture.height)
    assert rgb.size in SIZES
    with Image.open(io.BytesIO(picture.png(5000))) as small:
        assert 4000 < small.width * small.height <= 5000
    mark = page.marks[0].region
    crop = page.crop(mark)
    with Image.open(io.BytesIO(crop.png(10**9))) as opened:
        assert opened.size == (crop.width, crop.height)
    margin = round(0.02 * max(page.image.size))
    assert crop.image_id == page.image_id
    assert (crop.page, crop.width) == (0, mark.x1 - mark.x0 + 2 * margin)


def test_crops_of_one_sign_from_two_houses_are_not_the_same_picture():
    world = WORLDS["charts"]
    pages = [drawn(world, SCALE, seed, want="ring") for seed in range(24)]
    crops = [page.crop(page.marks[0].region).png(10**9) for page in pages]
    assert len({page.image.size for page in pages}) < len(pages)
    assert len(set(crops)) == len(crops)


@pytest.mark.parametrize(
    ("topic", "option", "answer"),
    [
        (FORECAST, "hatched", "1,100"),
        (FORECAST, "dotted", "1,430"),
        (OUTGOINGS, "hatched", "770"),
        (BLANKS, "hatched", "3"),
        (BLANKS, "dotted", "2"),
        (REVISED, "hollow", "30"),
        (SCALE, "", "1,000,000"),
        (SCALE, "ring", "1,000"),
        (AXIS, "hollow", "no"),
        (AXIS, "gap", "yes"),
    ],
)
def test_the_answer_follows_from_the_marks_and_the_option_that_is_taken(topic, option, answer):
    marks = [
        Mark(name, value, REGION)
        for name, value in (("", 1000), ("hatched", 330), ("hollow", 30), ("", 70))
    ]
    assert topic.answer(marks, option) == answer


def test_houses_have_names_of_their_own_and_conventions_that_the_name_does_not_give_away():
    names = {house_name("charts", number, seed=4) for number in range(MANY)}
    assert len(names) == MANY < NAMES
    assert house_name("charts", 0, seed=4) != house_name("tables", 0, seed=4)
    world = WORLDS["charts"]
    found = {draw_house("charts", at, world.topics, seed=4).options[SCALE.name] for at in range(40)}
    assert found == set(SCALE.options)


def test_marks_are_dealt_with_plain_things_among_them():
    own = House("x", (0, 0, 0), {FORECAST.name: "hatched"})
    order = Order(own, FORECAST, "hollow", with_key=False, size=SIZES[0])
    for seed in range(30):
        for order_ in (order, replace(order, want="hatched")):
            found = dealt(order_, 5, chance(seed))
            assert len(found) == 5
            assert "" in found
            assert "hatched" in found
            assert order_.want in found
            assert len({*found} - {"", "hatched"}) >= 1
