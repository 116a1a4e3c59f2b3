"""GSM8K (Cobbe et al. 2021): JSON Lines with question and answer, the number after `####`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from epimem.errors import NotFoundError, RecordError
from epimem.schema import strict_json
from harness_adapters.streams.task import StreamTask


def tasks(path: Path) -> Iterator[StreamTask]:
    """Yield the tasks of a file, in its order.

    Raises:
        NotFoundError: there is no such file.
        RecordError: `bad_json`, a line is damaged; names it.
    """
    if not path.is_file():
        raise NotFoundError("no such file of GSM8K", got=str(path))
    with path.open("rb") as file:
        for number, line in enumerate(file):
            try:
                item = strict_json.loads(line)
                made = task(f"gsm8k-{number}", item["question"], item["answer"])
            except (AttributeError, KeyError, TypeError, RecordError) as error:
                raise RecordError(
                    "not a line of GSM8K", code="bad_json", field=f"line {number + 1}"
                ) from error
            yield made


def task(task_id: str, question: str, answer: str) -> StreamTask:
    """Return one task; what stands before `####` is the way, not the answer."""
    return StreamTask(
        task_id=task_id,
        niche="gsm8k",
        question=question,
        checker="number",
        reference=answer.rpartition("####")[2].strip(),
    )
