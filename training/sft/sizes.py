"""A plan for a set of demonstrations: rows measured by the tokens of the base, without its weights."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from controllers.backends.local_base import control_tokens, kind_and_processor
from controllers.backends.local_packages import package
from controllers.backends.transformers import PRESETS
from epimem.errors import ConfigError
from training.sft.plan import Plan, Size, plan
from training.sft.published import MODELS, configuration
from training.sft.recipe import Demonstrations, read
from training.sft.rows import RowMaker
from training.sft.survey import survey

if TYPE_CHECKING:
    from epimem.plugins import Role
    from training.sft.config import SftConfig


def planned(config: SftConfig, demonstrations: Demonstrations, model: str, role: Role) -> Plan:
    """Return what a run on these demonstrations would take.

    Args:
        config: settings.
        demonstrations: the split `train` of the operations of the role is measured.
        model: folder, hub name or preset of the base; its configuration and tokenizer are read.
        role: whose operations would be learnt.

    Raises:
        ConfigError: no configuration or tokenizer is there, or nothing to learn from.
    """
    path = PRESETS.get(model, model)
    try:
        about = configuration(model) if model in MODELS else _configuration(path)
        _, processor = kind_and_processor(path)
    except (OSError, ValueError, KeyError) as error:
        raise ConfigError(
            f"no configuration and tokenizer can be loaded from there ({type(error).__name__})",
            got=model,
            hint="a folder or hub name of a model; its weights are not needed",
        ) from error
    maker = RowMaker(processor, sorted(control_tokens(processor.tokenizer).values()))
    learn, _ = read(demonstrations, "train", role)
    found = survey(maker, learn, config.batch.max_length)
    if not found.rows:
        raise ConfigError("there is nothing to learn from in the split train", field=role)
    sizes = [Size(row.length, row.reply_tokens, row.grids) for row in found.rows]
    return plan(config, about, sizes)


def _configuration(path: str) -> Any:
    return package("transformers").AutoConfig.from_pretrained(path, trust_remote_code=False)
