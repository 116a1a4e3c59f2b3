"""What serves an opened bank: its text encoder and its recall, which follow the bank by themselves.

Another process may give the bank another encoder (`epimem.reembed`). What was made with the old one is
refused by the bank then, and made anew here with the new one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, TypeVar

from epimem.bank import versions
from epimem.bank.bank import Bank
from epimem.bank.encoder import (
    EncoderIdentity,
    NodeVectors,
    load_encoder,
    node_vectors,
    serving_encoder,
)
from epimem.errors import BankConflictError
from epimem.protocols import Encoder
from epimem.schema.lesson import IndexText
from epimem.schema.tree import Node

if TYPE_CHECKING:
    from epimem.bank.recall import Recall

T = TypeVar("T")
# Likeness of index texts is needed to place lessons even where no encoder is installed; hashed
# trigrams then stand in for it (ours). They are never used for recall, which is lexical then.
STAND_IN = "table:256"


class Serving:
    """Encoder and recall of one opened bank; both are made when they are first needed.

    Args:
        bank: opened.
        given: an encoder to use instead of the configured one.
        model: `encoder.model` of the settings.
        rrf_k: the constant of reciprocal rank fusion.
    """

    def __init__(self, bank: Bank, *, given: Encoder | None, model: str, rrf_k: int) -> None:
        self.bank = bank
        self.model = model
        self._given = given
        self._rrf_k = rrf_k
        self._encoder: Encoder | None = None
        self._served: EncoderIdentity | None = None
        self._recall: Recall | None = None
        self._recalled: EncoderIdentity | None = None
        self._stand_in: Encoder | None = None

    @property
    def encoder(self) -> Encoder | None:
        """The text encoder of this bank, None where recall is lexical.

        Raises:
            BankConflictError: `embedding_mismatch`, the configured encoder is another, and not one
                that the bank had before; or the one it has now cannot be loaded here.
        """
        stored = self.bank.encoder
        if stored is None:
            return None
        if self._served != stored:
            self._encoder = serving_encoder(stored, self._given, self.model)
            self._served = stored
        return self._encoder

    @property
    def loaded(self) -> Encoder | None:
        """The encoder that serves, None before it was needed and where the bank has none."""
        return self._encoder

    @property
    def recall(self) -> Recall:
        """Recall over this bank; follows its journal."""
        if self._recalled != self.bank.encoder:
            # Changed by this handle, which was interrupted before it took note of that here.
            self.forget_recall()
        if self._recall is None:
            from epimem.bank.recall import Recall

            extra = (self.bank.path / versions.FOLDED_INDEX,) if self.bank.frozen else ()
            self._recall = Recall(
                self.bank,
                encoder=self.encoder,
                cache=self.bank.side.cache,
                extra_caches=extra,
                rrf_k=self._rrf_k,
                journal_hash=self.bank.journal_hash,
            )
            self._recalled = self.bank.encoder
        return self._recall

    @property
    def lag(self) -> int:
        """How many commits of the bank the search index has not followed yet."""
        return self.bank.head_seq - (self._recall.seq if self._recall is not None else 0)

    def forget_recall(self) -> None:
        """Begin the recall anew at its next use."""
        if self._recall is not None:
            self._recall.stop()
            self._recall = None

    def close(self) -> None:
        """Save what recall would otherwise work out again, where that is much, and let it rest."""
        if self._recall is not None:
            self._recall.close()

    def use(self, given: Encoder | None, model: str) -> None:
        """Use another encoder from now on: this one, or the one that the model names."""
        self._given, self.model = given, model
        self._served = None
        self.forget_recall()

    # -- following ---------------------------------------------------------------------------------

    def follow(self) -> bool:
        """Take note of another encoder of the bank; return whether it has one."""
        changed = self.bank.follow_encoder()
        if changed:
            self.forget_recall()
        return changed

    def following(self, action: Callable[[], T]) -> T:
        """Do something, and once more where the bank's encoder turned out to be changed meanwhile."""
        try:
            return action()
        except BankConflictError as error:
            if error.code != "embedding_mismatch" or not self.follow():
                raise
        return action()

    # -- vectors -----------------------------------------------------------------------------------

    def vectorize(self, texts: Sequence[IndexText]) -> list[NodeVectors | None]:
        """Return the vectors of index texts, None for each where the bank has no encoder."""
        encoder = self.encoder
        if encoder is None or not texts:
            return [None] * len(texts)
        return [*node_vectors(encoder, texts)]

    def vectorize_anew(self, texts: Sequence[IndexText]) -> list[NodeVectors | None]:
        """Return them by the encoder that the bank has at this moment."""
        self.follow()
        return self.vectorize(texts)

    def namer(self) -> StoredOrMade:
        """Return what gives maintenance its vectors; without an encoder, of a stand-in."""
        encoder = self.encoder
        if encoder is None:
            if self._stand_in is None:
                self._stand_in = load_encoder(STAND_IN)
            encoder = self._stand_in
        assert encoder is not None
        return StoredOrMade(self.bank, encoder)


class StoredOrMade:
    """Vectors for maintenance: stored ones of nodes where there are, made ones else."""

    def __init__(self, bank: Bank, encoder: Encoder) -> None:
        self._bank = bank
        self._encoder = encoder

    def of_nodes(self, nodes: Sequence[Node]) -> Mapping[str, NodeVectors]:
        """Return the vectors of these nodes by id."""
        found = self._bank.vectors(nodes) if self._bank.encoder is not None else {}
        missing = [node for node in nodes if node.node_id not in found]
        made = self.of_texts([node.index for node in missing])
        found.update({node.node_id: made[row] for row, node in enumerate(missing)})
        return found

    def of_texts(self, texts: Sequence[IndexText]) -> Sequence[NodeVectors]:
        """Return the vectors of these index texts, in order."""
        return node_vectors(self._encoder, texts)
