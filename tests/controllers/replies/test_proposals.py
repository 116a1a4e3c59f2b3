from __future__ import annotations

import json
from functools import partial
from importlib import import_module
from typing import Any, get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from controllers.prompts import OPERATIONS
from controllers.replies.reading import Read, read
from epimem.schema.proposal import Reason
from tests.controllers.prompts import samples
from tests.controllers.replies.proposals import Case, cases

NAMES = ("place", "consolidate", "derive", "select")
REASONS = get_args(Reason)


def reading(name: str, text: str, *, sections: bool = False) -> Read[Any]:
    request = samples.REQUESTS[name]()
    operation = OPERATIONS[name]
    return read(
        text, operation.render(request), partial(operation.parse, request), sections=sections
    )


def all_cases(name: str) -> list[Case]:
    schema = OPERATIONS[name].render(samples.REQUESTS[name]()).schema
    return cases(name, samples.REPLIES[name], dict(schema))


ROWS = [
    pytest.param(name, case, id=f"{name}-{case.number:02}-{case.name}")
    for name in NAMES
    for case in all_cases(name)
]


def test_there_are_seventy_of_each() -> None:
    assert [case.number for case in all_cases("place")] == list(range(1, 71))


@pytest.mark.parametrize(("name", "case"), ROWS)
def test_a_bad_proposal_has_no_effect(name: str, case: Case) -> None:
    text = case.text
    if text == "@example":
        example = import_module(f"controllers.prompts.{name}").EXAMPLE
        text = json.dumps(example[0] if isinstance(example, list) else example)
    request = samples.REQUESTS[name]()
    good = OPERATIONS[name].parse(request, samples.REPLIES[name])
    for sections in (False, True):
        found = reading(name, text, sections=sections)
        if case.same:
            assert found.value == good, found.refused
        else:
            assert found.value is None
            assert found.refused is not None
            assert found.refused.reason in REASONS
            assert found.refused.detail
            assert len(found.refused.detail) < 1000


pieces = st.sampled_from(
    [
        *'{}[]:,"\\\n',
        *(
            "'",
            "null",
            "true",
            "NaN",
            "1",
            "-",
            "<think>",
            "</think>",
            "```json\n",
            "## ",
            "R1",
            "L1",
            "C1",
            "G1",
        ),
        *(
            "I'm sorry, I can't help",
            "rules",
            "lesson",
            "lessons",
            "category",
            "new",
            "title",
            "guidance",
        ),
        *(
            '"rules": ',
            '"lesson": ',
            '{"category": ',
            '{"guidance": "x", ',
            "##GUIDANCE\n",
            "supported_by: ",
        ),
    ]
)
anything = st.one_of(st.text(max_size=200), st.lists(pieces, max_size=24).map("".join))


@pytest.mark.parametrize("name", OPERATIONS)
@settings(deadline=None)
@given(text=anything, sections=st.booleans(), truncated=st.booleans())
def test_any_text_is_a_lawful_value_or_a_refusal(
    name: str, text: str, *, sections: bool, truncated: bool
) -> None:
    request = REQUESTS[name]
    operation = OPERATIONS[name]
    found = read(
        text,
        PROMPTS[name],
        partial(operation.parse, request),
        sections=sections,
        truncated=truncated,
    )
    if found.refused is not None:
        assert found.value is None
        assert found.refused.reason in REASONS
    elif found.value is not None:
        assert operation.parse(request, operation.target(request, found.value)) == found.value


REQUESTS = {name: make() for name, make in samples.REQUESTS.items()}
PROMPTS = {name: OPERATIONS[name].render(request) for name, request in REQUESTS.items()}
