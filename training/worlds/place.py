"""Place: a lesson goes to the category of its house and topic, or opens a new one beside its house."""

from __future__ import annotations

import random

from epimem.protocols import PlaceRequest
from epimem.schema.proposal import NewCategory, Place
from training.worlds.agreement import category_index
from training.worlds.practice import PracticeBank
from training.worlds.shelf import Shelf

CANDIDATES = 8
KNOWN_PLACE = 0.65
"""Share of lessons (ours) whose category is there already."""


def place(bank: PracticeBank, chance: random.Random) -> tuple[PlaceRequest, Place]:
    """Return a request and where the lesson goes."""
    empty = [shelf for shelf in bank.shelves if not shelf.lessons]
    known = not empty or chance.random() < KNOWN_PLACE
    shelf = chance.choice(bank.filled if known else empty)
    lesson = bank.lesson(shelf.house, shelf.topic, chance, right=chance.random() < 0.9).node
    growth = bank.growth
    growth.learn([lesson])
    request = growth.place_requests([lesson], limit=CANDIDATES)[0]
    shown = {view.node.node_id for view in request.candidates}
    if shelf.category_id in shown:
        return request, Place(lesson_id=lesson.node_id, category_id=shelf.category_id)
    new = NewCategory(title=shelf.words.title(), index=category_index(shelf.words))
    parent_id = _beside_house(bank, request, shelf)
    return request, Place(lesson_id=lesson.node_id, new=new, parent_id=parent_id)


def _beside_house(bank: PracticeBank, request: PlaceRequest, shelf: Shelf) -> str | None:
    """Return the group of a shown category of the same house; None where none is shown."""
    own = {each.category_id for each in bank.filled if each.house is shelf.house}
    return next((view.parent_id for view in request.candidates if view.node.node_id in own), None)
