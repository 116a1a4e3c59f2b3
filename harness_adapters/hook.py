"""The frame of a hook: one event in, one line out, within a deadline, whatever happens.

Nothing heavy is imported here: the deadline counts from the start, and loading is a part of the work.
"""

from __future__ import annotations

import json
import os
import sys
import threading
from collections.abc import Callable
from typing import Any

MAX_EVENT = 4 * 1024 * 1024


def answer(respond: Callable[[bytes], dict[str, Any]], *, deadline_s: float) -> None:
    """Answer the event on standard input with one line of JSON.

    Args:
        respond: returns the answer to an event.
        deadline_s: after which the answer is a notice.
    """
    told: dict[str, Any] = {}

    def work() -> None:
        try:
            told.update(respond(sys.stdin.buffer.read(MAX_EVENT + 1)))
        except Exception as error:  # noqa: BLE001 - a hook never stops its harness
            told.update(notice(f"unexpected {type(error).__name__}"))

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    thread.join(deadline_s)
    late = thread.is_alive()
    said = notice(f"no answer within {deadline_s:g} s") if late else told
    sys.stdout.write(json.dumps(said) + "\n")
    sys.stdout.flush()
    if late:
        # The thread may hang in a call that nothing ends; the harness waits for this process.
        os._exit(0)


def notice(text: str) -> dict[str, Any]:
    """Return an answer that changes nothing and tells a person why."""
    return {"systemMessage": f"epimem: {text}"}
