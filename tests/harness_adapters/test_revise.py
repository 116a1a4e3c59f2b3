"""Question-level memory over the protocol: the caller keeps it, code checks it, no bank takes it."""

from __future__ import annotations

import base64
import hashlib
import random

import pytest
from PIL import Image

from epimem.config import Config, EncoderConfig
from epimem.errors import ImageError, RecordError
from epimem.memory import ExperienceMemory
from epimem.schema.region import Region
from epimem.schema.working_memory import Update, VisualEvidence, WorkingMemory
from epimem.testing import ScriptedMemoryController, ScriptedTreeOrganizer
from harness_adapters.client import Client
from tests.image_files import encoded, picture
from tests.service_process import grant, serving

PAGE = encoded(picture(64, 48), "PNG")
QUESTION = "How many stations?"


def look(request):
    """Point to a corner of the first page; after the second attempt be content."""
    region = Region(x0=8, y0=8, x1=24, y1=20, width=64, height=48)
    found = VisualEvidence(image_id=request.pages[0].image_id, region=region, note="here")
    said = f"Attempt {request.attempt} said {request.answer}; before: {request.memory.guidance}"
    return Update(
        guidance=said, visual="replace", evidence=found, gate=1, stop=request.attempt == 2
    )


@pytest.fixture
def bank(tmp_path):
    pair = (ScriptedMemoryController(update=look), ScriptedTreeOrganizer())
    config = Config(encoder=EncoderConfig(model="none"))
    with ExperienceMemory.create(tmp_path / "bank", config, controllers=pair) as memory:
        yield memory


def files(folder):
    return {
        path.name: hashlib.sha256(path.read_bytes()).hexdigest()
        for path in folder.rglob("*")
        if path.is_file() and path.suffix != ".lock"
    }


def test_a_memory_goes_from_attempt_to_attempt_with_its_crop(bank):
    before = files(bank.bank.path)
    with Client.local(bank) as client:
        first = client.revise(QUESTION, images=[PAGE], answer="4", attempt=1)
        assert first.memory.guidance.startswith("Attempt 1 said 4")
        assert first.may_attempt
        assert "Attempt 1 said 4" in first.input.text
        assert base64.b64decode(first.crops[0]).startswith(b"\x89PNG")
        second = client.revise(QUESTION, images=[PAGE], memory=first.memory, answer="5", attempt=2)
    assert second.memory.guidance == f"Attempt 2 said 5; before: {first.memory.guidance}"
    assert second.memory.stop
    assert not second.may_attempt
    assert files(bank.bank.path) == before


def test_the_last_attempt_asks_no_controller(bank):
    with Client.local(bank) as client:
        last = client.revise(QUESTION, images=[PAGE], answer="4", attempt=3, max_attempts=3)
    assert last.memory == WorkingMemory()
    assert not last.may_attempt


def test_a_proposal_that_is_refused_leaves_the_memory_as_it_was(bank):
    kept = WorkingMemory(guidance="Count twice.")
    with Client.local(bank) as client:
        # To be content with no answer at all is refused.
        told = client.revise(QUESTION, images=[PAGE], memory=kept, answer=None, attempt=2)
    assert told.refused == "schema"
    assert told.memory == kept


@pytest.mark.parametrize(
    ("given", "kind", "words"),
    [
        ({"attempt": 6}, RecordError, "attempt"),
        ({"attempt": 3, "max_attempts": 2}, RecordError, "no attempt is left"),
        ({"images": [b"GIF89a"]}, ImageError, None),
        ({"memory": WorkingMemory(evidence=VisualEvidence(
            image_id="other", region=Region.whole(3, 3)))}, RecordError, "none of the question's"),
        ({"visual": "sideways"}, RecordError, "visual"),
    ],
)  # fmt: skip
def test_what_cannot_be_revised_is_refused_by_name(bank, given, kind, words):
    with Client.local(bank) as client, pytest.raises(kind, match=words):
        client.revise(QUESTION, **{"images": [PAGE], "answer": "4", **given})
    with Client.local(bank) as client, pytest.raises(RecordError, match="base64"):
        client._transport.call("revise", b'{"question":"q","images":["%%"]}')


def test_a_server_revises_too_with_pages_larger_than_other_requests(bank, tmp_path):
    token = grant(bank.bank.path, "one", "read")
    noise = random.Random(0).randbytes(3 * 900 * 700)
    page = encoded(Image.frombytes("RGB", (900, 700), noise), "PNG")
    assert len(page) > 1_500_000
    with serving(bank.bank.path, log=tmp_path / "log") as server:
        with Client.http(server.url, token) as client:
            told = client.revise(QUESTION, images=[page], answer="4", trace="I counted four.")
    assert told.refused == ""
