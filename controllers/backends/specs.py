"""Entry points of the group `epimem.controllers`: from a spec string to the controllers of a bank.

    openai:URL#MODEL              a server that speaks the protocol of OpenAI; key in OPENAI_API_KEY
    transformers:PATH[+ADAPTER]   a model in this process
    vllm:PATH[+ADAPTER]           a server of our own for a model; see `vllm`
    scripted:FILE                 replies from a file; see `scripted`

PATH is a folder, a name of the hub or a preset. Where both roles name the same server, base model or
file, they share it. A backend and what it needs are imported only when it is asked for.
"""

from __future__ import annotations

import importlib.util
import os
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from controllers.backends.base import Backend
from epimem.config import TreeConfig
from epimem.errors import ConfigError, PluginError
from epimem.protocols import MemoryController, TreeOrganizer

Pair = tuple[MemoryController | None, TreeOrganizer | None]
EXAMPLES: Mapping[str, str] = {
    "openai": "openai:http://localhost:8000/v1#qwen3.5-2b",
    "transformers": "transformers:qwen3.5-2b+adapters/memory",
    "vllm": "vllm:qwen3.5-2b+adapters/memory",
    "scripted": "scripted:replies.jsonl",
}
KEY = "OPENAI_API_KEY"


def load_openai(
    *,
    memory_controller: str | None,
    tree_organizer: str | None,
    settings: TreeConfig,
    deadline_s: float,
) -> Pair:
    """Return the roles asked for on OpenAI-compatible servers.

    Raises:
        ConfigError: a spec without URL or model, or a key that is no header.
        PluginError: the package openai is not installed.
    """
    del settings
    _need("openai", "openai")
    from controllers.backends.chat_server import ChatServer, Limits
    from controllers.backends.openai import OpenAIBackend

    key = _key()
    servers: dict[str, ChatServer] = {}

    def make(argument: str) -> Backend:
        url, model = read_openai(argument)
        if url not in servers:
            servers[url] = ChatServer(url, key=key, limits=Limits(deadline_s=deadline_s))
        return OpenAIBackend(servers[url], model)

    return _roles("openai", memory_controller, tree_organizer, make)


def load_transformers(
    *,
    memory_controller: str | None,
    tree_organizer: str | None,
    settings: TreeConfig,
    deadline_s: float,
) -> Pair:
    """Return the roles asked for on models in this process; roles of one base share its weights.

    Raises:
        ConfigError: no such model or adapter.
        PluginError: a package of the extra `transformers` is not installed.
    """
    del settings
    _need("transformers", "torch", "transformers")
    from controllers.backends.transformers import TransformersBackend

    def make(argument: str) -> Backend:
        spec = read_model("transformers", argument)
        return TransformersBackend(spec.base, spec.adapter or None, deadline_s=deadline_s)

    return _roles("transformers", memory_controller, tree_organizer, make)


def load_vllm(
    *,
    memory_controller: str | None,
    tree_organizer: str | None,
    settings: TreeConfig,
    deadline_s: float,
) -> Pair:
    """Return the roles asked for on servers of our own, one per base; starting one takes minutes.

    Raises:
        ConfigError: no such folder, or an adapter that is none.
        ControllerError: a server did not start.
        PluginError: the package openai is not installed.
    """
    del settings
    _need("vllm", "openai")
    from controllers.backends.chat_server import Limits
    from controllers.backends.vllm import BASE, VllmBackend, VllmServer

    asked = [argument for argument in (memory_controller, tree_organizer) if argument]
    specs = [_local("vllm", read_model("vllm", argument)) for argument in asked]
    servers: dict[str, VllmServer] = {}

    def make(argument: str) -> Backend:
        spec = _local("vllm", read_model("vllm", argument))
        there = sorted({it.adapter for it in specs if it.base == spec.base and it.adapter})
        served = {f"adapter-{number}": Path(path) for number, path in enumerate(there, 1)}
        if spec.base not in servers:
            limits = Limits(deadline_s=deadline_s)
            servers[spec.base] = VllmServer(spec.base, served, limits=limits, tell=_tell)
        name = next((it for it in served if str(served[it]) == spec.adapter), BASE)
        return VllmBackend(servers[spec.base], name, name=f"vllm/{spec.identity}")

    return _roles("vllm", memory_controller, tree_organizer, make)


def load_scripted(
    *,
    memory_controller: str | None,
    tree_organizer: str | None,
    settings: TreeConfig,
    deadline_s: float,
) -> Pair:
    """Return the roles asked for on replies from files; roles of one file use its lines up together.

    Raises:
        ConfigError: no such file, or a line that is no reply.
    """
    del settings, deadline_s
    from controllers.backends.scripted import ScriptedBackend, from_file

    files: dict[str, ScriptedBackend] = {}

    def make(argument: str) -> Backend:
        if argument not in files:
            files[argument] = from_file(Path(argument).expanduser())
        return files[argument]

    return _roles("scripted", memory_controller, tree_organizer, make)


