"""Check the order in which a process made its blobs and its database durable.

`check` reports every break of three rules in a list of events:
    1. a file is fsynced after its last write and before it is renamed into the blob folder;
    2. the folder it was renamed into is fsynced before the database's next commit is;
    3. so is the folder in which a folder of blobs was made.
Events come from a recorder inside the process or, with `parse_strace`, from a log written by
    strace -f -y -o LOG -e trace=CALLS     # CALLS: the names in WRITES, SYNCS, RENAMES, FOLDERS
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import PurePosixPath

WRITES = {"write", "writev", "pwrite64", "pwritev", "pwritev2"}
SYNCS = {"fsync", "fdatasync"}
RENAMES = {"rename", "renameat", "renameat2"}
FOLDERS = {"mkdir", "mkdirat"}


@dataclass(frozen=True)
class Event:
    """One call that succeeded; `path` is absolute, `target` is where a rename leads."""

    call: str
    path: str
    target: str = ""
    pid: int = 0


def check(
    events: Iterable[Event], *, blobs: str, database: str | None = None, by_process: bool = False
) -> list[str]:
    """Return the breaks of the rules, in order; none for a sound run.

    Args:
        events: calls in the order in which they ended.
        blobs: the blob folder, absolute.
        database: the database file, absolute; a sync of it, of its -wal or of its -journal is taken
            for a commit. Without one only the end of the events counts as a commit.
        by_process: hold only a process's (thread's) own commits against its blobs. Needed where
            several write at once.
    """
    breaks: list[str] = []
    synced: set[str] = set()
    made: dict[str, str] = {}
    pending: dict[tuple[int, str], str] = {}
    commits = {f"{database}{suffix}" for suffix in ("", "-wal", "-journal")} if database else set()
    for event in events:
        owner = event.pid if by_process else 0
        if event.call in WRITES:
            synced.discard(event.path)
        elif event.call in RENAMES and _inside(event.target, blobs):
            if event.path not in synced:
                breaks.append(f"{event.target}: renamed before its bytes were fsynced")
            folder = _parent(event.target)
            pending[owner, folder] = event.target
            if folder in made:
                pending[owner, _parent(folder)] = folder
        elif event.call in FOLDERS:
            made[event.path] = _parent(event.path)
        elif event.call in SYNCS:
            synced.add(event.path)
            pending.pop((owner, event.path), None)
            made = {folder: parent for folder, parent in made.items() if parent != event.path}
            if event.path in commits:
                breaks += _overdue(pending, owner, "before the database was")
    for who in sorted({who for who, _ in pending}):
        breaks += _overdue(pending, who, "at all")
    return breaks


def _overdue(pending: dict[tuple[int, str], str], owner: int, when: str) -> list[str]:
    late = [key for key in pending if key[0] == owner]
    return [f"{pending.pop(key)}: folder {key[1]} not fsynced {when}" for key in late]


def _inside(path: str, folder: str) -> bool:
    return path.startswith(folder.rstrip("/") + "/")


def _parent(path: str) -> str:
    return str(PurePosixPath(path).parent)


_START = r"^(?:\[pid\s+)?(?P<pid>\d+)?\]?\s*(?:\d[\d:.]*\s+)?"
_RESULT = r"\s+=\s+(?P<result>-?\d+)"
_WHOLE = re.compile(_START + r"(?P<call>\w+)\((?P<given>.*)\)" + _RESULT)
_UNFINISHED = re.compile(_START + r"(?P<call>\w+)\((?P<given>.*?),?\s*<unfinished \.\.\.>$")
_RESUMED = re.compile(_START + r"<\.\.\. (?P<call>\w+) resumed>(?P<given>.*)\)" + _RESULT)
_ARGUMENT = re.compile(r'(?:(?:AT_FDCWD|\d+)<(?P<open>[^>]*)>)|"(?P<text>(?:[^"\\]|\\.)*)"')


def parse_strace(text: str) -> list[Event]:
    """Return the calls of a log of `strace -f -y` that succeeded, in the order they ended."""
    return list(_events(text.splitlines()))


def _events(lines: Iterable[str]) -> Iterator[Event]:
    begun: dict[tuple[int, str], str] = {}
    for line in lines:
        if found := _UNFINISHED.match(line):
            begun[int(found["pid"] or 0), found["call"]] = found["given"]
            continue
        resumed = _RESUMED.match(line)
        found = resumed or _WHOLE.match(line)
        if found is None:
            continue
        pid, call = int(found["pid"] or 0), found["call"]
        given = found["given"]
        if resumed:
            given = f"{begun.pop((pid, call), '')}, {given}"
        if int(found["result"]) >= 0 and call in WRITES | SYNCS | RENAMES | FOLDERS:
            yield _event(pid, call, given)


def _event(pid: int, call: str, given: str) -> Event:
    paths = _paths(given)
    if call in WRITES | SYNCS:
        return Event(call, paths[0], pid=pid)
    if call in {"renameat", "renameat2"}:
        return Event(call, _join(*paths[:2]), _join(*paths[2:4]), pid)
    if call == "rename":
        return Event(call, paths[0], paths[1], pid)
    return Event(call, _join(*paths) if call == "mkdirat" else paths[0], pid=pid)


def _paths(given: str) -> list[str]:
    found = _ARGUMENT.finditer(given)
    return [_unescaped(m["open"] if m["open"] is not None else m["text"]) for m in found]


def _unescaped(text: str) -> str:
    raw = re.sub(r"\\([0-7]{1,3})", lambda m: chr(int(m[1], 8)), text.removesuffix(" (deleted)"))
    return raw.encode("latin-1", "replace").decode("utf-8", "replace")


def _join(folder: str, name: str) -> str:
    return str(PurePosixPath(folder) / name)
