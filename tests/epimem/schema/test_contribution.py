"""What can be contributed is read through its schema, whatever form it comes in."""

from __future__ import annotations

import json

import pytest

from epimem.errors import RecordError
from epimem.schema.contribution import read_contribution, read_lesson
from epimem.schema.lesson import IndexText, Lesson, LessonDraft
from epimem.schema.run import SCHEMA, Run
from epimem.testing import small_run

DRAFT = LessonDraft(
    guidance="Count twice.",
    index=IndexText(scope="mill", question_anchor="how many?"),
    tags=("a", "b"),
)


def test_a_run_is_read_from_a_record_its_canonical_form_and_plain_data():
    run = small_run(1)
    plain = json.loads(run.canonical())
    forms = (run, run.canonical(), plain, {"schema": SCHEMA, **plain})
    assert [read_contribution(form) for form in forms] == [run] * 4
    assert read_contribution(run).content_hash == run.content_hash


def test_a_lesson_is_read_from_a_record_json_and_plain_data():
    forms = (DRAFT, DRAFT.canonical(), DRAFT.plain())
    assert [read_contribution(form) for form in forms] == [DRAFT] * 3


def test_of_a_stored_lesson_the_draft_is_taken():
    stored = Lesson(**DRAFT.model_dump(), contributor="alice", organisation="org", folded=3)
    found = read_contribution(stored)
    assert type(found) is LessonDraft
    assert found == DRAFT


def test_a_lesson_without_index_text_gets_its_title_and_guidance():
    found = read_contribution({"guidance": "Count twice.", "title": "Counting"})
    assert found.index == IndexText(topic="Counting", question_anchor="Count twice.")
    assert read_lesson(DRAFT).index == DRAFT.index


def test_a_run_of_another_schema_is_no_lesson():
    plain = json.loads(small_run(1).canonical())
    with pytest.raises(RecordError) as refused:
        read_contribution({**plain, "schema": "epimem-run/9"})
    assert refused.value.field == "schema"


@pytest.mark.parametrize(
    "change",
    [
        {"guidance": ""},
        {"title": "a" * 300},
        {"tags": "no tuple"},
        {"index": None},
        {"parents": ("\ud83d",)},
        {"verdict_source": "somebody"},
    ],
    ids=str,
)
def test_what_was_changed_without_a_check_is_checked(change):
    with pytest.raises(RecordError):
        read_contribution(DRAFT.model_copy(update=change))
    with pytest.raises(RecordError):
        read_lesson(DRAFT.model_copy(update=change))


def test_text_that_nothing_can_store_is_escaped_in_a_run_that_was_built_in_memory():
    run = small_run(1).model_copy(update={"created_at": "2026\ud83d"})
    found = read_contribution(run)
    assert isinstance(found, Run)
    assert (found.created_at, found.replaced) == ("2026\\ud83d", 1)
