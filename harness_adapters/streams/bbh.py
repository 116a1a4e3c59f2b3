"""BIG-Bench Hard (Suzgun et al. 2022): the JSON files of its repository; niche = task."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from epimem.errors import NotFoundError
from epimem.schema import strict_json
from harness_adapters.streams.task import StreamTask


def tasks(folder: Path) -> Iterator[StreamTask]:
    """Yield all tasks, file by file in order of name.

    The files' canary, which marks them for filters of training data, is no task and is left where it is.

    Raises:
        NotFoundError: there is no such folder, or no file in it.
        RecordError: `bad_json`, a file is damaged.
    """
    files = sorted(folder.glob("*.json"))
    if not files:
        raise NotFoundError("no files of BIG-Bench Hard", got=str(folder), hint="*.json")
    for path in files:
        data = strict_json.loads(path.read_bytes())
        for number, item in enumerate(data["examples"]):
            letter = re.fullmatch(r"\([A-Z]\)", item["target"].strip())
            yield StreamTask(
                task_id=f"bbh-{path.stem}-{number}",
                niche=path.stem,
                question=item["input"],
                checker="choice" if letter else "exact",
                reference=item["target"],
            )
