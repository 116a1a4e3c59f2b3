"""What every harness adapter has to do, as checks that its author can run.

    def test_my_harness(tmp_path):
        contract.check(lambda endpoint: MyHarness(endpoint=endpoint, model="fake"), tmp_path)

The harness is run against a model server that keeps what it was sent (`fake_model`), with a bank
that holds an illustrated lesson, with one that knows nothing, and with one that cannot be reached.
"""

from __future__ import annotations

import base64
import io
from collections.abc import Callable
from pathlib import Path

from epimem.config import Config, EncoderConfig
from epimem.memory import ExperienceMemory
from epimem.schema.run import Run
from harness_adapters.client import Client
from harness_adapters.fake_model import FakeModel, Seen
from harness_adapters.harness import Driven, Driver, Harness

QUESTION = "How many stations does the train call at on the Rubra line diagram?"
LESSON = "On Rubra diagrams leave out the white triangles."
OTHER = "Who wrote the first opera in Swahili?"
ANSWER = "six stations"
Make = Callable[[str], Harness]


def check(make: Make, folder: Path) -> None:
    """Run all checks.

    Args:
        make: returns the harness, given the base URL of a model server that speaks OpenAI
        Responses, Chat
            Completions and Anthropic Messages and takes any key and model.
        folder: empty; banks and logs are made in it.

    Raises:
        AssertionError: a check failed; says which and what was seen.
    """
    bank = folder / "bank"
    page = _picture(120, 80)
    (folder / "page.png").write_bytes(page)
    _fill(bank)
    with FakeModel(answer=ANSWER) as model, Client.local(bank) as client:
        driver = Driver(client, make(model.url), folder / "runs")
        done = driver.drive(QUESTION, [folder / "page.png"], family="metro", task_id="t-1")
        _check_seen(model.seen[-1], done)
        _check_handed_in(bank, done, driver.harness.name)
        model.seen.clear()
        nothing = driver.drive(OTHER)
        _check_nothing(model.seen[-1], nothing)
    with FakeModel(answer=ANSWER) as model, Client.http("http://127.0.0.1:9", "none") as lost:
        alone = Driver(lost, make(model.url), folder / "alone").drive(QUESTION)
        assert alone.answer is not None, "a bank that cannot be reached costs the answer"
        assert alone.fault, "a bank that cannot be reached goes unnoticed"
        assert LESSON not in model.seen[-1].text


def _fill(bank: Path) -> None:
    """Make a bank with one lesson and a picture of what it is about."""
    config = Config(encoder=EncoderConfig(model="none"), gate="always")
    with ExperienceMemory.create(bank, config) as memory:
        image = memory.add_image(_picture(64, 48))
        region = {"width": 64, "height": 48, "x0": 8, "y0": 8, "x1": 40, "y1": 32}
        memory.contribute(
            {
                "guidance": LESSON,
                "title": "white triangles on Rubra diagrams",
                "index": {
                    "topic": "stations skipped by marker shape",
                    "scope": "Rubra line diagrams",
                    "question_anchor": QUESTION,
                },
                "evidence": [{"image_id": image.image_id, "region": region, "note": "the mark"}],
            }
        )


def _check_seen(seen: Seen, done: Driven) -> None:
    assert len(done.given.crops) == 1, "the bank gave no crop"
    times = seen.text.count(LESSON)
    assert times == 1, f"the lesson stands {times} times in what the model saw"
    places = [seen.text.find(part) for part in (LESSON, QUESTION)]
    last = seen.text.rfind(QUESTION)
    assert 0 <= places[0] < last, "the memory does not stand before the question"
    sizes = [_size(image) for image in seen.images]
    crop = (done.given.crops[0].width, done.given.crops[0].height)
    assert sizes == [(120, 80), crop], (
        f"the model saw pictures of {sizes}, not the page, then the crop"
    )


def _check_handed_in(bank: Path, done: Driven, name: str) -> None:
    assert done.answer == ANSWER, f"the answer is {done.answer!r}"
    assert done.receipt is not None, "the run was not handed in"
    assert done.receipt.status == "queued", f"the run was {done.receipt.status}"
    with ExperienceMemory.open(bank, read_only=True) as memory:
        queued = [each.run for each in memory.bank.queued_runs(limit=10)]
    run = next((run for run in queued if run.run_id == done.run_id), None)
    assert run is not None, "the run is not in the queue"
    _check_run(run, done)
    assert run.system.harness, f"the run does not name its harness ({name})"


def _check_run(run: Run, done: Driven) -> None:
    assert run.task.question == QUESTION, "the run's question is not what was asked"
    assert [(page.width, page.height) for page in run.task.pages] == [(120, 80)], (
        "its pages are others"
    )
    assert run.answer.text == ANSWER, f"the run's answer is {run.answer.text!r}"
    shown = [each.retrieval_id for each in run.retrievals]
    assert shown == [done.given.retrieval_id], f"the run names the retrievals {shown}"
    assert run.retrievals[0].item_ids == tuple(item.node_id for item in done.given.items)
    text = run.canonical().decode("utf-8")
    assert LESSON not in text, (
        "the run says again what memory said: it would be learnt from its echo"
    )


def _check_nothing(seen: Seen, done: Driven) -> None:
    assert done.given.items == (), "the bank answered what it does not know"
    assert not seen.images, "a picture was shown though the bank had nothing"
    assert OTHER in seen.text
    assert "Experience from earlier tasks" not in seen.text, "an empty memory was announced"


def _picture(width: int, height: int) -> bytes:
    from PIL import Image, ImageDraw

    image = Image.new("RGB", (width, height), "white")
    ImageDraw.Draw(image).polygon([(10, 30), (20, 10), (30, 30)], outline="red")
    buffer = io.BytesIO()
    image.save(buffer, "PNG")
    return buffer.getvalue()


def _size(address: str) -> tuple[int, int]:
    from PIL import Image

    data = base64.b64decode(address.partition(",")[2])
    with Image.open(io.BytesIO(data)) as image:
        width, height = image.size
    return width, height
