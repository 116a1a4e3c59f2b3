from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Literal, get_args

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from controllers.embedded.derive import MAX_EVIDENCE, NOTHING_SAID, UNVERIFIED
from controllers.embedded.fitting import joined
from controllers.embedded.memory_controller import EmbeddedMemoryController
from controllers.embedded.sentences import SENTENCE_CHARACTERS, sentences, shortened
from epimem.protocols import DeriveRequest
from epimem.schema.lesson import LessonDraft, VerdictSource
from epimem.schema.run import Run, interleave
from epimem.schema.text import clean_text
from harness_adapters.importer import Imported

Verdict = Literal["right", "wrong", "unknown"]
REGION = {"x0": 10, "y0": 20, "x1": 60, "y1": 70, "width": 100, "height": 80}
PAGE = {"page": 1, "image_id": "image-a", "width": 100, "height": 80}
TURNS = (
    ("reader", "Start found: Clarke Quay is the second marker. Nine markers follow it."),
    ("reader", "Every marker counts as a station where the train calls, so nine stations."),
    ("checker", "No legend gives a reason to drop a marker, so the answer is 9. Agreed."),
)


def derive(run: Run, verdict: Verdict, source: VerdictSource = "oracle") -> LessonDraft | None:
    (reply,) = EmbeddedMemoryController().derive([DeriveRequest(run, verdict, source)])
    assert reply.value is not None
    assert bool(reply.value.drafts) != bool(reply.value.nothing)
    return reply.value.drafts[0] if reply.value.drafts else None


def test_a_wrong_run_yields_one_negative_lesson(make_run: Callable[..., Run]) -> None:
    draft = derive(make_run(TURNS, answer="9"), "wrong")
    assert draft is not None
    assert draft.polarity == "negative"
    assert {item.polarity for item in draft.statements} == {"negative"}
    main = draft.statements[0].text
    assert main == "No legend gives a reason to drop a marker, so the answer is 9."
    assert draft.guidance.startswith(f"Judged wrong: “{main}”")
    assert "Re-check the step of checker that ended the run" in draft.guidance
    others = [item.text for item in draft.statements[1:]]
    assert others
    assert all(any(text in caution for caution in draft.cautions) for text in others)
    assert not any(text in draft.guidance for text in others)


def test_a_right_run_yields_positive_guidance_of_its_statements(
    make_run: Callable[..., Run],
) -> None:
    draft = derive(make_run(TURNS, answer="9"), "right", "verifier")
    assert draft is not None
    assert (draft.polarity, draft.verdict_source, draft.cautions) == ("positive", "verifier", ())
    assert draft.guidance == "\n".join(item.text for item in draft.statements)
    assert 1 <= len(draft.statements) <= 3


def test_an_unknown_run_yields_a_lesson_that_says_it_was_not_verified(
    make_run: Callable[..., Run],
) -> None:
    draft = derive(make_run(TURNS), "unknown", "oracle")
    assert draft is not None
    assert (draft.polarity, draft.verdict_source) == ("positive", "none")
    assert draft.cautions == (UNVERIFIED,)


def test_statements_point_at_the_turns_that_hold_them(make_run: Callable[..., Run]) -> None:
    run = make_run(TURNS, answer="9")
    draft = derive(run, "wrong")
    assert draft is not None
    texts = {turn.seq: turn.text for turn in interleave(run)}
    for item in draft.statements:
        assert item.turns
        assert all(ref.run_id == run.run_id for ref in item.turns)
        assert all(item.text in texts[ref.seq] for ref in item.turns)


def test_a_run_without_sentences_has_nothing_to_learn(make_run: Callable[..., Run]) -> None:
    for turns in ((), (("a", ""),), (("a", "ok"), ("b", "```x = 1```"))):
        (reply,) = EmbeddedMemoryController().derive(
            [DeriveRequest(make_run(turns), "wrong", "oracle")]
        )
        assert reply.value is not None
        assert (reply.value.drafts, reply.value.nothing) == ((), NOTHING_SAID)


def test_scope_family_and_keys_come_from_the_task(make_run: Callable[..., Run]) -> None:
    run = make_run(TURNS, family="metro", house="Rubra", group="map-1")
    draft = derive(run, "wrong")
    assert draft is not None
    assert draft.index.scope == "metro, Rubra"
    assert draft.index.topic.startswith("metro: ")
    assert (draft.family, draft.group_key) == ("metro", "map-1")
    assert draft.question_key == run.task.question_key
    assert (draft.harness, draft.backbone, draft.agent) == ("harness", "model", "checker")
    assert draft.run_ids == ("run-a",)


