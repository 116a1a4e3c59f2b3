"""The HTTP transport: `POST /v1/<operation>`, blobs, health, metrics, and MCP under `/mcp`.

Bodies are read by our own strict reader, never by the framework; the framework routes and describes.
"""

from __future__ import annotations

import asyncio
import hashlib
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from fastapi import FastAPI, Request, Response
from starlette.exceptions import HTTPException
from starlette.routing import Route
from starlette.types import ASGIApp

from epimem.errors import EpimemError, NotFoundError, RecordError
from epimem.schema.base import Record
from epimem.schema.tree import Node
from epimem.service import faults, health, mcp, operations
from epimem.service.access import Principal, TokenFile
from epimem.service.desk import Desk
from epimem.service.door import BLOBS, MCP, Door, DoorSettings
from epimem.service.messages import ImageReceipt, UploadReceipt
from epimem.service.metrics import Metrics
from epimem.service.operations import OPERATIONS, Operation

READ_S = 30.0
"""How long a body may take to arrive."""
JSON = "application/json"
IMAGES = ("image/png", "image/jpeg", "image/webp")
_Responses = dict[int | str, dict[str, Any]]
_REFERENCE = "#/components/schemas/{model}"
_HASH = re.compile(r"[0-9a-f]{64}")
# Statuses of what may come back instead of an answer: anywhere, behind the token, from an operation.
_ANYWHERE = (400, 403, 409, 413, 415, 421, 431, 500, 503)
_INSIDE = (*_ANYWHERE, 401)
_ASKED = (*_INSIDE, 404, 422, 502, 507)
_WRITTEN = (*_INSIDE, 422, 429, 507)


def application(
    desk: Desk, tokens: TokenFile, settings: DoorSettings, *, version: str
) -> tuple[ASGIApp, Metrics]:
    """Return the whole application behind its door, and its counters.

    Args:
        desk: takes the requests.
        tokens: who may come in.
        settings: from where.
        version: of the package, for the description of the interface.
    """
    sessions = mcp.http_sessions(desk, settings)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        async with sessions.run():
            yield

    app = FastAPI(
        title="epimem",
        version=version,
        description="One experience bank, protocol epimem/1.",
        docs_url=None,  # the page would load scripts from elsewhere
        redoc_url=None,
        redirect_slashes=False,
        lifespan=lifespan,
        exception_handlers={
            EpimemError: _told,
            HTTPException: _unrouted,
            Exception: _told,
        },
    )
    metrics = Metrics(desk)
    for operation in OPERATIONS.values():
        _add_operation(app, desk, operation)
    _add_blobs(app, desk)
    _add_probes(app, desk, metrics)
    _describe(app)
    # Without sessions there is nothing to listen to and nothing to delete.
    app.router.routes.append(Route(MCP, mcp.Endpoint(sessions), methods=["POST"]))
    return Door(app, tokens=tokens, settings=settings, seen=metrics.seen), metrics


def _describe(app: FastAPI) -> None:
    """Let the description hold the records that others refer to, and say that a token is needed."""
    made = app.openapi

    def described() -> dict[str, Any]:
        found = made()
        parts = found.setdefault("components", {})
        parts["schemas"] = {**parts.get("schemas", {}), **_parts()}
        parts["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer"}}
        found["security"] = [{"token": []}]
        found["paths"]["/healthz"]["get"]["security"] = []
        return found

    app.openapi = described  # type: ignore[method-assign] # how FastAPI says to extend it


def _parts() -> dict[str, Any]:
    """Return the schemas of all faults, and of the records inside requests and answers, by name."""
    records: list[type[Record]] = [Node]
    for operation in OPERATIONS.values():
        records += [operation.request, operation.answer]
    found = {f"Fault{status}": _fault(status) for status in (*_ASKED, *_WRITTEN)}
    for record in records:
        found |= record.model_json_schema(ref_template=_REFERENCE).get("$defs", {})
    return found


def _add_operation(app: FastAPI, desk: Desk, operation: Operation) -> None:
    async def handle(request: Request) -> Response:
        _require_type(request, JSON)
        body = await _body(request)
        answer = await desk.perform(principal_of(request), operation.name, body)
        return Response(answer, media_type=JSON)

    app.post(
        f"/v1/{operation.name}",
        summary=operation.summary,
        operation_id=operation.name,
        response_class=Response,
        responses=_answered(
            operation.answer,
            statuses=(*_ASKED, 429) if operation.right == "contribute" else _ASKED,
        ),
        openapi_extra={"requestBody": {"required": True, "content": _content(operation.request)}},
    )(handle)


