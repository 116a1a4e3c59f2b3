"""Question-level memory (journey D): step by step and in one call, with scripted controllers."""

from __future__ import annotations

import hashlib
import io
import os
from pathlib import Path

import pytest
from PIL import Image

from epimem import Attempt, Budget, ExperienceMemory, WorkingMemory
from epimem.config import Config, EncoderConfig
from epimem.errors import ImageError, RecordError
from epimem.protocols import Reply
from epimem.schema.proposal import Rejection
from epimem.schema.region import Region
from epimem.schema.working_memory import Update, VisualEvidence
from epimem.testing import ScriptedMemoryController, ScriptedTreeOrganizer, raises, small_run
from tests.image_files import encoded, picture


@pytest.fixture
def opened(tmp_path):
    """Return a function that opens one bank with a scripted update."""
    made = []

    def open_(script=None, *, name="bank", freeze=False):
        pair = (ScriptedMemoryController(update=script), ScriptedTreeOrganizer())
        config = Config(encoder=EncoderConfig(model="none"))
        memory = ExperienceMemory.create(tmp_path / name, config, controllers=pair)
        if freeze:
            memory.freeze()
        made.append(memory)
        return memory

    yield open_
    for memory in made:
        memory.close()


def box(page, x0, y0, x1, y1):
    return Region(x0=x0, y0=y0, x1=x1, y1=y1, width=page.width, height=page.height)


def look(request, x0=8, y0=8, x1=24, y1=20, page=0, **more):
    """Propose the region of a page, with its note."""
    shown = request.pages[page]
    found = VisualEvidence(image_id=shown.image_id, region=box(shown, x0, y0, x1, y1), note="here")
    return Update(guidance="Look at the marker.", visual="replace", evidence=found, **more)


def page():
    return picture(64, 48)


def png():
    return encoded(page(), "PNG")


def test_the_memory_starts_empty_and_the_controller_sees_all_five_inputs(opened):
    seen = []

    def script(request):
        seen.append(request)
        return look(request, gate=1)

    memory = opened(script)
    session = memory.start_refine("How many stops?", images=[png()])
    assert session.memory == WorkingMemory()
    first = session.memory_input()
    assert (first.items, first.text, first.crops, first.gate) == ((), "", (), 0)
    session.propose_update("7", trace="I counted them all.")
    (request,) = seen
    assert request.question == "How many stops?"
    assert [(shown.page, shown.width, shown.height) for shown in request.pages] == [(1, 64, 48)]
    assert request.memory == WorkingMemory()
    assert (request.answer, request.trace) == ("7", "I counted them all.")
    assert (request.attempt, request.left, request.crop) == (1, 4, None)
    with Image.open(io.BytesIO(request.pages[0].png(10_000))) as shown:
        assert shown.convert("RGB").tobytes() == page().tobytes()


def test_the_crop_equals_the_pixels_of_the_proposed_region(opened):
    memory = opened(lambda request: look(request, gate=1))
    session = memory.start_refine("q", images=[png()])
    session.propose_update("7")
    given = session.memory_input()
    assert given.gate == 1
    assert "Look at the marker." in given.text
    (crop,) = given.crops
    assert crop.region.box == (8, 8, 24, 20)
    with Image.open(io.BytesIO(memory.crop_png(crop))) as cut:
        # Cut with the margin of all crops: 2 % of the longer side, one pixel here.
        assert cut.convert("RGB").tobytes() == page().crop((7, 7, 25, 21)).tobytes()


def test_the_second_update_sees_the_crop_that_is_held(opened):
    seen = []

    def script(request):
        seen.append(request.crop)
        return look(request, gate=0)

    session = opened(script).start_refine("q", images=[png()])
    session.propose_update("7")
    session.propose_update("6")
    assert seen[0] is None
    with Image.open(io.BytesIO(seen[1].png(10_000))) as held:
        assert held.convert("RGB").tobytes() == page().crop((7, 7, 25, 21)).tobytes()


