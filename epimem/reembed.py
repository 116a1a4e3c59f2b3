"""Reembed: change the encoder of a bank while the old one serves, or fill in missing vectors.

Vectors of the new encoder are made beside those in use, batch by batch, each batch durable. What is
written meanwhile is caught up with. Then one commit lets the bank use them, and the old ones are
deleted. Interrupted anywhere, the same call goes on; until that one commit nothing has changed for
anybody.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import suppress

from epimem.bank.bank import Bank
from epimem.bank.encoder import EncoderIdentity, identity_of, load_encoder, node_vectors
from epimem.bank.intake import Caller
from epimem.bank.reembed import Job, Made, Wanted, successor
from epimem.errors import BankBusyError, ConfigError
from epimem.protocols import Encoder
from epimem.schema.base import Record, StrictBool, StrictInt
from epimem.serving import Serving

# Nodes in one batch, and how many may be encoded inside the commit that changes the encoder, while
# other writers wait: well under the five seconds that they do (ours).
BATCH = 64
LATE = 8
# Passes over what was written meanwhile, before that is found to come too fast (ours).
PASSES = 100
WAIT_S = 0.2

Progress = Callable[[str, int, int], None]


class ReembedReport(Record):
    """What became of it: the encoder in use now, and how many nodes got vectors.

    `changed` says whether the bank's encoder is another than before. `filled` counts nodes that had
    no vectors of the present encoder. `seq` is the sequence number of the bank afterwards.
    """

    encoder: str
    dimension: StrictInt
    changed: StrictBool
    encoded: StrictInt = 0
    filled: StrictInt = 0
    damaged: StrictInt = 0
    seq: StrictInt = 0


def change_encoder(
    bank: Bank,
    encoder: Encoder | None,
    target: EncoderIdentity | None,
    *,
    caller: Caller,
    progress: Progress | None = None,
) -> int:
    """Make the vectors of another encoder and let the bank use them; return how many nodes got some.

    Args:
        bank: opened for writing.
        encoder: the new one; None for lexical recall only.
        target: its identity as it will be stored.
        caller: who changes it.
        progress: called with (phase, done, total).

    Raises:
        BankFrozenError: `bank_frozen`.
        BankBusyError: another process is at it, or lessons arrive faster than they are encoded.
    """
    job = bank.take_reembedding(target)
    work = _Work(bank, encoder, job, progress)
    try:
        since = bank.head_seq
        if encoder is not None:
            work.all_nodes()
        work.flip(since, caller)
    except BaseException:
        work.leave()
        raise
    # The change stands; what is not deleted now is when the bank is next opened for writing.
    with suppress(BankBusyError):
        bank.sweep_vectors()
    return work.encoded


def fill_in(
    bank: Bank, encoder: Encoder, *, caller: Caller, progress: Progress | None = None
) -> int:
    """Make the vectors that are missing under the present encoder; return how many nodes got some.

    Raises:
        BankFrozenError: `bank_frozen`.
    """
    work = _Work(bank, encoder, None, progress, caller)
    work.all_nodes()
    return work.encoded


def reembed(
    serving: Serving,
    model: str | None,
    encoder: Encoder | None,
    *,
    caller: Caller,
    progress: Progress | None = None,
) -> ReembedReport:
    """Change the encoder of a bank to another, or fill in what is missing under the same.

    Args:
        serving: of the bank, opened for writing.
        model: the new encoder as settings name it; None: see `encoder`.
        encoder: used instead of loading the model; None without a model: the present one.
        caller: who changes it.
        progress: called with (phase, done, total).

    Raises:
        BankFrozenError: `bank_frozen`.
        BankBusyError: `bank_locked_elsewhere`, another process is at it.
        ConfigError: the model cannot be loaded, or there is no encoder to fill in with.
    """
    bank = serving.bank
    bank.refuse_read_only()
    serving.follow()
    present = bank.encoder
    if model is None and encoder is None:
        own = serving.encoder
        if own is None:
            raise ConfigError(
                "there is no encoder to make vectors with",
                field="encoder.model",
                hint="name one: epimem reembed PATH --encoder MODEL",
            )
        return _report(bank, filled=fill_in(bank, own, caller=caller, progress=progress))
    new = encoder if encoder is not None else load_encoder(model or "none")
    target = identity_of(new, model or "") if new is not None else None
    if _alike(present, target):
        filled = fill_in(bank, new, caller=caller, progress=progress) if new is not None else 0
        return _report(bank, filled=filled)
    if target is not None:
        before = "none" if present is None else present.model or serving.model
        target = successor(present, before, target)
    encoded = change_encoder(bank, new, target, caller=caller, progress=progress)
    serving.use(new, model or serving.model)
    _drop_derived(bank)
    return _report(bank, changed=True, encoded=encoded)


def _alike(first: EncoderIdentity | None, second: EncoderIdentity | None) -> bool:
    if first is None or second is None:
        return first is second
    return first.made_as(second)


def _report(
    bank: Bank, *, changed: bool = False, encoded: int = 0, filled: int = 0
) -> ReembedReport:
    present = bank.encoder
    return ReembedReport(
        encoder=present.name if present is not None else "none",
        dimension=present.dimension if present is not None else 0,
        changed=changed,
        encoded=encoded,
        filled=filled,
        damaged=len(bank.damaged),
        seq=bank.head_seq,
    )


def _drop_derived(bank: Bank) -> None:
    """Delete cached files made from the old encoder's vectors; who needs one makes it anew."""
    for path in bank.side.cache.glob("*.derived"):
        with suppress(OSError):
            path.unlink()


