"""`epimem log`, `stats` and `check`."""

from __future__ import annotations

from hashlib import sha256
from pathlib import Path

from tests.cli_program import Epimem


def test_stats_counts_what_the_bank_holds(grown: Path, epimem: Epimem) -> None:
    values = epimem("stats", grown).lines[0]

    assert values["nodes"]["lesson"] == 12
    assert values["operations"]["place"] == 12
    assert (values["inbox"], values["encoder"], values["frozen"]) == (0, "table", False)


def test_log_prints_the_last_entries_oldest_first(grown: Path, epimem: Epimem) -> None:
    lines = epimem("log", grown, "-n", 3).lines

    assert [line["seq"] for line in lines] == sorted(line["seq"] for line in lines)
    assert len(lines) == 3
    assert lines[-1]["kind"] == "step_done"
    assert epimem("log", grown, "-n", 0).status == 2


def test_check_fails_for_damage_and_not_for_an_orphan(grown: Path, epimem: Epimem) -> None:
    assert epimem("check", grown).lines[-1]["problems"] == 0
    blob = next(path for path in (grown / "blobs").glob("??/*") if path.is_file())
    name = sha256(b"left over").hexdigest()
    (grown / "blobs" / name[:2]).mkdir(exist_ok=True)
    (grown / "blobs" / name[:2] / name).write_bytes(b"left over")
    orphaned = epimem("check", grown)
    assert (orphaned.status, orphaned.lines[-1]["orphans"]) == (0, 1)

    blob.chmod(0o600)
    blob.write_bytes(b"damaged")
    damaged = epimem("check", grown)
    assert damaged.status == 9
    assert damaged.lines[-1]["problems"] == 1
