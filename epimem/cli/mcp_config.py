"""What a client has to be told to start `epimem mcp`, in the form in which it reads it."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

NAME = "epimem"


def config(client: str, bank: Path, options: Sequence[str]) -> str:
    """Return the settings for a client.

    Args:
        client: a key of `CLIENTS`.
        bank: the bank's folder.
        options: of `epimem mcp`.
    """
    arguments = ["-m", "epimem", "mcp", str(bank.resolve()), *options]
    return CLIENTS[client](sys.executable, arguments)


def _codex(program: str, arguments: Sequence[str]) -> str:
    # A JSON text or list of texts is one of TOML too. Without `required` a server that does not start is
    # left out silently; without the approval mode some settings refuse tools that write.
    return "\n".join(
        (
            f"[mcp_servers.{NAME}]",
            f"command = {json.dumps(program)}",
            f"args = {json.dumps(arguments)}",
            "required = true",
            'default_tools_approval_mode = "approve"',
        )
    )


def _claude(program: str, arguments: Sequence[str]) -> str:
    server = {"command": program, "args": [*arguments]}
    return json.dumps({"mcpServers": {NAME: server}}, indent=2)


def _dsh(program: str, arguments: Sequence[str]) -> str:
    server = {
        "serverName": NAME,
        "transport": "stdio",
        "command": program,
        "args": [*arguments],
        # Otherwise a server that does not start is left out silently.
        "failOnStartupError": True,
    }
    row = {"id": NAME, "name": "@deepseek-ai/dsh-mcp-client", "config": server}
    return json.dumps([{"insert": [row]}], indent=2)


CLIENTS: dict[str, Callable[[str, Sequence[str]], str]] = {
    "codex": _codex,
    "claude": _claude,
    "dsh": _dsh,
}
