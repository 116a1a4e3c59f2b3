"""Steps of the memory figure: `python -m benchmarks.controllers.two_roles STEP ...`, each a process.

Each prints one line of JSON. `speak` opens a backend per pair of paths (model, adapter or "-"), lets all
of them complete the same prompts, and says what they said and how much memory the process held.
"""

from __future__ import annotations

import gc
import importlib
import io
import json
import shutil
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from controllers.prompts.message import Image, Message, Prompt, Text
from epimem.protocols import Picture
from tests.controllers.backends import tiny_qwen3_vl, torchvision_beside
from training.sft.published import MODELS

_, PUBLISHED_TEXT, VISION = MODELS["qwen3-vl-2b"]
TEXT = {**PUBLISHED_TEXT, "tie_word_embeddings": True}
TOKENS = 24
SCHEMA = {
    "type": "object",
    "properties": {
        "lesson": {"enum": ["L1", "L2", "L3", "L4", "L5", "L6", "L7", "L8"]},
        "gate": {"type": "integer", "minimum": 0, "maximum": 9},
        "text": {"type": "string"},
    },
    "required": ["lesson", "gate", "text"],
    "additionalProperties": False,
}


def write(base: str, adapters: str) -> None:
    """Write random weights of the shape, and an adapter for each role."""
    tiny_qwen3_vl.write_checkpoint(Path(base), text=TEXT, vision=VISION, dtype="bfloat16")
    tiny_qwen3_vl.write_adapters(Path(base), Path(adapters))


def merge(base: str, adapter: str, target: str) -> None:
    """Write the base with an adapter merged into its weights, in the type of the base."""
    import peft
    from transformers import AutoModelForImageTextToText

    shutil.copytree(base, target, ignore=shutil.ignore_patterns("*.safetensors"))
    model = AutoModelForImageTextToText.from_pretrained(base, dtype="auto")
    model.generation_config.do_sample = True
    peft.PeftModel.from_pretrained(model, adapter).merge_and_unload().save_pretrained(target)


def widen(base: str, target: str) -> None:
    """Make a folder with the same weights that asks to be loaded in float32, which changes no number."""
    shutil.copytree(base, target, copy_function=lambda source, copy: Path(copy).symlink_to(source))
    settings = Path(target) / "config.json"
    content = json.loads(settings.read_text(encoding="utf-8"))
    for part in (content, content["text_config"], content["vision_config"]):
        part["dtype"] = "float32"
    settings.unlink()
    settings.write_text(json.dumps(content), encoding="utf-8")


def imports() -> dict[str, Any]:
    """Say what a process holds that has all packages loaded and no model."""
    for name in ("transformers", "peft", "qwen_vl_utils", "xgrammar.contrib.hf"):
        importlib.import_module(name)
    return _memory()


def speak(*paths: str) -> dict[str, Any]:
    """Complete the prompts with one backend per pair of paths."""
    from controllers.backends.transformers import TransformersBackend

    pairs = zip(paths[::2], paths[1::2], strict=True)
    backends = [TransformersBackend(model, None if lora == "-" else lora) for model, lora in pairs]
    said = [[reply.text for reply in backend.complete(_prompts())] for backend in backends]
    gc.collect()
    return {**_memory(), "said": said}


def _memory() -> dict[str, float]:
    """Return what the process holds now and what it held at most, in GiB."""
    lines = dict(line.split(":") for line in Path("/proc/self/status").read_text().splitlines())
    held = {"steady": "VmRSS", "peak": "VmHWM", "files": "RssFile"}
    return {name: int(lines[key].split()[0]) / 2**20 for name, key in held.items()}


def _prompts() -> list[Prompt]:
    found = []
    for number, colour in enumerate(("red", "green", "blue", "black")):
        picture = Picture("", 160, 96, page=1, read=_square(colour))
        parts = (Text(f"Question {number}: which line is it?"), Image(picture, "P1"))
        turns = (
            Message("system", (Text("You choose a lesson."),)),
            Message("user", parts[: 1 + number % 2]),
        )
        found.append(Prompt("select", turns, SCHEMA, TOKENS))
    return found


def _square(colour: str) -> Callable[[int], bytes]:
    from PIL import Image as Pixels

    file = io.BytesIO()
    Pixels.new("RGB", (160, 96), colour).save(file, "PNG")
    return lambda _: file.getvalue()


STEPS: Mapping[str, Callable[..., dict[str, Any] | None]] = {
    step.__name__: step for step in (write, merge, widen, imports, speak)
}

if __name__ == "__main__":
    torchvision_beside.enable()
    print(json.dumps(STEPS[sys.argv[1]](*sys.argv[2:])))
