"""Lets torchvision be imported beside a torch without CUDA: for the environment of the vLLM tests only.

`make test-vllm` puts this file and a line that imports it among the packages of that environment, so
that it works in the server's processes too. Nothing happens before a process looks for torchvision.
The native operators stay absent; images are scaled without them.
"""

from __future__ import annotations

import importlib.abc
import sys
from typing import Any

_SIGNATURES = (
    "nms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
    "qnms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
)
# Operators live as long as the library object that defined them.
_libraries: list[Any] = []


class Finder(importlib.abc.MetaPathFinder):
    """Defines the operators that the import of torchvision wants, when it is first looked for."""

    def find_spec(self, name: str, _path: Any = None, _target: Any = None) -> None:
        """Find nothing; looking is what matters. A package is looked for more than once."""
        if name == "torchvision" and not _libraries:
            _libraries.append(None)  # torch itself looks for torchvision while it is imported
            import torch

            library = torch.library.Library("torchvision", "FRAGMENT")
            for signature in _SIGNATURES:
                library.define(signature)
            _libraries[0] = library


sys.meta_path.insert(0, Finder())
