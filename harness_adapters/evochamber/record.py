"""One task of a pool as a run (`epimem-run/1`), a chain for each member, and its sealed outcome."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from epimem.schema.atif import AgentInfo, Step, Trajectory
from epimem.schema.ids import sha256
from epimem.schema.memory_input import MemoryInput
from epimem.schema.outcome import ActorReward, Score, SealedOutcome
from epimem.schema.run import (
    Actor,
    Answer,
    Backbone,
    Cost,
    Costs,
    Page,
    Retrieval,
    Run,
    System,
    Task,
)
from harness_adapters.evochamber.codream import Result
from harness_adapters.evochamber.problem import Attempt, Problem, Turn
from harness_adapters.evochamber.sharing import METHOD
from harness_adapters.evochamber.team import Team
from harness_adapters.llm import Spent

ROLES = ("anchor", "complement", "scout")


def run_of(
    problem: Problem,
    team: Team,
    attempt: Attempt,
    *,
    run_id: str,
    created_at: str,
    pages: tuple[Page, ...],
    given: Iterable[MemoryInput],
    backbone: str,
    spent: Spent,
) -> Run:
    """Return the run of a task: the question, every reply of every member, and the team's answer.

    What memory said stands in no step: only the question and the replies do.
    """
    return Run(
        run_id=run_id,
        created_at=created_at,
        task=Task(
            task_id=problem.task_id, family=problem.niche, question=problem.question, pages=pages
        ),
        system=System(
            harness=METHOD,
            backbones=(Backbone(id=backbone),) if backbone else (),
            # The pool as it was at this task: two runs that say the same are two all the same.
            scaffold_snapshot=run_id,
        ),
        trajectory=_trajectory(problem, team, attempt.turns),
        retrievals=tuple(map(_retrieval, given)),
        answer=Answer(text=attempt.answer, by_actor=attempt.finals, finish_reason="submitted"),
        costs=Costs(
            mas=Cost(
                time_s=round(spent.time_s, 3),
                tokens_in=spent.tokens_in,
                tokens_out=spent.tokens_out,
                calls=spent.calls,
            )
        ),
    )


def outcome_of(problem: Problem, result: Result, run_id: str, *, right: bool) -> SealedOutcome:
    """Return the sealed outcome: the verdict, the team's reward, and the members' own."""
    return SealedOutcome(
        run_id=run_id,
        verdict="right" if right else "wrong",
        source=problem.source,
        scores=(Score(name="team", value=result.reward, source=problem.source),),
        per_actor=tuple(
            ActorReward(actor=name, reward=mark.reward, source=problem.source)
            for name, mark in sorted(result.marks.items())
        ),
    )


def _trajectory(problem: Problem, team: Team, turns: Sequence[Turn]) -> Trajectory:
    asked = Step(step_id=1, source="user", message=problem.question, extra=_at(0))
    chains = []
    for name in team.names:
        own = [(at, turn) for at, turn in enumerate(turns, 1) if turn.agent == name]
        steps = [
            Step(step_id=number, source="agent", message=turn.reply or "(no reply)", extra=_at(at))
            for number, (at, turn) in enumerate(own, 1)
        ]
        if steps:
            chains.append(_chain(name, steps))
    roles = dict(zip(team.names, (*ROLES, *["scout"] * len(team.names)), strict=False))
    actors = [
        Actor(id=chain.agent.name, traj=chain.agent.name, role=roles[chain.agent.name]).plain()
        for chain in chains
    ]
    host = Actor(id="host", traj="host", role="host").plain()
    return Trajectory(
        schema_version="ATIF-v1.8",
        trajectory_id="host",
        agent=AgentInfo(name="host", version="1"),
        steps=(asked,),
        extra={"epimem": {"actors": [host, *actors], "events": []}},
        subagent_trajectories=tuple(chains),
    )


def _chain(name: str, steps: Sequence[Step]) -> Trajectory:
    return Trajectory(
        schema_version="ATIF-v1.8",
        trajectory_id=name,
        agent=AgentInfo(name=name, version="1"),
        steps=tuple(steps),
    )


def _retrieval(given: MemoryInput) -> Retrieval:
    return Retrieval(
        retrieval_id=given.retrieval_id,
        item_ids=tuple(item.node_id for item in given.items),
        shown_text_hash=sha256(given.text.encode("utf-8")),
        images=tuple(crop.image_id for crop in given.crops),
        visual_gate=given.gate,
    )


def _at(seq: int) -> dict[str, dict[str, int]]:
    return {"epimem": {"seq": seq}}
