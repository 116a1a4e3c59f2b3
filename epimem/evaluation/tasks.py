"""Tasks of an evaluation: what a solver may see, and the reference, which only the scorer gets."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Annotated, Self

from pydantic import AfterValidator, Field, SecretStr, model_validator

from epimem.errors import NotFoundError, RecordError, StorageError
from epimem.schema.base import Record
from epimem.schema.ids import image_id, question_key, sha256
from epimem.schema.text import NameText, TitleText, check_text

QuestionText = Annotated[str, AfterValidator(check_text), Field(min_length=1)]


class PublicTask(Record):
    """One question as arms and solvers see it; there is no reference in it.

    `images` are paths of image files in page order; the bank need not hold them. `image_ids` are
    their ids as a bank gives them, filled in by `with_image_ids`. `family` is the public task family,
    by which select filters; `group` (a document, a map, a puzzle) says which questions belong
    together and is the unit of resampling. It is the id where none is given.
    """

    id: NameText
    question: QuestionText
    images: tuple[str, ...] = ()
    image_ids: tuple[str, ...] = ()
    family: TitleText = ""
    group: TitleText = ""

    @property
    def unit(self) -> str:
        """The group, or the id where there is none."""
        return self.group or self.id

    @property
    def question_key(self) -> str:
        """SHA-256 of the normalised question and its image ids, as lessons carry it."""
        return question_key(self.question, self.image_ids)


class EvalTask(PublicTask):
    """A task with its reference, which is sealed: not printed, not dumped, read by the scorer only."""

    reference: SecretStr = SecretStr("")

    @model_validator(mode="after")
    def _has_ids_of_its_images(self) -> Self:
        if self.image_ids and self.images and len(self.image_ids) != len(self.images):
            raise ValueError("as many image_ids as images, or none")
        return self

    @property
    def public(self) -> PublicTask:
        """The task without its reference, as another type: nothing downstream could hand it on."""
        fields = {name: getattr(self, name) for name in PublicTask.model_fields}
        return PublicTask.model_construct(**fields)


def read_tasks(path: Path | str) -> list[EvalTask]:
    """Read a task stream: JSON Lines, one task a line; paths of images are relative to its folder.

    Raises:
        RecordError: a line that is no task, an id that comes twice, or no task at all; `field` names
            line and field.
        NotFoundError: no such file.
        StorageError: the file cannot be read.
    """
    path = Path(path)
    try:
        data = path.read_bytes()
    except FileNotFoundError as error:
        raise NotFoundError("no such file", field="tasks", got=str(path)) from error
    except OSError as error:
        raise StorageError(
            "the task stream cannot be read", field=str(path), hint=error.strerror
        ) from error
    tasks = [_read_line(path, number, line) for number, line in _numbered(data)]
    check_tasks(tasks, where=path.name)
    return tasks


def _numbered(data: bytes) -> Iterator[tuple[int, bytes]]:
    for number, line in enumerate(data.split(b"\n"), 1):
        if line.strip():
            yield number, line


def _read_line(path: Path, number: int, line: bytes) -> EvalTask:
    where = f"{path.name}:{number}"
    try:
        task = EvalTask.read(line)
    except RecordError as error:
        field = f"{where} {error.field}" if error.field else where
        raise RecordError(
            error.message,
            code=error.code,
            field=field,
            got=error.got,
            hint='a line is {"id": ..., "question": ..., "reference": ...}, with images, family '
            "and group where there are any",
        ) from error
    paths = tuple(str((path.parent / name).resolve()) for name in task.images)
    missing = next((name for name in paths if not Path(name).is_file()), None)
    if missing is not None:
        raise RecordError(
            f"no such image: {missing}",
            field=f"{where} images",
            hint="paths are relative to the folder of the task stream",
        )
    return task.model_copy(update={"images": paths})


def check_tasks(tasks: Sequence[EvalTask], *, where: str = "tasks") -> None:
    """Refuse an empty stream and ids that come twice.

    Raises:
        RecordError: naming the id.
    """
    if not tasks:
        raise RecordError("no task in this stream", field=where)
    name, count = Counter(task.id for task in tasks).most_common(1)[0]
    if count > 1:
        raise RecordError(f"{count} tasks have the id {name!r}", field=f"{where} id")


def with_image_ids(tasks: Iterable[EvalTask]) -> list[EvalTask]:
    """Return the tasks with the ids of their images, each file decoded once.

    Raises:
        RecordError, ImageError: a file that is none, or is refused.
    """
    from epimem.bank.decoder import Decoder
    from epimem.bank.image_header import read_header

    known: dict[str, str] = {}
    decoder = Decoder()

    def identify(name: str) -> str:
        if name not in known:
            try:
                data = Path(name).read_bytes()
            except FileNotFoundError as error:
                raise NotFoundError("no such image of a task", field="images", got=name) from error
            except OSError as error:
                raise StorageError("an image of a task cannot be read", field=name) from error
            decoded = decoder.admit(read_header(data))
            known[name] = image_id(decoded.width, decoded.height, decoded.pixels)
        return known[name]

    try:
        return [
            task
            if task.image_ids or not task.images
            else task.model_copy(update={"image_ids": tuple(map(identify, task.images))})
            for task in tasks
        ]
    finally:
        decoder.close()


def tasks_digest(tasks: Iterable[EvalTask]) -> str:
    """Return the SHA-256 over tasks and references: whether two runs asked the same."""
    lines = [
        sha256(task.public.canonical())
        + sha256(task.reference.get_secret_value().encode("utf-8", "backslashreplace"))
        for task in tasks
    ]
    return sha256("\n".join(sorted(lines)).encode("ascii"))
