"""A pool over a stream in a folder: whatever interrupts it, the result is that of an undisturbed run."""

from __future__ import annotations

import json

import pytest

from epimem.bank.encoder import TableEncoder
from epimem.config import Config, EncoderConfig
from epimem.errors import BankBusyError, BankConflictError, ControllerError, RecordError
from epimem.memory import ExperienceMemory
from harness_adapters.client import Client
from harness_adapters.evochamber.chamber import Chamber
from harness_adapters.evochamber.running import Folder, run, summary
from harness_adapters.evochamber.settings import settings_of
from harness_adapters.evochamber.sharing import Sharing
from tests.harness_adapters.evochamber.conftest import INSIGHT, Rule, problem, who

SETUP = {"stream": "s", "llm": "rule"}
STREAM = [problem(number, "yz"[number % 2]) for number in range(1, 25)]


def solve(system, user):
    number = int("".join(filter(str.isdigit, user.partition("line ")[2].partition(" ")[0])) or 0)
    agent = int(who(system)[-3:]) if who(system)[-3:].isdigit() else 0
    return "= 6" if INSIGHT in system or (number * 7 + agent) % 3 == 0 else f"= {agent}"


class InterruptedRunError(Exception):
    """Stands for a process that ended."""


class World:
    """A bank and a run on it; each `start` is a process of its own."""

    def __init__(self, path):
        self.path = path
        config = Config(encoder=EncoderConfig(model="none"))
        ExperienceMemory.create(path / "bank", config).close()

    def start(self, *, fail_call=0, fail_write=0, stop_at=0):
        """Run until the end or a fault: of a model call, a write to the bank, or after a task."""
        with Client.local(self.path / "bank", contributor="alpha") as client:
            sharing = Sharing(client, "alpha", self.path / "crops")
            if fail_write:
                sharing.bank = Failing(client, fail_write)
            given = settings_of(agents=6, period=5, fork_after=1)
            rule = Rule(solve, fail_at=fail_call)
            chamber = Chamber(given, rule, TableEncoder(64), sharing=sharing)
            for agent in chamber.population.agents:
                agent.persona = f"You are {agent.name}."
            folder = Folder(self.path / "run")

            def progress(_phase, done, _total):
                if stop_at and done == stop_at:
                    raise InterruptedRunError

            with folder.opened(SETUP):
                return run(chamber, STREAM, folder, progress=progress)

    def written(self):
        """Return what the bank holds, without ids and times."""
        with ExperienceMemory.open(self.path / "bank", read_only=True) as memory:
            runs = [each.run for each in memory.bank.queued_runs(limit=99)]
            ids = [row.node_id for row in memory.bank.index_rows(0) if row.alive]
            lessons = [node.lesson for node in memory.bank.nodes(ids).values()]
        plain = [
            {**each.plain(), "created_at": "", "costs": {}, "retrievals": len(each.retrievals)}
            for each in runs
        ]
        said = sorted(each.canonical() for each in lessons if each is not None)
        return plain, said


class Failing:
    """A client whose n-th write does not come back: it was done, or it was not."""

    def __init__(self, client, at):
        self._client, self._at, self._count = client, at, 0

    def __getattr__(self, name):
        method = getattr(self._client, name)
        if name not in {"contribute", "feedback"}:
            return method

        def call(*given, **more):
            self._count += 1
            if self._count == self._at and self._at % 2:
                raise InterruptedRunError
            done = method(*given, **more)
            if self._count == self._at:
                raise InterruptedRunError
            return done

        return call


def plain(episodes):
    return [
        {
            **each.plain(),
            "own_s": 0,
            "retrieved": {name: len(ids) for name, ids in each.retrieved.items()},
            "spent": {tag: cost["calls"] for tag, cost in each.spent.items()},
        }
        for each in episodes
    ]


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    world = World(tmp_path_factory.mktemp("undisturbed"))
    return plain(world.start()), world.written()


def test_the_stream_of_these_tests_is_worth_it(undisturbed):
    episodes, (runs, lessons) = undisturbed
    assert len(runs) == len(STREAM)
    assert len(lessons) > 3
    assert any(each.get("insights") for each in episodes)
    assert any(each.get("events") for each in episodes)
    assert any(each["retrieved"] for each in episodes)


@pytest.mark.parametrize(
    "faults",
    [
        [{"stop_at": 1}, {"stop_at": 9}],
        [{"fail_call": 1}, {"fail_call": 7}, {"fail_call": 60}],
        [{"fail_write": at} for at in (1, 2, 5, 8, 14, 3)],
        [{"stop_at": 23}, {"fail_write": 1}],
    ],
    ids=["tasks", "calls", "writes", "last"],
)
def test_an_interrupted_run_ends_like_an_undisturbed_one(tmp_path, undisturbed, faults):
    world = World(tmp_path)
    for fault in faults:
        with pytest.raises((InterruptedRunError, ControllerError)):
            world.start(**fault)
    assert plain(world.start()) == undisturbed[0]
    assert world.written() == undisturbed[1]
    before = (tmp_path / "run" / "state.json").read_bytes()
    last = [parcel["key"] for parcel in json.loads(before)["outbox"] if parcel["kind"] == "run"]
    assert len(last) == 1, "what was sent is not kept to be sent again with every task"
    assert plain(world.start()) == undisturbed[0], "a finished run is not run again"
    assert (tmp_path / "run" / "state.json").read_bytes() == before


def test_a_line_without_its_state_and_a_line_cut_short_are_dropped(tmp_path):
    world = World(tmp_path)
    with pytest.raises(InterruptedRunError):
        world.start(stop_at=3)
    path = tmp_path / "run" / "episodes.jsonl"
    lines = path.read_bytes()
    for more in (lines.splitlines(keepends=True)[-1], b'{"number": 4, "ta'):
        path.write_bytes(lines + more)
        with pytest.raises(InterruptedRunError):
            world.start(stop_at=3)
        assert path.read_bytes() == lines


def test_a_folder_is_of_one_run_and_one_process(tmp_path):
    folder = Folder(tmp_path / "run")
    with folder.opened(SETUP):
        with pytest.raises(BankBusyError), Folder(tmp_path / "run").opened(SETUP):
            pass
    with pytest.raises(BankConflictError, match="llm"), folder.opened({**SETUP, "llm": "other"}):
        pass


def test_a_damaged_state_is_named(tmp_path):
    world = World(tmp_path)
    with pytest.raises(InterruptedRunError):
        world.start(stop_at=2)
    path = tmp_path / "run" / "state.json"
    path.write_bytes(path.read_bytes()[:-40])
    with pytest.raises(RecordError):
        world.start()


def test_costs_are_summed_by_phase_and_compared_with_one_agent(tmp_path):
    world = World(tmp_path)
    episodes = world.start()
    found = summary(episodes)
    assert found["tasks"] == 24
    assert found["score"] == pytest.approx(sum(each.score for each in episodes) / 24, abs=1e-4)
    calls = {tag: cost["calls"] for tag, cost in found["spent"].items()}
    assert calls["choose"] == calls["review"] == 24
    alone = found["spent"]["solve"]
    total = sum(cost["tokens_in"] + cost["tokens_out"] for cost in found["spent"].values())
    one = (alone["tokens_in"] + alone["tokens_out"]) / alone["calls"]
    assert found["tokens_over_single"] == pytest.approx(total / (24 * one), rel=1e-3)
    assert json.dumps(summary([]))
