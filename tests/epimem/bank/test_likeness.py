from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from controllers.embedded.words import overlap
from epimem.bank.encoder import NodeVectors, OnnxEncoder, TableEncoder, node_vectors
from epimem.bank.likeness import likeness, nearest
from epimem.bank.tokens import tokens
from epimem.schema.lesson import IndexText


def made(*fields: tuple[str, str]) -> list[NodeVectors]:
    texts = [IndexText(scope=scope, question_anchor=anchor) for scope, anchor in fields]
    return node_vectors(TableEncoder(64), texts)


def test_likeness_is_the_mean_of_the_two_cosines_and_symmetric() -> None:
    one, other = made(("Rubra Metro", "how many stations"), ("Azul Metro", "how many stops"))
    scope, anchor = float(one.scope @ other.scope), float(one.anchor @ other.anchor)
    found = likeness(one, other)
    assert found.mean == pytest.approx((scope + anchor) / 2, abs=1e-6)
    assert found.scope == pytest.approx(scope, abs=1e-6)
    assert likeness(other, one) == found
    assert likeness(one, one).mean == pytest.approx(1.0)


def test_a_field_that_one_side_lacks_does_not_count() -> None:
    full, scope_only, anchor_only, nothing = made(
        ("a b c", "d e f"), ("a b c", ""), ("", "d e f"), ("", "")
    )
    assert likeness(full, scope_only).mean == pytest.approx(1.0)
    assert likeness(full, anchor_only).mean == pytest.approx(1.0)
    assert likeness(full, anchor_only).scope == 0.0
    assert likeness(scope_only, anchor_only).mean == 0.0
    assert likeness(nothing, full).mean == 0.0


def test_the_nearest_equal_a_sort_of_all_likenesses() -> None:
    words = ("Rubra", "Azul", "Metro", "charts", "Kite", "")
    fields = [
        (f"{a} {b}".strip(), f"how {b}" if c % 3 else "")
        for a in words
        for b in words
        for c in (1, 2, 3)
    ]
    nodes = made(*fields)
    ids = [f"n{(place * 37) % 1000:03d}" for place in range(len(nodes))]
    scopes = np.stack([node.scope for node in nodes])
    anchors = np.stack([node.anchor for node in nodes])
    for target in nodes[::11]:
        values = {name: likeness(target, node) for name, node in zip(ids, nodes, strict=True)}
        expected = sorted(values, key=lambda name: (-values[name].mean, name))
        for k in (1, 5, 200):
            found = nearest(target, scopes, anchors, ids, k)
            assert [near.node_id for near in found] == expected[:k]
            assert [near.likeness for near in found] == [values[name] for name in expected[:k]]
    assert nearest(nodes[0], scopes[:0], anchors[:0], [], 5) == []


def test_likeness_weighed_by_the_words_of_the_scope_tells_the_real_houses_apart(
    real_encoder: OnnxEncoder, shared_data: Path
) -> None:
    folder = shared_data / "vlm_runs"
    runs = [json.loads(line) for line in (folder / "runs.jsonl").read_text("utf-8").splitlines()]
    house = {run["task_id"]: run["house"] for run in runs}
    lines = (folder / "lessons.jsonl").read_text("utf-8").splitlines()
    lessons = [json.loads(line) for line in lines]
    texts = [IndexText(scope=x["scope"], question_anchor=x["question_anchor"]) for x in lessons]
    vectors = node_vectors(real_encoder, texts)
    values: dict[bool, list[tuple[float, float]]] = {True: [], False: []}
    for place, one in enumerate(lessons):
        for before in range(place):
            other = lessons[before]
            mean = likeness(vectors[place], vectors[before]).mean
            weighed = mean * overlap(set(tokens(one["scope"])), set(tokens(other["scope"])))
            same = house[one["task_id"]] == house[other["task_id"]]
            values[same].append((mean, weighed))
    assert min(mean for mean, _ in values[True]) < max(mean for mean, _ in values[False])
    assert min(weighed for _, weighed in values[True]) > 0.8
    assert max(weighed for _, weighed in values[False]) < 0.65
