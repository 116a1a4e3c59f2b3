"""What a run of a pool was: the paper's four signals (figure 3) as numbers and as one picture."""

from __future__ import annotations

import math
import warnings
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from epimem.bank.derived import write_whole
from epimem.errors import PluginError
from epimem.schema import strict_json
from epimem.schema.base import Record, StrictFloat, StrictInt
from harness_adapters.evochamber.chamber import Episode
from harness_adapters.evochamber.running import summary

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

SHOWN = 10
"""Agents that are drawn by name, as many as there are colours; the others together."""
COLUMNS = 30
"""Niches that are drawn by name, the most frequent ones; the others together."""
NUMBERED = 16
"""Columns up to which there is room for a number in each cell."""
OTHERS = "others"
LONG = 24
"""Letters of a name that are drawn."""
# Okabe and Ito's eight and two of Tol's: also as the three kinds of colour-blind readers see them no
# two are closer than 16 in CIELAB, the grey of the others included.
COLOURS = (
    "#0072B2",
    "#E69F00",
    "#009E73",
    "#CC79A7",
    "#56B4E9",
    "#D55E00",
    "#332288",
    "#000000",
    "#882255",
    "#F0E442",
)
GREY = "#CCCCCC"
# Letters stay letters, so that a reader's own fonts show what ours lack; `$` begins no formula; parts
# have fixed names.
STYLE = {
    "svg.fonttype": "none",
    "svg.hashsalt": "epimem",
    "text.parse_math": False,
    "font.size": 8,
    "axes.titlelocation": "left",
}


class Signals(Record):
    """The four signals, and what else a run came to.

    Attributes:
        agents: that were an anchor or gave or got an insight, most often anchor first.
        niches: in order of arrival.
        anchors: how often each agent was anchor, one row an agent, one column a niche.
        shares: the same as shares of a niche's tasks, each column together 1.
        cumulative: how often each agent had been anchor after each task, one row an agent.
        rolling: after each task, the share of the last `window` tasks, or of as many as there were, of
            which each agent was anchor, one row an agent.
        flow: insights taken in, one row a giver, one column a recipient, both in order of `agents`.
        specialization: after each task, over the last `window` tasks: 1 - H(anchor shares) / log N, in
            [0, 1], N being the pool's size then, or the agents that were an anchor where these are more
            (ours).
        overall: the same over all tasks, N being the last pool's size or, again, that of all anchors.
        window: tasks.
        unique_anchors: agents that were an anchor.
        score: mean of the checker's marks, in [0, 1].
        by_niche: the same by niche.
        structures: tasks and mean reward of each.
        fired: how often CODREAM fired, for which reason.
        abstained: how often it did so where nobody had solved the task.
        without_recipient: how often it ran with nobody to give to.
        without_recipient_share: the same as a share of the times that it ran, in [0, 1]; None where it
            never did. Where it abstained it did not run.
        insights: kept.
        rejected: insights that a second attempt did not bear out.
        events: changes of the pool by kind.
        pool: size after each task.
        spent: calls, tokens and seconds, summed by what they were for.
        tokens_over_single: tokens in all by those of a single agent, which is taken to need one "solve"
            call a task at this run's mean cost; None where there was no such call.
        time_over_single: the same for seconds of calls.
    """

    agents: tuple[str, ...]
    niches: tuple[str, ...]
    anchors: tuple[tuple[StrictInt, ...], ...]
    shares: tuple[tuple[StrictFloat, ...], ...]
    cumulative: tuple[tuple[StrictInt, ...], ...]
    rolling: tuple[tuple[StrictFloat, ...], ...]
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
    without_recipient_share: StrictFloat | None
    insights: StrictInt
    rejected: StrictInt
    events: dict[str, StrictInt]
    pool: tuple[StrictInt, ...]
    spent: dict[str, dict[str, StrictFloat | StrictInt]]
    tokens_over_single: StrictFloat | None
    time_over_single: StrictFloat | None


