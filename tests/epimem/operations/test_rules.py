from __future__ import annotations

import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from epimem.operations import rules
from epimem.operations.rules import Standing
from epimem.schema.lesson import Support
from epimem.schema.tree import Conflict, ConflictSide, Node

SOURCES = ("oracle", "verifier", "peer", "self", "none")


def supports(*groups: tuple[int, str, str]) -> list[Support]:
    """Make supports: (how many questions, source, organisation), all questions distinct."""
    made: list[Support] = []
    for count, source, organisation in groups:
        made += [
            Support(
                question_key=f"q{len(made) + at}",
                verdict_source=source,  # type: ignore[arg-type]
                organisation=organisation,
            )
            for at in range(count)
        ]
    return made


def copies(times: int) -> list[Support]:
    return [Support(question_key="q", verdict_source="oracle", organisation="one")] * times


def seen_by(organisation: str) -> list[Support]:
    return [Support(question_key="q0", verdict_source="oracle", organisation=organisation)]


def conflict(first: int = 0, second: int = 0, **fields: Any) -> Conflict:
    """Make a conflict with that many later questions on each side."""
    return Conflict(
        first=ConflictSide(statement="so", later=tuple(f"f{n}" for n in range(first))),
        second=ConflictSide(statement="not so", later=tuple(f"s{n}" for n in range(second))),
        **fields,
    )


FOUR = supports((2, "oracle", "one"), (2, "oracle", "two"))
EIGHT = supports((4, "oracle", "one"), (4, "oracle", "two"))
CLEAN = Standing()

