"""Code in a limited child: what passes, and what hostile code cannot do."""

from __future__ import annotations

import os
import time

import pytest

from harness_adapters.streams.checkers import check
from harness_adapters.streams.code import Test, share_passed
from harness_adapters.streams.task import StreamTask

ADD = "def add(a, b):\n    return a + b\n"


def statements(*texts):
    return [Test(kind="statement", text=text) for text in texts]


def outputs(*pairs):
    return [Test(kind="output", text=given, output=wanted) for given, wanted in pairs]


def test_the_share_of_statements_that_hold():
    tests = statements(
        "assert add(1, 2) == 3", "assert add(1, 2) == 4", "assert add('a', 'b') == 'ab'"
    )
    assert share_passed(ADD, tests) == pytest.approx(2 / 3)


def test_the_share_of_inputs_with_the_output_wanted():
    source = "n = int(input())\nprint(n * 2)\n"
    assert share_passed(
        source, outputs(("2\n", "4"), ("3\n", "6\n"), ("4\n", "9"))
    ) == pytest.approx(2 / 3)


def test_a_program_may_end_itself_after_its_output():
    source = "import sys\nprint(4)\nsys.exit(0)\n"
    assert share_passed(source, outputs(("", "4"))) == 1.0


def test_a_whole_reply_is_marked():
    reference = {
        "setup": "import math",
        "tests": [{"kind": "statement", "text": "assert area(1) == math.pi"}],
    }
    task = StreamTask(task_id="t", niche="n", question="q", checker="code", reference=reference)
    good = "Here it is:\n```python\ndef area(r):\n    return math.pi * r * r\n```\n"
    assert check(task, good).reward == 1.0
    assert check(task, good.replace("python", "json")).reward == 0.0
    assert check(task, "no code").answer == ""


@pytest.mark.parametrize(
    "source",
    [
        "import sys; sys.exit(0)",
        "import os; os._exit(0)",
        "raise SystemExit",
        "print('passed')\nraise ValueError",
        "def broken(:",
        "import os, signal; os.kill(os.getpid(), signal.SIGKILL)",
        "while True: pass",
        "x = []\nwhile True: x.append(' ' * 10**7)",
        "print('a' * 10**8)",
        "open('big', 'wb').write(b'x' * 10**8)",
        "import os\nfor fd in range(3, 20):\n    try: os.write(fd, b'0' * 32)\n    except OSError: pass",
        "import time; time.sleep(60)",
        "import builtins as b\nc = b.compile\nb.compile = lambda s, *a: c('pass', *a)",
        "import builtins as b\nb.exec = lambda *a: None",
        "import __main__ as m\nm.exec = m.compile = lambda *a: None",
        "import os\nos._exit = lambda code: None",
        "\0",
    ],
)
def test_nothing_but_passing_passes(source):
    began = time.monotonic()
    assert share_passed(source, statements("assert add(1, 2) == 3"), seconds=2.0) == 0.0
    assert time.monotonic() - began < 6


def test_children_that_are_left_behind_end_with_the_test(tmp_path):
    mark = tmp_path / "alive"
    source = (
        "import os, time\n"
        "if os.fork() == 0:\n"
        "    os.setsid()\n"
        "    time.sleep(1.0)\n"
        f"    open({str(mark)!r}, 'w').write('x')\n"
        "    os._exit(0)\n" + ADD
    )
    assert share_passed(source, statements("assert add(1, 2) == 3")) == 1.0
    time.sleep(1.6)
    assert not mark.exists()


def test_many_children_are_not_to_be_had():
    source = (
        "import os\nfor _ in range(500):\n    if os.fork() == 0:\n        while True: pass\n" + ADD
    )
    began = time.monotonic()
    share_passed(source, statements("assert add(1, 2) == 3"), seconds=2.0)
    assert time.monotonic() - began < 8
    assert os.getloadavg()[0] < 200


def test_the_number_of_children_is_bounded():
    source = (
        "import os, time\nstarted = 0\ntry:\n    while started < 100:\n"
        "        if os.fork() == 0:\n            time.sleep(20)\n        started += 1\n"
        "except OSError:\n    pass\n"
    )
    assert share_passed(source, statements("assert 0 < started < 40")) == 1.0


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be left")
def test_code_is_never_root(tmp_path):
    kept = tmp_path / "kept"
    kept.write_text("x")
    kept.chmod(0o600)
    change = "try:\n    {}\nexcept PermissionError:\n    pass\nelse:\n    assert False\n"
    tests = statements(
        "import os; assert os.geteuid() != 0 != os.getuid()",
        change.format(f"open({str(kept)!r}, 'a')"),
        change.format("import os; os.setuid(0)"),
        "open('own', 'w').write('x')",
        "held = open('/proc/self/status').read().split('CapEff:')[1].split()[0]\n"
        "assert not int(held, 16) & ~4",
    )
    assert share_passed("", tests) == 1.0


def test_nothing_of_the_caller_reaches_the_code(monkeypatch):
    monkeypatch.setenv("EPIMEM_SECRET", "x")
    tests = statements(
        "import os; assert 'EPIMEM_SECRET' not in os.environ",
        "import os; assert os.listdir('.') == []",
        "import sys; assert not any(name.startswith('epimem') for name in sys.modules)",
        (
            "import socket\ntry:\n    socket.create_connection(('127.0.0.1', 9), 1)\n"
            "except OSError as error:\n    assert error.errno != 111, 'reached the host'\n"
        ),
    )
    assert share_passed("", tests) == 1.0


def test_all_tests_share_the_time():
    began = time.monotonic()
    slow = statements(*["import time; time.sleep(0.7)"] * 9)
    assert 0 < share_passed("", slow, seconds=2.0) < 0.5
    assert time.monotonic() - began < 5
