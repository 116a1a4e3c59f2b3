"""What a pool costs beside the calls of models, at 20 and at 1,000 agents; with a bank, and without.

    python -m benchmarks.evochamber.overhead

The agents answer at once (`simulation`), so that what is left is the method's own work. The text encoder
is a model too and is timed apart.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import median

import numpy as np
from numpy.typing import NDArray

from benchmarks.evochamber.pools import persona
from benchmarks.evochamber.simulation import Bernoulli, stream
from epimem.bank.encoder import load_encoder
from epimem.config import Config
from epimem.memory import ExperienceMemory
from epimem.protocols import Encoder
from harness_adapters.client import Client
from harness_adapters.evochamber.chamber import Chamber
from harness_adapters.evochamber.settings import settings_of
from harness_adapters.evochamber.sharing import Sharing

NICHES = tuple(f"niche {'abcdefghijklmnopqrstuvwxyz'[at]}" for at in range(26))
WARM = 50


class Timed:
    """An encoder that keeps how long it took."""

    def __init__(self, encoder: Encoder) -> None:
        self._encoder = encoder
        self.name, self.dimension = encoder.name, encoder.dimension
        self.fingerprint = encoder.fingerprint
        self.seconds = 0.0

    def encode(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """As the encoder's own."""
        began = time.perf_counter()
        try:
            return self._encoder.encode(texts)
        finally:
            self.seconds += time.perf_counter() - began


def measured(agents: int, tasks: int, sharing: Sharing | None) -> tuple[list[float], list[float]]:
    """Return milliseconds a task beside model calls, and of the text encoder in them."""
    loaded = load_encoder("all-MiniLM-L6-v2")
    assert loaded is not None
    encoder = Timed(loaded)
    chamber = Chamber(
        settings_of(agents=agents),
        Bernoulli(0),
        encoder,
        sharing=sharing,
        persona=persona,
    )
    own, encoding = [], []
    for _, problem in stream(0, WARM + tasks, NICHES, mixed_up=False):
        before, began = encoder.seconds, time.perf_counter()
        episode = chamber.solve(problem)
        solving = time.perf_counter() - began
        chamber.send()
        sending = time.perf_counter() - began - solving
        spent = encoder.seconds - before
        own.append(1000 * (episode.own_s - spent + (sending if sharing else 0.0)))
        encoding.append(1000 * spent)
    return own[WARM:], encoding[WARM:]


def told(name: str, values: tuple[list[float], list[float]]) -> None:
    """Print a line."""
    own, encoding = values
    mean = sum(own) / len(own)
    print(
        f"{name:24} own: mean {mean:6.2f} ms, p50 {median(own):6.2f}, max {max(own):6.2f}; "
        f"text encoder: mean {sum(encoding) / len(encoding):5.2f} ms"
    )


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--tasks", type=int, default=300)
    given = parser.parse_args()
    for agents in (20, 1000):
        told(f"{agents} agents", measured(agents, given.tasks, None))
    with tempfile.TemporaryDirectory() as folder:
        bank = Path(folder) / "bank"
        ExperienceMemory.create(bank, Config()).close()
        with Client.local(bank, contributor="pool") as client:
            sharing = Sharing(client, "pool", Path(folder))
            told("20 agents, with a bank", measured(20, given.tasks, sharing))


if __name__ == "__main__":
    main()
