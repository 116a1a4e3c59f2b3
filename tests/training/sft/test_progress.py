"""The log has each step once, whatever was killed, and the clock counts steps alone."""

from __future__ import annotations

import json

import pytest

from training.sft.dev import Accuracy, drawn, exhausted, log_line
from training.sft.progress import Clock, Log, Work, accuracies, best, read


def line(step, event="step", **more):
    return {"event": event, "step": step, **more}


def test_what_stands_behind_the_step_that_a_run_goes_on_from_is_taken_away(tmp_path):
    path = tmp_path / "log.jsonl"
    log = Log(path, 0)
    for step in (1, 2, 3):
        log.write(line(step, loss=step / 10))
    log.write(line(3, "dev", operation_accuracy=0.5))
    log.write(line(4))
    log.close()
    with path.open("a") as torn:
        torn.write('{"event": "st')
    again = Log(path, 3)
    assert accuracies(again.lines) == [0.5]
    again.write(line(4))
    again.close()
    assert [it["step"] for it in read(path)] == [1, 2, 3, 3, 4]
    assert all(json.loads(text) for text in path.read_text().splitlines())


def test_a_process_that_does_not_write_remembers_the_same_lines(tmp_path):
    path = tmp_path / "log.jsonl"
    log = Log(path, 0, writes=False)
    log.write(line(1))
    log.close()
    assert log.lines == [line(1)]
    assert not path.exists()


def test_the_first_of_the_best_measurements_counts():
    lines = [line(2, loss=9.0)]
    assert best(lines) is None
    for step, accuracy in ((2, 0.3), (4, 0.6), (6, 0.6), (8, 0.1)):
        lines.append(line(step, "dev", operation_accuracy=accuracy))
    assert best(lines)["step"] == 4


def test_the_clock_gives_rates_of_the_step_alone():
    seconds = iter([0.0, 10.0, 12.0, 12.0, 90.0, 94.0, 94.0])
    clock = Clock(1_000.0, lambda: next(seconds))
    clock.begin()
    work = Work(rows=1, tokens=50, padded=60, flops=400.0)
    assert clock.end(work) == {"seconds": 2.0, "tokens_per_second": 25.0, "mfu": 0.2}
    clock.begin()  # after a checkpoint
    assert clock.end(work)["tokens_per_second"] == 12.5


def test_without_a_peak_there_is_no_mfu():
    seconds = iter([0.0, 1.0, 1.0])
    assert Clock(None, lambda: next(seconds)).end(Work(1, 5, 5, 7.0))["mfu"] is None


@pytest.mark.parametrize(
    ("history", "patience", "ends"),
    [
        ([], 1, False),
        ([0.5], 1, False),
        ([0.5, 0.5], 1, True),
        ([0.5, 0.6], 1, False),
        ([0.5, 0.4, 0.5], 2, True),
        ([0.5, 0.4, 0.6], 2, False),
        ([0.5, 0.4, 0.3, 0.2], 0, False),
    ],
)
def test_training_ends_when_accuracy_has_not_become_better_for_so_long(history, patience, ends):
    assert exhausted(history, patience) is ends


class Shown:
    def __init__(self, number, operation):
        self.id, self.operation = f"{operation}-{number}", operation


def test_of_many_held_out_rows_each_operation_gets_its_share_the_same_each_time():
    found = [Shown(number, "gate") for number in range(30)] + [Shown(0, "derive")]
    some = drawn(found, 5, seed=3)
    assert [each.operation for each in some].count("derive") == 1
    assert len(some) == 5
    assert some == drawn(found, 5, seed=3)
    assert some != drawn(found, 5, seed=4)
    assert drawn(found, 99, seed=3) == found


def test_each_operation_counts_the_same():
    accuracy = Accuracy({"gate": 1.0, "derive": 0.5}, {"gate": 9, "derive": 1})
    assert accuracy.mean == 0.75
    told = log_line(7, accuracy, 1.0)
    assert (told["operation_accuracy"], told["rows"], told["step"]) == (0.75, 10, 7)
