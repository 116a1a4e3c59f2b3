"""Who is evaluated: controllers by their spec, the teacher, and constant predictors."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from importlib import metadata
from pathlib import Path
from typing import Any, Protocol

from controllers.prompts import VERSION
from epimem import plugins
from epimem.config import Config, ControllerConfig
from epimem.errors import ConfigError
from epimem.protocols import Reply
from training.demonstrations.record import ROLE_OF, Demonstration, OperationName
from training.evaluation.constants import Habits, RegionKind, constant

TEACHER = "teacher"
MEAN_REGION = "constant, mean region"
CONSTANTS: dict[str, RegionKind] = {"constant": "whole", MEAN_REGION: "mean"}
_MODELS = frozenset({"transformers", "vllm"})


class Subject(Protocol):
    """One that answers demonstrations.

    `name` stands in tables and tells nothing about this machine; `fingerprint` changes whenever an
    answer may; `spec` is None for one that is no controller.
    """

    name: str
    fingerprint: str
    spec: str | None

    def answer(
        self, operation: OperationName, asked: Sequence[Demonstration]
    ) -> Sequence[Reply[Any]]:
        """Return one reply per demonstration, in order; its value is not looked at.

        Raises:
            EpimemError: the controller failed as a whole.
        """
        ...

    def close(self) -> None:
        """Free what it holds; it may be asked again afterwards."""
        ...


class Controller:
    """A controller by its spec, loaded when it is first asked.

    Args:
        spec: as for the settings of a bank.
        deadline_s: seconds one call of a model may take.

    Raises:
        ConfigError: the spec is wrong.
    """

    def __init__(self, spec: str, *, deadline_s: float) -> None:
        self.spec: str | None = spec
        self.name, self.fingerprint = identity(spec)
        section = ControllerConfig(spec=spec, deadline_s=deadline_s)
        self._config = Config(memory_controller=section, tree_organizer=section)
        self._roles = plugins.Controllers(None)

    def answer(
        self, operation: OperationName, asked: Sequence[Demonstration]
    ) -> Sequence[Reply[Any]]:
        """Put the requests to the role that fills this operation."""
        role: Any = (
            self._roles.memory_controller(self._config)
            if ROLE_OF[operation] == "memory_controller"
            else self._roles.tree_organizer(self._config)
        )
        replies: Sequence[Reply[Any]] = getattr(role, operation)([it.request for it in asked])
        return replies

    def close(self) -> None:
        """End what was loaded."""
        self._roles.close()


class Teacher:
    """The values that the demonstrations hold: the upper line."""

    name = fingerprint = TEACHER
    spec: str | None = None

    def answer(
        self, operation: OperationName, asked: Sequence[Demonstration]
    ) -> Sequence[Reply[Any]]:
        """Return the stored values."""
        del self, operation
        return [Reply(demonstration.value) for demonstration in asked]

    def close(self) -> None:
        """Free nothing."""


class Constant:
    """A predictor that looks at no question (`constants`)."""

    spec: str | None = None

    def __init__(self, name: str, habits: Habits) -> None:
        self.name = self.fingerprint = name
        self._habits = habits

    def answer(
        self, operation: OperationName, asked: Sequence[Demonstration]
    ) -> Sequence[Reply[Any]]:
        """Return the constant values."""
        region = CONSTANTS[self.name]
        return [Reply(constant(self._habits, operation, it.request, region)) for it in asked]

    def close(self) -> None:
        """Free nothing."""


def subjects_of(specs: Sequence[str], habits: Habits, *, deadline_s: float) -> list[Subject]:
    """Return those named, each once and in order, and then the floors.

    Raises:
        ConfigError: a spec is wrong; nothing is loaded yet.
    """
    found: list[Subject] = [
        Teacher() if spec == TEACHER else Controller(spec, deadline_s=deadline_s)
        for spec in dict.fromkeys(specs)
    ]
    found += [Constant(name, habits) for name in CONSTANTS]
    seen: dict[str, int] = {}
    for subject in found:
        seen[subject.name] = seen.get(subject.name, 0) + 1
        if seen[subject.name] > 1:
            subject.name += f" ({seen[subject.name]})"
    return found


def identity(spec: str) -> tuple[str, str]:
    """Return the name and the fingerprint of a controller; nothing is loaded.

    Raises:
        ConfigError: the spec is wrong.
    """
    kind, _, argument = spec.partition(":")
    plugins.load(plugins.CONTROLLERS, kind)
    name, what = kind, [argument]
    if kind in _MODELS:
        name, what = _model(kind, argument)
    elif kind == "openai":
        from controllers.backends.specs import read_openai

        name, what = f"openai/{read_openai(argument)[1]}", list(read_openai(argument))
    elif kind == "scripted":
        name, what = f"scripted/{Path(argument).stem}", [_content(Path(argument).expanduser())]
    elif argument:
        name = f"{kind}/{Path(argument).name}"
    told = [VERSION, metadata.version("epimem"), kind, *what]
    return name, hashlib.sha256(json.dumps(told).encode("utf-8")).hexdigest()


def _model(kind: str, argument: str) -> tuple[str, list[str]]:
    from controllers.backends.specs import read_model
    from training.export.fingerprint import fingerprint

    spec = read_model(kind, argument)
    parts = [part for part in (spec.base, spec.adapter) if part]
    what = [fingerprint(Path(part)) if Path(part).is_dir() else part for part in parts]
    return f"{kind}/{spec.identity}", what


def _content(path: Path) -> str:
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError as error:
        raise ConfigError("the file of replies cannot be read", got=path.name) from error
