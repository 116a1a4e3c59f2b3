"""Every importer against documents in which one value was replaced by something else."""

from __future__ import annotations

import copy
import json
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from epimem.schema.run import Run
from harness_adapters.atif import AtifImporter
from harness_adapters.importer import Imported, Importer, Refused
from harness_adapters.openai_chat import OpenAIChatImporter
from harness_adapters.vlm_runs import VlmRunsImporter
from harness_adapters.who_and_when import WhoAndWhenImporter

CHAT: dict[str, Any] = {
    "id": "c",
    "model": "m",
    "tools": [{"type": "function"}],
    "usage": {"prompt_tokens": 1, "prompt_tokens_details": {"cached_tokens": 1}},
    "task": {"task_id": "t", "question": "q"},
    "metadata": {"family": "f", "score": 1},
    "outcome": {"verdict": "wrong", "source": "oracle"},
    "messages": [
        {"role": "system", "content": "s"},
        {"role": "user", "content": [{"type": "text", "text": "q"}], "name": "n"},
        {
            "role": "assistant",
            "content": None,
            "name": "a",
            "reasoning_content": "r",
            "tool_calls": [
                {"id": "1", "type": "function", "function": {"name": "f", "arguments": "{}"}},
                {"id": "2", "type": "custom", "custom": {"name": "g", "input": "i"}},
            ],
        },
        {
            "role": "tool",
            "tool_call_id": "1",
            "content": {"type": "image_url", "image_url": {"url": "x"}},
        },
        {"role": "assistant", "content": "done", "refusal": None, "function_call": {"name": "f"}},
    ],
}
ATIF: dict[str, Any] = {
    "schema_version": "ATIF-v1.8",
    "agent": {"name": "a", "version": "1", "extra": {"x": 1}},
    "steps": [
        {
            "step_id": 1,
            "source": "user",
            "message": [
                {"type": "text", "text": "q"},
                {"type": "image", "source": {"media_type": "image/png", "path": "x.png"}},
            ],
            "timestamp": "2026-01-01T00:00:00Z",
            "extra": {"epimem": {"seq": 0}},
        },
        {
            "step_id": 2,
            "source": "agent",
            "message": "m",
            "tool_calls": [{"tool_call_id": "c", "function_name": "f", "arguments": {}}],
            "observation": {"results": [{"source_call_id": "c", "content": "ok"}]},
            "metrics": {"prompt_tokens": 1},
        },
    ],
    "final_metrics": {"total_prompt_tokens": 1},
    "extra": {
        "epimem": {
            "actors": [{"id": "a", "traj": ""}],
            "events": [{"seq": 5, "kind": "stop", "to": ["a"], "data": {}}],
            "task": {"task_id": "t", "question": "q", "public": {}},
            "answer": {"text": "a"},
        }
    },
    "subagent_trajectories": [
        {
            "schema_version": "ATIF-v1.8",
            "trajectory_id": "sub",
            "agent": {"name": "b", "version": "1"},
            "steps": [{"step_id": 1, "source": "agent", "message": "x"}],
        }
    ],
}
WHO: dict[str, Any] = {
    "question": "q",
    "history": [
        {"content": "c", "role": "human"},
        {"content": "FINAL ANSWER: 1", "role": "Orchestrator (-> WebSurfer)"},
    ],
    "system_prompt": {"WebSurfer": "p"},
    "ground_truth": "1",
    "is_correct": False,
    "mistake_agent": "WebSurfer",
    "mistake_step": "1",
}
VLM: dict[str, Any] = {
    "task_id": "t",
    "family": "f",
    "house": "h",
    "round": 0,
    "question": "q",
    "image": "a.png",
    "steps": [{"actor": "reader", "text": "t", "region": [0, 0, 10, 10]}],
    "answer": 1,
}
CASES: list[tuple[Callable[[], Importer], dict[str, Any]]] = [
    (OpenAIChatImporter, CHAT),
    (AtifImporter, ATIF),
    (WhoAndWhenImporter, WHO),
    (VlmRunsImporter, VLM),
]
ODD: st.SearchStrategy[Any] = st.sampled_from(
    [
        None, True, False, 0, -1, 1.5, 10**15, "", "x", "text", "image", "agent", "\x00", "\ud83d",
        "\u202e", "../x", "http://h/x", "data:image/png;base64,AAAA", [], {}, [[]], [None], ["x"],
        [1, 2, 3, 4], {"epimem": 1}, {"epimem": {"seq": -1}}, {"seq": 1}, {"type": "image"},
        {"x": {"ground_truth": 1}}, "a" * 300,
    ]
)  # fmt: skip


def paths(value: Any, where: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    if where:
        yield where
    pairs: Any = value.items() if isinstance(value, dict) else ()
    if isinstance(value, list):
        pairs = enumerate(value)
    for key, child in pairs:
        yield from paths(child, (*where, key))


@pytest.mark.parametrize(("make", "document"), CASES, ids=[case[0].__name__ for case in CASES])
def test_a_document_with_one_odd_value_is_imported_soundly_or_refused(
    make: Callable[[], Importer], document: dict[str, Any], album: Any, png: Callable[..., bytes]
) -> None:
    places = list(paths(document))
    picture = png()

    @settings(max_examples=150, deadline=None)
    @given(st.lists(st.tuples(st.sampled_from(places), ODD), min_size=1, max_size=2), st.booleans())
    def check(changes: list[tuple[tuple[Any, ...], Any]], remove: bool) -> None:  # noqa: FBT001
        changed: Any = copy.deepcopy(document)
        for place, value in changes:
            alter(changed, place, copy.deepcopy(value), remove=remove)
        with tempfile.TemporaryDirectory() as folder:
            (Path(folder) / "a.png").write_bytes(picture)
            path = Path(folder) / "runs.jsonl"
            path.write_text(json.dumps(changed))
            (found,) = make().read(path, admit=album.admit)
        assert isinstance(found, Imported | Refused)
        if isinstance(found, Imported):
            assert found.run is not None
            assert Run.read(found.run.canonical()) == found.run
            if found.outcome is not None:
                found.outcome.canonical()

    check()


def alter(document: Any, place: tuple[Any, ...], value: Any, *, remove: bool) -> None:
    target = document
    for key in place[:-1]:
        if not isinstance(target, dict | list) or (isinstance(target, dict) and key not in target):
            return
        if isinstance(target, list) and not (isinstance(key, int) and key < len(target)):
            return
        target = target[key]
    last = place[-1]
    if isinstance(target, dict):
        if remove:
            target.pop(last, None)
        else:
            target[last] = value
    elif isinstance(target, list) and isinstance(last, int) and last < len(target):
        target[last] = value