@pytest.mark.parametrize("by_step", [True, False])
def test_evidence_is_the_region_a_salient_turn_looked_at(
    make_run: Callable[..., Run], *, by_step: bool
) -> None:
    run = make_run(TURNS, answer="9", pages=[PAGE], views=[(2, 1, REGION, by_step)])
    draft = derive(run, "wrong")
    assert draft is not None
    (evidence,) = draft.evidence
    assert (evidence.image_id, evidence.region.plain()) == ("image-a", REGION)
    assert evidence.turn is not None
    assert evidence.turn.seq == draft.statements[0].turns[0].seq
    assert evidence.note in TURNS[2][1]
    assert "Look again at the region" in draft.guidance


def test_regions_that_do_not_fit_their_page_are_left_out(make_run: Callable[..., Run]) -> None:
    other = {**REGION, "width": 101}
    run = make_run(TURNS, pages=[PAGE], views=[(2, 1, other, True), (2, 2, REGION, True)])
    draft = derive(run, "wrong")
    assert draft is not None
    assert draft.evidence == ()
    assert "region" not in draft.guidance


def test_evidence_is_bounded_and_free_of_repeats(make_run: Callable[..., Run]) -> None:
    regions = [{**REGION, "x0": left} for left in (1, 1, 2, 3, 4, 5)]
    run = make_run(TURNS, pages=[PAGE], views=[(2, 1, region, True) for region in regions])
    draft = derive(run, "wrong")
    assert draft is not None
    assert len(draft.evidence) == MAX_EVIDENCE
    assert len({item.region for item in draft.evidence}) == MAX_EVIDENCE


def test_the_question_repeated_by_an_agent_is_no_finding(make_run: Callable[..., Run]) -> None:
    question = "How many stations does the red train call at between the two ends of the line?"
    turns = (("solver", "The red line shows nine stations without ends."), ("checker", question))
    draft = derive(make_run(turns, question=question), "wrong")
    assert draft is not None
    assert draft.statements[0].text.startswith("The red line shows")


def test_a_line_repeated_in_several_turns_counts_as_an_order(
    make_run: Callable[..., Run],
) -> None:
    order = ("lead", "List the white triangles along the whole red line.")
    turns = (("solver", "Two white triangles stand along the red line."), order, order)
    draft = derive(make_run(turns), "wrong")
    assert draft is not None
    assert draft.statements[0].text == turns[0][1]


def test_a_checkers_remark_beats_the_same_remark_of_another(make_run: Callable[..., Run]) -> None:
    line = "The {} triangles are stations where the train passes through."
    turns = (("helper", line.format("white")), ("verifier", line.format("black")))
    for order in (turns, turns[::-1]):
        draft = derive(make_run(order), "wrong")
        assert draft is not None
        assert "black" in draft.statements[0].text


def test_a_malformed_envelope_fails_alone(make_run: Callable[..., Run]) -> None:
    good = make_run(TURNS)
    extra = {"epimem": {"actors": [{"id": "a"}], "events": []}}
    bad = good.model_copy(
        update={"trajectory": good.trajectory.model_copy(update={"extra": extra})}
    )
    requests = [DeriveRequest(run, "wrong", "oracle") for run in (good, bad, good)]
    replies = EmbeddedMemoryController().derive(requests)
    assert [reply.value is not None for reply in replies] == [True, False, True]
    assert replies[1].reason == "schema"


def test_sentences_are_cut_at_their_ends_and_not_at_abbreviations() -> None:
    assert sentences(
        "St. Clair West is next, e.g. by Mr. Smith. Then 9 - 2 = 7. 第一句。第二句！"  # noqa: RUF001
    ) == [
        "St. Clair West is next, e.g. by Mr. Smith.",
        "Then 9 - 2 = 7.",
        "第一句。",
        "第二句！",  # noqa: RUF001
    ]


def test_code_and_keys_are_not_sentences() -> None:
    text = 'Look:\n```python\nprint("x")\n```\n- "reason": "The list is complete.",\n'
    assert sentences(text) == ["Look:", "The list is complete."]


def test_a_long_sentence_is_shortened_at_a_clause() -> None:
    clause = "this clause says something of its own, "
    text = shortened(clause * 20)
    assert len(text) <= SENTENCE_CHARACTERS
    assert text.endswith("of its own")


def test_a_long_turn_is_read_at_both_ends() -> None:
    middle = "The middle is never read by anyone. " * 4000
    found = sentences(f"The beginning is read. {middle} The end is read as well.")
    assert found[0] == "The beginning is read."
    assert found[-1] == "The end is read as well."
    assert len(found) < 120


