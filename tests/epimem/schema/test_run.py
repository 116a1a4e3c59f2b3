from __future__ import annotations

from typing import Any

import pytest
from atif import Trajectory as OracleTrajectory
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from epimem.errors import RecordError
from epimem.schema import strict_json
from epimem.schema.atif import (
    AgentInfo,
    ContentPart,
    ImageSource,
    Observation,
    ObservationResult,
    Step,
    Trajectory,
)
from epimem.schema.outcome import Score, SealedOutcome
from epimem.schema.region import Region
from epimem.schema.run import (
    Actor,
    Answer,
    Event,
    Page,
    Run,
    StepRef,
    System,
    Task,
    chains,
    check_semantics,
    find_leaks,
    interleave,
    step_seq,
)

IMAGE = "a" * 64
REGION = Region(x0=1, y0=2, x1=30, y1=40, width=64, height=48)


def step(number: int, text: str = "read", seq: int | None = 0, **fields: Any) -> Step:
    extra = {} if seq is None else {"epimem": {"seq": seq}}
    values = {"source": "agent", "message": text, "extra": extra} | fields
    return Step(step_id=number, **values)


def chain(name: str | None, *steps: Step, subs: tuple[Trajectory, ...] = ()) -> Trajectory:
    return Trajectory(
        schema_version="ATIF-v1.8",
        trajectory_id=name,
        agent=AgentInfo(name=name or "team", version="1"),
        steps=steps,
        subagent_trajectories=subs or None,
    )


def make_run(
    *,
    main: Trajectory | None = None,
    actors: tuple[Actor, ...] = (),
    events: tuple[Event, ...] = (),
    **fields: Any,
) -> Run:
    main = main or chain(None, step(1))
    envelope = {
        "actors": [actor.plain() for actor in actors],
        "events": [event.plain() for event in events],
    }
    task = Task(
        task_id="t1",
        question="How many stops?",
        pages=(Page(page=1, image_id=IMAGE, width=64, height=48),),
    )
    values = {
        "run_id": "r1",
        "created_at": "2026-01-01T00:00:00.000+00:00",
        "task": task,
        "system": System(harness="test"),
        "trajectory": main.model_copy(update={"extra": {"epimem": envelope}}),
    } | fields
    return Run(**values)


def codes(run: Run, stored: tuple[str, ...] = (IMAGE,)) -> list[str]:
    return [finding.code for finding in check_semantics(run, stored.__contains__)]


@st.composite
def runs(draw: st.DrawFn) -> tuple[Run, list[tuple[str, int]]]:
    """Return a run, and for each of its steps in the order of time (chain, number)."""
    names = draw(st.lists(st.sampled_from(["", "a", "b", "c"]), max_size=30))
    events = draw(st.integers(0, 5))
    places = draw(
        st.lists(
            st.integers(0, 10_000),
            min_size=len(names) + events,
            max_size=len(names) + events,
            unique=True,
        )
    )
    times = sorted(places[: len(names)])
    made: dict[str, list[Step]] = {}
    order = []
    for name, seq in zip(names, times, strict=True):
        steps = made.setdefault(name, [])
        steps.append(step(len(steps) + 1, f"{name} at {seq}", seq))
        order.append((name, len(steps)))
    subs = tuple(chain(name, *made[name]) for name in sorted(made) if name)
    main = chain(None, *made.get("", ()), subs=subs)
    happened = tuple(Event(seq=seq, kind="other", sender="a") for seq in places[len(names) :])
    return make_run(main=main, events=happened), order


@given(runs())
def test_interleaving_and_filtering_by_chain_are_inverse(
    case: tuple[Run, list[tuple[str, int]]],
) -> None:
    run, order = case
    turns = interleave(run)
    assert [turn.seq for turn in turns] == sorted(turn.seq for turn in turns)
    steps = [turn for turn in turns if turn.step is not None]
    assert [(turn.traj, turn.step.step_id) for turn in steps if turn.step] == order
    assert [turn.event for turn in turns if turn.event] == sorted(
        run.events, key=lambda event: event.seq
    )
    apart = {part.trajectory_id or "": part.steps for part in run.trajectory.walk() if part.steps}
    assert chains(turns) == apart
    assert codes(run) == []


