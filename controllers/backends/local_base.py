"""A checkpoint in memory, shared by all roles of the process that use it.

Two roles that were fine-tuned from one base differ by adapters of a few megabytes. So each base is
loaded once (`acquire`), adapters are laid over it, and a call says which one speaks. A role without an
adapter hears the base alone.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from controllers.backends.local_adapters import Adapters
from controllers.backends.local_grammar import Grammars
from controllers.backends.local_packages import package
from controllers.backends.local_text import TextProcessor
from epimem.errors import ConfigError


class Base:
    """A model and its processor. Whoever uses any of it holds `lock`.

    `stops` are the tokens that end a reply; `forbidden` are the other control tokens, which may not
    stand in one, and `markers` the texts of both; `context` is the number of tokens that a prompt and
    its reply may have together.
    """

    def __init__(self, path: str) -> None:
        self.lock = threading.RLock()
        self.device = "cuda" if package("torch").cuda.is_available() else "cpu"
        self.model, self.processor = _load(path, self.device)
        tokenizer = self.processor.tokenizer
        # Decoding goes on at the right end, which is that of the prompt only where rows are filled up
        # on the left.
        tokenizer.padding_side = "left"
        self.context: int = self.model.config.get_text_config().max_position_embeddings
        self.stops = _stops(self.model, tokenizer)
        tokenizer.pad_token_id = (
            self.stops[0] if tokenizer.pad_token_id is None else tokenizer.pad_token_id
        )
        special = control_tokens(tokenizer)
        self.forbidden = sorted(set(special) - set(self.stops))
        self.markers = tuple(sorted(special.values()))
        # A checkpoint asks for sampling and penalties; a reply here is the likeliest one.
        self.model.generation_config = self.generation()
        vocabulary = self.model.get_output_embeddings().weight.shape[0]
        self.grammars = Grammars(tokenizer, vocabulary, self.stops)
        self._adapters = Adapters(self.model)

    def generation(self, **more: Any) -> Any:
        """Return settings of greedy decoding."""
        return package("transformers").GenerationConfig(
            do_sample=False,
            eos_token_id=list(self.stops),
            pad_token_id=self.processor.tokenizer.pad_token_id,
            suppress_tokens=self.forbidden or None,
            **more,
        )

    @contextmanager
    def speaking(self, adapter: str | None) -> Iterator[Any]:
        """Hold the lock and yield the model with this adapter over it and no other."""
        with self.lock:
            self._adapters.switch(adapter)
            yield self.model

    def adapt(self, path: str) -> str:
        """Lay an adapter over the model and return its name, for `speaking`.

        Raises:
            ConfigError: no such adapter, or it does not fit the model.
        """
        with self.lock:
            return self._adapters.add(path)

    def forget(self, adapter: str) -> None:
        """Let go of an adapter, once for each `adapt`."""
        with self.lock:
            self._adapters.drop(adapter)


@dataclass
class _Held:
    base: Base
    users: int


_held: dict[str, _Held] = {}
_guard = threading.Lock()


def acquire(path: str) -> Base:
    """Return the base of this path, loaded once in a process; each call needs one of `release`.

    Raises:
        ConfigError: no image-text-to-text or language model in safetensors is there.
        PluginError: a package is missing.
    """
    key = _key(path)
    with _guard:
        held = _held.get(key)
        if held is None:
            held = _held[key] = _Held(Base(path), 0)
        held.users += 1
        return held.base


def release(base: Base) -> None:
    """Let go of a base; with its last user it leaves the memory."""
    with _guard:
        for key, held in list(_held.items()):
            if held.base is base:
                held.users -= 1
                if not held.users:
                    del _held[key]


def _key(path: str) -> str:
    folder = Path(path)
    return str(folder.resolve()) if folder.is_dir() else path


def _load(path: str, device: str) -> tuple[Any, Any]:
    """Load model and processor.

    On a GPU in bfloat16. On a processor in the type of the checkpoint, because memory is what a laptop
    lacks: at 2B parameters float32 would take 8.5 GB for the 4.3 GB that bfloat16 takes. float16 is
    computed in float32 there, since few processors can do it.
    """
    torch, transformers = package("torch"), package("transformers")
    try:
        kind, processor = kind_and_processor(path)
        more = (
            {"device_map": device, "dtype": torch.bfloat16}
            if device == "cuda"
            else {"dtype": "auto"}
        )
        model = getattr(transformers, kind).from_pretrained(
            path, use_safetensors=True, trust_remote_code=False, **more
        )
    except (OSError, ValueError, KeyError, RuntimeError, AttributeError) as error:
        raise ConfigError(
            f"no model can be loaded from there ({type(error).__name__})",
            got=Path(path).name,
            hint="a folder or hub name of an image-text-to-text or language model in safetensors",
        ) from error
    if processor.chat_template is None:
        raise ConfigError("the model has no chat template", got=Path(path).name)
    if model.dtype == torch.float16:
        model = model.float()
    return model.eval(), processor


def kind_and_processor(path: str) -> tuple[str, Any]:
    """Return the class that loads the model, and its processor: a tokenizer's where it has no eyes.

    A configuration that names both kinds (Qwen3.5 does) is taken with its eyes.
    """
    transformers = package("transformers")
    config = transformers.AutoConfig.from_pretrained(path, trust_remote_code=False)
    if type(config) in transformers.MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING:
        package("qwen_vl_utils")
        processor = transformers.AutoProcessor.from_pretrained(path, trust_remote_code=False)
        return "AutoModelForImageTextToText", processor
    tokenizer = transformers.AutoTokenizer.from_pretrained(path, trust_remote_code=False)
    return "AutoModelForCausalLM", TextProcessor(tokenizer)


def control_tokens(tokenizer: Any) -> dict[int, str]:
    """Return the texts of the tokens that are no text, by id."""
    tokens = tokenizer.added_tokens_decoder.items()
    return {key: str(token) for key, token in tokens if token.special}


def _stops(model: Any, tokenizer: Any) -> tuple[int, ...]:
    """Return the tokens that end a reply, those of the checkpoint's settings first."""
    ends = model.generation_config.eos_token_id
    found = [*([ends] if isinstance(ends, int) else ends or []), tokenizer.eos_token_id]
    return tuple(dict.fromkeys(end for end in found if end is not None))
