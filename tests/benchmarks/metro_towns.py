"""A made-up network for the tests of the metro experiment."""

from __future__ import annotations

from benchmarks.metro.networks import City, Split

_FIRST = ("Alder", "Birch", "Cedar", "Dogwood", "Elm", "Fir", "Ginkgo", "Hazel", "Ivy", "Juniper")
_SECOND = ("Lane", "Park", "Gate", "Hill")


def towns(count: int) -> tuple[City, ...]:
    """Return towns of two lines of ten stations each."""
    return tuple(
        City(
            f"town {number}",
            tuple(
                tuple(f"{name} {_SECOND[(number + line) % 4]}" for name in _FIRST)
                for line in range(2)
            ),
        )
        for number in range(count)
    )


SPLIT = Split(towns(8)[:4], towns(8)[4:])
