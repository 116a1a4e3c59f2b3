"""The plain data of an ATIF document before it becomes a trajectory.

Unknown fields move to `extra`, sealed names leave it, and the epimem envelope is taken out.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError

from epimem.errors import RecordError
from epimem.schema.atif import AgentInfo, Step, Trajectory
from epimem.schema.base import record_error
from epimem.schema.run import SEALED_KEYS, Answer, Page
from harness_adapters.documents import Foreign
from harness_adapters.importer import FieldTally, split_sealed

UNKNOWN = "unknown"


class AskedTask(Foreign):
    """The envelope's `task`: any field of a task; what it lacks is taken from the steps."""

    task_id: str = ""
    question: str = ""
    pages: tuple[Page, ...] = ()


@dataclass(frozen=True)
class Envelope:
    """What `extra.epimem` of a document says: task and answer taken out, actors and events."""

    task: AskedTask
    answer: Answer | None
    actors: list[Any]
    events: list[Any]


def read_document(
    value: dict[str, Any], tally: FieldTally
) -> tuple[Trajectory, Envelope, dict[str, Any]]:
    """Return the trajectory, its envelope, and what of its extras must be sealed.

    Raises:
        RecordError: `invalid_field`.
    """
    visible, sealed = _seal_extras(_fold_unknown(value, tally), "")
    sealed = {key.removeprefix(f"{UNKNOWN}."): item for key, item in sealed.items()}
    envelope, visible = _take_envelope(visible)
    return _read_chain(visible), envelope, sealed


def _read_chain(value: dict[str, Any]) -> Trajectory:
    try:
        chain = Trajectory.model_validate(value)
    except ValidationError as error:
        raise record_error(error) from error
    names = [part.trajectory_id or "" for part in chain.walk()]
    if len(set(names)) != len(names):
        raise RecordError("trajectory ids must differ in the whole document", field="trajectory_id")
    for step in (step for part in chain.walk() for step in part.steps):
        own = (step.extra or {}).get("epimem", {})
        if not isinstance(own, dict) or type(own.get("seq", 0)) is not int:
            raise RecordError("`seq` is a whole number", field="steps.extra.epimem")
    return chain


def _fold_unknown(value: dict[str, Any], tally: FieldTally) -> dict[str, Any]:
    """Return the document with the unknown fields of its parts moved to their `extra`."""
    result = _folded(value, set(Trajectory.model_fields), "", tally)
    if isinstance(result.get("agent"), dict):
        known = set(AgentInfo.model_fields)
        result["agent"] = _folded(result["agent"], known, "agent.", tally)
    if isinstance(result.get("steps"), list):
        result["steps"] = [
            _folded(step, set(Step.model_fields), "steps[].", tally)
            if isinstance(step, dict)
            else step
            for step in result["steps"]
        ]
    if isinstance(result.get("subagent_trajectories"), list):
        result["subagent_trajectories"] = [
            _fold_unknown(chain, tally) if isinstance(chain, dict) else chain
            for chain in result["subagent_trajectories"]
        ]
    return result


def _folded(
    value: dict[str, Any], known: set[str], where: str, tally: FieldTally
) -> dict[str, Any]:
    unknown = {key: item for key, item in value.items() if key not in known}
    for key in value:
        tally.count(where + key, "extra" if key in unknown else "mapped")
    if not unknown:
        return dict(value)
    result = {key: item for key, item in value.items() if key in known}
    extra = result.get("extra") or {}
    if not isinstance(extra, dict):
        raise RecordError("`extra` is an object", field=f"{where}extra")
    name = UNKNOWN
    while name in extra:
        name += "_"
    result["extra"] = {**extra, name: unknown}
    return result


def _seal_extras(value: Any, where: str) -> tuple[Any, dict[str, Any]]:
    """Take sealed names out of every `extra`; what agents said and tools were given stays."""
    sealed: dict[str, Any] = {}
    if isinstance(value, list):
        items = list(enumerate(value))
        pairs = [_seal_extras(item, f"{where}{place}.") for place, item in items]
        for _, below in pairs:
            sealed |= below
        return [item for item, _ in pairs], sealed
    if not isinstance(value, dict):
        return value, sealed
    result: dict[str, Any] = {}
    for key, item in value.items():
        if key == "extra" and isinstance(item, dict):
            # At the root of the document a sealed name stands alone, so that it can be a reference.
            prefix = "" if not where else f"{where}extra."
            result[key], below = split_sealed(item, SEALED_KEYS, prefix)
        elif key == "arguments":
            result[key], below = item, {}
        else:
            result[key], below = _seal_extras(item, f"{where}{key}.")
        sealed |= below
    return result, sealed


def _take_envelope(value: dict[str, Any]) -> tuple[Envelope, dict[str, Any]]:
    """Return the envelope, and the document without what has its own place in a run."""
    extra = value.get("extra") or {}
    envelope = extra.get("epimem", {}) if isinstance(extra, dict) else None
    if not isinstance(envelope, dict):
        raise RecordError("`extra` and its `epimem` are objects", field="extra.epimem")
    rest = {key: item for key, item in envelope.items() if key not in {"task", "answer"}}
    answer = envelope.get("answer")
    taken = Envelope(
        task=AskedTask.model_validate(envelope.get("task", {})),
        answer=None if answer is None else Answer.model_validate(answer),
        actors=_list(rest, "actors"),
        events=_list(rest, "events"),
    )
    return taken, {**value, "extra": {**extra, "epimem": rest}}


def _list(envelope: dict[str, Any], name: str) -> list[Any]:
    value = envelope.get(name, [])
    if not isinstance(value, list):
        raise RecordError("is a list", field=f"extra.epimem.{name}")
    return value
