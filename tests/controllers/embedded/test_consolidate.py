from __future__ import annotations

from collections.abc import Callable
from itertools import combinations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from controllers.embedded.consolidate import MAX_CAUTIONS, OTHER_CASE, consolidate
from controllers.embedded.disagreement import DISAGREE
from epimem.operations.base import Context
from epimem.operations.registry import apply_proposal
from epimem.protocols import ConsolidateRequest
from epimem.schema.ids import counting_ids
from epimem.schema.proposal import Accepted, Consolidate
from epimem.schema.tree import Conflict, ConflictSide, Node, Tree

Make = Callable[..., Node]
# What the guidance of a house must be about, and what it must not say (read off the pictures).
ABOUT = {
    "metro-rubra": ("white triangle", "circle"),
    "metro-azul": ("white diamonds", "circle"),
    "metro-verda": ("one class of white marker", "circle"),
    "metro-orio": ("white triangles", "circle"),
    "chart-norden": ("leave hatched bars out", "twice"),
    "chart-kite": ("black triangle at the top of the value axis, multiply", "100"),
    "chart-mola": ("count the last bar twice", "hatched"),
    "chart-orchid": ("dashed line", "bar"),
    "ledger-halden": ("subtract amounts in round brackets", "italic"),
    "ledger-brightwater": ("leave amounts printed in italics out", "subtract"),
    "ledger-tarn": ("heading is underlined, multiply the column total by 100", "by 10 "),
    "ledger-quill": ("light blue background as dozens: multiply them by 12", "100"),
}


def tree_of(category: Node, lessons: list[Node]) -> Tree:
    root = Node(node_id="root", namespace="default", kind="category", height=2)
    form = lessons[0].form
    group = category.model_copy(update={"parent_id": "root", "form": form})
    below = [node.model_copy(update={"parent_id": group.node_id}) for node in lessons]
    return Tree.build([root, group, *below], "root")


def applied(category: Node, lessons: list[Node]) -> tuple[Consolidate, Node]:
    """Return the proposal and the node that code makes of it."""
    proposal = consolidate(ConsolidateRequest(category, tuple(lessons)))
    result = apply_proposal(tree_of(category, lessons), proposal, Context(ids=counting_ids()))
    assert isinstance(result, Accepted), result
    return proposal, result.tree.node(category.node_id)


def test_each_house_gets_one_summary_that_all_three_rounds_support(
    houses: dict[str, list[Node]], category: Make
) -> None:
    assert houses.keys() == ABOUT.keys()
    for house, lessons in houses.items():
        proposal, node = applied(category(house), lessons)
        assert proposal.supported_by == tuple(lesson.node_id for lesson in lessons)
        assert (node.kind, node.conflicts) == ("summary", ())
        wanted, unwanted = ABOUT[house]
        assert wanted in node.guidance
        assert unwanted not in node.guidance.split(OTHER_CASE)[0]
        assert node.applies_when in {item.lesson.applies_when for item in lessons if item.lesson}
        assert 3 <= len(node.cautions) <= MAX_CAUTIONS


def test_guidance_is_in_the_words_of_the_lessons(
    houses: dict[str, list[Node]], category: Make
) -> None:
    for house, lessons in houses.items():
        proposal = consolidate(ConsolidateRequest(category(house), tuple(lessons)))
        first, _, case = proposal.guidance.partition(f"\n{OTHER_CASE} ")
        guidance = [lesson.lesson.guidance for lesson in lessons if lesson.lesson]
        conditions = [lesson.lesson.applies_when for lesson in lessons if lesson.lesson]
        assert any(first in text for text in guidance)
        if case:
            condition, _, advice = case.removeprefix("(").partition("): ")
            assert any(condition in text for text in conditions)
            assert any(advice in text for text in guidance)
        assert bool(case) == (house in {"chart-kite", "ledger-tarn"})


def test_a_fourth_question_makes_a_rule_of_every_house(
    houses: dict[str, list[Node]], category: Make
) -> None:
    for house, lessons in houses.items():
        first = lessons[0].lesson
        assert first is not None
        support = first.supports[0].model_copy(update={"question_key": "a fourth question"})
        fourth = first.model_copy(
            update={"supports": (support,), "question_key": "a fourth question"}
        )
        more = lessons[0].model_copy(update={"node_id": f"{house}-3", "lesson": fourth})
        proposal, node = applied(category(house), [*lessons, more])
        assert len(proposal.supported_by) == 4
        assert node.kind == "rule"


