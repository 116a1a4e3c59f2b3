"""A whole evaluation: every subject asked, every answer measured, every bench run, one report."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Literal

from epimem.errors import NotFoundError
from epimem.plugins import Role
from training.demonstrations.record import ROLE_OF, Demonstration
from training.demonstrations.store import DemonstrationSet
from training.evaluation.answers import Answers
from training.evaluation.asking import Progress, ask
from training.evaluation.constants import Habits
from training.evaluation.ends import BenchLine, run_bench
from training.evaluation.measures import Alike
from training.evaluation.report import Report, Unread, summarize
from training.evaluation.subjects import Subject, subjects_of

Split = Literal["train", "dev", "test"]
ROLES: tuple[Role, ...] = ("memory_controller", "tree_organizer")


def run(
    folder: Path,
    specs: Sequence[str],
    work: Path,
    *,
    split: Split = "test",
    roles: Sequence[Role] = ROLES,
    benches: Sequence[str] = (),
    deadline_s: float = 120.0,
    cosine: tuple[str, Alike] | None = None,
    progress: Progress = lambda *_: None,
    tell: Callable[[str], None] = lambda _: None,
) -> Report:
    """Evaluate controllers on the groups of a split; the same call goes on where it was interrupted.

    Args:
        folder: a finished set of demonstrations.
        specs: of controllers, or `teacher`; the first is the one that others are compared with.
        work: `work` + ".answers.jsonl" takes the answers, the folder `work` + ".benches" the benches.
        split: which groups.
        roles: whose operations are asked about, and who is replaced in the benches.
        benches: commands (`ends`).
        deadline_s: seconds one call of a model may take.
        cosine: name of an encoder and the likeness of two texts by it.
        progress: told subject, done and total.
        tell: told in words what else goes on.

    Raises:
        NotFoundError: no set, or the split holds nothing of these roles.
        ConfigError: a spec or bench that is wrong.
        BankBusyError: another evaluation writes the same answers.
    """
    start = time.monotonic()
    found = DemonstrationSet.open(folder)
    operations = [name for name, role in ROLE_OF.items() if role in roles]
    asked = list(found.read(split=split, operations=operations))
    unread = [Unread(**vars(line)) for line in found.skipped]
    if not asked:
        raise NotFoundError(
            f"the split {split} holds no demonstration of {' or '.join(roles)}",
            got=folder.name,
            hint="see card.md of the set for what it holds",
        )
    habits = Habits(found.read(split="train", operations=operations))
    subjects = subjects_of(specs, habits, deadline_s=deadline_s)
    with Answers(work.with_name(work.name + ".answers.jsonl")) as answers:
        for subject in subjects:
            ask(subject, asked, answers, progress=progress)
        lines = _benches(subjects, benches, work.with_name(work.name + ".benches"), roles, tell)
        return _report(subjects, asked, answers, split, cosine, lines, unread, start)


def _benches(
    subjects: Sequence[Subject],
    benches: Sequence[str],
    folder: Path,
    roles: Sequence[Role],
    tell: Callable[[str], None],
) -> list[BenchLine]:
    return [
        run_bench(bench, (it.name, it.fingerprint, it.spec), folder, roles=roles, tell=tell)
        for bench in benches
        for it in subjects
        if it.spec is not None
    ]


def _report(
    subjects: Sequence[Subject],
    asked: Sequence[Demonstration],
    answers: Answers,
    split: Split,
    cosine: tuple[str, Alike] | None,
    benches: Sequence[BenchLine],
    unread: Sequence[Unread],
    start: float,
) -> Report:
    return summarize(
        subjects,
        asked,
        answers,
        split=split,
        cosine=cosine[1] if cosine is not None else None,
        encoder=cosine[0] if cosine is not None else "",
        benches=benches,
        unread=unread,
        seconds=time.monotonic() - start,
    )