def _add_blobs(app: FastAPI, desk: Desk) -> None:
    async def put(request: Request, blob: str) -> Response:
        kind = _require_type(request, JSON, *IMAGES)
        if not _HASH.fullmatch(blob):
            raise RecordError("a blob is named by 64 hexadecimal digits", field="blob")
        principal = principal_of(request)
        principal.require("contribute")
        written = await desk.run(lambda opened: opened.uploads.new())
        try:
            size = await _stored(request, written, blob)
            if kind == JSON:
                await desk.run(lambda opened: opened.uploads.keep(principal.name, written, blob))
                return _answer(UploadReceipt(blob=blob, bytes=size))
            data = await asyncio.to_thread(written.read_bytes)
            receipt = await desk.run(
                lambda opened: operations.put_image(opened, principal, data, kind)
            )
            return _answer(receipt)
        finally:
            await asyncio.to_thread(written.unlink, missing_ok=True)

    async def get(request: Request, blob: str) -> Response:
        principal = principal_of(request)
        data = await desk.run(lambda opened: operations.crop(opened, principal, blob))
        return Response(data, media_type="image/png")

    path = f"{BLOBS}{{blob}}"
    bodies = {kind: {"schema": {"type": "string", "format": "binary"}} for kind in IMAGES}
    app.put(
        path,
        summary="Store an image, or leave a document to contribute; named by its SHA-256.",
        operation_id="put_blob",
        response_class=Response,
        responses=_answered(ImageReceipt, UploadReceipt, statuses=_WRITTEN),
        openapi_extra={
            "requestBody": {"required": True, "content": {**bodies, JSON: {"schema": {}}}}
        },
    )(put)
    app.get(
        path,
        summary="The PNG of a crop that a retrieval showed.",
        operation_id="get_blob",
        response_class=Response,
        responses=_responses("image/png", {"type": "string", "format": "binary"}, (*_INSIDE, 404)),
    )(get)
    app.get(
        "/v1/items/{node_id}",
        summary="A live item of the bank.",
        operation_id="get_item",
        response_class=Response,
        responses=_answered(Node, statuses=(*_INSIDE, 404)),
    )(_item(desk))


def _item(desk: Desk) -> Callable[[Request, str], Awaitable[Response]]:
    async def get(request: Request, node_id: str) -> Response:
        principal = principal_of(request)
        data = await desk.run(lambda opened: operations.item(opened, principal, node_id))
        return Response(data, media_type=JSON)

    return get


def _add_probes(app: FastAPI, desk: Desk, metrics: Metrics) -> None:
    async def healthz() -> Response:
        found = await desk.run(lambda opened: health.answer(opened.memory))
        failing = not (found.writable or found.frozen)
        words = b'{"status":"failing"}' if failing else b'{"status":"ok"}'
        return Response(words, status_code=503 if failing else 200, media_type=JSON)

    async def counters(request: Request) -> Response:
        principal_of(request).require("read")
        return Response(*await metrics.page())

    app.get(
        "/healthz",
        summary="Whether the bank can be read and written; needs no token.",
        operation_id="healthz",
        response_class=Response,
        responses=_probed(),
    )(healthz)
    app.get(
        "/metrics",
        summary="Counters for Prometheus.",
        operation_id="metrics",
        response_class=Response,
        responses=_responses("text/plain", {"type": "string"}, _INSIDE),
    )(counters)


def principal_of(request: Request) -> Principal:
    """Return who the door let in."""
    principal: Principal = request.scope["state"]["principal"]
    return principal


def _require_type(request: Request, *kinds: str) -> str:
    told = request.headers.getlist("content-type")
    kind, _, parameter = (told[0] if len(told) == 1 else "").partition(";")
    kind = kind.strip().lower()
    if kind not in kinds or parameter.strip().lower() not in {"", "charset=utf-8"}:
        raise RecordError(
            f"the body is {' or '.join(kinds)}", code="unsupported_type", field="content-type"
        )
    return kind


async def _body(request: Request) -> bytes:
    try:
        async with asyncio.timeout(READ_S):
            return await request.body()
    except TimeoutError:
        raise RecordError("the body did not arrive in time", code="bad_request") from None


