from __future__ import annotations

import io
import pickle
from dataclasses import replace

import numpy as np
import pytest
from PIL import Image

from epimem.bank.blobs import BlobStore
from epimem.bank.images import ImageStore
from epimem.errors import ImageError, NotFoundError
from epimem.protocols import Picture
from epimem.schema.ids import image_id
from epimem.schema.region import Region
from tests import image_files
from tests.training.demonstrations import made
from training.demonstrations.images import ImageFolder, stored_name

WHOLE = 10**8


@pytest.fixture
def folder(tmp_path):
    return ImageFolder(tmp_path / "images")


@pytest.fixture
def bank_images(tmp_path):
    store = ImageStore(BlobStore(tmp_path / "blobs"))
    yield store
    store.close()


def shown(png: bytes) -> np.ndarray:
    return np.asarray(Image.open(io.BytesIO(png)))


def test_an_image_is_named_by_its_upright_pixels_however_it_is_handed_in(folder) -> None:
    image = image_files.picture(64, 48)
    array = np.asarray(image)
    wanted = image_id(64, 48, array.tobytes())
    turned = image_files.with_orientation(image.rotate(90, expand=True), "PNG", 6)
    for data in (array, image, image_files.encoded(image, "PNG"), turned):
        found = folder.add(data, 3)
        assert (found.image_id, found.width, found.height, found.page) == (wanted, 64, 48, 3)
        assert (shown(found.png(WHOLE)) == array).all()


@pytest.mark.parametrize(
    "strange",
    [
        np.zeros((4, 4), np.uint8),
        np.zeros((4, 4, 4), np.uint8),
        np.zeros((4, 4, 3), np.float32),
        np.zeros((0, 4, 3), np.uint8),
        b"",
        pickle.dumps({"a": 1}),
        image_files.encoded(image_files.picture(), "PNG")[:-30],
        image_files.encoded(image_files.picture(), "GIF"),
    ],
)
def test_what_is_no_image_is_refused(folder, strange) -> None:
    with pytest.raises(ImageError):
        folder.add(strange)


@pytest.mark.parametrize("limit", [WHOLE, 1000, 300, 7, 1])
def test_a_stored_picture_gives_the_bytes_that_the_picture_of_a_bank_gives(
    folder, bank_images, limit
) -> None:
    admitted = bank_images.admit(image_files.encoded(image_files.picture(90, 70), "PNG"))
    region = Region(x0=11, y0=5, x1=64, y1=52, width=90, height=70)

    def read(most: int) -> bytes:
        return bank_images.crop(admitted.blob, region, margin=0, max_pixels=most).png

    crop = Picture(admitted.image_id, 53, 47, 0, read)
    found = folder.reader(folder.keep(crop))
    assert found(limit) == crop.png(limit)
    width, height = Image.open(io.BytesIO(found(limit))).size
    assert width * height <= limit


def test_a_page_is_kept_once_and_a_crop_under_its_own_name(folder, bank_images) -> None:
    admitted = bank_images.admit(image_files.encoded(image_files.picture(90, 70), "PNG"))
    reads: list[str] = []

    def picture(region: Region, page: int) -> Picture:
        def read(most: int) -> bytes:
            reads.append(str(page))
            return bank_images.crop(admitted.blob, region, margin=0, max_pixels=most).png

        return Picture(admitted.image_id, region.x1 - region.x0, region.y1 - region.y0, page, read)

    page = picture(Region.whole(90, 70), 1)
    left = picture(Region(x0=0, y0=0, x1=20, y1=20, width=90, height=70), 0)
    right = picture(Region(x0=50, y0=0, x1=70, y1=20, width=90, height=70), 0)
    assert left == right  # only their pixels tell them apart
    names = [folder.keep(each) for each in (page, left, right)]
    assert names[0] == admitted.image_id
    assert len(set(names)) == 3
    for name, x in zip(names[1:], (0, 50), strict=True):
        whole = np.asarray(image_files.picture(90, 70))
        assert (shown(folder.reader(name)(WHOLE)) == whole[:20, x : x + 20]).all()
    assert [folder.keep(each) for each in (page, left, right)] == names
    assert reads == ["1", "0", "0", "0", "0"]  # the page was not read again


def test_a_picture_that_is_gone_or_of_another_size_is_refused(folder) -> None:
    with pytest.raises(ImageError, match="cannot be read"):
        folder.keep(Picture("0" * 64, 3, 3, 1))
    found = folder.add(made.pixels(8, 6))
    with pytest.raises(ImageError, match="another size"):
        folder.keep(replace(found, width=9))


def test_a_picture_may_go_to_another_process(folder) -> None:
    found = folder.add(made.pixels(8, 6))
    sent = pickle.loads(pickle.dumps(found))
    assert sent.png(10) == found.png(10)
    assert stored_name(sent) == found.image_id


def test_a_name_that_leads_elsewhere_is_no_image(folder, tmp_path) -> None:
    (tmp_path / "secret.png").write_bytes(image_files.encoded(image_files.picture(), "PNG"))
    for name in ("../secret", "a", "A" * 64, "0" * 63, f"{'0' * 64}\n", ""):
        with pytest.raises(NotFoundError):
            folder.reader(name)


def test_a_damaged_copy_is_replaced_when_the_image_comes_again(folder) -> None:
    found = folder.add(made.pixels(8, 6))
    whole = found.read.path.read_bytes()
    found.read.path.write_bytes(whole[:40])
    assert found.png(100) is None
    folder.add(made.pixels(8, 6))
    assert found.read.path.read_bytes() == whole
