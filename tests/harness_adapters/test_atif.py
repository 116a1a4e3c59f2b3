from __future__ import annotations

import base64
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from epimem.schema.atif import ImageSource
from epimem.schema.ids import counting_ids
from epimem.schema.run import Run, interleave
from harness_adapters.atif import AtifImporter
from harness_adapters.importer import Imported, Refused

Png = Callable[..., bytes]
Read = Callable[[dict[str, Any]], Imported | Refused]


def chain(name: str, *steps: dict[str, Any], **fields: Any) -> dict[str, Any]:
    return {
        "schema_version": "ATIF-v1.8",
        "agent": {"name": name, "version": "2"},
        "steps": [{"step_id": number, **values} for number, values in enumerate(steps, start=1)],
        **fields,
    }


def user(text: Any = "How many stops?", **fields: Any) -> dict[str, Any]:
    return {"source": "user", "message": text, **fields}


def agent(text: Any = "Seven.", **fields: Any) -> dict[str, Any]:
    return {"source": "agent", "message": text, **fields}


@pytest.fixture
def read(tmp_path: Path, album: Any, assert_sound: Callable[[Run, Any], None]) -> Read:
    def one(document: dict[str, Any]) -> Imported | Refused:
        path = tmp_path / "run.json"
        path.write_text(json.dumps(document))
        importer = AtifImporter(ids=counting_ids(), clock=lambda: 0.0)
        (found,) = importer.read(path, admit=album.admit)
        if isinstance(found, Imported):
            assert_sound(run_of(found), album)
        return found

    return one


def run_of(found: Imported | Refused) -> Run:
    assert isinstance(found, Imported), found
    assert found.run is not None
    return found.run


def turns(found: Imported | Refused) -> list[tuple[int, str, str]]:
    return [(turn.seq, turn.actor, turn.text) for turn in interleave(run_of(found))]


def notes(found: Imported | Refused) -> dict[str, list[str]]:
    assert isinstance(found, Imported), found
    result: dict[str, list[str]] = {}
    for note in found.loss.notes:
        result.setdefault(note.code, []).append(note.detail)
    return result


def image(path: str, media_type: str = "image/png") -> dict[str, Any]:
    return {"type": "image", "source": {"media_type": media_type, "path": path}}


def test_a_plain_document_is_numbered_in_document_order(read: Read) -> None:
    sub = chain("helper", agent("two"), agent("three"), trajectory_id="h1")
    found = read(chain("lead", user(), agent(), subagent_trajectories=[sub]))
    assert turns(found) == [
        (0, "lead", "How many stops?"),
        (1, "lead", "Seven."),
        (2, "helper", "two"),
        (3, "helper", "three"),
    ]
    run = run_of(found)
    assert notes(found) == {
        "seq_assigned": ["4 steps, in document order"],
        "actors_assigned": ["2 chains"],
    }
    assert (run.system.harness, run.system.harness_version) == ("lead", "2")
    assert (run.task.task_id, run.task.question) == ("run", "How many stops?")
    assert run.answer.text == "Seven."
    assert run.native is not None
    assert (run.native.format, run.native.version) == ("atif", "ATIF-v1.8")


def test_steps_with_times_are_numbered_by_time(read: Read) -> None:
    sub = chain(
        "helper",
        agent("second", timestamp="2026-01-01T10:00:01+01:00"),
        agent("fourth", timestamp="2026-01-01T09:00:09"),
        trajectory_id="h1",
    )
    found = read(
        chain(
            "lead",
            user("first", timestamp="2026-01-01T09:00:00Z"),
            agent("third", timestamp="2026-01-01T09:00:05Z"),
            subagent_trajectories=[sub],
        )
    )
    assert [text for _, _, text in turns(found)] == ["first", "second", "third", "fourth"]
    assert notes(found)["seq_assigned"] == ["4 steps, by timestamp"]


def test_a_missing_or_backward_time_means_document_order(read: Read) -> None:
    early, late = "2026-01-01T09:00:00Z", "2026-01-01T10:00:00Z"
    sub = chain("helper", agent("c", timestamp=early), trajectory_id="h1")
    for second in ({}, {"timestamp": early}):
        first = user("a", timestamp=late)
        document = chain("lead", first, agent("b", **second), subagent_trajectories=[sub])
        found = read(document)
        assert [text for _, _, text in turns(found)] == ["a", "b", "c"]
        assert notes(found)["seq_assigned"] == ["3 steps, in document order"]


