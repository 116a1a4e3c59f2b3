"""Candidates of a practice bank for a question, as the product's recall and retrieval give them."""

from __future__ import annotations

import numpy as np

from epimem.growth import Growth
from epimem.protocols import Encoder
from epimem.retrieve import ADDED_RULES
from epimem.schema.memory_input import Candidate


def recalled(
    growth: Growth, encoder: Encoder, question: str, *, passing: int, below: int
) -> tuple[Candidate, ...]:
    """Return what is nearest to a question, best first.

    Rules and summaries that their own lessons crowded out stand behind, as in the product.

    Args:
        growth: the tree.
        encoder: that made its vectors.
        question: as it is asked.
        passing: how many pass the floor of recall.
        below: how many more come along that do not.
    """
    tree = growth.tree
    keys = [node.node_id for node in tree.walk() if node.kind != "category"]
    vectors = growth.index_vectors(keys)
    asked = encoder.encode([question])[0]
    scores = {key: float(np.dot(vectors[key], asked)) for key in keys}
    order = sorted(keys, key=lambda key: (-scores[key], key))[: passing + below]
    shown = order[:passing]
    found = [(key, scores[key], at < passing) for at, key in enumerate(order)]
    parents = dict.fromkeys(tree.node(key).parent_id for key in shown)
    crowded_out = [key for key in parents if key in scores and key not in order]
    for rule in crowded_out[:ADDED_RULES]:
        best = next((key for key in shown if key in tree.node(rule).supported_by), None)
        if best is not None:
            found.append((rule, scores[best], True))
    return tuple(
        Candidate(
            node_id=key,
            kind=tree.node(key).kind,
            dense=score,
            rank_score=score,
            passes=passes,
        )
        for key, score, passes in found
    )
