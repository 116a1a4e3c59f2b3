"""Host memory of both roles on one base with two adapters, over that of two merged models.

    python -m benchmarks.controllers.memory [FOLDER]

Random weights of the shape of Qwen3-VL-2B-Instruct in bfloat16 are written below FOLDER (22 GB at most,
removed afterwards); each figure is that of a process of its own (`two_roles`). Replies are compared
twice: in float32, where merging is exact up to the seventh digit, and in bfloat16, where it rounds the
weights. Random weights decide between near equals at every token, so that the second comparison is
harder than any that fine-tuned models meet.
"""

from __future__ import annotations

import json
import os
import platform
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

ROLES = ("memory", "organizer")
NEEDED_GIB = 13  # merging in float32 takes the most


def main(arguments: Sequence[str]) -> None:
    """Check that there is room, and run all steps."""
    free = _proc_gib("/proc/meminfo", "MemAvailable")
    print(f"{_machine()}; {free:.1f} GiB of memory free, {NEEDED_GIB} needed", flush=True)
    if free < NEEDED_GIB:
        sys.exit("not enough memory is free")
    root = Path(tempfile.mkdtemp(dir=arguments[0] if arguments else None))
    try:
        _run(root)
    finally:
        shutil.rmtree(root)


def _run(root: Path) -> None:
    base, adapters = root / "base", [root / "adapters" / role for role in ROLES]
    merged = [root / f"merged-{role}" for role in ROLES]
    _step("write", base, root / "adapters")
    rows = {"imports alone": _step("imports")}
    rows["one base, two adapters"] = one = _step("speak", base, adapters[0], base, adapters[1])
    for adapter, target in zip(adapters, merged, strict=True):
        _step("merge", base, adapter, target)
    rows["two merged models"] = two = _step("speak", merged[0], "-", merged[1], "-")
    for target in merged:
        shutil.rmtree(target)
    print(f"{'GiB':24} {'steady':>8} {'peak':>8}")
    for name, row in rows.items():
        print(f"{name:24} {row['steady']:8.2f} {row['peak']:8.2f}")
    print(f"{'ratio':24} {one['steady'] / two['steady']:8.3f} {one['peak'] / two['peak']:8.3f}")
    _compare("bfloat16", one["said"], two["said"])
    _compare("float32", *_in_float32(root, base, adapters))


def _in_float32(root: Path, base: Path, adapters: Sequence[Path]) -> tuple[Any, Any]:
    """Return what adapters say over the base, and what merged models say, one at a time."""
    wide, merged, alone = root / "wide", root / "merged", []
    _step("widen", base, wide)
    together = _step("speak", wide, adapters[0], wide, adapters[1], wide, "-")["said"]
    print("the three differ from each other:", len({str(replies) for replies in together}) == 3)
    for adapter in adapters:
        _step("merge", wide, adapter, merged)
        alone += _step("speak", merged, "-")["said"]
        shutil.rmtree(merged)
    return together[:2], alone


def _compare(kind: str, shared: Sequence[Sequence[str]], merged: Sequence[Sequence[str]]) -> None:
    pairs = [
        pair
        for ours, theirs in zip(shared, merged, strict=True)
        for pair in zip(ours, theirs, strict=True)
    ]
    equal = sum(ours == theirs for ours, theirs in pairs)
    print(f"replies in {kind}: {equal} of {len(pairs)} equal", flush=True)


def _step(name: str, *paths: Path | str) -> Any:
    start = time.monotonic()
    done = subprocess.run(  # noqa: S603 - a module of ours
        [sys.executable, "-m", "benchmarks.controllers.two_roles", name, *map(str, paths)],
        stdout=subprocess.PIPE,
        text=True,
        check=True,
        env={**os.environ, "HF_HUB_OFFLINE": "1"},
    )
    print(f"# {name}: {time.monotonic() - start:.0f} s", file=sys.stderr, flush=True)
    return json.loads(done.stdout.splitlines()[-1])


def _proc_gib(path: str, key: str) -> float:
    lines = dict(line.split(":") for line in Path(path).read_text(encoding="ascii").splitlines())
    return int(lines[key].split()[0]) / 2**20


def _machine() -> str:
    model = [
        line
        for line in Path("/proc/cpuinfo").read_text().splitlines()
        if line.startswith("model name")
    ]
    total = _proc_gib("/proc/meminfo", "MemTotal")
    name = model[0].split(":")[1].strip() if model else platform.processor()
    return f"{name}, {os.cpu_count()} cores, {total:.0f} GiB, Python {platform.python_version()}"


if __name__ == "__main__":
    main(sys.argv[1:])
