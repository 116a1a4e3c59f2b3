"""Failures that other memory systems had, as tests with the right value: replies, organizing.

Numbers are the rows of the list of public failure reports that this project keeps, parts a to g and
i; a test names its rows behind its first line. Where each row is tested (tests/ left out; "here" is
this file, "at once" test_failures_at_once.py, "recall" test_failures_in_recall.py, "words"
test_failures_in_words.py):

    1, 2    here::a_reply_that_cannot_be_used..., journeys/test_bad_controllers.py (whole file)
    3, 4, 6 JSON modes, fences, think blocks: step 3, with the model backends
    7       here::an_odd_lesson..., here::names_of_a_run...
    8       here::one_unusable_proposal_of_twenty...
    10      here::ids_that_were_not_shown..., operations/test_registry.py::unknown_ids_are_refused...
    11, 12  small models, renamed fields: step 3
    14, 15  prompt and parser agree, braces: step 3
    17      here::a_receipt_says...
    18      views of the facade for agents: step 5
    19      here::a_reply_that_cannot_be_used..., cli/test_report.py::stats_counts...; health: step 5
    20      here::an_unlawful_consolidation..., bad_controllers::an_organizer_that_fails_as_a_whole...
    21      here::one_step_takes_back..., operations/test_sequences.py::every_sequence_keeps...
    22      here::a_step_touches...
    23      here::sources_are_recalled...
    25      journeys/test_kill.py::restore_is_one_commit
    26      here::folding_keeps..., here::a_merge_takes..., operations/test_merge.py
    27      here::every_operation_has_its_journal_row...; dry run: step 3
    31      here::new_index_text..., bank/test_index.py::search_equals_brute_force...
    32      at once::eight_writers...
    34      at once::a_retry_with_its_key...
    35      journeys/test_many_processes.py::nothing_is_lost_or_doubled...
    37      at once::no_lock_is_held..., at once::a_writer_that_waits...
    38      at once::a_dead_maintainer..., journeys/test_many_processes.py
    39      here::a_reply_that_cannot_be_used..., bad_controllers::a_failed_try_waits_longer...
    93      at once::two_deposits...
    41      recall::the_index_of_a_follower...
    42      recall::a_cut_index_file..., recall::a_crop_whose_file..., bank/test_damage.py
    44, 46  bank/test_index.py::deleting_the_middle_of_three..., ::a_mask_of_another_moment...
    47, 48  recall::another_encoder..., bank/test_encoder.py::another_encoder_is_refused...;
            the command that encodes anew: step 2
    50      recall::no_module_reads_objects..., bank/test_derived.py::objects_are_never_stored
    51      recall::a_fact_in_the_tail..., bank/test_encoder.py::the_tail_of_a_long_text...;
            `truncated_tokens`: step 2
    52      recall::higher_is_better..., words::the_form_of_the_seed...,
            bank/test_index.py::scores_are_cosines...
    53      recall::a_bank_of_none_or_one..., bank/test_floor.py::a_tiny_bank_answers...
    55      recall::a_filter_that_is_not_understood..., recall::a_filter_of_another_name...,
            recall::no_question_sees...,
            bank/test_recall.py::the_namespace_cannot_be_left_out
    56      words::a_query_in_any_script..., words::any_text_with_a_term...,
            words::nothing_of_the_lexical_index..., bank/test_tokens.py
    58      words::a_run_with_what_nothing_can_store..., words::a_lesson_or_question_with_it...,
            schema/test_run.py::a_nul_or_lone_surrogate...
    59      words::no_printable_question..., words::operators_of_query_languages...,
            bank/test_lexical.py::no_printable_question...
    60      words::any_name_of_a_namespace..., words::any_name_of_a_reader...
    62, 64  harness_adapters/test_openai_chat.py::content_may_be..., ::a_part_of_another_kind...
    65      bank/test_images.py::exif_orientation_is_applied_once...
    67      bank/test_crops.py::a_crop_above_the_budget...; size after base64: step 3
    68      bank/test_image_header.py::damaged_headers_and_bombs...
    70      recall::no_journey_opens_a_connection, harness_adapters/test_pictures.py
    71      recall::a_lesson_outlives..., recall::a_lesson_whose_image_file...
    79      at once::an_update_is_a_version...
    80      at once::a_scope_of_250...
    81      bank/test_revocation.py::after_it_no_file_holds_a_word_or_a_crop...
    83      export and import of a bank: no command of step 1
"""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from epimem.memory import ExperienceMemory
from epimem.protocols import Derived, Reply
from epimem.schema.lesson import IndexText, LessonDraft
from epimem.schema.memory_input import Selection
from epimem.schema.proposal import Consolidate, Place
from epimem.schema.tree import violations
from epimem.testing import nearest_or_new, small_run
from tests.journeys.scripted_memory import (
    PLACES,
    all_lessons,
    alone,
    everything,
    filled,
    lesson,
    new_category_each,
    new_memory,
    reopened,
    rows_of,
    sound,
)

