"""LoRA adapters over one model in memory: one of them speaks at a time, or none."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from controllers.backends.local_packages import package
from epimem.errors import ConfigError

SETTINGS, WEIGHTS = "adapter_config.json", "adapter_model.safetensors"


class Adapters:
    """The adapters over a model. LoRA alone: its effect can be switched off exactly.

    Not for use by several threads at once; `local_base.Base` holds its lock around every call.
    """

    def __init__(self, model: Any) -> None:
        self._model = model
        self._peft: Any = None
        self._names: dict[str, str] = {}
        self._users: dict[str, int] = {}
        self._count = 0

    def switch(self, name: str | None) -> None:
        """Let this adapter speak, and no other; None leaves the base alone."""
        if self._peft is None:
            return
        if name is None:
            self._peft.base_model.disable_adapter_layers()
            return
        self._peft.base_model.enable_adapter_layers()
        self._peft.set_adapter(name, inference_mode=True)

    def add(self, path: str) -> str:
        """Lay an adapter over the model and return its name; one that lies there is used again.

        Args:
            path: a folder, or the name of a repository of the hub.

        Raises:
            ConfigError: no such adapter, or it does not fit the model.
        """
        try:
            folder = _folder(path)
            key = str(folder.resolve())
            if key not in self._names:
                self._count += 1
                self._lay(folder, f"adapter{self._count}")
                self._names[key] = f"adapter{self._count}"
        except (OSError, ValueError, RuntimeError, KeyError, TypeError) as error:
            raise ConfigError(
                f"the adapter does not fit the model or is not there ({type(error).__name__})",
                got=Path(path).name,
                hint=f"a folder with {SETTINGS} and {WEIGHTS}: LoRA without biases, for this model",
            ) from error
        name = self._names[key]
        self._users[name] = self._users.get(name, 0) + 1
        return name

    def drop(self, name: str) -> None:
        """Let go of an adapter; with its last user it is taken off the model."""
        self._users[name] -= 1
        if self._users[name]:
            return
        del self._users[name]
        self._names = {key: value for key, value in self._names.items() if value != name}
        self._remove(name)

    def _lay(self, folder: Path, name: str) -> None:
        peft = package("peft")
        about = json.loads((folder / SETTINGS).read_text(encoding="utf-8"))
        if (about["peft_type"], about["bias"]) != ("LORA", "none"):
            raise ValueError("not LoRA without biases")
        settings = peft.LoraConfig.from_pretrained(str(folder))
        settings.inference_mode = True
        # The type of the base, as servers hold adapters; the default would be twice the size.
        if self._peft is None:
            self._peft = peft.PeftModel(self._model, settings, name, autocast_adapter_dtype=False)
        else:
            self._peft.add_adapter(name, settings, autocast_adapter_dtype=False)
        try:
            self._fill(folder, name)
        except BaseException:
            self._remove(name)
            raise
        # PEFT freezes the base. But torch multiplies a slice of three dimensions, as the last states of
        # a batch are, with a frozen matrix row by row, each with a copy of the matrix: 0.6 GB a row for
        # the output layer of a 2B model, at every token. With one that is not frozen it multiplies once.
        for weight in self._model.parameters():
            weight.requires_grad_(True)

    def _fill(self, folder: Path, name: str) -> None:
        report = self._peft.load_adapter(
            str(folder), name, torch_device=str(self._model.device), autocast_adapter_dtype=False
        )
        if report.missing_keys or report.unexpected_keys:
            raise ValueError("weights are missing, or belong to other layers")

    def _remove(self, name: str) -> None:
        others = [other for other in self._peft.peft_config if other != name]
        if others:
            self._peft.set_adapter(others[0], inference_mode=True)
            self._peft.delete_adapter(name)
        else:
            self._peft.unload()
            self._peft = None


def _folder(path: str) -> Path:
    """Return the folder of an adapter, fetched from the hub where it is not one already.

    Its two files are the only ones asked for, so that no pickled weights are ever read.
    """
    folder = Path(path)
    if not folder.is_dir():
        hub = package("huggingface_hub")
        folder = Path(hub.snapshot_download(path, allow_patterns=[SETTINGS, WEIGHTS]))
    if not (folder / WEIGHTS).is_file():
        raise FileNotFoundError(WEIGHTS)
    return folder
