"""An array that is appended to, for followers that take in one row after the other."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray


class Growing:
    """Rows of an array whose room doubles when it is full: one more row copies nothing else.

    Args:
        values: the first rows, copied; their type and width are kept.
    """

    def __init__(self, values: NDArray[Any]) -> None:
        self._room = np.array(values)
        self._count = len(values)

    def __len__(self) -> int:
        return self._count

    @property
    def view(self) -> NDArray[Any]:
        """The rows. Rows appended later are not in it; elements written to may or may not be."""
        return self._room[: self._count]

    def extend(self, values: NDArray[Any]) -> None:
        """Append rows."""
        count = self._count + len(values)
        if count > len(self._room):
            room = np.empty(
                (max(count, 2 * self._count, 16), *self._room.shape[1:]), self._room.dtype
            )
            room[: self._count] = self.view
            self._room = room
        self._room[self._count : count] = values
        self._count = count

    def pad(self, count: int, value: int) -> None:
        """Append rows of one value until there are `count`."""
        missing = count - self._count
        if missing > 0:
            self.extend(np.full((missing, *self._room.shape[1:]), value, self._room.dtype))