@given(runs())
def test_a_run_reads_back_equal_from_its_canonical_form(
    case: tuple[Run, list[tuple[str, int]]],
) -> None:
    run, _ = case
    assert Run.read(run.canonical()) == run
    assert Run.read(run.canonical()).canonical() == run.canonical()
    OracleTrajectory.model_validate(run.trajectory.plain())


def test_steps_without_seq_follow_in_document_order() -> None:
    main = chain(
        None, step(1, "late", None), step(2, "first", 3), subs=(chain("a", step(1, "last", None)),)
    )
    run = make_run(main=main, events=(Event(seq=7, kind="stop"),))
    assert [turn.text for turn in interleave(run)] == ["first", "", "late", "last"]
    assert [turn.seq for turn in interleave(run)] == [3, 7, 8, 9]


def test_turns_carry_the_name_of_their_actor() -> None:
    main = chain(
        None, step(1, seq=0), subs=(chain("x1", step(1, seq=1)), chain("x2", step(1, seq=2)))
    )
    run = make_run(
        main=main,
        actors=(Actor(id="reader", traj="x1"),),
        events=(Event(seq=3, kind="message", sender="reader", to=("team",)),),
    )
    assert [turn.actor for turn in interleave(run)] == ["team", "reader", "x2", "reader"]


def test_a_sound_run_has_no_findings() -> None:
    shown = ContentPart(
        type="image", source=ImageSource(media_type="image/png", path=f"sha256:{IMAGE}")
    )
    run = make_run(
        main=chain(None, step(1, message=(shown,)), subs=(chain("a", step(1, seq=1)),)),
        actors=(Actor(id="reader", traj="a"),),
        events=(
            Event(seq=2, kind="view", page=1, region=REGION, step_ref=StepRef(traj="a", step=1)),
        ),
    )
    assert codes(run) == []
    assert run.image_ids == (IMAGE,)
    assert find_leaks(run, ["17", "nowhere in sight"]) == ()


# Level 1: the schema.


def with_envelope(**envelope: Any) -> dict[str, Any]:
    plain = make_run().plain()
    plain["trajectory"]["extra"] = {"epimem": envelope}
    return plain


def with_step_extra(extra: Any) -> dict[str, Any]:
    plain = make_run().plain()
    plain["trajectory"]["steps"][0]["extra"] = extra
    return plain


SCHEMA_FAULTS: dict[str, dict[str, Any]] = {
    "unknown field": make_run().plain() | {"score": 1},
    "another schema": make_run().plain() | {"schema": "epimem-run/2"},
    "no question": {key: value for key, value in make_run().plain().items() if key != "task"},
    "pages out of order": make_run().plain()
    | {
        "task": {
            "task_id": "t",
            "question": "q",
            "pages": [{"page": 2, "image_id": IMAGE, "width": 1, "height": 1}],
        }
    },
    "number as text": make_run().plain()
    | {
        "task": {
            "task_id": "t",
            "question": "q",
            "pages": [{"page": "1", "image_id": IMAGE, "width": 1, "height": 1}],
        }
    },
    "envelope is a text": with_step_extra({"epimem": "x"}),
    "seq is a text": with_step_extra({"epimem": {"seq": "3"}}),
    "seq is a truth value": with_step_extra({"epimem": {"seq": True}}),
    "seq below zero": with_step_extra({"epimem": {"seq": -1}}),
    "events are an object": with_envelope(events={"seq": 1}),
    "event of unknown kind": with_envelope(events=[{"seq": 1, "kind": "gossip"}]),
    "event without seq": with_envelope(events=[{"kind": "stop"}]),
    "region outside its image": with_envelope(
        events=[{"seq": 1, "kind": "view", "page": 1, "region": REGION.plain() | {"x1": 65}}]
    ),
    "actor without chain": with_envelope(actors=[{"id": "a"}]),
}


@pytest.mark.parametrize("plain", SCHEMA_FAULTS.values(), ids=SCHEMA_FAULTS.keys())
def test_the_schema_refuses_a_faulty_run(plain: dict[str, Any]) -> None:
    with pytest.raises(RecordError) as caught:
        Run.read(plain)
    assert caught.value.code == "invalid_field"


@pytest.mark.parametrize("data", [b"[]", b"1", b"null", b'{"run_id": "x"'])
def test_what_is_no_run_at_all_is_refused(data: bytes) -> None:
    with pytest.raises(RecordError):
        Run.read(data)


# Level 2: the semantics.


