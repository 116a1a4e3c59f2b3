"""What a reply may not say, by operation; each row differs from a good reply in one point."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from controllers.prompts import OPERATIONS, Refused
from controllers.prompts.aliases import Aliases
from epimem.schema.run import Run
from tests.controllers.prompts import samples
from tests.controllers.prompts.test_contract import EXAMPLES

GONE = object()


def refusal(name: str, reply: Any, request: Any = None) -> Refused:
    with pytest.raises(Refused) as caught:
        OPERATIONS[name].parse(request or samples.REQUESTS[name](), reply)
    return caught.value


def with_change(name: str, path: str, value: Any) -> dict:
    reply = copy.deepcopy(samples.REPLIES[name])
    place: Any = reply
    *way, last = [int(key) if key.isdigit() else key for key in path.split(".")]
    for key in way:
        place = place[key]
    if value is GONE:
        del place[last]
    else:
        place[last] = value
    return reply


ROWS = [
    ("derive", "lessons", GONE, "schema", "give lessons"),
    ("derive", "lessons", [], "schema", "give lessons"),
    ("derive", "nothing", "nothing new", "schema", "give lessons"),
    ("derive", "nothing", "\u202e", "text", "bidirectional"),
    ("derive", "lessons.0.guidance", GONE, "schema", "lessons[0].guidance is missing"),
    ("derive", "lessons.0.guidance", "", "text", "guidance: empty text"),
    ("derive", "lessons.0.guidance", "x" * 16_385, "limit", "guidance: text of 16385 bytes"),
    ("derive", "lessons.0.guidance", ["x"], "schema", "lessons[0].guidance must be a text"),
    ("derive", "lessons.0.polarity", "neutral", "schema", "must be one of positive, negative"),
    ("derive", "lessons.0.polarity", GONE, "schema", "polarity is missing"),
    ("derive", "lessons.0.authority", "owner", "schema", "has a field 'authority'"),
    ("derive", "lessons.0.cautions", ["x"] * 5, "limit", "at most 4"),
    ("derive", "lessons.0.title", "x" * 300, "limit", "title"),
    (
        "derive",
        "lessons.0.evidence.0.image",
        "P3",
        "not_shown",
        "'P3' was not shown; shown are P1, P2",
    ),
    ("derive", "lessons.0.evidence.0.image", GONE, "schema", "image is missing"),
    ("derive", "lessons.0.evidence.0.box", GONE, "schema", "box is missing"),
    ("derive", "lessons.0.evidence.0.box", [1, 2, 3], "schema", "has 3 entries, 4 wanted"),
    ("derive", "lessons.0.evidence.0.box", [1, 2, 3, 4, 5], "limit", "at most 4"),
    ("derive", "lessons.0.evidence.0.box", [1, 2, 3, 1001], "schema", "must lie in 0 to 1000"),
    ("derive", "lessons.0.evidence.0.box", [-1, 2, 3, 4], "schema", "must lie in 0 to 1000"),
    ("derive", "lessons.0.evidence.0.box", [5, 2, 5, 4], "image", "region must satisfy"),
    (
        "derive",
        "lessons.0.evidence.0.box",
        [1, 2, 3.0, 4],
        "schema",
        "a whole number, not a number",
    ),
    ("derive", "lessons.0.evidence.0.box", [1, 2, True, 4], "schema", "not true or false"),
    ("derive", "lessons.0.evidence.0.turn", "T9", "not_shown", "'T9' was not shown"),
    ("derive", "lessons.0.evidence.0.turn", 2, "schema", "must be a text"),
    ("update", "guidance", GONE, "schema", "guidance is missing"),
    ("update", "gate", GONE, "schema", "gate is missing"),
    ("update", "gate", 2, "schema", "must be one of 0, 1"),
    ("update", "gate", True, "schema", "must be a whole number"),
    ("update", "stop", GONE, "schema", "stop is missing"),
    ("update", "stop", 0, "schema", "must be true or false"),
    ("update", "stop", "false", "schema", "must be true or false"),
    ("update", "visual", GONE, "schema", "visual is missing"),
    ("update", "visual", "keep", "schema", "one of retain, replace, remove"),
    ("update", "visual", "retain", "schema", "visual retain goes with image null"),
    ("update", "visual", "remove", "schema", "visual remove goes with image null"),
    ("update", "image", None, "schema", "replace needs image and box"),
    ("update", "box", None, "schema", "replace needs image and box"),
    ("update", "image", "E1", "not_shown", "'E1' was not shown"),
    ("update", "image", "image-a", "not_shown", "was not shown"),
    ("update", "box", [10, 20, 10, 30], "image", "region must satisfy"),
    ("update", "cautions", "none", "schema", "cautions must be a list"),
    ("gate", "gate", GONE, "schema", "gate is missing"),
    ("gate", "gate", "1", "schema", "not a text"),
    ("gate", "gate", True, "schema", "not true or false"),
    ("gate", "gate", 1.0, "schema", "not a number"),
    ("gate", "gate", None, "schema", "not null"),
    ("gate", "gate", -1, "schema", "must be one of 0, 1"),
    ("gate", "gate", 2, "schema", "must be one of 0, 1"),
    ("gate", "reason", "x", "schema", "has a field 'reason'; its fields are gate"),
    ("place", "category", "C1", "schema", "exactly one of category and new"),
    ("place", "new", None, "schema", "exactly one of category and new"),
    ("place", "new", {}, "schema", "new.title is missing"),
    ("place", "new", "markers", "schema", "new must be an object"),
    ("place", "under", "G3", "not_shown", "shown are G1, G2"),
    ("place", "under", "C1", "not_shown", "shown are G1, G2"),
    ("place", "category", "C3", "not_shown", "'C3' was not shown"),
    ("place", "lesson", "L1", "schema", "has a field 'lesson'"),
    ("merge", "merge", GONE, "schema", "merge is missing"),
    ("merge", "merge", 1, "schema", "must be true or false"),
    ("merge", "merge", None, "schema", "must be true or false"),
    ("merge", "title", "a\u200bb", "text", "title"),
    ("split_lift", "parts", GONE, "schema", "parts is missing"),
    ("split_lift", "parts", [], "schema", "in no part: N1, N2"),
    ("split_lift", "parts.0.children", GONE, "schema", "children is missing"),
    ("split_lift", "parts.0.children", ["N1", "N3", "N5"], "schema", "in no part: N7"),
    ("split_lift", "parts.0.children", ["N1", "N3", "N5", "N2"], "duplicate", "more than once: N2"),
    ("split_lift", "parts.0.children", ["N1", "N3", "N5", "N5"], "duplicate", "more than once: N5"),
    ("split_lift", "parts.0.children", ["N1", "N3", "N5", "N9"], "not_shown", "'N9' was not shown"),
    ("split_lift", "parts.0.children", ["N1", "N3", "N5", 7], "schema", "must be a text"),
    ("split_lift", "parts.0.index", "markers", "schema", "index must be an object"),
    ("consolidate", "guidance", GONE, "schema", "guidance is missing"),
    ("consolidate", "guidance", "", "schema", "go together"),
    ("consolidate", "supported_by", [], "schema", "go together"),
    ("consolidate", "supported_by", GONE, "schema", "supported_by is missing"),
    ("consolidate", "supported_by", ["L1", "L1"], "duplicate", "names a lesson twice"),
    ("consolidate", "supported_by", ["L1", "L4"], "not_shown", "'L4' was not shown"),
    ("consolidate", "supported_by", ["node-0001"], "not_shown", "was not shown"),
    ("consolidate", "conflicts.0.settled", "first", "schema", "has a field 'settled'"),
    ("consolidate", "conflicts.0.first", GONE, "schema", "first is missing"),
    ("consolidate", "conflicts.0.second.statement", GONE, "schema", "statement is missing"),
    ("consolidate", "conflicts.0.second.lessons", ["L7"], "not_shown", "'L7' was not shown"),
    ("consolidate", "level", 2, "schema", "has a field 'level'"),
    ("consolidate", "cautions", ["x"] * 7, "limit", "at most 6"),
    ("select", "rules", GONE, "schema", "rules is missing"),
    ("select", "rules", ["R1", "R1"], "duplicate", "names one twice"),
    ("select", "rules", ["L1"], "not_shown", "'L1' was not shown"),
    ("select", "rules", ["R1", "R2", "R3"], "not_shown", "'R3' was not shown"),
    ("select", "rules", "R1", "schema", "rules must be a list"),
    ("select", "lesson", "R1", "not_shown", "'R1' was not shown"),
    ("select", "lesson", ["L1"], "schema", "lesson must be a text"),
    ("select", "lesson", "", "not_shown", "was not shown"),
]


@pytest.mark.parametrize(("name", "path", "value", "reason", "words"), ROWS)
def test_a_faulty_reply_is_refused_by_name(
    name: str, path: str, value: Any, reason: str, words: str
) -> None:
    found = refusal(name, with_change(name, path, value))
    assert (found.reason, words in found.detail) == (reason, True), found


@pytest.mark.parametrize("name", OPERATIONS)
def test_echoes_of_prompt_schema_and_example_are_no_answers(name: str) -> None:
    prompt = OPERATIONS[name].render(samples.REQUESTS[name]())
    echoes = [prompt.schema, prompt.schema["properties"], *EXAMPLES[name], {}, [], "", None]
    echoes += [
        json.loads(row)
        for message in prompt.messages
        for row in message.text.splitlines()
        if row.startswith("{")
    ]
    for echo in echoes:
        refusal(name, echo)


@pytest.mark.parametrize("name", OPERATIONS)
def test_one_phrase_copied_from_the_example_spoils_a_reply(name: str) -> None:
    tried = 0
    for example in EXAMPLES[name]:
        for path, phrase in _phrases(example):
            reply = copy.deepcopy(samples.REPLIES[name])
            try:
                place: Any = reply
                for key in path[:-1]:
                    place = place[key]
                if not isinstance(place[path[-1]], str):
                    continue
            except (TypeError, KeyError, IndexError):
                continue
            for said in (phrase, phrase.strip("<>").upper(), f" {phrase} "):
                place[path[-1]] = said
                refusal(name, reply)
                tried += 1
    assert tried or name in {"gate", "select"}


def _phrases(value: Any, path: tuple = ()) -> Iterator[tuple[tuple, str]]:
    if isinstance(value, str) and value.startswith("<"):
        yield path, value
    elif isinstance(value, dict | list):
        for key, item in value.items() if isinstance(value, dict) else enumerate(value):
            yield from _phrases(item, (*path, key))


def test_a_wrong_run_yields_no_positive_lesson() -> None:
    request = samples.derive(verdict="wrong")
    assert refusal("derive", samples.REPLIES["derive"], request).reason == "contradiction"
    lesson = OPERATIONS["derive"].render(request).schema["properties"]["lessons"]["items"]
    assert lesson["properties"]["polarity"]["enum"] == ["negative"]
    negative = with_change("derive", "lessons.0.polarity", "negative")
    (draft,) = OPERATIONS["derive"].parse(request, negative).drafts
    assert draft.polarity == "negative"


def test_more_than_four_lessons_are_too_many() -> None:
    reply = copy.deepcopy(samples.REPLIES["derive"])
    reply["lessons"] *= 5
    assert refusal("derive", reply).reason == "limit"


def test_without_pages_there_is_no_evidence() -> None:
    request = replace(samples.derive(), pages=())
    assert refusal("derive", samples.REPLIES["derive"], request).reason == "not_shown"
    reply = with_change("derive", "lessons.0.evidence", [])
    assert OPERATIONS["derive"].parse(request, reply).drafts[0].evidence == ()


def test_a_lesson_without_index_text_gets_scope_and_question_from_the_task() -> None:
    reply = {"lessons": [{"polarity": "positive", "guidance": "Count."}], "nothing": ""}
    (draft,) = OPERATIONS["derive"].parse(samples.derive(), reply).drafts
    assert draft.index.scope == "metro, Norden"
    assert draft.index.question_anchor.startswith("How many stops from")
    assert draft.verdict_source == "oracle"
    assert draft.run_ids == ("run-1",)


def test_a_lesson_belongs_to_the_group_and_the_backbone_of_its_run() -> None:
    data = samples.run(group="map-7").plain()
    data["system"] = {"harness": "camel", "backbones": [{"id": "model-a"}, {"id": "model-b"}]}
    request = replace(samples.derive(), run=Run.read(data))
    (draft,) = OPERATIONS["derive"].parse(request, samples.REPLIES["derive"]).drafts
    assert draft.question_key == request.run.task.question_key
    assert draft.group_key == "map-7"
    assert (draft.family, draft.harness, draft.backbone) == ("metro", "camel", "model-a")
    assert draft.agent == "reader"


def test_a_name_that_other_questions_have_too_stays_in_the_question_anchor() -> None:
    question = "How many stops are there from Clarke Quay?"
    request = replace(samples.derive(), run=samples.run(question=question))
    reply = {"lessons": [{"polarity": "positive", "guidance": "Count."}]}
    for batch, kept in (((question,), False), ((question, "Where is Clarke Quay?"), True)):
        (draft,) = OPERATIONS["derive"].parse(replace(request, batch=batch), reply).drafts
        assert ("Clarke Quay" in draft.index.question_anchor) == kept


def test_an_unjudged_run_says_so_and_vouches_for_nothing() -> None:
    reply = samples.REPLIES["derive"]
    (draft,) = OPERATIONS["derive"].parse(samples.derive(verdict="unknown"), reply).drafts
    assert draft.verdict_source == "none"
    assert draft.cautions[0].startswith("Not verified")
    assert draft.cautions[1:] == ("Rings are closed.",)


def test_evidence_is_a_region_of_the_page_it_names() -> None:
    (draft,) = OPERATIONS["derive"].parse(samples.derive(), samples.REPLIES["derive"]).drafts
    (seen,) = draft.evidence
    assert seen.image_id == "image-b"
    assert (seen.region.width, seen.region.height) == (333, 1201)
    assert seen.region.box == (3, 24, 134, 601)
    assert (seen.turn.run_id, seen.turn.seq) == ("run-1", 1)


@pytest.mark.parametrize(
    ("visual", "held", "pages", "words"),
    [
        ("evolving", True, 2, ["retain", "replace", "remove"]),
        ("evolving", True, 0, ["retain", "remove"]),
        ("frozen", False, 2, ["retain", "replace"]),
        ("frozen", True, 2, ["retain"]),
    ],
)
def test_the_mode_says_what_may_become_of_the_evidence(
    visual: str, *, held: bool, pages: int, words: list[str]
) -> None:
    request = replace(samples.update(visual=visual, held=held), pages=samples.PAGES[:pages])
    prompt = OPERATIONS["update"].render(request)
    assert prompt.schema["properties"]["visual"]["enum"] == words
    for word in {"retain", "replace", "remove"} - set(words):
        assert f"{word} (" not in prompt.messages[1].text
        refusal("update", {**samples.REPLIES["update"], "visual": word}, request)


def test_without_visual_memory_nothing_visual_is_asked_for_or_taken() -> None:
    request = samples.update(visual="none")
    prompt = OPERATIONS["update"].render(request)
    assert list(prompt.schema["properties"]) == ["guidance", "applies_when", "cautions", "stop"]
    assert "box" not in prompt.messages[1].text.split("<<")[0]
    assert [image.label for image in prompt.images] == ["P1", "P2"]
    assert refusal("update", samples.REPLIES["update"], request).reason == "schema"
    value = OPERATIONS["update"].parse(request, {"guidance": "Count.", "stop": False})
    assert (value.visual, value.evidence, value.gate) == ("retain", None, 0)


def test_a_note_without_a_region_is_refused_and_an_empty_one_is_not() -> None:
    reply = {**samples.REPLIES["update"], "visual": "retain", "image": None, "box": None}
    assert refusal("update", reply).reason == "schema"
    value = OPERATIONS["update"].parse(samples.update(), {**reply, "note": ""})
    assert (value.visual, value.evidence) == ("retain", None)


def test_the_order_of_the_children_decides_nothing() -> None:
    request = samples.split_lift()
    turned = replace(request, children=request.children[::-1])
    prompts = [OPERATIONS["split_lift"].render(found) for found in (request, turned)]
    assert prompts[0] == prompts[1]
    reply = samples.REPLIES["split_lift"]
    values = [OPERATIONS["split_lift"].parse(found, reply) for found in (request, turned)]
    assert values[0] == values[1]


def test_parts_outside_the_sizes_are_refused_with_the_sizes() -> None:
    request = replace(samples.split_lift(), capacity=5, min_group=2)
    parts = [["N1"], [f"N{at}" for at in range(2, 9)]]
    reply = {"parts": [{"children": part, "title": "", "index": None} for part in parts]}
    found = refusal("split_lift", reply, request)
    assert (found.reason, "[1, 7]" in found.detail, "2 to 5" in found.detail) == (
        "limit",
        True,
        True,
    )
    one = {"parts": [{"children": [f"N{at}" for at in range(1, 9)]}]}
    assert refusal("split_lift", one, replace(request, capacity=9)).reason == "limit"


def test_support_of_both_polarities_is_a_contradiction() -> None:
    request = samples.consolidate()
    mixed = (samples.lesson(0), samples.lesson(1, polarity="negative"), samples.lesson(2))
    request = replace(request, lessons=mixed)
    assert refusal("consolidate", samples.REPLIES["consolidate"], request).reason == "contradiction"
    assert '"kind": "judged wrong"' in OPERATIONS["consolidate"].render(request).messages[1].text


def test_lessons_that_share_nothing_are_a_valid_answer() -> None:
    value = OPERATIONS["consolidate"].parse(
        samples.consolidate(), {"guidance": "", "supported_by": []}
    )
    assert (value.guidance, value.supported_by, value.index) == ("", (), None)


def test_leaving_two_categories_apart_is_a_value_and_no_refusal() -> None:
    assert OPERATIONS["merge"].parse(samples.merge(), {"merge": False, "title": "x"}) is None


def test_an_existing_category_takes_no_parent() -> None:
    reply = {"category": "C1", "new": None, "under": "G1"}
    assert refusal("place", reply).reason == "schema"
    value = OPERATIONS["place"].parse(samples.place(), {"category": "C2"})
    assert (value.category_id, value.new, value.parent_id) == ("group-0001", None, None)


def test_an_alias_is_not_shown_where_nothing_was() -> None:
    nothing = replace(samples.select(), candidates=samples.select().candidates[:2])
    found = refusal("select", {"rules": ["R1"], "lesson": "L1"}, nothing)
    assert (found.reason, "L1" in found.detail) == ("not_shown", True)
    found = refusal("place", {"category": "C1"}, samples.place(categories=0))
    assert (found.reason, "C1" in found.detail) == ("not_shown", True)
    assert refusal("place", {"category": "none"}, samples.place(categories=0)).reason == "schema"


def test_aliases_hold_for_what_is_shown_alone() -> None:
    aliases = Aliases("C", ["b", "a", "b"])
    assert list(aliases) == [("C1", "b"), ("C2", "a")]
    assert (aliases.of("a"), aliases.id("C1"), len(aliases)) == ("C2", "b", 2)
    for strange in ("C3", "C0", "c1", " C1", "b"):
        with pytest.raises(Refused) as caught:
            aliases.id(strange)
        assert caught.value.reason == "not_shown"
