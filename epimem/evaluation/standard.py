"""The seven arms over one frozen bank, with the side banks that the controls need."""

from __future__ import annotations

import functools
import shutil
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from epimem.bank.versions import FROZEN_NAME
from epimem.errors import ConfigError
from epimem.evaluation.arms import Arm, Asking, Nothing, Retrieved, Wrong
from epimem.evaluation.composed import NEAREST, Best, Frequent
from epimem.evaluation.side_banks import (
    Progress,
    RememberingEncoder,
    drop_bank,
    flat_bank,
    shuffled_bank,
)
from epimem.memory import ExperienceMemory

ARMS = ("none", "product", "flat", "shuffled", "wrong", "frequency", "oracle")


class StandardArms:
    """The arms of a seed over one bank: hand it to `evaluate` as `arms`, inside `with`.

    none       no memory
    product    what the bank retrieves
    flat       the same lessons without a tree: what the tree is worth
    shuffled   lessons permuted over their index texts: what any lesson is worth
    wrong      what another question was given, of the same size
    frequency  the most supported guidance, whatever is asked
    oracle     right if the product's choice is, or any of the nearest items alone, or none

    Side banks are made when they are first asked, in `folder`, where an interrupted run finds them
    again; they are deleted as soon as they have served.

    Args:
        memory: the frozen bank, opened in the evaluation phase.
        folder: for side banks; a temporary one by default.
        names: the arms wanted.
        asking: how the bank is asked.
        nearest: items that the oracle tries.
        progress: called with (phase, done, total) while a side bank is made.

    Raises:
        ConfigError: an arm that does not exist.
    """

    def __init__(
        self,
        memory: ExperienceMemory,
        folder: Path | None = None,
        *,
        names: Sequence[str] = ARMS,
        asking: Asking | None = None,
        nearest: int = NEAREST,
        progress: Progress | None = None,
    ) -> None:
        unknown = [name for name in names if name not in ARMS]
        if unknown:
            raise ConfigError(
                f"no such arm: {unknown[0]}", field="arms", hint=f"one of {', '.join(ARMS)}"
            )
        self._memory = memory
        self._temporary = folder is None
        folder = folder or Path(tempfile.mkdtemp(prefix="epimem-eval-"))
        # Named by the bank, so that no side bank of another one is ever taken up.
        stamp = memory.bank.frozen.file_digest[:12] if memory.bank.frozen is not None else "living"
        self._folder = folder / f"banks-{stamp}"
        self._names = tuple(dict.fromkeys(names))
        self._asking = asking or Asking()
        self._progress = progress
        encoder = memory.encoder
        self._encoder = RememberingEncoder(encoder) if encoder is not None else None
        # Shared by all seeds: what the bank answers does not depend on the seed.
        self._product = Retrieved(memory, self._asking)
        self._shared: dict[str, Arm] = {
            "none": Nothing(),
            "product": self._product,
            "flat": self._side("flat", flat_bank),
            "wrong": Wrong(self._product),
            "frequency": Frequent(memory, self._asking),
            "oracle": Best(self._product, nearest),
        }
        self._served: Path | None = None

    def __call__(self, seed: int) -> Mapping[str, Arm]:
        """Return the arms of a seed; those of the seed before have served."""
        if self._served is not None:
            drop_bank(self._served)
        name = f"shuffled-{seed}"
        self._served = self._folder / name
        arms = {
            **self._shared,
            "shuffled": self._side(name, functools.partial(shuffled_bank, seed=seed)),
        }
        return {name: arms[name] for name in self._names}

    def _side(self, name: str, make: Callable[..., ExperienceMemory]) -> Retrieved:
        folder = self._folder / name

        def opened() -> ExperienceMemory:
            if (folder / FROZEN_NAME).is_file():
                return ExperienceMemory.open(
                    folder,
                    read_only=True,
                    phase="evaluation",
                    encoder=self._encoder,
                    controllers=self._memory.controllers,
                )
            space = self._asking.space(self._memory)
            return make(
                self._memory,
                folder,
                namespace=space,
                encoder=self._encoder,
                progress=self._progress,
            )

        return Retrieved(opened, self._asking)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for arm in self._shared.values():
            arm.close()
        if kind is not None and not self._temporary:
            return  # to go on with
        shutil.rmtree(self._folder.parent if self._temporary else self._folder, ignore_errors=True)
