"""A set of demonstrations: a folder that one process writes and many read.

    DIR/demonstrations.jsonl   accepted, one a line
    DIR/aside.jsonl            set aside: id, operation, group, check, reason
    DIR/images/<image id>.png  the pictures of the requests, upright RGB
    DIR/card.json, DIR/card.md what is in it, in counts
    DIR/splits.json            the split of each group; written last, so that it says "finished"

A demonstration is in the file when `add` returns, whatever happens to the process then. What cannot be
read back is reported by line, and the rest is read.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Self

from numpy.typing import ArrayLike

from epimem.errors import BankFrozenError, ConfigError, NotFoundError, RecordError
from epimem.protocols import Picture
from epimem.schema import strict_json
from training.demonstrations.card import Counts, markdown
from training.demonstrations.checks import CheckName, check
from training.demonstrations.codec import from_plain, to_plain
from training.demonstrations.images import ImageFolder, stored_name
from training.demonstrations.lines import MAX_DEPTH, read_lines
from training.demonstrations.reading import Reader, Skipped, read_splits
from training.demonstrations.record import Demonstration, OperationName, pictures_of
from training.demonstrations.splits import SHARES, Split, split_groups
from training.demonstrations.writing import ACCEPTED, ASIDE, CARD, CARD_TEXT, LOCK, SPLITS, Writer

IMAGES = "images"


@dataclass(frozen=True)
class Aside:
    """A demonstration that was set aside, the check it did not pass, and why."""

    id: str
    operation: OperationName
    group: str
    check: CheckName
    reason: str


class DemonstrationSet:
    """One set; take it from `create` to write, from `open` to read, and close the one that writes.

    Attributes:
        path: the folder.
        done: the ids that were accepted or set aside: a job that goes on passes over them.
    """

    def __init__(self, path: Path, writer: Writer | None) -> None:
        self.path = path
        self.done = {key for name in (ACCEPTED, ASIDE) for key in _ids(path / name)}
        self._writer = writer
        self._images = ImageFolder(path / IMAGES)
        self._reader = self._new_reader()

    @classmethod
    def create(cls, path: str | Path) -> Self:
        """Make a set, or go on with the one that is there; what a crash left half written is cut off.

        Raises:
            ConfigError: the folder holds other things.
            BankBusyError: another process writes this set.
            StorageError: the folder cannot be made or written.
        """
        path = Path(path)
        if path.exists() and not _is_free(path):
            raise ConfigError(
                "this is no set of demonstrations", field=str(path), hint="name a new folder"
            )
        writer = Writer(path)
        try:
            return cls(path, writer)
        except BaseException:
            writer.close()
            raise

    @classmethod
    def open(cls, path: str | Path) -> Self:
        """Open a set for reading.

        Raises:
            NotFoundError: there is none.
        """
        path = Path(path)
        if not (path / ACCEPTED).is_file():
            raise NotFoundError("no set of demonstrations here", field=str(path))
        return cls(path, None)

    @property
    def skipped(self) -> list[Skipped]:
        """What the last `read` or `finish` has not been able to read so far."""
        return self._reader.skipped

    def add(self, demonstration: Demonstration) -> None:
        """Store a demonstration with its pictures; it is on disk when this returns.

        Raises:
            RecordError: its id is taken, it does not pass `checks.check` (without references), or it
                holds what cannot be stored without loss.
            ImageError: one of its pictures is gone or damaged.
            StorageError: the disk is full or refuses.
        """
        writer = self._writing(demonstration.id)
        problem = check(demonstration)
        if problem is not None:
            raise RecordError(problem.reason, field=problem.check, got=demonstration.id)
        plain = to_plain(demonstration, self._images.keep)
        line = strict_json.dumps(plain)
        again = from_plain(strict_json.loads(line, max_depth=MAX_DEPTH), self._images.reader)
        if to_plain(again, stored_name) != plain:
            raise RecordError("it cannot be stored without loss", field="id", got=demonstration.id)
        writer.append(ACCEPTED, line)
        self.done.add(demonstration.id)

    def set_aside(
        self, key: str, operation: OperationName, group: str, check: CheckName, reason: str
    ) -> None:
        """Note that the demonstration of this id was not taken, and why.

        Raises:
            RecordError: its id is taken.
            StorageError: the disk is full or refuses.
        """
        writer = self._writing(key)
        aside = Aside(key, operation, group, check, reason)
        writer.append(ASIDE, strict_json.dumps(asdict(aside)))
        self.done.add(key)

    def add_image(self, image: bytes | ArrayLike, page: int = 0) -> Picture:
        """Store an image and return it as a picture for requests; see `images.ImageFolder.add`."""
        self._writing()
        return self._images.add(image, page)

    def read(
        self, split: Split | None = None, operations: Collection[OperationName] | None = None
    ) -> Iterator[Demonstration]:
        """Yield the demonstrations in the order they came; what cannot be read goes to `skipped`.

        Args:
            split: only these; None for all, also of a set that is not finished.
            operations: only these; None for all.

        Raises:
            NotFoundError: a split is asked for and the set is not finished.
        """
        splits = self.splits() if split is not None else None
        self._reader = self._new_reader()
        return self._reader.read(operations, split, splits)

    def splits(self) -> dict[str, Split]:
        """Return the split of each group.

        Raises:
            NotFoundError: the set is not finished.
            RecordError: the file is damaged.
        """
        return read_splits(self.path / SPLITS)

    def asides(self) -> Iterator[Aside]:
        """Yield what was set aside; a line that cannot be read is left out."""
        for _, plain in read_lines(self.path / ASIDE):
            if isinstance(plain, dict):
                with suppress(TypeError):  # other fields
                    yield Aside(**plain)

    def finish(self, seed: int = 0, shares: Mapping[Split, float] = SHARES) -> dict[str, Any]:
        """Read everything, images to the last pixel, write splits and card, and return the card.

        What cannot be read is counted in the card and gets no split. Each file is written whole or not
        at all, `splits.json` last.

        Raises:
            ConfigError: the shares are not shares.
            StorageError: the disk is full or refuses.
        """
        writer = self._writing()
        self._reader = self._new_reader(thorough=True)
        counts, shown = Counts(), dict[str, set[str]]()
        for found in self._reader.read():
            counts.add(found)
            images = shown.setdefault(found.group, set())
            for picture in pictures_of(found.request):
                images |= {picture.image_id, stored_name(picture)}
        splits = split_groups(shown, seed, shares, images=shown)
        dealt = {"seed": seed, "shares": dict(shares)}
        card = counts.card(
            splits,
            images=len(self._reader.images),
            aside=[(each.operation, each.check) for each in self.asides()],
            skipped=[each.code for each in self.skipped],
            dealt=dealt,
        )
        writer.replace(CARD_TEXT, markdown(card).encode())
        writer.replace(CARD, strict_json.dumps(card))
        writer.replace(SPLITS, strict_json.dumps({**dealt, "groups": splits}))
        return card

    def close(self) -> None:
        """Let another process write this set."""
        if self._writer is not None:
            self._writer.close()
            self._writer = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def _new_reader(self, *, thorough: bool = False) -> Reader:
        return Reader(self.path / ACCEPTED, self._images, thorough=thorough)

    def _writing(self, key: str = "") -> Writer:
        if self._writer is None:
            raise BankFrozenError(
                "the set is open for reading only",
                field=str(self.path),
                hint="open it with DemonstrationSet.create",
            )
        if key in self.done:
            raise RecordError("a demonstration of this id is there", field="id", got=key)
        return self._writer


def _is_free(path: Path) -> bool:
    """Tell whether a folder holds a set, or nothing but what a set's first moment leaves."""
    return path.is_dir() and (
        (path / ACCEPTED).is_file() or all(each.name == LOCK for each in path.iterdir())
    )


def _ids(path: Path) -> Iterator[str]:
    for _, plain in read_lines(path):
        if isinstance(plain, dict) and isinstance(plain.get("id"), str):
            yield plain["id"]
