"""BIG-Bench Hard (Suzgun et al. 2022): the JSON files of its repository; niche = task."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from epimem.errors import NotFoundError, RecordError
from epimem.schema import strict_json
from harness_adapters.streams.task import StreamTask


def tasks(folder: Path) -> Iterator[StreamTask]:
    """Yield all tasks, file by file in order of name.

    The files' canary, which marks them for filters of training data, is no task and is left where it is.

    Raises:
        NotFoundError: there is no such folder, or no file in it.
        RecordError: `bad_json`, a file is damaged; names it.
    """
    files = sorted(folder.glob("*.json"))
    if not files:
        raise NotFoundError("no files of BIG-Bench Hard", got=str(folder), hint="*.json")
    for path in files:
        for number, (question, target) in enumerate(_items(path)):
            letter = re.fullmatch(r"\([A-Z]\)", target.strip())
            yield StreamTask(
                task_id=f"bbh-{path.stem}-{number}",
                niche=path.stem,
                question=question,
                checker="choice" if letter else "exact",
                reference=target,
            )


def _items(path: Path) -> list[tuple[str, str]]:
    try:
        data = strict_json.loads(path.read_bytes())
        return [(item["input"], item["target"]) for item in data["examples"]]
    except (KeyError, TypeError, RecordError) as error:
        raise RecordError(
            "not a file of BIG-Bench Hard", code="bad_json", got=path.name, hint=str(error)
        ) from error