def view(**fields: Any) -> Event:
    return Event(**({"seq": 9, "kind": "view"} | fields))


PICTURE = ImageSource(media_type="image/png", path="sha256:" + "b" * 64)
BY_PATH = ImageSource(media_type="image/png", path="page.png")
SEMANTIC_FAULTS = {
    "seq_repeated": make_run(main=chain(None, step(1, seq=4), step(2, seq=4))),
    "chain_repeated": make_run(
        main=chain(None, subs=(chain("a", step(1), subs=(chain("a", step(1, seq=1)),)),))
    ),
    "unknown_chain": make_run(actors=(Actor(id="a", traj="nowhere"),)),
    "unknown_step": make_run(events=(view(step_ref=StepRef(traj="", step=2)),)),
    "unknown_page": make_run(events=(view(page=2),)),
    "region_size": make_run(
        events=(view(page=1, region=Region(x0=0, y0=0, x1=1, y1=1, width=64, height=47)),)
    ),
    "image_missing": make_run(
        main=chain(None, step(1, message=(ContentPart(type="image", source=PICTURE),)))
    ),
    "image_path": make_run(
        main=chain(
            None,
            step(
                1,
                observation=Observation(
                    results=(
                        ObservationResult(content=(ContentPart(type="image", source=BY_PATH),)),
                    )
                ),
            ),
        )
    ),
    "sealed_key": make_run(main=chain(None, step(1, extra={"native": [{"ground_truth": 5}]}))),
}


@pytest.mark.parametrize(("code", "run"), SEMANTIC_FAULTS.items(), ids=SEMANTIC_FAULTS.keys())
def test_the_semantic_level_names_what_does_not_resolve(code: str, run: Run) -> None:
    assert codes(run) == [code]


def test_a_page_whose_image_is_not_stored_is_found() -> None:
    assert codes(make_run(), stored=()) == ["image_missing"]


def test_a_seq_shared_by_a_step_and_an_event_is_found() -> None:
    run = make_run(main=chain(None, step(1, seq=4)), events=(Event(seq=4, kind="stop"),))
    assert codes(run) == ["seq_repeated"]


def test_a_sealed_key_in_the_public_part_of_the_task_is_found() -> None:
    task = make_run().task.model_copy(update={"public": {"deep": {"reference_answer": "5"}}})
    assert codes(make_run(task=task)) == ["sealed_key"]


# Level 3: leaks.


def test_a_visible_reference_is_a_warning_that_names_the_turn() -> None:
    calls = [{"tool_call_id": "c", "function_name": "f", "arguments": {"guess": "Renzo GRACIE"}}]
    main = chain(
        None,
        step(1, "nothing", 0),
        step(2, "It is renzo gracie.", 1),
        step(3, "no", 2, reasoning_content="maybe Renzo Gracie"),
        step(4, "no", 3, tool_calls=calls),
    )
    found = find_leaks(make_run(main=main), ["Renzo Gracie", "5", "  "])
    assert [(item.level, item.code, item.detail) for item in found] == [
        (3, "reference_visible", "seq 1"),
        (3, "reference_visible", "seq 2"),
        (3, "reference_visible", "seq 3"),
    ]


# Keys and hashes.


def test_the_question_key_follows_words_and_images_in_page_order() -> None:
    def key(question: str, *images: str) -> str:
        pages = tuple(
            Page(page=number, image_id=image, width=1, height=1)
            for number, image in enumerate(images, start=1)
        )
        return Task(task_id="x", question=question, pages=pages).question_key

    assert key("How many  Stops?\n") == key("how many stops?")
    assert key("Cafe\u0301?") == key("Caf\u00e9?")
    assert key("q", "a", "b") != key("q", "b", "a")
    assert key("q", "a") != key("q")
    assert key("q1") != key("q2")


def test_the_group_key_is_the_harness_group_else_the_question_key() -> None:
    task = Task(task_id="x", question="q")
    assert task.group_key == task.question_key
    assert Task(task_id="x", question="q", group="map 7").group_key == "map 7"


def test_a_re_import_has_the_same_content_hash_and_a_changed_run_another() -> None:
    first = make_run()
    again = make_run(run_id="r2", created_at="2027-01-01T00:00:00.000+00:00")
    assert first.content_hash == again.content_hash
    assert first.content_hash == Run.read(first.canonical()).content_hash
    assert first.content_hash != make_run(answer=Answer(text="7")).content_hash
    assert first.content_hash != make_run(main=chain(None, step(1, "reads"))).content_hash