@pytest.mark.parametrize(
    ("gate", "mode", "shown"),
    [(1, "adaptive", 1), (0, "adaptive", 0), (0, "always", 1), (1, "off", 0)],
)
def test_the_gate_decides_what_goes_in_and_deletes_nothing(opened, gate, mode, shown):
    memory = opened(lambda request: look(request, gate=gate))
    session = memory.start_refine("q", images=[png()], gate=mode)
    session.propose_update("7")
    before = session.memory.canonical()
    given = session.memory_input()
    assert (given.gate, len(given.crops)) == (shown, shown)
    assert session.memory.evidence is not None
    assert session.memory.canonical() == before


def test_at_most_five_attempts_and_never_a_sixth(opened):
    memory = opened()
    asked = []

    def host(given):
        asked.append(given)
        return Attempt(answer=str(len(asked)))

    result = memory.refine("q", host)
    assert (len(asked), result.answer, result.stopped) == (5, "5", False)
    # Nothing follows the fifth attempt, so that nobody is asked to revise after it.
    assert len(result.memories) == 1 + 4
    session = memory.start_refine("q", max_attempts=1)
    session.propose_update("only")
    assert not session.may_attempt
    with pytest.raises(RecordError, match="no attempt is left"):
        session.propose_update("one more")
    for wrong in (0, 6):
        with pytest.raises(RecordError):
            memory.start_refine("q", max_attempts=wrong)


def test_it_ends_early_when_the_controller_says_stop(opened):
    memory = opened(lambda request: Update(guidance="x", stop=request.attempt == 2))
    result = memory.refine("q", lambda _: Attempt("answer"))
    assert (len(result.attempts), result.stopped) == (2, True)


def test_the_last_completed_answer_counts_not_the_best(opened):
    answers = iter(["right", "wrong", None])
    memory = opened()
    result = memory.refine("q", lambda _: Attempt(next(answers)), max_attempts=3)
    assert result.answer == "wrong"
    assert memory.refine("q", lambda _: Attempt(None), max_attempts=2).answer is None


def beyond(request):
    shown = request.pages[0]
    other = Region(x0=0, y0=0, x1=5, y1=5, width=shown.width + 1, height=shown.height)
    return Update(
        guidance="x",
        visual="replace",
        evidence=VisualEvidence(image_id=shown.image_id, region=other),
    )


def foreign(request):
    shown = request.pages[0]
    return Update(
        guidance="x",
        visual="replace",
        evidence=VisualEvidence(image_id="0" * 64, region=box(shown, 0, 0, 5, 5)),
    )


@pytest.mark.parametrize(
    "bad",
    [
        beyond,
        foreign,
        raises,
        lambda _: Reply(None, reason="not_json", raw="I am sorry"),
        lambda _: "rubbish",
        lambda _: Update.model_construct(guidance=7, visual="retain", gate=0, stop=False),
    ],
)
def test_an_invalid_update_leaves_the_memory_to_the_byte(opened, bad):
    def script(request):
        if request.attempt == 1:
            return look(request, gate=1)
        return bad(request) if request.attempt == 2 else Update(guidance="third", stop=True)

    session = opened(script).start_refine("q", images=[png()])
    session.propose_update("1")
    before = session.memory.canonical()
    refused = session.propose_update("2")
    assert isinstance(refused, Rejection)
    assert session.memory.canonical() == before
    assert session.rejections == [refused]
    session.propose_update("3")  # and it goes on
    assert session.memory.guidance == "third"


def test_a_refused_reply_is_kept_as_it_came_and_counted(opened):
    memory = opened(lambda _: Reply(None, reason="not_json", detail="no object", raw="I am sorry"))
    result = memory.refine("q", lambda _: Attempt("a"), max_attempts=2)
    (kept,) = result.rejections
    assert (kept.reason, kept.raw) == ("not_json", "I am sorry")


@pytest.mark.parametrize(("visual", "regions"), [("none", 0), ("frozen", 1), ("evolving", 2)])
def test_the_modes_of_the_ablation(opened, visual, regions):
    def script(request):
        assert request.visual == visual
        return look(request, x0=request.attempt, gate=1)

    memory = opened(script)
    result = memory.refine(
        "q", lambda _: Attempt("a"), images=[png()], visual=visual, max_attempts=3
    )
    held = {m.evidence.region.box for m in result.memories if m.evidence is not None}
    assert len(held) == regions


