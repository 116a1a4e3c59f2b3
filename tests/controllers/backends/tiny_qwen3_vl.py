"""A complete Qwen3-VL or Qwen3.5 checkpoint of some 300,000 random weights, and LoRA adapters for it.

What is written is what a hub would serve: configuration, weights, tokenizer, processors and chat
template. Writing needs transformers and, for adapters, peft; no torchvision. What such a model says is
noise, but under a grammar the noise ends: one channel of the hidden state is constant, and through it
the output layer favours the characters that close a JSON value.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

MARKERS = (
    "<|endoftext|>",
    "<|im_start|>",
    "<|im_end|>",
    "<|vision_start|>",
    "<|vision_end|>",
    "<|image_pad|>",
    "<|video_pad|>",
)
TEXT: dict[str, Any] = {
    # Larger than the tokenizer's, as in the real ones: the output layer is padded.
    "vocab_size": 384,
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 32,  # the least that vLLM's attention on processors takes
    "max_position_embeddings": 32_768,
    "rope_parameters": {
        "rope_type": "default",
        "rope_theta": 10_000.0,
        "mrope_interleaved": True,
        "mrope_section": [8, 4, 4],
    },
}
VISION: dict[str, Any] = {
    "depth": 2,
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_heads": 2,
    "patch_size": 16,
    "temporal_patch_size": 2,
    "spatial_merge_size": 2,
    "num_position_embeddings": 64,
    "deepstack_visual_indexes": [0, 1],
}
# What Qwen3.5 has besides: three layers of linear attention to one of the usual kind.
HYBRID = {
    "num_hidden_layers": 4,
    "linear_num_key_heads": 2,
    "linear_num_value_heads": 4,
    "linear_key_head_dim": 16,
    "linear_value_head_dim": 16,
    "rope_parameters": {
        **TEXT["rope_parameters"],
        "mrope_section": [2, 1, 1],
        "partial_rotary_factor": 0.25,
    },
}
# By how much tokens that open and close values are likelier than others, whose scores spread by about 1.
FAVOURED = {'"': 2.5, "{": 1.5, "}": 1.5, "]": 1.5, ",": 0.5}
CONSTANT = 8.0
TEMPLATE = """\
{%- for message in messages -%}
  {{- '<|im_start|>' + message.role + '\\n' -}}
  {%- if message.content is string -%}
    {{- message.content -}}
  {%- else -%}
    {%- for part in message.content -%}
      {%- if part.type in ('image', 'image_url') -%}
        {{- '<|vision_start|><|image_pad|><|vision_end|>' -}}
      {%- else -%}
        {{- part.text -}}
      {%- endif -%}
    {%- endfor -%}
  {%- endif -%}
  {{- '<|im_end|>\\n' -}}
{%- endfor -%}
{%- if add_generation_prompt -%}
  {{- '<|im_start|>assistant\\n' -}}
{%- endif -%}
"""
# As in Qwen3.5: the model thinks unless it is told not to.
THINKING = (
    TEMPLATE
    + """\
{%- if add_generation_prompt -%}
  {{- '<think>\\n\\n</think>\\n\\n' if enable_thinking is false else '<think>\\n' -}}
{%- endif -%}
"""
)
# What the tokenizer is trained on; changing it changes all that the models say.
WORDS = """
    question answer lesson guidance applies when caution image page region evidence support title topic
    scope anchor category conflict merge place split lift select gate update stop retain replace remove
    reply with one object and nothing else the of to in is it that for on as are this not from which what
    how many station line legend marker colour chart table value total count between after before first