# -- a. replies and receipts -------------------------------------------------------------------------


def test_a_receipt_says_what_became_of_each_hand_in(tmp_path):  # 17
    draft = LessonDraft(guidance="I like strawberry.", question_key="q1")
    with new_memory(tmp_path / "bank") as memory:
        stored = memory.contribute(draft)
        again = memory.contribute(draft)
        folded = memory.contribute(draft.model_copy(update={"question_key": "q2"}))
        queued, twice = (memory.contribute(small_run(1, answer=" ")) for _ in range(2))
        receipts = (stored, again, folded, queued, twice)

        statuses = [receipt.status for receipt in receipts]
        assert statuses == ["stored", "duplicate", "folded", "queued", "duplicate"]
        assert {receipt.id for receipt in receipts[:3]} == {stored.id}
        assert queued.id == twice.id == "run-000001"
        assert [receipt.seq for receipt in receipts] == [1, 1, 2, 3, 3]
        assert stored.searchable == "dense"
        assert [item.node_id for item in memory.retrieve("strawberry?").items] == [stored.id]

        memory.ingest()
        assert memory.bank.run_states() == {"run-000001": ("nothing", "no answer")}


def test_a_reply_that_cannot_be_used_leaves_the_run_queued_until_one_can(tmp_path):  # 1, 2, 39
    now = [1_000_000.0]
    replies = [
        Reply(None, reason="not_json", detail='cut at \ud83d "', raw='{"facts": [{"fact'),
        Derived(()),
        Reply(Derived((lesson(1),))),
    ]
    with new_memory(
        tmp_path / "bank", derive=lambda _: replies.pop(0), clock=lambda: now[0]
    ) as memory:
        memory.contribute(small_run(1))
        report = memory.ingest()
        assert report.states == {"queued": 1}
        assert report.failures == {'not_json: cut at \\ud83d "': 1}
        assert memory.bank.run_states()["run-000001"][0] == "queued"

        assert memory.ingest().states == {}, "it is not due before a minute has passed"
        now[0] += 61
        assert memory.ingest().states == {"nothing": 1}
        assert memory.bank.run_states()["run-000001"][0] == "nothing"


def test_an_odd_lesson_among_good_ones_is_refused_alone(tmp_path):  # 7
    def derive(_):
        odd = ("a text", {"fact": "x"}, ["y"], lesson(2).model_copy(update={"guidance": "\u202e"}))
        return Derived((lesson(1), *odd, lesson(3, words="Leave out the depots")))

    with new_memory(tmp_path / "bank", derive=derive) as memory:
        memory.contribute(small_run(1))
        report = memory.ingest()
        assert (report.states, report.lessons) == ({"derived": 1}, 2)
        assert sum(report.refused.values()) == 4
        assert sound(memory)