def test_the_envelope_is_used_where_it_is_there(read: Read) -> None:
    envelope = {
        "actors": [{"id": "boss", "traj": ""}, {"id": "eye", "traj": "h1", "role": "reader"}],
        "events": [{"seq": 2, "kind": "message", "from": "eye", "to": ["boss"]}],
        "task": {
            "task_id": "t1",
            "family": "metro",
            "house": "Rubra",
            "group": "map 7",
            "question": "Q?",
            "public": {"round": 1},
        },
        "answer": {"text": "five", "finish_reason": "stop"},
        "team": "kept",
    }
    sub = chain("helper", agent("saw", extra={"epimem": {"seq": 1}}), trajectory_id="h1")
    steps = (user(extra={"epimem": {"seq": 0}}), agent(extra={"epimem": {"seq": 3}, "x": 1}))
    document = chain(
        "lead", *steps, extra={"epimem": envelope, "y": 2}, subagent_trajectories=[sub]
    )
    found = read(document)
    assert turns(found) == [
        (0, "boss", "How many stops?"),
        (1, "eye", "saw"),
        (2, "eye", ""),
        (3, "boss", "Seven."),
    ]
    run = run_of(found)
    assert notes(found) == {}
    assert (run.task.task_id, run.task.question, run.task.house) == ("t1", "Q?", "Rubra")
    assert (run.task.group_key, run.task.public) == ("map 7", {"round": 1})
    assert (run.answer.text, run.answer.finish_reason) == ("five", "stop")
    extra = run.trajectory.extra or {}
    assert extra["y"] == 2
    assert set(extra["epimem"]) == {"actors", "events", "team"}
    again = run_of(read(run.trajectory.plain()))
    assert [turn.text for turn in interleave(again)] == [turn.text for turn in interleave(run)]


def test_steps_without_seq_are_numbered_after_the_rest(read: Read) -> None:
    envelope = {"events": [{"seq": 9, "kind": "stop"}]}
    steps = (user("a"), agent("b", extra={"epimem": {"seq": 4}}), agent("c"))
    found = read(chain("lead", *steps, extra={"epimem": envelope}))
    assert [(seq, text) for seq, _, text in turns(found)] == [
        (4, "b"),
        (9, ""),
        (10, "a"),
        (11, "c"),
    ]


def test_images_beside_the_document_are_admitted(
    read: Read, tmp_path: Path, album: Any, png: Png
) -> None:
    (tmp_path / "shots").mkdir()
    (tmp_path / "a.png").write_bytes(png(3, 2))
    (tmp_path / "shots/b.png").write_bytes(png(5, 4, kind="JPEG"))
    seen = {"results": [{"content": [image("shots/b.png")]}]}
    steps = (user([{"type": "text", "text": "Q?"}, image("a.png")]), agent("ok", observation=seen))
    found = read(chain("lead", *steps))
    run = run_of(found)
    first, second = album.stored
    assert [(page.image_id, page.width, page.height) for page in run.task.pages] == [(first, 3, 2)]
    sources = [part.source for step in run.trajectory.steps for part in step.parts if part.source]
    assert sources == [
        ImageSource(media_type="image/png", path=f"sha256:{first}"),
        ImageSource(media_type="image/jpeg", path=f"sha256:{second}"),
    ]
    assert isinstance(found, Imported)
    assert [(item.name, item.image_id) for item in found.images] == [
        ("a.png", first),
        ("shots/b.png", second),
    ]
    assert notes(found)["media_type_corrected"] == ["shots/b.png: image/jpeg, not as declared"]
    assert run.image_ids == (first, second)
    again = run_of(read(run.trajectory.plain()))
    assert again.image_ids == (first, second)


def test_an_image_in_a_data_url_is_admitted(read: Read, album: Any, png: Png) -> None:
    url = "data:image/png;base64," + base64.b64encode(png()).decode()
    run = run_of(read(chain("lead", user([{"type": "text", "text": "Q"}, image(url)]))))
    assert run.image_ids == tuple(album.stored)


