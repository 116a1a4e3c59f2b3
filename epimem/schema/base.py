"""The base of all records: frozen, unknown fields refused, read through one door."""

from __future__ import annotations

from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, BeforeValidator, ConfigDict, Strict, ValidationError

from epimem.errors import RecordError
from epimem.schema import strict_json

StrictInt = Annotated[int, Strict()]
StrictFloat = Annotated[float, Strict()]
StrictBool = Annotated[bool, Strict()]


def _no_truth(value: Any) -> Any:
    if isinstance(value, bool):
        raise ValueError("0 or 1, not a truth value")  # noqa: TRY004 (for pydantic)
    return value


# A literal takes what is equal to it, and false is equal to 0.
Bit = Annotated[Literal[0, 1], BeforeValidator(_no_truth)]


class Record(BaseModel):
    """An immutable record; construct with keywords, read with `read`, write with `canonical`."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", allow_inf_nan=False, populate_by_name=True
    )

    @classmethod
    def read(cls, data: bytes | str | dict[str, Any]) -> Self:
        """Read one record from JSON bytes, text or plain data.

        Raises:
            RecordError: `bad_json`, `invalid_field` or `invalid_text`, naming the field.
        """
        value = data if isinstance(data, dict) else strict_json.loads(data)
        try:
            return cls.model_validate(value)
        except ValidationError as error:
            raise record_error(error) from error

    def canonical(self) -> bytes:
        """Return canonical JSON: sorted keys, no spaces, UTF-8, fields at their default left out."""
        return strict_json.dumps(self.plain())

    def plain(self) -> dict[str, Any]:
        """Return plain JSON data, fields at their default left out."""
        return self.model_dump(mode="json", by_alias=True, exclude_defaults=True)


def record_error(error: ValidationError) -> RecordError:
    """Turn a validation error into ours, naming the first faulty field."""
    first = error.errors(include_url=False)[0]
    where = ".".join(str(part) for part in first["loc"]) or None
    kind = str(first["type"])
    code = kind if kind in {"invalid_text", "too_large"} else "invalid_field"
    got = first.get("input")
    shown = got if isinstance(got, int | float) else type(got).__name__
    more = error.error_count() - 1
    hint = f"and {more} more" if more else None
    return RecordError(str(first["msg"]), code=code, field=where, got=shown, hint=hint)