TABLE: list[tuple[str, list[Support], Standing, list[Conflict], int]] = [
    ("nothing", [], CLEAN, [], 0),
    ("one question", supports((1, "oracle", "one")), CLEAN, [], 0),
    ("five copies of one question", copies(5), CLEAN, [], 0),
    ("no question named", [Support(question_key="")] * 5, CLEAN, [], 0),
    ("one question of two organisations", supports((1, "peer", "a")) + seen_by("b"), CLEAN, [], 0),
    ("two questions of no verdict", supports((2, "none", "one")), CLEAN, [], 1),
    ("three of an oracle", supports((3, "oracle", "one")), CLEAN, [], 1),
    ("four of an oracle, two organisations", FOUR, CLEAN, [], 2),
    ("four of an oracle, one organisation", supports((4, "oracle", "one")), CLEAN, [], 2),
    ("five of an oracle, one organisation", supports((5, "oracle", "one")), CLEAN, [], 2),
    ("four of a verifier", supports((4, "verifier", "one")), CLEAN, [], 2),
    ("four of peers, one organisation", supports((4, "peer", "one")), CLEAN, [], 2),
    ("four self-judged: 0.38", supports((4, "self", "one")), CLEAN, [], 1),
    (
        "four self-judged, two organisations: 0.478",
        supports((2, "self", "one"), (2, "self", "two")),
        CLEAN,
        [],
        1,
    ),
    (
        "five self-judged, three organisations: 0.556",
        supports((2, "self", "one"), (2, "self", "two"), (1, "self", "three")),
        CLEAN,
        [],
        2,
    ),
    ("five self-judged, one organisation", supports((5, "self", "one")), CLEAN, [], 1),
    (
        "one oracle, three without verdict: 0.571",
        supports((1, "oracle", "one"), (2, "none", "two"), (1, "none", "three")),
        CLEAN,
        [],
        2,
    ),
    ("four and one contradiction", FOUR, Standing(hurt=1), [], 1),
    ("eight and one contradiction", EIGHT, Standing(hurt=1), [], 2),
    ("q10 = 0.594", FOUR, Standing(helped=2, hurt=1), [], 1),
    ("q10 = 0.632", FOUR, Standing(helped=3, hurt=1), [], 2),
    ("q10 = 0.584", FOUR, Standing(helped=8, hurt=4), [], 1),
    ("q10 = 0.604", FOUR, Standing(helped=9, hurt=4), [], 2),
    (
        "base 0.2, 49 of 100 right in use",
        FOUR,
        Standing(used_right=49, used_wrong=51, base_right=20, base_wrong=80),
        [],
        2,
    ),
    (
        "base 0.8, 49 of 100 right in use",
        FOUR,
        Standing(used_right=49, used_wrong=51, base_right=80, base_wrong=20),
        [],
        1,
    ),
    (
        "the only use was wrong",
        FOUR,
        Standing(used_wrong=1, base_right=100),
        [],
        2,
    ),
    (
        "one wrong of ten at base 1",
        FOUR,
        Standing(used_right=9, used_wrong=1, base_right=100),
        [],
        2,
    ),
    ("all right at base 1", FOUR, Standing(used_right=50, base_right=100), [], 2),
    (
        "two wrong of ten at base 1",
        FOUR,
        Standing(used_right=8, used_wrong=2, base_right=100),
        [],
        1,
    ),
    ("19 verdicts without it", FOUR, Standing(used_wrong=10, base_right=19), [], 2),
    ("20 verdicts without it", FOUR, Standing(used_wrong=10, base_right=20), [], 1),
    ("9 verdicts with it", FOUR, Standing(used_wrong=9, base_right=20), [], 2),
    (
        "P = 0.887 at base 0.5",
        FOUR,
        Standing(used_right=3, used_wrong=7, base_right=10, base_wrong=10),
        [],
        2,
    ),
    (
        "P = 0.967 at base 0.5",
        FOUR,
        Standing(used_right=2, used_wrong=8, base_right=10, base_wrong=10),
        [],
        1,
    ),
    ("an open conflict", EIGHT, CLEAN, [conflict()], 1),
    ("a conflict, two ahead", EIGHT, CLEAN, [conflict(2, 0)], 1),
    ("a conflict, three ahead", EIGHT, CLEAN, [conflict(3, 0)], 2),
    ("a conflict lost", EIGHT, CLEAN, [conflict(1, 4)], 1),
    ("one won, one lost", EIGHT, CLEAN, [conflict(3, 0), conflict(0, 3)], 1),
    ("a loser with more help", EIGHT, Standing(helped=50), [conflict(0, 3)], 1),
    ("a loser that caught up", EIGHT, CLEAN, [conflict(5, 3, leader="second")], 1),
    ("a loser that leads by three", EIGHT, CLEAN, [conflict(6, 3, leader="second")], 2),
    ("a winner that lost its lead", EIGHT, CLEAN, [conflict(3, 5, leader="first")], 2),
    ("a review for it", EIGHT, CLEAN, [conflict(0, 9, settled="first")], 2),
    ("a review against it", EIGHT, CLEAN, [conflict(9, 0, settled="second")], 1),
    ("three of an oracle, much help", supports((3, "oracle", "one")), Standing(helped=99), [], 1),
]


@pytest.mark.parametrize(
    ("given_supports", "standing", "conflicts", "expected"),
    [row[1:] for row in TABLE],
    ids=[row[0] for row in TABLE],
)
def test_the_worked_table(
    given_supports: list[Support], standing: Standing, conflicts: list[Conflict], expected: int
) -> None:
    assert rules.level(given_supports, standing, conflicts) == expected
    assert rules.level(given_supports * 2, standing, conflicts) == expected


@pytest.mark.parametrize(
    ("given_supports", "expected"),
    [
        ([], 0.0),
        (supports((1, "oracle", "one")), 0.5),
        (supports((2, "oracle", "one")), 0.75),
        (supports((3, "oracle", "one")), 1 - 0.5 * 0.5 * 0.75),
        (supports((1, "self", "one"), (2, "oracle", "one")), 1 - 0.5 * 0.5 * (1 - 0.075)),
        (supports((4, "peer", "one")), 1 - 0.7**2 * 0.85**2),
        (supports((2, "none", "a"), (1, "none", "b")), 1 - 0.95**3),
    ],
)
def test_strength_is_one_minus_the_product_of_doubts(
    given_supports: list[Support], expected: float
) -> None:
    assert rules.strength(given_supports) == pytest.approx(expected, abs=1e-12)


