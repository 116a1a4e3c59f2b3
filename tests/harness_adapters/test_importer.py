from __future__ import annotations

from importlib.metadata import entry_points

import pytest

from epimem.schema.outcome import SealedOutcome
from harness_adapters.importer import (
    FieldCount,
    FieldTally,
    LossReport,
    Note,
    Stamps,
    reference_text,
    sealed_outcome,
    split_sealed,
)


def test_loss_reports_merge_field_by_field_and_keep_all_notes() -> None:
    first, second = FieldTally("a.json"), FieldTally("b.json")
    first.count("messages[].role", "mapped", 3)
    first.count("seed", "extra")
    first.note("orphan_tool_result", "x")
    second.count("messages[].role", "mapped")
    second.count("messages[].content[audio]", "native_only", 2)
    second.note("late_tool_result", "y")
    second.note("orphan_tool_result", "z")
    merged = first.report() + second.report()
    assert merged.rows() == [
        ("messages[].content[audio]", 2, 0, 0, 2),
        ("messages[].role", 4, 4, 0, 0),
        ("seed", 1, 0, 1, 0),
    ]
    assert merged.total == FieldCount(mapped=4, extra=1, native_only=2)
    assert merged.total.native == 7
    assert merged.notes[0] == Note("orphan_tool_result", "a.json", "x")
    assert merged.note_counts() == {"late_tool_result": 1, "orphan_tool_result": 2}


def test_an_empty_report_changes_nothing() -> None:
    tally = FieldTally("a")
    tally.count("x", "mapped")
    report = tally.report()
    assert report + LossReport() == LossReport() + report == report


def test_sealed_names_are_split_off_at_every_depth() -> None:
    visible, sealed = split_sealed(
        {"id": 1, "Ground_Truth": "5", "info": {"score": 0.5, "seed": 3, "rows": [{"label": 2}, 7]}}
    )
    assert visible == {"id": 1, "info": {"seed": 3, "rows": [{}, 7]}}
    assert sealed == {"Ground_Truth": "5", "info.score": 0.5, "info.rows.0.label": 2}


def test_a_reference_is_found_by_its_usual_name_and_nothing_becomes_a_verdict() -> None:
    outcome = sealed_outcome("r", {"reward": 1, "correct": True, "ground_truth": 5})
    assert outcome == SealedOutcome(
        run_id="r", reference="5", labels={"reward": 1, "correct": True}
    )
    assert outcome is not None
    assert (outcome.verdict, outcome.source) == ("unknown", "none")
    assert sealed_outcome("r", {}) is None


@pytest.mark.parametrize(
    ("value", "text"), [("5", "5"), (5, "5"), (57000, "57000"), (0.5, "0.5"), (True, "true")]
)
def test_a_reference_of_any_scalar_type_is_text(value: object, text: str) -> None:
    assert reference_text(value) == text


def test_creation_times_are_utc_with_milliseconds() -> None:
    assert Stamps(clock=lambda: 0.25).created_at() == "1970-01-01T00:00:00.250+00:00"


def test_every_importer_is_found_by_its_entry_point() -> None:
    found = {point.name: point.load() for point in entry_points(group="epimem.importers")}
    assert {"atif", "openai-chat", "vlm-runs", "who-and-when"} <= set(found)
    for name, load in found.items():
        importer = load()
        assert importer.name == name
        assert importer.help