def folder_hash(path: Path) -> str:
    found = hashlib.sha256()
    for file in sorted(path.rglob("*")):
        if file.is_file():
            found.update(str(file.relative_to(path)).encode() + file.read_bytes())
    return found.hexdigest()


def test_nothing_of_it_enters_a_bank_which_may_be_frozen(opened):
    memory = opened(lambda request: look(request, gate=1), freeze=True)
    before = folder_hash(memory.bank.path)
    result = memory.refine("q", lambda _: Attempt("a"), images=[png()])
    assert result.memories[-1].evidence is not None
    assert folder_hash(memory.bank.path) == before


def test_a_run_serves_as_trace(opened):
    seen = []

    def script(request):
        seen.append(request.trace)
        return Update(guidance="x", stop=True)

    run = small_run()
    opened(script).refine("q", lambda _: Attempt("a", run))
    assert seen == [run]


def test_the_images_kept_aside_go_when_the_memory_is_closed(opened, tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))

    def kept():
        return list(tmp_path.glob("epimem-question-*"))

    memory = opened(look)
    memory.refine("q", lambda _: Attempt("a"), images=[png()], max_attempts=2)
    assert not kept()
    session = memory.start_refine("q", images=[png()])
    assert len(kept()) == 1
    pid = os.fork()
    if pid == 0:
        memory.close()
        os._exit(0)
    os.waitpid(pid, 0)
    assert len(kept()) == 1  # a forked child leaves it to its parent
    assert session.may_attempt
    memory.close()
    assert not kept()


def test_crops_of_the_memory_never_lie_beside_the_bank(opened):
    memory = opened(lambda request: look(request, gate=1))
    session = memory.start_refine("q", images=[png()])
    session.propose_update("a")
    (crop,) = session.memory_input().crops
    assert memory.crop_png(crop).startswith(b"\x89PNG")
    assert not list(memory.bank.side.cache.rglob("*.png"))
    session.finish()
    assert session.memory_input().crops == ()


def test_stop_counts_only_where_an_attempt_has_completed(opened):
    answers = iter([None, "7", "8"])
    memory = opened(lambda _: Update(guidance="x", stop=True))
    result = memory.refine("q", lambda _: Attempt(next(answers)))
    assert (result.answer, len(result.attempts), result.stopped) == ("7", 2, True)
    assert [rejection.reason for rejection in result.rejections] == ["schema"]


def test_a_memory_of_cautions_alone_is_shown_within_its_budget(opened):
    memory = opened(lambda _: Update(cautions=("c" * 150, "d" * 150, "e" * 150)))
    session = memory.start_refine("q", budget=Budget(chars=600))
    session.propose_update("a")
    given = session.memory_input()
    assert 0 < len(given.items[0].cautions) < 3
    assert given.items[0].shortened
    assert len(given.text) <= 600
    assert "Guidance" not in given.text


@pytest.mark.parametrize(
    "wrong",
    [{"visual": "Frozen"}, {"gate": "never"}, {"images": [b""] * 65}, {"question": "a\x00"}],
)
def test_what_is_out_of_range_is_refused_before_anything_is_kept(
    opened, wrong, tmp_path, monkeypatch
):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    memory = opened()
    with pytest.raises(RecordError):
        memory.start_refine(**{"question": "q", **wrong})
    assert not list(tmp_path.glob("epimem-question-*"))


def test_what_is_no_image_or_no_question_is_refused(opened):
    memory = opened()
    with pytest.raises(ImageError):
        memory.start_refine("q", images=[b"no image"])
    with pytest.raises(RecordError):
        memory.start_refine("  ")


def test_the_text_of_the_memory_stands_in_a_fence_and_within_its_budget(opened):
    long = "Count the stops. " * 900
    memory = opened(lambda _: Update(guidance=long, cautions=("c" * 500,)))
    session = memory.start_refine("q")
    session.propose_update("a")
    given = session.memory_input()
    assert len(given.text) <= memory.config.budget.chars
    assert given.text.startswith("Notes from your earlier attempts")
    assert given.items[0].shortened