def specialization(counts: Sequence[int], agents: int) -> float:
    """Return 1 - H(shares) / log N, in [0, 1]: 0 where all N are anchor alike, 1 where one always is.

    A pool of one counts as specialised, no task as not (ours).

    Args:
        counts: how often each agent was anchor.
        agents: N; the agents that were an anchor where these are more, as in a pool that has shrunk
            meanwhile (ours).
    """
    total = sum(counts)
    if not total:
        return 0.0
    shares = [count / total for count in counts if count]
    most = max(agents, len(shares))
    if most == 1:
        return 1.0
    entropy = -sum(share * math.log(share) for share in shares)
    # Rounding may carry it past its bounds.
    return min(max(1 - entropy / math.log(most), 0.0), 1.0)


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
    alone = sum(not each.recipients for each in ran)
    pool = tuple(each.pool for each in episodes)
    cumulative = tuple(_running(anchors, name) for name in agents)
    costs = summary(episodes)
    return Signals(
        agents=agents,
        niches=niches,
        anchors=tuple(tuple(table[name, niche] for niche in niches) for name in agents),
        shares=_shares(agents, niches, episodes, table),
        cumulative=cumulative,
        rolling=tuple(_recent(row, window) for row in cumulative),
        flow=tuple(tuple(routes[giver, name] for name in agents) for giver in agents),
        specialization=tuple(
            _rolling(anchors[max(0, at - window) : at], pool[at - 1])
            for at in range(1, len(anchors) + 1)
        ),
        overall=specialization(list(counts.values()), pool[-1] if pool else 0),
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
        without_recipient=alone,
        without_recipient_share=alone / len(ran) if ran else None,
        insights=sum(len(each.insights) for each in episodes),
        rejected=sum(each.rejected for each in episodes),
        events=dict(Counter(event.kind for each in episodes for event in each.events)),
        pool=pool,
        spent=costs["spent"],
        tokens_over_single=costs["tokens_over_single"],
        time_over_single=costs["time_over_single"],
    )


def _shares(
    agents: Sequence[str],
    niches: Sequence[str],
    episodes: Sequence[Episode],
    table: Counter[tuple[str, str]],
) -> tuple[tuple[float, ...], ...]:
    tasks = Counter(each.niche for each in episodes)
    return tuple(tuple(table[name, niche] / tasks[niche] for niche in niches) for name in agents)


def _running(anchors: Sequence[str], name: str) -> tuple[int, ...]:
    counts = np.cumsum([each == name for each in anchors], dtype=np.int64)
    return tuple(int(count) for count in counts)


def _recent(row: Sequence[int], window: int) -> tuple[float, ...]:
    """Return the shares of the last `window` tasks from how often an agent had been anchor."""
    return tuple(
        (count - (row[at - window] if at >= window else 0)) / min(at + 1, window)
        for at, count in enumerate(row)
    )


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

    The same signals give the same bytes with one version of the library.

    Raises:
        PluginError: the library for pictures is not installed; the numbers are written before.
        OSError: the folder cannot be written to.
    """
    write_whole(folder / "report.json", [strict_json.dumps(found.plain())])
    buffer = BytesIO()
    with _styled():
        _figure(found).savefig(buffer, format="svg", metadata={"Date": None})
    path = folder / "signals.svg"
    write_whole(path, [buffer.getvalue()])
    return path


@contextmanager
def _styled() -> Iterator[None]:
    """Draw in our style, whatever a user's own is.

    Raises:
        PluginError: the library for pictures is not installed.
    """
    try:
        import matplotlib as mpl
    except ImportError as error:
        raise PluginError(
            "pictures need matplotlib", hint="pip install 'epimem[report]'"
        ) from error
    with mpl.rc_context(), warnings.catch_warnings():
        # Only the widths of letters are measured with its font; the reader's shows them.
        warnings.filterwarnings("ignore", "Glyph .* missing from font")
        mpl.rcdefaults()
        mpl.rcParams.update(STYLE)
        yield


def _figure(found: Signals) -> Figure:
    """Return the four panels, with one legend for the colours of agents."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(12, 9), layout="constrained")
    figure.suptitle(
        f"tasks: {len(found.pool)}; score: {found.score:.3f}; agents that were anchor: "
        f"{found.unique_anchors}; specialization over all tasks: {found.overall:.3f}",
        fontsize=9,
    )
    grid = figure.add_gridspec(4, 2)
    _draw_anchors(figure.add_subplot(grid[:2, 0]), found)
    _draw_cumulative(figure.add_subplot(grid[:2, 1]), found)
    _draw_flow(figure.add_subplot(grid[2:, 0]), found)
    shares = figure.add_subplot(grid[2, 1])
    _draw_shares(shares, found)
    _draw_specialization(figure.add_subplot(grid[3, 1], sharex=shares), found)
    _draw_legend(figure, found)
    return figure


