"""The commands that serve an export: in this process, on a server of epimem, or on one's own."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from controllers.backends.vllm import LOOPBACK, command
from epimem.plugins import Role

PORT = 8000
_OPTIONS: Mapping[Role, str] = {
    "memory_controller": "--memory-controller",
    "tree_organizer": "--tree-organizer",
}


@dataclass(frozen=True)
class Serving:
    """Commands to type, each on one line.

    Attributes:
        transformers: of epimem, with the model in its own process.
        vllm: of epimem, which starts the server.
        server: of the server alone, with the flags that the vllm backend uses.
        openai: of epimem, on that server.
    """

    transformers: str
    vllm: str
    server: str
    openai: str

    def plain(self) -> dict[str, str]:
        """Return the commands by name."""
        return dict(vars(self))

    def told(self, places: Mapping[str, str]) -> Serving:
        """Return the commands with other names for places, such as a folder for its full path."""
        found = self.plain()
        for place, name in places.items():
            found = {key: line.replace(place, name) for key, line in found.items()}
        return Serving(**found)


def serving(role: Role, base: str, adapter: Path | None) -> Serving:
    """Return the commands that serve a controller.

    Args:
        role: which one.
        base: folder or hub name of the weights: of the base, or merged.
        adapter: folder of the adapter on it, None for merged weights.

    Raises:
        ConfigError: the adapter has no readable settings, or a rank that no server takes.
    """
    model = base if adapter is None else f"{base}+{adapter}"
    served = "base" if adapter is None else role
    adapters: dict[str, Path] = {} if adapter is None else {role: adapter}
    line = command("python", base, adapters, PORT, ())
    return Serving(
        transformers=_epimem(role, f"transformers:{model}"),
        vllm=_epimem(role, f"vllm:{model}"),
        server=shlex.join(line),
        openai=_epimem(role, f"openai:http://{LOOPBACK}:{PORT}/v1#{served}"),
    )


def _epimem(role: Role, spec: str) -> str:
    return shlex.join(
        ["epimem", "maintain" if role == "tree_organizer" else "ingest", "my-bank"]
    ) + (f" {_OPTIONS[role]} {shlex.quote(spec)}")
