"""Packages of the extra `transformers`: imported where they are used, and missed politely."""

from __future__ import annotations

import importlib
from typing import Any

from epimem.errors import PluginError

EXTRA = 'pip install "epimem[transformers]"'


def package(name: str) -> Any:
    """Import a package of the extra.

    Raises:
        PluginError: it is missing or does not load. torchvision, which others import, raises
            RuntimeError where it was built for another torch.
    """
    try:
        return importlib.import_module(name)
    except (ImportError, RuntimeError) as error:
        missing = getattr(error, "name", None) or name
        raise PluginError(
            f"the transformers backend needs {missing}", got=name, hint=EXTRA
        ) from error
