"""The card of a set: what is in it, in counts, as JSON and as a page to read."""

from __future__ import annotations

import html
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from training.demonstrations.record import FORMAT, ROLE_OF, Demonstration
from training.demonstrations.splits import Split


class Counts:
    """Counts demonstrations as they go by; `card` then says what was seen."""

    def __init__(self) -> None:
        self._operations: Counter[tuple[str, str]] = Counter()
        self._facets: dict[str, Counter[str]] = {
            name: Counter() for name in ("source", "teacher", "reviser", "prompt_version")
        }
        self._empty: Counter[str] = Counter()

    def add(self, demonstration: Demonstration) -> None:
        """Count one accepted demonstration."""
        self._operations[demonstration.operation, demonstration.group] += 1
        for name, counter in self._facets.items():
            value = getattr(demonstration.provenance, name)
            if value:
                counter[value] += 1
        if is_empty(demonstration):
            self._empty[demonstration.operation] += 1

    def card(
        self,
        splits: Mapping[str, Split],
        *,
        images: int,
        aside: Iterable[tuple[str, str]],
        skipped: Iterable[str],
        dealt: Mapping[str, Any],
    ) -> dict[str, Any]:
        """Return the card.

        Args:
            splits: the split of each group.
            images: how many there are.
            aside: (operation, check) of each demonstration that was set aside.
            skipped: the code of each line that could not be read.
            dealt: seed and shares of the splits.
        """
        operations: dict[str, dict[str, int]] = {}
        for (name, group), count in sorted(self._operations.items()):
            row = operations.setdefault(name, {"train": 0, "dev": 0, "test": 0})
            row[splits[group]] += count
        aside = list(aside)
        return {
            "format": FORMAT,
            "demonstrations": self._operations.total(),
            "groups": {"all": len(splits), **_sorted(Counter(splits.values()))},
            "operations": {name: operations[name] for name in ROLE_OF if name in operations},
            **{name: _sorted(counter) for name, counter in self._facets.items()},
            "empty": _sorted(self._empty),
            "images": images,
            "set_aside": _sorted(Counter(check for _, check in aside)),
            "set_aside_by_operation": _sorted(Counter(name for name, _ in aside)),
            "skipped": _sorted(Counter(skipped)),
            **dealt,
        }


def is_empty(demonstration: Demonstration) -> bool:
    """Tell whether the value says "nothing": no selection, no merge, no lesson, no common guidance."""
    value = demonstration.value
    match demonstration.operation:
        case "select":
            return not value.item_ids
        case "merge":
            return value is None
        case "derive":
            return not value.drafts
        case "consolidate":
            return not value.guidance
        case _:
            return False


def markdown(card: Mapping[str, Any]) -> str:
    """Return the card as a page of Markdown."""
    groups = card["groups"]
    lines = [
        "# Demonstrations",
        "",
        f"{card['demonstrations']} demonstrations in {groups['all']} groups, {card['images']} images "
        f"(format {card['format']}). Splits are by group: seed {card['seed']}, shares "
        + ", ".join(f"{name} {share:g}" for name, share in card["shares"].items())
        + ".",
        "",
        *_table(card),
        "",
    ]
    for title, key in _SECTIONS.items():
        lines += [f"## {title}", "", *_listed(card[key]), ""]
    return "\n".join(lines)


_SECTIONS = {
    "Sources": "source",
    "Teachers": "teacher",
    "Revisers": "reviser",
    "Prompt versions": "prompt_version",
    "Values that say nothing": "empty",
    "Set aside, by check": "set_aside",
    "Set aside, by operation": "set_aside_by_operation",
    "Lines that cannot be read": "skipped",
}


def _table(card: Mapping[str, Any]) -> list[str]:
    groups, operations = card["groups"], card["operations"]
    splits = ("train", "dev", "test")
    rows = [
        ["operation", "controller", *splits, "all"],
        ["---", "---", *["---:"] * 4],
    ]
    for name, row in operations.items():
        rows.append([name, ROLE_OF[name], *[row[each] for each in splits], sum(row.values())])
    totals = [sum(row[each] for row in operations.values()) for each in splits]
    rows.append(["all", "", *totals, card["demonstrations"]])
    rows.append(["groups", "", *[groups.get(each, 0) for each in splits], groups["all"]])
    return [f"| {' | '.join(map(str, row))} |" for row in rows]


def _listed(counts: Mapping[str, int]) -> list[str]:
    """Return counts as a list; names come from data sets and users, so they stay within their line."""
    named = {html.escape(" ".join(name.split())): count for name, count in counts.items()}
    return [f"- {name}: {count}" for name, count in named.items()] or ["None."]


def _sorted(counter: Counter[Any]) -> dict[str, int]:
    return {str(name): counter[name] for name in sorted(counter)}