def test_an_outcome_is_a_record_of_its_own_and_no_field_of_a_run() -> None:
    outcome = SealedOutcome(
        run_id="r1",
        verdict="wrong",
        source="oracle",
        scores=(Score(name="exact", value=0, source="oracle"),),
        reference="5",
        labels={"step": 3},
    )
    assert SealedOutcome.read(outcome.canonical()) == outcome
    assert SealedOutcome(run_id="r1").plain() == {"run_id": "r1"}
    assert set(SealedOutcome.model_fields) & set(Run.model_fields) == {"run_id"}


# Run text is kept.


def test_a_nul_or_lone_surrogate_never_loses_a_run() -> None:
    plain = make_run().plain()
    plain["task"]["question"] = "Acme moved\x00"
    plain["task"]["public"] = {"k\x00": 1}
    plain["trajectory"]["steps"][0]["message"] = "hello \ud83d"
    plain["trajectory"]["steps"][0]["observation"] = {"results": [{"content": "x\x00\x00"}]}
    run = Run.read(plain)
    assert run.task.question == "Acme moved\\u0000"
    assert run.trajectory.steps[0].text == "hello \\ud83d\nx\\u0000\\u0000"
    assert run.replaced == 5
    assert Run.read(run.canonical()) == run
    assert b"\x00" not in run.canonical()
    assert b"\\u0000" not in run.canonical().replace(b"\\\\u0000", b"")


def test_a_lone_surrogate_in_json_is_kept_as_a_visible_escape() -> None:
    data = make_run().canonical().replace(b"How many stops?", b"How many \\ud83d stops?")
    run = Run.read(data)
    assert run.task.question == "How many \\ud83d stops?"
    assert run.replaced == 1


def test_text_of_a_run_built_in_memory_can_be_stored() -> None:
    part = ContentPart(type="text", text="seen\x00")
    made = make_run(
        main=chain(None, step(1, message=(part,), reasoning_content="\udc00")),
        answer=Answer(text="7\x00", by_actor={"a": "\x00"}),
    )
    assert made.trajectory.steps[0].text == "seen\\u0000"
    assert Run.read(made.canonical()) == made


def test_run_text_is_otherwise_as_given() -> None:
    text = "A\u202e\u200b\r\n\x07 e\u0301 \u2028 \ue000 \U0001f600"
    assert make_run(main=chain(None, step(1, text))).trajectory.steps[0].text == text


# The ATIF records against the package `atif`.

DOCUMENT: dict[str, Any] = {
    "schema_version": "ATIF-v1.8",
    "session_id": "s",
    "trajectory_id": "root",
    "agent": {"name": "a", "version": "1", "model_name": "m", "tool_definitions": [{"x": 1}]},
    "notes": "n",
    "steps": [
        {"step_id": 1, "source": "user", "message": "q", "timestamp": "2026-01-01T00:00:00Z"},
        {
            "step_id": 2,
            "source": "agent",
            "message": [
                {"type": "text", "text": "t"},
                {"type": "image", "source": {"media_type": "image/png", "path": "a.png"}},
                {"type": "audio", "source": {"media_type": "audio/mp3", "path": "a.mp3"}},
            ],
            "reasoning_content": "r",
            "reasoning_effort": 0.5,
            "model_name": "m",
            "tool_calls": [{"tool_call_id": "c", "function_name": "f", "arguments": {"x": 1}}],
            "observation": {
                "results": [
                    {"source_call_id": "c", "content": "ok"},
                    {"content": [{"type": "text", "text": "t"}]},
                    {"subagent_trajectory_ref": [{"trajectory_id": "sub"}]},
                ]
            },
            "metrics": {"prompt_tokens": 3, "completion_tokens": 1, "cost_usd": 0.1},
            "llm_call_count": 1,
        },
        {"step_id": 3, "source": "system", "message": "", "observation": {"results": []}},
    ],
    "final_metrics": {"total_prompt_tokens": 3, "total_cost_usd": 1},
    "subagent_trajectories": [
        {
            "schema_version": "ATIF-v1.8",
            "trajectory_id": "sub",
            "agent": {"name": "b", "version": "1"},
            "steps": [],
        }
    ],
}

