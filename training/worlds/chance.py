"""Randomness that depends on named things alone: the same parts always give the same draws."""

from __future__ import annotations

import random


def chance(*parts: object) -> random.Random:
    """Return a generator seeded by these parts; none of what it draws is a secret."""
    return random.Random(" ".join(map(str, parts)))  # noqa: S311 - reproducible, never secret
