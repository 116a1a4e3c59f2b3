"""Small banks whose controllers follow scripts, and lessons about a dozen places."""

from __future__ import annotations

import sqlite3
import time
from contextlib import closing

from epimem.bank.intake import Caller
from epimem.config import Config, EncoderConfig, TreeConfig
from epimem.memory import ExperienceMemory
from epimem.protocols import Reply
from epimem.schema.lesson import IndexText, LessonDraft
from epimem.schema.proposal import Consolidate, NewCategory, Place
from epimem.testing import ScriptedMemoryController, ScriptedTreeOrganizer

PLACES = (
    "amber bridge",
    "cobalt harbor",
    "Delft lighthouse",
    "Elgin railway",
    "fossil quarry",
    "granite tunnel",
    "Helsinki tramway",
    "ivory pavilion",
    "jade monastery",
    "Kyoto aqueduct",
    "lunar observatory",
    "Malmö shipyard",
)


def config(**tree):
    return Config(encoder=EncoderConfig(model="table:64"), tree=TreeConfig(**tree))


def new_memory(folder, *, derive=None, gate=None, tree=None, clock=time.time, **scripts):
    """Make a bank whose controllers follow scripts."""
    pair = (ScriptedMemoryController(derive=derive, gate=gate), ScriptedTreeOrganizer(**scripts))
    return ExperienceMemory.create(folder, config(**(tree or {})), controllers=pair, clock=clock)


def reopened(memory, *, name="local", **scripts):
    """Open the same bank once more, as another contributor or with other scripts."""
    pair = (ScriptedMemoryController(), ScriptedTreeOrganizer(**scripts))
    return ExperienceMemory.open(memory.bank.path, caller=Caller(name, name), controllers=pair)


def plain_memory(folder, encoder="none"):
    """Make a bank with the controllers that come along."""
    return ExperienceMemory.create(folder, Config(encoder=EncoderConfig(model=encoder)))


def lesson(number, *, place=0, words="Count the white triangles", **fields):
    index = IndexText(scope=PLACES[place], question_anchor=f"how many stop at the {PLACES[place]}?")
    fields = {"verdict_source": "oracle", "question_key": f"q{number}", **fields}
    return LessonDraft(guidance=f"{words} at the {PLACES[place]}.", index=index, **fields)


def alone(_):
    """Consolidate nothing."""
    return Reply(None, reason="schema")


def new_category_each(request):
    """Open a category for every lesson."""
    new = NewCategory(title="one more", index=request.lesson.index)
    return Place(lesson_id=request.lesson.node_id, new=new)


def everything(request):
    """Say what the first lesson says, supported by all."""
    first = request.lessons[0].lesson
    ids = tuple(node.node_id for node in request.lessons)
    return Consolidate(node_id=request.node.node_id, guidance=first.guidance, supported_by=ids)


def filled(memory, *, places=1, each=3):
    """Contribute `each` lessons for each of some places and organize them."""
    for place in range(places):
        for number in range(each):
            words = f"Count number {number}"
            draft = lesson(f"{place}-{number}", place=place, words=words)
            assert memory.contribute(draft).status == "stored"
    return memory.maintain()


def candidates(memory, question, **options):
    """Return what was weighed for a question, best first."""
    answer = memory.retrieve(question, **options)
    return memory.explain(answer.retrieval_id)["candidates"]


def sound(memory):
    return [problem for problem in memory.check() if problem.code != "orphan"] == []


def all_lessons(memory):
    tree = memory.tree()
    placed = tree.lessons() if tree is not None else ()
    return {node.node_id for node in (*placed, *memory.bank.inbox("default", limit=1000))}


def rows_of(memory, query):
    with closing(sqlite3.connect(memory.bank.path / "bank.db")) as connection:
        return connection.execute(query).fetchall()
