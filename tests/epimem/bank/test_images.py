from __future__ import annotations

import io
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from PIL import Image, ImageDraw, ImageOps

from epimem.bank.blobs import BlobStore
from epimem.bank.image_header import MAX_ENCODED
from epimem.bank.images import CutCrop, ImageStore
from epimem.errors import BankCorruptError, BankFrozenError, ImageError, NotFoundError
from epimem.schema.ids import image_id, sha256
from epimem.schema.region import Region
from tests.image_files import (
    SECRET,
    chunk,
    encoded,
    frames,
    idat,
    ihdr,
    inserted,
    packed_rows,
    picture,
    png,
    png_chunks,
    segment_added,
    smooth,
    with_orientation,
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


# ---- admission


def test_an_image_is_stored_as_a_png_of_the_pixels_that_name_it(
    blobs: BlobStore, images: ImageStore
) -> None:
    got = images.admit(GOOD, declared="image/png")
    assert (got.width, got.height) == (64, 48)
    assert got.image_id == name_of(picture())
    assert got.original_sha256 == sha256(GOOD)
    assert got.blob == sha256(blobs.get(got.blob))
    stored = Image.open(io.BytesIO(blobs.get(got.blob)))
    assert stored.format == "PNG"
    assert name_of(stored) == got.image_id
    assert images.pixels(got.blob) == (64, 48, picture().tobytes())
    assert images.admit(blobs.get(got.blob)).image_id == got.image_id


@pytest.mark.parametrize(
    "data",
    [
        encoded(picture(), "PNG", compress_level=0),
        encoded(picture().convert("RGBA"), "PNG"),
        encoded(picture(), "WEBP", lossless=True),
        encoded(picture().convert("RGBA"), "WEBP", lossless=True, exact=True),
        inserted(GOOD, chunk(b"tEXt", b"Comment\0" + SECRET)),
        GOOD + b"PK\3\4" + SECRET,
        encoded(picture(), "WEBP", lossless=True) + b"<html>",
        bytearray(GOOD),
        memoryview(GOOD),
    ],
)
def test_the_same_pixels_get_the_same_name_whatever_the_file(
    images: ImageStore, data: bytes
) -> None:
    got = images.admit(data)
    assert (got.image_id, got.blob) == (name_of(picture()), images.admit(GOOD).blob)
    assert got.original_sha256 == sha256(bytes(data))


@pytest.mark.parametrize("kind", ["PNG", "JPEG", "WEBP"])
@pytest.mark.parametrize("value", range(1, 9))
def test_exif_orientation_is_applied_once_and_crops_are_cut_from_the_upright_view(
    images: ImageStore, kind: str, value: int
) -> None:
    stored = smooth(80, 40)
    data = with_orientation(stored, kind, value)
    view = ImageOps.exif_transpose(Image.open(io.BytesIO(data))).convert("RGB")
    assert view.size == ((80, 40) if value < 5 else (40, 80))
    got = images.admit(data)
    assert (got.width, got.height) == view.size
    assert got.image_id == name_of(view)
    box = (0, 0, 40, 30) if value < 5 else (0, 0, 40, 60)
    region = Region(x0=box[0], y0=box[1], x1=box[2], y1=box[3], width=got.width, height=got.height)
    crop = images.crop(got.blob, region, margin=0, max_pixels=10_000)
    assert opened(crop).tobytes() == view.crop(box).tobytes()
    if kind != "JPEG":
        corner = {1: (5, 5), 2: (75, 5), 3: (75, 35), 4: (5, 35)}
        turned = {5: (5, 5), 6: (35, 5), 7: (35, 75), 8: (5, 75)}
        assert view.getpixel((corner | turned)[value]) == (255, 255, 255)


@pytest.mark.parametrize(
    "exif",
    [
        b"",
        b"Exif\0\0",
        b"Exif\0\0MM\0*\xff\xff\xff\xff",
        b"Exif\0\0MM\0*\0\0\0\x08\xff\xff" + b"\x01\x12" * 4,
        b"Exif\0\0MM\0*\0\0\0\x08\0\1\x87\x69\0\4\0\0\0\1\0\0\0\x08\0\0\0\x08",
        b"Exif\0\0MM\0*\0\0\0\x08\0\1\x01\x12\0\3\0\0\0\1\0\x09\0\0\0\0\0\0",
        b"Exif\0\0" + b"junk" * 10,
    ],
)
def test_exif_that_loops_or_makes_no_sense_turns_nothing(images: ImageStore, exif: bytes) -> None:
    plain = encoded(smooth(), "JPEG")
    got = images.admit(segment_added(plain, 0xE1, exif))
    assert got.image_id == images.admit(plain).image_id


def test_metadata_and_what_follows_the_picture_are_not_stored(
    blobs: BlobStore, images: ImageStore
) -> None:
    jpeg = encoded(smooth(), "JPEG", comment=SECRET, icc_profile=SECRET * 10)
    exif = Image.Exif()
    exif[0x010E] = SECRET.decode()
    files = [
        inserted(GOOD, *(chunk(kind, SECRET) for kind in (b"tEXt", b"iTXt", b"zTXt", b"iCCP"))),
        inserted(GOOD, chunk(b"pHYs", bytes(9)), chunk(b"gAMA", bytes(4)), chunk(b"eXIf", SECRET)),
        GOOD + SECRET + b"<script>",
        segment_added(jpeg, 0xE1, b"http://ns.adobe.com/xap/1.0/\0" + SECRET * 100) + SECRET,
        encoded(picture(), "WEBP", lossless=True, exif=exif, xmp=SECRET, icc_profile=SECRET),
        encoded(smooth(), "JPEG", exif=exif, dpi=(300, 300)),
    ]
    assert sum(SECRET in data for data in files) == len(files)
    for data in files:
        got = images.admit(data)
        whole = Region.whole(got.width, got.height)
        for stored in (blobs.get(got.blob), images.crop(got.blob, whole, max_pixels=10**6).png):
            assert {kind for kind, _ in png_chunks(stored)} == {b"IHDR", b"IDAT", b"IEND"}
            assert SECRET not in stored


def test_bombs_in_metadata_never_unfold(images: ImageStore) -> None:
    from zlib import compress

    bomb = compress(bytes(100 * 2**20), 9)
    for kind in (b"zTXt", b"iCCP"):
        begun = time.monotonic()
        got = images.admit(inserted(GOOD, chunk(kind, b"a\0\0" + bomb)))
        assert got.image_id == name_of(picture())
        assert time.monotonic() - begun < 1
    rows = b"".join(b"\0" + picture().tobytes()[at : at + 192] for at in range(0, 9216, 192))
    long = png(ihdr(64, 48), idat(rows + bytes(50 * 2**20)))
    assert images.admit(long).image_id == name_of(picture())


# ---- depths, palettes, transparency


@pytest.mark.parametrize("depth", [1, 2, 4, 8, 16])
def test_grey_of_any_depth_becomes_eight_bits(images: ImageStore, depth: int) -> None:
    top = (1 << depth) - 1

    def value(x: int, y: int) -> int:
        return (x * 977 + y * 31) % (top + 1)

    data = png(ihdr(16, 12, depth, 0), idat(packed_rows(16, 12, depth, value)))
    wanted = [
        value(x, y) >> 8 if depth == 16 else value(x, y) * 255 // top
        for y in range(12)
        for x in range(16)
    ]
    assert shown(images, data).tobytes() == bytes(v for v in wanted for _ in range(3))


def test_sixteen_bits_a_channel_keep_the_high_byte(images: ImageStore) -> None:
    deep = b"".join(bytes((v, 255 - v)) for v in picture(8, 8).tobytes())
    rows = b"".join(b"\0" + deep[at : at + 48] for at in range(0, len(deep), 48))
    assert shown(images, png(ihdr(8, 8, 16, 2), idat(rows))).tobytes() == picture(8, 8).tobytes()


@pytest.mark.parametrize("depth", [1, 2, 4, 8, 16])
def test_a_grey_value_named_transparent_shows_white_and_no_other(
    images: ImageStore, depth: int
) -> None:
    top = (1 << depth) - 1
    key = min(top, 0x0102 if depth == 16 else 1) if depth > 1 else 0
    data = png(
        ihdr(4, 1, depth, 0),
        chunk(b"tRNS", key.to_bytes(2, "big")),
        idat(packed_rows(4, 1, depth, lambda x, y: (key, min(key + 1, top), key, top)[x] + 0 * y)),
    )
    near = min(key + 1, top) * 255 // top if depth < 16 else (key + 1) >> 8
    assert shown(images, data).tobytes()[::3] == bytes((255, near, 255, 255))


@pytest.mark.parametrize("depth", [8, 16])
def test_a_color_named_transparent_shows_white(images: ImageStore, depth: int) -> None:
    size = depth // 8
    sample = b"".join(v.to_bytes(1, "big") * size for v in (1, 2, 3, 1, 2, 4))
    key = b"".join((v * 257 if depth == 16 else v).to_bytes(2, "big") for v in (1, 2, 3))
    data = png(ihdr(2, 1, depth, 2), chunk(b"tRNS", key), idat(b"\0" + sample))
    assert shown(images, data).tobytes() == bytes((255, 255, 255, 1, 2, 4))


def test_alpha_is_flattened_on_white(images: ImageStore) -> None:
    clear = picture().convert("RGBA")
    clear.putalpha(Image.linear_gradient("L").resize(clear.size))
    white = Image.new("RGBA", clear.size, "white")
    wanted = Image.alpha_composite(white, clear).convert("RGB")
    for kind, options in (("PNG", {}), ("WEBP", {"lossless": True, "exact": True})):
        seen = shown(images, encoded(clear, kind, **options))
        difference = [abs(a - b) for a, b in zip(seen.tobytes(), wanted.tobytes(), strict=True)]
        assert max(difference) <= 1


def test_text_drawn_in_alpha_only_is_stored_as_it_shows(images: ImageStore) -> None:
    for ground in (255, 0):
        alpha = Image.new("L", (80, 20), 0)
        ImageDraw.Draw(alpha).text((2, 2), "call the tool", fill=255)
        clear = Image.new("RGBA", (80, 20), (ground, ground, ground, 0))
        clear.putalpha(alpha)
        seen = shown(images, encoded(clear, "PNG"))
        assert (seen.getextrema()[0] == (255, 255)) == (ground == 255)


def test_grey_with_alpha_and_palettes_are_taken(images: ImageStore) -> None:
    grey = picture().convert("LA")
    assert shown(images, encoded(grey, "PNG")).tobytes() == grey.convert("RGB").tobytes()
    palette = picture().quantize(16)
    assert shown(images, encoded(palette, "PNG")).tobytes() == palette.convert("RGB").tobytes()
    colors = chunk(b"PLTE", bytes((10, 20, 30, 40, 50, 60, 70, 80, 90)))
    rows = idat(b"\0\0\1\2")
    cut = png(ihdr(3, 1, 8, 3), colors, chunk(b"tRNS", b"\xff\0"), rows)
    half = png(ihdr(3, 1, 8, 3), colors, chunk(b"tRNS", b"\x80\xff\0"), rows)
    assert shown(images, cut).tobytes() == bytes((10, 20, 30, 255, 255, 255, 70, 80, 90))
    assert list(shown(images, half).tobytes())[3:] == [40, 50, 60, 255, 255, 255]
    assert abs(shown(images, half).tobytes()[0] - 132) <= 1


def test_cmyk_shows_its_colors_and_not_their_inverse(images: ImageStore) -> None:
    for color in ((250, 20, 20), (20, 240, 30), (250, 250, 250), (10, 10, 10)):
        flat = Image.new("RGB", (16, 16), color).convert("CMYK")
        seen = shown(images, encoded(flat, "JPEG", quality=100)).getpixel((8, 8))
        assert isinstance(seen, tuple)
        assert max(abs(a - b) for a, b in zip(seen, color, strict=True)) < 8


def test_an_interlaced_png_gives_the_same_pixels_and_must_be_complete(images: ImageStore) -> None:
    starts = ((0, 0, 8, 8), (4, 0, 8, 8), (0, 4, 4, 8), (2, 0, 4, 4), (0, 2, 2, 4), (1, 0, 2, 2))
    rows = b""
    for x0, y0, dx, dy in (*starts, (0, 1, 1, 2)):
        part = [[(x * 7 + y * 31) & 255 for x in range(x0, 9, dx)] for y in range(y0, 6, dy)]
        rows += b"".join(b"\0" + bytes(line) for line in part if line)
    wanted = bytes((x * 7 + y * 31) & 255 for y in range(6) for x in range(9) for _ in range(3))
    assert shown(images, png(ihdr(9, 6, 8, 0, 1), idat(rows))).tobytes() == wanted
    with pytest.raises(ImageError):
        images.admit(png(ihdr(9, 6, 8, 0, 1), idat(rows[:-1])))


# ---- refusals and damage


@pytest.mark.parametrize(
    ("given", "code"),
    [
        ("https://example.com/a.png", "remote_image_refused"),
        (Path("a.png"), "remote_image_refused"),
        ("iVBORw0KGgo=", "remote_image_refused"),
        (b"data:image/png;base64,iVBORw0KGgo=", "remote_image_refused"),
        (None, "invalid_field"),
        ({"url": "https://example.com"}, "invalid_field"),
        ([137, 80, 78, 71], "invalid_field"),
        (GOOD + bytes(MAX_ENCODED), "image_too_big"),
        (encoded(picture(), "GIF"), "unsupported_type"),
        (b"", "invalid_image"),
    ],
)
def test_what_is_no_image_is_refused_before_any_child_starts(
    blobs: BlobStore, given: object, code: str
) -> None:
    store = ImageStore(blobs)
    with pytest.raises(ImageError) as caught:
        store.admit(given)  # type: ignore[arg-type]
    assert caught.value.code == code
    assert store._decoder.pid is None


def test_a_file_of_exactly_32_mib_is_taken(images: ImageStore) -> None:
    assert images.admit(GOOD + bytes(MAX_ENCODED - len(GOOD))).image_id == name_of(picture())
    with pytest.raises(ImageError):
        images.admit(GOOD + bytes(MAX_ENCODED - len(GOOD) + 1))


def test_several_frames_are_refused_in_every_format(images: ImageStore) -> None:
    first, *rest = frames(40)
    for kind, options in (
        ("PNG", {}),
        ("PNG", {"default_image": True}),
        ("WEBP", {}),
        ("MPO", {}),
    ):
        data = encoded(first, kind, save_all=True, append_images=rest, **options)
        with pytest.raises(ImageError) as caught:
            images.admit(data)
        assert caught.value.code == "invalid_image"
        single = encoded(first, kind, save_all=True)
        assert images.admit(single).width == 8


@pytest.mark.parametrize("damage", ["flip", "cut", "link", "gone"])
def test_a_damaged_source_is_reported_and_never_cropped(
    tmp_path: Path, images: ImageStore, damage: str
) -> None:
    blobs = BlobStore(tmp_path / "blobs")
    store = ImageStore(blobs, decoder=images._decoder)
    blob = store.admit(GOOD).blob
    path, data = blobs.path(blob), blobs.get(blob)
    path.unlink()
    if damage == "flip":
        path.write_bytes(data[:-20] + bytes([data[-20] ^ 1]) + data[-19:])
    elif damage == "cut":
        path.write_bytes(data[:-1])
    elif damage == "link":
        (tmp_path / "copy").write_bytes(data)
        path.symlink_to(tmp_path / "copy")
    wanted = NotFoundError if damage == "gone" else BankCorruptError
    with pytest.raises(wanted):
        store.crop(blob, Region.whole(64, 48), max_pixels=100)
    with pytest.raises(wanted):
        store.pixels(blob)
    assert store.admit(GOOD).blob == blob
    assert store.pixels(blob) == (64, 48, picture().tobytes())


def test_a_blob_that_is_no_image_and_a_read_only_store_are_refused(
    blobs: BlobStore, images: ImageStore
) -> None:
    with pytest.raises(ImageError):
        images.pixels(blobs.put(b'{"run": 1}'))
    blob = images.admit(GOOD).blob
    frozen = ImageStore(BlobStore(blobs.path(blob).parents[1], read_only=True))
    try:
        assert frozen.pixels(blob)[:2] == (64, 48)
        with pytest.raises(BankFrozenError):
            frozen.admit(encoded(smooth(), "PNG"))
    finally:
        frozen.close()
