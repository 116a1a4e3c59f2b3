"""Real parts for the importers: a decoder that admits images, and the check of an imported run."""

from __future__ import annotations

import io
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from atif import Trajectory as OracleTrajectory
from PIL import Image, ImageOps, UnidentifiedImageError

from epimem.errors import ImageError
from epimem.schema.ids import image_id
from epimem.schema.run import Run, check_semantics


@dataclass(frozen=True)
class Picture:
    image_id: str
    width: int
    height: int


@dataclass
class Album:
    """Admits images as a bank does: upright RGB pixels, named by their hash."""

    stored: dict[str, Image.Image] = field(default_factory=dict)

    def admit(self, data: bytes) -> Picture:
        try:
            with Image.open(io.BytesIO(data), formats=("PNG", "JPEG", "WEBP")) as opened:
                picture = ImageOps.exif_transpose(opened).convert("RGB")
        except (UnidentifiedImageError, OSError) as error:
            raise ImageError("cannot be decoded") from error
        name = image_id(picture.width, picture.height, picture.tobytes())
        self.stored[name] = picture
        return Picture(name, picture.width, picture.height)


@pytest.fixture
def album() -> Album:
    return Album()


@pytest.fixture
def png() -> Callable[..., bytes]:
    def make(width: int = 8, height: int = 6, color: str = "red", kind: str = "PNG") -> bytes:
        file = io.BytesIO()
        Image.new("RGB", (width, height), color).save(file, kind)
        return file.getvalue()

    return make


@pytest.fixture
def assert_sound() -> Callable[[Run, Album], None]:
    """Every imported run reads back equal, passes the semantic level and the ATIF oracle."""

    def check(run: Run, album: Album) -> None:
        assert Run.read(run.canonical()) == run
        assert check_semantics(run, album.stored.__contains__) == ()
        OracleTrajectory.model_validate(run.trajectory.plain())

    return check


@pytest.fixture(scope="session")
def shared_data() -> Path:
    folder = Path(__file__).resolve().parents[2] / "../shared/data"
    if not folder.is_dir():
        pytest.skip("the shared data folder is not on this machine")
    return folder.resolve()
