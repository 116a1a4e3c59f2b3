"""Shelves of a practice bank: the lessons on one topic of one house, and the nodes of a tree."""

from __future__ import annotations

from dataclasses import dataclass

from epimem.schema.lesson import IndexText, Lesson, LessonDraft, Support
from epimem.schema.tree import Node
from training.worlds.episode import Episode
from training.worlds.house import House
from training.worlds.topic import Topic
from training.worlds.wordings import Words

CONTRIBUTOR = "worlds"


@dataclass(frozen=True, eq=False)
class Known:
    """A lesson of a bank, and the episode it was derived from."""

    node: Node
    episode: Episode

    @property
    def option(self) -> str | None:
        """The option that the lesson names; None where it leaves the mark to its picture."""
        return self.episode.shown_option

    @property
    def positive(self) -> bool:
        """Whether it says what to do."""
        return self.node.polarity == "positive"

    @property
    def unkeyed(self) -> bool:
        """Whether its conditions exclude pages on which a key is printed."""
        assert self.node.lesson is not None
        return "key" in self.node.lesson.applies_when


@dataclass(frozen=True, eq=False)
class Shelf:
    """One topic of one house: the words for it, and its category with lessons, if the bank has any."""

    house: House
    topic: Topic
    words: Words
    category_id: str
    lessons: tuple[Known, ...]

    @property
    def own(self) -> str:
        """The option that carries the meaning."""
        return self.house.options[self.topic.name]


def lesson_node(draft: LessonDraft, node_id: str, namespace: str) -> Node:
    """Return a lesson as a bank stores it, in the inbox."""
    run_id = draft.run_ids[0] if draft.run_ids else None
    lesson = Lesson(
        **{name: getattr(draft, name) for name in LessonDraft.model_fields},
        contributor=CONTRIBUTOR,
        organisation=CONTRIBUTOR,
        supports=(
            Support(
                question_key=draft.question_key,
                verdict_source=draft.verdict_source,
                organisation=CONTRIBUTOR,
                contributor=CONTRIBUTOR,
                run_id=run_id,
            ),
        ),
    )
    return Node(
        node_id=node_id,
        namespace=namespace,
        kind="lesson",
        title=lesson.title,
        index=lesson.index,
        form=lesson.form,
        authority=lesson.authority,
        lesson=lesson,
    )


def category(shelf: Shelf, parent_id: str) -> Node:
    """Return the category of a shelf, named after its first lesson."""
    first = shelf.lessons[0].node
    return inner(
        shelf.category_id,
        parent_id,
        first.namespace,
        height=1,
        title=first.title,
        index=first.index,
    )


def inner(
    node_id: str,
    parent_id: str | None,
    namespace: str,
    *,
    height: int,
    title: str = "",
    index: IndexText | None = None,
) -> Node:
    """Return an inner node that holds nothing yet."""
    return Node(
        node_id=node_id,
        namespace=namespace,
        kind="category",
        height=height,
        parent_id=parent_id,
        title=title,
        index=index or IndexText(),
        form="guidance" if height == 1 else None,
        authority="observed",
    )


def under(node: Node, parent_id: str) -> Node:
    """Return a node under another parent."""
    return node.model_copy(update={"parent_id": parent_id})
