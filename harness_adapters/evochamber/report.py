"""What a run of a pool was: the paper's four signals (figure 3) as numbers and as one picture."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from epimem.bank.derived import write_whole
from epimem.errors import PluginError
from epimem.schema import strict_json
from epimem.schema.base import Record, StrictFloat, StrictInt
from harness_adapters.evochamber.chamber import Episode

if TYPE_CHECKING:
    from matplotlib.axes import Axes

SHOWN = 10
"""Agents that are drawn by name; the others together."""
OTHERS = "others"
LONG = 24
# Okabe and Ito's colours, told apart by colour-blind readers, then greys.
COLOURS = (
    "#0072B2",
    "#E69F00",
    "#009E73",
    "#CC79A7",
    "#56B4E9",
    "#D55E00",
    "#F0E442",
    "#000000",
    "#7F7F7F",
    "#882255",
    "#BBBBBB",
)


class Signals(Record):
    """The four signals, and what else a run came to.

    Attributes:
        agents: that were an anchor or gave or got an insight, most often anchor first.
        niches: in order of arrival.
        anchors: how often each agent was anchor, one row an agent, one column a niche.
        cumulative: how often each agent had been anchor after each task, one row an agent.
        flow: insights taken in, one row a giver, one column a recipient, both in order of `agents`.
        specialization: after each task, over the last `window` tasks: 1 - H(anchor shares) / log N, in
            [0, 1], N being the pool's size then.
        overall: the same over all tasks, N being the last pool's size, or the agents that were ever an
            anchor where these are more (ours).
        window: tasks.
        unique_anchors: agents that were an anchor.
        score: mean of the checker's marks, in [0, 1].
        by_niche: the same by niche.
        structures: tasks and mean reward of each.
        fired: how often CODREAM fired, for which reason.
        abstained: how often it did so where nobody had solved the task.
        without_recipient: how often it ran with nobody to give to.
        insights: kept.
        rejected: insights that a second attempt did not bear out.
        events: changes of the pool by kind.
        pool: size after each task.
    """

    agents: tuple[str, ...]
    niches: tuple[str, ...]
    anchors: tuple[tuple[StrictInt, ...], ...]
    cumulative: tuple[tuple[StrictInt, ...], ...]
    flow: tuple[tuple[StrictInt, ...], ...]
    specialization: tuple[StrictFloat, ...]
    overall: StrictFloat
    window: StrictInt
    unique_anchors: StrictInt
    score: StrictFloat
    by_niche: dict[str, StrictFloat]
    structures: dict[str, tuple[StrictInt, StrictFloat]]
    fired: dict[str, StrictInt]
    abstained: StrictInt
    without_recipient: StrictInt
    insights: StrictInt
    rejected: StrictInt
    events: dict[str, StrictInt]
    pool: tuple[StrictInt, ...]


def specialization(counts: Sequence[int], agents: int) -> float:
    """Return 1 - H(shares) / log N, in [0, 1]: 0 where all N are anchor alike, 1 where one always is.

    A pool of one counts as specialised, no task as not (ours).

    Args:
        counts: how often each agent was anchor.
        agents: N.
    """
    total = sum(counts)
    if not total:
        return 0.0
    if agents < 2:
        return 1.0
    shares = [count / total for count in counts if count]
    entropy = -sum(share * math.log(share) for share in shares)
    # More agents were anchor than there are now: the pool has shrunk meanwhile.
    return min(max(1 - entropy / math.log(agents), 0.0), 1.0)


def signals(episodes: Sequence[Episode], *, window: int) -> Signals:
    """Return the signals of a run.

    Args:
        episodes: its tasks, in order.
        window: W, tasks of the rolling share.
    """
    anchors = [each.team[0] for each in episodes]
    counts = Counter(anchors)
    named = {name for each in episodes for route in each.routes for name in route} - {*counts}
    agents = (*(name for name, _ in counts.most_common()), *sorted(named))
    niches = tuple(dict.fromkeys(each.niche for each in episodes))
    table = Counter((each.team[0], each.niche) for each in episodes)
    routes = Counter(route for each in episodes for route in each.routes)
    ran = [each for each in episodes if each.fired and not each.abstained]
    pool = tuple(each.pool for each in episodes)
    return Signals(
        agents=agents,
        niches=niches,
        anchors=tuple(tuple(table[name, niche] for niche in niches) for name in agents),
        cumulative=tuple(_running(anchors, name) for name in agents),
        flow=tuple(tuple(routes[giver, name] for name in agents) for giver in agents),
        specialization=tuple(
            _rolling(anchors[max(0, at - window) : at], pool[at - 1])
            for at in range(1, len(anchors) + 1)
        ),
        overall=specialization(list(counts.values()), max([len(counts), *pool[-1:]])),
        window=window,
        unique_anchors=len(counts),
        score=_mean([each.score for each in episodes]),
        by_niche={
            niche: _mean([each.score for each in episodes if each.niche == niche])
            for niche in niches
        },
        structures=_structures(episodes),
        fired=dict(Counter(each.fired for each in episodes if each.fired)),
        abstained=sum(each.abstained for each in episodes),
        without_recipient=sum(not each.recipients for each in ran),
        insights=sum(len(each.insights) for each in episodes),
        rejected=sum(each.rejected for each in episodes),
        events=dict(Counter(event.kind for each in episodes for event in each.events)),
        pool=pool,
    )


def _running(anchors: Sequence[str], name: str) -> tuple[int, ...]:
    counts = np.cumsum([each == name for each in anchors], dtype=np.int64)
    return tuple(int(count) for count in counts)


def _rolling(anchors: Sequence[str], agents: int) -> float:
    return specialization(list(Counter(anchors).values()), agents)


def _structures(episodes: Sequence[Episode]) -> dict[str, tuple[int, float]]:
    rewards: dict[str, list[float]] = {}
    for each in episodes:
        rewards.setdefault(each.structure, []).append(each.reward)
    return {name: (len(found), _mean(found)) for name, found in sorted(rewards.items())}


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values) if values else 0.0


def draw(found: Signals, folder: Path) -> Path:
    """Write `report.json` and `signals.svg` into a folder; return the picture's path.

    Raises:
        PluginError: the library for pictures is not installed; the numbers are written before.
        OSError: the folder cannot be written to.
    """
    write_whole(folder / "report.json", [strict_json.dumps(found.plain())])
    try:
        import matplotlib as mpl
        from matplotlib.figure import Figure
    except ImportError as error:
        raise PluginError(
            "pictures need matplotlib", hint="pip install 'epimem[report]'"
        ) from error
    path = folder / "signals.svg"
    # Fixed names of parts and no date: the same run gives the same bytes.
    with mpl.rc_context({"svg.hashsalt": "epimem", "text.parse_math": False, "font.size": 8}):
        figure = Figure(figsize=(11, 8), layout="constrained")
        grid = figure.add_gridspec(4, 2)
        _draw_anchors(figure.add_subplot(grid[:2, 0]), found)
        _draw_cumulative(figure.add_subplot(grid[:2, 1]), found)
        _draw_flow(figure.add_subplot(grid[2:, 0]), found)
        _draw_shares(figure.add_subplot(grid[2, 1]), found)
        _draw_specialization(figure.add_subplot(grid[3, 1]), found)
        figure.savefig(path, format="svg", metadata={"Date": None})
    return path


def _draw_anchors(axes: Axes, found: Signals) -> None:
    """Panel a: who leads in which niche, each niche's tasks together being 1."""
    names, rows = _grouped(found, found.anchors)
    shares = rows / np.maximum(rows.sum(axis=0, keepdims=True), 1)
    _matrix(axes, shares, names, found.niches, "(a) anchor's share of a niche")
    axes.set_ylabel("agent")


