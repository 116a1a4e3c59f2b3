"""The reference of the command line as Markdown, written from the commands themselves.

python -m epimem.cli.reference > docs/cli.md
"""

from __future__ import annotations

from collections.abc import Iterator
from importlib.metadata import entry_points

import click

from epimem.cli.installed import GROUP
from epimem.cli.options import Command
from epimem.cli.program import COMMANDS
from epimem.errors import EXIT_CODES

_HEAD = """\
# The command line

Written by `python -m epimem.cli.reference` from the commands; do not edit.

Every command is `epimem COMMAND PATH ...`, where PATH is the folder of a bank. Put `--` before a
path that starts with a dash.

**Output.** Results go to standard output as JSON Lines, one canonical JSON object a line, in UTF-8.
`build`, `show`, `explain`, `stats`, `log`, `check` and `eval` draw for people where standard output is
a terminal; `--json` turns that off. Progress, remarks and errors go to standard error. Characters
that a terminal would act on are written as visible escapes.

**Errors** are one line on standard error: `epimem: CODE: message (hint)`. `CODE` is stable. With
`EPIMEM_TRACEBACK=1` the trace is printed before it.

**Ctrl-C** ends a command quietly. `build`, `ingest`, `maintain`, `import-runs` and `eval` first finish
what is under way (a record, a batch, a step, a question), and the same command goes on from there; a
second Ctrl-C ends them at once. Whatever was acknowledged is on the disk in either case.

**Records** for `contribute` and `build PATH jsonl` are runs (`{"schema": "epimem-run/1", ...}`),
lessons (`{"guidance": ..., ...}`), and runs with their sealed outcome (`{"run": {...}, "outcome":
{...}}`). What is refused is set aside in `SOURCE.rejected.jsonl`, one line each with `source`,
`line`, `code` and `reason`; where the folder of SOURCE cannot be written, in the current folder.
"""
_PARTLY = (
    "done, but records were refused (`contribute`, `import-runs`), or the run does not count (`eval`); "
    "or not confirmed"
)
_STATUSES = (
    ("0", "done"),
    ("1", _PARTLY),
)
_LAST = (
    ("130", "Ctrl-C"),
    ("141", "the reader of standard output went away"),
)


def render() -> str:
    """Return the reference as Markdown."""
    parts = [_HEAD, *_exit_statuses(), "## Commands\n"]
    for name, command in commands():
        parts.append(f"### {name}\n")
        parts += _command(name, command)
    return "\n".join(parts)


def commands() -> Iterator[tuple[str, Command]]:
    """Yield all commands that this distribution brings with what is typed after `epimem`."""
    brought = [
        point.load()
        for point in entry_points(group=GROUP)
        if point.dist is not None and point.dist.name == "epimem"
    ]
    for command in (*COMMANDS, *brought):
        if isinstance(command, click.Group):
            yield from _members(command)
        else:
            assert isinstance(command, Command)
            yield command.name or "", command
            # A command that hands over to others names them.
            for name, member in getattr(command, "members", {}).items():
                yield f"{command.name} {name}", member


def _members(group: click.Group) -> Iterator[tuple[str, Command]]:
    context = click.Context(group, info_name=group.name)
    for name in group.list_commands(context):
        member = group.get_command(context, name)
        assert isinstance(member, Command)
        yield f"{group.name} {name}", member


def _exit_statuses() -> Iterator[str]:
    codes: dict[int, list[str]] = {}
    for code, status in EXIT_CODES.items():
        codes.setdefault(status, []).append(f"`{code}`")
    codes[2].insert(0, "`usage`")
    rows = [(str(status), ", ".join(names)) for status, names in sorted(codes.items())]
    lines = [f"| {status} | {meaning} |" for status, meaning in (*_STATUSES, *rows, *_LAST)]
    yield "## Exit statuses\n"
    yield "\n".join(("| status | when, or the code of the error |", "| --- | --- |", *lines)) + "\n"


def _command(name: str, command: Command) -> Iterator[str]:
    context = click.Context(command, info_name=f"epimem {name}")
    usage = " ".join(command.collect_usage_pieces(context))
    yield f"```\nepimem {name} {usage}\n```\n"
    yield (command.help or "") + "\n"
    options = [item for item in command.get_params(context) if isinstance(item, click.Option)]
    rows = [_option(item, context) for item in options if "--help" not in item.opts]
    if rows:
        yield "\n".join(("| option | |", "| --- | --- |", *rows)) + "\n"
    yield "\n".join(("```", *command.examples, "```")) + "\n"


def _option(option: click.Option, context: click.Context) -> str:
    names, meaning = option.get_help_record(context) or ("", "")
    return f"| `{_cell(names)}` | {_cell(meaning)} |"


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", r"\|")


if __name__ == "__main__":
    print(render(), end="")  # noqa: T201 - this is what the module is for