@pytest.mark.parametrize(
    ("path", "code"),
    [
        ("http://host/a.png", "remote_image_refused"),
        ("file:///etc/passwd", "remote_image_refused"),
        ("absent.png", "invalid_image"),
        ("run.json", "unsupported_type"),
        ("data:image/png;base64,AAA", "invalid_image"),
    ],
)
def test_an_image_that_cannot_be_had_is_noted_and_the_run_kept(
    read: Read, path: str, code: str
) -> None:
    found = read(chain("lead", user([{"type": "text", "text": "Q?"}, image(path)]), agent()))
    assert code in notes(found)
    text = run_of(found).trajectory.steps[0].text
    assert text.startswith(f"Q?\n[image not imported: {code}")
    assert (path in text) == (not path.startswith("data:"))


@pytest.mark.parametrize("path", ["../secret.png", "/etc/passwd", "link.png"])
def test_a_document_whose_image_path_leaves_the_folder_is_refused(
    tmp_path: Path, album: Any, png: Png, path: str
) -> None:
    (tmp_path / "secret.png").write_bytes(png())
    folder = tmp_path / "data"
    folder.mkdir()
    (folder / "link.png").symlink_to(tmp_path / "secret.png")
    lines = [chain("lead", user([image(path)])), chain("lead", user())]
    (folder / "runs.jsonl").write_text("\n".join(map(json.dumps, lines)))
    found = list(AtifImporter().read(folder, admit=album.admit))
    assert [type(item) for item in found] == [Refused, Imported]
    assert isinstance(found[0], Refused)
    assert (found[0].line, found[0].code) == (1, "remote_image_refused")
    assert album.stored == {}


def test_unknown_fields_are_kept_under_extra(read: Read) -> None:
    sub = chain("helper", agent("x", mood="calm"), trajectory_id="h1", origin="b")
    document = chain(
        "lead",
        user(color="red"),
        origin="a",
        extra={"unknown": "own"},
        subagent_trajectories=[sub],
    )
    document["agent"]["team"] = 7
    found = read(document)
    root, helper = run_of(found).trajectory.walk()
    assert (root.extra or {})["unknown"] == "own"
    assert (root.extra or {})["unknown_"] == {"origin": "a"}
    assert root.agent.extra == {"unknown": {"team": 7}}
    assert (root.steps[0].extra or {})["unknown"] == {"color": "red"}
    assert (helper.extra or {})["unknown"] == {"origin": "b"}
    assert (helper.steps[0].extra or {})["unknown"] == {"mood": "calm"}
    assert isinstance(found, Imported)
    extra = {path: count.extra for path, count in found.loss.fields.items() if count.extra}
    assert extra == {"origin": 2, "agent.team": 1, "steps[].color": 1, "steps[].mood": 1}
    assert found.loss.total.native_only == 0


def test_sealed_names_leave_every_extra_but_nothing_that_was_visible(read: Read) -> None:
    document = chain(
        "lead",
        user(extra={"reference_answer": "S1", "score": 0.5}),
        agent("S5 was said"),
        extra={
            "deep": [{"official_score": "S2"}],
            "epimem": {"task": {"public": {"gold_answer": "S3"}}},
        },
        ground_truth="S4",
    )
    found = read(document)
    assert isinstance(found, Imported)
    run = run_of(found)
    assert found.outcome is not None
    assert found.outcome.reference == "S4"
    assert found.outcome.labels == {
        "steps.0.extra.reference_answer": "S1",
        "deep.0.official_score": "S2",
        "epimem.task.public.gold_answer": "S3",
    }
    for secret in (b"S1", b"S2", b"S3", b"S4"):
        assert secret not in run.canonical()
    assert b"S5" in run.canonical()
    assert (run.trajectory.steps[0].extra or {})["score"] == 0.5


def test_what_an_agent_gave_to_a_tool_stays_as_it_was(tmp_path: Path, album: Any) -> None:
    arguments = {"extra": {"ground_truth": "a guess"}}
    call = {"tool_call_id": "c", "function_name": "f", "arguments": arguments}
    path = tmp_path / "run.json"
    path.write_text(json.dumps(chain("lead", user(), agent(tool_calls=[call]))))
    (found,) = AtifImporter().read(path, admit=album.admit)
    made = run_of(found).trajectory.steps[1].tool_calls
    assert made is not None
    assert made[0].arguments == arguments


