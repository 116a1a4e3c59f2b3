"""What can be contributed: a run or a ready lesson, read through its schema whatever its form."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from epimem.errors import RecordError
from epimem.schema import strict_json
from epimem.schema.base import Record
from epimem.schema.lesson import IndexText, LessonDraft
from epimem.schema.names import checked_id
from epimem.schema.run import SCHEMA, Run

_DRAFT_FIELDS = frozenset(LessonDraft.model_fields)


def read_contribution(item: object) -> Run | LessonDraft:
    """Return a checked run or lesson from a record, JSON bytes, or plain data.

    A record that was built in memory is read again: `model_copy` and `model_construct` check nothing,
    and one stored row that cannot be read back would stop every later job on it. Of a stored lesson
    the draft is taken.

    Raises:
        RecordError: `bad_json`, `invalid_field`, `invalid_text` or `too_large`, naming the field.
    """
    if isinstance(item, Run):
        return Run.read(_plain(item))
    if isinstance(item, LessonDraft):
        return read_lesson(item)
    if isinstance(item, bytes):
        item = strict_json.loads(item, max_depth=strict_json.RUN_DEPTH, keep_surrogates=True)
    if not isinstance(item, Mapping):
        raise RecordError("a run or a lesson is an object", got=type(item).__name__)
    value = dict(item)
    # The canonical form leaves out what stands at its default, so the schema may not be named.
    if value.get("schema") == SCHEMA or "trajectory" in value:
        return Run.read(value)
    return _findable(LessonDraft.read(value))


def read_lesson(draft: LessonDraft) -> LessonDraft:
    """Return a lesson that was built in memory, checked as if it came from a file.

    Raises:
        RecordError: as `read_contribution`.
    """
    value = {key: item for key, item in _plain(draft).items() if key in _DRAFT_FIELDS}
    return _findable(LessonDraft.read(value))


def _plain(record: Record) -> dict[str, Any]:
    # What does not fit its field is reported by the reading, not warned of here.
    return record.model_dump(mode="json", by_alias=True, exclude_defaults=True, warnings=False)


def _findable(draft: LessonDraft) -> LessonDraft:
    """Return a lesson whose ids can be looked up and whose index text holds something to search for.

    A lesson that was given without index text is found by its title and guidance (ours).
    """
    for parent in draft.parents:
        checked_id(parent, "parents")
    for evidence in draft.evidence:
        checked_id(evidence.image_id, "evidence.image_id")
    if draft.index.text:
        return draft
    index = IndexText(topic=draft.title, question_anchor=draft.guidance)
    return draft.model_copy(update={"index": index})
