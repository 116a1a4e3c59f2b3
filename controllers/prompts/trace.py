"""What happened in a run, as lines of a prompt: turns of all agents interleaved, views among them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from controllers.prompts.fence import cut
from epimem.protocols import Picture
from epimem.schema.atif import ToolCall
from epimem.schema.run import Event, Run, Turn, interleave

FIRST_TURNS, LAST_TURNS = 6, 34
TRACE_CHARS = 12_000
TURN_CHARS = 1200
LEAST_CHARS = 200
CALLS = 3
CALL_CHARS = 200
MAX_PAGES = 8


@dataclass(frozen=True)
class Transcript:
    """The turns shown by alias, and the line of each; a line without alias says what was left out."""

    turns: Mapping[str, Turn]
    lines: tuple[dict[str, Any], ...]

    def alias(self, seq: int) -> str:
        """Return the alias of the turn with this `seq`; KeyError where it is not shown."""
        for name, turn in self.turns.items():
            if turn.seq == seq:
                return name
        raise KeyError(seq)


def transcript(run: Run, pages: Mapping[str, Picture]) -> Transcript:
    """Return the first and last turns of a run, each text within its room.

    Args:
        run: the run.
        pages: the pages that the prompt shows, by alias.
    """
    turns = interleave(run)
    shown = {f"T{at}": turn for at, turn in enumerate(turns, 1)}
    left_out = len(turns) - FIRST_TURNS - LAST_TURNS
    names = list(shown)
    if left_out > 0:
        names = [*names[:FIRST_TURNS], *names[-LAST_TURNS:]]
    roles = {actor.traj: actor.role for actor in run.actors}
    chars = max(LEAST_CHARS, min(TURN_CHARS, TRACE_CHARS // max(len(names), 1)))
    lines = [_line(name, shown[name], roles, pages, chars) for name in names]
    if left_out > 0:
        lines.insert(FIRST_TURNS, {"left_out": f"{left_out} turns"})
    return Transcript({name: shown[name] for name in names}, tuple(lines))


def shown_pages(pages: Sequence[Picture], run: Run | None) -> dict[str, Picture]:
    """Return the pages to show by alias, eight at most (ours): those looked at first, in page order."""
    viewed = [event.page for event in run.events if event.kind == "view"] if run else []
    first = {page: at for at, page in reversed(list(enumerate(viewed)))}
    order = sorted(range(len(pages)), key=lambda at: (first.get(pages[at].page, len(viewed)), at))
    return {f"P{at + 1}": pages[at] for at in sorted(order[:MAX_PAGES])}


def aliases_of(pages: Mapping[str, Picture]) -> dict[str, str]:
    """Return the alias by image id; of equal images that of the first."""
    found: dict[str, str] = {}
    for name, picture in pages.items():
        found.setdefault(picture.image_id, name)
    return found


def _line(
    name: str,
    turn: Turn,
    roles: Mapping[str, str],
    pages: Mapping[str, Picture],
    chars: int,
) -> dict[str, Any]:
    role = roles.get(turn.traj or "", "")
    found: dict[str, Any] = {
        "turn": name,
        "by": cut(f"{turn.actor} ({role})" if role else turn.actor, CALL_CHARS // 2),
    }
    if turn.event is not None:
        found["looked at" if turn.event.kind == "view" else "event"] = _event(turn.event, pages)
    elif turn.step is not None and turn.step.tool_calls:
        calls = turn.step.tool_calls[:CALLS]
        found["called"] = [
            cut(f"{call.function_name} {_arguments(call)}", CALL_CHARS) for call in calls
        ]
    return {**found, "text": cut(turn.text, chars)}


def _arguments(call: ToolCall) -> str:
    return json.dumps(call.arguments, ensure_ascii=False, default=str)


def _event(event: Event, pages: Mapping[str, Picture]) -> str:
    if event.kind != "view":
        return event.kind
    alias = next((name for name, picture in pages.items() if picture.page == event.page), None)
    where = alias or (f"page {event.page}, not shown" if event.page else "an image")
    return f"{where} box {list(event.region.to_scaled())}" if event.region else where