def read_openai(argument: str) -> tuple[str, str]:
    """Return address and model of `URL#MODEL`.

    Raises:
        ConfigError: no http address, one that holds a password, or no model.
    """
    url, _, model = argument.partition("#")
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError:
        raise _wrong("openai", "the address is not a URL") from None
    if parts.scheme not in {"http", "https"} or not parts.hostname:
        raise _wrong("openai", "the address does not begin with http:// or https://")
    if parts.username is not None or parts.password is not None:
        # Addresses are stored and shown; the message must not show this one.
        raise _wrong("openai", f"the address holds a user or password; set {KEY} in their place")
    if parts.query:
        raise _wrong("openai", "the address has a query")
    if not model.strip():
        raise _wrong("openai", "no model stands after #")
    return url.rstrip("/"), model.strip()


@dataclass(frozen=True)
class ModelSpec:
    """A base model and an adapter on it ("" without one), each a folder or a name of the hub."""

    base: str
    adapter: str = ""

    @property
    def identity(self) -> str:
        """The last part of both names: what identifies the model without telling where it lies."""
        names = [Path(part).name for part in (self.base, self.adapter) if part]
        return "+".join(names)


def read_model(kind: str, argument: str) -> ModelSpec:
    """Return base and adapter of `PATH[+ADAPTER]`; a preset is replaced by what it stands for.

    A name of the hub is passed on as it is. What is written as a path must be a folder.

    Raises:
        ConfigError: no base, no adapter after the plus, or a path where there is no folder.
    """
    from controllers.backends.transformers import PRESETS

    # A folder may have a plus in its name.
    whole = bool(argument) and Path(argument).expanduser().is_dir()
    base, plus, adapter = (argument, "", "") if whole else argument.rpartition("+")
    if not plus:
        base, adapter = argument, ""
    if not base or (plus and not adapter):
        raise _wrong(kind, "a model is missing" if not base else "no adapter stands after +")
    return ModelSpec(_place(kind, PRESETS.get(base, base)), adapter and _place(kind, adapter))


def _place(kind: str, name: str) -> str:
    """Return the folder of a path, its ~ filled in, or the name of the hub as it is."""
    path = Path(name).expanduser()
    if path.is_dir():
        return str(path)
    if name.startswith(("/", "./", "../", "~")) or name.count("/") != 1:
        raise _wrong(kind, "neither a folder, nor a preset, nor a name of the hub", got=path.name)
    return name


def _local(kind: str, spec: ModelSpec) -> ModelSpec:
    """Return a spec whose adapter is a folder, given from the root."""
    if spec.adapter and not Path(spec.adapter).is_dir():
        raise _wrong(kind, "the adapter is not a folder", got=spec.adapter)
    base = str(Path(spec.base).resolve()) if Path(spec.base).is_dir() else spec.base
    return ModelSpec(base, spec.adapter and str(Path(spec.adapter).resolve()))


def _roles(
    kind: str,
    memory_controller: str | None,
    tree_organizer: str | None,
    make: Callable[[str], Backend],
) -> Pair:
    """Return the controllers on the backends of their arguments; None for a role not asked for."""
    from controllers.model.memory_controller import ModelMemoryController
    from controllers.model.tree_organizer import ModelTreeOrganizer

    for argument in (memory_controller, tree_organizer):
        if argument is not None and not argument:
            raise _wrong(kind, f"nothing stands after {kind}:")
    controller = organizer = None
    if memory_controller is not None:
        controller = ModelMemoryController(make(memory_controller))
    try:
        if tree_organizer is not None:
            organizer = ModelTreeOrganizer(make(tree_organizer))
    except BaseException:
        if controller is not None:
            controller.close()
        raise
    return controller, organizer


def _need(extra: str, *packages: str) -> None:
    for package in packages:
        if importlib.util.find_spec(package) is None:
            raise PluginError(
                f"{extra} needs a package that is not installed: {package}",
                hint=f"pip install 'epimem[{extra}]'",
            )


def _key() -> str:
    key = os.environ.get(KEY, "").strip()
    if not (key.isascii() and key.isprintable()):
        raise ConfigError(f"{KEY} holds characters that no header can carry", field=KEY)
    return key


def _tell(text: str) -> None:
    sys.stderr.write(f"epimem: {text}\n")
    sys.stderr.flush()


def _wrong(kind: str, what: str, *, got: str | None = None) -> ConfigError:
    return ConfigError(what, field=f"{kind} spec", got=got, hint=f"for example {EXAMPLES[kind]}")
