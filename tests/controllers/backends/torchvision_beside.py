"""torchvision for tests of the transformers backend, on a machine whose torch has no CUDA.

The only torchvision for this torch is built for CUDA. Its native operators do not load here; where two
of them are missing, importing torchvision fails, and with it much of transformers. So it lies in a
folder beside the packages, and only a process that wants it calls `enable`.

A test with the mark `torchvision` is run in such a process: one child for all of them in a file, whose
reports stand for those of this process. So no other test meets a transformers that found torchvision,
and none of these meets one that settled before that there is none.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest

FOLDER = Path(sys.prefix) / "beside"
MARK = "torchvision"
# Names the file that the child writes its reports to; set in the child alone.
REPORTS = "EPIMEM_TEST_REPORTS"
SECONDS = 280
# Images need neither: a name without a body will do.
_SIGNATURES = (
    "nms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
    "qnms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
)
# Operators live as long as the library object that defined them.
_library: list[Any] = []


def enable() -> None:
    """Make torchvision importable in this process; transformers must not have looked for it yet."""
    if _library:
        return
    assert "transformers" not in sys.modules, "transformers has settled what it can use"
    assert FOLDER.is_dir(), "it is installed by: make .venv/.installed"
    import torch

    library = torch.library.Library("torchvision", "FRAGMENT")
    if torch.version.cuda is None:
        for signature in _SIGNATURES:
            library.define(signature)
    _library.append(library)
    sys.path.append(str(FOLDER))


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", f"{MARK}: runs in a child process that has torchvision")
    if os.environ.get(REPORTS):
        enable()


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    path = os.environ.get(REPORTS)
    if path:
        with Path(path).open("a", encoding="utf-8") as file:
            file.write(json.dumps(report._to_json()) + "\n")


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item, nextitem: pytest.Item | None) -> bool | None:
    if item.get_closest_marker(MARK) is None or os.environ.get(REPORTS):
        return None
    item.ihook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
    for report in _reports(item):
        item.ihook.pytest_runtest_logreport(report=report)
    item.ihook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
    # As the usual protocol ends; what was set up for the item before may not fit the next one.
    item.session._setupstate.teardown_exact(nextitem)
    return True


_run = pytest.StashKey[dict[Path, tuple[dict[str, list[pytest.TestReport]], str]]]()


def _reports(item: pytest.Item) -> list[pytest.TestReport]:
    runs = item.session.stash.setdefault(_run, {})
    if item.path not in runs:
        alike = [other for other in item.session.items if other.path == item.path]
        runs[item.path] = _run_child([other for other in alike if other.get_closest_marker(MARK)])
    found, output = runs[item.path]
    reports = found.get(item.nodeid, [])
    if reports and reports[-1].when == "teardown":
        return reports
    lost = f"the child process did not end this test; it said:\n{output[-8_000:]}"
    return [*reports, pytest.TestReport(item.nodeid, item.location, {}, "failed", lost, "call")]


def _run_child(
    items: list[pytest.Item],
) -> tuple[dict[str, list[pytest.TestReport]], str]:
    """Run tests in a child; return its reports by test, and all that it said."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "reports.jsonl"
        path.touch()
        ids = [item.nodeid for item in items]
        said = Path(folder) / "said.txt"
        with (
            said.open("w", encoding="utf-8") as file,
            contextlib.suppress(subprocess.TimeoutExpired),
        ):
            subprocess.run(
                [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *ids],
                cwd=items[0].config.rootpath,
                env={
                    **os.environ,
                    REPORTS: str(path),
                    "HF_HUB_OFFLINE": "1",
                    "OMP_NUM_THREADS": "1",
                },
                stdout=file,
                stderr=subprocess.STDOUT,
                timeout=SECONDS,
                check=False,
            )
        output = said.read_text(encoding="utf-8", errors="replace")
        lines = path.read_text(encoding="utf-8").splitlines()
    found: dict[str, list[pytest.TestReport]] = {}
    for line in lines:
        report = pytest.TestReport._from_json(json.loads(line))
        found.setdefault(report.nodeid, []).append(report)
    return found, output