def test_a_question_counts_with_its_best_source() -> None:
    seen = [
        Support(question_key="q", verdict_source=source, organisation="one")
        for source in ("self", "oracle", "none")
    ]
    assert rules.strength(seen) == pytest.approx(0.5)


def test_a_question_of_two_organisations_counts_once_where_it_weighs_most() -> None:
    first = supports((2, "oracle", "one"))
    shared = [
        Support(question_key="shared", verdict_source="oracle", organisation="one"),
        Support(question_key="shared", verdict_source="peer", organisation="two"),
    ]
    assert rules.strength(first + shared[1:]) == pytest.approx(1 - 0.25 * 0.7)
    assert rules.strength(first + shared) == pytest.approx(1 - 0.25 * 0.7)


SUPPORT = st.builds(
    Support,
    question_key=st.sampled_from([f"q{n}" for n in range(8)]),
    verdict_source=st.sampled_from(SOURCES),
    organisation=st.sampled_from(["one", "two", "three"]),
)
COUNT = st.one_of(st.integers(0, 12), st.integers(0, 400))
STANDING = st.builds(
    Standing,
    helped=COUNT,
    hurt=COUNT,
    used_right=COUNT,
    used_wrong=COUNT,
    base_right=COUNT,
    base_wrong=COUNT,
)
CONFLICT = st.builds(
    conflict,
    first=st.integers(0, 5),
    second=st.integers(0, 5),
    leader=st.sampled_from([None, "first", "second"]),
)


@settings(max_examples=60, deadline=None)
@given(given_supports=st.lists(SUPPORT, max_size=20), seed=st.integers(0, 99), standing=STANDING)
def test_the_order_of_supports_does_not_matter(
    given_supports: list[Support], seed: int, standing: Standing
) -> None:
    shuffled = list(given_supports)
    random.Random(seed).shuffle(shuffled)
    assert rules.strength(shuffled) == rules.strength(given_supports)
    assert rules.level(shuffled, standing) == rules.level(given_supports, standing)
    assert rules.strength(given_supports * 2) == rules.strength(given_supports)


@settings(max_examples=80, deadline=None)
@given(
    given_supports=st.one_of(st.lists(SUPPORT, max_size=20), st.just(EIGHT)),
    standing=STANDING,
    name=st.sampled_from(["hurt", "used_wrong"]),
    more=st.integers(1, 50),
)
def test_more_failures_never_raise_a_level(
    given_supports: list[Support], standing: Standing, name: str, more: int
) -> None:
    worse = standing.model_copy(update={name: getattr(standing, name) + more})
    assert rules.level(given_supports, worse) <= rules.level(given_supports, standing)


@settings(max_examples=80, deadline=None)
@given(
    given_supports=st.one_of(st.lists(SUPPORT, max_size=20), st.just(EIGHT)),
    standing=STANDING,
    conflicts=st.lists(CONFLICT, max_size=3),
    added=CONFLICT,
)
def test_more_conflicts_never_raise_a_level(
    given_supports: list[Support],
    standing: Standing,
    conflicts: list[Conflict],
    added: Conflict,
) -> None:
    before = rules.level(given_supports, standing, conflicts)
    assert rules.level(given_supports, standing, [*conflicts, added]) <= before


@settings(max_examples=80, deadline=None)
@given(standing=STANDING, right=COUNT)
def test_one_wrong_use_never_kills(standing: Standing, right: int) -> None:
    before = standing.model_copy(update={"used_right": right, "used_wrong": 0})
    after = before.model_copy(update={"used_wrong": 1})
    assert rules.level(EIGHT, after) == rules.level(EIGHT, before)


@settings(max_examples=60, deadline=None)
@given(given_supports=st.lists(SUPPORT, max_size=20), standing=STANDING, count=st.integers(0, 50))
def test_feedback_alone_never_makes_a_group_of_less_support(
    given_supports: list[Support], standing: Standing, count: int
) -> None:
    distinct = len({item.question_key for item in given_supports})
    praised = standing.model_copy(update={"helped": standing.helped + count})
    reached = rules.level(given_supports, praised)
    assert reached < 2 or distinct >= 4
    assert (reached == 0) == (distinct < 2)


