"""Settings of a bank, read from one TOML file in its folder; unknown keys are errors.

Values marked "ours" have no source in the seed, which states none (evaluation.md 6.3).
"""

from __future__ import annotations

import json
import os
import tomllib
from contextlib import suppress
from pathlib import Path
from typing import Any, Literal

from pydantic import Field, ValidationError

from epimem.errors import ConfigError
from epimem.schema.base import Record, StrictBool, StrictFloat, StrictInt, record_error
from epimem.schema.memory_input import Budget
from epimem.schema.text import NameText

FILE_NAME = "epimem.toml"
GateMode = Literal["adaptive", "always", "off"]


class EncoderConfig(Record):
    """Which text encoder makes vectors; "none" means lexical recall only."""

    model: str = "all-MiniLM-L6-v2"


class RecallConfig(Record):
    """Recall: `candidates` is k (ours); `mode` "dense" is the seed's form, "fused" is ours."""

    mode: Literal["fused", "dense", "lexical"] = "fused"
    candidates: StrictInt = Field(default=20, ge=1, le=50)
    rrf_k: StrictInt = Field(default=60, ge=1)


class TreeConfig(Record):
    """The tree (all ours): capacity, smallest part, batch, and the likeness thresholds.

    `place_min` and `scope_min` bound the likeness for placing a lesson in an existing category;
    `same_category` joins new categories of one step; `merge_min` makes near siblings a pair.
    """

    capacity: StrictInt = Field(default=16, ge=7, le=64)
    min_group: StrictInt = Field(default=4, ge=2)
    batch: StrictInt = Field(default=64, ge=1, le=1024)
    place_min: StrictFloat = Field(default=0.6, ge=0, le=1)
    scope_min: StrictFloat = Field(default=0.75, ge=0, le=1)
    same_category: StrictFloat = Field(default=0.9, ge=0, le=1)
    merge_min: StrictFloat = Field(default=0.8, ge=0, le=1)
    place_candidates: StrictInt = Field(default=8, ge=1, le=50)


class ControllerConfig(Record):
    """Which controller fills a role: a spec string, and how long one call of it may take (seconds)."""

    spec: str = "embedded"
    deadline_s: StrictFloat = Field(default=60.0, gt=0)


class CallerConfig(Record):
    """Who this installation is: the identity that stamps everything it contributes."""

    contributor: NameText = "local"
    organisation: NameText = "local"


class Config(Record):
    """All settings of a bank."""

    namespace: NameText = "default"
    caller: CallerConfig = CallerConfig()
    encoder: EncoderConfig = EncoderConfig()
    recall: RecallConfig = RecallConfig()
    tree: TreeConfig = TreeConfig()
    budget: Budget = Budget()
    memory_controller: ControllerConfig = ControllerConfig()
    tree_organizer: ControllerConfig = ControllerConfig()
    strict_selection: StrictBool = False
    gate: GateMode = "adaptive"


def load(folder: Path) -> Config:
    """Read the settings of the bank in `folder`; defaults where there is no file.

    Raises:
        ConfigError: `bad_config`, naming file, key and what was expected.
    """
    path = folder / FILE_NAME
    if not path.exists():
        return Config()
    try:
        return parse(tomllib.loads(path.read_text(encoding="utf-8")))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"{FILE_NAME} is not TOML: {error}") from error


def parse(values: dict[str, Any]) -> Config:
    """Check plain settings.

    Raises:
        ConfigError: `bad_config`, naming the key.
    """
    try:
        return Config.model_validate(values)
    except ValidationError as error:
        found = record_error(error)
        raise ConfigError(found.message, field=found.field, hint=found.hint) from error


def save(folder: Path, config: Config) -> None:
    """Write settings that differ from the defaults to the bank's folder."""
    lines = ["# Settings of this bank; see the README for all of them.", ""]
    plain = config.model_dump(mode="json", exclude_defaults=True)
    lines += [_line(key, value) for key, value in plain.items() if not isinstance(value, dict)]
    for section, values in plain.items():
        if isinstance(values, dict):
            lines += ["", f"[{section}]", *(_line(key, value) for key, value in values.items())]
    (folder / FILE_NAME).write_text("\n".join(lines) + "\n", encoding="utf-8")


def set_encoder(folder: Path, model: str) -> None:
    """Write `encoder.model` into the settings file and leave everything else in it as it is.

    The file is replaced as a whole, so that a crash leaves the old or the new one.

    Raises:
        ConfigError: the file is not TOML, or not written as this module would.
        OSError: it cannot be written.
    """
    path = folder / FILE_NAME
    wanted = load(folder)
    section = wanted.encoder.model_copy(update={"model": model})
    text = path.read_text(encoding="utf-8") if path.exists() else ""
    text = _with_model(text, _line("model", model))
    if not _says(text, wanted.model_copy(update={"encoder": section})):
        raise ConfigError(
            f"{FILE_NAME} is written in a way that cannot be changed here",
            field="encoder.model",
            hint=f"set it to {model}",
        )
    temporary = path.with_suffix(".new")
    try:
        with temporary.open("w", encoding="utf-8") as handle:
            handle.write(text)
            handle.flush()
            os.fsync(handle.fileno())
        temporary.replace(path)
    except BaseException:
        with suppress(OSError):  # a frozen bank's digest covers every file
            temporary.unlink()
        raise


def _says(text: str, wanted: Config) -> bool:
    try:
        return parse(tomllib.loads(text)) == wanted
    except (tomllib.TOMLDecodeError, ConfigError):
        return False


def _with_model(text: str, line: str) -> str:
    """Return TOML text whose section `encoder` has this line for its model."""
    lines = text.splitlines()
    headers = [place for place, old in enumerate(lines) if old.strip().startswith("[")]
    starts = [place for place in headers if lines[place].split("#")[0].strip() == "[encoder]"]
    if not starts:
        return "\n".join([*lines, *([""] if lines else []), "[encoder]", line]) + "\n"
    start = starts[0]
    end = next((place for place in headers if place > start), len(lines))
    kept = [old for old in lines[start + 1 : end] if old.split("=")[0].strip() != "model"]
    return "\n".join([*lines[: start + 1], line, *kept, *lines[end:]]) + "\n"


def _line(key: str, value: Any) -> str:
    # A JSON scalar of these types is a TOML scalar too.
    return f"{key} = {json.dumps(value, ensure_ascii=False)}"
