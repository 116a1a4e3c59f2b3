"""Agents whose skill is known: what the formulas of EvoChamber do with them.

    python -m benchmarks.evochamber.simulation            ten seeds, a minute or two

All agents begin alike. One solves a task with probability 0.3, and 0.2 more for each insight of the
task's true niche that stands in its prompt, up to 0.9; so skill comes from routed insights alone.
The paper's own figures are printed beside ours and compared with nothing: they are of other tasks and
agents. Structures are switched off: the leader of such agents always lets them vote.
"""

from __future__ import annotations

import argparse
import json
import re
from collections import Counter
from collections.abc import Sequence
from typing import Any

from benchmarks.evochamber.arc_pool import interval
from benchmarks.evochamber.pools import Player, persona
from epimem.bank.encoder import TableEncoder
from harness_adapters.evochamber import report
from harness_adapters.evochamber.chamber import Chamber, Episode
from harness_adapters.evochamber.chance import draw
from harness_adapters.evochamber.problem import Mark, Problem
from harness_adapters.evochamber.running import summary
from harness_adapters.evochamber.settings import settings_of

TASKS, SEEDS = 382, 10
NICHES = ("algebra", "geometry", "number theory", "counting")
BASE, STEP, BEST = 0.3, 0.2, 0.9
PAPER = {
    "specialization": "0.123 +- 0.008",
    "unique anchors": "38 +- 5",
    "N = 20 and N = 3 apart": 0.011,
    "CODREAM triggers": 34,
    "insights": 93,
    "cost over a single agent": 3.6,
}
_ASKED = re.compile(r"task (\d+) of the kind ([a-z ]+)")
_KNOWN = re.compile(r"In ([a-z ]+), check case \d+")
_NAME = re.compile(r"You are (agent-\d+)")


class Bernoulli(Player):
    """A model that is right with a known probability; it speaks the formats of the pool's phases.

    Args:
        seed: for draws.
    """

    name = "bernoulli"

    def __init__(self, seed: int) -> None:
        self.seed = seed

    def said(self, tag: str, system: str, user: str) -> str:
        """Return what it says."""
        found = _ASKED.search(user)
        if tag == "choose" or found is None:
            return "voting"
        number, niche = found.groups()
        if tag in {"imagine", "crystallize"}:
            name = "strategies" if tag == "imagine" else "insights"
            text = f"In {niche}, check case {number}."
            return json.dumps({name: [{"text": text, "reach": "subdomain"}]})
        if tag not in {"solve", "retry"}:
            return "{}"
        named = _NAME.search(system)
        chance = draw(self.seed, tag, number, named[1] if named else "")
        known = Counter(_KNOWN.findall(system))[niche]
        return "= right" if chance < min(BASE + STEP * known, BEST) else f"= {chance:.6f}"


def stream(
    seed: int, tasks: int, niches: Sequence[str], *, mixed_up: bool
) -> list[tuple[str, Problem]]:
    """Return tasks with their true niches, mixed; `mixed_up` gives each a label drawn anew."""
    found = []
    for number in range(1, tasks + 1):
        true = niches[int(draw(seed, "niche", number) * len(niches))]
        label = niches[int(draw(seed, "label", number) * len(niches))] if mixed_up else true
        problem = Problem(f"t-{number}", label, f"Solve task {number} of the kind {true}", _mark)
        found.append((true, problem))
    return found


def _mark(reply: str) -> Mark:
    answer = reply.rpartition("= ")[2]
    return Mark(float(answer == "right"), answer)


def solved(
    seed: int,
    *,
    tasks: int = TASKS,
    niches: Sequence[str] = NICHES,
    mixed_up: bool = False,
    profile: Any = "default",
    **changes: Any,
) -> tuple[list[str], list[Episode], Chamber]:
    """Run a pool over a stream; return true niches, tasks, and the pool at the end."""
    given = settings_of(profile, **{"without": ("structures",), **changes})
    chamber = Chamber(
        given,
        Bernoulli(seed),
        TableEncoder(64),
        seed=seed,
        persona=persona,
    )
    asked = stream(seed, tasks, niches, mixed_up=mixed_up)
    return [true for true, _ in asked], [chamber.solve(each) for _, each in asked], chamber


def niches_of(true: Sequence[str], episodes: Sequence[Episode]) -> dict[str, float]:
    """Return the specialization index of the anchors of each true niche, in [0, 1].

    Counted in the second half of a stream, over the agents that were ever an anchor.
    """
    half = len(episodes) // 2
    later = list(zip(true[half:], episodes[half:], strict=True))
    agents = len({each.team[0] for each in episodes})
    found = {}
    for niche in sorted(set(true)):
        counts = Counter(each.team[0] for name, each in later if name == niche)
        found[niche] = report.specialization(list(counts.values()), agents)
    return found


