"""`epimem serve`, `epimem mcp` and `epimem token`: one bank for many callers."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Literal

import click

from epimem.cli.mcp_config import CLIENTS, config
from epimem.cli.options import Phase, bank_argument, command, open_bank, phase_option
from epimem.cli.output import emit, note
from epimem.errors import ConfigError

if TYPE_CHECKING:
    from epimem.service.access import TokenFile

DAY_S = 24 * 3600
tokens_option = click.option(
    "--tokens",
    metavar="FILE",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Token file.  [default: PATH.tokens.json, beside the bank]",
)

namespaces_option = click.option(
    "--namespace",
    "namespaces",
    multiple=True,
    metavar="NAME",
    help="What may be seen and written; repeatable.  [default: all]",
)


@command(
    "serve",
    summary="Serve a bank over HTTP and MCP.",
    text="Answers POST /v1/<operation>, PUT and GET /v1/blobs/<sha256>, and MCP under /mcp; "
    "/openapi.json describes them. Every request but /healthz needs a bearer token: make one with "
    "`epimem token add` first. Pages of other origins and requests for other host names are refused; "
    "no address but loopback is served unless you name one.\n\n"
    "With --maintain, runs are ingested and lessons organized while the bank serves. SIGTERM or Ctrl-C "
    "ends it: what has begun is finished.\n\n"
    "Prints one JSON line when it is ready: url.",
    examples=(
        "epimem serve my-bank",
        "epimem serve my-bank --port 0 --maintain 60",
        "epimem serve my-bank --host 0.0.0.0 --allow-host memory.lab.example",
    ),
)
@bank_argument
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option(
    "--port",
    default=8765,
    show_default=True,
    type=click.IntRange(0, 65535),
    help="Port; 0 for any that is free.",
)
@tokens_option
@click.option(
    "--allow-host",
    "hosts",
    multiple=True,
    metavar="NAME",
    help="A name, without a port, by which this server may be called; repeatable.",
)
@click.option(
    "--allow-origin",
    "origins",
    multiple=True,
    metavar="ORIGIN",
    help="An origin (scheme://host:port) whose pages may call; repeatable.",
)
@click.option(
    "--maintain",
    "every",
    type=click.FloatRange(min=1),
    metavar="SECONDS",
    help="Ingest and maintain whenever so many seconds have passed.",
)
def serve(
    bank: Path,
    *,
    host: str,
    port: int,
    tokens: Path | None,
    hosts: tuple[str, ...],
    origins: tuple[str, ...],
    every: float | None,
) -> None:
    """Serve until a signal comes."""
    from epimem.service.door import DoorSettings
    from epimem.service.serving import ServerSettings, run

    file = _file(bank, tokens)  # what cannot be opened is told before anything listens
    if not len(file):
        raise ConfigError(
            "there is no token that could call this server",
            field="tokens",
            hint=f"epimem token add {bank} NAME --right read",
        )
    run(
        lambda: open_bank(bank),
        file,
        ServerSettings(
            host=host,
            port=port,
            door=DoorSettings(hosts=(*_names(host), *hosts), origins=origins),
            maintain_every_s=every,
        ),
        ready=lambda url: emit({"url": url}),
        tell=note,
    )


def _names(host: str) -> tuple[str, ...]:
    from epimem.service.door import LOOPBACK

    return LOOPBACK if host in {"127.0.0.1", "localhost", "::1"} else (host,)


@command(
    "mcp",
    summary="Serve a bank to one MCP client over standard input and output.",
    text="For clients that start their servers, as Codex, Claude Code and DeepSeek Harness do: the "
    "tools epimem_retrieve, epimem_contribute and epimem_feedback. Who contributes is said here, not "
    "by the client.\n\n"
    "--print-config prints what a client has to be told, with the other options in it: a table for "
    "Codex's config.toml, an object for the MCP file of Claude Code, a patch (JSON, so YAML) for "
    "DeepSeek Harness.",
    examples=(
        "epimem mcp my-bank --contributor codex --organisation my-lab",
        "epimem mcp my-bank --contributor codex --print-config codex >> ~/.codex/config.toml",
    ),
)
@bank_argument
@click.option("--contributor", metavar="NAME", help="Who contributes.  [default: as in the bank]")
@click.option(
    "--organisation", metavar="NAME", help="Whom it works for.  [default: as in the bank]"
)
@namespaces_option
@click.option("--read-only", is_flag=True, help="Let nothing be contributed.")
@click.option(
    "--print-config",
    "client",
    type=click.Choice([*CLIENTS]),
    help="Print the settings for a client, and serve nothing.",
)
@phase_option
@click.pass_context
def mcp(
    context: click.Context,
    bank: Path,
    *,
    client: str | None,
    contributor: str | None,
    organisation: str | None,
    namespaces: tuple[str, ...],
    read_only: bool,
    phase: Phase,
) -> None:
    """Serve until the client goes away."""
    if client is not None:
        click.echo(config(client, bank, _typed(context)))
        return
    import asyncio
    from importlib.metadata import version

    from epimem import config as settings
    from epimem.bank.intake import Caller
    from epimem.schema.names import checked_name
    from epimem.service.access import Principal
    from epimem.service.desk import Desk
    from epimem.service.mcp import run_stdio

    with open_bank(bank, read_only=True):
        own = settings.load(bank).caller
    rights: tuple[Literal["read", "contribute"], ...]
    rights = ("read",) if read_only else ("read", "contribute")
    principal = Principal(
        "mcp",
        Caller(
            checked_name(contributor or own.contributor, "contributor"),
            checked_name(organisation or own.organisation, "organisation"),
            phase,
        ),
        frozenset(rights),
        frozenset(checked_name(name, "namespace") for name in namespaces) or None,
    )
    desk = Desk(lambda: open_bank(bank, read_only=read_only))
    try:
        asyncio.run(run_stdio(desk, principal, version=version("epimem")))
    finally:
        desk.close()


def _typed(context: click.Context) -> list[str]:
    """Return the options that were typed, apart from the one that prints."""
    words: list[str] = []
    for option in context.command.params:
        value = context.params.get(option.name or "")
        if option.name in {"bank", "client"} or not value or value == option.default:
            continue
        for each in value if isinstance(value, tuple) else (value,):
            words += [option.opts[0]] if each is True else [option.opts[0], str(each)]
    return words


@click.group("token", short_help="Make, list and remove the tokens of a bank's server.")
def token() -> None:
    """Make, list and remove the bearer tokens of a bank's server.

    The file holds hashes only; a server reads it again when it changes.
    """


@command(
    "add",
    summary="Make a token for a bank's server.",
    text="NAME is what the log of the server calls its holder. Rights are single: contribute does "
    "not include read. Namespaces bound what is seen and written; maintain and admin reach the "
    "whole bank.\n\n"
    "Prints one JSON line: name, token. The token is shown this once; the file keeps its hash.",
    examples=(
        "epimem token add my-bank codex --right read --right contribute --organisation my-lab",
        "epimem token add my-bank grader --right contribute --namespace maps --days 30",
        "epimem token add my-bank reader --right read --phase evaluation",
    ),
)
@bank_argument
@click.argument("name", metavar="NAME")
@click.option(
    "--right",
    "rights",
    multiple=True,
    required=True,
    type=click.Choice(["read", "contribute", "maintain", "admin"]),
    help="What may be done; repeatable.",
)
@click.option("--contributor", metavar="NAME", help="Who contributes.  [default: NAME]")
@click.option(
    "--organisation",
    metavar="NAME",
    default="local",
    show_default=True,
    help="Whom it works for.",
)
@namespaces_option
@phase_option
@click.option(
    "--writes-per-minute",
    "writes",
    metavar="N",
    type=click.IntRange(min=0),
    default=60,
    show_default=True,
    help="Most writes of the contributor in a minute; 0: no bound.",
)
@click.option(
    "--lessons",
    metavar="N",
    type=click.IntRange(min=0),
    default=10_000,
    show_default=True,
    help="Most lessons of the contributor; 0: no bound.",
)
@click.option("--days", metavar="N", type=click.IntRange(min=1), help="Let it expire after N days.")
@tokens_option
def add(  # noqa: PLR0913 - options of one command
    bank: Path,
    *,
    name: str,
    rights: tuple[Literal["read", "contribute", "maintain", "admin"], ...],
    contributor: str | None,
    organisation: str,
    namespaces: tuple[str, ...],
    phase: Phase,
    writes: int,
    lessons: int,
    days: int | None,
    tokens: Path | None,
) -> None:
    """Make a token and print it."""
    import time

    from epimem.service.access import Grant, new_token

    made = new_token()
    grant = Grant.read(
        {
            "name": name,
            "sha256": "0" * 64,
            "contributor": contributor or name,
            "organisation": organisation,
            "rights": list(rights),
            "namespaces": list(namespaces),
            "phase": phase,
            "writes_per_minute": writes,
            "lessons": lessons,
            "expires_at": int(time.time()) + days * DAY_S if days else 0,
        }
    )
    _file(bank, tokens).add(grant, made)
    emit({"name": grant.name, "token": made})


@command(
    "list",
    summary="List what the tokens of a bank's server grant.",
    text="Prints one JSON line a token; the tokens themselves are nowhere.",
    examples=("epimem token list my-bank",),
)
@bank_argument
@tokens_option
def list_(bank: Path, *, tokens: Path | None) -> None:
    """List the grants."""
    for grant in _file(bank, tokens).grants():
        emit(
            {key: value for key, value in grant.model_dump(mode="json").items() if key != "sha256"}
        )


@command(
    "remove",
    summary="Remove a token; a running server refuses its next request.",
    text="NAME is as `epimem token list` shows it. What its holder contributed stays; `epimem revoke` "
    "takes that away.",
    examples=("epimem token remove my-bank codex",),
)
@bank_argument
@click.argument("name", metavar="NAME")
@tokens_option
def remove(bank: Path, *, name: str, tokens: Path | None) -> None:
    """Remove a token."""
    _file(bank, tokens).remove(name)
    emit({"removed": name})


def _file(bank: Path, tokens: Path | None) -> TokenFile:
    """Return the tokens of a bank that is there."""
    from epimem.service.access import TokenFile, token_file

    with open_bank(bank, read_only=True):
        return TokenFile(tokens or token_file(bank))


for _command in (add, list_, remove):
    token.add_command(_command)