class _Work:
    """Vectors of all nodes in batches, for a job or (None) under the present encoder."""

    def __init__(
        self,
        bank: Bank,
        encoder: Encoder | None,
        job: Job | None,
        progress: Progress | None,
        caller: Caller | None = None,
    ) -> None:
        self._bank = bank
        self._encoder = encoder
        self._job = job
        self._progress = progress
        self._caller = caller
        self.encoded = 0

    def all_nodes(self) -> None:
        """Go through all nodes once."""
        done, total, last = 0, self._bank.node_count(), ""
        while ids := self._bank.node_ids(after=last, limit=BATCH):
            self._batch(ids)
            last = ids[-1]
            done += len(ids)
            self._tell("encode", done, max(total, done))

    def flip(self, since: int, caller: Caller) -> None:
        """Catch up with what is written meanwhile until the encoder can be changed."""
        assert self._job is not None
        passes = 0
        while True:
            seq, late = self._bank.written_since(since)
            if self._encoder is not None:
                for start in range(0, len(late), BATCH):
                    self._batch(late[start : start + BATCH])
            since = seq
            try:
                if self._bank.flip_encoder(
                    self._job, since, self._vectorize, most=LATE, caller=caller
                ):
                    return
            except BankBusyError as error:
                if error.code != "bank_locked_elsewhere":
                    raise
                # A maintainer compares vectors of the old encoder; it ends, or its lease does.
                self._tell("wait for maintenance", 0, 0)
                self._bank.renew_reembedding(self._job)
                time.sleep(WAIT_S)
                continue
            passes += 1
            if passes >= PASSES:
                raise BankBusyError(
                    "lessons arrive faster than they are encoded", hint="run it at a quieter time"
                )

    def leave(self) -> None:
        """Let the next process go on at once."""
        if self._job is not None:
            with suppress(Exception):  # the fault that ended the work is what counts
                self._bank.leave_reembedding(self._job)

    def _batch(self, ids: Sequence[str]) -> None:
        made = self._vectorize(self._bank.without_vectors(ids, self._job))
        if not made:
            return
        if self._job is not None:
            self.encoded += self._bank.put_ahead(self._job, made)
        else:
            assert self._caller is not None
            self.encoded += self._bank.embed(made, caller=self._caller)

    def _vectorize(self, wanted: Sequence[Wanted]) -> list[Made]:
        assert self._encoder is not None
        vectors = node_vectors(self._encoder, [item.index for item in wanted])
        return [Made(item, own) for item, own in zip(wanted, vectors, strict=True)]

    def _tell(self, phase: str, done: int, total: int) -> None:
        if self._progress is not None:
            self._progress(phase, done, total)