def _draw_anchors(axes: Axes, found: Signals) -> None:
    """Panel a: who leads in which niche, each niche's tasks together being 1; the numbers are tasks."""
    axes.set_title("(a) tasks as anchor by niche; colour: share of the niche")
    rows, columns, counts = _by_niche(found)
    if not counts.size:
        _nothing(axes, "no task")
        return
    shares = counts / counts.sum(axis=0, keepdims=True)
    _matrix(axes, shares, counts, shares[:SHOWN])
    _swatches(axes, rows, "y")
    # Upright letters take the least room beside each other.
    turn = 30 if len(columns) <= NUMBERED else 90
    axes.set_xticks(
        range(len(columns)), columns, rotation=turn, ha="right", va="center", rotation_mode="anchor"
    )
    image = axes.images[0]
    more = "max" if shares.max() > image.norm.vmax else "neither"
    axes.figure.colorbar(image, ax=axes, fraction=0.03, pad=0.01, extend=more)


def _draw_cumulative(axes: Axes, found: Signals) -> None:
    """Panel b: how often each agent has been anchor; of the others their mean, to be comparable."""
    axes.set_title("(b) times as anchor")
    names, rows = _grouped(found, found.cumulative)
    if not rows.size:
        _nothing(axes, "no task")
        return
    if OTHERS in names:
        rest = max(found.unique_anchors - SHOWN, 1)
        rows[-1] /= rest
        axes.set_title(f"(b) times as anchor; others: mean of {rest}")
    for number, row in enumerate(rows):
        axes.plot(range(1, len(row) + 1), row, **_line(number))
    axes.set_ylim(bottom=0)
    axes.set_xlabel("task")
    _tasks(axes, found)


def _draw_flow(axes: Axes, found: Signals) -> None:
    """Panel c: insights from giver to recipient."""
    axes.set_title("(c) insights taken in, from giver (row) to recipient (column)")
    names, rows = _grouped(found, found.flow)
    if not rows.any():
        _nothing(axes, "no insight was given")
        return
    _, columns = _grouped(found, rows.T.tolist())
    _matrix(axes, columns.T, columns.T, columns.T[:SHOWN, :SHOWN])
    _swatches(axes, names, "y")
    _swatches(axes, names, "x")


def _draw_shares(axes: Axes, found: Signals) -> None:
    """Panel d, top: shares of the anchors of the last tasks."""
    axes.set_title(f"(d) anchors of the last {found.window} tasks, and specialization")
    names, rows = _grouped(found, found.rolling)
    if not rows.size:
        _nothing(axes, "no task")
        return
    colours = [_colour(number) for number in range(len(names))]
    tasks = range(1, rows.shape[1] + 1)
    axes.stackplot(tasks, rows, colors=colours, edgecolor="white", linewidth=0.2)
    axes.set_ylim(0, 1)
    axes.set_ylabel("share")
    axes.tick_params(labelbottom=False)
    _tasks(axes, found)


def _draw_specialization(axes: Axes, found: Signals) -> None:
    """Panel d, bottom: 1 - H / log N over the last tasks; dotted while these are not yet `window`."""
    if not found.specialization:
        _nothing(axes, "no task")
        return
    tasks = range(1, len(found.specialization) + 1)
    first = min(found.window, len(tasks))
    axes.plot(tasks[:first], found.specialization[:first], color="black", lw=0.8, ls=":")
    axes.plot(tasks[first - 1 :], found.specialization[first - 1 :], color="black", lw=1.2)
    axes.set_ylim(-0.03, 1.03)  # a line along 0 or 1 stays apart from the frame
    axes.set_ylabel("1 - H / log N")
    axes.set_xlabel("task")
    _tasks(axes, found)


def _draw_legend(figure: Figure, found: Signals) -> None:
    from matplotlib.lines import Line2D

    names = _named(found)
    if names:
        lines = [Line2D([], [], **{**_line(number), "lw": 3}) for number in range(len(names))]
        figure.legend(
            lines, names, loc="outside lower center", ncols=6, frameon=False, handlelength=3
        )


