"""Settings of a fine-tuning run, read from TOML; unknown keys are errors."""

from __future__ import annotations

import tomllib
from importlib.resources import files
from pathlib import Path
from typing import Any, Literal, Self

from pydantic import Field, ValidationError, model_validator

from epimem.errors import ConfigError, NotFoundError
from epimem.schema.base import Record, StrictBool, StrictFloat, StrictInt, record_error


class LoraSettings(Record):
    """The adapter: rank, scale (alpha / rank) and dropout, on every projection of the language model.

    The vision tower gets none: not every server takes adapters there (ours). Rank 16 and alpha 32 are
    ours.
    """

    rank: StrictInt = Field(default=16, ge=1, le=512)
    alpha: StrictInt = Field(default=32, ge=1)
    dropout: StrictFloat = Field(default=0.0, ge=0, lt=1)


class OptimizerSettings(Record):
    """AdamW with a warm-up over a share of the steps, then a cosine down to 0. All values are ours."""

    learning_rate: StrictFloat = Field(default=2e-4, gt=0)
    weight_decay: StrictFloat = Field(default=0.0, ge=0)
    warmup: StrictFloat = Field(default=0.03, ge=0, lt=1)
    max_grad_norm: StrictFloat = Field(default=1.0, gt=0)


class BatchSettings(Record):
    """What goes through the model together, on each device.

    `tokens` bounds a batch with its padding, `rows` its rows; `accumulate` batches make an optimizer
    step. Rows longer than `max_length` tokens are set aside.
    """

    tokens: StrictInt = Field(default=16_384, ge=16)
    rows: StrictInt = Field(default=64, ge=1)
    accumulate: StrictInt = Field(default=4, ge=1)
    max_length: StrictInt = Field(default=16_384, ge=16)


class DevSettings(Record):
    """Held-out operation accuracy: on how many demonstrations, and when training stops for lack of it.

    `rows` are drawn from the split `dev`, as many of each operation as of the others; 0: none.
    `patience` is the number of checkpoints in a row without a better accuracy after which training
    ends; 0: it never ends early.
    """

    rows: StrictInt = Field(default=64, ge=0)
    patience: StrictInt = Field(default=3, ge=0)


class Hardware(Record):
    """What the numbers in the comments of a preset are computed for; training itself does not read it.

    `mfu` is the share of the peak that is assumed.
    """

    device: str = "h100-80gb"
    devices: StrictInt = Field(default=1, ge=1)
    sharded: StrictBool = False
    mfu: StrictFloat = Field(default=0.35, gt=0, le=1)


class SftConfig(Record):
    """All settings of a run.

    `method` is `lora` or `full`: all weights but those of the vision tower, which stays as it is (ours)
    unless `vision_tower` is `learnt`; that needs `full`, as adapters are not laid over a tower.
    `checkpointing` computes activations again in the backward pass to save memory. `checkpoint_every`
    counts optimizer steps; at each checkpoint the accuracy on the split `dev` is measured. `keep`
    checkpoints stay, the best one besides. `workers` are processes that make batches ahead; 0: none.
    `choice_weight` is how much the tokens by which a reply chooses (a category, a number, null) weigh
    together, against all of the average reply; 0: as much as any other token. Ours.
    """

    method: Literal["lora", "full"] = "lora"
    vision_tower: Literal["frozen", "learnt"] = "frozen"
    model: str = ""
    epochs: StrictInt = Field(default=2, ge=1)
    max_steps: StrictInt = Field(default=0, ge=0)
    seed: StrictInt = Field(default=0, ge=0, lt=2**32)
    checkpointing: StrictBool = True
    checkpoint_every: StrictInt = Field(default=100, ge=1)
    keep: StrictInt = Field(default=2, ge=2)
    workers: StrictInt = Field(default=0, ge=0)
    choice_weight: StrictFloat = Field(default=1.0, ge=0)
    lora: LoraSettings = LoraSettings()
    optimizer: OptimizerSettings = OptimizerSettings()
    batch: BatchSettings = BatchSettings()
    dev: DevSettings = DevSettings()
    hardware: Hardware = Hardware()

    @model_validator(mode="after")
    def _tower_with_full(self) -> Self:
        if self.vision_tower == "learnt" and self.method != "full":
            raise ValueError("vision_tower can be learnt with method full only")
        return self


def presets() -> list[str]:
    """Return the names of the settings that come with the package."""
    folder = files("training.sft") / "configs"
    return sorted(Path(it.name).stem for it in folder.iterdir() if it.name.endswith(".toml"))


def load(name: str) -> SftConfig:
    """Read the settings of a preset or of a TOML file.

    Raises:
        ConfigError: a key that is unknown or out of range, named; or no TOML.
        NotFoundError: neither a preset nor a file.
    """
    try:
        return parse(tomllib.loads(text(name)))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"the settings are not TOML: {error}", got=Path(name).name) from error


def text(name: str) -> str:
    """Return the TOML of a preset or file as it stands, comments included.

    Raises:
        NotFoundError: neither a preset nor a file.
    """
    if name in presets():
        return (files("training.sft") / "configs" / f"{name}.toml").read_text(encoding="utf-8")
    path = Path(name).expanduser()
    if not path.is_file():
        known = ", ".join(presets())
        raise NotFoundError(
            "neither a preset nor a file of settings", got=path.name, hint=f"presets: {known}"
        )
    return path.read_text(encoding="utf-8")


def parse(values: dict[str, Any]) -> SftConfig:
    """Check plain settings.

    Raises:
        ConfigError: naming the key.
    """
    try:
        return SftConfig.model_validate(values)
    except ValidationError as error:
        found = record_error(error)
        raise ConfigError(
            found.message, field=found.field, got=found.got, hint=found.hint
        ) from error
