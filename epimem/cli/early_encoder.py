"""The text encoder, loaded and asked in a second thread while the rest of the program is imported.

A cold `retrieve` spends half of its time on each of the two; the encoder remembers the vector of the
question, so that the retrieval finds it made.
"""

from __future__ import annotations

import threading
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from epimem.protocols import Encoder

# Longer questions are shortened before they are encoded, so their vector would not be found.
LONGEST = 4000


class EarlyEncoder:
    """Start loading the encoder of a bank at once.

    Args:
        bank: the bank's folder.
        question: encoded as soon as the encoder is there.
    """

    def __init__(self, bank: Path, question: str) -> None:
        self._encoder: Encoder | None = None
        self._thread = threading.Thread(target=self._load, args=(bank, question), daemon=True)
        self._thread.start()

    def _load(self, bank: Path, question: str) -> None:
        from epimem.bank.encoder import load_encoder
        from epimem.config import load
        from epimem.errors import EpimemError

        try:
            encoder = load_encoder(load(bank).encoder.model)
            if encoder is not None and 0 < len(question) < LONGEST:
                encoder.encode([question])
        except EpimemError:
            # The bank is opened without it, meets the same fault and reports it.
            return
        self._encoder = encoder

    def result(self) -> Encoder | None:
        """Return the encoder, None where the bank has none or it cannot be loaded."""
        import epimem.memory  # noqa: F401 - what there is to do meanwhile

        self._thread.join()
        return self._encoder
