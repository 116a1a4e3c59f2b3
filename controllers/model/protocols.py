"""Which protocol a model is asked in: JSON, or sections once it has shown that it cannot do JSON."""

from __future__ import annotations

import threading
from collections.abc import Iterable

# So many first replies in a row without anything like an object (ours). One refusal or ramble is chance;
# at a share of one readable object in two, eight in a row are one in 256.
GIVEN_UP_AFTER = 8


class Protocols:
    """Remembers, over all operations of one controller, how the first replies came.

    What a batch is asked in is settled before it, and its replies are counted after it in order, so that
    the outcome does not depend on how many calls were in flight.

    Args:
        sections: ask for sections from the start, always.
    """

    def __init__(self, *, sections: bool = False) -> None:
        self._lock = threading.Lock()
        self._sections = sections
        self._without = 0

    @property
    def sections(self) -> bool:
        """Whether the next batch is asked for sections."""
        with self._lock:
            return self._sections

    def note(self, json: Iterable[bool]) -> None:
        """Count first replies to prompts that asked for JSON: did they try to give an object?

        A model that was given up once is never asked for JSON again by this controller.
        """
        with self._lock:
            for tried in json:
                self._without = 0 if tried else self._without + 1
                self._sections = self._sections or self._without >= GIVEN_UP_AFTER
