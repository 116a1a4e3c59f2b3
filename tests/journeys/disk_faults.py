"""What a user does while the disk misbehaves, and what has to be true of the bank afterwards.

The session runs in a child: each verb says what came of it, an acknowledgement or the code of an error.
"""

from __future__ import annotations

import os
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

from epimem.bank.encoder import TableEncoder
from epimem.bank.versions import FROZEN_NAME
from epimem.config import Config, EncoderConfig, TreeConfig
from epimem.errors import EpimemError
from epimem.memory import ExperienceMemory
from epimem.schema.lesson import IndexText, LessonDraft
from epimem.testing import ScriptedMemoryController, ScriptedTreeOrganizer, small_run

Say = Callable[[str], None]
ENCODER = TableEncoder(32)
CONFIG = Config(
    encoder=EncoderConfig(model="table:32"), tree=TreeConfig(capacity=7, min_group=4, batch=8)
)
HOUSES = ("amber bridge", "cobalt harbor", "Delft lighthouse", "Elgin railway", "fossil quarry")
CODES = {"storage_failed", "storage_full"}
# SQLite takes a page that cannot be read for a damaged one.
READ_CODES = CODES | {"bank_corrupt"}
WRITES = ("lesson", "run", "ingest", "maintain", "feedback", "freeze")


def opened(folder: Path, *, read_only: bool = False) -> ExperienceMemory:
    return ExperienceMemory.open(
        folder,
        read_only=read_only,
        config=CONFIG,
        encoder=ENCODER,
        controllers=(ScriptedMemoryController(), ScriptedTreeOrganizer()),
    )


def draft(number: int) -> LessonDraft:
    house = HOUSES[number % len(HOUSES)]
    return LessonDraft(
        guidance=f"Count number {number} at the {house}.",
        index=IndexText(scope=house, question_anchor=f"how many stop at the {house}?"),
        question_key=f"q{number}",
        verdict_source="oracle",
    )


def new_template(folder: Path) -> Path:
    """Make a bank with a tree, lessons that wait and a run that waits."""
    pair = (ScriptedMemoryController(), ScriptedTreeOrganizer())
    with ExperienceMemory.create(folder, CONFIG, encoder=ENCODER, controllers=pair) as memory:
        for number in range(10):
            memory.contribute(draft(100 + number))
        memory.contribute(small_run(100, answer="answer 100 holds"))
        memory.ingest()
        memory.maintain()
        memory.retrieve(f"how many stop at the {HOUSES[0]}?")
        memory.contribute(draft(120))
        memory.contribute(small_run(101, answer="answer 101 holds"))
    return folder


def copied(template: Path, folder: Path) -> Path:
    """Put a fresh copy of a bank in a place, its side folder as well."""
    for suffix in ("", ".side"):
        shutil.rmtree(f"{folder}{suffix}", ignore_errors=True)
        shutil.copytree(f"{template}{suffix}", f"{folder}{suffix}")
    return folder


def tried(say: Say, name: str, act: Callable[[], str]) -> None:
    """Do something, and say what came of it in one word of the form name:outcome:detail."""
    try:
        say(f"{name}:ok:{act()}")
    except EpimemError as error:
        say(f"{name}:{error.code}:")
    except BaseException as error:  # noqa: BLE001 - this is what must not happen
        say(f"{name}:escaped:{type(error).__name__}({error})".replace(" ", "_"))


def session(folder: Path, say: Say) -> None:
    """Open, write, organize, ask, judge and read again."""
    try:
        memory = opened(folder)
    except EpimemError as error:
        say(f"open:{error.code}:")
        return
    say("open:ok:")

    def asked() -> str:
        answer = memory.retrieve(f"how many stop at the {HOUSES[1]}?")
        assert answer.items, "a question is answered whatever becomes of its log"
        return "" if answer.warning else answer.retrieval_id

    def judged() -> str:
        last = memory.explain()
        assert last is not None
        return memory.feedback(last["retrieval_id"], verdict="right").status

    def read() -> str:
        tree = memory.tree()
        assert tree is not None
        return str(len(tree.lessons()))

    tried(say, "lesson", lambda: str(memory.contribute(draft(0)).id))
    tried(say, "run", lambda: str(memory.contribute(small_run(0, answer="answer 0 holds")).id))
    tried(say, "ingest", lambda: str(memory.ingest().states["derived"]))
    tried(say, "maintain", lambda: str(memory.maintain().waiting))
    tried(say, "ask", asked)
    tried(say, "feedback", judged)
    tried(say, "lesson", lambda: str(memory.contribute(draft(1)).id))
    tried(say, "read", read)
    tried(say, "close", lambda: str(memory.close()))


