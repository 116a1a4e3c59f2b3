"""What a fine-tuning run left, read for export: its record, and an adapter or weights in safetensors."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from controllers.backends.local_adapters import SETTINGS, WEIGHTS
from controllers.backends.transformers import PRESETS
from controllers.prompts import VERSION
from epimem.errors import ConfigError, NotFoundError
from training.export.fingerprint import fingerprint, refuse_pickles, weight_files

RECORD, FORMAT = "run.json", "epimem-sft/1"
ADAPTER, FULL = "adapter", "weights"


@dataclass(frozen=True)
class RunFolder:
    """A finished run.

    Attributes:
        path: its folder.
        record: the content of `run.json`.
        weights: the folder of the adapter, or of all weights.
        lora: whether that is an adapter.
    """

    path: Path
    record: Mapping[str, Any]
    weights: Path
    lora: bool

    @property
    def role(self) -> str:
        """Which controller was trained."""
        return str(self.record["role"])

    @property
    def prompt_version(self) -> str:
        """The version of the prompts that it was trained on."""
        return str(self.record["prompts"])

    def base(self, given: str | None) -> str:
        """Return the folder or the name of the hub of the base.

        Args:
            given: what the user names; else what PEFT noted in the adapter.

        Raises:
            ConfigError: the base is not named, or is not where it was.
        """
        noted = self._settings().get("base_model_name_or_path") if self.lora else None
        name: str | None = PRESETS.get(given, given) if given is not None else noted
        if not name:
            raise ConfigError("the run does not name its base", hint="name it with --model")
        path = Path(name).expanduser()
        if path.is_dir():
            return str(path)
        if name.startswith(("/", "./", "../", "~")) or name.count("/") != 1:
            raise ConfigError(
                "the base is not where it was", got=path.name, hint="name its folder with --model"
            )
        return name

    def check_base(self, base: str) -> str:
        """Return the fingerprint of a base in a folder, empty for one of the hub.

        Raises:
            ConfigError: the run was trained on another base, or the base is pickled.
        """
        if not Path(base).is_dir():
            return ""
        found, recorded = fingerprint(Path(base)), self.record.get("base")
        if recorded and recorded != found:
            raise ConfigError(
                "this run was trained on another base",
                field="base",
                got=Path(base).name,
                hint=f"it was {self.record.get('model')}, fingerprint {str(recorded)[:12]}",
            )
        return found

    def _settings(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads((self.weights / SETTINGS).read_text(encoding="utf-8"))
        return found


def open_run(path: Path) -> RunFolder:
    """Read the folder of a run.

    Raises:
        NotFoundError: there is no run, or no adapter and no weights.
        ConfigError: it is not finished, of another format, of other prompts, or pickled.
    """
    record = _record(path)
    if record.get("prompts") != VERSION:
        raise ConfigError(
            "the run was trained on prompts of another version, which this release does not write",
            field="prompts",
            got=str(record.get("prompts")),
            hint=f"train anew on version {VERSION}, or export with the release that trained it",
        )
    if not record.get("result"):
        raise ConfigError(
            "the run is not finished", got=path.name, hint="repeat `epimem train sft` to go on"
        )
    for name in (ADAPTER, FULL):
        folder = path / name
        if folder.is_dir():
            _check(folder, lora=name == ADAPTER)
            return RunFolder(path, record, folder, lora=name == ADAPTER)
    raise NotFoundError("the run left no adapter and no weights", got=path.name)


def _record(path: Path) -> dict[str, Any]:
    try:
        record = json.loads((path / RECORD).read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise NotFoundError(
            f"no fine-tuning run in this folder: {RECORD} is missing", got=path.name
        ) from None
    except (OSError, ValueError) as error:
        raise ConfigError("the record of the run cannot be read", got=RECORD) from error
    known = isinstance(record, dict) and record.get("format") == FORMAT
    if not known or record.get("role") not in {"memory_controller", "tree_organizer"}:
        raise ConfigError("the record of the run is of another format", hint=f"expected {FORMAT}")
    found: dict[str, Any] = record
    return found


def _check(folder: Path, *, lora: bool) -> None:
    """Refuse a folder whose weights are not in safetensors, or whose adapter is no LoRA."""
    if not lora:
        weight_files(folder)
        return
    if not (folder / WEIGHTS).is_file():
        refuse_pickles(folder)
        raise NotFoundError(f"the adapter has no {WEIGHTS}", got=folder.name)
    try:
        settings = json.loads((folder / SETTINGS).read_text(encoding="utf-8"))
        fits = settings["peft_type"] == "LORA" and settings["bias"] == "none"
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ConfigError("the adapter has no readable settings", field=SETTINGS) from error
    if not fits:
        raise ConfigError("only LoRA without biases can be served", field=SETTINGS)
