from __future__ import annotations

import io
import math
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from epimem.bank.blobs import BlobStore
from epimem.bank.images import CutCrop, ImageStore, fitted
from epimem.errors import ImageError
from epimem.schema.ids import image_id
from epimem.schema.region import Region
from tests.image_files import (
    encoded,
    picture,
)

GOOD = encoded(picture(), "PNG")


@pytest.fixture(scope="module")
def blobs(tmp_path_factory: pytest.TempPathFactory) -> BlobStore:
    return BlobStore(tmp_path_factory.mktemp("bank") / "blobs")


@pytest.fixture(scope="module")
def images(blobs: BlobStore) -> Iterator[ImageStore]:
    store = ImageStore(blobs)
    yield store
    store.close()


def name_of(image: Image.Image) -> str:
    rgb = image.convert("RGB")
    return image_id(*rgb.size, rgb.tobytes())


def shown(images: ImageStore, data: bytes) -> Image.Image:
    """Return what is stored of an image."""
    width, height, rgb = images.pixels(images.admit(data).blob)
    return Image.frombytes("RGB", (width, height), rgb)


def opened(crop: CutCrop) -> Image.Image:
    image = Image.open(io.BytesIO(crop.png))
    assert (image.mode, image.size) == ("RGB", (crop.width, crop.height))
    return image


# ---- crops


@st.composite
def regions(draw: st.DrawFn) -> Region:
    x0, y0 = draw(st.integers(0, 63)), draw(st.integers(0, 47))
    x1, y1 = draw(st.integers(x0 + 1, 64)), draw(st.integers(y0 + 1, 48))
    return Region(x0=x0, y0=y0, x1=x1, y1=y1, width=64, height=48)


@settings(max_examples=60, deadline=None)
@given(region=regions(), margin=st.sampled_from([0.0, 0.02, 0.1, 1.0]))
def test_a_crop_within_the_budget_equals_the_source_slice(
    images: ImageStore, region: Region, margin: float
) -> None:
    blob = images.admit(GOOD).blob
    crop = images.crop(blob, region, margin=margin, max_pixels=64 * 48)
    extra = round(margin * 64)
    assert crop.region.box == (
        max(0, region.x0 - extra),
        max(0, region.y0 - extra),
        min(64, region.x1 + extra),
        min(48, region.y1 + extra),
    )
    assert opened(crop).tobytes() == picture().crop(crop.region.box).tobytes()


def test_crops_are_not_stored(blobs: BlobStore, images: ImageStore) -> None:
    got = images.admit(GOOD)
    before = list(blobs.names())
    first = images.crop(got.blob, Region.whole(64, 48), max_pixels=100)
    assert list(blobs.names()) == before
    assert images.crop(got.blob, Region.whole(64, 48), max_pixels=100) == first


def test_a_crop_above_the_budget_is_scaled_down_with_its_region_kept(images: ImageStore) -> None:
    source = picture(400, 200)
    blob = images.admit(encoded(source, "PNG")).blob
    region = Region(x0=100, y0=0, x1=400, y1=150, width=400, height=200)
    crop = images.crop(blob, region, margin=0, max_pixels=5_000)
    assert crop.region == region
    assert (crop.width, crop.height) == (100, 50)
    wanted = source.crop(region.box).resize((100, 50), Image.Resampling.LANCZOS)
    assert opened(crop).tobytes() == wanted.tobytes()


@settings(deadline=None)
@given(st.integers(1, 20_000), st.integers(1, 20_000), st.integers(1, 2_000_000))
def test_a_fitted_size_keeps_the_budget_and_the_proportions(
    width: int, height: int, budget: int
) -> None:
    new_width, new_height = fitted(Region.whole(width, height), budget)
    assert 1 <= new_width <= width
    assert 1 <= new_height <= height
    assert new_width * new_height <= budget
    if width * height <= budget:
        assert (new_width, new_height) == (width, height)
    elif min(new_width, new_height) > 1:
        scale = math.sqrt(budget / (width * height))
        assert abs(new_width - width * scale) <= 1
        assert abs(new_height - height * scale) <= 1


@pytest.mark.parametrize(
    ("region", "margin", "max_pixels"),
    [
        (Region.whole(48, 64), 0.02, 100),
        (Region.whole(64, 49), 0.02, 100),
        (Region(x0=0, y0=0, x1=1, y1=1, width=1000, height=1000), 0.02, 100),
        (Region.whole(64, 48), -0.1, 100),
        (Region.whole(64, 48), 1.1, 100),
        (Region.whole(64, 48), math.nan, 100),
        (Region.whole(64, 48), 0.02, 0),
        (Region.whole(64, 48), 0.02, -5),
    ],
)
def test_a_region_of_another_image_or_an_odd_margin_or_budget_is_refused(
    images: ImageStore, region: Region, margin: float, max_pixels: int
) -> None:
    blob = images.admit(GOOD).blob
    with pytest.raises(ImageError) as caught:
        images.crop(blob, region, margin=margin, max_pixels=max_pixels)
    assert caught.value.code == "invalid_field"


def test_a_crop_of_a_real_picture_equals_its_slice(images: ImageStore) -> None:
    folder = Path(__file__).resolve().parents[3] / "../shared/data/vlm_runs/images"
    if not folder.is_dir():
        pytest.skip("the folder with the 36 real runs is absent")
    for path in sorted(folder.iterdir())[::4]:
        source = Image.open(path).convert("RGB")
        got = images.admit(path.read_bytes())
        assert got.image_id == name_of(source)
        region = Region.from_scaled((100, 200, 480, 610), *source.size)
        crop = images.crop(got.blob, region, max_pixels=10**6)
        assert opened(crop).tobytes() == source.crop(crop.region.box).tobytes()
        assert crop.region.box[0] == region.x0 - round(0.02 * max(source.size))