# Letters, digits, marks, joiners, controls, private use, emoji, CJK, white space of many kinds.
odd = st.sampled_from(
    [
        *"ab 9.!?,;:\n\t\r\x00\x07\x1c\x85\xa0\u0301\u0308\u200b\u200d\ufe0f",
        *"\u202e\u2028\u3000\ue000",
        "\U0001f600",
        "\U0001f468\u200d\U0001f469",
        "The answer is nine. ",
        "Therefore we agree. ",
        "广卫站。",
        "がa\u3099",
        "\u3164",
        "```",
        '{"a": "b c d"}',
        "\ufdd0",
        "\u0338=",
    ]
)
wild_text = st.one_of(st.lists(odd, max_size=40).map("".join), st.text(max_size=80))


@settings(
    max_examples=120,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(
    turns=st.lists(
        st.tuples(st.sampled_from(["reader", "checker", "\u200bx"]), wild_text), max_size=6
    ),
    question=wild_text,
    house=wild_text,
    answer=wild_text,
    role=wild_text,
    verdict=st.sampled_from(get_args(Verdict)),
)
def test_any_run_gives_a_valid_lesson_of_exact_pieces(
    make_run: Callable[..., Run],
    turns: list[tuple[str, str]],
    question: str,
    house: str,
    answer: str,
    role: str,
    verdict: Verdict,
) -> None:
    more: dict[str, Any] = {"family": house[::-1], "house": house, "public": {"niche": 7}}
    run = make_run(turns, question=question, answer=answer, roles={"reader": role}, **more)
    draft = derive(run, verdict)
    if draft is None:
        return
    assert LessonDraft.model_validate(draft.model_dump()) == draft
    assert (draft.polarity == "negative") == (verdict == "wrong")
    texts = {turn.seq: joined(clean_text(turn.text)) for turn in interleave(run)}
    for item in draft.statements:
        assert len(item.text) <= SENTENCE_CHARACTERS
        assert item.turns
        for ref in item.turns:
            assert item.text in texts[ref.seq]


def test_huge_turns_are_no_trouble(make_run: Callable[..., Run]) -> None:
    blocks = ("x" * 100_000, "。" * 100_000, "a. " * 33_000, "\u0301" * 100_000, '"' * 100_000)
    more = (
        "*" * 100_000,
        "(" * 100_000,
        "\U0001f600 " * 50_000,
        "The long end comes near. " * 6000,
    )
    turns = [("agent", block) for block in (*blocks, *more)]
    draft = derive(make_run(turns, question="Why? " * 20_000, answer="x" * 50_000), "wrong")
    assert draft is not None
    assert draft.statements[0].text == "The long end comes near."


def test_templates_write_no_digits(visual_runs: list[Imported]) -> None:
    for verdict in get_args(Verdict):
        for item in visual_runs:
            assert item.run is not None
            draft = derive(item.run, verdict)
            assert draft is not None
            text = "\n".join((draft.guidance, draft.applies_when, *draft.cautions))
            for statement in draft.statements:
                text = text.replace(statement.text, "")
            assert not re.search(r"\d", text), text


def test_deriving_twice_gives_the_same_lessons(visual_runs: list[Imported]) -> None:
    requests = [DeriveRequest(item.run, "wrong", "oracle") for item in visual_runs if item.run]
    once, again = (EmbeddedMemoryController().derive(requests) for _ in range(2))
    assert [reply.value for reply in once] == [reply.value for reply in again]


def test_every_visual_run_yields_a_lesson_with_regions_of_its_own_views(
    visual_runs: list[Imported],
) -> None:
    without = 0
    for item in visual_runs:
        assert item.run is not None
        assert item.outcome is not None
        draft = derive(item.run, item.outcome.verdict)
        assert draft is not None
        without += not draft.evidence
        viewed = {event.region for event in item.run.events if event.kind == "view"}
        assert {evidence.region for evidence in draft.evidence} <= viewed
        assert len(draft.evidence) <= MAX_EVIDENCE
    # Some turns recomputed a sum and looked at nothing.
    assert without <= 2


@pytest.fixture(scope="module")
def failures(who_and_when: list[Imported]) -> list[tuple[Imported, LessonDraft | None]]:
    """The 184 real failed runs with what is derived from them."""
    runs = [item.run for item in who_and_when if item.run is not None]
    replies = EmbeddedMemoryController().derive(
        [DeriveRequest(run, "wrong", "oracle") for run in runs]
    )
    drafts = [reply.value.drafts if reply.value else () for reply in replies]
    return list(zip(who_and_when, [found[0] if found else None for found in drafts], strict=True))


def test_nine_of_ten_real_failures_yield_a_lesson_and_all_are_negative(
    failures: list[tuple[Imported, LessonDraft | None]],
) -> None:
    found = [draft for _, draft in failures if draft is not None]
    assert len(failures) == 184
    assert len(found) >= 0.9 * 184
    assert {draft.polarity for draft in found} == {"negative"}


def test_no_lesson_repeats_what_only_the_labels_say(
    failures: list[tuple[Imported, LessonDraft | None]],
) -> None:
    truths = 0
    for item, draft in failures:
        if draft is None:
            continue
        assert item.outcome is not None
        reason = words(str(item.outcome.labels["mistake_reason"]))
        truth = words(item.outcome.reference or "")
        texts = [words(text) for text in texts_of(draft)]
        for sealed, size in ((reason, min(8, len(reason))), (truth, len(truth))):
            hidden = grams(sealed, size) - grams(visible(item), size)
            truths += sealed is truth and bool(hidden)
            assert all(grams(text, size).isdisjoint(hidden) for text in texts)
    # The check means something: most truths are not shown by their run.
    assert truths > 50


def visible(item: Imported) -> list[str]:
    assert item.run is not None
    turns = "\n".join(turn.text for turn in interleave(item.run))
    return words(f"{item.run.task.question}\n{turns}")


def words(text: str) -> list[str]:
    return re.findall(r"\w+", text.casefold())


def grams(tokens: list[str], size: int) -> set[tuple[str, ...]]:
    if not size:
        return set()
    return {tuple(tokens[at : at + size]) for at in range(len(tokens) - size + 1)}


def texts_of(draft: LessonDraft) -> list[str]:
    notes = [item.note for item in draft.evidence]
    said = [item.text for item in draft.statements]
    index = draft.index
    head = [draft.guidance, draft.applies_when, draft.title, draft.body]
    names = [index.topic, index.scope, index.question_anchor, draft.family, draft.agent]
    return [*head, *draft.cautions, *notes, *said, *names]


HOUSE_TURNS = (
    ("reader", "The first page of the ledger lists nine rows with amounts in euro."),
    ("reader", "In Halden ledgers rows printed in red are void: leave them out of the total."),
    ("reader", "The last row of the ledger is printed in black and counted in the total."),
    ("checker", "The total of the remaining rows of the ledger is 120."),
)


@pytest.mark.parametrize("place", [0, 1, 2])
def test_a_convention_of_the_house_brings_the_region_it_was_read_from(
    make_run: Callable[..., Run], place: int
) -> None:
    others = [turn for turn in HOUSE_TURNS[:3] if "Halden" not in turn[1]]
    turns = [*others[:place], HOUSE_TURNS[1], *others[place:], HOUSE_TURNS[3]]
    views = [(at, 1, {**REGION, "x0": at + 1}, True) for at in range(4)]
    run = make_run(
        turns,
        question="What is the total of this ledger of Halden?",
        answer="120",
        house="Halden",
        pages=[PAGE],
        views=views,
    )
    draft = derive(run, "right")
    assert draft is not None
    assert HOUSE_TURNS[1][1] in [item.text for item in draft.statements]
    assert [item.region.x0 for item in draft.evidence] == [place + 1]


def test_a_convention_is_kept_before_what_belongs_to_one_question(
    make_run: Callable[..., Run],
) -> None:
    later = (
        ("reader", "The rows of this ledger that stay in the total hold 40, 50 and 30 in euro."),
        ("checker", "Adding up the amounts of the rows of this ledger gives the total 120."),
        ("checker", "The answer to the question about the total of the rows is therefore 120."),
    )
    question = "What is the total of the rows in this ledger?"
    run = make_run((HOUSE_TURNS[1], *later), question=question, answer="120", house="Halden")
    draft = derive(run, "right")
    assert draft is not None
    assert HOUSE_TURNS[1][1] in [item.text for item in draft.statements]
    without = derive(make_run((HOUSE_TURNS[1], *later), question=question, answer="120"), "right")
    assert without is not None
    assert HOUSE_TURNS[1][1] not in [item.text for item in without.statements]


def test_without_a_convention_all_salient_turns_bring_their_regions(
    make_run: Callable[..., Run],
) -> None:
    views = [(at, 1, {**REGION, "x0": at + 1}, True) for at in range(4)]
    question = "What is the total of this ledger?"
    run = make_run(HOUSE_TURNS, question=question, answer="120", pages=[PAGE], views=views)
    draft = derive(run, "right")
    assert draft is not None
    assert len(draft.evidence) == len(draft.statements) > 1


def test_a_sentence_that_adds_nothing_to_the_question_is_passed_over(
    make_run: Callable[..., Run],
) -> None:
    question = "How many rows of amounts are in this ledger of Halden?"
    restated = "This is a ledger of Halden with the rows of amounts that are asked for."
    turns = (
        ("reader", "Rows printed in red are void entries of an earlier year."),
        ("reader", restated),
    )
    draft = derive(make_run(turns, question=question, house="Halden"), "right")
    assert draft is not None
    assert draft.statements[0].text == turns[0][1]
