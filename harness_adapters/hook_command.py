"""`epimem hook`: what is typed; what is done stands in `hook_events`, loaded when needed."""

from __future__ import annotations

from typing import Any

import click

from epimem.cli.options import command
from harness_adapters.hook import answer

TOKEN = "EPIMEM_TOKEN"  # noqa: S105 - the name of a variable


@command(
    "hook",
    summary="Answer a hook of Codex, Claude Code or DeepSeek Harness.",
    text="Reads the event from standard input. For UserPromptSubmit it prints what the bank knows for "
    "the prompt as additional context; for Stop it hands the session in, where its transcript is a "
    "rollout of Codex or a session of DeepSeek Harness. Other events are passed over.\n\n"
    "A hook never stops its harness: what fails or takes longer than --deadline is told in one "
    "line, and the harness goes on without memory. Hooks carry text only; `epimem run` shows "
    f"pictures too. BANK is a folder, or the URL of a server, whose token is read from {TOKEN}.",
    examples=(
        "epimem hook my-bank --contributor codex < event.json",
        "epimem hook my-bank --deadline 2 < event.json",
    ),
)
@click.argument("bank", metavar="BANK")
@click.option(
    "--contributor", metavar="NAME", help="Who contributes to a folder.  [default: as in the bank]"
)
@click.option("--namespace", metavar="NAME", help="Namespace of the bank.  [default: its own]")
@click.option(
    "--deadline",
    "deadline_s",
    type=click.FloatRange(min=0.1, max=600),
    default=5.0,
    show_default=True,
    metavar="SECONDS",
    help="After which the harness goes on without memory.",
)
def hook(bank: str, *, contributor: str | None, namespace: str | None, deadline_s: float) -> None:
    """Answer one event."""

    def respond(data: bytes) -> dict[str, Any]:
        from harness_adapters.hook_events import response
        from harness_adapters.running import bank_of

        return response(data, lambda: bank_of(bank, TOKEN, contributor=contributor), namespace)

    answer(respond, deadline_s=deadline_s)
