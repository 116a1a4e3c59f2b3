"""How faults are told over HTTP: one shape, one status a code; nothing of what was refused but its size.

`{"error": {"code", "message", "field", "limit", "got", "hint", "request_id"}}`
"""

from __future__ import annotations

from typing import Any

from epimem.errors import EpimemError
from epimem.schema import strict_json

STATUS = {
    "bad_json": 400,
    "bad_request": 400,
    "unauthenticated": 401,
    "forbidden_action": 403,
    "origin_not_allowed": 403,
    "not_found": 404,
    "method_not_allowed": 405,
    "conflict": 409,
    "idempotency_mismatch": 409,
    "bank_frozen": 409,
    "bank_exists": 409,
    "embedding_mismatch": 409,
    "bank_too_new": 409,
    "bank_too_old": 409,
    "stale_epoch": 409,
    "not_ready": 409,
    "text_blocked": 409,
    "too_large": 413,
    "image_too_big": 413,
    "unsupported_type": 415,
    "host_not_allowed": 421,
    "invalid_field": 422,
    "invalid_text": 422,
    "invalid_image": 422,
    "remote_image_refused": 422,
    "tree_limit": 422,
    "quota_exceeded": 429,
    "headers_too_large": 431,
    "internal": 500,
    "model_failed": 502,
    "bank_busy": 503,
    "bank_locked_elsewhere": 503,
    "bank_corrupt": 503,
    "storage_failed": 503,
    "storage_full": 507,
}
RETRY_AFTER_S = 1


def status(error: EpimemError) -> int:
    """Return the HTTP status of a fault."""
    return STATUS.get(error.code, 500)


def body(error: EpimemError, request_id: str) -> bytes:
    """Return a fault as JSON."""
    told: dict[str, Any] = dict(error.as_dict())
    told["error"] = {**told["error"], "request_id": request_id}
    return strict_json.dumps(told)


def headers(error: EpimemError) -> dict[str, str]:
    """Return what goes along with a fault: how to authenticate, when to come back."""
    if error.code == "unauthenticated":
        return {"www-authenticate": "Bearer"}
    if error.retry:
        return {"retry-after": str(RETRY_AFTER_S)}
    return {}


def named(error: BaseException) -> EpimemError:
    """Return an exception as a fault with a code; one without is a bug of ours, and says no more."""
    if isinstance(error, EpimemError):
        return error
    return EpimemError("a bug in epimem; the log of the server names the place")