CHANGES: list[tuple[str, list[str | int], Any]] = [
    ("unchanged", ["notes"], "n"),
    ("unknown root field", ["surprise"], 1),
    ("unknown field of a step", ["steps", 0, "surprise"], 1),
    ("source tool", ["steps", 0, "source"], "tool"),
    ("step ids with a gap", ["steps", 1, "step_id"], 3),
    ("step id zero", ["steps", 0, "step_id"], 0),
    ("no message", ["steps", 0, "message"], None),
    ("empty message", ["steps", 0, "message"], ""),
    ("bad time", ["steps", 0, "timestamp"], "yesterday"),
    ("time with offset", ["steps", 0, "timestamp"], "2026-01-01T00:00:00.123+02:00"),
    ("model of a user", ["steps", 0, "model_name"], "m"),
    ("metrics of a user", ["steps", 0, "metrics"], {}),
    ("tool calls of a user", ["steps", 0, "tool_calls"], []),
    ("PDF as image", ["steps", 1, "message", 1, "source", "media_type"], "application/pdf"),
    ("GIF as image", ["steps", 1, "message", 1, "source", "media_type"], "image/gif"),
    ("audio as image", ["steps", 1, "message", 1, "type"], "audio"),
    ("image as text", ["steps", 1, "message", 1, "type"], "text"),
    ("text part without text", ["steps", 1, "message", 0], {"type": "text"}),
    ("image part without source", ["steps", 1, "message", 1], {"type": "image"}),
    ("unknown part", ["steps", 1, "message", 0, "type"], "video"),
    ("alias of audio", ["steps", 1, "message", 2, "source", "media_type"], " Audio/X-WAV "),
    ("unknown audio", ["steps", 1, "message", 2, "source", "media_type"], "audio/midi"),
    ("negative duration", ["steps", 1, "message", 2, "source", "duration_sec"], -1),
    ("duration", ["steps", 1, "message", 2, "source", "duration_sec"], 1.5),
    ("arguments as text", ["steps", 1, "tool_calls", 0, "arguments"], "{}"),
    ("result of no call", ["steps", 1, "observation", "results", 0, "source_call_id"], "d"),
    (
        "reference to nothing",
        ["steps", 1, "observation", "results", 2],
        {"subagent_trajectory_ref": [{"session_id": "s"}]},
    ),
    ("no model call but metrics", ["steps", 1, "llm_call_count"], 0),
    ("negative calls", ["steps", 1, "llm_call_count"], -1),
    ("sub without id", ["subagent_trajectories", 0, "trajectory_id"], None),
    ("agent without version", ["agent"], {"name": "a"}),
    ("metrics of another type", ["final_metrics"], [1]),
    ("no steps", ["steps"], []),
]


def changed(path: list[str | int], value: Any) -> dict[str, Any]:
    document: Any = strict_json.loads(strict_json.dumps(DOCUMENT))
    target = document
    for key in path[:-1]:
        target = target[key]
    target[path[-1]] = value
    return dict(document)


def accepted_by(model: Any, document: dict[str, Any]) -> bool:
    try:
        model.model_validate(document)
    except (ValidationError, ValueError):
        return False
    return True


@pytest.mark.parametrize(("name", "path", "value"), CHANGES, ids=[case[0] for case in CHANGES])
def test_our_atif_records_and_the_oracle_agree(
    name: str, path: list[str | int], value: Any
) -> None:
    del name
    document = changed(path, value)
    assert accepted_by(Trajectory, document) == accepted_by(OracleTrajectory, document)


def test_an_atif_document_reads_back_without_loss() -> None:
    ours = Trajectory.read(DOCUMENT)
    theirs = OracleTrajectory.model_validate(DOCUMENT)
    assert OracleTrajectory.model_validate(ours.plain()) == theirs
    assert [part.trajectory_id for part in ours.walk()] == ["root", "sub"]
    assert [step_seq(item) for item in ours.steps] == [None, None, None]
    assert ours.steps[1].text == "t\nok\nt"
    assert [part.type for part in ours.steps[1].parts] == ["text", "image", "audio", "text"]


def test_two_embedded_chains_of_one_name_are_refused() -> None:
    document = changed(["notes"], "n")
    document["subagent_trajectories"] *= 2
    assert not accepted_by(Trajectory, document)
    assert not accepted_by(OracleTrajectory, document)
