"""A complete Llama checkpoint of random weights: a language model without eyes, as a hub would serve it.

Its chat template adds texts up, as those of such models do, and fails on a turn that comes in parts.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.controllers.backends.tiny_qwen3_vl import TEXT, build_tokenizer, fill

TEMPLATE = """\
{%- for message in messages -%}
  {{- '<|im_start|>' + message['role'] + '\\n' + message['content'] + '<|im_end|>' + '\\n' -}}
{%- endfor -%}
{%- if add_generation_prompt -%}
  {{- '<|im_start|>assistant\\n' -}}
{%- endif -%}
"""
KEPT = (
    "vocab_size",
    "hidden_size",
    "intermediate_size",
    "num_hidden_layers",
    "num_attention_heads",
    "num_key_value_heads",
    "max_position_embeddings",
)


def write_checkpoint(folder: Path, *, seed: int = 0, template: str | None = TEMPLATE) -> Path:
    """Write a checkpoint into a folder and return it; None leaves out the chat template."""
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    tokenizer = build_tokenizer(template or "")
    if template is None:
        tokenizer.chat_template = None
    # As most such models have it; serving needs the other side.
    tokenizer.padding_side = "right"
    vocab = tokenizer.get_vocab()
    shape: dict[str, Any] = {name: TEXT[name] for name in KEPT}
    config = LlamaConfig(
        **shape, eos_token_id=vocab["<|im_end|>"], pad_token_id=vocab["<|endoftext|>"]
    )
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        model = LlamaForCausalLM(config)
        fill(model, vocab)
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder
