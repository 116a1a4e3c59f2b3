from __future__ import annotations

from controllers.backends.base import MISSING_IMAGE, Failure, pieces
from controllers.prompts.message import Message, Text
from tests.controllers.backends.chat_prompts import image


def test_parts_are_set_apart_by_line_breaks_that_stand_in_the_texts():
    message = Message("user", (Text("one"), image(b"png"), image(b"two"), Text("end")))
    assert pieces(message, 64) == ["one\n", b"png", "\n", b"two", "\nend"]


def test_texts_alone_read_as_the_message_says():
    message = Message("user", (Text("{one}"), Text("100 %"), Text("")))
    assert pieces(message, 64) == [message.text]


def test_an_image_that_is_gone_is_told_in_words():
    message = Message("user", (Text("Page P1:"), image(None), Text("end")))
    assert pieces(message, 64) == [f"Page P1:\n{MISSING_IMAGE}\nend"]


def test_an_image_is_read_at_the_size_that_the_prompt_allows():
    asked = []
    part = image(b"")
    part.picture.__dict__["read"] = lambda size: asked.append(size) or b"png"
    assert pieces(Message("user", (part,)), 4096) == [b"png"]
    assert asked == [4096]


def test_a_failure_says_its_wording_wherever_it_is_shown():
    assert f"{Failure.DEADLINE}" == "no reply before the deadline"
    assert len({str(failure) for failure in Failure}) == len(Failure)