def _matrix(axes: Axes, values: Any, numbers: Any, named: Any) -> None:
    """Draw a table: colours for `values`, which are not negative, and numbers in the cells.

    Args:
        axes: where.
        values: one row an agent.
        numbers: of the same shape; 0 is not written.
        named: the part of `values` whose highest has the darkest colour: that of all others together is
            often far higher, and would leave every single agent pale.
    """
    top = float(named.max()) or float(values.max())
    axes.imshow(values, cmap="Blues", aspect="auto", vmin=0, vmax=top)
    if values.shape[1] > NUMBERED:
        return
    for row, column in np.argwhere(numbers).tolist():
        shade = "white" if values[row, column] > 0.6 * top else "black"
        text = f"{numbers[row, column]:.0f}"
        axes.text(column, row, text, ha="center", va="center", color=shade, fontsize=7)


def _swatches(axes: Axes, names: Sequence[str], side: Literal["x", "y"]) -> None:
    """Name the rows ("y") or columns ("x") of a table after agents, with a spot of each one's colour."""
    places = list(range(len(names)))
    edge = [-0.012 if side == "y" else -0.02] * len(names)
    spots: dict[str, Any] = {
        "marker": "s",
        "s": 18,
        "c": [_colour(number) for number in places],
        "clip_on": False,
    }
    if side == "y":
        axes.scatter(edge, places, transform=axes.get_yaxis_transform(), **spots)
        axes.set_yticks(places, names)
    else:
        axes.scatter(places, edge, transform=axes.get_xaxis_transform(), **spots)
        axes.set_xticks(places, names, rotation=30, ha="right", rotation_mode="anchor")
    axes.tick_params(axis=side, length=0, pad=8)


def _tasks(axes: Axes, found: Signals) -> None:
    """Let the axis of tasks begin with the first and end with the last one."""
    axes.set_xlim(1, max(len(found.pool), 2))
    axes.locator_params(axis="x", integer=True)


def _nothing(axes: Axes, text: str) -> None:
    """Say that a panel has nothing to show, in place of axes without a meaning."""
    axes.set_axis_off()
    axes.text(0.5, 0.5, text, ha="center", va="center", transform=axes.transAxes)


def _by_niche(found: Signals) -> tuple[list[str], list[str], Any]:
    """Return the agents and niches to be drawn, and the first ones' tasks as anchor."""
    names, rows = _grouped(found, found.anchors)
    columns = [_short(niche) for niche in found.niches]
    if len(columns) <= COLUMNS:
        return names, columns, rows
    frequent = np.argsort(-rows.sum(axis=0), kind="stable")[:COLUMNS]
    kept = np.sort(frequent)  # in order of arrival again
    rest = np.delete(rows, kept, axis=1).sum(axis=1, keepdims=True)
    shown = [columns[place] for place in kept]
    return names, [*shown, OTHERS], np.concatenate([rows[:, kept], rest], axis=1)


def _grouped(found: Signals, rows: Sequence[Sequence[float]]) -> tuple[list[str], Any]:
    """Return the agents to be drawn and their rows, those after the first ones added up as `others`."""
    values = np.array(rows, dtype=np.float64).reshape(len(rows), -1 if rows else 0)
    if len(rows) > SHOWN:
        rest = values[SHOWN:].sum(axis=0, keepdims=True)
        values = np.concatenate([values[:SHOWN], rest])
    return _named(found), values


def _named(found: Signals) -> list[str]:
    """Return the agents to be drawn, the last one standing for all others where there are more."""
    names = [_short(name) for name in found.agents[:SHOWN]]
    return [*names, OTHERS] if len(found.agents) > SHOWN else names


def _colour(number: int) -> str:
    """Return the colour of an agent by its place among those that are drawn."""
    return COLOURS[number] if number < SHOWN else GREY


def _line(number: int) -> dict[str, Any]:
    """Return how an agent's line is drawn: the later half dashed, as a second sign beside the colour."""
    return {"color": _colour(number), "lw": 1.4, "ls": "-" if number * 2 < SHOWN else (0, (4, 1))}


def _short(name: str) -> str:
    """Return a name on one line of at most `LONG` letters; what cannot be shown as its escape.

    A long one loses its middle: names of one family often differ in their end.
    """
    shown = "".join(
        letter if letter.isprintable() else letter.encode("unicode_escape").decode()
        for letter in " ".join(name.split())
    )
    half = LONG // 2
    return shown if len(shown) <= LONG else f"{shown[:half]}\u2026{shown[1 - half :]}"
