"""600 recorded replies of SmolLM2-135M-Instruct, read again: a regression of the reader."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace
from typing import Any

import pytest

from benchmarks.replies import bare, material, recording
from benchmarks.replies.read import (
    Outcome,
    counts,
    faults,
    outcomes,
    sample,
    shown,
    table,
)
from benchmarks.replies.recording import Entry, Said
from controllers.prompts import OPERATIONS
from controllers.replies.reading import Read
from epimem.schema.memory_input import Selection
from epimem.schema.proposal import Consolidate

# (recovered, asked again, recovered then, of those in sections, refused)
# A model of 135M parameters hardly ever answers these prompts; what it says instead may not be accepted.
EXPECTED = {
    "derive": (0, 75, 0, 0, 75),
    "update": (0, 75, 0, 0, 75),
    "gate": (0, 75, 0, 0, 75),
    "place": (2, 73, 3, 0, 70),
    "merge": (0, 75, 0, 0, 75),
    "split_lift": (0, 75, 0, 0, 75),
    "consolidate": (0, 75, 0, 0, 75),
    "select": (0, 75, 0, 0, 75),
    "all": (2, 598, 3, 0, 595),
}


@pytest.fixture(scope="module")
def entries() -> tuple[Entry, ...]:
    return recording.load()[1]


@pytest.fixture(scope="module")
def read(entries: tuple[Entry, ...]) -> list[Outcome]:
    return outcomes(entries)


def test_there_are_600_replies_75_of_each_operation(entries: tuple[Entry, ...]) -> None:
    assert len({entry.key for entry in entries}) == len(entries) == 600
    assert Counter(entry.operation for entry in entries) == dict.fromkeys(OPERATIONS, 75)


def test_what_is_recovered_asked_again_and_refused(read: list[Outcome]) -> None:
    found = counts(read)
    got = {
        name: (
            count.recovered,
            count.asked_again,
            count.recovered_again,
            count.in_sections,
            count.refused,
        )
        for name, count in found.items()
    }
    assert got == EXPECTED, table(found)
    for count in found.values():
        assert count.recovered + count.asked_again == count.replies
        assert count.recovered_again + count.refused == count.asked_again
        assert sum(count.reasons.values()) == count.refused


def test_no_acceptance_is_at_fault(read: list[Outcome]) -> None:
    """Nothing added, no example, no schema, no refusal, no alias that was not shown."""
    assert [(outcome.entry.key, fault) for outcome in read for fault in faults(outcome)] == []


def test_every_refusal_says_why_within_the_closed_list(read: list[Outcome]) -> None:
    for outcome in read:
        last = outcome.again or outcome.first
        if outcome.accepted is None:
            assert last.refused is not None
            assert last.refused.reason in {
                "not_json",
                "schema",
                "not_shown",
                "limit",
                "duplicate",
            } | {
                "text",
                "image",
                "contradiction",
            }


def test_the_sample_is_the_same_every_time(read: list[Outcome]) -> None:
    drawn = sample(read)
    assert [outcome.entry.key for outcome in drawn] == [o.entry.key for o in sample(read)]
    assert len(drawn) == min(100, sum(1 for outcome in read if outcome.accepted))
    assert all(outcome.accepted and shown(outcome) for outcome in drawn)


# -- the checks can fail ---------------------------------------------------------------------------

SELECT = {"kinds": ["rule", "lesson"], "max_rules": 3, "max_lessons": 1, "strict": False}
CONSOLIDATE = {"lessons": ["positive", "positive"]}


def accepted(operation: str, request: dict[str, Any], text: str, value: Any) -> Outcome:
    said = Said(text, truncated=False, tokens_in=1, tokens_out=1)
    entry = Entry(operation, 0, 0.0, 0, "", request, said)
    return Outcome(entry, Read(value, json=True, protocol="json"), None)


def selected(text: str) -> Outcome:
    value = Selection(rule_ids=("node-0",), lesson_id="node-1")
    return accepted("select", SELECT, text, value)


def consolidated(text: str, guidance: str) -> Outcome:
    supporters = ("lesson-0", "lesson-1")
    value = Consolidate(node_id="category", guidance=guidance, supported_by=supporters)
    return accepted("consolidate", CONSOLIDATE, f"{text} L1 L2", value)


@pytest.mark.parametrize(
    ("outcome", "fault"),
    [
        (selected("R1"), "not in the reply: 'L1'"),
        (consolidated("Count.", "Count all."), "not in the reply: 'Count all.'"),
        (
            consolidated('"when" it holds', "when it holds"),
            "copied from the example: 'when it holds'",
        ),
        (consolidated("I can't say", "I can't say"), 'declines: "I can\'t say"'),
        (consolidated('{"properties": Count', "Count"), "a schema in the reply"),
    ],
)
def test_a_bad_acceptance_is_found(outcome: Outcome, fault: str) -> None:
    assert fault in list(faults(outcome))


def test_an_alias_that_was_not_shown_is_found() -> None:
    outcome = selected("R1 L1")
    assert list(faults(outcome)) == []
    fewer = replace(outcome.entry, request={**SELECT, "kinds": ["rule"]})
    assert list(faults(replace(outcome, entry=fewer))) == ["not shown: 'node-1'"]


def test_a_good_acceptance_is_not_at_fault() -> None:
    assert (
        list(faults(consolidated('Count\\nall "filled" markers.', 'Count\nall "filled" markers.')))
        == []
    )


# -- the file --------------------------------------------------------------------------------------


def test_a_recording_is_written_and_read_alike(entries: tuple[Entry, ...], tmp_path: Any) -> None:
    header, _ = recording.load()
    path = tmp_path / "again.gz"
    recording.save(header, list(reversed(entries)), path)
    assert path.read_bytes() == recording.PATH.read_bytes()
    assert recording.load(path) == (header, entries)


def test_an_interrupted_recording_goes_on_after_its_last_whole_line(
    entries: tuple[Entry, ...], tmp_path: Any
) -> None:
    path = tmp_path / "part.jsonl"
    lines = [recording.line_of(entry) for entry in entries[:3]]
    path.write_text("\n".join(lines)[:-5], "utf-8")
    assert list(recording.partial(path)) == list(entries[:2])
    assert list(recording.partial(tmp_path / "none")) == []


def test_the_file_is_small_and_says_what_made_it() -> None:
    assert recording.PATH.stat().st_size < 2_000_000
    header, _ = recording.load()
    assert header["format"] == recording.FORMAT
    for word in ("SmolLM2-135M-Instruct", "xllamacpp"):
        assert word in json.dumps(header)


def test_a_request_without_its_texts_asks_for_the_same_reply() -> None:
    try:
        found = material.load()
    except FileNotFoundError:
        pytest.skip("the shared data folder is not on this machine")
    for name in OPERATIONS:
        for number in range(3):
            request = material.request(found, name, number)
            plain = json.loads(json.dumps(bare.stripped(name, request)))
            one, other = (
                OPERATIONS[name].render(each) for each in (request, bare.rebuilt(name, plain))
            )
            assert one.schema == other.schema
            assert one.messages[0] == other.messages[0]