async def _stored(request: Request, path: Path, blob: str) -> int:
    """Write a body to a file as it arrives; return its size.

    Raises:
        RecordError: its hash is another than it was announced as, or it did not arrive in time.
    """
    digest, size = hashlib.sha256(), 0
    with path.open("wb") as file:
        stream = request.stream()
        while True:
            try:
                async with asyncio.timeout(READ_S):
                    part = await anext(stream, None)
            except TimeoutError:
                raise RecordError("the body did not arrive in time", code="bad_request") from None
            if part is None:
                break
            digest.update(part)
            size += len(part)
            await asyncio.to_thread(file.write, part)
    if digest.hexdigest() != blob:
        raise RecordError("the hash of the body is another", field="blob", got=digest.hexdigest())
    return size


def _answer(record: Record) -> Response:
    return Response(record.canonical(), media_type=JSON)


async def _told(request: Request, error: Exception) -> Response:
    found = faults.named(error)
    state = request.scope.setdefault("state", {})
    state["code"] = found.code
    data = faults.body(found, state.get("request_id", ""))
    return Response(
        data,
        status_code=faults.status(found),
        media_type=JSON,
        headers=faults.headers(found),
    )


async def _unrouted(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    if error.status_code == 405:
        fault: EpimemError = RecordError(
            "the method is not one of this path", code="method_not_allowed"
        )
    else:
        fault = NotFoundError("no such path")
    told = await _told(request, fault)
    if error.status_code == 405:
        told.headers["allow"] = ", ".join(_methods(request))
    return told


def _methods(request: Request) -> list[str]:
    """Return all methods of a path; the framework knows one route of it at a time."""
    path = request.scope["path"]
    return sorted(
        method
        for route in request.app.router.routes
        if isinstance(route, Route) and route.path_regex.match(path)
        for method in route.methods or ()
    )


def _content(record: type[Record]) -> dict[str, Any]:
    return {JSON: {"schema": _schema(record)}}


def _schema(record: type[Record]) -> dict[str, Any]:
    """Return the JSON Schema of a record; records inside it are referred to."""
    schema = record.model_json_schema(ref_template=_REFERENCE)
    schema.pop("$defs", None)
    return schema


def _answered(*answers: type[Record], statuses: Iterable[int]) -> _Responses:
    """Describe what comes back: one of the records, or a fault with one of the statuses."""
    schemas = [_schema(answer) for answer in answers]
    return _responses(JSON, schemas[0] if len(schemas) == 1 else {"anyOf": schemas}, statuses)


def _responses(kind: str, schema: dict[str, Any], statuses: Iterable[int]) -> _Responses:
    faulty: _Responses = {
        status: {
            "description": "Refused or failed.",
            "content": {JSON: {"schema": _told_as(status)}},
        }
        for status in sorted(statuses)
    }
    return {200: {"description": "Done.", "content": {kind: {"schema": schema}}}, **faulty}


def _probed() -> _Responses:
    """Describe the probe: two words, or a fault before it."""
    found = _responses(JSON, _status("ok"), _ANYWHERE)
    found[503]["content"] = {JSON: {"schema": {"anyOf": [_status("failing"), _told_as(503)]}}}
    return found


def _status(word: str) -> dict[str, Any]:
    return {
        "type": "object",
        "required": ["status"],
        "properties": {"status": {"const": word}},
        "additionalProperties": False,
    }


def _told_as(status: int) -> dict[str, Any]:
    return {"$ref": _REFERENCE.format(model=f"Fault{status}")}


def _fault(status: int) -> dict[str, Any]:
    """Return the schema of a fault with a status: which codes it may have."""
    codes = sorted(code for code, told in faults.STATUS.items() if told == status)
    fields = {
        # What has no status of its own is told as 500.
        "code": {"type": "string"} if status == 500 else {"enum": codes},
        "message": {"type": "string"},
        "request_id": {"type": "string"},
        "field": {"type": "string"},
        "hint": {"type": "string"},
        "limit": {"type": "number"},
        "got": {"type": ["string", "number", "boolean"]},
    }
    inside = {
        "type": "object",
        "required": ["code", "message", "request_id"],
        "properties": fields,
        "additionalProperties": False,
    }
    return {
        "type": "object",
        "required": ["error"],
        "properties": {"error": inside},
        "additionalProperties": False,
    }