def test_names_of_a_run_are_made_fit_for_its_lessons(tmp_path):  # 7, 58
    with new_memory(tmp_path / "bank", derive=lambda _: Derived((lesson(1),))) as memory:
        for number, name in enumerate(("语" * 100, "a\u202eb", "a\0b\x1b[2J", " ", "\ufeff")):
            run = small_run(number, family=name)
            system = run.system.model_copy(update={"harness": name})
            memory.contribute(run.model_copy(update={"system": system}))
        assert memory.ingest().states == {"derived": 5}
        assert sound(memory)
        assert memory.maintain().placed == 4, "a family that is nothing but blanks is none"


def test_one_unusable_proposal_of_twenty_leaves_nineteen_done(tmp_path):  # 8
    def place(request):
        if request.lesson.lesson.question_key == "q7":
            return Reply(None, reason="not_json", detail="no key", raw='{"action": "ADD"')
        return nearest_or_new(request)

    with new_memory(tmp_path / "bank", place=place) as memory:
        for number in range(20):
            memory.contribute(lesson(number, place=number % 12, words=f"Count number {number}"))
        report = memory.maintain()
        assert (report.placed, report.waiting, report.rejections) == (19, 1, {"not_json": 1})
        (body,) = rows_of(memory, "SELECT body FROM rejections")[0]
        assert json.loads(body)["raw"] == '{"action": "ADD"'
        asked = memory.retrieve(f"how many stop at the {PLACES[7]}? Count number 7")
        assert memory.explain(asked.retrieval_id)["candidates"], "what waits is recalled"
        with reopened(memory) as later:
            assert later.maintain().placed == 1


def test_ids_that_were_not_shown_do_nothing(tmp_path):  # 10
    scripts = {
        "place": lambda r: Place(lesson_id=r.lesson.node_id, category_id="0"),
        "select": lambda _: Selection(lesson_id="0"),
    }
    with new_memory(tmp_path / "bank", **scripts) as memory:
        stored = memory.contribute(lesson(1))
        assert memory.maintain().rejections == {"not_shown": 1}
        assert memory.bank.inbox("default", limit=9)[0].node_id == stored.id
        answer = memory.retrieve("how many white triangles stop at the amber bridge?")
        assert (answer.items, answer.warning) == ((), "the selection broke its bounds")
        assert memory.explain(answer.retrieval_id)["candidates"]


# -- b. consolidation, merge, split ------------------------------------------------------------------

UNLAWFUL = {
    "a support that is not there": lambda r: everything(r).model_copy(
        update={"supported_by": ("gone",)}
    ),
    "guidance without support": lambda r: everything(r).model_copy(update={"supported_by": ()}),
    "another node": lambda r: everything(r).model_copy(update={"node_id": r.lessons[0].node_id}),
    "hidden text": lambda r: everything(r).model_copy(update={"guidance": "\u202eabc"}),
    "too long": lambda r: everything(r).model_copy(update={"guidance": "x" * 20_000}),
}


@pytest.mark.parametrize("bad", UNLAWFUL.values(), ids=UNLAWFUL)
def test_an_unlawful_consolidation_leaves_the_tree_as_it_was(tmp_path, bad):  # 20
    with new_memory(tmp_path / "twin", consolidate=alone) as twin:
        filled(twin, places=2)
        expected = twin.bank.state_digest()
    with new_memory(tmp_path / "bank", consolidate=bad) as memory:
        report = filled(memory, places=2)
        assert sum(report.rejections.values()) == 2
        assert memory.bank.state_digest() == expected
        assert len(all_lessons(memory)) == 6


def test_one_step_takes_back_eight_guidances_at_most(tmp_path):  # 21, 22
    with new_memory(tmp_path / "bank", consolidate=everything) as memory:
        filled(memory, places=12, each=2)
        assert memory.bank.counts()["nodes"]["summary"] == 12
        for place in range(12):
            memory.contribute(lesson(f"new-{place}", place=place, words="Remove what faded"))
        before = all_lessons(memory)

        def nothing_left(request):
            return Consolidate(node_id=request.node.node_id)

        with reopened(memory, consolidate=nothing_left) as careless:
            report = careless.maintain()
        assert report.rejections == {"damage_cap": 4}
        assert memory.bank.counts()["nodes"]["summary"] == 4
        assert all_lessons(memory) == before, "no operation takes a lesson away"


