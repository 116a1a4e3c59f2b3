"""`run.json`: what a run is made of, so that it can be done again and is never mixed with another."""

from __future__ import annotations

import hashlib
import json
import subprocess
from collections.abc import Iterable, Mapping
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any

from controllers.prompts import VERSION
from epimem.errors import ConfigError
from training.export.fingerprint import fingerprint

if TYPE_CHECKING:
    from training.demonstrations.record import Demonstration
    from training.sft.config import SftConfig

RUN = "run.json"
FORMAT = "epimem-sft/1"
PACKAGES = (
    *("epimem", "torch", "transformers", "trl", "peft", "accelerate", "datasets", "tokenizers"),
    *("xgrammar", "qwen-vl-utils"),
)


def described(
    config: SftConfig,
    *,
    model: str,
    role: str,
    ranks: int,
    train: Iterable[Demonstration],
    dev: Iterable[Demonstration],
    card: Path | None,
) -> dict[str, Any]:
    """Return what settles a run: the same description, the same run.

    Args:
        config: settings, seeds among them.
        model: folder or name of the hub; of a folder the last part is kept, and a fingerprint.
        role: whose operations are learnt.
        ranks: processes that train together.
        train: demonstrations to learn from.
        dev: demonstrations to measure on.
        card: `card.json` of the set, None where it has none.

    Raises:
        ConfigError: the weights of the model are pickled or no safetensors.
        NotFoundError: there are none in its folder.
    """
    return {
        "format": FORMAT,
        "role": role,
        "model": Path(model).name,
        "base": fingerprint(Path(model)) if Path(model).is_dir() else "",
        "ranks": ranks,
        "prompts": VERSION,
        "config": config.model_dump(mode="json", exclude={"hardware"}),
        "data": {
            "train": _digest(train),
            "dev": _digest(dev),
            "card": hashlib.sha256(card.read_bytes()).hexdigest() if card else None,
        },
    }


class RunRecord:
    """The record of the run in a folder.

    Raises:
        ConfigError: another run is in the folder; names what differs.
    """

    def __init__(self, out: Path, description: Mapping[str, Any], *, writes: bool = True) -> None:
        self._path = out / RUN
        self._writes = writes
        self._record = self._read()
        if self._record:
            _same(self._record, description)
        else:
            self._record = {**description, "versions": _versions(), "commit": _commit()}
            self._write()

    def note(self, **more: Any) -> None:
        """Add to the record."""
        self._record |= more
        self._write()

    @property
    def result(self) -> dict[str, Any] | None:
        """What the run left, None while it is not finished."""
        found: dict[str, Any] | None = self._record.get("result")
        return found

    def _read(self) -> dict[str, Any]:
        if not self._path.is_file():
            return {}
        try:
            found = json.loads(self._path.read_text(encoding="utf-8"))
        except ValueError as error:
            raise ConfigError("the record of the run is not JSON", got=RUN) from error
        if not isinstance(found, dict) or found.get("format") != FORMAT:
            raise ConfigError(
                "the record of the run is of another format", got=RUN, hint=f"expected {FORMAT}"
            )
        return found

    def _write(self) -> None:
        if not self._writes:
            return
        temporary = self._path.with_name(f"{RUN}.tmp")
        text = json.dumps(self._record, indent=2, ensure_ascii=False)
        temporary.write_text(f"{text}\n", encoding="utf-8")
        temporary.replace(self._path)


def _same(record: Mapping[str, Any], description: Mapping[str, Any]) -> None:
    for key, value in description.items():
        if record.get(key) != value:
            raise ConfigError(
                f"another run is in this folder: its {key} differs",
                field=key,
                hint="name another folder for this one, or repeat the command that began it",
            )


def _digest(found: Iterable[Demonstration]) -> str:
    """Return the SHA-256 of which demonstrations there are, in order."""
    digest = hashlib.sha256()
    for each in found:
        digest.update(f"{each.operation} {each.id}\n".encode())
    return digest.hexdigest()


def _versions() -> dict[str, str]:
    found = {}
    for name in PACKAGES:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return found


def _commit() -> str | None:
    """Return the commit of the working tree that this file is in, None where there is none."""
    try:
        found = subprocess.run(
            ["git", "rev-parse", "HEAD"],  # noqa: S607 - whichever git the user has
            cwd=Path(__file__).parent,
            capture_output=True,
            text=True,
            check=True,
            timeout=10,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return found.stdout.strip()