def freezing(folder: Path, say: Say) -> None:
    """Freeze; where that fails go on writing."""
    try:
        memory = opened(folder)
    except EpimemError as error:
        say(f"open:{error.code}:")
        return
    tried(say, "freeze", lambda: str(memory.freeze().seq))
    if memory.bank.frozen is None:
        signed = (folder / FROZEN_NAME).exists()
        say(f"left:ok:{signed or not (folder / 'index').exists()}")
        tried(say, "lesson", lambda: str(memory.contribute(draft(0)).id))
        say(f"mode:ok:{signed or _journal_mode(folder)}")
    tried(say, "read", lambda: str(memory.tree() is not None))
    tried(say, "close", lambda: str(memory.close()))


def outcomes(lines: list[str]) -> list[tuple[str, str, str]]:
    """Return (verb, outcome, detail) of what a session said."""
    return [(verb, outcome, detail) for verb, outcome, detail in (x.split(":", 2) for x in lines)]


def inspect(folder: Path, lines: list[str], *, codes: set[str]) -> None:
    """Open what is left without faults: nothing acknowledged is lost, nothing is wrong, all goes on.

    Args:
        folder: of the bank.
        lines: what the session said.
        codes: of errors that it may have met.
    """
    said = outcomes(lines)
    assert not [line for line in said if line[1] not in {"ok", *codes}], said
    with opened(folder, read_only=True) as reader:
        assert _problems(reader) == []
        assert reader.retrieve(f"how many stop at the {HOUSES[2]}?").items
    with opened(folder) as memory:
        assert list((folder / "blobs" / "tmp").iterdir()) == [], "no stray temporaries"
        assert not [*folder.rglob("*.tmp"), *folder.rglob(".*-*")]
        assert _problems(memory) == []
        frozen = [detail for verb, outcome, detail in said if (verb, outcome) == ("freeze", "ok")]
        assert (memory.bank.frozen is not None) == (folder / FROZEN_NAME).exists()
        assert memory.bank.frozen is not None or not frozen
        modes = {detail for verb, _, detail in said if verb == "mode"}
        # "unreadable": the look itself met the fault.
        assert modes <= {"True", "wal", "unreadable"} or ("lesson", "ok") not in {
            line[:2] for line in said
        }
        _all_acknowledged(memory, said)
        if memory.bank.frozen is None:
            assert not (folder / "index").exists(), "what a freeze left holds vectors"
            _goes_on(memory)


def _all_acknowledged(memory: ExperienceMemory, said: list[tuple[str, str, str]]) -> None:
    tree = memory.tree()
    assert tree is not None
    nodes = (*tree.lessons(), *memory.bank.inbox("default", limit=100))
    kept = {node.node_id for node in nodes}
    texts = {node.lesson.guidance for node in nodes if node.lesson}
    assert {draft(number).guidance for number in (*range(100, 110), 120)} <= texts
    assert "answer 100 holds" in texts
    states = memory.bank.run_states()
    assert states.keys() >= {"run-000100", "run-000101"}
    for verb, outcome, detail in said:
        if outcome == "ok" and verb == "lesson":
            assert detail in kept
        if outcome == "ok" and verb == "run":
            assert detail in states
    derived = sum(state == "derived" for state, _ in states.values())
    assert sum(text.startswith("answer") for text in texts) == derived, "a run is derived or not"


def _goes_on(memory: ExperienceMemory) -> None:
    """The next writes work, and what was interrupted comes to its end."""
    assert memory.contribute(draft(50)).status == "stored"
    assert memory.contribute(small_run(50, answer="answer 50 holds")).status == "queued"
    memory.ingest()
    assert {state for state, _ in memory.bank.run_states().values()} == {"derived"}
    assert memory.maintain().waiting == 0
    assert memory.bank.waiting("default") == 0
    assert _journal_mode(memory.bank.path) == "wal"
    assert _problems(memory) == []


def _journal_mode(folder: Path) -> str:
    try:
        with closing(sqlite3.connect(folder / "bank.db")) as raw:
            return str(raw.execute("PRAGMA journal_mode").fetchone()[0])
    except sqlite3.Error:
        return "unreadable"


def _problems(memory: ExperienceMemory) -> list[str]:
    return [f"{p.code} {p.where}: {p.detail}" for p in memory.check() if p.code != "orphan"]


def warm(template: Path, folder: Path) -> None:
    """Load every module that a session needs, so that no fault hits an import in a child."""
    for operation in (session, freezing):
        operation(copied(template, folder), lambda _: None)
    os.sync()
