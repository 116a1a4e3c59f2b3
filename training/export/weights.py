"""Adapters laid on their base: whether they fit, and both as one set of weights."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from controllers.backends.local_adapters import WEIGHTS
from controllers.backends.local_base import Base
from controllers.backends.local_packages import package
from epimem.errors import ConfigError
from training.export.fingerprint import header

_PREFIX = "base_model.model."
_A, _B = ".lora_A.weight", ".lora_B.weight"


def check_fit(adapter: Path, model: Any) -> None:
    """Check that an adapter belongs to a model, layer by layer and shape by shape.

    Raises:
        ConfigError: it is of another base; names the first layer that does not fit.
    """
    layers = dict(model.named_modules())
    tensors, _ = header(adapter / WEIGHTS)
    if not tensors:
        raise ConfigError("the adapter is empty", field=WEIGHTS)
    for name, about in sorted(tensors.items()):
        side = next((it for it in (_A, _B) if name.endswith(it)), None)
        layer = name.removeprefix(_PREFIX).removesuffix(side or "")
        if side is None or layer not in layers or not hasattr(layers[layer], "weight"):
            raise _another_base(layer, "the base has no such layer")
        takes, size = (1, about["shape"][-1]) if side == _A else (0, about["shape"][0])
        there = layers[layer].weight.shape[takes]
        if size != there:
            raise _another_base(layer, f"{size} wide there, {there} in the base")


def merged(run_weights: Path, base: Base, path: str, *, lora: bool) -> Any:
    """Return the model with what was learnt in its own weights, in the type of the base.

    Args:
        run_weights: an adapter, or all weights.
        base: loaded for this call alone; its model is changed.
        path: folder or hub name that it was loaded from.
        lora: whether `run_weights` is an adapter. It is added in float32 and rounded once.

    Raises:
        ConfigError: the weights are of another base, or hold what is no number.
    """
    kind = _type(path, base.model)
    if not lora:
        return _full(run_weights, base.model, kind)
    peft = package("peft")
    with_adapter = peft.PeftModel.from_pretrained(base.model, str(run_weights))
    try:
        model = with_adapter.merge_and_unload(safe_merge=True)
    except ValueError as error:
        raise ConfigError("the adapter holds what is no number", field=WEIGHTS) from error
    return model.to(kind)


def save(model: Any, base: Base, path: str, folder: Path) -> None:
    """Write a model with all that serving it takes: processor, tokenizer, template, settings.

    The settings of generation are those of the base's checkpoint.
    """
    transformers = package("transformers")
    try:
        settings = transformers.GenerationConfig.from_pretrained(path)
    except OSError:  # a base without any
        settings = transformers.GenerationConfig(eos_token_id=list(base.stops))
    model.generation_config = settings
    model.save_pretrained(str(folder))
    base.processor.save_pretrained(str(folder))


def _full(weights: Path, like: Any, kind: Any) -> Any:
    """Load all weights as the class of the base, and refuse those of another shape."""
    try:
        model, told = type(like).from_pretrained(
            str(weights),
            config=like.config,
            dtype=kind,
            use_safetensors=True,
            output_loading_info=True,
            ignore_mismatched_sizes=True,
        )
    except (OSError, ValueError, KeyError, RuntimeError) as error:
        raise ConfigError("the weights cannot be read", got=weights.name) from error
    strange = sorted(
        str(name)
        for group in ("missing_keys", "unexpected_keys", "mismatched_keys")
        for name in told[group]
    )
    if strange:
        raise _another_base(strange[0], "missing, strange or of another shape")
    return model.eval()


def _type(path: str, model: Any) -> Any:
    """Return the type of the base's weights, which the loaded model may have left."""
    config = package("transformers").AutoConfig.from_pretrained(path, trust_remote_code=False)
    return config.dtype or config.get_text_config().dtype or model.dtype


def _another_base(layer: str, what: str) -> ConfigError:
    return ConfigError(
        f"these weights belong to another base: {what}",
        field=layer,
        hint="name the base that they were trained on with --model",
    )
