"""Every operation on a tiny random model under its grammar: prompt, reply, reading, and a whole journey.

What such a model says is noise of the right form. So every reply must be JSON of its schema, and what is
refused must be refused for its sense, never for its form or for an id that was not shown.
"""

from __future__ import annotations

import io
import json
import sys
from collections import Counter

import pytest

from controllers.backends.held_schema import held
from controllers.backends.local_inputs import read, see, tensors
from controllers.backends.transformers import TransformersBackend
from controllers.model.memory_controller import ModelMemoryController
from controllers.model.tree_organizer import ModelTreeOrganizer
from controllers.prompts import OPERATIONS
from epimem.bank.costs import Costs
from epimem.memory import ExperienceMemory
from epimem.protocols import Picture, Reply
from epimem.schema.lesson import Evidence
from epimem.schema.region import Region
from epimem.schema.run import Page
from epimem.testing import small_run
from tests.controllers.backends.fitting import fits
from tests.controllers.prompts.samples import REQUESTS
from tests.journeys.scripted_memory import config, lesson

pytestmark = pytest.mark.torchvision

MEMORY = ("derive", "update", "gate")
WITH_IMAGES = ("derive", "update", "gate", "select")
# Of sense: fields that contradict each other, a text or list that is empty or too long, a region.
REASONS = {"schema", "limit", "text", "image", "contradiction"}
TEXTS = ("100 % {of} <|im_end|> naïve 駅",)


def drawn(picture, max_pixels):
    """Noise that depends on the picture, at its size or what is allowed of it."""
    from PIL import Image

    scale = min(1.0, (max_pixels / (picture.width * picture.height)) ** 0.5)
    size = (max(1, int(picture.width * scale)), max(1, int(picture.height * scale)))
    shade = sum(picture.image_id.encode()) % 200
    file = io.BytesIO()
    Image.new("RGB", size, (shade, 255 - shade, 40)).save(file, "PNG")
    return file.getvalue()


@pytest.fixture(autouse=True)
def pictures(monkeypatch):
    monkeypatch.setattr(Picture, "png", drawn)


@pytest.fixture(scope="module")
def pair(checkpoint, adapters):
    """Both controllers, each with an adapter of its own on one base."""
    backends = [TransformersBackend(str(checkpoint), str(path)) for path in adapters.values()]
    controllers = ModelMemoryController(backends[0]), ModelTreeOrganizer(backends[1])
    yield controllers
    for controller in controllers:
        controller.close()


def role(pair, operation):
    return pair[0] if operation in MEMORY else pair[1]


@pytest.fixture(scope="module")
def outcomes():
    """How replies were read, counted by operation."""
    counted = Counter()
    yield counted
    sys.stdout.write(f"{dict(counted)}\n")


@pytest.mark.parametrize("operation", sorted(OPERATIONS))
def test_replies_have_the_form_asked_for(pair, operation, outcomes, monkeypatch):
    controller, said = role(pair, operation), []
    plain = controller._backend.complete

    def complete(prompts):
        completions = plain(prompts)
        said.extend(zip(prompts, completions, strict=True))
        return completions

    monkeypatch.setattr(controller._backend, "complete", complete)
    replies = getattr(controller, operation)([REQUESTS[operation](text) for text in TEXTS])
    assert len(said) >= len(replies) == len(TEXTS)
    for prompt, completion in said:
        assert not completion.error
        assert not completion.truncated
        assert prompt.operation == operation
        assert fits(json.loads(completion.text), held(prompt.schema)), completion.text
    for reply in replies:
        assert isinstance(reply, Reply)
        assert reply.usage.calls in (1, 2)
        # Left apart is an answer without a value.
        assert (reply.value is None) != (reply.reason is None) or operation == "merge"
        outcomes[operation, reply.reason or "accepted"] += 1
    assert sum(reply.usage.calls for reply in replies) == len(said)
    assert sum(reply.usage.tokens_in for reply in replies) == sum(it.tokens_in for _, it in said)


def test_noise_is_refused_for_its_sense_alone(outcomes):
    """After the replies of all operations: some are accepted, and none had an id that was not shown."""
    assert {operation for operation, _ in outcomes} == set(OPERATIONS)
    reasons = {reason for _, reason in outcomes}
    assert "accepted" in reasons
    assert reasons - {"accepted"} <= REASONS


