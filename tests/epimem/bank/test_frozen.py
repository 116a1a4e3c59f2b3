"""A frozen bank: no byte of it changes, by whatever reader and whatever call."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from epimem.bank import purge
from epimem.bank.bank import Bank
from epimem.bank.versions import FROZEN_NAME, file_digest
from epimem.config import Config
from epimem.errors import BankCorruptError, BankFrozenError, EpimemError
from epimem.memory import ExperienceMemory
from epimem.schema.ids import sha256
from epimem.schema.lesson import Evidence
from epimem.schema.region import Region
from epimem.testing import (
    ScriptedMemoryController,
    ScriptedTreeOrganizer,
    nearest_or_new,
    small_run,
)
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

RETRIEVALS = 50
NOBODY = 65534
SOURCE = Path(__file__).resolve().parents[3]


def memory_on(folder: Path, **options: bool) -> ExperienceMemory:
    controllers = (ScriptedMemoryController(), ScriptedTreeOrganizer())
    config = Config(namespace="n", tree=SETTINGS)
    return ExperienceMemory.open(
        folder, config=config, encoder=ENCODER, controllers=controllers, **options
    )


@pytest.fixture(scope="module")
def frozen(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("frozen") / "bank"
    with new_bank(folder) as bank:
        image = bank.add_image(encoded(picture(), "PNG"), caller=CALLER)
        region = Region(x0=4, y0=4, x1=30, y1=30, width=64, height=48)
        evidence = (Evidence(image_id=image.image_id, region=region, note="the corner"),)
        draft = lesson(0).model_copy(update={"evidence": evidence})
        bank.add_lesson(draft, vectorize([draft.index])[0], caller=CALLER, namespace="n")
        add_lessons(bank, 12, start=1)
        run_maintain(bank)
        bank.snapshot("then", caller=CALLER)
        add_runs(bank, 1)
    with memory_on(folder) as memory:
        memory.retrieve("how many in alpha alpha house?", run_id="before freezing")
        memory.freeze()
    shutil.rmtree(f"{folder}.side")
    return folder


@pytest.fixture
def copy(frozen: Path, tmp_path: Path) -> Path:
    folder = tmp_path / "bank"
    shutil.copytree(frozen, folder)
    return folder


def contents(folder: Path) -> dict[str, tuple[str, int]]:
    """Return hash and time of change of every file and folder under a bank."""
    return {
        str(path.relative_to(folder)): (
            sha256(path.read_bytes()) if path.is_file() else "",
            path.stat().st_mtime_ns,
        )
        for path in (folder, *folder.rglob("*"))
    }


# ---- readers who may not write


def ask(folder: Path, name: str, count: int) -> Path:
    """Ask questions of a bank, look at each answer and its explanation; return the log's folder."""
    houses = ("alpha", "beta", "gamma", "delta", "epsilon", "zeta")
    with memory_on(folder) as memory:
        for number in range(count):
            house = f"{houses[number % 6]} {houses[number % 5]} house"
            found = memory.retrieve(f"how many in {house}?", run_id=f"{name}-{number}")
            assert found.items, "something is found"
            explained = memory.explain(found.retrieval_id)
            assert explained is not None
            assert explained["run_id"] == f"{name}-{number}"
            assert explained["candidates"]
            for crop in found.crops:
                assert memory.crop_png(crop)[:4] == b"\x89PNG"
        assert memory.check() == []
        return memory.bank.side.root