def test_houses_never_support_each_other(houses: dict[str, list[Node]], category: Make) -> None:
    groups = [houses[one] + houses[two] for one, two in combinations(houses, 2)]
    for lessons in [*groups, [node for group in houses.values() for node in group]]:
        proposal = consolidate(ConsolidateRequest(category(), tuple(lessons)))
        named = {node_id.rpartition("-")[0] for node_id in proposal.supported_by}
        assert len(named) == 1
        assert len(proposal.supported_by) == 3


def test_two_rounds_with_and_without_the_mark_share_nothing(
    houses: dict[str, list[Node]], category: Make
) -> None:
    for house in ("chart-kite", "ledger-tarn"):
        for pair in ((0, 1), (1, 2)):
            lessons = tuple(houses[house][at] for at in pair)
            proposal = consolidate(ConsolidateRequest(category(), lessons))
            assert (proposal.guidance, proposal.supported_by) == ("", ())


def test_verda_says_what_all_agree_on_and_quotes_what_they_disagree_on(
    houses: dict[str, list[Node]], category: Make
) -> None:
    _, node = applied(category(), houses["metro-verda"])
    assert node.cautions[0].startswith(DISAGREE)
    assert "white circles when counting calls" in node.cautions[0]
    assert "Subtract the white diamonds" in node.cautions[0]


def test_the_order_of_the_lessons_decides_nothing(
    houses: dict[str, list[Node]], category: Make
) -> None:
    for lessons in houses.values():
        straight = consolidate(ConsolidateRequest(category(), tuple(lessons)))
        assert consolidate(ConsolidateRequest(category(), tuple(lessons[::-1]))) == straight


def test_one_question_twice_is_no_common_guidance(lesson: Make, category: Make) -> None:
    lessons = [
        lesson(name, "Leave out the hatched bars.", question_key="one question") for name in "ab"
    ]
    assert consolidate(ConsolidateRequest(category(), tuple(lessons))).guidance == ""


def test_a_contradicting_lesson_opens_a_conflict(lesson: Make, category: Make) -> None:
    lessons = [
        lesson("a", "Multiply the printed value by 10."),
        lesson("b", "Always multiply the printed value by 10."),
        lesson("c", "Multiply the printed value by 100.", applies_when="Charts with a bold axis."),
    ]
    proposal, node = applied(category(), lessons)
    assert proposal.supported_by == ("a", "b")
    (conflict,) = node.conflicts
    assert conflict.first.items == ("a", "b")
    assert conflict.second.items == ("c",)
    assert conflict.second.statement == "Multiply the printed value by 100."
    assert conflict.second.applies_when == "Charts with a bold axis."


def test_two_lessons_that_contradict_each_other_share_no_guidance(
    lesson: Make, category: Make
) -> None:
    lessons = [lesson("a", "Leave out the hatched bars."), lesson("b", "Count the hatched bars.")]
    proposal, node = applied(category(), lessons)
    assert (proposal.guidance, node.kind) == ("", "category")
    (conflict,) = proposal.conflicts
    assert {conflict.first.items, conflict.second.items} == {("a",), ("b",)}


def test_negative_lessons_share_a_whole_caution_and_no_positive_one_supports_it(
    lesson: Make, category: Make
) -> None:
    said = "Every hatched bar counts in the total."
    quoted = f"Judged wrong: “{said}”\nRe-check the step of checker before you rely on it."
    lessons = [
        lesson(name, quoted, polarity="negative", statements=[{"text": said}]) for name in "ab"
    ]
    proposal, node = applied(category(), [*lessons, lesson("c", said)])
    assert proposal.guidance == quoted
    assert proposal.supported_by == ("a", "b")
    assert node.polarity == "negative"
    (conflict,) = proposal.conflicts
    assert conflict.second.items == ("c",)


def test_what_was_judged_wrong_supports_no_advice(lesson: Make, category: Make) -> None:
    wrong = lesson("b", "Leave out the hatched bars twice.", polarity="negative")
    lessons = (lesson("a", "Leave out the hatched bars."), wrong)
    assert consolidate(ConsolidateRequest(category(), lessons)).supported_by == ()


def test_a_contradiction_of_something_else_is_no_conflict_of_the_guidance(
    lesson: Make, category: Make
) -> None:
    lessons = [
        lesson("a", "Leave out the hatched bars. Multiply the printed value by 10."),
        lesson("b", "Leave out the hatched bars."),
        lesson("c", "Multiply the printed value by 100."),
    ]
    proposal, node = applied(category(), lessons)
    assert proposal.guidance == "Leave out the hatched bars."
    assert (proposal.supported_by, node.conflicts) == (("a", "b"), ())


