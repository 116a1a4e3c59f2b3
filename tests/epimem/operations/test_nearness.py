from __future__ import annotations

from typing import Any

import numpy as np

from epimem.operations.nearness import known_vectors, medoid, nearest

AXES = np.eye(8, dtype=np.float32)


def test_a_node_without_a_vector_has_the_mean_of_its_children(grove: Any) -> None:
    category = grove.category(2)
    lessons = grove.tree.children_of(category)
    grove.vectors.clear()
    assert known_vectors(grove.tree, [category, grove.tree.root_id], {}) == {}
    vectors = {lessons[0]: AXES[0], lessons[1]: AXES[1]}
    known = known_vectors(grove.tree, [category, grove.tree.root_id], vectors)
    expected = (AXES[0] + AXES[1]) / np.sqrt(2)
    for key in (category, grove.tree.root_id):
        assert np.allclose(known[key], expected)
        assert known[key].dtype == np.float32
    own = {**vectors, category: AXES[5]}
    assert known_vectors(grove.tree, [category], own)[category] is own[category]


def test_opposite_children_leave_no_direction(grove: Any) -> None:
    category = grove.category(2)
    first, second = grove.tree.children_of(category)
    known = known_vectors(grove.tree, [category], {first: AXES[0], second: -AXES[0]})
    assert not known[category].any()


def test_the_medoid_is_most_similar_to_the_rest(grove: Any) -> None:
    category = grove.category(4)
    lessons = grove.tree.children_of(category)
    rows = (AXES[0], AXES[1], (AXES[0] + AXES[1]) / np.sqrt(2), AXES[2])
    vectors = dict(zip(lessons, rows, strict=True))
    assert medoid(grove.tree, lessons, vectors).node_id == lessons[2]
    assert medoid(grove.tree, reversed(lessons), {}).node_id == lessons[0]


def test_the_nearest_is_by_vector_then_by_size_then_by_id(grove: Any) -> None:
    one, two, three = grove.category(2), grove.category(1), grove.category(1)
    vectors = {one: AXES[0], two: AXES[1], three: (AXES[0] + AXES[1]) / np.float32(2**0.5)}
    assert nearest(grove.tree, one, [two, three], vectors) == three
    assert nearest(grove.tree, two, [one, three], {}) == three
    assert nearest(grove.tree, one, [three, two], {}) == two
