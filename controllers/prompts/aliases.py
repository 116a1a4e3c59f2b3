"""Short names for what one prompt shows: P1, L2, C3. They hold for one call."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from controllers.prompts.message import Refused


class Aliases:
    """Names of one kind, numbered from 1 in the order given.

    Args:
        letter: says the kind: P page, E evidence, T turn, L lesson, C category, G group of categories,
            N child, R rule or summary.
        ids: what is shown; of equal ids the first counts.
    """

    def __init__(self, letter: str, ids: Iterable[str]) -> None:
        self._ids = {f"{letter}{at}": key for at, key in enumerate(dict.fromkeys(ids), 1)}
        self._names = {key: name for name, key in self._ids.items()}

    def __iter__(self) -> Iterator[tuple[str, str]]:
        """Yield (alias, id) in order."""
        return iter(self._ids.items())

    def __len__(self) -> int:
        return len(self._ids)

    def __contains__(self, key: object) -> bool:
        return key in self._names

    @property
    def names(self) -> tuple[str, ...]:
        """The aliases, in order."""
        return tuple(self._ids)

    def of(self, key: str) -> str:
        """Return the alias of an id; KeyError where it is not shown."""
        return self._names[key]

    def id(self, name: str) -> str:
        """Return the id of an alias.

        Raises:
            Refused: `not_shown`.
        """
        try:
            return self._ids[name]
        except KeyError:
            raise Refused("not_shown", f"{ascii(name)[:40]} was not shown") from None
