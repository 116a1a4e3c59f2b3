"""What controllers are shown: pages of runs and questions, crops of candidates, read when looked at."""

from __future__ import annotations

import io

import pytest
from PIL import Image

from epimem.errors import RecordError
from epimem.protocols import Reply
from epimem.schema.lesson import Evidence
from epimem.schema.memory_input import Selection
from epimem.schema.region import Region
from epimem.schema.run import Page
from epimem.testing import answer_as_lesson, first_candidate, small_run
from tests.image_files import encoded, picture
from tests.journeys.scripted_memory import lesson, new_memory

QUESTION = "how many stop at the amber bridge?"


def pixels(png):
    with Image.open(io.BytesIO(png)) as shown:
        return shown.convert("RGB").tobytes()


@pytest.fixture
def shown(tmp_path):
    """Open a bank that notes every request of its controllers, with one image in it."""
    seen = {}

    def noting(name, script):
        def note(request):
            seen[name] = request
            return script(request)

        return note

    with new_memory(
        tmp_path / "bank",
        derive=noting("derive", answer_as_lesson),
        gate=noting("gate", lambda _: 1),
        select=noting("select", first_candidate),
    ) as memory:
        image = memory.add_image(encoded(picture(), "PNG"))
        yield memory, image, seen


def test_derive_sees_the_pages_of_the_run(shown):
    memory, image, seen = shown
    run = small_run()
    page = Page(page=1, image_id=image.image_id, width=image.width, height=image.height)
    memory.contribute(
        run.model_copy(update={"task": run.task.model_copy(update={"pages": (page,)})})
    )
    memory.ingest()
    (found,) = seen["derive"].pages
    assert (found.page, found.width, found.height) == (1, 64, 48)
    assert pixels(found.png(10_000)) == picture().tobytes()
    with Image.open(io.BytesIO(found.png(500))) as small:
        assert small.width * small.height <= 500


def test_select_sees_crops_of_candidates_and_select_and_gate_the_pages_the_bank_has(shown):
    memory, image, seen = shown
    region = Region(x0=10, y0=10, x1=30, y1=20, width=64, height=48)
    memory.contribute(lesson(1, evidence=[Evidence(image_id=image.image_id, region=region)]))
    answer = memory.retrieve(QUESTION, images=["0" * 64, image.image_id])
    request = seen["select"]
    (crop,) = request.crops[request.candidates[0].node_id]
    # As a crop is delivered: with its margin, and of the size that is said.
    assert (crop.page, crop.width, crop.height) == (0, 22, 12)
    assert pixels(crop.png(10_000)) == picture().crop((9, 9, 31, 21)).tobytes()
    assert pixels(memory.crop_png(answer.crops[0])) == pixels(crop.png(10_000))
    for name in ("select", "gate"):
        assert [page.page for page in seen[name].pages] == [2]
        assert pixels(seen[name].pages[0].png(10_000)) == picture().tobytes()


def test_an_image_that_is_gone_is_no_fault(tmp_path):
    seen = []

    def select(request):
        seen.extend(request.crops[request.candidates[0].node_id])
        return Reply(Selection())

    with new_memory(tmp_path / "bank", select=select) as memory:
        image = memory.add_image(encoded(picture(), "PNG"))
        region = Region.whole(image.width, image.height)
        memory.contribute(lesson(1, evidence=[Evidence(image_id=image.image_id, region=region)]))
        (memory.bank.path / "blobs" / image.blob[:2] / image.blob).unlink()
        memory.retrieve(QUESTION)
    assert [crop.png(100) for crop in seen] == [None]


@pytest.mark.parametrize(
    ("decided", "mode", "count"),
    [(0, "adaptive", 0), (0, "always", 1), (1, "adaptive", 1), (1, "off", 0)],
)
def test_the_gate_decides_unless_it_is_held_open_or_shut(tmp_path, decided, mode, count):
    asked = []

    def gate(request):
        asked.append(request)
        return decided

    with new_memory(tmp_path / "bank", gate=gate) as memory:
        image = memory.add_image(encoded(picture(), "PNG"))
        region = Region.whole(image.width, image.height)
        memory.contribute(lesson(1, evidence=[Evidence(image_id=image.image_id, region=region)]))
        answer = memory.retrieve(QUESTION, gate=mode)
        with pytest.raises(RecordError):
            memory.retrieve(QUESTION, gate="never")
    assert (len(answer.crops), answer.gate) == (count, 1 if count else 0)
    assert len(asked) == (mode == "adaptive")
