"""Who may do what: bearer tokens, kept as hashes in a file beside the bank, never inside it.

Identity comes from the token alone: contributor, organisation, rights, namespaces, phase. The file is
read again when it changes, so a token that is removed is refused by the next request.
"""

from __future__ import annotations

import os
import secrets
import tempfile
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, get_args

from pydantic import Field

from epimem.bank.intake import Caller
from epimem.bank.journal import Clock, wall_clock
from epimem.errors import AccessError, BankConflictError, ConfigError, NotFoundError, RecordError
from epimem.schema.base import Record, StrictInt
from epimem.schema.ids import sha256
from epimem.schema.text import NameText
from epimem.service.quotas import MOST_LESSONS, WRITES_PER_MINUTE, Quota

Right = Literal["read", "contribute", "maintain", "admin"]
RIGHTS: tuple[Right, ...] = get_args(Right)
Phase = Literal["construction", "evolution", "evaluation"]
PREFIX = "epm_"
"""What a token begins with, so that a scanner of secrets can tell one."""
TOKEN_BYTES = 32
MAX_TOKEN_CHARS = 128


class Grant(Record):
    """What one token grants, and the SHA-256 of the token.

    `rights` are single: `contribute` does not include `read`. `namespaces` empty: all of the bank;
    `maintain` and `admin` reach all of it, and are granted for all of it only. `expires_at` is in
    seconds since 1970, 0 for never. `writes_per_minute` and `lessons` bound the contributor, 0: not.
    """

    name: NameText
    sha256: str = Field(pattern="^[0-9a-f]{64}$")
    contributor: NameText
    organisation: NameText
    rights: tuple[Right, ...] = Field(min_length=1)
    namespaces: tuple[NameText, ...] = ()
    phase: Phase = "construction"
    writes_per_minute: StrictInt = Field(default=WRITES_PER_MINUTE, ge=0)
    lessons: StrictInt = Field(default=MOST_LESSONS, ge=0)
    expires_at: StrictInt = Field(default=0, ge=0)


class Grants(Record):
    """The content of a token file."""

    tokens: tuple[Grant, ...] = ()


@dataclass(frozen=True)
class Principal:
    """Whoever stands behind a request.

    Attributes:
        name: of the token, for logs and quotas.
        caller: what the bank attributes writes to.
        rights: what may be done.
        namespaces: what may be seen and written; None for all.
        quota: how much may be written; None: without bound.
    """

    name: str
    caller: Caller
    rights: frozenset[Right]
    namespaces: frozenset[str] | None = None
    quota: Quota | None = None

    def require(self, right: Right) -> None:
        """Check for a right.

        Raises:
            AccessError: `forbidden_action`, the principal has it not.
        """
        if right not in self.rights:
            raise AccessError("this token may not do that", field=right)

    def sees(self, namespace: str) -> bool:
        """Return whether a namespace is one of the principal's."""
        return self.namespaces is None or namespace in self.namespaces


def operator(caller: Caller) -> Principal:
    """Return who works on the machine of the bank itself: everything is allowed."""
    return Principal("operator", caller, frozenset(RIGHTS))


class TokenFile:
    """The tokens of a bank.

    Args:
        path: of the file; there may be none yet.
        clock: seconds since 1970.
    """

    def __init__(self, path: Path, clock: Clock = wall_clock) -> None:
        self.path = path
        self._clock = clock
        self._seen: tuple[int, int, int] | None = None
        self._grants: dict[str, Grant] = {}

    def __len__(self) -> int:
        return len(self._current())

    def grants(self) -> list[Grant]:
        """Return what is granted, in the order in which it was."""
        return [*self._current().values()]

    def add(self, grant: Grant, token: str) -> None:
        """Grant what a record says to a token; its hash is filled in.

        Raises:
            BankConflictError: `conflict`, the name is taken.
            ConfigError: the grant contradicts itself.
        """
        known = self.grants()
        if any(each.name == grant.name for each in known):
            raise BankConflictError("there is a token of this name", got=grant.name)
        if grant.namespaces and {"maintain", "admin"} & {*grant.rights}:
            raise ConfigError(
                "maintain and admin reach the whole bank", field="namespaces", hint="leave them out"
            )
        self._write([*known, grant.model_copy(update={"sha256": _hash(token)})])

    def remove(self, name: str) -> None:
        """Let a token be refused from now on.

        Raises:
            NotFoundError: there is none of this name.
        """
        known = self.grants()
        kept = [grant for grant in known if grant.name != name]
        if len(kept) == len(known):
            raise NotFoundError("no token of this name", got=name)
        self._write(kept)

    def principal(self, token: str | None) -> Principal:
        """Return who a token stands for.

        Raises:
            AccessError: `unauthenticated`; why is not said.
        """
        grant = None
        if token is not None and len(token) <= MAX_TOKEN_CHARS:
            # Looked up by its hash: how long that takes says nothing about the token.
            grant = self._current().get(_hash(token))
        if grant is None or 0 < grant.expires_at <= self._clock():
            raise AccessError("a valid token is needed", code="unauthenticated")
        return Principal(
            name=grant.name,
            caller=Caller(grant.contributor, grant.organisation, grant.phase),
            rights=frozenset(grant.rights),
            namespaces=frozenset(grant.namespaces) or None,
            quota=Quota(grant.writes_per_minute, grant.lessons),
        )

    def _current(self) -> dict[str, Grant]:
        try:
            status = self.path.stat()
        except FileNotFoundError:
            self._seen, self._grants = None, {}
            return self._grants
        seen = (status.st_mtime_ns, status.st_size, status.st_ino)
        if seen != self._seen:
            self._grants = self._read()
            self._seen = seen
        return self._grants

    def _read(self) -> dict[str, Grant]:
        try:
            found = Grants.read(self.path.read_bytes())
        except RecordError as error:
            raise ConfigError(
                f"the token file cannot be read: {error.message}", field=error.field
            ) from error
        return {grant.sha256: grant for grant in found.tokens}

    def _write(self, grants: list[Grant]) -> None:
        # Replaced as a whole, so that a server never reads half a file; for its owner's eyes alone.
        data = Grants(tokens=tuple(grants)).canonical() + b"\n"
        handle, name = tempfile.mkstemp(dir=self.path.parent, prefix=f".{self.path.name}.")
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            Path(name).replace(self.path)
        except BaseException:
            with suppress(OSError):
                Path(name).unlink()
            raise


def token_file(bank: Path) -> Path:
    """Return the file that holds the tokens of a bank unless another one is named."""
    return bank.resolve().with_name(f"{bank.resolve().name}.tokens.json")


def new_token() -> str:
    """Return a token that nobody can guess."""
    return PREFIX + secrets.token_urlsafe(TOKEN_BYTES)


def _hash(token: str) -> str:
    return sha256(token.encode("utf-8", "surrogatepass"))
