"""The tables of the experiment, its lines, `results.json`, and the few figures that sum it up."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from benchmarks.metro.figures import Figures
from benchmarks.metro.lines import Line, lines_of
from training.evaluation.ends import BenchMeasure, BenchResult

_SIDES = {None: "all", False: "no legend", True: "legend"}
_CURVE = ("none", "text only", "wrong", "frequency", "flat", "product")


def report(folder: Path, figures: Figures) -> int:
    """Print everything and write `results.json`; 0 where every line is reached, else 1."""
    _print_curve(figures)
    _print_arms(figures)
    _print_table("Visual ablation, no legend", figures, "ablation", legend=False)
    _print_table("Sabotage, no legend", figures, "sabotage", legend=False)
    _print_table("After a change of convention, no legend", figures, "change", legend=False)
    _print_measures(figures)
    found = lines_of(figures)
    _print_lines(found)
    written = {
        "lines": [vars(line) for line in found],
        "shares": {
            name: {arm: _shares(figures, name, arm) for arm in figures.arms(name)}
            for name in figures.evaluations()
        },
        "measures": {seed: one.measures for seed, one in figures.results.items()},
        "leaks": figures.leaks,
    }
    (folder / "results.json").write_text(json.dumps(written, indent=1) + "\n", encoding="utf-8")
    return 0 if all(line.reached for line in found) else 1


def headline(figures: Figures) -> BenchResult:
    """Return what controllers are compared by: right answers without a legend where it is decided."""
    right = figures.share(figures.deciding, "product", legend=False)
    over = [
        BenchMeasure(name=f"memory - {arm}", value=it.mean, low=it.low, high=it.high)
        for arm in ("none", "wrong")
        for it in [figures.difference(figures.deciding, "product", arm, legend=False)]
    ]
    crops = float(figures.crops(figures.deciding, "product"))
    always = figures.crops(figures.deciding, "always on")
    shown = BenchMeasure(name="crops of an open gate", value=crops / always if always else 0.0)
    return BenchResult(
        bench="metro, no legend",
        measures=(BenchMeasure(name="right with memory", value=right), *over, shown),
    )


def _shares(figures: Figures, name: str, arm: str) -> dict[str, Any]:
    sides = [side for side in (None, False, True) if name not in {"ablation", "change"} or not side]
    return {
        "crops": figures.crops(name, arm),
        **{_SIDES[legend]: figures.share(name, arm, legend=legend) for legend in sides},
    }


def _print_curve(figures: Figures) -> None:
    print(
        "\nRight answers on maps without a legend, by construction episodes: mean ± sd over seeds"
    )
    sizes = [name for name in figures.evaluations() if name.isdigit()]
    _row(["episodes", *_CURVE, "product, misreading"])
    for size in sizes:
        cells = [_cell(figures, size, arm, legend=False) for arm in _CURVE]
        _row([size, *cells, _cell(figures, f"{size}, misreading", "product", legend=False)])


def _print_arms(figures: Figures) -> None:
    for size in (figures.deciding, figures.largest):
        print(f"\nAll arms at {size} episodes: no legend, legend, all; crops; product - arm")
        _row(["arm", "no legend", "legend", "all", "crops", "product - arm [95 %], by seed"])
        for arm in figures.arms(size):
            shares = [_cell(figures, size, arm, legend=legend) for legend in (False, True, None)]
            over = _difference(figures, size, arm) if arm != "product" else ""
            _row([arm, *shares, str(figures.crops(size, arm)), over])


def _difference(figures: Figures, name: str, arm: str) -> str:
    found = figures.difference(name, "product", arm)
    seeds = ", ".join(map(str, found.by_seed.values()))
    return f"{found.mean:+.3f} [{found.low:+.3f}, {found.high:+.3f}] ({seeds})"


def _print_table(title: str, figures: Figures, name: str, *, legend: bool) -> None:
    print(f"\n{title}")
    _row(["arm", "right", "crops"])
    for arm in figures.arms(name):
        _row([arm, _cell(figures, name, arm, legend=legend), str(figures.crops(name, arm))])


def _print_measures(figures: Figures) -> None:
    print("\nBanks, by seed")
    for name in (f"hits {figures.deciding}", f"hits {figures.largest}"):
        found = figures.measured(name).values()
        lessons, first, regions, decisive = (
            sum(item[key] for item in found) for key in ("lessons", "first", "regions", "decisive")
        )
        chance = sum(item["by_chance"] for item in found) / len(found)
        print(
            f"{name}: first region decisive in {first} of {lessons} ({first / max(1, lessons):.3f}), of "
            f"all regions {decisive} of {regions} ({decisive / max(1, regions):.3f}); one drawn look "
            f"{chance:.3f}"
        )
    for name in (f"rules {figures.deciding}", f"rules {figures.largest}"):
        shown = [
            f"{r['rules']}/{r['of_one']}/{r['operators']}" for r in figures.measured(name).values()
        ]
        print(f"{name} (rules / of one operator / operators): {', '.join(shown)}")
    for name in ("change, with feedback", "change, runs only"):
        shown = [f"{c['lost_after']} of {c['hurt']}" for c in figures.measured(name).values()]
        print(f"{name}, old rule demoted after so many of the contradictions: {', '.join(shown)}")


def _print_lines(found: Iterable[Line]) -> None:
    print("\nLines")
    for line in found:
        print(f"{'reached' if line.reached else 'MISSED '} | {line.name} | {line.found}")


def _cell(figures: Figures, name: str, arm: str, *, legend: bool | None) -> str:
    mean = figures.share(name, arm, legend=legend)
    return f"{mean:.3f} ± {figures.spread(name, arm, legend=legend):.3f}"


def _row(cells: Iterable[str]) -> None:
    print(f"| {' | '.join(cells)} |")