def start_reader(folder: Path, name: str, state: Path, user: int | None, said: Path) -> int:
    """Ask half of the questions in a child, as another user where one is given."""
    child = os.fork()
    if child:
        return child
    status = 1
    try:
        signal.alarm(120)
        os.environ["EPIMEM_STATE_DIR"] = str(state)
        if user is not None:
            os.setgroups([])
            os.setgid(user)
            os.setuid(user)
        (state / f"{name}.said").write_text(str(ask(folder, name, RETRIEVALS // 2)))
        status = 0
    except BaseException as error:  # noqa: BLE001 - told to the parent, whatever it is
        said.write_text(repr(error))
    finally:
        os._exit(status)


@pytest.fixture
def open_place() -> Iterator[Path]:
    """A folder that other users may go through, unlike those that pytest makes."""
    place = Path(tempfile.mkdtemp(prefix="epimem-frozen-"))
    place.chmod(0o755)
    yield place
    for path in (place, *place.rglob("*")):
        if path.is_dir() and not path.is_symlink():
            path.chmod(0o755)
    shutil.rmtree(place)


def test_two_unprivileged_readers_leave_every_byte_as_it_was(
    frozen: Path, copy: Path, open_place: Path
) -> None:
    root = os.geteuid() == 0
    folder, state = open_place / "shelf" / "bank", open_place / "state"
    shutil.copytree(frozen, folder)
    state.mkdir()
    if root:
        shutil.chown(state, NOBODY)
        mode, folder_mode = 0o444, 0o755
    else:
        mode, folder_mode = 0o444, 0o555
    for path in folder.rglob("*"):
        path.chmod(folder_mode if path.is_dir() else mode)
    folder.chmod(folder_mode)
    folder.parent.chmod(folder_mode)
    # Everything is imported before the user changes: Python itself may lie where it cannot read.
    ask(copy, "warm", 1)
    faults = open_place / "faults"
    faults.touch()
    faults.chmod(0o666)
    before = contents(folder.parent)
    readers = [
        start_reader(folder, name, state, NOBODY if root else None, faults)
        for name in ("first", "second")
    ]
    ended = [os.waitstatus_to_exitcode(os.waitpid(reader, 0)[1]) for reader in readers]
    assert (ended, faults.read_text()) == ([0, 0], "")
    assert contents(folder.parent) == before
    for name in ("first", "second"):
        assert Path((state / f"{name}.said").read_text()).is_relative_to(state)


def test_readers_on_a_read_only_mount_leave_every_byte_as_it_was(
    frozen: Path, open_place: Path
) -> None:
    folder, state = open_place / "bank", open_place / "state"
    shelf = open_place / "shelf"
    shutil.copytree(frozen, shelf / "bank")
    (shelf / "bank.side").mkdir()
    folder.mkdir()
    state.mkdir()
    before = contents(shelf)
    # Its own mount namespace: nothing of it is left when the readers are done.
    script = (
        'mount --bind "$1" "$1" && mount -o remount,bind,ro "$1" && ! touch "$1/x" 2>/dev/null'
        ' && shift && exec "$@"'
    )
    probe = ["unshare", "-m", "sh", "-c", script, "sh", str(shelf)]
    try:
        done = subprocess.run([*probe, "true"], capture_output=True, check=False)
    except FileNotFoundError:
        pytest.skip("unshare is not installed")
    if done.returncode != 0:
        pytest.skip("this user may not mount")
    environment = {**os.environ, "EPIMEM_STATE_DIR": str(state), "PYTHONPATH": str(SOURCE)}
    reader = (
        "import sys; from pathlib import Path; from tests.epimem.bank.test_frozen import ask;"
        "print(ask(Path(sys.argv[1]), 'mounted', 10))"
    )
    command = [sys.executable, "-c", reader, str(shelf / "bank")]
    done = subprocess.run(
        [*probe, *command], env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert Path(done.stdout.strip()).is_relative_to(state)
    assert contents(shelf) == before


# ---- calls that would write


def test_every_call_that_would_write_says_that_the_bank_is_frozen(copy: Path) -> None:
    run, image = small_run(9), encoded(picture(9, 9), "PNG")
    with memory_on(copy) as memory:
        bank = memory.bank
        found = memory.retrieve("how many in alpha alpha house?", run_id="one")
        memory.recall.save()
        before = contents(copy)
        node_id = found.items[0].node_id
        calls: dict[str, Callable[[], object]] = {
            "contribute run": lambda: memory.contribute(run),
            "contribute lesson": lambda: memory.contribute(lesson(50)),
            "contribute again": lambda: memory.contribute(lesson(3), idempotency_key="k"),
            "image": lambda: memory.add_image(image),
            "stored image": lambda: memory.add_image(encoded(picture(), "PNG")),
            "ingest": memory.ingest,
            "maintain": memory.maintain,
            "snapshot": lambda: memory.snapshot("now"),
            "restore": lambda: memory.restore("then"),
            "restore to a number": lambda: memory.restore(3),
            "revoke item": lambda: memory.revoke("item", node_id),
            "revoke run": lambda: memory.revoke("run", "run-000000"),
            "revoke contributor": lambda: memory.revoke("contributor", "alice"),
            "freeze": memory.freeze,
            "retry": bank.retry_now,
            "signal": lambda: bank.add_signal(node_id, "q", "hurt", caller=CALLER, source="peer"),
            "lease": lambda: bank.lease().__enter__(),
            "lower": lambda: bank.lower(bank.node(node_id), bank.node(node_id)),
            "purge page": lambda: purge.rewrite_file(bank._db),
            "blob": lambda: bank._blobs.put(b"x"),
        }
        codes = {name: _code(call) for name, call in calls.items()}
        assert codes == dict.fromkeys(calls, "bank_frozen")
        assert bank.purge() == 0
    assert contents(copy) == before


def _code(call: Callable[[], object]) -> str:
    try:
        call()
    except EpimemError as error:
        return error.code
    return "no error"


def test_feedback_on_a_frozen_bank_is_set_aside_and_no_reader_sees_it(copy: Path) -> None:
    with memory_on(copy) as memory:
        found = memory.retrieve("how many in alpha alpha house?", run_id="one")
        node = memory.bank.node(found.items[0].node_id)
        standing = memory.bank.standing([(node.node_id, "n", "")])
        before = contents(copy)
        receipt = memory.feedback(
            found.retrieval_id,
            verdict="wrong",
            source="peer",
            hurt={node.node_id: "it was the other way round"},
        )
        assert receipt.status == "stored"
        assert memory.bank.standing([(node.node_id, "n", "")]) == standing
        with memory.bank.side.log() as log:
            rows = log.execute("SELECT body FROM feedback").fetchall()
        assert len(rows) == 1
        assert "the other way round" in rows[0]["body"]
    assert contents(copy) == before
    with memory_on(copy) as memory:
        again = memory.retrieve("how many in alpha alpha house?", run_id="two")
        assert again.items == found.items


def test_the_digest_covers_every_file_and_is_the_same_at_each_open(copy: Path) -> None:
    with Bank.open(copy) as bank:
        assert bank.frozen is not None
        assert bank.read_only
        assert bank.frozen.seq == bank.head_seq
        assert bank.frozen.state_digest == bank.state_digest()
        assert bank.frozen.file_digest == file_digest(copy)
        assert problems(bank) == []
    names = {path.name for path in copy.rglob("*") if path.is_file()}
    assert names >= {"bank.db", FROZEN_NAME}
    assert not {name for name in names if name.endswith(("-wal", "-shm"))}
    assert list((copy / "index").iterdir()), "the folded index"


def test_a_folded_index_spares_readers_their_own(copy: Path, tmp_path: Path) -> None:
    with memory_on(copy) as memory:
        recall = memory.recall
        # Only the commit of the freezing itself came later, and it holds no node.
        assert recall.seq == memory.bank.head_seq - 1
        assert len(recall) > 0
    assert not list((tmp_path / "bank.side" / "cache").glob("recall-*"))


def test_one_changed_byte_of_any_file_is_noticed(copy: Path) -> None:
    paths = sorted(path for path in copy.rglob("*") if path.is_file())
    checked = 0
    for path in paths:
        data = path.read_bytes()
        for at in {0, len(data) // 2, len(data) - 1} if data else set[int]():
            path.write_bytes(data[:at] + bytes([data[at] ^ 32]) + data[at + 1 :])
            said = _code(lambda: _open_and_check(copy))
            if path.name == "bank.lock":
                continue
            assert said != "no error", f"{path.name} at {at}"
            checked += 1
        path.write_bytes(data)
    assert checked >= 12
    _open_and_check(copy)


def _open_and_check(folder: Path) -> None:
    with Bank.open(folder) as bank:
        found = problems(bank)
    if found:
        raise BankCorruptError(found[0])


def test_a_changed_database_is_not_even_opened(copy: Path) -> None:
    path = copy / "bank.db"
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)
    with pytest.raises(BankCorruptError):
        Bank.open(copy)


def test_a_file_that_was_added_or_taken_away_is_noticed(copy: Path) -> None:
    (copy / "blobs" / "extra").write_bytes(b"x")
    with Bank.open(copy) as bank:
        assert problems(bank) != []
    (copy / "blobs" / "extra").unlink()
    blob = next(path for path in (copy / "blobs").rglob("*") if path.is_file())
    blob.unlink()
    with Bank.open(copy) as bank:
        assert problems(bank) != []


def test_a_bank_that_others_have_open_or_maintain_is_not_frozen(tmp_path: Path) -> None:
    folder = tmp_path / "bank"
    with new_bank(folder) as bank:
        add_lessons(bank, 3)
        run_maintain(bank)
    with memory_on(folder) as memory, Bank.open(folder) as other:
        with other.lease("busy"):
            assert _code(memory.freeze) == "bank_locked_elsewhere"
        other.head_seq  # noqa: B018 - opens a connection that keeps the log
        assert _code(memory.freeze) == "conflict"
        assert not (folder / FROZEN_NAME).exists()
    with memory_on(folder) as memory:
        memory.contribute(lesson(30))
        memory.freeze()
        with pytest.raises(BankFrozenError):
            memory.contribute(lesson(31))


def test_unreferenced_blobs_are_gone_from_a_frozen_bank(tmp_path: Path) -> None:
    folder = tmp_path / "bank"
    with new_bank(folder) as bank:
        add_runs(bank, 1)
        orphan = bank._blobs.put(b"a run that was never committed")
        run_ingest(bank)
        run_maintain(bank, ScriptedTreeOrganizer(place=nearest_or_new))
        assert any("orphan" in p.code for p in bank.check(LIMITS))
    with memory_on(folder) as memory:
        memory.freeze()
        assert memory.check() == []
        assert not memory.bank._blobs.has(orphan)