def test_a_split_that_capacity_forces_uses_nothing_of_the_cap(tmp_path):  # 21
    """Six splits take six guidances back; three more are replaced, and eight may be."""

    def counted(request):
        words = f"{request.lessons[0].lesson.guidance} That is true of {len(request.lessons)}."
        return everything(request).model_copy(update={"guidance": words})

    tree = {"capacity": 7, "min_group": 2}
    with new_memory(tmp_path / "bank", tree=tree, consolidate=counted) as memory:
        filled(memory, places=9, each=4)
        assert memory.bank.counts()["nodes"]["rule"] == 9
        for place in range(9):
            for number in range(4 if place < 6 else 1):
                words = f"Count again {number}"
                memory.contribute(lesson(f"{place}+{number}", place=place, words=words))
        report = memory.maintain()
        assert report.operations["split_lift"] >= 6
        assert report.rejections == {}
        assert violations(memory.tree(), capacity=7, min_group=2) == ()


def test_a_step_touches_the_neighborhood_of_its_lessons_only(tmp_path):  # 22
    asked = set()

    def watched(request):
        asked.add(request.node.node_id)
        return everything(request)

    with new_memory(tmp_path / "bank", consolidate=watched) as memory:
        filled(memory, places=6)
        before = {node.node_id: node for node in memory.tree().walk()}
        seq = memory.bank.head_seq
        asked.clear()
        new = memory.contribute(lesson("new", place=4, words="Count the new ones"))
        memory.maintain()

        parent = memory.tree().node(new.id).parent_id
        assert asked == {parent}
        difference = memory.diff(seq, memory.bank.head_seq)
        assert set(difference.changed) <= {parent}
        assert (difference.added, difference.removed) == ((new.id,), ())
        untouched = before.keys() - {parent}
        assert {key: memory.tree().node(key) for key in untouched} == {
            key: before[key] for key in untouched
        }


def test_sources_are_recalled_before_during_and_after_a_consolidation(tmp_path):  # 23
    question = f"how many stop at the {PLACES[0]}?"
    seen = []

    def found(memory):
        answer = memory.retrieve(question)
        return {c["node_id"] for c in memory.explain(answer.retrieval_id)["candidates"]}

    def watched(request):
        with reopened(memory) as reader:
            seen.append(found(reader))
        return everything(request)

    with new_memory(tmp_path / "bank", consolidate=watched) as memory:
        ids = {memory.contribute(lesson(n, words=f"Count number {n}")).id for n in range(4)}
        seen.append(found(memory))
        memory.maintain()
        seen.append(found(memory))
        parent = memory.tree().node(min(ids)).parent_id
        assert memory.bank.node(parent).kind in {"summary", "rule"}
        assert [ids <= one for one in seen] == [True, True, True]
        assert parent in seen[2] - seen[1], "the rule is there together with its lessons"


def test_folding_keeps_provenance_counters_and_both_cautions(tmp_path):  # 26
    with new_memory(tmp_path / "bank") as memory:
        stored = memory.contribute(lesson(1, cautions=("Mind the legend.",), tags=("first",)))
        answer = memory.retrieve("how many white triangles stop at the amber bridge?")
        memory.feedback(answer.retrieval_id, verdict="right", helped=[stored.id])
        with reopened(memory, name="bob") as other:
            draft = lesson(2, cautions=("Depots are no stops.",), tags=("second",), run_ids=("r2",))
            assert other.contribute(draft).status == "folded"

        kept = memory.bank.node(stored.id).lesson
        assert kept.cautions == ("Mind the legend.", "Depots are no stops.")
        assert [(s.contributor, s.question_key, s.run_id) for s in kept.supports] == [
            ("local", "q1", None),
            ("bob", "q2", "r2"),
        ]
        assert (kept.contributor, kept.authority, kept.folded) == ("local", "observed", 1)
        standing = memory.bank.standing([(stored.id, "default", "")])[stored.id]
        assert (standing.helped, standing.used_right) == (1, 1)