def node_of(lessons: list[Node], **fields: Any) -> Node:
    values = {
        "node_id": "category",
        "namespace": "tests",
        "kind": "summary",
        "height": 1,
        "form": "guidance",
        "guidance": "together",
        "supported_by": tuple(lesson.node_id for lesson in lessons),
    }
    return Node(**{**values, **fields})


def test_a_fourth_question_makes_a_rule(grove: Any) -> None:
    lessons = [grove.lesson(f"q{n}") for n in range(4)]
    assert rules.support(lessons) == 4
    assert rules.relevel(node_of(lessons[:3]), lessons, CLEAN).kind == "summary"
    assert rules.relevel(node_of(lessons), lessons, CLEAN).kind == "rule"
    assert rules.relevel(node_of(lessons[:1]), lessons, CLEAN).kind == "category"


def test_a_rule_that_stops_qualifying_is_demoted_and_its_text_stays(grove: Any) -> None:
    lessons = [grove.lesson(f"q{n}") for n in range(4)]
    rule = rules.relevel(node_of(lessons), lessons, CLEAN)
    demoted = rules.relevel(rule, lessons, Standing(hurt=1))
    assert (rule.kind, demoted.kind) == ("rule", "summary")
    assert demoted.guidance == rule.guidance
    assert rules.relevel(demoted, lessons, CLEAN) == rule


def test_guidance_without_two_supports_is_taken_back(grove: Any) -> None:
    lessons = [grove.lesson("same"), grove.lesson("same")]
    bare = rules.relevel(node_of(lessons, cautions=("mind",)), lessons, CLEAN)
    assert bare.kind == "category"
    assert (bare.guidance, bare.cautions, bare.supported_by) == ("", (), ())


def test_lessons_that_name_no_question_count_for_nothing(grove: Any) -> None:
    lessons = [grove.lesson("q"), grove.lesson(supports=(Support(question_key=""),))]
    assert rules.support(lessons) == 1
    assert rules.question_keys(lessons) == {"q"}
    assert rules.supports_of([*lessons, node_of(lessons)]) == rules.supports_of(lessons[:1])


def test_a_lesson_keeps_its_kind(grove: Any) -> None:
    lesson = grove.lesson("q")
    assert rules.relevel(lesson, [lesson], Standing(hurt=99)) is lesson
    assert rules.may_select(lesson)


def test_only_the_loser_and_bare_categories_are_not_selected(grove: Any) -> None:
    lessons = [grove.lesson(f"q{n}") for n in range(4)]
    assert not rules.may_select(node_of([], kind="category", guidance=""))
    assert rules.may_select(node_of(lessons, conflicts=(conflict(),)))
    assert rules.may_select(node_of(lessons, conflicts=(conflict(3, 0),)))
    assert not rules.may_select(node_of(lessons, conflicts=(conflict(0, 3),)))
    assert not rules.may_select(node_of(lessons, conflicts=(conflict(2, 0, leader="second"),)))


def test_only_questions_unknown_at_the_opening_are_later(grove: Any) -> None:
    old = [grove.lesson("a"), grove.lesson("b")]
    new = [grove.lesson(f"n{n}") for n in range(3)]
    again = grove.lesson("a")
    opened = Conflict(
        first=ConflictSide(statement="so", items=(old[0].node_id, again.node_id)),
        second=ConflictSide(
            statement="not so", items=(old[1].node_id, *(lesson.node_id for lesson in new))
        ),
        known=("a", "b"),
    )
    first = rules.advance(opened, [*old, *new[:2], again])
    assert (first.first.later, first.second.later) == ((), ("n0", "n1"))
    assert rules.conflict_state(first) == "open"
    second = rules.advance(first, [*old, *new, again])
    assert rules.conflict_state(second) == "second"
    assert second.leader == "second"
    assert rules.advance(second, []) == second


def test_standing_refuses_negative_counts() -> None:
    with pytest.raises(ValueError, match="hurt"):
        Standing(hurt=-1)
