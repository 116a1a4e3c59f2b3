"""Named points at which a test can end the process, as a crash would.

`EPIMEM_FAILPOINT=name` or `name:3` kills this process with SIGKILL at the first or third passage.
Unset, a failpoint costs one dictionary look-up.
"""

from __future__ import annotations

import os
import signal

_passed = 0


def failpoint(name: str) -> None:
    """End the process here when the environment asks for it."""
    wanted = os.environ.get("EPIMEM_FAILPOINT")
    if wanted is None:
        return
    target, _, count = wanted.partition(":")
    if target != name:
        return
    global _passed  # noqa: PLW0603 - one counter per process is the point
    _passed += 1
    if _passed >= int(count or 1):
        os.kill(os.getpid(), signal.SIGKILL)