"""
STRENGTH = 0.1  # at which a layer's output changes by some 40 %
# The language model's layers only: not every server takes adapters on the vision tower.
TARGETS = r".*language_model.*\.(q_proj|k_proj|v_proj|o_proj|gate_proj|up_proj|down_proj)"


def write_checkpoint(
    folder: Path,
    *,
    seed: int = 0,
    family: Literal["qwen3_vl", "qwen3_5"] = "qwen3_vl",
    text: Mapping[str, Any] | None = None,
    vision: Mapping[str, Any] | None = None,
    dtype: str = "float32",
) -> Path:
    """Write a checkpoint into a folder and return it.

    `text` and `vision` change fields of the two parts of the configuration: with those of a real model
    this writes random weights of its shape. The family "qwen3_5" comes with a template that thinks.
    """
    import torch
    from transformers import AutoModelForImageTextToText, GenerationConfig

    folder.mkdir(parents=True, exist_ok=True)
    hybrid = family == "qwen3_5"
    tokenizer = build_tokenizer(THINKING if hybrid else TEMPLATE)
    vocab = tokenizer.get_vocab()
    words = {**TEXT, **(HYBRID if hybrid else {}), **(text or {})}
    config = _config(family, vocab, words, {**VISION, **(vision or {})})
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        model = AutoModelForImageTextToText.from_config(config, dtype=getattr(torch, dtype))
        fill(model, vocab)
    ends = [vocab["<|im_end|>"], vocab["<|endoftext|>"]]
    # The real ones ask for sampling too, which greedy decoding has to override.
    model.generation_config = GenerationConfig(
        do_sample=True,
        temperature=0.7,
        top_k=20,
        repetition_penalty=1.5,
        eos_token_id=ends,
        pad_token_id=ends[1],
    )
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    _write_processors(folder)
    return folder


def write_adapters(
    checkpoint: Path, folder: Path, names: tuple[str, ...] = ("memory", "organizer")
) -> dict[str, Path]:
    """Write one LoRA adapter per name, random and strong enough to change what is said."""
    import torch
    from peft import LoraConfig, get_peft_model
    from transformers import AutoModelForImageTextToText

    paths = {}
    for seed, name in enumerate(names, start=1):
        model = AutoModelForImageTextToText.from_pretrained(checkpoint, dtype="auto")
        settings = LoraConfig(r=4, lora_alpha=8, target_modules=TARGETS)
        with torch.random.fork_rng():
            torch.manual_seed(seed)
            adapted = get_peft_model(model, settings, autocast_adapter_dtype=False)
            for key, weight in adapted.named_parameters():
                if "lora_A" in key:
                    torch.nn.init.normal_(weight, std=1 / math.sqrt(weight.shape[1]))
                if "lora_B" in key:
                    torch.nn.init.normal_(weight, std=STRENGTH)
        adapted.save_pretrained(str(folder / name))
        paths[name] = folder / name
    return paths


def build_tokenizer(template: str) -> Any:
    """Return the tokenizer of the tiny models, with a chat template."""
    from tokenizers import Tokenizer, models, pre_tokenizers, trainers
    from transformers import Qwen2Tokenizer

    bpe = Tokenizer(models.BPE())
    bpe.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    trainer = trainers.BpeTrainer(
        vocab_size=380 - len(MARKERS), initial_alphabet=pre_tokenizers.ByteLevel.alphabet()
    )
    # Words only: marks stay tokens of one character, so that what closes a value closes only that.
    bpe.train_from_iterator(WORDS.split(), trainer)
    learnt = json.loads(bpe.to_str())["model"]
    return Qwen2Tokenizer(
        vocab=learnt["vocab"],
        merges=[tuple(merge) for merge in learnt["merges"]],
        eos_token="<|im_end|>",
        pad_token="<|endoftext|>",
        extra_special_tokens=list(MARKERS[1:]),
        padding_side="left",
        chat_template=template,
    )


def _config(
    family: str, vocab: Mapping[str, int], text: dict[str, Any], vision: dict[str, Any]
) -> Any:
    from transformers import AutoConfig

    ends = {"pad_token_id": vocab["<|endoftext|>"], "eos_token_id": vocab["<|im_end|>"]}
    vision = {**vision, "out_hidden_size": text["hidden_size"]}
    if family == "qwen3_5":
        del vision["deepstack_visual_indexes"]
    return AutoConfig.for_model(
        family,
        text_config={**text, **ends},
        vision_config=vision,
        image_token_id=vocab["<|image_pad|>"],
        video_token_id=vocab["<|video_pad|>"],
        vision_start_token_id=vocab["<|vision_start|>"],
        vision_end_token_id=vocab["<|vision_end|>"],
        tie_word_embeddings=text.get("tie_word_embeddings", False),
    )


def fill(model: Any, vocab: Mapping[str, int]) -> None:
    """Give the weights a size at which every part matters, and the output layer its preferences."""
    import torch

    for name, weight in model.named_parameters():
        if weight.ndim > 1:
            # What attention gathers is a mean over many tokens, and small beside the token itself.
            gain = 2 if name.endswith(("o_proj.weight", "out_proj.weight")) else 1
            torch.nn.init.normal_(weight, std=gain / math.sqrt(weight[0].numel()))
    words, scores = model.get_input_embeddings().weight, model.get_output_embeddings().weight
    torch.nn.init.normal_(words, std=1.0)
    if words is scores:
        return
    with torch.no_grad():
        words[:, 0] = CONSTANT
        scores[:, 0] = 0
        for token, lead in FAVOURED.items():
            scores[vocab[token], 0] = lead / (CONSTANT / 2)


def _write_processors(folder: Path) -> None:
    common = {
        "processor_class": "Qwen3VLProcessor",
        "patch_size": 16,
        "temporal_patch_size": 2,
        "merge_size": 2,
        "image_mean": [0.5, 0.5, 0.5],
        "image_std": [0.5, 0.5, 0.5],
    }
    image = {
        **common,
        "image_processor_type": "Qwen2VLImageProcessor",
        # Less than the 65,536 of the real ones, so that tests can show small images.
        "size": {"shortest_edge": 4_096, "longest_edge": 16_777_216},
    }
    video = {
        **common,
        "video_processor_type": "Qwen3VLVideoProcessor",
        "size": {"shortest_edge": 4_096, "longest_edge": 25_165_824},
    }
    for name, content in (
        ("preprocessor_config.json", image),
        ("video_preprocessor_config.json", video),
    ):
        (folder / name).write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")