def test_lessons_on_two_sides_of_a_stored_conflict_never_support_one_guidance(
    lesson: Make, category: Make
) -> None:
    lessons = [lesson(name, "Leave out the hatched bars.") for name in "abc"]
    stored = Conflict(
        first=ConflictSide(statement="Leave them out.", items=("a", "b")),
        second=ConflictSide(statement="Count them.", items=("c",)),
    )
    proposal, _ = applied(category(conflicts=(stored,)), lessons)
    assert proposal.supported_by == ("a", "b")


def test_equal_cautions_are_kept_once_and_six_at_most(lesson: Make, category: Make) -> None:
    marks = ("oak", "elm", "ash", "fir", "yew", "bay", "fig")
    lessons = [
        lesson(
            name,
            "Leave out the hatched bars.",
            cautions=("Not shown for other sources.", *(f"{mark} {name} {mark}" for mark in marks)),
        )
        for name in ("one", "two")
    ]
    cautions = consolidate(ConsolidateRequest(category(), tuple(lessons))).cautions
    assert len(cautions) == MAX_CAUTIONS
    assert cautions.count("Not shown for other sources.") == 1


VERBS = ("count", "leave out", "do not count", "subtract", "multiply", "keep")
MARKS = ("hatched bars", "white circles", "white diamonds", "the value by 10", "the value by 100")
sentence = st.builds(
    lambda parts: ", then ".join(f"{verb} {mark}" for verb, mark in parts).capitalize() + ".",
    st.lists(st.tuples(st.sampled_from(VERBS), st.sampled_from(MARKS)), min_size=1, max_size=3),
)
row = st.tuples(
    st.lists(sentence, min_size=1, max_size=2).map(" ".join),
    st.sampled_from(["Norden Statistik charts", "Norden Energi charts"]),
    st.sampled_from(["positive", "negative"]),
    st.sampled_from(["q1", "q2", "q3", "q4", "q5"]),
)


@settings(
    max_examples=120, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(rows=st.lists(row, min_size=1, max_size=7), data=st.data())
def test_every_proposal_is_lawful_and_supported_from_one_side(
    lesson: Make,
    category: Make,
    rows: list[tuple[str, str, str, str]],
    data: st.DataObject,
) -> None:
    lessons = [
        lesson(f"lesson-{at}", text, scope=scope, polarity=polarity, question_key=key)
        for at, (text, scope, polarity, key) in enumerate(rows)
    ]
    table = {node.node_id: node for node in lessons}
    proposal, node = applied(category(), lessons)
    supporters = [table[key] for key in proposal.supported_by]
    assert len({item.index.scope for item in supporters}) <= 1
    assert len({item.polarity for item in supporters}) <= 1
    for conflict in proposal.conflicts:
        assert not set(conflict.first.items) & set(conflict.second.items)
    shuffled = data.draw(st.permutations(lessons))
    assert consolidate(ConsolidateRequest(category(), tuple(shuffled))) == proposal
    # The stored conflicts are respected when the category is consolidated again.
    again = consolidate(ConsolidateRequest(node, tuple(lessons)))
    stored = tree_of(node, lessons)
    assert isinstance(apply_proposal(stored, again, Context(ids=counting_ids())), Accepted)


@pytest.mark.parametrize("guidance", ["", "…", "7", "()", "not", "。"])
def test_lessons_without_a_claim_share_nothing(lesson: Make, category: Make, guidance: str) -> None:
    lessons = tuple(lesson(name, guidance or "of the") for name in "ab")
    proposal = consolidate(ConsolidateRequest(category(), lessons))
    assert (proposal.guidance, proposal.supported_by, proposal.conflicts) == ("", (), ())


def test_a_sentence_of_which_others_say_a_part_only_is_no_common_guidance(
    lesson: Make, category: Make
) -> None:
    first = lesson(
        "a", "Leave out the hatched bars, and divide printed pounds by the yearly index."
    )
    second = lesson("b", "Leave out the hatched bars, and start at the left axis of the chart.")
    apart = consolidate(ConsolidateRequest(category("k"), (first, second)))
    assert apart.guidance == ""
    plain = lesson("c", "Leave out the hatched bars.")
    found = consolidate(ConsolidateRequest(category("k"), (first, second, plain)))
    assert found.guidance == "Leave out the hatched bars."
    assert found.supported_by == ("a", "b", "c")
