"""A Qwen3-VL of some million random weights, with a tokenizer made for the prompts it will see.

It has every part of the architecture (patches, vision tower, deep features fed into the language model,
positions in three dimensions), each small, so that it can be trained from nothing on a processor.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

VOCABULARY = 2048
MARKERS = (
    "<|endoftext|>",
    "<|im_start|>",
    "<|im_end|>",
    "<|vision_start|>",
    "<|vision_end|>",
    "<|image_pad|>",
    "<|video_pad|>",
)
PATCH, MERGE = 16, 2
TEXT: dict[str, Any] = {
    "hidden_size": 128,
    "intermediate_size": 384,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "num_key_value_heads": 4,
    "head_dim": 32,
    "max_position_embeddings": 8192,
    "rope_parameters": {
        "rope_type": "default",
        "rope_theta": 10_000.0,
        "mrope_interleaved": True,
        "mrope_section": [8, 4, 4],
    },
}
VISION: dict[str, Any] = {
    "depth": 3,
    "hidden_size": 96,
    "intermediate_size": 192,
    "num_heads": 3,
    "patch_size": PATCH,
    "temporal_patch_size": 2,
    "spatial_merge_size": MERGE,
    "num_position_embeddings": 256,
    "deepstack_visual_indexes": [0, 1],
}
TEMPLATE = """\
{%- for message in messages -%}
  {{- '<|im_start|>' + message.role + '\\n' -}}
  {%- for part in message.content -%}
    {{- '<|vision_start|><|image_pad|><|vision_end|>' if part.type == 'image' else part.text -}}
  {%- endfor -%}
  {{- '<|im_end|>\\n' -}}
{%- endfor -%}
{{- '<|im_start|>assistant\\n' if add_generation_prompt else '' -}}
"""


def write(folder: Path, texts: Iterable[str], *, seed: int) -> Path:
    """Write a checkpoint and return its folder.

    Args:
        folder: made anew.
        texts: what the tokenizer is made for: prompts and replies of training.
        seed: of the weights.
    """
    import torch
    from transformers import AutoConfig, AutoModelForImageTextToText, GenerationConfig

    folder.mkdir(parents=True)
    tokenizer = _tokenizer(texts)
    vocab = tokenizer.get_vocab()
    ends = {"pad_token_id": vocab["<|endoftext|>"], "eos_token_id": vocab["<|im_end|>"]}
    config = AutoConfig.for_model(
        "qwen3_vl",
        text_config={**TEXT, **ends, "vocab_size": len(tokenizer)},
        vision_config={**VISION, "out_hidden_size": TEXT["hidden_size"]},
        image_token_id=vocab["<|image_pad|>"],
        video_token_id=vocab["<|video_pad|>"],
        vision_start_token_id=vocab["<|vision_start|>"],
        vision_end_token_id=vocab["<|vision_end|>"],
    )
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        model = AutoModelForImageTextToText.from_config(config, dtype=torch.float32)
    model.generation_config = GenerationConfig(**ends)
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    _write_processors(folder)
    return folder


def _tokenizer(texts: Iterable[str]) -> Any:
    """Return a byte-level BPE of the family's class, trained on texts."""
    from tokenizers import Tokenizer, models, pre_tokenizers, trainers
    from transformers import Qwen2Tokenizer

    bpe = Tokenizer(models.BPE())
    bpe.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    trainer = trainers.BpeTrainer(
        vocab_size=VOCABULARY - len(MARKERS),
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    bpe.train_from_iterator(texts, trainer)
    learnt = json.loads(bpe.to_str())["model"]
    return Qwen2Tokenizer(
        vocab=learnt["vocab"],
        merges=[tuple(merge) for merge in learnt["merges"]],
        eos_token=MARKERS[2],
        pad_token=MARKERS[0],
        extra_special_tokens=list(MARKERS[1:]),
        padding_side="left",
        chat_template=TEMPLATE,
    )


def _write_processors(folder: Path) -> None:
    common = {
        "processor_class": "Qwen3VLProcessor",
        "patch_size": PATCH,
        "temporal_patch_size": 2,
        "merge_size": MERGE,
        "image_mean": [0.5, 0.5, 0.5],
        "image_std": [0.5, 0.5, 0.5],
        "size": {"shortest_edge": 1024, "longest_edge": 2**20},
    }
    for name, kind in (
        ("preprocessor_config.json", {"image_processor_type": "Qwen2VLImageProcessor"}),
        ("video_preprocessor_config.json", {"video_processor_type": "Qwen3VLVideoProcessor"}),
    ):
        (folder / name).write_text(json.dumps({**common, **kind}) + "\n", encoding="utf-8")
