"""The configurations of the two bases as published, so that a plan needs no download.

Qwen3-VL-2B-Instruct: its `config.json`. Qwen3.5-2B: the fields of its `config.json` that decide sizes.
That its input and output embeddings are tied is assumed: the 2.21e9 weights counted so, and one layer
that predicts further tokens (neither loaded nor trained here), fit its file of about 4.6 GB.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from controllers.backends.local_packages import package

_TOWER: Mapping[str, Any] = {
    "depth": 24,
    "hidden_size": 1_024,
    "intermediate_size": 4_096,
    "num_heads": 16,
    "patch_size": 16,
    "temporal_patch_size": 2,
    "spatial_merge_size": 2,
    "num_position_embeddings": 2_304,
    "out_hidden_size": 2_048,
}
MODELS: Mapping[str, tuple[str, Mapping[str, Any], Mapping[str, Any]]] = {
    "qwen3-vl-2b": (
        "qwen3_vl",
        {
            "vocab_size": 151_936,
            "hidden_size": 2_048,
            "intermediate_size": 6_144,
            "num_hidden_layers": 28,
            "num_attention_heads": 16,
            "num_key_value_heads": 8,
            "head_dim": 128,
            "max_position_embeddings": 262_144,
            "rope_parameters": {
                "rope_type": "default",
                "rope_theta": 5_000_000.0,
                "mrope_interleaved": True,
                "mrope_section": [24, 20, 20],
            },
        },
        {**_TOWER, "deepstack_visual_indexes": [5, 11, 17]},
    ),
    "qwen3.5-2b": (
        "qwen3_5",
        {
            "vocab_size": 248_320,
            "hidden_size": 2_048,
            "intermediate_size": 6_144,
            "num_hidden_layers": 24,
            "num_attention_heads": 8,
            "num_key_value_heads": 2,
            "head_dim": 256,
            "linear_num_key_heads": 16,
            "linear_num_value_heads": 16,
            "linear_key_head_dim": 128,
            "linear_value_head_dim": 128,
            "linear_conv_kernel_dim": 4,
            "full_attention_interval": 4,
            "max_position_embeddings": 262_144,
        },
        _TOWER,
    ),
}
"""By the names of `controllers.backends.transformers.PRESETS`: family, language model, vision tower."""


def configuration(name: str) -> Any:
    """Return the published configuration of a preset as transformers has it, else KeyError."""
    family, text, vision = MODELS[name]
    return package("transformers").AutoConfig.for_model(
        family,
        text_config={**text, "tie_word_embeddings": True},
        vision_config=dict(vision),
        tie_word_embeddings=True,
    )
