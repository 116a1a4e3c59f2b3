"""Checkpoints of a run: which are whole, what they may hold, and what the run leaves in the end.

A checkpoint is whole when it has `complete.json`, written last; whatever a kill left half written has
none and is removed. Weights are read from safetensors only. Optimizer, schedule and random states are
torch files, which transformers reads with `weights_only`: tensors and plain values, no code.
"""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

from epimem.errors import ConfigError

COMPLETE = "complete.json"
_NAME = re.compile(r"checkpoint-(\d+)")
_WEIGHTS = ("adapter_model.safetensors", "model.safetensors", "model.safetensors.index.json")
_LEFT = re.compile(
    r"(adapter_)?(config|model.*|generation_config)\.(json|safetensors)|.*\.index\.json"
)


def mark(folder: Path) -> None:
    """Say that a checkpoint is whole, with the size of each of its files."""
    sizes = _sizes(folder)
    temporary = folder / f"{COMPLETE}.tmp"
    temporary.write_text(json.dumps(sizes, indent=1, sort_keys=True) + "\n", encoding="utf-8")
    temporary.replace(folder / COMPLETE)


def last(out: Path) -> Path | None:
    """Return the latest whole checkpoint, None where there is none; halves are removed.

    Raises:
        ConfigError: a file of it is missing, of another size, or was put there by someone else.
    """
    found = sorted(_checkpoints(out))
    for _, folder in found:
        if not (folder / COMPLETE).is_file():
            shutil.rmtree(folder)
    whole = [folder for _, folder in found if folder.is_dir()]
    if not whole:
        return None
    _check(whole[-1])
    return whole[-1]


def step_of(folder: Path) -> int:
    """Return the optimizer step after which a checkpoint was written."""
    found = _NAME.fullmatch(folder.name)
    assert found is not None
    return int(found[1])


def leave(checkpoint: Path, target: Path) -> None:
    """Copy the adapter or the weights of a checkpoint to where they stay; there is all of it, or none.

    Raises:
        ConfigError: the checkpoint holds no weights in safetensors.
    """
    temporary = target.with_name(f"{target.name}.tmp")
    shutil.rmtree(temporary, ignore_errors=True)
    temporary.mkdir()
    for path in _files(checkpoint):
        if _LEFT.fullmatch(path.name):
            shutil.copyfile(path, temporary / path.name)
    if not any((temporary / name).is_file() for name in _WEIGHTS):
        raise ConfigError("the checkpoint holds no weights in safetensors", got=checkpoint.name)
    shutil.rmtree(target, ignore_errors=True)
    temporary.replace(target)


def _checkpoints(out: Path) -> Iterator[tuple[int, Path]]:
    for folder in out.iterdir() if out.is_dir() else ():
        found = _NAME.fullmatch(folder.name)
        if found and folder.is_dir():
            yield int(found[1]), folder


def _files(folder: Path) -> list[Path]:
    """Return the files of a checkpoint but its mark, those of folders inside it too."""
    found = [Path(at) / name for at, _, names in os.walk(folder) for name in names]
    return sorted(path for path in found if not path.name.startswith(COMPLETE))


def _sizes(folder: Path) -> dict[str, int]:
    return {str(path.relative_to(folder)): path.stat().st_size for path in _files(folder)}


def _check(folder: Path) -> None:
    sizes = json.loads((folder / COMPLETE).read_text(encoding="utf-8"))
    there = _sizes(folder)
    other = sorted(name for name in {*sizes, *there} if sizes.get(name) != there.get(name))
    if other:
        what = "was put there" if other[0] not in sizes else "is missing or changed"
        raise ConfigError(
            f"a file of the checkpoint {what}: only what training wrote itself is loaded",
            field=folder.name,
            got=other[0],
            hint="remove the folder of this checkpoint to go on from the one before it",
        )
