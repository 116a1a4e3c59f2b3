"""Recall worked out without any index: cosines and BM25 of every node that a reader may see.

It shares no code with the index; only the encoder, and the list of general questions, are the bank's.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from epimem.bank.general_questions import general_questions
from epimem.bank.recall import RecallResult
from epimem.protocols import Encoder
from epimem.schema.tree import Node

K1, B, RRF = 1.2, 0.75, 60
NEAR = 1e-6  # the index keeps float32


@dataclass(frozen=True)
class Ask:
    """A question with what decides who sees what."""

    text: str
    namespace: str
    reader: str | None


def visible(nodes: Iterable[Node], ask: Ask) -> dict[str, Node]:
    """Return the nodes that this reader may recall, by id."""
    return {
        node.node_id: node
        for node in nodes
        if node.kind != "category"
        and node.namespace == ask.namespace
        and (not node.audience or ask.reader in node.audience)
    }


def cosines(nodes: dict[str, Node], text: str, encoder: Encoder) -> dict[str, float]:
    """Return the cosine of each node whose index text is not empty."""
    question = encoder.encode([text])[0].astype(np.float64)
    texts = {key: node.index.text for key, node in nodes.items() if node.index.text}
    return {
        key: float(encoder.encode([found])[0].astype(np.float64) @ question)
        for key, found in texts.items()
    }


def words(text: str) -> list[str]:
    """Return the words of a text in plain English."""
    return re.findall(r"[0-9a-z]+", text.casefold())


@lru_cache(maxsize=1)
def _background() -> tuple[int, Counter[str]]:
    questions = general_questions()
    return len(questions), Counter(word for text in questions for word in set(words(text)))


def bm25(nodes: dict[str, Node], text: str) -> dict[str, float]:
    """Return the share that each node gets of the most that the question could get, where any."""
    documents = {key: Counter(words(node.index.text or node.title)) for key, node in nodes.items()}
    count, background = _background()
    mean = max(sum(d.total() for d in documents.values()) / max(len(documents), 1), 1.0)
    idf = {}
    for word in dict.fromkeys(words(text)):
        holding = sum(word in d for d in documents.values()) + background[word]
        idf[word] = math.log(1 + (len(documents) + count - holding + 0.5) / (holding + 0.5))
    most = sum(value * (K1 + 1) for value in idf.values())
    scores = {}
    for key, document in documents.items():
        damping = K1 * (1 - B + B * document.total() / mean)
        score = sum(
            value * document[word] * (K1 + 1) / (document[word] + damping)
            for word, value in idf.items()
        )
        if score > 0:
            scores[key] = score / most
    return scores


def check_found(
    found: dict[str, RecallResult], nodes: Iterable[Node], ask: Ask, encoder: Encoder, *, k: int
) -> None:
    """Compare the answers of the three modes with what brute force finds.

    Args:
        found: by mode.
        nodes: every live node of the bank.
        ask: the question that was asked.
        encoder: of the bank.
        k: the number of candidates that were asked for.
    """
    seen = visible(nodes, ask)
    dense, lexical = cosines(seen, ask.text, encoder), bm25(seen, ask.text)
    for mode, expected in (("dense", dense), ("lexical", lexical)):
        got = [(c.node_id, getattr(c, mode)) for c in found[mode].candidates]
        _check_ranking(mode, got, expected, k)
    fused = [(c.node_id, c.rank_score) for c in found["fused"].candidates]
    rankings = [
        [(c.node_id, getattr(c, mode)) for c in found[mode].candidates]
        for mode in ("dense", "lexical")
    ]
    if max(len(dense), len(lexical)) < k:  # the rankings are whole: fuse them here
        assert _close(fused, _fused(rankings)[:k]), f"fused: {fused} is not {_fused(rankings)}"
    for candidate in found["fused"].candidates:
        assert abs((candidate.dense or 0.0) - dense.get(candidate.node_id, 0.0)) < NEAR
        assert abs((candidate.lexical or 0.0) - lexical.get(candidate.node_id, 0.0)) < NEAR


def _check_ranking(
    mode: str, got: Sequence[tuple[str, float]], expected: dict[str, float], k: int
) -> None:
    names = [name for name, _ in got]
    assert set(names) <= set(expected), f"{mode}: not to be seen: {set(names) - set(expected)}"
    assert len(names) == len(set(names)) == min(k, len(expected)), (
        f"{mode}: {len(names)} of {len(expected)} found"
    )
    for name, score in got:
        assert abs(score - expected[name]) < NEAR, f"{mode}: {name} {score} is not {expected[name]}"
    assert got == sorted(got, key=lambda item: (-item[1], item[0])), f"{mode}: not in order"
    left = [score for name, score in expected.items() if name not in names]
    if left and got:
        assert max(left) <= got[-1][1] + NEAR, f"{mode}: a better one was left out"


def _fused(rankings: Sequence[Sequence[tuple[str, float]]]) -> list[tuple[str, float]]:
    totals: dict[str, float] = {}
    for ranking in rankings:
        for name, score in ranking:
            rank = 1 + sum(other > score for _, other in ranking)
            totals[name] = totals.get(name, 0.0) + 1 / (RRF + rank)
    return sorted(totals.items(), key=lambda item: (-item[1], item[0]))


def _close(one: Sequence[tuple[str, float]], other: Sequence[tuple[str, float]]) -> bool:
    if [name for name, _ in one] != [name for name, _ in other]:
        return False
    return all(abs(a[1] - b[1]) < 1e-9 for a, b in zip(one, other, strict=True))