@pytest.mark.parametrize("operation", sorted(OPERATIONS))
def test_images_of_a_request_reach_the_model(pair, operation, monkeypatch):
    base = role(pair, operation)._backend._base
    prompt = OPERATIONS[operation].render(REQUESTS[operation](""))

    def given():
        seen = see(read(prompt), base.processor, base.markers, prompt.max_pixels)
        return tensors([seen], base.processor)

    found = given()
    if operation not in WITH_IMAGES:
        assert not prompt.images
        assert "pixel_values" not in found
        return
    assert prompt.images
    grids = found["image_grid_thw"]
    assert len(grids) == len(prompt.images)
    # In order, each at its own shape: patches of 16 pixels, four of them a token.
    for (_, high, wide), image in zip(grids.tolist(), prompt.images, strict=True):
        shape = image.picture.height / image.picture.width
        assert high / wide == pytest.approx(shape, rel=0.35)
        assert high * wide * 16 * 16 <= prompt.max_pixels
    marks = found["input_ids"] == base.model.config.image_token_id
    assert int(marks.sum()) == int(grids.prod(dim=1).sum()) // 4
    monkeypatch.setattr(Picture, "png", lambda picture, most: drawn(another(picture), most))
    other = given()
    assert (other["input_ids"] == found["input_ids"]).all()
    assert (other["pixel_values"] != found["pixel_values"]).any()


def another(picture):
    return Picture(picture.image_id + "~", picture.width, picture.height)


@pytest.fixture(scope="module")
def memory(pair, tmp_path_factory):
    """A bank of three runs and six lessons, one of them with visual evidence, ingested and organized."""
    folder = tmp_path_factory.mktemp("journey") / "bank"
    settings = config(capacity=8, min_group=3)
    with ExperienceMemory.create(folder, settings, controllers=pair) as made:
        image = made.add_image(drawn(Picture("page", 160, 96), 2**20))
        page = Page(page=1, image_id=image.image_id, width=160, height=96)
        for number in range(3):
            run = small_run(number, answer=f"answer {number}")
            task = run.task.model_copy(update={"pages": (page,)})
            assert made.contribute(run.model_copy(update={"task": task})).status == "queued"
        region = Region(x0=10, y0=10, x1=90, y1=60, width=160, height=96)
        seen = Evidence(image_id=image.image_id, region=region, note="a ring")
        for number in range(6):
            more = {"evidence": (seen,)} if number == 0 else {}
            made.contribute(lesson(number, place=number % 3, words=f"Count {number} rings", **more))
        made.ingested, made.maintained = made.ingest(), made.maintain()
        yield made


def test_each_run_is_derived_or_says_why_not(memory):
    states, failures = memory.ingested.states, memory.ingested.failures
    assert states.total() == 3
    assert states["derived"] + states["nothing"] + failures.total() == 3
    assert {failure.partition(":")[0] for failure in failures} <= REASONS


def test_each_lesson_has_its_place_or_waits(memory):
    done = memory.maintained
    assert done.steps > 0
    assert done.placed + done.waiting >= 6
    assert done.operations["place"] == done.placed > 0


def test_whatever_was_refused_is_kept_and_counted(memory):
    rows = Costs(memory.bank).summary()
    refused = sum(row["refused"] for row in rows if row["operation"] not in (*MEMORY, "select"))
    kept = memory.bank.counts()["rejections"]
    assert refused > 0
    assert kept == dict(memory.maintained.rejections)
    assert sum(kept.values()) >= refused
    assert set(kept) <= REASONS


def test_a_question_is_answered_and_the_bank_is_sound(memory):
    found = memory.retrieve("how many stop at the amber bridge?")
    assert len(found.items) <= 4
    assert found.usage.tokens_in > 0
    assert memory.check() == []
    models = {(row["role"], row["model"]) for row in Costs(memory.bank).summary()}
    assert models == {
        ("memory controller", "transformers/tiny+memory"),
        ("tree organizer", "transformers/tiny+organizer"),
    }
