"""Recall: from a question to candidates, over an index that follows the bank.

Scope first, then a dense and a lexical ranking, each against its own floor, then reciprocal rank
fusion (Cormack, Clarke and Büttcher 2009, k = 60; its use here is ours).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, get_args

import numpy as np

from epimem.bank.catalog import KINDS, Mask, Scope
from epimem.bank.encoder import truncated_tokens
from epimem.bank.floor import Floor
from epimem.bank.following import FollowedIndex, Source
from epimem.errors import RecordError
from epimem.protocols import Encoder, Vector
from epimem.schema.lesson import Authority
from epimem.schema.memory_input import Candidate
from epimem.schema.text import QUERY_BYTES
from epimem.schema.tree import Kind

Mode = Literal["fused", "dense", "lexical"]
Searchable = Literal["dense+lexical", "dense", "lexical"]
MAX_K = 50
_DEPTH = 100  # how far down a ranking counts for fusion; ours
_GAP = "\n[...]\n"
_HALF = (QUERY_BYTES - len(_GAP)) // 2
_NO_FLOOR = Floor(dense=None, lexical=None, rows=0, vectors=0)


@dataclass(frozen=True)
class RecallResult:
    """Candidates, best first, with those below the floors marked; nothing is a normal answer.

    `searchable` says which signals ran; `bank_seq` is the sequence number that was searched;
    `truncated_tokens` counts the tokens of the question that its vector does not contain.
    """

    candidates: tuple[Candidate, ...]
    searchable: Searchable
    floors: Floor
    question_shortened: bool
    bank_seq: int
    truncated_tokens: int = 0


class Recall(FollowedIndex):
    """Questions to a bank; safe to use from several threads.

    Args:
        source: see `FollowedIndex`, as for all but the last.
        encoder: the encoder that made the bank's vectors, or None: recall is then lexical.
        cache: a folder for derived files.
        extra_caches: folders that are read only.
        journal_hash: of a sequence number.
        rrf_k: the constant of reciprocal rank fusion.
    """

    def __init__(
        self,
        source: Source,
        *,
        encoder: Encoder | None,
        cache: Path | None,
        extra_caches: Sequence[Path] = (),
        rrf_k: int = 60,
        journal_hash: Callable[[int], str] | None = None,
    ) -> None:
        super().__init__(
            source,
            encoder=encoder,
            cache=cache,
            extra_caches=extra_caches,
            journal_hash=journal_hash,
        )
        self._rrf_k = rrf_k

    # Searching

    def find(
        self,
        question: str,
        *,
        namespace: str,
        reader: str | None = None,
        minimum_authority: Authority = "none",
        kinds: Sequence[Kind] = KINDS,
        k: int = 20,
        mode: str = "fused",
        without: Collection[str] = (),
    ) -> RecallResult:
        """Return up to `k` candidates for a question from what the reader may see.

        Args:
            question: any text; beyond 8 KiB its head and tail are used.
            namespace: rows of other namespaces do not take part in any way.
            reader: see `Scope`, as for the next two.
            minimum_authority: lowest authority wanted.
            kinds: kinds wanted.
            k: brought into 1..50.
            mode: "fused", "dense" or "lexical"; without an encoder always lexical.
            without: node ids that are left out of the answer; the scores of the others stay, unless
                there are so many that rankings have to be read further down.

        Raises:
            RecordError: `invalid_field`, an argument of another type or an unknown value.
            ControllerError: `model_failed`, the encoder failed.
        """
        scope = Scope(namespace, reader, minimum_authority, kinds)
        _check_arguments(question, k, mode)
        text, shortened = shorten(question)
        vector = self._question_vector(text, mode)
        left_out = _left_out(question) if shortened else ""
        truncated = self._truncated(text, left_out) if vector is not None else 0
        with self._lock:
            self.refresh()
            self._fold_meanwhile()
            ran = self._signals(mode)
            allowed = self._catalog.mask(scope)
            if not text.strip() or not allowed.any():
                return RecallResult((), ran, _NO_FLOOR, shortened, self._seq, truncated)
            floor = self._floors.of(namespace, self._searched, self._cache)
            candidates = self._candidates(
                text, vector, allowed, (namespace, floor), mode=ran, k=k, without=without
            )
            return RecallResult(candidates, ran, floor, shortened, self._seq, truncated)

    def _question_vector(self, text: str, mode: str) -> Vector | None:
        if self._encoder is None or mode == "lexical" or not text.strip():
            return None
        vector: Vector = self._encoder.encode([text])[0]
        return vector

    def _truncated(self, text: str, left_out: str) -> int:
        assert self._encoder is not None
        return truncated_tokens(self._encoder, text, left_out)

    def _signals(self, mode: str) -> Searchable:
        if self._encoder is None or mode == "lexical":
            return "lexical"
        return "dense" if mode == "dense" else "dense+lexical"

    def _candidates(
        self,
        text: str,
        vector: Vector | None,
        allowed: Mask,
        bar: tuple[str, Floor],
        *,
        mode: Searchable,
        k: int,
        without: Collection[str],
    ) -> tuple[Candidate, ...]:
        namespace, floor = bar
        k = min(max(k, 1), MAX_K)
        # Fusion looks further down a ranking than what is returned.
        reach = k + len(without)
        depth = reach if mode == "dense" else max(reach, _DEPTH)
        rankings: list[list[tuple[str, float]]] = []
        if vector is not None and self._dense is not None:
            rankings.append(self._dense.search(vector, k=depth, allowed=allowed))
        words = self._lexical.scored(text, allowed) if mode != "dense" else None
        if words is not None:
            rankings.append(words.top(depth))
        fused = [item for item in fuse(rankings, self._rrf_k) if item[0] not in without][:k]
        names = [name for name, _ in fused]
        cosines = self._cosines(vector, names, rankings)
        doubtful = [name for name in names if floor.doubtful(cosines.get(name))]
        nearest = self._floors.nearest(namespace, floor, doubtful, self._searched)
        slots = np.array(self._catalog.slots(names), dtype=np.int64)
        lexical = words.at(slots).tolist() if words is not None else [None] * len(names)
        kinds = self._catalog.kinds(slots.tolist())
        return tuple(
            Candidate(
                node_id=name,
                kind=kind,
                dense=cosines.get(name),
                lexical=by_words,
                rank_score=score,
                passes=floor.passes(cosines.get(name), by_words, nearest.get(name)),
            )
            for (name, score), kind, by_words in zip(fused, kinds, lexical, strict=True)
        )

    def _cosines(
        self,
        vector: Vector | None,
        names: Sequence[str],
        rankings: Sequence[Sequence[tuple[str, float]]],
    ) -> dict[str, float]:
        """Return the cosines of these nodes; the dense ranking, the first one, knows most."""
        if vector is None or self._dense is None:
            return {}
        known = dict(rankings[0])
        missing = [name for name in names if name not in known]
        return {**known, **self._dense.cosines(vector, missing)} if missing else known


def fuse(rankings: Sequence[Sequence[tuple[str, float]]], rrf_k: int) -> list[tuple[str, float]]:
    """Fuse rankings by reciprocal rank: a node's score is the sum of 1 / (rrf_k + rank).

    Ranks count from 1; nodes of equal score in a ranking share a rank (ours), and what is equal in
    the end is ordered by node id.
    """
    totals: dict[str, float] = {}
    for ranking in rankings:
        rank = 0
        for place, (name, score) in enumerate(ranking, start=1):
            if place == 1 or score != ranking[place - 2][1]:
                rank = place
            totals[name] = totals.get(name, 0.0) + 1.0 / (rrf_k + rank)
    return sorted(totals.items(), key=lambda item: (-item[1], item[0]))


def shorten(question: str) -> tuple[str, bool]:
    """Return a question of at most 8 KiB, its head and tail kept, and whether it was longer."""
    data = question.encode("utf-8", "backslashreplace")
    if len(data) <= QUERY_BYTES:
        return data.decode("utf-8"), False
    head = data[:_HALF].decode("utf-8", "ignore")
    tail = data[-_HALF:].decode("utf-8", "ignore")
    return head + _GAP + tail, True


def _left_out(question: str) -> str:
    """Return the middle that `shorten` takes out of a longer question."""
    data = question.encode("utf-8", "backslashreplace")
    return data[_HALF:-_HALF].decode("utf-8", "ignore")


def _check_arguments(question: str, k: int, mode: str) -> None:
    if not isinstance(question, str):
        raise RecordError("a question is a text", field="question", got=type(question).__name__)
    if not isinstance(k, int) or isinstance(k, bool):
        raise RecordError("k is a whole number", field="k", got=type(k).__name__)
    if mode not in get_args(Mode):
        raise RecordError("unknown recall mode", field="mode", hint=f"one of {get_args(Mode)}")
