"""The reading side of a set: line by line, what cannot be read reported and passed over."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_args

from epimem.errors import EpimemError, ImageError, NotFoundError, RecordError
from epimem.protocols import Picture
from epimem.schema import strict_json
from training.demonstrations.codec import from_plain
from training.demonstrations.images import ImageFolder, stored_name
from training.demonstrations.lines import read_lines
from training.demonstrations.record import Demonstration, OperationName, pictures_of
from training.demonstrations.splits import Split


@dataclass(frozen=True)
class Skipped:
    """A line that could not be read: its number from 1, the code of the fault, and what is wrong."""

    line: int
    code: str
    message: str


class Reader:
    """Reads the lines of a set.

    Args:
        path: the file of lines.
        images: the images of the set.
        thorough: decode each image and compare its pixels with its name; else its checksums and size
            are compared, which finds what a disk or a copy can do to it.

    Attributes:
        skipped: what could not be read so far.
        images: size of each sound image met so far, by name.
    """

    def __init__(self, path: Path, images: ImageFolder, *, thorough: bool = False) -> None:
        self.skipped: list[Skipped] = []
        self.images: dict[str, tuple[int, int]] = {}
        self._path = path
        self._folder = images
        self._thorough = thorough

    def read(
        self,
        operations: Collection[OperationName] | None = None,
        split: Split | None = None,
        splits: Mapping[str, Split] | None = None,
    ) -> Iterator[Demonstration]:
        """Yield the demonstrations of these operations and of this split, None for all."""
        seen: set[str] = set()
        for line, plain in read_lines(self._path):
            try:
                if isinstance(plain, EpimemError):
                    raise plain
                if _is_other(plain, operations, split, splits or {}):
                    continue
                found = from_plain(plain, self._folder.reader)
                if found.id in seen:
                    raise RecordError("this id stands in an earlier line", field="id", got=found.id)
                if splits is not None and found.group not in splits:
                    raise RecordError("its group has no split", field="group", got=found.group)
                for picture in pictures_of(found.request):
                    self._check_image(picture)
            except EpimemError as error:
                self.skipped.append(Skipped(line, error.code, str(error)))
                continue
            seen.add(found.id)
            yield found

    def _check_image(self, picture: Picture) -> None:
        name = stored_name(picture)
        if name not in self.images:
            image = self._folder.reader(name)
            header = image.header()
            if self._thorough:
                image.check()
            self.images[name] = header.width, header.height
        if self.images[name] != (picture.width, picture.height):
            raise ImageError("the stored image has another size", field="images", got=name)


def read_splits(path: Path) -> dict[str, Split]:
    """Return the split of each group.

    Raises:
        NotFoundError: the set is not finished.
        RecordError: the file is damaged.
    """
    if not path.is_file():
        raise NotFoundError(
            "the set has no splits yet",
            field=str(path),
            hint="it is not finished: run the command that makes it again",
        )
    plain = strict_json.loads(path.read_bytes(), max_keys=2**31)
    groups = plain.get("groups") if isinstance(plain, dict) else None
    if not isinstance(groups, dict) or not all(each in get_args(Split) for each in groups.values()):
        raise RecordError("this names no split for each group", field=str(path))
    return groups


def _is_other(
    plain: Any,
    operations: Collection[OperationName] | None,
    split: Split | None,
    splits: Mapping[str, Split],
) -> bool:
    """Tell early that a line is sound enough to be known as one that was not asked for."""
    if not isinstance(plain, dict):
        return False
    operation, group = plain.get("operation"), plain.get("group")
    if operations is not None and isinstance(operation, str) and operation not in operations:
        return True
    return split is not None and isinstance(group, str) and splits.get(group, split) != split
