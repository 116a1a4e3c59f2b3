"""What each operation should have said, held against the pixels, the words and the tree operations."""

import io

import numpy as np
from PIL import Image

from epimem.operations import consolidate as consolidation
from epimem.operations import update as revision
from epimem.operations.base import Context, Limits
from epimem.operations.registry import apply_proposal
from epimem.schema.ids import counting_ids
from epimem.schema.proposal import Accepted
from epimem.schema.run import interleave
from epimem.schema.tree import Tree
from epimem.schema.working_memory import WorkingMemory
from training.worlds import WORLDS
from training.worlds.pen import GREY
from training.worlds.sheet import HEADER, STRIP
from training.worlds.shelf import inner, under

TOPICS = [topic for world in WORLDS.values() for topic in world.topics]


def pixels(picture):
    with Image.open(io.BytesIO(picture.png(10**9))) as opened:
        return np.asarray(opened.convert("RGB"))


def keyed(page):
    """A key is printed where a frame begins below the head of a page, or at its foot."""
    shown = pixels(page)
    return any((shown[row] == GREY).all(axis=1).sum() > 100 for row in (HEADER + 3, 3 - STRIP))


def names_a_mark(*texts):
    return any(
        words in text for topic in TOPICS for words in topic.options.values() for text in texts
    )


def topic_of(question):
    (found,) = {
        topic.name
        for topic in TOPICS
        for template in topic.asked
        if all(part in question for part in pieces(template))
    }
    return found


def pieces(template):
    return [part for half in template.split("{subject}") for part in half.split("{house}") if part]


def context(**more):
    return Context(ids=counting_ids(2**40), limits=Limits(64, 4), **more)


def test_a_lesson_points_to_the_region_that_the_decisive_turn_looked_at(of):
    seen = 0
    for item in of("derive"):
        turns = interleave(item.request.run)
        for draft in item.value.drafts:
            (evidence,) = draft.evidence
            at = next(n for n, turn in enumerate(turns) if turn.seq == evidence.turn.seq)
            assert "mean" in turns[at].text or any(
                topic.means in turns[at].text for topic in TOPICS
            )
            view = turns[at + 1].event
            if view.region is not None:
                assert evidence.region == view.region
                seen += 1
    assert seen >= 8


def test_some_runs_do_not_say_where_they_looked(of):
    views = [event.region for item in of("derive") for event in item.request.run.events]
    assert 0.1 < sum(region is None for region in views) / len(views) < 0.8


def test_a_wrong_run_gives_a_negative_lesson_that_quotes_it_and_advises_nothing(of):
    wrong = [item for item in of("derive") if item.request.verdict == "wrong"]
    assert len(wrong) >= 3
    for item in wrong:
        (draft,) = item.value.drafts
        turn = next(
            turn for turn in interleave(item.request.run) if turn.seq == draft.evidence[0].turn.seq
        )
        assert draft.polarity == "negative"
        assert f"“{turn.text}”" in draft.guidance
        assert not any(
            topic.action in text for topic in TOPICS for text in (draft.guidance, *draft.cautions)
        )


def test_no_lesson_holds_the_answer(of):
    for item in of("derive"):
        answer = item.request.run.answer.text
        for draft in item.value.drafts:
            told = [draft.guidance, draft.applies_when, *draft.cautions, draft.evidence[0].note]
            assert (
                answer in {"yes", "no"}
                or len(answer) < 3
                or not any(answer in text for text in told)
            )


def test_the_gate_opens_exactly_where_neither_words_nor_a_printed_key_settle_the_mark(of):
    opened = 0
    for item in of("gate"):
        request = item.request
        notes = [note for found in request.notes.values() for note in found]
        told = names_a_mark(*notes, *(each.guidance for each in request.items))
        title = request.items[0].title
        topic, house = title.rsplit(", ", 1)
        asked = topic_of(request.question) == topic
        needed = bool(request.pages) and not keyed(request.pages[0]) and not told and asked
        assert item.value == int(needed), request
        assert request.question_images == len(request.pages)
        assert not asked or house in request.question
        opened += item.value
    assert 0.3 < opened / len(of("gate")) < 0.7


def test_an_update_points_to_the_key_where_the_attempt_went_against_it(of):
    words, retained_key = set(), False
    for item in of("update"):
        request, value = item.request, item.value
        page = request.pages[0]
        revised = revision.apply(
            request.memory,
            value,
            pages={page.image_id: (page.width, page.height)},
            visual=request.visual,
        )
        assert isinstance(revised, WorkingMemory)
        words.add((value.visual, value.stop))
        if not value.stop:
            assert keyed(page)
        if value.visual == "replace":
            box = value.evidence.region
            shown = pixels(page)
            assert (shown[box.y0, box.x0 : box.x1] < 230).all()
            assert (shown[box.y0 : box.y1, box.x0] < 230).all()
            assert (shown[box.y1 - 1, box.x0 : box.x1] < 230).all()
            assert (shown[box.y0 : box.y1, box.x1 - 1] < 230).all()
            assert value.gate == 1
            assert not value.stop
        if value.gate:
            assert revised.evidence is not None
        if value.stop:
            assert value.gate == 0
        retained_key |= (
            value.stop and revised.evidence is not None and "key" in revised.evidence.note
        )
    assert {("replace", False), ("retain", True), ("remove", True)} <= words
    assert retained_key


