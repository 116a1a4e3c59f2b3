"""Demonstrations with exact targets from the metro bench: derive, gate, place, consolidate, select.

    python -m benchmarks.metro.demonstrations OUT [--seed 100] [--episodes 400]

Only the construction cities come up, and only development seeds: a seed gives a bank of 40 episodes
under conventions of its own, the next bank takes the next seed. Interrupted, the same command goes on.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from benchmarks.demonstration_sets import write
from benchmarks.metro.experiment import DEVELOPMENT_SEED
from benchmarks.metro.networks import City, load_cities, split_cities
from benchmarks.metro.practice import OF_A_BANK, MetroBank
from epimem.errors import ConfigError, EpimemError


def banks(cities: Sequence[City], *, seed: int, count: int) -> Iterator[MetroBank]:
    """Return banks with this many episodes in all, one a seed, made as they are taken.

    Raises:
        ConfigError: the seed is one of those that decide the experiment.
    """
    if seed < DEVELOPMENT_SEED:
        raise ConfigError(
            "the seeds below decide the experiment", field="seed", got=seed, limit=DEVELOPMENT_SEED
        )
    return (
        MetroBank(cities, seed + at, min(OF_A_BANK, count - start))
        for at, start in enumerate(range(0, count, OF_A_BANK))
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Write the set; return the exit status."""
    options = _options(arguments)
    try:
        cities = split_cities(load_cities()).construction
        made = banks(cities, seed=options.seed, count=options.episodes)
        found = (each for bank in made for each in bank.demonstrations())
        counts = write(options.out, found, seed=options.seed)
    except EpimemError as error:
        print(error, file=sys.stderr)
        return error.exit_code
    except FileNotFoundError as error:
        print(f"no station data at {error}", file=sys.stderr)
        return 1
    print(json.dumps(counts))
    return 0


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.metro.demonstrations")
    parser.add_argument("out", type=Path)
    parser.add_argument("--seed", type=int, default=DEVELOPMENT_SEED)
    parser.add_argument("--episodes", type=int, default=400)
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main())
