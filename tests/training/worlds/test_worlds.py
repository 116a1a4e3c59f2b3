"""The demonstrations of all worlds: sound, reproducible, and of houses that no other group has."""

import json
from collections import Counter

import pytest

from controllers.prompts import OPERATIONS
from epimem.errors import NotFoundError
from training.demonstrations.checks import check
from training.demonstrations.codec import to_plain
from training.demonstrations.record import pictures_of
from training.demonstrations.store import DemonstrationSet
from training.worlds import OF_A_BANK, WORLDS, demonstrations

from .conftest import COUNT, SEED


def test_each_world_gives_as_many_of_each_operation_as_were_asked_for(drawn):
    found = Counter((item.provenance.source, item.operation) for item, _ in drawn)
    assert found == {
        (f"world:{name}", operation): COUNT for name in WORLDS for operation in OPERATIONS
    }


def test_every_demonstration_passes_the_five_checks_and_is_read_back_from_its_reply(drawn):
    for item, _ in drawn:
        assert check(item) is None
        operation = OPERATIONS[item.operation]
        reply = json.loads(json.dumps(operation.target(item.request, item.value)))
        assert operation.parse(item.request, reply) == item.value


def test_the_same_seed_gives_the_same_demonstrations_and_fewer_are_the_first_of_more(drawn):
    count = OF_A_BANK - 4
    again = [item for item, _ in demonstrations("charts", seed=SEED, count=count)]
    first = [item for item, _ in drawn[: len(again)]]
    assert [to_plain(item) for item in again] == [to_plain(item) for item in first]
    other = [item.id for item, _ in demonstrations("charts", seed=SEED + 1, count=1)]
    assert not {item.id for item, _ in drawn} & set(other)
    assert len({item.id for item, _ in drawn}) == len(drawn)


def test_no_house_and_no_page_stands_in_two_groups():
    groups_of = {}
    for item, pictures in demonstrations(
        "charts", seed=SEED, count=3 * OF_A_BANK, operations=("derive", "merge")
    ):
        told = [picture.image_id for picture in pictures] + houses(item)
        for thing in told:
            groups_of.setdefault(thing, set()).add(item.group)
    assert len(set.union(*groups_of.values())) == 3
    assert all(len(groups) == 1 for groups in groups_of.values())


def houses(item):
    """The houses that a request speaks of, by the scope of lessons and the public house of runs."""
    plain = json.dumps(item.request, default=plain_of)
    return [
        part.split('"')[0]
        for mark in ('"scope": "charts, ', '"house": "')
        for part in plain.split(mark)[1:]
    ]


def plain_of(part):
    if hasattr(part, "plain"):
        return part.plain()
    return getattr(part, "__dict__", str(part))


def test_the_pictures_that_come_along_are_those_of_the_request_and_no_two_groups_share_one(drawn):
    groups_of, shown = {}, 0
    for item, pictures in drawn:
        assert list(pictures) == list(pictures_of(item.request))
        for picture in pictures:
            groups_of.setdefault(picture.png(10**9), set()).add(item.group)
            shown += 1
    assert shown > 150
    assert all(len(groups) == 1 for groups in groups_of.values())


def test_a_set_takes_them_with_their_pictures_and_gives_them_back(drawn, tmp_path):
    some = [item for item, _ in drawn[:16]]
    made = DemonstrationSet.create(tmp_path / "set")
    for item in some:
        made.add(item)
    made.finish(0)
    made.close()
    found = list(DemonstrationSet.open(tmp_path / "set").read())
    assert [item.value for item in found] == [item.value for item in some]
    assert [to_plain(item) for item in found] == [to_plain(item) for item in some]


def test_the_words_for_one_fact_vary(of):
    guidance = {draft.guidance for item in of("derive") for draft in item.value.drafts}
    shapes = {text.split()[0] for text in guidance}
    assert len(shapes) >= 5


def test_an_unknown_world_is_refused_by_name():
    with pytest.raises(NotFoundError, match="charts, tables, ledgers"):
        next(demonstrations("maps", seed=0, count=1))


def test_operations_can_be_chosen():
    found = [
        item.operation
        for item, _ in demonstrations("tables", seed=0, count=2, operations=("gate", "select"))
    ]
    assert found == ["gate", "select", "gate", "select"]
