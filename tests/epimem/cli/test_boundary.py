"""Exit statuses, one-line errors, streams, signals, ugly paths: often in processes of their own."""

from __future__ import annotations

import json
import os
import resource
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from epimem.cli import INTERRUPTED, main
from epimem.cli.boundary import PIPE_CLOSED

PROGRAM = (sys.executable, "-m", "epimem")
Finished = subprocess.CompletedProcess[bytes]


def start(*arguments: object, **options: object) -> Finished:
    """Run the program to its end; streams are captured unless given."""
    streams = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    command = [*PROGRAM, *(os.fspath(item) for item in map(_argument, arguments))]
    return subprocess.run(command, check=False, timeout=60, **{**streams, **options})  # type: ignore[call-overload, no-any-return]


def _argument(item: object) -> str | bytes:
    return item if isinstance(item, str | bytes) else str(item)


def one_error(result: Finished) -> tuple[int, str]:
    """Return exit status and code of a failed call, after looking at its form."""
    line = result.stderr.decode()
    assert result.stdout == b""
    assert line.startswith("epimem: ")
    assert line.count("\n") == 1
    assert "Traceback" not in line
    return result.returncode, line.split(": ")[1]


@pytest.fixture(scope="module")
def bank(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("boundary") / "bank"
    assert main(["init", str(path), "--encoder", "none"]) == 0
    return path


@pytest.fixture
def here(capfd: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, str, str]]:
    """Run a command in this process; return status, code and the line of the error."""

    def call(*arguments: object) -> tuple[int, str, str]:
        capfd.readouterr()
        status = main([str(argument) for argument in arguments])
        captured = capfd.readouterr()
        assert captured.out == ""
        assert captured.err.startswith("epimem: ")
        assert captured.err.count("\n") == 1
        return status, captured.err.split(": ")[1], captured.err

    return call


# -- usage -----------------------------------------------------------------------------------------


def test_no_arguments_shows_the_commands_on_standard_error() -> None:
    result = start()

    assert (result.returncode, result.stdout) == (2, b"")
    assert b"retrieve" in result.stderr


@pytest.mark.parametrize(
    "arguments",
    [
        ("no-such-command",),
        ("--no-such-option",),
        ("init",),
        ("init", ""),
        ("init", "a", "b"),
        ("check", "x", "--json=1"),
        ("log", "x", "-n"),
        ("log", "x", "-n", "-5"),
        ("log", "x", "-n", "2026-01-01"),
        ("retrieve", "x", "q", "--mode", "magic"),
        ("show", "-bank"),
        ("contribute", "x"),
        ("feedback", "x", "r", "--verdict", "maybe"),
        ("check\nx",),
    ],
)
def test_wrong_usage_is_one_line_and_exit_2(
    here: Callable[..., tuple[int, str, str]], arguments: tuple[str, ...]
) -> None:
    status, code, line = here(*arguments)

    assert (status, code) == (2, "usage")
    assert "--help" in line


# -- paths -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("command", ["check", "stats", "maintain", "freeze"])
def test_a_path_without_a_bank_is_not_found(
    here: Callable[..., tuple[int, str, str]], tmp_path: Path, command: str
) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    paths = [tmp_path, tmp_path / "gone", tmp_path / "file", tmp_path / "file" / "x"]
    for path in (*paths, tmp_path / "loop", "/dev/null", "/dev/null/x", "new\nline", "🗺"):
        assert here(command, path)[:2] == (4, "not_found"), path
    assert here(command, "x" * 5000)[:2] == (2, "too_large")
    assert here(command, "/".join(["x" * 200] * 30))[:2] == (2, "too_large")
    assert here(command, "\udcff")[:2] == (2, "invalid_text")


@pytest.mark.parametrize("name", ["with\nnewline", "🗺 with spaces", "quote'\"%?#", "-dash"])
def test_a_bank_works_under_an_ugly_name(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["init", "--encoder", "none", "--", name]) == 0
    made = json.loads(capfd.readouterr().out)
    assert made["path"] == name
    assert main(["retrieve", "--", name, "How many?"]) == 0
    assert main(["check", "--", name]) == 0
    (tmp_path / "link").symlink_to(tmp_path / name)
    assert main(["check", "link"]) == 0


