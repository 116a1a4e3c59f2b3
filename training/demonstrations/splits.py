"""Groups dealt into training, development and test: by chance that is fixed, never one group in two.

Groups that show the same image are joined first, so that no page is seen both in training and in a test.
The order of the joined groups is that of a hash of seed and name: it depends on nothing else, above all
not on the order in which they come. Shares are of groups, not of demonstrations (ours: what is held out
must be as varied as its share says).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from types import MappingProxyType
from typing import Literal, get_args

from epimem.errors import ConfigError
from epimem.schema.ids import sha256

Split = Literal["train", "dev", "test"]
SHARES: Mapping[Split, float] = MappingProxyType({"train": 0.8, "dev": 0.1, "test": 0.1})


def split_groups(
    groups: Iterable[str],
    seed: int,
    shares: Mapping[Split, float] = SHARES,
    *,
    images: Mapping[str, Collection[str]] = MappingProxyType({}),
) -> dict[str, Split]:
    """Return the split of each group.

    Where there are as many groups as splits with a share above 0 (three by default), none of these is
    empty; with fewer, the larger shares come first. Joined groups count as one.

    Args:
        groups: their names; of equal names the first counts.
        seed: another seed deals otherwise.
        shares: of each split, 0..1, together 1.
        images: the ids of the images that each group shows.

    Raises:
        ConfigError: the shares are not shares.
    """
    _check(shares)
    joined = _joined(sorted(set(groups)), images)
    joined.sort(key=lambda names: sha256(f"{seed}\0{names[0]}".encode()))
    found: dict[str, Split] = {}
    at = 0
    for split, count in _counts(len(joined), shares).items():
        for names in joined[at : at + count]:
            found.update(dict.fromkeys(names, split))
        at += count
    return dict(sorted(found.items()))


def _check(shares: Mapping[Split, float]) -> None:
    known = get_args(Split)
    if not set(shares) <= set(known):
        raise ConfigError(f"the splits are {', '.join(known)}", field="shares", got=str(shares))
    if any(share < 0 for share in shares.values()) or abs(sum(shares.values()) - 1) > 1e-9:
        raise ConfigError("shares are 0..1 and 1 together", field="shares", got=str(shares))


def _joined(names: Collection[str], images: Mapping[str, Collection[str]]) -> list[list[str]]:
    """Return groups that are linked by images, each sorted; a group without links stands alone."""
    root = {name: name for name in names}

    def top(name: str) -> str:
        while root[name] != name:
            root[name] = root[root[name]]
            name = root[name]
        return name

    first: dict[str, str] = {}
    for name in names:
        for image in images.get(name, ()):
            root[top(name)] = top(first.setdefault(image, name))
    found: dict[str, list[str]] = {}
    for name in names:
        found.setdefault(top(name), []).append(name)
    return list(found.values())


def _counts(total: int, shares: Mapping[Split, float]) -> dict[Split, int]:
    """Return how many groups each split gets: the largest remainders round up, none stays empty."""
    wanted = [split for split in get_args(Split) if shares.get(split, 0) > 0]
    wanted.sort(key=lambda split: -shares[split])  # stable: of equal shares train comes first
    least = {split: int(at < total) for at, split in enumerate(wanted)}
    exact = {split: total * shares[split] for split in wanted}
    counts = {split: max(least[split], int(exact[split])) for split in wanted}
    while sum(counts.values()) != total:
        missing = sum(counts.values()) < total
        step = 1 if missing else -1
        open_ = [split for split in wanted if missing or counts[split] > least[split]]
        # The one that is furthest from its share, in the direction of the step.
        split = max(open_, key=lambda each: step * (exact[each] - counts[each]))
        counts[split] += step
    return counts
