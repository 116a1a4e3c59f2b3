"""Importer of ATIF v1.x documents, alone in a file, one a line, or many in a folder.

The epimem envelope is used where it is there: `extra.epimem` of the document may hold `actors`,
`events`, `task` and `answer`, that of a step its `seq`. Where it is not: one actor per chain, and
`seq` counts the steps by timestamp if every step has one and no chain runs backwards, else in
document order, a chain before the chains embedded in it; a note says which.

Images beside the document are admitted and their paths become `sha256:<image_id>`. Unknown fields
of the document, its agents and steps are kept under their `extra.unknown`; names of references and
scores (`SEALED_KEYS`) inside any `extra` go to the sealed outcome.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

from epimem.errors import ImageError, RecordError
from epimem.schema.atif import ContentPart, ImageSource, Step, Trajectory
from epimem.schema.ids import IdGenerator, uuid7
from epimem.schema.run import (
    IMAGE_PREFIX,
    Actor,
    Answer,
    Backbone,
    Cost,
    Costs,
    Event,
    Native,
    Run,
    System,
    Task,
    step_seq,
)
from harness_adapters.atif_document import AskedTask, Envelope, read_document
from harness_adapters.documents import Document, documents, guarded
from harness_adapters.importer import (
    Admit,
    FieldTally,
    Imported,
    Refused,
    Stamps,
    sealed_outcome,
)
from harness_adapters.pictures import Pictures, from_data_url, leaves, read_beside


class AtifImporter:
    """Reads ATIF documents; see the module."""

    name = "atif"
    help = "Agent Trajectory Interchange Format v1.x, with images beside the document"

    def __init__(self, *, ids: IdGenerator = uuid7, clock: Callable[[], float] = time.time) -> None:
        self._stamps = Stamps(ids, clock)

    def read(self, path: Path, *, admit: Admit) -> Iterator[Imported | Refused]:
        """Yield one run per document; see `Importer.read`."""
        for document in documents(path, (".json", ".jsonl")):
            if isinstance(document, Refused):
                yield document
            else:
                yield guarded(document, partial(_convert, stamps=self._stamps, admit=admit))


def _convert(document: Document, tally: FieldTally, stamps: Stamps, admit: Admit) -> Imported:
    value, replaced = document.parse(tally)
    chain, envelope, sealed = read_document(value, tally)
    pictures = Pictures(admit, tally)
    chain = _map_steps(chain, partial(_admit_images, document=document, pictures=pictures))
    chain = _number(chain, envelope.events, tally)
    chain = _with_envelope(chain, envelope, tally)
    steps = sorted(_all_steps(chain), key=lambda step: step_seq(step) or 0)
    run = Run(
        run_id=stamps.ids(),
        created_at=stamps.created_at(),
        task=_task(document, chain, envelope.task, steps, pictures),
        system=System(
            harness=chain.agent.name,
            harness_version=chain.agent.version,
            backbones=_backbones(chain),
        ),
        trajectory=chain,
        answer=envelope.answer or _last_answer(chain, steps),
        costs=Costs(mas=_cost(chain, steps)),
        native=Native(format="atif", version=chain.schema_version),
        replaced=replaced,
    )
    outcome = sealed_outcome(run.run_id, sealed)
    return Imported(run, outcome, (), tuple(pictures.images), document.label, tally.report())


# Steps: images, numbers, actors.


def _map_steps(chain: Trajectory, change: Callable[[Step], Step]) -> Trajectory:
    """Return the chain with every step changed, in document order (a chain before its subs)."""
    steps = tuple(change(step) for step in chain.steps)
    subs = chain.subagent_trajectories
    if subs is not None:
        subs = tuple(_map_steps(sub, change) for sub in subs)
    return chain.model_copy(update={"steps": steps, "subagent_trajectories": subs})


def _all_steps(chain: Trajectory) -> list[Step]:
    return [step for part in chain.walk() for step in part.steps]


def _admit_images(step: Step, *, document: Document, pictures: Pictures) -> Step:
    if not any(part.type == "image" for part in step.parts):
        return step
    admit = partial(_admit_part, document=document, pictures=pictures)
    update: dict[str, Any] = {}
    if isinstance(step.message, tuple):
        update["message"] = tuple(map(admit, step.message))
    if step.observation is not None:
        results = [
            result.model_copy(update={"content": tuple(map(admit, result.content))})
            if isinstance(result.content, tuple)
            else result
            for result in step.observation.results
        ]
        update["observation"] = step.observation.model_copy(update={"results": tuple(results)})
    return step.model_copy(update=update)


def _admit_part(part: ContentPart, *, document: Document, pictures: Pictures) -> ContentPart:
    """Admit the image of a part; one that cannot be had becomes a text that says so.

    Raises:
        ImageError: `remote_image_refused` for a path that leaves the document's folder.
    """
    source = part.source
    if not isinstance(source, ImageSource) or source.path.startswith(IMAGE_PREFIX):
        return part
    inline = source.path[:5].lower() == "data:"
    try:
        if inline:
            data, _ = from_data_url(source.path)
        else:
            data = read_beside(document.folder, source.path)
        return pictures.part(data, "data URL" if inline else source.path, source.media_type)
    except ImageError as error:
        is_path = not inline and "://" not in source.path
        if is_path and leaves(document.folder, source.path):
            raise
        return pictures.placeholder(error, "" if inline else source.path)


def _number(chain: Trajectory, events: Sequence[Any], tally: FieldTally) -> Trajectory:
    """Give a `seq` to every step that has none, after those that are there."""
    steps = _all_steps(chain)
    given = [step_seq(step) for step in steps]
    if None not in given:
        return chain
    taken = [seq for seq in given if seq is not None]
    taken += [Event.model_validate(event).seq for event in events]
    order, how = _order(chain)
    missing = [place for place in order if given[place] is None]
    start = max(taken, default=-1) + 1
    numbers = given.copy()
    for offset, place in enumerate(missing):
        numbers[place] = start + offset
    tally.note("seq_assigned", f"{len(missing)} steps, {how}")
    following = iter(numbers)
    return _map_steps(chain, lambda step: _with_seq(step, next(following)))


def _with_seq(step: Step, seq: int | None) -> Step:
    extra = step.extra or {}
    return step.model_copy(
        update={"extra": {**extra, "epimem": {**extra.get("epimem", {}), "seq": seq}}}
    )


def _order(chain: Trajectory) -> tuple[list[int], str]:
    """Return the places of the steps (counted in document order) by time, and how it was found."""
    times: list[float] = []
    for part in chain.walk():
        found = [_seconds(step.timestamp) for step in part.steps if step.timestamp is not None]
        if len(found) < len(part.steps) or found != sorted(found):
            return list(range(len(_all_steps(chain)))), "in document order"
        times += found
    return sorted(range(len(times)), key=lambda place: (times[place], place)), "by timestamp"


def _seconds(timestamp: str) -> float:
    time_of = datetime.fromisoformat(timestamp)
    return (time_of if time_of.tzinfo else time_of.replace(tzinfo=UTC)).timestamp()


def _with_envelope(chain: Trajectory, envelope: Envelope, tally: FieldTally) -> Trajectory:
    actors = envelope.actors
    if not actors:
        parts = chain.walk()
        names = [part.agent.name for part in parts]
        actors = [
            Actor(
                id=name if names.count(name) == 1 else f"{name}#{part.trajectory_id or 0}",
                traj=part.trajectory_id or "",
                backbone=part.agent.model_name,
            ).plain()
            for name, part in zip(names, parts, strict=True)
        ]
        tally.note("actors_assigned", f"{len(actors)} chains")
    extra = chain.extra or {}
    inner = {**extra["epimem"], "actors": actors, "events": envelope.events}
    return chain.model_copy(update={"extra": {**extra, "epimem": inner}})


# What a run says beside its trajectory.


def _task(
    document: Document,
    chain: Trajectory,
    asked: AskedTask,
    steps: Sequence[Step],
    pictures: Pictures,
) -> Task:
    first = next((step for step in steps if step.source == "user"), None)
    if first is None and not asked.question:
        raise RecordError("no user step and no question in extra.epimem.task", field="steps")
    shown = () if first is None else pictures.pages(tuple(first.parts))
    fields: dict[str, Any] = {
        **(asked.model_extra or {}),
        "task_id": asked.task_id or chain.trajectory_id or chain.session_id or document.stem,
        "question": asked.question or (_said(first) if first else ""),
        "pages": asked.pages or shown,
    }
    return Task.model_validate(fields)


def _backbones(chain: Trajectory) -> tuple[Backbone, ...]:
    names = [part.agent.model_name for part in chain.walk()]
    names += [step.model_name for step in _all_steps(chain)]
    return tuple(Backbone(id=name) for name in dict.fromkeys(names) if name)


def _last_answer(chain: Trajectory, steps: Sequence[Step]) -> Answer:
    """Return the last message of the main chain's agent, else the last of any agent."""
    main = [step for step in chain.steps if step.source == "agent" and _said(step)]
    said = main or [step for step in steps if step.source == "agent" and _said(step)]
    return Answer(text=_said(said[-1]) if said else "")


def _said(step: Step) -> str:
    return step.model_copy(update={"observation": None}).text


def _cost(chain: Trajectory, steps: Sequence[Step]) -> Cost:
    """Return the totals of the document, else the sum over all steps."""
    total = chain.final_metrics
    metrics = [step.metrics for step in steps if step.metrics is not None]
    calls = sum(_calls(step) for step in steps)
    if total is not None and total.total_prompt_tokens is not None:
        return Cost(
            tokens_in=total.total_prompt_tokens,
            tokens_out=total.total_completion_tokens or 0,
            cached=total.total_cached_tokens or 0,
            calls=calls,
        )
    return Cost(
        tokens_in=sum(item.prompt_tokens or 0 for item in metrics),
        tokens_out=sum(item.completion_tokens or 0 for item in metrics),
        cached=sum(item.cached_tokens or 0 for item in metrics),
        calls=calls,
    )


def _calls(step: Step) -> int:
    if step.llm_call_count is not None:
        return step.llm_call_count
    return 1 if step.source == "agent" else 0