def test_a_lesson_goes_to_the_category_of_its_house_and_topic_or_opens_one(of):
    kinds, groups = set(), set()
    for item in of("place"):
        request, value = item.request, item.value
        titles = {view.node.node_id: view.node.title for view in request.candidates}
        same = [key for key, title in titles.items() if title == request.lesson.title]
        assert ([value.category_id] if value.category_id else []) == same
        if value.new is not None:
            assert value.new.title == request.lesson.title
            house = request.lesson.title.rsplit(", ", 1)[1]
            beside = [
                view.parent_id for view in request.candidates if view.node.title.endswith(house)
            ]
            assert value.parent_id == (beside[0] if beside else None)
            groups.add(value.parent_id == request.candidates[0].parent_id)
        kinds.add(value.new is None)
    assert kinds == {True, False}
    assert groups == {True, False}


def test_only_categories_of_one_house_and_topic_that_do_not_contradict_each_other_merge(of):
    reasons = set()
    for item in of("merge"):
        request = item.request
        same = request.kept.title == request.absorbed.title
        marks = {
            words
            for node in (*request.kept_lessons, *request.absorbed_lessons)
            for topic in TOPICS
            for words in topic.options.values()
            if node.lesson.title.startswith(topic.name) and words in node.lesson.guidance
        }
        assert (item.value is not None) == (same and len(marks) <= 1)
        reasons.add((same, len(marks) > 1))
    assert {(True, False), (True, True)} <= reasons
    assert any(not same for same, _ in reasons)


def test_parts_of_a_split_are_of_one_house_and_topic_each(of):
    for item in of("split_lift"):
        titles = {child.node_id: child.title for child in item.request.children}
        found = [{titles[key] for key in part.child_ids} for part in item.value.parts]
        assert all(len(members) == 1 for members in found)
        assert len(set.union(*found)) == len(found) >= 2
        assert len(item.request.children) > item.request.capacity
        assert item.request.vectors.keys() == titles.keys()


def test_common_guidance_is_what_its_supporters_say_and_no_other_lesson_does(of):
    shared, disputed = 0, 0
    for item in of("consolidate"):
        value = item.value
        for node in item.request.lessons:
            says = mark_of(node.lesson.guidance) == mark_of(value.guidance)
            supports = node.node_id in value.supported_by
            assert supports == (bool(value.guidance) and says and node.polarity == "positive")
        assert bool(value.guidance) == (len(value.supported_by) >= 2)
        conditions = [
            node.lesson.applies_when
            for node in item.request.lessons
            if node.node_id in value.supported_by
        ]
        unkeyed = bool(conditions) and 2 * sum("key" in said for said in conditions) >= len(
            conditions
        )
        assert ("key" in value.applies_when) == unkeyed
        for conflict in value.conflicts:
            assert conflict.first.items == value.supported_by
            assert mark_of(conflict.second.statement) != mark_of(conflict.first.statement)
            disputed += 1
        shared += bool(value.guidance)
    assert shared >= 5
    assert disputed >= 2


def mark_of(text):
    """The mark that a text names; None where it leaves it to a picture."""
    return next(
        (words for topic in TOPICS for words in topic.options.values() if words in text), None
    )


def test_the_tree_operations_accept_every_consolidation_merge_and_split(of):
    for item in of("consolidate"):
        request = item.request
        nodes = [inner("root", None, "n", height=2), under(request.node, "root")]
        nodes += [under(node, request.node.node_id) for node in request.lessons]
        accepted(Tree.build(renamed(nodes), "root"), item.value)
    for item in of("merge"):
        request = item.request
        if item.value is not None:
            nodes = [inner("root", None, "n", height=2)]
            nodes += [under(node, "root") for node in (request.kept, request.absorbed)]
            nodes += [*request.kept_lessons, *request.absorbed_lessons]
            accepted(Tree.build(renamed(nodes), "root"), item.value)
    for item in of("split_lift"):
        request = item.request
        nodes = [inner("root", None, "n", height=2), under(request.node, "root"), *request.children]
        result = accepted(Tree.build(renamed(nodes), "root"), item.value)
        assert len(result.tree.children_of("root")) == len(item.value.parts)


def renamed(nodes):
    return [node.model_copy(update={"namespace": "n"}) for node in nodes]


def accepted(tree, proposal):
    result = apply_proposal(tree, proposal, context())
    assert isinstance(result, Accepted), result
    return result


def test_consolidation_of_the_operation_is_the_one_that_was_asked_for(of):
    item = next(item for item in of("consolidate") if item.value.conflicts)
    nodes = [inner("root", None, "n", height=2), under(item.request.node, "root")]
    nodes += [under(node, item.request.node.node_id) for node in item.request.lessons]
    result = consolidation.apply(Tree.build(renamed(nodes), "root"), item.value, context())
    written = result.tree.node(item.request.node.node_id)
    assert written.guidance == item.value.guidance
    assert len(written.conflicts) == len(item.value.conflicts)


def test_what_is_selected_is_of_the_house_and_topic_and_its_conditions_hold(of):
    empty = excluded = 0
    for item in of("select"):
        request, value = item.request, item.value
        topic = topic_of(request.question)
        printed = keyed(request.pages[0])
        fitting = []
        for candidate in request.candidates:
            node = request.nodes[candidate.node_id]
            said = node.lesson.applies_when if node.lesson else node.applies_when
            name, house = node.title.rsplit(", ", 1)
            if candidate.passes and name == topic and house in request.question:
                holds = not (printed and "key" in said)
                excluded += not holds
                fitting += [node] if holds else []
        rules = [node.node_id for node in fitting if node.kind != "lesson"]
        lessons = [node for node in fitting if node.kind == "lesson"]
        lessons.sort(key=lambda node: node.polarity == "negative")
        assert list(value.rule_ids) == rules
        expected = None if rules or not lessons else lessons[0].node_id
        assert value.lesson_id == expected
        empty += not value.item_ids
        assert len(request.candidates) > len(value.item_ids)
        assert any(request.crops.values())
    assert excluded > 0
    assert 0.2 < empty / len(of("select")) < 0.65