def test_a_merge_takes_guidance_back_and_keeps_every_lesson_and_caution(tmp_path):  # 26
    tree = {"batch": 1}
    scripts = {"place": new_category_each, "consolidate": alone}
    with new_memory(tmp_path / "bank", tree=tree, **scripts) as memory:
        for number in range(4):
            caution = f"Caution {number}."
            memory.contribute(lesson(number, words=f"Count number {number}", cautions=(caution,)))
        report = memory.maintain()
        assert report.operations["merge"] == 3
        assert {node.lesson.cautions for node in memory.tree().lessons()} == {
            (f"Caution {number}.",) for number in range(4)
        }


def test_every_operation_has_its_journal_row_and_none_happens_unasked(tmp_path):  # 27
    with new_memory(tmp_path / "bank", consolidate=everything) as memory:
        for number in range(3):
            memory.contribute(lesson(number, words=f"Count number {number}"))
        memory.retrieve("how many stop at the amber bridge?")
        memory.ingest()
        assert memory.tree() is None, "only maintenance organizes"
        report = memory.maintain()
        rows = [row["kind"] for row in memory.bank.journal_rows(last=100)]
        applied = [kind.removeprefix("op:") for kind in rows if kind.startswith("op:")]
        assert applied == ["repair", "place", "place", "place", "consolidate"]
        assert report.operations == {"place": 3, "consolidate": 1}


def test_new_index_text_and_the_index_never_disagree(tmp_path):  # 31
    renamed = IndexText(scope="zeppelin hangar", question_anchor="which zeppelin is moored?")

    def rename(request):
        return everything(request).model_copy(update={"index": renamed, "title": "zeppelins"})

    def ranked(memory, question):
        answer = memory.retrieve(question)
        found = memory.explain(answer.retrieval_id)["candidates"]
        return {c["node_id"]: (c["lexical"] or 0, c["dense"] or 0) for c in found}

    with new_memory(tmp_path / "bank", consolidate=everything) as memory:
        filled(memory)
        with ExperienceMemory.open(memory.bank.path, read_only=True) as reader:
            tree = memory.tree()
            category = tree.node(tree.lessons()[0].parent_id).node_id
            old = ranked(reader, f"how many stop at the {PLACES[0]}?")[category]
            with reopened(memory, consolidate=rename) as other:
                other.contribute(lesson("new", words="Count the new ones"))
                other.maintain()
            for handle in (memory, reader):
                lexical, dense = ranked(handle, "which zeppelin is moored?")[category]
                assert lexical > 0.5
                assert dense > 0.7
                lexical, dense = ranked(handle, f"how many stop at the {PLACES[0]}?")[category]
                assert lexical == 0
                assert dense < old[1] - 0.3
                assert handle.bank.node(category).index == renamed


# -- the table ---------------------------------------------------------------------------------------

NICKNAMES = {
    "here": "journeys/test_failures",
    "at once": "journeys/test_failures_at_once",
    "recall": "journeys/test_failures_in_recall",
    "words": "journeys/test_failures_in_words",
    "bad_controllers": "journeys/test_bad_controllers",
}


def test_the_table_names_tests_that_are_there():
    """Every row of the table has a test, or says in which step it gets one."""
    tests = Path(__file__).parents[1]
    rows = re.split(r"\n    (?=\d)", __doc__.split("recall.py", 1)[1])[1:]
    assert len(rows) > 40
    for row in rows:
        named = re.findall(r"(?:(at once|[\w/.]+))?::(\w+)", row)
        files = re.findall(r"[\w/]+/test_\w+\.py", row)
        assert named or files or re.search(r"step \d", row), row
        place = ""
        for given, name in named:
            place = NICKNAMES.get(given, given.removesuffix(".py")) or place
            found = [tests / f"{place}.py", tests / f"epimem/{place}.py"]
            text = "".join(path.read_text("utf-8") for path in found if path.is_file())
            assert f"def test_{name}" in text, (row, place, name)
        for file in files:
            assert (tests / file).is_file() or (tests / "epimem" / file).is_file(), row
