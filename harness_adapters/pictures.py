"""Images of foreign records: read beside their document or out of a data URL, then admitted.

Nothing is fetched. What cannot be had is replaced by a text that says so, and noted.
"""

from __future__ import annotations

import base64
import re
from pathlib import Path

from epimem.errors import ImageError
from epimem.schema.atif import ContentPart, ImageMediaType, ImageSource
from epimem.schema.run import IMAGE_PREFIX, Page
from harness_adapters.documents import inside
from harness_adapters.importer import Admit, AdmittedImage, FieldTally, ImportedImage

MAX_IMAGE = 32 * 1024 * 1024
SHOWN_ADDRESS = 200
_DATA_URL = re.compile(r"data:([^,;]*)((?:;[^,;]*)*),", re.IGNORECASE)
_BASE64 = re.compile(r"[A-Za-z0-9+/]*={0,2}")
_SCHEME = re.compile(r"[a-z][a-z0-9+.-]*:", re.IGNORECASE)
_ALIASES = {"image/jpg": "image/jpeg", "image/pjpeg": "image/jpeg", "image/x-png": "image/png"}


class Pictures:
    """The images of one record: admits them and remembers what was admitted."""

    def __init__(self, admit: Admit, tally: FieldTally) -> None:
        self._admit = admit
        self._tally = tally
        self._admitted: dict[str, AdmittedImage] = {}
        self.images: list[ImportedImage] = []

    def add(self, data: bytes, name: str) -> AdmittedImage:
        """Admit an image.

        Raises:
            ImageError: the bank refuses it.
        """
        image = self._admit(data)
        self._admitted[image.image_id] = image
        self.images.append(ImportedImage(data, name, image.image_id))
        return image

    def part(self, data: bytes, name: str, declared: str = "") -> ContentPart:
        """Admit an image and return the part that shows it; the bytes tell its media type.

        Raises:
            ImageError: `unsupported_type`, or what the bank refuses it for.
        """
        media_type = media_type_of(data)
        image = self.add(data, name)
        declared = declared.strip().lower()
        if declared and _ALIASES.get(declared, declared) != media_type:
            self._tally.note("media_type_corrected", f"{name}: {media_type}, not as declared")
        path = IMAGE_PREFIX + image.image_id
        return ContentPart(type="image", source=ImageSource(media_type=media_type, path=path))

    def placeholder(self, error: ImageError, name: str) -> ContentPart:
        """Return a text that stands where an image could not be had, and note it."""
        self._tally.note(error.code, f"image not imported: {error.message}")
        shown = f", {name[:SHOWN_ADDRESS]}" if name else ""
        return ContentPart(type="text", text=f"[image not imported: {error.code}{shown}]")

    def pages(self, parts: tuple[ContentPart, ...]) -> tuple[Page, ...]:
        """Return the admitted images among `parts` as the pages of a question, in order."""
        paths = [part.source.path for part in parts if isinstance(part.source, ImageSource)]
        found = [self._admitted.get(path.removeprefix(IMAGE_PREFIX)) for path in paths]
        images = [image for image in found if image is not None]
        return tuple(page(number, image) for number, image in enumerate(images, start=1))


def page(number: int, image: AdmittedImage) -> Page:
    """Return an admitted image as a page."""
    return Page(page=number, image_id=image.image_id, width=image.width, height=image.height)


def media_type_of(data: bytes) -> ImageMediaType:
    """Return the media type that the first bytes say.

    Raises:
        ImageError: `unsupported_type`.
    """
    if data.startswith(b"\x89PNG\r\n\x1a\n"):
        return "image/png"
    if data.startswith(b"\xff\xd8\xff"):
        return "image/jpeg"
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        return "image/webp"
    if data[:6] in {b"GIF87a", b"GIF89a"}:
        return "image/gif"
    raise ImageError("not a PNG, JPEG, WebP or GIF image", code="unsupported_type")


def from_data_url(url: str) -> tuple[bytes, str]:
    """Return the bytes in a base64 data URL and the media type it declares.

    Raises:
        ImageError: `remote_image_refused` for any other address, `invalid_image` for bad base64.
    """
    match = _DATA_URL.match(url)
    if match is None:
        raise ImageError("only data URLs carry an image", code="remote_image_refused")
    if "base64" not in match[2].lower().split(";"):
        raise ImageError("a data URL must be base64", code="invalid_image")
    payload = url[match.end() :]
    # The decoder alone lets surplus padding pass.
    if len(payload) % 4 or not _BASE64.fullmatch(payload):
        raise ImageError("not base64", code="invalid_image")
    return base64.b64decode(payload), match[1]


def read_beside(folder: Path, name: str) -> bytes:
    """Return the bytes of an image file that lies in `folder` or below it.

    Raises:
        ImageError: `remote_image_refused` for an address or a path that leaves the folder,
            `invalid_image` where no such file is, `image_too_big`.
    """
    if _SCHEME.match(name.strip()):
        raise ImageError("an address is not fetched", code="remote_image_refused")
    target = folder / name
    if leaves(folder, name):
        raise ImageError("the path leaves its folder", code="remote_image_refused")
    if not inside(folder, target):
        raise ImageError("no such image file", code="invalid_image")
    with target.open("rb") as file:
        data = file.read(MAX_IMAGE + 1)
    if len(data) > MAX_IMAGE:
        raise ImageError("image file too big", code="image_too_big", limit=MAX_IMAGE)
    return data


def leaves(folder: Path, name: str) -> bool:
    """Say whether a path, links followed, names something outside `folder`."""
    try:
        return not (folder / name).resolve().is_relative_to(folder.resolve())
    except (OSError, RuntimeError, ValueError):
        return True
