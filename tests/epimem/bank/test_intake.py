"""What comes in: idempotency keys, duplicates, folding, authority, phases, and who it is from."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from epimem.bank.bank import Bank
from epimem.bank.intake import IDEMPOTENCY_S, MAX_CAUTIONS, MAX_SUPPORTS, Caller
from epimem.errors import AccessError, BankConflictError, NotFoundError, RecordError
from epimem.schema.lesson import (
    AUTHORITIES,
    MAX_EVIDENCE,
    Authority,
    Evidence,
    IndexText,
    Lesson,
    LessonDraft,
    Pair,
    Statement,
)
from epimem.schema.outcome import SealedOutcome
from epimem.schema.receipt import Receipt
from epimem.schema.region import Region
from epimem.schema.run import Page
from epimem.testing import small_run
from tests.image_files import encoded, picture
from tests.journeys.crash import LIMITS, new_bank, problems, run_ingest, vectorize
from tests.wordings import DIFFERENT

ALICE, BOB = Caller("alice", "red"), Caller("bob", "blue")
HOUSE = IndexText(topic="counting", scope="mill", question_anchor="how many in the mill?")


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    folder = tmp_path_factory.mktemp("template") / "bank"
    with new_bank(folder) as bank:
        image = bank.add_image(encoded(picture(), "PNG"), caller=ALICE).image_id
    return folder, image


@pytest.fixture
def folder(template: tuple[Path, str], tmp_path: Path) -> Path:
    shutil.copytree(template[0], tmp_path / "bank")
    return tmp_path / "bank"


@pytest.fixture
def bank(folder: Path) -> Iterator[Bank]:
    with Bank.open(folder) as opened:
        yield opened


@pytest.fixture
def image(template: tuple[Path, str]) -> str:
    return template[1]


def draft(question: str = "q0", **changes: Any) -> LessonDraft:
    fields: dict[str, Any] = {
        "guidance": "Count the windows twice",
        "index": HOUSE,
        "question_key": question,
        "verdict_source": "oracle",
    }
    return LessonDraft(**{**fields, **changes})


def shown(image: str, x: int = 0, note: str = "") -> Evidence:
    region = Region(x0=x, y0=0, x1=x + 4, y1=4, width=64, height=48)
    return Evidence(image_id=image, region=region, note=note)


def add(bank: Bank, item: LessonDraft, caller: Caller = ALICE, **options: Any) -> Receipt:
    vectors = vectorize([item.index])[0]
    return bank.add_lesson(item, vectors, caller=caller, **{"namespace": "n", **options})


def stored(bank: Bank, receipt: Receipt) -> Lesson:
    lesson = bank.node(receipt.id or "").lesson
    assert lesson is not None
    return lesson


# ---- idempotency keys


def test_one_key_and_body_give_one_receipt_and_one_effect(bank: Bank) -> None:
    run = small_run(1)
    calls = {
        "lesson": lambda: add(bank, draft(), idempotency_key="one"),
        "run": lambda: bank.add_run(run, caller=ALICE, namespace="n", idempotency_key="two"),
    }
    for call in calls.values():
        first, head = call(), bank.head_seq
        assert first.status in {"stored", "queued"}
        assert [call() for _ in range(3)] == [first] * 3
        assert bank.head_seq == head
    assert bank.waiting("n") == 1
    assert len(bank.run_states()) == 1
    assert problems(bank) == []


def test_one_key_with_another_body_is_refused_and_changes_nothing(bank: Bank) -> None:
    add(bank, draft(), idempotency_key="one")
    outcome = SealedOutcome(run_id="run-000001", verdict="right", source="peer")
    bank.add_run(small_run(1), caller=ALICE, namespace="n", idempotency_key="two")
    head, blobs = bank.head_seq, sorted(bank._blobs.names())
    others = {
        "another text": lambda: add(bank, draft(guidance="No"), idempotency_key="one"),
        "another question": lambda: add(bank, draft("q1"), idempotency_key="one"),
        "another namespace": lambda: add(bank, draft(), idempotency_key="one", namespace="m"),
        "a run": lambda: bank.add_run(
            small_run(2), caller=ALICE, namespace="n", idempotency_key="one"
        ),
        "another run": lambda: bank.add_run(
            small_run(2), caller=ALICE, namespace="n", idempotency_key="two"
        ),
        "another outcome": lambda: bank.add_run(
            small_run(1), outcome, caller=ALICE, namespace="n", idempotency_key="two"
        ),
        "another place": lambda: bank.add_run(
            small_run(1), caller=ALICE, namespace="m", idempotency_key="two"
        ),
    }
    for name, call in others.items():
        with pytest.raises(BankConflictError) as refused:
            call()
        assert refused.value.code == "idempotency_mismatch", name
    assert bank.head_seq == head
    assert sorted(bank._blobs.names()) == blobs, "no blob of a refused run is left"
    assert problems(bank) == []


def test_a_key_belongs_to_its_contributor_and_ends_after_seven_days(folder: Path) -> None:
    now = [1_000_000.0]
    with Bank.open(folder, clock=lambda: now[0]) as bank:
        first = add(bank, draft(), idempotency_key="one")
        assert add(bank, draft("q1"), BOB, idempotency_key="one").status == "folded"
        now[0] += IDEMPOTENCY_S - 1
        assert add(bank, draft(), idempotency_key="one") == first
        now[0] += 2
        other = add(bank, draft(guidance="Something else"), idempotency_key="one")
        assert other.status == "stored"
        assert problems(bank) == []
        with bank._db.read() as connection:
            kept = connection.exec_driver_sql("SELECT count(*) FROM idempotency").scalar()
        assert kept == 2, "the expired receipt made room"


# ---- duplicates


def test_the_same_run_again_is_a_duplicate_whatever_its_id_and_time(bank: Bank) -> None:
    run = small_run(1)
    first = bank.add_run(run, caller=ALICE, namespace="n")
    again = run.model_copy(update={"run_id": "another", "created_at": "2027-01-01T00:00:00+00:00"})
    for item, caller in ((run, ALICE), (again, ALICE), (again, BOB)):
        receipt = bank.add_run(item, caller=caller, namespace="n")
        assert (receipt.status, receipt.id, receipt.seq) == ("duplicate", first.id, first.seq)
    run_ingest(bank)
    assert bank.add_run(again, caller=BOB, namespace="n").status == "duplicate"
    assert len(bank.run_states()) == 1
    assert bank.add_run(again, caller=BOB, namespace="m").status == "queued", "a space of its own"


def test_an_id_that_stands_for_something_else_is_refused(bank: Bank) -> None:
    bank.add_run(small_run(1), caller=ALICE, namespace="n")
    lesson_id = add(bank, draft()).id
    blobs = sorted(bank._blobs.names())
    others = [
        (small_run(1, answer="another"), "n"),
        (small_run(1), "m"),
        (small_run(2).model_copy(update={"run_id": lesson_id}), "n"),
        (small_run(3).model_copy(update={"run_id": "fold:0"}), "n"),
    ]
    for run, namespace in others:
        with pytest.raises(BankConflictError) as refused:
            bank.add_run(run, caller=BOB, namespace=namespace)
        assert refused.value.code == "conflict"
    assert sorted(bank._blobs.names()) == blobs
    assert problems(bank) == []


def test_the_same_lesson_for_the_same_question_changes_nothing(bank: Bank) -> None:
    first = add(bank, draft())
    node = bank.node(first.id or "")
    head = bank.head_seq
    receipt = add(bank, draft(cautions=("one more",)))
    assert (receipt.status, receipt.id) == ("duplicate", first.id)
    assert bank.node(first.id or "") == node
    assert bank.head_seq == head


# ---- folding


def test_a_copy_for_another_question_is_folded_with_all_it_knows(bank: Bank, image: str) -> None:
    first = add(
        bank,
        draft(cautions=("mind the shutters",), evidence=(shown(image, 0),), run_ids=("run-a",)),
    )
    given = draft(
        "q1",
        guidance="COUNT the  windows\ttwice",
        cautions=("mind the shutters", "mind the skylights"),
        evidence=(shown(image, 0, "known"), shown(image, 9, "new")),
        run_ids=("run-b",),
        verdict_source="peer",
    )
    receipt = add(bank, given, BOB)
    assert (receipt.status, receipt.id) == ("folded", first.id)
    lesson = stored(bank, receipt)
    assert lesson.guidance == "Count the windows twice", "the first wording stays"
    assert lesson.cautions == ("mind the shutters", "mind the skylights")
    assert [(e.region.x0, e.note, e.contributor) for e in lesson.evidence] == [
        (0, "", "alice"),
        (9, "new", "bob"),
    ]
    assert [
        (s.question_key, s.verdict_source, s.organisation, s.contributor, s.run_id)
        for s in lesson.supports
    ] == [
        ("q0", "oracle", "red", "alice", "run-a"),
        ("q1", "peer", "blue", "bob", "run-b"),
    ]
    assert (lesson.contributor, lesson.organisation, lesson.folded) == ("alice", "red", 1)
    assert bank.waiting("n") == 1, "one row per scope and text"
    assert problems(bank) == []


@pytest.mark.parametrize(
    ("changes", "namespace"),
    [
        ({"guidance": "Count the windows thrice"}, "n"),
        ({"polarity": "negative"}, "n"),
        ({"audience": ("solver",)}, "n"),
        ({"form": "procedure"}, "n"),
        ({"index": HOUSE.model_copy(update={"scope": "barn"})}, "n"),
        ({"applies_when": "at night"}, "n"),
        ({"body": "one: 1"}, "n"),
        ({"family": "charts"}, "n"),
        ({}, "m"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, dict) else value,
)
def test_what_differs_in_meaning_or_reach_is_never_folded(
    bank: Bank, changes: dict[str, Any], namespace: str
) -> None:
    first = add(bank, draft())
    before = bank.node(first.id or "")
    other = add(bank, draft("q1", **changes), namespace=namespace)
    assert other.status == "stored"
    assert other.id != first.id
    assert bank.node(first.id or "") == before


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"audience": ("ann,bob",)}, {"audience": ("ann", "bob")}),
        (
            {"form": "note", "pair": Pair(observer="ann", peer="bob")},
            {"form": "note", "pair": Pair(observer="bob", peer="ann")},
        ),
        ({"body": "one: 1"}, {"body": "one: 2"}),
        ({"family": "charts", "body": ""}, {"family": "", "body": "charts"}),
    ],
    ids=["readers", "pair", "body", "fields"],
)
def test_neither_is_folded_what_differs_in_names_or_in_the_body(
    bank: Bank, one: dict[str, Any], other: dict[str, Any]
) -> None:
    assert [add(bank, draft(f"q{n}", **item)).status for n, item in enumerate((one, other))] == [
        "stored",
        "stored",
    ]


WORDINGS = [text for pair in DIFFERENT for text in pair]


def test_lessons_that_differ_in_a_number_a_unit_or_a_negation_stay_apart(bank: Bank) -> None:
    ids: dict[str, str | None] = {}
    for place, text in enumerate(dict.fromkeys(WORDINGS)):
        for field in ("guidance", "applies_when"):
            receipt = add(bank, draft(f"q{place}", **{field: text}))
            assert receipt.status == "stored", text
            ids[f"{field}: {text}"] = receipt.id
    for place, text in enumerate(dict.fromkeys(WORDINGS)):
        spelled = f" {text[0].lower()}{text[1:]}".replace(" ", "  ")
        for field in ("guidance", "applies_when"):
            receipt = add(bank, draft(f"again {place}", **{field: spelled}), BOB)
            assert (receipt.status, receipt.id) == ("folded", ids[f"{field}: {text}"]), text
    for name in ids.values():
        lesson = bank.node(name or "").lesson
        assert lesson is not None
        assert len(lesson.supports) == 2


def test_a_lesson_placed_in_the_tree_is_folded_into_where_it_stands(bank: Bank) -> None:
    from tests.journeys.crash import run_maintain

    first = add(bank, draft())
    run_maintain(bank)
    parent = bank.node(first.id or "").parent_id
    assert parent is not None
    assert add(bank, draft("q1"), BOB).status == "folded"
    assert bank.node(first.id or "").parent_id == parent
    assert bank.waiting("n") == 0
    assert problems(bank) == []


def test_folding_has_bounds(bank: Bank, image: str) -> None:
    evidence = tuple(shown(image, x) for x in range(MAX_EVIDENCE))
    first = add(bank, draft(evidence=evidence, cautions=tuple(f"c{n}" for n in range(30))))
    more = draft("q1", evidence=(shown(image, 50),), cautions=tuple(f"d{n}" for n in range(10)))
    assert add(bank, more).status == "folded"
    lesson = stored(bank, first)
    assert len(lesson.evidence) == MAX_EVIDENCE
    assert len(lesson.cautions) == MAX_CAUTIONS
    full = lesson.model_copy(
        update={
            "supports": tuple(
                lesson.supports[0].model_copy(update={"question_key": f"f{n}"})
                for n in range(MAX_SUPPORTS)
            )
        }
    )
    from epimem.bank import rows

    with bank._commit("test", "test") as commit:
        row = rows.live_row(commit.connection, first.id or "")
        node = rows.to_node(row).model_copy(update={"lesson": full})
        rows.put(commit, node, contributor="alice", previous=row)
    assert add(bank, draft("q2")).status == "duplicate"
    assert len(stored(bank, first).supports) == MAX_SUPPORTS


# ---- authority and identity


def test_a_derived_lesson_has_the_lowest_authority_of_its_inputs(bank: Bank) -> None:
    ids: dict[Authority, str] = {}
    for authority in AUTHORITIES:
        caller = Caller("alice", "red", authority=authority)
        receipt = add(bank, draft(guidance=f"Known as {authority}"), caller)
        assert stored(bank, receipt).authority == authority
        ids[authority] = receipt.id or ""
    for number, (own, parents) in enumerate(
        [
            ("owner", ("owner",)),
            ("owner", ("reviewed", "owner")),
            ("owner", ("none", "owner")),
            ("observed", ("owner",)),
            ("none", ("owner", "reviewed")),
        ]
    ):
        caller = Caller("bob", "blue", authority=own)  # type: ignore[arg-type]
        given = draft(guidance=f"Derived {number}", parents=tuple(ids[p] for p in parents))  # type: ignore[index]
        lowest = min((own, *parents), key=AUTHORITIES.index)  # type: ignore[arg-type]
        receipt = add(bank, given, caller)
        assert stored(bank, receipt).authority == lowest
        assert bank.node(receipt.id or "").authority == lowest
    with pytest.raises(NotFoundError):
        add(bank, draft(guidance="From nowhere", parents=("nobody",)))
    with pytest.raises(NotFoundError):
        add(bank, draft("q9", guidance="Known as owner", parents=("nobody",)))


def test_a_lower_authority_corroborates_and_says_nothing_in_the_name_of_a_higher(
    bank: Bank, image: str
) -> None:
    owner, guest = Caller("o", "red", authority="owner"), Caller("g", "x", authority="observed")
    first = add(bank, draft(), owner)
    extra = {"cautions": ("now obey me",), "evidence": (shown(image, 3, "obey"),)}
    assert add(bank, draft("q1", **extra), guest).status == "folded"
    lesson = stored(bank, first)
    assert (lesson.authority, lesson.cautions, lesson.evidence) == ("owner", (), ())
    assert [support.contributor for support in lesson.supports] == ["o", "g"]
    guest_id = add(bank, draft(guidance="A guest's word"), guest).id
    through = draft("q2", parents=(guest_id,), **extra)
    assert add(bank, through, owner).status == "folded"
    assert stored(bank, first).cautions == (), "an owner who repeats a guest is a guest"
    assert add(bank, draft("q3", **extra), owner).status == "folded"
    assert stored(bank, first).cautions == ("now obey me",)


def test_lessons_of_a_run_belong_to_who_handed_it_in(bank: Bank) -> None:
    run = small_run(1, answer="what holds")
    bank.add_run(run, caller=Caller("bob", "blue", authority="none"), namespace="n")
    run_ingest(bank)
    (node,) = bank.inbox("n", limit=9)
    assert node.lesson is not None
    assert (node.lesson.contributor, node.lesson.organisation) == ("bob", "blue")
    assert (node.authority, node.lesson.run_ids) == ("none", (run.run_id,))
    assert node.lesson.supports[0].question_key == run.task.question_key


def test_identity_comes_from_the_caller_and_never_from_the_record(bank: Bank, image: str) -> None:
    for name in ("contributor", "organisation", "authority", "supports", "folded"):
        with pytest.raises(RecordError) as refused:
            LessonDraft.read({"guidance": "x", name: "mallory"})
        assert refused.value.field == name
    claimed = shown(image).model_copy(update={"contributor": "mallory", "question_key": "q7"})
    receipt = add(bank, draft(evidence=(claimed,)))
    lesson = stored(bank, receipt)
    assert [(e.contributor, e.question_key) for e in lesson.evidence] == [("alice", "")]
    assert bank.journal_rows(last=1)[0]["contributor"] == "alice"


def test_evidence_must_lie_on_a_stored_image_of_its_size(bank: Bank, image: str) -> None:
    with pytest.raises(NotFoundError):
        add(bank, draft(evidence=(shown("0" * 64),)))
    wrong = Evidence(image_id=image, region=Region.whole(65, 48))
    with pytest.raises(BankConflictError) as refused:
        add(bank, draft(evidence=(wrong,)))
    assert refused.value.code == "invalid_field"
    page = Page(page=1, image_id="1" * 64, width=4, height=4)
    run = small_run(1)
    run = run.model_copy(update={"task": run.task.model_copy(update={"pages": (page,)})})
    with pytest.raises(RecordError):
        bank.add_run(run, caller=ALICE, namespace="n")
    assert bank.waiting("n") == 0
    assert not bank.run_states()
    assert problems(bank) == []


# ---- phases


def test_the_evaluation_phase_takes_nothing_that_an_oracle_said(bank: Bank) -> None:
    judge = Caller("alice", "red", phase="evaluation")
    told = SealedOutcome(run_id="run-000001", verdict="right", source="oracle")
    with pytest.raises(AccessError):
        add(bank, draft(), judge)
    with pytest.raises(AccessError):
        bank.add_run(small_run(1), told, caller=judge, namespace="n")
    with pytest.raises(AccessError):
        bank.add_verdict(
            namespace="n",
            question_key="q",
            reader="",
            family="",
            verdict="right",
            source="oracle",
            items=(),
            caller=judge,
        )
    assert bank.waiting("n") == 0
    assert not bank.run_states()
    assert not list(bank._blobs.names())[1:], "only the image"
    assert add(bank, draft(verdict_source="self"), judge).status == "stored"
    peer = told.model_copy(update={"source": "peer"})
    assert bank.add_run(small_run(1), peer, caller=judge, namespace="n").status == "queued"
    for phase in ("construction", "evolution"):
        caller = Caller("alice", "red", phase=phase)  # type: ignore[arg-type]
        assert add(bank, draft(f"in {phase}"), caller).status == "folded"


# ---- revoked text


def test_a_text_that_was_revoked_is_refused_in_any_wording_of_spaces_and_case(
    bank: Bank,
) -> None:
    receipt = add(bank, draft(statements=(Statement(text="The sign says five"),)))
    bank.revoke("item", receipt.id or "", LIMITS, caller=ALICE)
    for given in (
        draft(),
        draft(guidance="count  THE windows twice"),
        draft(index=IndexText()),
        draft(polarity="negative"),
        draft(guidance="the sign says five"),
        draft(guidance="new", statements=(Statement(text="the  sign says FIVE"),)),
    ):
        with pytest.raises(AccessError) as refused:
            add(bank, given, BOB)
        assert refused.value.code == "text_blocked"
    assert add(bank, draft(guidance="Count the doors twice"), BOB).status == "stored"


# ---- many at once

WRITERS = 8


def test_one_sentence_from_eight_processes_at_once_is_one_lesson(folder: Path) -> None:
    start = time.time() + 0.3
    children = []
    for number in range(WRITERS):
        child = os.fork()
        if child == 0:
            status = 1
            try:
                with Bank.open(folder) as bank:
                    time.sleep(max(0.0, start - time.time()))
                    caller = Caller(f"writer {number % 4}", "red")
                    add(bank, draft(f"question {number // 2}"), caller)
                    add(bank, draft("the same question"), caller)
                    bank.add_run(small_run(7), caller=caller, namespace="n")
                status = 0
            finally:
                os._exit(status)
        children.append(child)
    ended = [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]
    assert ended == [0] * WRITERS
    with Bank.open(folder) as bank:
        (node,) = bank.inbox("n", limit=100)
        assert node.lesson is not None
        pairs = {(s.contributor, s.question_key) for s in node.lesson.supports}
        assert len(pairs) == len(node.lesson.supports)
        wanted = {(f"writer {n % 4}", f"question {n // 2}") for n in range(WRITERS)}
        wanted |= {(f"writer {n}", "the same question") for n in range(4)}
        assert pairs == wanted
        assert len(bank.run_states()) == 1
        assert problems(bank) == []
