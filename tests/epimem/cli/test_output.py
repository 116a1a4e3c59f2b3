"""What the commands print, and the progress of long jobs."""

from __future__ import annotations

import io
import json
import signal
import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from epimem.cli import output, progress
from epimem.errors import BankFrozenError, EpimemError

ESCAPES = "\x1b[31mred\x07\x9b2J \u202eabc\u2066 \x7f\r"


class _Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def test_terminal_escapes_are_made_visible() -> None:
    shown = output.visible(ESCAPES)

    assert shown == r"\x1b[31mred\x07\x9b2J \u202eabc\u2066 \x7f\x0d"
    assert output.visible("tag \U000e0041") == r"tag \U000e0041"


def test_ordinary_text_of_any_script_is_left_alone() -> None:
    text = "Zurück, 東京, café, 👩\u200d🔬, नमस्ते"

    assert output.visible(text) == text


def test_line_breaks_stay_only_where_they_are_asked_for() -> None:
    assert output.visible("a\nb", keep="\n") == "a\nb"
    assert output.visible("a\nb") == r"a\x0ab"
    assert output.one_line("a\n  b\tc\x1b") == r"a b c\x1b"


@given(st.text())
def test_visible_text_holds_nothing_a_terminal_acts_on(text: str) -> None:
    shown = output.visible(text)

    assert all(not output._acts(character) for character in shown)


@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_a_json_line_is_one_line_that_reads_back(text: str) -> None:
    stream = io.TextIOWrapper(io.BytesIO(), "utf-8")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("sys.stdout", stream)
        output.emit({"text": text})
    stream.seek(0)
    line = stream.buffer.read().decode("utf-8")

    assert line.endswith("\n")
    assert json.loads(line) == {"text": text}
    assert not set(line[:-1]) & set("\x1b\x9b\x85\u2028\u202e\x7f\n")


def test_a_closed_reader_is_told_from_a_full_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    class Closed(io.BytesIO):
        def write(self, data: object) -> int:
            raise BrokenPipeError(data)

    monkeypatch.setattr("sys.stdout", io.TextIOWrapper(Closed(), "utf-8"))
    with pytest.raises(output.OutputClosedError):
        output.emit({})


def test_progress_tells_amount_rate_and_time_left() -> None:
    clock = _Clock()
    rate = progress.Rate(clock, clock.now)
    clock.now += 10

    assert rate.told(50, 200) == "50 of 200, 5.0/s, 30 s left"
    assert rate.told(50, 0) == "50, 5.0/s"
    assert rate.told(200, 200) == "200, 20.0/s"


@pytest.mark.parametrize(
    ("seconds", "text"), [(0.4, "0 s"), (59.4, "59 s"), (200, "3 min 20 s"), (7500, "2 h 5 min")]
)
def test_durations_are_short(seconds: float, text: str) -> None:
    assert progress.duration(seconds) == text


def test_plain_progress_writes_a_line_now_and_then(capsys: pytest.CaptureFixture[str]) -> None:
    clock = _Clock()
    lines = progress.Lines(clock)
    for done in range(1, 13):
        clock.now += 1
        lines("contribute", done, 12)
    clock.now += 2
    lines("ingest", 4, 12)
    lines.finish()

    assert capsys.readouterr().err.splitlines() == [
        "contribute: 5 of 12, 1.0/s, 7 s left",
        "contribute: 10 of 12, 1.0/s, 2 s left",
        "contribute: 12, 1.0/s",
        "ingest: 4 of 12, 2.0/s, 4 s left",
    ]


def _job(reached: list[str], *, interrupts: int) -> None:
    with progress.progress() as report:
        report("maintain", 1, 3)
        for _ in range(interrupts):
            signal.raise_signal(signal.SIGINT)
        reached.append("the step went on")
        report("maintain", 2, 3)
        reached.append("the next step began")


def test_a_first_interrupt_waits_for_the_next_report(capsys: pytest.CaptureFixture[str]) -> None:
    reached: list[str] = []
    with pytest.raises(KeyboardInterrupt):
        _job(reached, interrupts=1)

    assert reached == ["the step went on"]
    told = capsys.readouterr().err.splitlines()
    assert [told[0], told[-1]] == [progress.STOPPING, progress.RESUME]
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_a_second_interrupt_stops_at_once() -> None:
    reached: list[str] = []
    with pytest.raises(KeyboardInterrupt):
        _job(reached, interrupts=2)

    assert reached == []


def test_an_ignored_interrupt_stays_ignored() -> None:
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with progress.progress() as report:
            signal.raise_signal(signal.SIGINT)
            report("ingest", 1, 1)
        assert signal.getsignal(signal.SIGINT) == signal.SIG_IGN
    finally:
        signal.signal(signal.SIGINT, before)


def test_progress_works_outside_the_main_thread() -> None:
    done = []

    def work() -> None:
        with progress.progress() as report:
            report("ingest", 1, 1)
            done.append(True)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()

    assert done == [True]


def test_an_error_is_one_line_with_code_field_and_hint() -> None:
    from epimem.cli.boundary import _sentence

    error = EpimemError("too long", code="too_large", field="text", got="\x1b[0m", limit=3)

    assert _sentence(error) == r"too long [text], got \x1b[0m, limit 3"
    assert _sentence(BankFrozenError("frozen", hint="copy it")) == "frozen (copy it)"