def by_niche(true: Sequence[str], episodes: Sequence[Episode]) -> float:
    """Return the mean of `niches_of` over the niches, in [0, 1]."""
    found = niches_of(true, episodes)
    return sum(found.values()) / len(found)


def alive(episodes: Sequence[Episode], chamber: Chamber, last: int = 3) -> float:
    """Return the share of the agents of the end that took part in the last third, or half, ..."""
    seen = {name for each in episodes[-(len(episodes) // last) :] for name in each.team}
    names = {agent.name for agent in chamber.population.agents}
    return len(seen & names) / len(names)


def unreached(episodes: Sequence[Episode]) -> float:
    """Return the share of CODREAM's runs that had nobody to give to."""
    ran = [each for each in episodes if each.fired and not each.abstained]
    return sum(not each.recipients for each in ran) / len(ran) if ran else 0.0


def ending(episodes: Sequence[Episode]) -> float:
    """Return the share of the last third of the tasks that was solved."""
    return score(episodes[-(len(episodes) // 3) :])


def score(episodes: Sequence[Episode]) -> float:
    """Return the share of tasks that were solved."""
    return sum(each.score for each in episodes) / len(episodes)


def measured(seed: int) -> dict[str, float]:
    """Return everything that is measured under one seed."""
    true, full, pool = solved(seed)
    other, shuffled, _ = solved(seed, mixed_up=True)
    _, small, _ = solved(seed, agents=3)
    _, literal, grown = solved(seed, profile="paper")
    _, pairs, couple = solved(seed, team=2)
    found = report.signals(full, window=32)
    rolling = found.specialization[31:]
    early: dict[str, float] = {}
    for count in (1, 4):
        for median in ("literal", "seen"):
            _, some, _ = solved(seed, tasks=60, niches=NICHES[:count], median=median)
            early[f"no recipient, {median}, {count} niches"] = unreached(some)
    return {
        "score": score(full),
        "by niche": by_niche(true, full),
        **{f"by niche, {name}": value for name, value in niches_of(true, full).items()},
        "by niche, labels mixed up": by_niche(other, shuffled),
        "specialization": sum(rolling) / len(rolling),
        "unique anchors": found.unique_anchors,
        "CODREAM ran": sum(found.fired.values()) - found.abstained,
        "insights": found.insights,
        "tokens over single": summary(full)["tokens_over_single"],
        "alive": alive(full, pool),
        "alive, teams of two": alive(pairs, couple),
        # Two thirds of the seats: over a half of the stream they have as many as three over a third.
        "alive, teams of two, as many seats": alive(pairs, couple, last=2),
        "largest pool": max(each.pool for each in full),
        "largest pool, paper": max(each.pool for each in literal),
        "pool at the end, paper": len(grown.population.agents),
        "score, N = 3": score(small),
        "score of the last third": ending(full),
        "score of the last third, N = 3": ending(small),
        "score, symmetric": score(solved(seed, transfer="symmetric")[1]),
        **early,
        **{
            f"score, no {part}": score(solved(seed, without=("structures", part))[1])
            for part in ("selector", "codream", "lifecycle")
        },
    }


def compared(rows: Sequence[dict[str, float]]) -> dict[str, list[float]]:
    """Return the differences that are asked for, one a seed."""
    pairs = {
        "by niche: labels true - mixed up": ("by niche", "by niche, labels mixed up"),
        "alive: scout - none": ("alive", "alive, teams of two"),
        "alive: scout - none, as many seats": ("alive", "alive, teams of two, as many seats"),
        "score: N = 20 - N = 3": ("score", "score, N = 3"),
        "last third: N = 20 - N = 3": ("score of the last third", "score of the last third, N = 3"),
        "score: asymmetric - symmetric": ("score", "score, symmetric"),
    }
    pairs |= {
        f"score: full - no {part}": ("score", f"score, no {part}")
        for part in ("selector", "codream", "lifecycle")
    }
    pairs |= {
        f"no recipient, {count} niches: literal - seen": (
            f"no recipient, literal, {count} niches",
            f"no recipient, seen, {count} niches",
        )
        for count in (1, 4)
    }
    return {name: [row[a] - row[b] for row in rows] for name, (a, b) in pairs.items()}


def line(name: str, values: Sequence[float]) -> str:
    """Return a row of the table: mean, 95 % interval over seeds (Student's t), lowest and highest."""
    mean, low, high = interval(values)
    ends = f"{min(values):8.3f} .. {max(values):.3f}"
    return f"{name:44} {mean:8.3f}   [{low:.3f}, {high:.3f}]   {ends}"


def main() -> None:
    """Run and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seeds", type=int, default=SEEDS)
    given = parser.parse_args()
    rows = [measured(seed) for seed in range(given.seeds)]
    for name in rows[0]:
        print(line(name, [row[name] for row in rows]))
    print("\npaired over seeds")
    for name, values in compared(rows).items():
        print(line(name, values))
    print(json.dumps({"the paper has": PAPER}))


if __name__ == "__main__":
    main()
