"""Damaged files: every case is noticed or harmless, and nothing damaged is given out as good."""

from __future__ import annotations

import random
import shutil
import sqlite3
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from epimem.bank.bank import Bank
from epimem.bank.recall import Recall
from epimem.config import Config
from epimem.errors import BankCorruptError, BankVersionError, EpimemError
from epimem.memory import ExperienceMemory
from epimem.schema.lesson import Evidence
from epimem.schema.region import Region
from epimem.schema.run import Page
from epimem.testing import ScriptedMemoryController, ScriptedTreeOrganizer, small_run
from tests.image_files import encoded, picture
from tests.journeys.crash import (
    CALLER,
    ENCODER,
    LIMITS,
    SETTINGS,
    add_lessons,
    add_runs,
    lesson,
    new_bank,
    problems,
    run_ingest,
    run_maintain,
    vectorize,
)

FLIPS = 60


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A bank with something in every table, all of it in the database file."""
    folder = tmp_path_factory.mktemp("sound") / "bank"
    with new_bank(folder) as bank:
        _fill(bank)
        bank.side.purge([])
    with sqlite3.connect(folder / "bank.db") as raw:
        raw.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    raw.close()
    return folder


def _fill(bank: Bank) -> None:
    image = bank.add_image(encoded(picture(), "PNG"), caller=CALLER)
    region = Region(x0=1, y0=1, x1=9, y1=9, width=64, height=48)
    shown = lesson(1, question=900).model_copy(
        update={
            "guidance": "Look at the corner first",
            "evidence": (Evidence(image_id=image.image_id, region=region, note="the corner"),),
        }
    )
    vectors = vectorize([shown.index])[0]
    bank.add_lesson(shown, vectors, caller=CALLER, namespace="n", idempotency_key="k")
    ids = add_lessons(bank, 10)
    bank.add_lesson(lesson(0, question=901), None, caller=CALLER, namespace="n")
    page = Page(page=1, image_id=image.image_id, width=64, height=48)
    run = small_run(50, answer="seen on the page")
    run = run.model_copy(update={"task": run.task.model_copy(update={"pages": (page,)})})
    bank.add_run(run, caller=CALLER, namespace="n")
    run_ingest(bank)
    bank.snapshot("empty", caller=CALLER)
    run_maintain(bank)
    bank.snapshot("placed", caller=CALLER)
    bank.add_signal(ids[0], "q", "hurt", caller=CALLER, source="peer", detail="it was not so")
    bank.add_verdict(
        namespace="n",
        question_key="q",
        reader="",
        family="family",
        verdict="right",
        source="oracle",
        items=ids[:2],
        caller=CALLER,
    )
    bank.revoke("item", ids[9], LIMITS, caller=CALLER)
    add_lessons(bank, 2, start=20)
    add_runs(bank, 3)


@pytest.fixture
def copy(sound: Path, tmp_path: Path) -> Path:
    folder = tmp_path / "bank"
    shutil.copytree(sound, folder)
    return folder


@pytest.fixture(scope="module")
def answers(sound: Path) -> dict[str, Any]:
    with Bank.open(sound, read_only=True) as bank:
        assert problems(bank) == []
        return everything(bank)


def everything(bank: Bank) -> dict[str, Any]:
    """Return every answer of a bank by question; one that raises an error of ours is left out."""
    tree = _answer(lambda: bank.tree("n"))
    ids = sorted(tree.nodes) if tree else []
    waiting = _answer(lambda: bank.inbox("n", limit=100)) or ()
    ids = sorted({*ids, *(node.node_id for node in waiting)})
    questions: dict[str, Callable[[], Any]] = {
        "tree": lambda: tree,
        "inbox": lambda: waiting,
        "states": bank.run_states,
        "counts": bank.counts,
        "digest": bank.state_digest,
        "old digest": lambda: bank.state_digest("placed"),
        "diff": lambda: bank.diff("empty", "placed"),
        "snapshots": bank.snapshots,
        "journal": lambda: bank.journal_rows(last=1000),
        # The questions around a run are context: a damaged neighbor is missing from them.
        "queue": lambda: [replace(run, batch=()) for run in bank.queued_runs(limit=100)],
        "standing": lambda: bank.standing([(key, "n", "family") for key in ids]),
        "index": lambda: [(row.node_id, row.alive, row.text) for row in bank.index_rows(0)],
        "encoder": lambda: bank.encoder,
        **{f"node {key}": lambda key=key: bank.node(key) for key in ids},
        **{f"vectors {key}": lambda key=key: _vectors(bank, key) for key in ids},
        **{f"reach {key}": lambda key=key: bank.reach("item", key) for key in ids},
    }
    return {name: found for name, ask in questions.items() if (found := _answer(ask)) is not None}


def _answer(ask: Callable[[], Any]) -> Any:
    try:
        return ask()
    except EpimemError:
        return None


def _vectors(bank: Bank, node_id: str) -> dict[str, list[float]]:
    found = bank.vectors([bank.node(node_id)])
    return {key: [*item.index, *item.scope, *item.anchor] for key, item in found.items()}


def noticed(folder: Path) -> list[str]:
    """Return what opening or checking a bank says is wrong with it."""
    try:
        with Bank.open(folder, read_only=True) as bank:
            return problems(bank)
    except EpimemError as error:
        return [str(error)]


# What may be given out of a bank whose damage `check` names: these have checksums of their own.
VERIFIED = ("node", "vectors", "tree", "inbox", "queue", "digest", "old digest", "index", "encoder")


def assert_nothing_damaged_is_given_out(folder: Path, answers: dict[str, Any]) -> None:
    try:
        bank = Bank.open(folder, read_only=True)
    except EpimemError:
        return
    with bank:
        found = everything(bank)
    for name, answer in found.items():
        if not name.startswith(VERIFIED) or name not in answers:
            continue
        if name == "queue":
            assert set(map(str, answer)) <= set(map(str, answers[name]))
        elif name == "index":
            alive = {row for row in answer if row[1]}
            assert alive <= {row for row in answers[name] if row[1]}
        elif name.startswith("vectors"):
            assert answer in ({}, answers[name])
        elif name == "inbox":
            assert set(map(str, answer)) <= set(map(str, answers[name]))
        elif name not in {"tree", "digest", "old digest"}:
            assert answer == answers[name], name


def run_sql(folder: Path, *statements: str) -> None:
    with sqlite3.connect(folder / "bank.db") as raw:
        raw.create_function("flip", 1, lambda data: bytes([data[0] ^ 1]) + data[1:])
        changed = 0
        for statement in statements:
            changed += raw.execute(statement).rowcount
    raw.close()
    assert changed > 0, "the damage was done"


LIVE = "version = (SELECT max(version) FROM nodes WHERE kind = 'lesson' AND to_seq IS NULL)"
SWAP_BODIES = (
    "UPDATE nodes SET body = (SELECT n.body FROM nodes n WHERE n.to_seq IS NULL AND "
    "n.version <> nodes.version AND n.kind = 'lesson' LIMIT 1) WHERE " + LIVE
)
OPERATION = "(SELECT min(seq) FROM journal WHERE kind = 'op:place')"
DAMAGE = {
    "node text": f"UPDATE nodes SET body = replace(body, 'count', 'ignore') WHERE {LIVE}",
    "node bytes": f"UPDATE nodes SET body = CAST(x'ff00fe' AS TEXT) WHERE {LIVE}",
    "node emptied": f"UPDATE nodes SET body = '{{}}' WHERE {LIVE}",
    "node ended": f"UPDATE nodes SET to_seq = 3 WHERE {LIVE}",
    "node moved": f"UPDATE nodes SET parent_id = 'elsewhere' WHERE {LIVE}",
    "node in another namespace": f"UPDATE nodes SET namespace = 'm' WHERE {LIVE}",
    "node of another kind": f"UPDATE nodes SET kind = 'rule' WHERE {LIVE}",
    "node of another contributor": f"UPDATE nodes SET contributor = 'mallory' WHERE {LIVE}",
    "node of another id": f"UPDATE nodes SET node_id = 'other' WHERE {LIVE}",
    "node checksum": f"UPDATE nodes SET checksum = 'x' || checksum WHERE {LIVE}",
    "node deleted": f"DELETE FROM nodes WHERE {LIVE}",
    "node bodies swapped": SWAP_BODIES,
    "old version deleted": "DELETE FROM nodes WHERE to_seq IS NOT NULL AND kind = 'lesson'",
    "category text": "UPDATE nodes SET body = replace(body, 'house', 'cave') WHERE kind <> 'lesson'",
    "run outcome": "UPDATE runs SET outcome = replace(outcome, 'right', 'wrong')",
    "run state": "UPDATE runs SET state = 'nothing' WHERE run_id = 'run-000001'",
    "run blob": "UPDATE runs SET blob = (SELECT r.blob FROM runs r WHERE r.run_id = 'run-000002')",
    "run deleted": "DELETE FROM runs WHERE run_id = 'run-000001'",
    "image size": "UPDATE images SET width = 65",
    "image blob": "UPDATE images SET blob = (SELECT max(blob) FROM runs)",
    "image deleted": "DELETE FROM images",
    "vectors": "UPDATE vectors SET index_vector = flip(index_vector)",
    "scope vectors": "UPDATE vectors SET scope_vector = zeroblob(128)",
    "vectors of another node": "UPDATE vectors SET index_vector = anchor_vector",
    "journal row": f"UPDATE journal SET body = '{{}}' WHERE seq = {OPERATION}",
    "journal contributor": f"UPDATE journal SET contributor = 'x' WHERE seq = {OPERATION}",
    "journal row deleted": f"DELETE FROM journal WHERE seq = {OPERATION}",
    "journal tail cut": "DELETE FROM journal WHERE seq > (SELECT head_seq - 3 FROM bank)",
    "head": "UPDATE bank SET head_hash = upper(head_hash)",
    "head number": "UPDATE bank SET head_seq = head_seq - 1",
    "edge deleted": "DELETE FROM edges WHERE relation = 'derived'",
    "edge moved": "UPDATE edges SET parent = 'run-000001' WHERE rowid = 1",
    "edge added": "INSERT INTO edges VALUES ('a', 'b', 'derived', 1)",
    "signal deleted": "DELETE FROM signals",
    "signal turned": "UPDATE signals SET signal = 'helped'",
    "verdict turned": "UPDATE verdicts SET verdict = 'wrong'",
    "use deleted": "DELETE FROM verdict_items",
    "snapshot moved": "UPDATE snapshots SET seq = seq - 1 WHERE name = 'placed'",
    "revoked text allowed": "DELETE FROM blocked",
    "receipt of another item": "UPDATE idempotency SET receipt = replace(receipt, '7000', '7001')",
    "rejection added": "INSERT INTO rejections VALUES (99, 1, 1, 'place', 'schema', '{}')",
    "revocation forgotten": "DELETE FROM revocations",
    "step opened": "UPDATE steps SET state = 'open'",
    "an index of the database lacks rows": "",
}


@pytest.mark.parametrize("case", DAMAGE)
def test_a_damaged_row_is_listed_and_never_given_out(
    copy: Path, answers: dict[str, Any], case: str
) -> None:
    if DAMAGE[case]:
        run_sql(copy, DAMAGE[case])
    else:
        _lose_index_rows(copy)
    assert noticed(copy) != []
    assert_nothing_damaged_is_given_out(copy, answers)


def _lose_index_rows(folder: Path) -> None:
    """Blank the page of an index, as a disk does that lost a write."""
    path = folder / "bank.db"
    with sqlite3.connect(path) as raw:
        size = raw.execute("PRAGMA page_size").fetchone()[0]
        query = "SELECT rootpage FROM sqlite_schema WHERE name = 'nodes_fold'"
        page = raw.execute(query).fetchone()[0]
    raw.close()
    empty_leaf = b"\x0a" + bytes(4) + size.to_bytes(2, "big") + bytes(1)
    data = path.read_bytes()
    start = (page - 1) * size
    path.write_bytes(data[:start] + empty_leaf.ljust(size, b"\0") + data[start + size :])


def test_a_damaged_lesson_is_withheld_and_named_and_the_rest_is_found(copy: Path) -> None:
    with Bank.open(copy) as bank:
        recall = Recall(bank, encoder=ENCODER, cache=None)
        question = "how many in alpha alpha house?"
        before = [c.node_id for c in recall.find(question, namespace="n", k=50).candidates]
        node_id = next(key for key in before if bank.node(key).kind == "lesson")
        run_sql(copy, f"UPDATE nodes SET body = body || ' ' WHERE node_id = '{node_id}'")
        # A reader that had it already finds it, and does not get its text.
        assert node_id in {c.node_id for c in recall.find(question, namespace="n").candidates}
        assert node_id not in bank.nodes(before)
        assert bank.damaged == {node_id}
        with pytest.raises(BankCorruptError):
            bank.node(node_id)
        with pytest.raises(BankCorruptError):
            bank.tree("n")
    with Bank.open(copy, read_only=True) as bank:
        recall = Recall(bank, encoder=ENCODER, cache=None)
        after = {c.node_id for c in recall.find(question, namespace="n", k=50).candidates}
        assert after == set(before) - {node_id}
        assert bank.damaged == {node_id}


def test_a_damaged_run_does_not_hold_up_the_others(copy: Path) -> None:
    with Bank.open(copy) as bank:
        waiting = {queued.run_id: queued for queued in bank.queued_runs(limit=10)}
        assert len(waiting) == 3
        first, second, third = waiting
        run_sql(copy, f"UPDATE runs SET outcome = '{{}}' WHERE run_id = '{first}'")
        blob = _blob_of(copy, second)
        blob.write_bytes(blob.read_bytes()[:-1])
        report = run_ingest(bank)
        assert report.states == {"derived": 1}
        assert bank.damaged == {first, second}
        states = bank.run_states()
        assert [states[key][0] for key in (first, second, third)] == ["queued", "queued", "derived"]
        assert {line.split()[2].rstrip(":") for line in problems(bank)} == {first, blob.name}


def _blob_of(folder: Path, run_id: str) -> Path:
    with sqlite3.connect(folder / "bank.db") as raw:
        query = "SELECT blob FROM runs WHERE run_id = ?"
        name = str(raw.execute(query, (run_id,)).fetchone()[0])
    raw.close()
    return folder / "blobs" / name[:2] / name


def test_two_journal_rows_that_changed_places_are_found(copy: Path) -> None:
    run_sql(
        copy,
        "UPDATE journal SET seq = -1 WHERE seq = 5",
        "UPDATE journal SET seq = 5 WHERE seq = 6",
        "UPDATE journal SET seq = 6 WHERE seq = -1",
    )
    assert any("journal" in line for line in noticed(copy))


def test_a_tail_cut_off_with_the_head_moved_back_is_found_by_replay(copy: Path) -> None:
    run_sql(
        copy,
        "DELETE FROM journal WHERE seq > (SELECT max(from_seq) - 1 FROM nodes)",
        "UPDATE bank SET head_seq = (SELECT max(seq) FROM journal),"
        " head_hash = (SELECT hash FROM journal ORDER BY seq DESC LIMIT 1)",
    )
    assert any("is in the table and not in the journal" in line for line in noticed(copy))


def test_an_edit_with_a_fitting_row_checksum_is_found_by_replay(copy: Path) -> None:
    from sqlalchemy import create_engine, select, update

    from epimem.bank import rows, tables

    engine = create_engine(f"sqlite:///{copy / 'bank.db'}")
    nodes = tables.nodes
    with engine.begin() as connection:
        query = select(nodes).where(nodes.c.kind == "lesson", nodes.c.to_seq.is_(None)).limit(1)
        row = connection.execute(query).one()
        forged = {**row._mapping, "body": row.body.replace("ount", "ross")}
        forged["checksum"] = rows.checksum(rows._Row(**forged))
        assert forged["body"] != row.body
        connection.execute(update(nodes).where(nodes.c.version == row.version).values(forged))
    engine.dispose()
    assert any("journal says" in line for line in noticed(copy))


# ---- bits and bytes of the database file


def test_a_flipped_bit_anywhere_is_noticed_or_harmless(
    sound: Path, tmp_path: Path, answers: dict[str, Any]
) -> None:
    chance = random.Random(20)
    data = (sound / "bank.db").read_bytes()
    kinds = {"noticed": 0, "harmless": 0}
    for number in range(FLIPS):
        folder = tmp_path / "bank"
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(sound, folder)
        at, bit = chance.randrange(len(data)), chance.randrange(8)
        damaged = bytearray(data)
        damaged[at] ^= 1 << bit
        (folder / "bank.db").write_bytes(damaged)
        if noticed(folder):
            kinds["noticed"] += 1
            assert_nothing_damaged_is_given_out(folder, answers)
        else:
            with Bank.open(folder, read_only=True) as bank:
                found = everything(bank)
            assert found == answers, f"flip {number}: byte {at}, bit {bit} changed an answer"
            kinds["harmless"] += 1
    assert kinds["noticed"] > FLIPS // 4
    assert sum(kinds.values()) == FLIPS


@pytest.mark.parametrize("case", ["half", "one page less", "zeroed page", "pages swapped", "grown"])
def test_a_torn_file_is_noticed(copy: Path, answers: dict[str, Any], case: str) -> None:
    path = copy / "bank.db"
    data, size = path.read_bytes(), 4096
    pages = [data[at : at + size] for at in range(0, len(data), size)]
    full = [at for at, page in enumerate(pages) if b"Guidance of" in page]
    if case == "half":
        pages = pages[: len(pages) // 2]
    elif case == "one page less":
        pages = pages[:-1]
    elif case == "zeroed page":
        pages[full[0]] = bytes(size)
    elif case == "pages swapped":
        pages[full[0]], pages[full[-1]] = pages[full[-1]], pages[full[0]]
    else:
        pages += [pages[full[0]]] * 2
    path.write_bytes(b"".join(pages))
    assert noticed(copy) != [] or case == "grown"
    assert_nothing_damaged_is_given_out(copy, answers)


def test_damage_in_the_log_of_the_database_loses_no_checkpointed_row(
    sound: Path, tmp_path: Path
) -> None:
    for number, (cut, flip) in enumerate([(100, None), (None, 60), (None, 5000), (None, -2000)]):
        folder = tmp_path / f"bank-{number}"
        shutil.copytree(sound, folder)
        with Bank.open(folder) as bank:
            before = bank.head_seq
            add_lessons(bank, 1, start=40)
            # As a crash leaves it: a copy of the files while the log is not folded in yet.
            shutil.copytree(folder, tmp_path / f"crash-{number}")
        crash = tmp_path / f"crash-{number}"
        log = crash / "bank.db-wal"
        data = bytearray(log.read_bytes())
        assert len(data) > 8000
        if flip is not None:
            data[flip] ^= 4
        log.write_bytes(data[:-cut] if cut else data)
        (crash / "bank.db-shm").unlink()
        with Bank.open(crash) as bank:
            assert bank.head_seq in {before, before + 1}
            assert problems(bank) == []
            add_lessons(bank, 1, start=41)


# ---- files that are not a bank of this release


def test_formats_older_and_newer_than_this_release_are_refused(copy: Path) -> None:
    for found, code in ((2, "bank_too_new"), (99, "bank_too_new"), (0, "bank_too_old")):
        run_sql(copy, f"UPDATE bank SET format = {found}")
        for read_only in (True, False):
            with pytest.raises(BankVersionError) as refused:
                Bank.open(copy, read_only=read_only)
            assert refused.value.code == code
    with sqlite3.connect(copy / "bank.db") as raw:
        assert raw.execute("SELECT format FROM bank").fetchone() == (0,), "refused unread"
    raw.close()


@pytest.mark.parametrize("case", ["foreign", "empty", "text", "half a header", "no tables"])
def test_a_file_that_is_no_bank_is_refused_and_not_changed(copy: Path, case: str) -> None:
    path = copy / "bank.db"
    path.unlink()
    if case == "foreign":
        with sqlite3.connect(path) as raw:
            raw.execute("CREATE TABLE bank (id INTEGER)")
        raw.close()
    elif case == "no tables":
        with sqlite3.connect(path) as raw:
            raw.execute("PRAGMA application_id = 0x45504D42")
        raw.close()
    else:
        contents = {"empty": b"", "text": b"not a database" * 100, "half a header": b"SQLite form"}
        path.write_bytes(contents[case])
    before = path.read_bytes()
    for read_only in (True, False):
        with pytest.raises(BankCorruptError):
            Bank.open(copy, read_only=read_only)
    assert path.read_bytes() == before


# ---- blobs


@pytest.mark.parametrize("case", ["bit", "cut", "empty", "missing", "another", "link"])
def test_a_damaged_blob_is_listed_and_its_image_not_given_out(copy: Path, case: str) -> None:
    with Bank.open(copy) as bank:
        node = next(n for n in bank.tree("n").lessons() if n.lesson.evidence)  # type: ignore[union-attr]
        shown = node.lesson.evidence[0]  # type: ignore[union-attr]
        name = bank.image(shown.image_id)
        path = copy / "blobs" / name[:2] / name
        data = path.read_bytes()
        path.unlink()
        if case == "bit":
            path.write_bytes(data[:40] + bytes([data[40] ^ 8]) + data[41:])
        elif case == "cut":
            path.write_bytes(data[:-9])
        elif case == "empty":
            path.write_bytes(b"")
        elif case == "another":
            path.write_bytes(encoded(picture(8, 8), "PNG"))
        elif case == "link":
            (copy / "elsewhere").write_bytes(data)
            path.symlink_to(copy / "elsewhere")
        assert any(name in line for line in problems(bank))
        with pytest.raises(EpimemError) as refused:
            bank.images.crop(name, shown.region, max_pixels=100)
        assert refused.value.code in {"bank_corrupt", "not_found"}
        # Handing the image in again heals the bank.
        assert bank.add_image(encoded(picture(), "PNG"), caller=CALLER).blob == name
        if case == "another":
            assert problems(bank) == []


# ---- what lies beside the bank


def memory_on(folder: Path) -> ExperienceMemory:
    controllers = (ScriptedMemoryController(), ScriptedTreeOrganizer())
    config = Config(namespace="n", tree=SETTINGS)
    return ExperienceMemory.open(folder, config=config, encoder=ENCODER, controllers=controllers)


QUESTION = "how many in alpha alpha house?"


def test_a_damaged_index_is_rebuilt_with_the_same_answers(copy: Path) -> None:
    with memory_on(copy) as memory:
        memory.recall.find(QUESTION, namespace="n")
        memory.recall.save()
        wanted = memory.recall.find(QUESTION, namespace="n")
        cache = memory.bank.side.cache
    derived = sorted(path for path in cache.iterdir() if path.is_file())
    assert len(derived) >= 2, "the index and the floors"
    chance = random.Random(3)
    for path in derived:
        data = path.read_bytes()
        other = {"cut": data[:-7], "half": data[: len(data) // 2], "empty": b"", "text": b"x" * 99}
        for _ in range(8):
            at = chance.randrange(len(data))
            flipped = data[:at] + bytes([data[at] ^ 1 << chance.randrange(8)]) + data[at + 1 :]
            other[f"byte {at}"] = flipped
        for case, damaged in other.items():
            path.write_bytes(damaged)
            with memory_on(copy) as memory:
                found = memory.recall.find(QUESTION, namespace="n")
                assert found == wanted, f"{path.name}: {case}"
            path.write_bytes(data)
        path.unlink()
        with memory_on(copy) as memory:
            assert memory.recall.find(QUESTION, namespace="n") == wanted
        path.write_bytes(data)


def test_an_index_of_another_bank_or_of_a_later_history_is_not_used(
    sound: Path, copy: Path, tmp_path: Path
) -> None:
    with memory_on(copy) as memory:
        add_lessons(memory.bank, 5, start=30)
        memory.recall.find(QUESTION, namespace="n")
        memory.recall.save()
        cache = memory.bank.side.cache
    # The bank is put back to an older copy, the cache stays.
    older = tmp_path / "older"
    shutil.copytree(sound, older)
    shutil.rmtree(tmp_path / "older.side", ignore_errors=True)
    (tmp_path / "older.side").mkdir()
    shutil.copytree(cache, tmp_path / "older.side" / "cache")
    with memory_on(older) as memory:
        add_lessons(memory.bank, 5, start=45)
        found = memory.recall.find(QUESTION, namespace="n", k=50)
        fresh = Recall(memory.bank, encoder=ENCODER, cache=None)
        wanted = fresh.find(QUESTION, namespace="n", k=50)
        assert [(c.node_id, c.dense, c.lexical) for c in found.candidates] == [
            (c.node_id, c.dense, c.lexical) for c in wanted.candidates
        ]


@pytest.mark.parametrize("case", ["zeroed", "cut", "text", "page", "wal"])
def test_a_damaged_retrieval_log_is_begun_anew(copy: Path, case: str) -> None:
    with memory_on(copy) as memory:
        for number in range(40):
            memory.retrieve(QUESTION, run_id=f"run {number}")
        log = memory.bank.side.log_path
        if case != "wal":
            with memory.bank.side.log() as connection:
                connection.execute("SELECT 1")
            memory.bank.side.purge([])
    data = log.read_bytes()
    assert len(data) > 8192
    if case == "zeroed":
        log.write_bytes(bytes(len(data)))
    elif case == "cut":
        log.write_bytes(data[:5000])
    elif case == "text":
        log.write_bytes(b"this is no database " * 100)
    elif case == "page":
        log.write_bytes(data[:4096] + b"\xff" * 4096 + data[8192:])
    else:
        Path(f"{log}-wal").write_bytes(b"\xff" * 9000)
    with memory_on(copy) as memory:
        assert memory.retrieve(QUESTION, run_id="another").items, "no question fails for its log"
        answer = memory.retrieve(QUESTION, run_id="a new one")
        explained = memory.explain(answer.retrieval_id)
        assert explained is not None
        assert explained["run_id"] == "a new one"


def test_a_log_that_is_taken_away_costs_only_the_explanations(copy: Path) -> None:
    with memory_on(copy) as memory:
        first = memory.retrieve(QUESTION, run_id="one")
    with Bank.open(copy) as bank:
        root = bank.side.root
    shutil.rmtree(root)
    with memory_on(copy) as memory:
        assert memory.explain(first.retrieval_id) is None
        again = memory.retrieve(QUESTION, run_id="one")
        assert again.items == first.items
