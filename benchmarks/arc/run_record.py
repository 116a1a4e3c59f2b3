"""A solving attempt as a run (`epimem-run/1`) and its sealed outcome.

    host     hands out the page
    solver   describes it (that is the question), searches, names the program, looks at the
             decisive grid
    checker  compares with the demonstrations

The submitted grids stay out of the run: where they are right they are the reference. The answer and
the checker's remark name the program in the same words in every run, so that equal programs give
equal statements.
"""

from __future__ import annotations

from benchmarks.arc.picture import Picture
from benchmarks.arc.programs import Program
from benchmarks.arc.solving import Attempt
from benchmarks.arc.tasks import Oracle, describe, house
from epimem.schema.atif import (
    AgentInfo,
    ContentPart,
    ImageSource,
    Observation,
    ObservationResult,
    Step,
    ToolCall,
    Trajectory,
)
from epimem.schema.outcome import Score, SealedOutcome
from epimem.schema.run import (
    IMAGE_PREFIX,
    Actor,
    Answer,
    Cost,
    Costs,
    Event,
    Page,
    Run,
    StepRef,
    System,
    Task,
)

FAMILY = "arc"
HARNESS = "arc-program-search"
VERSION = "1"


def run_of(attempt: Attempt, picture: Picture, *, run_id: str, created_at: str) -> Run:
    """Return the run of an attempt.

    Args:
        attempt: what happened.
        picture: the page of the task; the bank must hold it.
        run_id: a new id.
        created_at: UTC, ISO 8601.
    """
    task = attempt.task
    height, width = picture.pixels.shape[:2]
    return Run(
        run_id=run_id,
        created_at=created_at,
        task=Task(
            task_id=f"arc-{task.task_id}",
            family=FAMILY,
            house=house(task),
            question=describe(task),
            pages=(Page(page=1, image_id=picture.image_id, width=width, height=height),),
            group=task.task_id,
        ),
        system=System(harness=HARNESS, harness_version=VERSION, seed=attempt.seed),
        trajectory=_trajectory(attempt, picture),
        answer=Answer(text=_answer_text(attempt.stated), finish_reason="submitted"),
        costs=Costs(mas=Cost(time_s=attempt.seconds)),
    )


def outcome_of(attempt: Attempt, oracle: Oracle, *, run_id: str) -> SealedOutcome:
    """Return the sealed outcome: the oracle's verdict on the test grids, and the reference."""
    return SealedOutcome(
        run_id=run_id,
        verdict="right" if attempt.right else "wrong",
        source="oracle",
        scores=(
            Score(
                name="test grids",
                value=int(attempt.right),
                scorer="equal cells",
                source="oracle",
            ),
        ),
        reference=oracle.reference(attempt.task.task_id),
    )


def _answer_text(program: Program | None) -> str:
    if program is None:
        return "No program was submitted: the search over short programs ended without success."
    return f"Program: {program.text}."


def _checker_text(program: Program | None) -> str:
    if program is None:
        return "Nothing to check."
    return f"The demonstrations are reproduced when you {program.text}."


def _trajectory(attempt: Attempt, picture: Picture) -> Trajectory:
    page = ImageSource(media_type="image/png", path=f"{IMAGE_PREFIX}{picture.image_id}")
    asked = (
        ContentPart(type="text", text="Solve the task."),
        ContentPart(type="image", source=page),
    )
    chains = (
        _chain("solver", _solver_steps(attempt)),
        _chain("checker", (_step(1, 5, _checker_text(attempt.stated)),)),
    )
    actors = [
        Actor(id=name, traj=name, role=name).plain() for name in ("host", "solver", "checker")
    ]
    return Trajectory(
        schema_version="ATIF-v1.8",
        trajectory_id="host",
        agent=AgentInfo(name="host", version=VERSION),
        steps=(Step(step_id=1, source="user", message=asked, extra=_at(0)),),
        extra={"epimem": {"actors": actors, "events": [_view(picture).plain()]}},
        subagent_trajectories=chains,
    )


def _solver_steps(attempt: Attempt) -> tuple[Step, ...]:
    tried = f"Tried {attempt.result.tries} programs."
    return (
        _tool_step(1, "Describe the task.", "describe", {}, describe(attempt.task)),
        _tool_step(2, "Search programs.", "search", {"budget": attempt.budget}, tried),
        _step(3, 3, _answer_text(attempt.stated)),
    )


def _tool_step(
    number: int, message: str, function: str, arguments: dict[str, int], came_back: str
) -> Step:
    call = ToolCall(tool_call_id=function, function_name=function, arguments=arguments)
    result = ObservationResult(source_call_id=function, content=came_back)
    return Step(
        step_id=number,
        source="agent",
        message=message,
        tool_calls=(call,),
        observation=Observation(results=(result,)),
        extra=_at(number),
    )


def _view(picture: Picture) -> Event:
    """Return the look at the decisive grid: the output of the first demonstration."""
    return Event(
        seq=4,
        kind="view",
        sender="solver",
        step_ref=StepRef(traj="solver", step=3),
        parts=(ContentPart(type="text", text="Decisive grid."),),
        page=1,
        region=picture.outputs[0],
    )


def _chain(name: str, steps: tuple[Step, ...]) -> Trajectory:
    return Trajectory(
        schema_version="ATIF-v1.8",
        trajectory_id=name,
        agent=AgentInfo(name=name, version=VERSION),
        steps=steps,
    )


def _step(number: int, seq: int, text: str) -> Step:
    return Step(step_id=number, source="agent", message=text, extra=_at(seq))


def _at(seq: int) -> dict[str, dict[str, int]]:
    return {"epimem": {"seq": seq}}
