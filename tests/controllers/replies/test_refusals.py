from __future__ import annotations

import pytest

from controllers.replies.refusals import is_refusal


@pytest.mark.parametrize(
    "text",
    [
        "I'm sorry, but I can't assist with that.",
        "I am sorry, I cannot help with this request.",
        "I\u2019m really sorry, but I\u2019m unable to view images.",
        "Sorry, I can't do that.",
        "I'm sorry.",
        "I cannot provide the JSON object.",
        "I can't see the pages you mention.",
        "I am not able to process images.",
        "Unfortunately, I don't have access to the pictures.",
        "As an AI language model, I have no way of knowing.",
        "As a language model I only handle text.",
        "  \n**I'm sorry**, but I cannot comply.",
        "I'm afraid I can't answer this.",
        "抱歉\uff0c我无法回答。",
        "作为一个AI\uff0c我不能看图片。",
    ],
)
def test_declining_is_known(text: str) -> None:
    assert is_refusal(text)


@pytest.mark.parametrize(
    "text",
    [
        "Count only filled markers.",
        "Do not assume that the legend is complete.",
        "If the solver says it cannot help, look at the legend.",
        "Say 'I cannot see the mark' where it is not visible.",
        "The reader cannot see white triangles; leave them out.",
        "I apologize for the confusion. Here is the object:",
        "Sorry for the mistake, here it is again:",
        "As an example, take the second marker.",
        "I can tell the markers apart by shape.",
        "",
    ],
)
def test_advice_and_apologies_are_no_refusals(text: str) -> None:
    assert not is_refusal(text)
