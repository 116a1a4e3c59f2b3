"""Texts of waiting requests are encoded together, and nothing depends on it."""

from __future__ import annotations

import asyncio
import json
import threading

import numpy as np
import pytest

from epimem.bank.encoder import TableEncoder
from epimem.bank.recall import QUERY_BYTES
from epimem.config import Config, EncoderConfig
from epimem.errors import ControllerError
from epimem.memory import ExperienceMemory
from epimem.service.ahead import LONGEST, Ahead, texts_of
from tests.cli_program import lesson


class Watched:
    """An encoder that tells what it was asked, and waits before the first."""

    def __init__(self):
        self.asked = []
        self.go = threading.Event()

    def encode(self, texts):
        self.go.wait(10)
        self.asked.append(list(texts))
        if "bad" in texts:
            raise ControllerError("the encoder failed")
        return np.zeros((len(texts), 4), dtype=np.float32)


def test_what_came_while_one_was_encoded_is_encoded_together():
    ahead, encoder = Ahead(), Watched()

    async def crowd():
        asked = [asyncio.ensure_future(ahead.encode(encoder, [str(n)])) for n in range(6)]
        await asyncio.sleep(0.05)
        asked.append(asyncio.ensure_future(ahead.encode(encoder, ["late"])))
        encoder.go.set()
        await asyncio.gather(*asked)

    asyncio.run(crowd())
    ahead.close()
    assert encoder.asked == [["0", "1", "2", "3", "4", "5"], ["late"]]


def test_a_fault_of_the_encoder_or_a_caller_that_left_holds_nobody_up():
    ahead, encoder = Ahead(), Watched()

    async def crowd():
        left = asyncio.ensure_future(ahead.encode(encoder, ["left"]))
        await asyncio.sleep(0.02)
        bad = asyncio.ensure_future(ahead.encode(encoder, ["bad"]))
        left.cancel()
        encoder.go.set()
        await asyncio.wait_for(bad, 5)
        await asyncio.wait_for(ahead.encode(encoder, ["good"]), 5)
        await asyncio.wait_for(ahead.encode(encoder, []), 5)

    asyncio.run(crowd())
    ahead.close()
    assert encoder.asked[-1] == ["good"]


@pytest.mark.parametrize(
    ("operation", "body", "texts"),
    [
        ("retrieve", {"question": "how many?"}, ["how many?"]),
        ("retrieve", {"question": "how many?", "mode": "lexical"}, []),
        ("retrieve", {"question": 3}, []),
        ("retrieve", [1], []),
        ("retrieve", {"question": " "}, []),
        ("feedback", {"question": "how many?"}, []),
        ("contribute", {"item": {"guidance": "g"}}, []),
        ("contribute", {"item": {"index": {"topic": 3}}}, []),
        ("contribute", {"item": {"index": {"topic": "t", "scope": "s", "question_anchor": "q"}}},
         ["t\ns\nq", "s", "q"]),
        ("contribute", {"item": {"index": {"topic": "t", "question_anchor": None}}}, ["t"]),
    ],
)  # fmt: skip
def test_the_texts_of_a_request(operation, body, texts):
    assert texts_of(operation, json.dumps(body).encode()) == texts


def test_bodies_that_are_none_or_long_have_no_texts():
    assert texts_of("retrieve", b"{") == []
    assert texts_of("retrieve", json.dumps({"question": "a" * LONGEST}).encode()) == []


def test_the_texts_are_those_that_retrieval_and_contribution_encode(tmp_path):
    asked = []

    class Telling(TableEncoder):
        def _encode(self, texts):
            asked.extend(texts)
            return super()._encode(texts)

    encoder = Telling(64)
    config = Config(encoder=EncoderConfig(model="table:64"))
    with ExperienceMemory.create(tmp_path / "bank", config, encoder=encoder) as memory:
        memory.contribute(lesson(0))
        assert sorted(asked) == sorted(
            texts_of("contribute", json.dumps({"item": lesson(0)}).encode())
        )
        memory.retrieve("warm up")
        question = "how many " * QUERY_BYTES
        asked.clear()
        memory.retrieve(question[: QUERY_BYTES + 500])
        told = texts_of(
            "retrieve", json.dumps({"question": question[: QUERY_BYTES + 500]}).encode()
        )
        assert asked == told