def test_costs_and_backbones_come_from_metrics(read: Read) -> None:
    metrics = {"prompt_tokens": 10, "completion_tokens": 2, "cached_tokens": 3}
    sub = chain("helper", agent("x", metrics=metrics, model_name="m2"), trajectory_id="h1")
    document = chain(
        "lead",
        user(),
        agent(metrics=metrics),
        agent("done", llm_call_count=0),
        subagent_trajectories=[sub],
    )
    document["agent"]["model_name"] = "m1"
    run = run_of(read(document))
    assert [item.id for item in run.system.backbones] == ["m1", "m2"]
    assert (run.costs.mas.tokens_in, run.costs.mas.tokens_out) == (20, 4)
    assert (run.costs.mas.cached, run.costs.mas.calls) == (6, 2)
    document["final_metrics"] = {"total_prompt_tokens": 99}
    assert run_of(read(document)).costs.mas.tokens_in == 99


def test_chains_of_agents_with_one_name_are_told_apart(read: Read) -> None:
    subs = [chain("helper", agent(name), trajectory_id=name) for name in ("h1", "h2")]
    found = read(chain("lead", user(), subagent_trajectories=subs))
    assert [actor for _, actor, _ in turns(found)] == ["lead", "helper#h1", "helper#h2"]


def test_a_folder_may_hold_documents_and_lines(tmp_path: Path, album: Any) -> None:
    (tmp_path / "a.json").write_text(json.dumps(chain("a", user()), indent=1))
    lines = [json.dumps(chain("b", user())), "{", json.dumps(chain("c", user()))]
    (tmp_path / "b.jsonl").write_text("\n".join(lines))
    found = list(AtifImporter().read(tmp_path, admit=album.admit))
    assert [(type(item), item.source) for item in found] == [
        (Imported, "a.json"),
        (Imported, "b.jsonl:1"),
        (Refused, "b.jsonl"),
        (Imported, "b.jsonl:3"),
    ]


FAULTS: dict[str, dict[str, Any]] = {
    "no agent": {"schema_version": "ATIF-v1.8", "steps": []},
    "another version": chain("a", user()) | {"schema_version": "ATIF-v2.0"},
    "no question": chain("a", agent()),
    "no steps": chain("a"),
    "step ids with a gap": chain("a", user(), agent() | {"step_id": 5}),
    "source tool": chain("a", user(), {"source": "tool", "message": "x"}),
    "extra is a text": chain("a", user(), extra="x"),
    "extra is a text beside an unknown field": chain("a", user(), extra="x", other=1),
    "envelope is a list": chain("a", user(), extra={"epimem": [1]}),
    "envelope of a step is a text": chain("a", user(extra={"epimem": "x"})),
    "seq is a text": chain("a", user(extra={"epimem": {"seq": "1"}})),
    "seq below zero": chain("a", user(extra={"epimem": {"seq": -1}})),
    "events are an object": chain("a", user(), extra={"epimem": {"events": {}}}),
    "event of unknown kind": chain(
        "a", user(), extra={"epimem": {"events": [{"seq": 1, "kind": "gossip"}]}}
    ),
    "actors are a text": chain("a", user(), extra={"epimem": {"actors": "x"}}),
    "task is a text": chain("a", user(), extra={"epimem": {"task": "x"}}),
    "unknown field of the task": chain("a", user(), extra={"epimem": {"task": {"x": 1}}}),
    "answer is a text": chain("a", user(), extra={"epimem": {"answer": "x"}}),
    "chains of one id": chain(
        "a",
        user(),
        subagent_trajectories=[
            chain("b", trajectory_id="x", subagent_trajectories=[chain("c", trajectory_id="x")])
        ],
    ),
}


@pytest.mark.parametrize("document", FAULTS.values(), ids=FAULTS.keys())
def test_a_faulty_document_is_refused_by_name(read: Read, document: dict[str, Any]) -> None:
    found = read(document)
    assert isinstance(found, Refused)
    assert found.code == "invalid_field"


def test_a_re_import_has_the_same_content(tmp_path: Path, album: Any) -> None:
    (tmp_path / "a.json").write_text(json.dumps(chain("a", user(), agent())))
    first, second = (
        run_of(next(AtifImporter().read(tmp_path, admit=album.admit))) for _ in range(2)
    )
    assert first.content_hash == second.content_hash
    assert first.run_id != second.run_id