def test_a_bank_that_everybody_may_write_is_refused(
    here: Callable[..., tuple[int, str, str]], tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    before = os.umask(0)
    try:
        assert main(["init", str(tmp_path / "b"), "--encoder", "none"]) == 0
    finally:
        os.umask(before)
    capfd.readouterr()
    assert not [path for path in (tmp_path / "b").rglob("*") if path.stat().st_mode & 0o022]
    (tmp_path / "b").chmod(0o777)
    assert here("check", tmp_path / "b")[:2] == (9, "unsafe_bank_location")


def test_a_path_that_is_no_utf8_is_refused() -> None:
    assert one_error(start("check", b"\xff\xfe")) == (2, "invalid_text")


def test_broken_settings_are_named(
    here: Callable[..., tuple[int, str, str]], tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    main(["init", str(tmp_path / "b"), "--encoder", "none"])
    settings = tmp_path / "b" / "epimem.toml"
    for text, word in (("[tree]\ncapasity = 9\n", "capasity"), ("a = = 1", "TOML")):
        settings.write_text(text)
        status, code, line = here("stats", tmp_path / "b")
        assert (status, code) == (2, "bad_config")
        assert word in line
    settings.unlink()
    capfd.readouterr()
    assert main(["stats", str(tmp_path / "b")]) == 0


# -- faults ----------------------------------------------------------------------------------------


def test_an_unexpected_fault_shows_no_trace_and_says_how_to_get_one(
    here: Callable[..., tuple[int, str, str]],
    bank: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    def broken(*_: object, **__: object) -> None:
        raise ZeroDivisionError("secret text")

    monkeypatch.setattr("epimem.memory.ExperienceMemory.open", broken)
    status, code, line = here("stats", bank)
    assert (status, code) == (70, "internal")
    assert "EPIMEM_TRACEBACK=1" in line
    assert "secret" not in line

    monkeypatch.setenv("EPIMEM_TRACEBACK", "1")
    assert main(["stats", str(bank)]) == 70
    assert "secret text" in capfd.readouterr().err


def test_a_full_disk_is_named(
    here: Callable[..., tuple[int, str, str]], bank: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device", "/secret/path")

    monkeypatch.setattr("epimem.memory.ExperienceMemory.open", full)
    status, code, line = here("stats", bank)

    assert (status, code) == (9, "storage_full")
    assert "secret" not in line


def test_a_damaged_database_is_named(
    here: Callable[..., tuple[int, str, str]], tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    main(["init", str(tmp_path / "b"), "--encoder", "none"])
    (tmp_path / "b" / "bank.db").write_bytes(b"no database" * 1000)
    capfd.readouterr()

    assert here("check", tmp_path / "b")[:2] == (9, "bank_corrupt")


def test_few_descriptors_suffice_and_a_bound_on_files_is_named(bank: Path, tmp_path: Path) -> None:
    def few() -> None:
        resource.setrlimit(resource.RLIMIT_NOFILE, (16, 16))

    def small() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (512, 512))

    status, code = one_error(start("init", tmp_path / "b", "--encoder", "none", preexec_fn=small))
    assert (status, code) == (9, "storage_failed")
    result = start("check", bank, preexec_fn=few)
    assert result.returncode == 0


# -- streams ---------------------------------------------------------------------------------------


def test_results_are_utf8_whatever_the_locale(tmp_path: Path) -> None:
    environment = {
        "PATH": os.environ["PATH"],
        "LANG": "xx_YY.nothing",
        "PYTHONIOENCODING": "ascii",
        "EPIMEM_STATE_DIR": str(tmp_path / "state"),
    }
    result = start("init", tmp_path / "東京", "--encoder", "none", env=environment)

    assert result.returncode == 0
    assert json.loads(result.stdout.decode("utf-8"))["path"].endswith("東京")
    help_ = start("retrieve", "--help", env={**environment, "TERM": "", "COLUMNS": "1"})
    assert help_.returncode == 0


def test_a_closed_standard_output_is_refused_before_anything_is_done(tmp_path: Path) -> None:
    arguments = (*PROGRAM, "init", str(tmp_path / "b"), "--encoder", "none")
    command = ["sh", "-c", '"$@" >&-', "sh", *arguments]
    result = subprocess.run(command, check=False, capture_output=True, timeout=60)

    assert result.returncode == 9
    assert result.stderr.startswith(b"epimem: storage_failed: standard output is closed")
    assert result.stderr.count(b"\n") == 1
    assert not (tmp_path / "b").exists()


def test_closed_input_and_errors_leave_the_bank_alone(bank: Path) -> None:
    command = ["sh", "-c", '"$@" <&- 2>&-', "sh", *PROGRAM, "contribute", str(bank), "-"]
    result = subprocess.run(command, check=False, capture_output=True, timeout=60)

    assert (result.returncode, result.stdout, result.stderr) == (2, b"", b"")
    assert main(["check", str(bank)]) == 0


def test_no_file_gets_the_number_of_a_closed_stream() -> None:
    code = (
        "import os, sys; from epimem.cli.boundary import _open_missing; closed = _open_missing(); "
        "print(sorted(closed), os.open('.', os.O_RDONLY) > 2, sys.stderr is not None)"
    )
    command = ["sh", "-c", '"$@" <&- 2>&-', "sh", sys.executable, "-c", code]
    result = subprocess.run(command, check=False, capture_output=True, text=True, timeout=60)

    assert result.stdout == "[0, 2] True True\n"


@pytest.mark.parametrize("arguments", [("stats",), ("--help",)])
def test_a_reader_that_went_away_ends_the_program_quietly(
    bank: Path, arguments: tuple[str, ...]
) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    path = [] if arguments == ("--help",) else [str(bank)]
    buffered = {key: value for key, value in os.environ.items() if key != "PYTHONUNBUFFERED"}
    try:
        result = start(*arguments, *path, stdout=writer, env=buffered)
    finally:
        os.close(writer)

    assert (result.returncode, result.stderr) == (PIPE_CLOSED, b"")


def test_a_full_standard_output_is_an_error(bank: Path) -> None:
    with Path("/dev/full").open("wb") as full:
        result = start("stats", bank, stdout=full)

    assert result.returncode == 9
    assert result.stderr.startswith(b"epimem: storage_full: ")
    assert result.stderr.count(b"\n") == 1


def test_binary_standard_input_is_refused(bank: Path) -> None:
    result = start("contribute", bank, "-", stdin=None, input=b"\x00\xff\x1b[2J" * 100)

    assert result.returncode == 2
    assert b"bad_json" in result.stderr
    assert b"\x1b" not in result.stderr


# -- signals ---------------------------------------------------------------------------------------


def test_ctrl_c_ends_a_waiting_command_quietly(bank: Path) -> None:
    process = subprocess.Popen(
        [*PROGRAM, "contribute", str(bank), "-"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert process.stdin is not None
    # Its receipt says that the program reads its input.
    process.stdin.write(b'{"guidance": "Count the stops."}\n{"guidance": "Read the legend."}\n')
    process.stdin.flush()
    assert process.stdout is not None
    assert b"stored" in process.stdout.readline()
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)

    assert process.returncode == INTERRUPTED
    assert err == b""
    assert out.count(b"\n") <= 1


def test_a_request_to_end_ends_the_program_without_a_trace(bank: Path) -> None:
    process = subprocess.Popen(
        [*PROGRAM, "contribute", str(bank), "-"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert process.stdin is not None
    process.stdin.write(b'{"guidance": "a"}\n' * 2)
    process.stdin.flush()
    assert process.stdout is not None
    process.stdout.readline()
    process.terminate()
    _, err = process.communicate(timeout=60)

    assert process.returncode == -signal.SIGTERM
    assert err == b""
    assert main(["check", str(bank)]) == 0
