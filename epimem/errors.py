"""Every fault epimem raises, with a stable code.

    EpimemError
    ├── ConfigError          bad_config
    ├── RecordError          bad_json, bad_request, method_not_allowed, headers_too_large, invalid_field,
    │                        invalid_text, too_large
    ├── ImageError           invalid_image, image_too_big, unsupported_type, remote_image_refused
    ├── NotFoundError        not_found
    ├── AccessError          unauthenticated, forbidden_action, text_blocked, host_not_allowed,
    │                        origin_not_allowed, quota_exceeded
    ├── BankError
    │   ├── BankConflictError   conflict, idempotency_mismatch, embedding_mismatch, bank_exists
    │   ├── BankFrozenError     bank_frozen
    │   ├── BankBusyError       bank_busy, bank_locked_elsewhere, stale_epoch, not_ready
    │   ├── BankVersionError    bank_too_new, bank_too_old
    │   ├── BankCorruptError    bank_corrupt
    │   └── StorageError        storage_full, storage_failed, unsafe_bank_location, unreachable
    ├── ControllerError      model_failed
    └── PluginError          bad_config (no such entry point)

A refused *proposal* is not a fault: it is a `Rejection` value (`epimem.schema.proposal`).
`exit_code` is what the command line returns; `retry` says whether the same call may succeed later.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

EXIT_CODES = {
    "bad_json": 2,
    "bad_request": 2,
    "method_not_allowed": 2,
    "headers_too_large": 2,
    "invalid_field": 2,
    "invalid_text": 2,
    "too_large": 2,
    "unsupported_type": 2,
    "invalid_image": 2,
    "image_too_big": 2,
    "remote_image_refused": 2,
    "bad_config": 2,
    "tree_limit": 2,
    "unauthenticated": 3,
    "forbidden_action": 3,
    "host_not_allowed": 3,
    "origin_not_allowed": 3,
    "not_found": 4,
    "conflict": 5,
    "idempotency_mismatch": 5,
    "bank_frozen": 5,
    "bank_exists": 5,
    "embedding_mismatch": 5,
    "bank_too_new": 5,
    "bank_too_old": 5,
    "text_blocked": 5,
    "unreachable": 6,
    "quota_exceeded": 7,
    "bank_busy": 6,
    "bank_locked_elsewhere": 6,
    "stale_epoch": 6,
    "not_ready": 6,
    "model_failed": 8,
    "bank_corrupt": 9,
    "unsafe_bank_location": 9,
    "storage_full": 9,
    "storage_failed": 9,
    "internal": 70,
}
RETRYABLE = frozenset(
    {"bank_busy", "bank_locked_elsewhere", "not_ready", "model_failed", "quota_exceeded"}
)


class EpimemError(Exception):
    """A fault with a stable `code`, what was met (`got`), where (`field`) and what to do (`hint`)."""

    default_code: ClassVar[str] = "internal"

    def __init__(
        self,
        message: str,
        *,
        code: str | None = None,
        field: str | None = None,
        got: str | float | None = None,
        limit: float | None = None,
        hint: str | None = None,
    ) -> None:
        super().__init__(message)
        self.code = code or self.default_code
        self.message = message
        self.field = field
        self.got = got if not isinstance(got, str) else ascii(got)[1:-1][:40]
        self.limit = limit
        self.hint = hint

    @property
    def exit_code(self) -> int:
        """Process exit status of the command line for this fault."""
        return EXIT_CODES.get(self.code, 70)

    @property
    def retry(self) -> bool:
        """Whether the same call may succeed later without a change."""
        return self.code in RETRYABLE

    def as_dict(self) -> dict[str, object]:
        """Return the one error shape of all transports; fields without a value are left out."""
        body = {
            "code": self.code,
            "message": self.message,
            "field": self.field,
            "limit": self.limit,
            "got": self.got,
            "hint": self.hint,
        }
        return {"error": {key: value for key, value in body.items() if value is not None}}

    def __str__(self) -> str:
        where = f" [{self.field}]" if self.field else ""
        got = f", got {self.got}" if self.got is not None else ""
        limit = f", limit {self.limit}" if self.limit is not None else ""
        hint = f" ({self.hint})" if self.hint else ""
        return f"{self.code}{where}: {self.message}{got}{limit}{hint}"


class ConfigError(EpimemError):
    """A setting that is unknown or out of range; names the key and what is expected."""

    default_code = "bad_config"


class RecordError(EpimemError):
    """A record that cannot be read or breaks a rule of its schema."""

    default_code = "invalid_field"


class ImageError(EpimemError):
    """An image that is refused, or a region that does not fit its image."""

    default_code = "invalid_image"


class NotFoundError(EpimemError):
    """Absent or not visible to the caller: the two look the same on purpose."""

    default_code = "not_found"


class AccessError(EpimemError):
    """The caller may not do this."""

    default_code = "forbidden_action"


class BankError(EpimemError):
    """Any fault of the bank itself."""


class BankConflictError(BankError):
    """The state moved on, or an idempotency key came back with another body."""

    default_code = "conflict"


class BankFrozenError(BankError):
    """A write to a frozen bank."""

    default_code = "bank_frozen"


class BankBusyError(BankError):
    """A lock or lease is held elsewhere, or this holder was fenced."""

    default_code = "bank_busy"


class BankVersionError(BankError):
    """A bank of a format this release does not read."""

    default_code = "bank_too_new"


class BankCorruptError(BankError):
    """Stored bytes that do not match their checksum; damaged items are withheld, never returned."""

    default_code = "bank_corrupt"


class StorageError(BankError):
    """The disk is full, read-only, or a flush failed."""

    default_code = "storage_failed"


class ControllerError(EpimemError):
    """A controller failed as a whole (raised, hung, or returned rubbish)."""

    default_code = "model_failed"


class PluginError(ConfigError):
    """No such controller, importer or command is installed; the message lists those there are."""


_KINDS: tuple[tuple[type[EpimemError], tuple[str, ...]], ...] = (
    (ConfigError, ("bad_config",)),
    (
        RecordError,
        (
            "bad_json",
            "bad_request",
            "method_not_allowed",
            "headers_too_large",
            "invalid_field",
            "invalid_text",
            "too_large",
        ),
    ),
    (
        ImageError,
        ("invalid_image", "image_too_big", "unsupported_type", "remote_image_refused"),
    ),
    (NotFoundError, ("not_found",)),
    (
        AccessError,
        (
            "unauthenticated",
            "forbidden_action",
            "text_blocked",
            "host_not_allowed",
            "origin_not_allowed",
            "quota_exceeded",
        ),
    ),
    (
        BankConflictError,
        ("conflict", "idempotency_mismatch", "embedding_mismatch", "bank_exists"),
    ),
    (BankFrozenError, ("bank_frozen",)),
    (BankBusyError, ("bank_busy", "bank_locked_elsewhere", "stale_epoch", "not_ready")),
    (BankVersionError, ("bank_too_new", "bank_too_old")),
    (BankCorruptError, ("bank_corrupt",)),
    (StorageError, ("storage_full", "storage_failed", "unsafe_bank_location", "unreachable")),
    (ControllerError, ("model_failed",)),
)
_KIND_OF = {code: kind for kind, codes in _KINDS for code in codes}


def fault_of(body: Mapping[str, Any], message: str) -> EpimemError:
    """Return the fault that `as_dict` told of, as the same class with the same code.

    Args:
        body: as it came from a server; what is not understood of it is left out.
        message: used where it brings none.
    """
    told = body.get("error")
    fields: Mapping[str, Any] = told if isinstance(told, Mapping) else {}
    code = fields.get("code")
    kind = _KIND_OF.get(code, EpimemError) if isinstance(code, str) else EpimemError
    names = ("code", "field", "got", "limit", "hint")
    return kind(
        str(fields.get("message", message)),
        **{name: fields[name] for name in names if fields.get(name) is not None},
    )
