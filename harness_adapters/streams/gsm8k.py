"""GSM8K (Cobbe et al. 2021): JSON Lines with question and answer, the number after `####`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from epimem.errors import NotFoundError
from epimem.schema import strict_json
from harness_adapters.streams.task import StreamTask


def tasks(path: Path) -> Iterator[StreamTask]:
    """Yield the tasks of a file, in its order.

    Raises:
        NotFoundError: there is no such file.
        RecordError: `bad_json`, a line is damaged.
    """
    if not path.is_file():
        raise NotFoundError("no such file of GSM8K", got=str(path))
    with path.open("rb") as file:
        for number, line in enumerate(file):
            item = strict_json.loads(line)
            yield task(f"gsm8k-{number}", item["question"], item["answer"])


def task(task_id: str, question: str, answer: str) -> StreamTask:
    """Return one task; what stands before `####` is the way, not the answer."""
    return StreamTask(
        task_id=task_id,
        niche="gsm8k",
        question=question,
        checker="number",
        reference=answer.rpartition("####")[2].strip(),
    )