def _draw_cumulative(axes: Axes, found: Signals) -> None:
    """Panel b: how often each agent has been anchor."""
    names, rows = _grouped(found, found.cumulative)
    for number, (name, row) in enumerate(zip(names, rows, strict=True)):
        axes.plot(range(1, len(row) + 1), row, color=_colour(number, names), label=name, lw=1.4)
    axes.set_title("(b) times as anchor", loc="left")
    axes.set_xlabel("task")
    if names:
        axes.legend(loc="upper left", fontsize=7, frameon=False, ncols=2)


def _draw_flow(axes: Axes, found: Signals) -> None:
    """Panel c: insights from giver to recipient."""
    names, rows = _grouped(found, found.flow)
    _, columns = _grouped(found, tuple(map(tuple, rows.T.tolist())))
    _matrix(axes, columns.T, names, names, "(c) insights: giver (row) to recipient (column)")


def _draw_shares(axes: Axes, found: Signals) -> None:
    """Panel d, top: shares of the anchors of the last tasks."""
    names, rows = _grouped(found, found.cumulative)
    if rows.size:
        before = np.pad(rows, ((0, 0), (found.window, 0)))[:, : rows.shape[1]]
        recent = rows - before
        shares = recent / np.maximum(recent.sum(axis=0, keepdims=True), 1)
        colours = [_colour(number, names) for number in range(len(names))]
        axes.stackplot(range(1, rows.shape[1] + 1), shares, colors=colours)
    axes.set_ylim(0, 1)
    axes.set_title(f"(d) anchors of the last {found.window} tasks, and specialization", loc="left")
    axes.set_ylabel("share")


def _draw_specialization(axes: Axes, found: Signals) -> None:
    """Panel d, bottom: 1 - H / log N over the last tasks."""
    axes.plot(range(1, len(found.specialization) + 1), found.specialization, color="black", lw=1.2)
    axes.set_ylim(0, 1)
    axes.set_ylabel("1 - H / log N")
    axes.set_xlabel("task")


def _matrix(
    axes: Axes, values: Any, rows: Sequence[str], columns: Sequence[str], title: str
) -> None:
    axes.set_title(title, loc="left")
    if not values.size:
        return
    axes.imshow(values, cmap="Blues", aspect="auto", vmin=0)
    axes.set_yticks(range(len(rows)), rows)
    axes.set_xticks(
        range(len(columns)), [_short(name) for name in columns], rotation=60, ha="right"
    )


def _grouped(found: Signals, rows: Sequence[Sequence[int]]) -> tuple[list[str], Any]:
    """Return the agents to be drawn and their rows, those after the first ones added up as `others`."""
    values = np.array(rows, dtype=np.float64).reshape(len(rows), -1 if rows else 0)
    names = [_short(name) for name in found.agents[:SHOWN]]
    if len(found.agents) <= SHOWN:
        return names, values
    rest = values[SHOWN:].sum(axis=0, keepdims=True)
    return [*names, OTHERS], np.concatenate([values[:SHOWN], rest])


def _colour(number: int, names: Sequence[str]) -> str:
    return COLOURS[-1] if names[number] == OTHERS else COLOURS[number]


def _short(name: str) -> str:
    text = " ".join(name.split())
    return text if len(text) <= LONG else f"{text[: LONG - 1]}\u2026"
