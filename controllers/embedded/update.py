"""Update: what the last attempt at a question stood on, with the region it was read from.

Nobody tells whether an attempt was right, so nothing here calls it so: the memory quotes the attempt's
best statement and its answer as something to check, the other statements as cautions. The statement's
region goes along and away with it. An attempt that says what the memory says already, or nothing, is
the last: another one would hardly say anything else. All of it is ours.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from controllers.embedded.derive import evidence_of
from controllers.embedded.fitting import fitted
from controllers.embedded.gate import visual_gate
from controllers.embedded.statements import Salient, salient_statements
from epimem.protocols import GateRequest, UpdateRequest
from epimem.schema.atif import AgentInfo, Step, Trajectory
from epimem.schema.lesson import Evidence
from epimem.schema.memory_input import Item
from epimem.schema.run import Answer, Run, System, Task, interleave
from epimem.schema.text import LESSON_BYTES
from epimem.schema.working_memory import Update, VisualEvidence, WorkingMemory

ANSWER_BYTES = 400
LAST_LINES = 40
"""Lines of a transcript that are read, from its end."""
CHECK = "Check it before you answer again."
LOOK_AGAIN = "Look again at the region that it was read from."
UNCONFIRMED = "Said in an earlier attempt, not confirmed"
_OWN = "own"


def revise(request: UpdateRequest) -> Update:
    """Return the revision after an attempt; the memory as it was, with stop, where none is due."""
    run = request.trace if isinstance(request.trace, Run) else _run_of(request)
    turns = interleave(run)
    found = salient_statements(run, turns)
    seen = _on_pages(request, evidence_of(run, turns, found)) if found else None
    guidance = _guidance(request, found, seen) if found else request.memory.guidance
    if guidance == request.memory.guidance:
        return _stopping(request.memory)
    visual, evidence = _visual(request, seen)
    return Update(
        guidance=guidance,
        cautions=tuple(fitted(f"{UNCONFIRMED}: “{item.text}”", LESSON_BYTES) for item in found[1:]),
        visual=visual,
        evidence=evidence if visual == "replace" else None,
        gate=_gate(request, found[0].text, evidence),
    )


def _stopping(memory: WorkingMemory) -> Update:
    return Update(
        guidance=memory.guidance,
        applies_when=memory.applies_when,
        cautions=memory.cautions,
        gate=memory.gate,
        stop=True,
    )


def _guidance(request: UpdateRequest, found: Sequence[Salient], seen: VisualEvidence | None) -> str:
    """Quote answer and best statement; say to look again where the statement was read from a page."""
    answer = fitted(request.answer, ANSWER_BYTES)
    said = (
        f"An earlier attempt answered “{answer}”" if answer else "An earlier attempt gave no answer"
    )
    lines = [f"{said} and said: “{found[0].text}”"]
    if seen is not None and request.visual != "none":
        lines.append(LOOK_AGAIN)
    return "\n".join([*lines, CHECK])


def _on_pages(request: UpdateRequest, found: Sequence[Evidence]) -> VisualEvidence | None:
    """Return the first region that lies on a page of the question."""
    sizes = {page.image_id: (page.width, page.height) for page in request.pages}
    for item in found:
        if sizes.get(item.image_id) == (item.region.width, item.region.height):
            return VisualEvidence(image_id=item.image_id, region=item.region, note=item.note)
    return None


def _visual(
    request: UpdateRequest, seen: VisualEvidence | None
) -> tuple[Literal["retain", "replace", "remove"], VisualEvidence | None]:
    """Return what becomes of the evidence, and what is stored then: it goes with its statement."""
    stored = request.memory.evidence
    if request.visual == "none":
        return "retain", None
    if request.visual == "frozen" and stored is not None:
        return "retain", stored
    if seen is not None:
        return "replace", seen
    return ("remove" if stored is not None else "retain"), None


def _gate(request: UpdateRequest, statement: str, evidence: VisualEvidence | None) -> Literal[0, 1]:
    """Decide as for retrieved items, on the words of the attempt: ours speak of a region anyway."""
    if evidence is None:
        return 0
    return visual_gate(
        GateRequest(
            question=request.question,
            question_images=len(request.pages),
            items=(Item(node_id=_OWN, kind="lesson", guidance=statement),),
            crops={_OWN: 1},
            notes={_OWN: (evidence.note,)},
        )
    )


def _run_of(request: UpdateRequest) -> Run:
    """Return a transcript as a run of one agent, each line a turn."""
    assert isinstance(request.trace, str)
    lines = [line for line in request.trace.splitlines() if line.strip()][-LAST_LINES:]
    steps = tuple(
        Step(step_id=number, source="agent", message=line, extra={"epimem": {"seq": number}})
        for number, line in enumerate(lines, 1)
    )
    return Run(
        run_id="transcript",
        created_at="",
        task=Task(task_id="transcript", question=request.question),
        system=System(harness="transcript"),
        trajectory=Trajectory(
            schema_version="ATIF-v1.8",
            trajectory_id="transcript",
            agent=AgentInfo(name="agent", version=""),
            steps=steps,
        ),
        answer=Answer(text=request.answer),
    )
