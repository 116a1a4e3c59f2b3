from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from epimem.errors import ImageError, RecordError
from epimem.schema.region import SCALE, Region

sides = st.one_of(st.integers(1, 1_200), st.integers(1, 100_000))


@st.composite
def spans(draw: st.DrawFn, size: int) -> tuple[int, int]:
    start = draw(st.integers(0, size - 1))
    return start, draw(st.integers(start + 1, size))


@st.composite
def regions(draw: st.DrawFn, side: st.SearchStrategy[int] = sides) -> Region:
    width, height = draw(side), draw(side)
    x0, x1 = draw(spans(width))
    y0, y1 = draw(spans(height))
    return Region(x0=x0, y0=y0, x1=x1, y1=y1, width=width, height=height)


@st.composite
def boxes(draw: st.DrawFn) -> tuple[int, int, int, int]:
    x0, x1 = draw(spans(SCALE))
    y0, y1 = draw(spans(SCALE))
    return x0, y0, x1, y1


def through_prompt(region: Region) -> Region:
    return Region.from_scaled(region.to_scaled(), region.width, region.height)


def covers(outer: Region, inner: Region) -> bool:
    return (
        outer.x0 <= inner.x0
        and outer.y0 <= inner.y0
        and outer.x1 >= inner.x1
        and outer.y1 >= inner.y1
    )


@settings(deadline=None)
@given(boxes(), sides, sides)
def test_a_region_made_from_a_box_is_the_same_after_another_round_trip(
    box: tuple[int, int, int, int], width: int, height: int
) -> None:
    region = Region.from_scaled(box, width, height)
    assert through_prompt(region) == region
    if width >= SCALE and height >= SCALE:
        assert region.to_scaled() == box


@settings(deadline=None)
@given(regions(st.integers(1, 500)))
def test_any_region_up_to_500_pixels_a_side_round_trips(region: Region) -> None:
    assert through_prompt(region) == region


@settings(deadline=None)
@given(regions(st.integers(2, 1000)))
def test_regions_of_two_pixels_up_to_1000_a_side_round_trip(region: Region) -> None:
    if region.x1 - region.x0 >= 2 and region.y1 - region.y0 >= 2:
        assert through_prompt(region) == region


@settings(deadline=None)
@given(regions())
def test_a_region_written_as_a_box_is_always_covered_again(region: Region) -> None:
    x0, y0, x1, y1 = region.to_scaled()
    assert 0 <= x0 < x1 <= SCALE
    assert 0 <= y0 < y1 <= SCALE
    assert covers(through_prompt(region), region)


def test_on_small_sides_the_box_is_found_exactly_where_one_exists() -> None:
    for size in [*range(1, 40), 501, 999, 1000, 1001, 1024, 1999]:
        made: dict[tuple[int, int], int] = {}
        for low in range(SCALE):
            for high in range(low + 1, min(low + 8, SCALE + 1)):
                region = Region.from_scaled((low, 0, high, 1), size, 1)
                made[region.x0, region.x1] = 1
        for start in range(0, size, 7):
            for end in range(start + 1, min(start + 4, size + 1)):
                region = Region(x0=start, y0=0, x1=end, y1=1, width=size, height=1)
                back = through_prompt(region)
                if (start, end) in made:
                    assert back == region
                else:
                    assert covers(back, region)


def test_no_narrower_box_covers_the_region() -> None:
    for size in (700, 1000, 1500, 4001):
        for start in range(0, size, 13):
            for end in (start + 1, min(start + 5, size)):
                region = Region(x0=start, y0=0, x1=end, y1=1, width=size, height=1)
                low, _, high, _ = region.to_scaled()
                if through_prompt(region) == region or high - low == 1:
                    continue
                for narrower in ((low + 1, high), (low, high - 1)):
                    box = (narrower[0], 0, narrower[1], 1)
                    assert not covers(Region.from_scaled(box, size, 1), region)


@pytest.mark.parametrize(
    "box",
    [
        (0, 0, 0, 10),
        (10, 0, 5, 10),
        (0, 10, 10, 5),
        (-1, 0, 10, 10),
        (0, 0, 1001, 10),
        (0.0, 0, 10, 10),
        (float("nan"), 0, 10, 10),
        (0, 0, float("inf"), 10),
        (0, 0, 1e308, 10),
        (True, 0, 10, 10),
        ("1", "2", "10", "20"),
        (0, 0, 10),
        (0, 0, 10, 10, 10),
    ],
)
def test_a_box_that_is_no_rectangle_on_the_scale_is_refused_by_name(box: object) -> None:
    with pytest.raises(ImageError) as caught:
        Region.from_scaled(box, 64, 48)  # type: ignore[arg-type]
    assert caught.value.code == "invalid_field"
    assert caught.value.field == "region"


@pytest.mark.parametrize("size", [(0, 10), (10, 0), (-5, 10)])
def test_a_box_on_an_image_without_pixels_is_refused(size: tuple[int, int]) -> None:
    with pytest.raises(ImageError, match="no pixels"):
        Region.from_scaled((0, 0, 10, 10), *size)


@pytest.mark.parametrize(
    "change",
    [
        {"x1": 0},
        {"x1": 65},
        {"y1": 49},
        {"x0": 20, "x1": 10},
        {"x0": -1},
        {"x0": 1.0},
        {"x1": "10"},
        {"x1": float("nan")},
        {"x1": True},
        {"scale": 1000},
    ],
)
def test_a_pixel_region_outside_its_image_or_of_other_types_is_refused(
    change: dict[str, object],
) -> None:
    good: dict[str, object] = {"x0": 0, "y0": 0, "x1": 10, "y1": 10, "width": 64, "height": 48}
    assert Region.read(good).box == (0, 0, 10, 10)
    with pytest.raises(RecordError):
        Region.read(good | change)
    with pytest.raises(ValidationError):
        Region.model_validate(good | change)
