"""One client for a bank, wherever it is: in this process, behind HTTP, or behind MCP.

    with Client.local("my-bank") as bank: ...
    with Client.http("http://127.0.0.1:8765", token) as bank: ...
    with Client.mcp_http("http://127.0.0.1:8765/mcp", token) as bank: ...
    with Client.mcp_stdio("epimem", ["mcp", "my-bank"]) as bank: ...

All of them speak `epimem/1`: the same records in and out, the same faults raised. What MCP has no
tool for (images, snapshots, upkeep) is refused there with `not_found`.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self

from epimem.feedback import Feedback
from epimem.schema import strict_json
from epimem.schema.base import Record
from epimem.schema.contribution import read_contribution
from epimem.schema.ids import sha256, uuid7
from epimem.schema.memory_input import Crop, MemoryInput
from epimem.schema.receipt import Receipt
from epimem.service.messages import (
    ContributeRequest,
    HealthAnswer,
    HealthRequest,
    ImageReceipt,
    IngestAnswer,
    IngestRequest,
    MaintainAnswer,
    MaintainRequest,
    RetrieveRequest,
    ReviewAnswer,
    ReviewRequest,
    ReviseAnswer,
    ReviseRequest,
    RevokeAnswer,
    RevokeRequest,
    SnapshotReceipt,
    SnapshotRequest,
)
from harness_adapters.transports import HttpTransport, LocalTransport, McpTransport, Transport

if TYPE_CHECKING:
    from epimem.memory import ExperienceMemory
    from epimem.schema.lesson import LessonDraft, VerdictSource
    from epimem.schema.outcome import SealedOutcome
    from epimem.schema.run import Run

INLINE_BYTES = 900_000
"""Longer contributions go as an upload; a request may have a MiB."""
IMAGE_KINDS = {b"\x89PNG": "image/png", b"\xff\xd8\xff": "image/jpeg", b"RIFF": "image/webp"}


class Client:
    """A bank as its callers see it. Use `with`, or `close`; several threads may share one.

    Args:
        transport: carries requests and answers.
    """

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    @classmethod
    def local(cls, bank: Path | str | ExperienceMemory, *, contributor: str | None = None) -> Self:
        """Open a bank in this process, or use one that is open; the opener closes that.

        Args:
            bank: a folder or an opened bank.
            contributor: to whom writes are attributed; as in its settings where None.
        """
        return cls(LocalTransport(bank, contributor))

    @classmethod
    def http(cls, url: str, token: str, *, timeout_s: float = 60.0) -> Self:
        """Call a server of `epimem serve`.

        Args:
            url: as the server printed it.
            token: of `epimem token add`.
            timeout_s: for one answer; ingest and maintain may need more.
        """
        return cls(HttpTransport(url, token, timeout_s=timeout_s))

    @classmethod
    def mcp_http(cls, url: str, token: str) -> Self:
        """Call the MCP side of a server; the URL ends in `/mcp`."""
        return cls(McpTransport.http(url, token))

    @classmethod
    def mcp_stdio(
        cls, program: str, arguments: Sequence[str], env: Mapping[str, str] | None = None
    ) -> Self:
        """Start an MCP server, as `epimem mcp my-bank`, and call it."""
        return cls(McpTransport.stdio(program, arguments, env))

    def close(self) -> None:
        """End the connection, the server that was started, or the bank that was opened."""
        self._transport.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    # -- the three verbs ---------------------------------------------------------------------------

    def retrieve(self, question: str, **given: Any) -> MemoryInput:
        """Ask; the keywords are the fields of `RetrieveRequest`.

        Raises:
            EpimemError: as `ExperienceMemory.retrieve`; `not_ready`, `unauthenticated`, `not_found`.
        """
        request = RetrieveRequest.read(_plain({"question": question, **given}))
        return MemoryInput.read(self._call("retrieve", request))

    def contribute(
        self,
        item: Run | LessonDraft | bytes | Mapping[str, Any],
        *,
        outcome: SealedOutcome | None = None,
        namespace: str | None = None,
        idempotency_key: str | None = None,
    ) -> Receipt:
        """Hand in a run or a lesson; one call has one effect, however often it has to be sent.

        Args:
            item: as for `ExperienceMemory.contribute`.
            outcome: of a run.
            namespace: that of the bank, or of the token, by default.
            idempotency_key: the same key gives the same receipt for seven days; a new one by default.
        """
        data = read_contribution(item).canonical()
        fields: dict[str, Any] = {
            "namespace": namespace,
            "idempotency_key": idempotency_key or uuid7(),
            "outcome": outcome.plain() if outcome is not None else None,
        }
        if len(data) <= INLINE_BYTES:
            value = strict_json.loads(data, max_depth=strict_json.RUN_DEPTH, keep_surrogates=True)
            request = ContributeRequest(item=value, **fields)
        else:
            self._transport.put_blob(data, "application/json")
            request = ContributeRequest(blob=sha256(data), **fields)
        return Receipt.read(self._call("contribute", request))

    def feedback(
        self,
        retrieval_id: str,
        *,
        verdict: Literal["right", "wrong"] | None = None,
        source: VerdictSource = "none",
        helped: Sequence[str] = (),
        hurt: Mapping[str, str] | None = None,
    ) -> Receipt:
        """Say what became of a question; see `ExperienceMemory.feedback`."""
        given = Feedback.read(
            {
                "retrieval_id": retrieval_id,
                "verdict": verdict,
                "source": source,
                "helped": list(helped),
                "hurt": [{"node_id": k, "statement": v} for k, v in (hurt or {}).items()],
            }
        )
        return Receipt.read(self._call("feedback", given))

    def revise(self, question: str, **given: Any) -> ReviseAnswer:
        """Revise the memory of one question after an attempt; see `ReviseRequest` for the keywords.

        Args:
            question: as it is asked.
            given: `images` as files' bytes; the others as in the request.
        """
        images = [base64.b64encode(data).decode("ascii") for data in given.pop("images", ())]
        request = ReviseRequest.read(_plain({"question": question, "images": images, **given}))
        return ReviseAnswer.read(self._call("revise", request))

    # -- pictures ----------------------------------------------------------------------------------

    def add_image(self, data: bytes) -> ImageReceipt:
        """Store an image (PNG, JPEG, WebP).

        Raises:
            ImageError: refused by format, size or content.
        """
        kind = next((kind for head, kind in IMAGE_KINDS.items() if data.startswith(head)), "")
        # What is none of them is sent as the first: the bank says what is wrong with it.
        return ImageReceipt.read(self._transport.put_blob(data, kind or "image/png"))

    def crop_png(self, crop: Crop) -> bytes:
        """Return the PNG of a crop that a retrieval showed."""
        return self._transport.get_blob(crop.blob)

    # -- upkeep ------------------------------------------------------------------------------------

    def ingest(self, *, limit: int | None = None) -> IngestAnswer:
        """Derive lessons from queued runs."""
        return IngestAnswer.read(self._call("ingest", IngestRequest(limit=limit)))

    def maintain(self, *, max_steps: int | None = None) -> MaintainAnswer:
        """Organize the inbox into the tree."""
        return MaintainAnswer.read(self._call("maintain", MaintainRequest(max_steps=max_steps)))

    def snapshot(self, name: str) -> SnapshotReceipt:
        """Name the present state."""
        return SnapshotReceipt.read(self._call("snapshot", SnapshotRequest(name=name)))

    def revoke(self, target: Literal["item", "run", "contributor"], name: str) -> RevokeAnswer:
        """Remove something for good, with everything derived from it."""
        return RevokeAnswer.read(self._call("revoke", RevokeRequest(target=target, name=name)))

    def review(self, *, approve: Sequence[str] = (), refuse: Sequence[str] = ()) -> ReviewAnswer:
        """Approve or refuse what other organisations handed in, and return what waits."""
        request = ReviewRequest(approve=tuple(approve), refuse=tuple(refuse))
        return ReviewAnswer.read(self._call("review", request))

    def health(self) -> HealthAnswer:
        """Return whether the bank can be read and written, and what waits in it."""
        return HealthAnswer.read(self._call("health", HealthRequest()))

    def _call(self, operation: str, request: Record) -> bytes:
        return self._transport.call(operation, request.canonical())


def _plain(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return keywords as plain data: records among them as they are written, sequences as lists."""
    return {
        name: value.plain() if isinstance(value, Record) else value for name, value in given.items()
    }
