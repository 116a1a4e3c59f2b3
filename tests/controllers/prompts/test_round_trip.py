from __future__ import annotations

import json

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from controllers.prompts import OPERATIONS, Refused
from epimem.schema import strict_json
from tests.controllers.prompts import samples
from tests.controllers.prompts.strategies import STRATEGIES

json_data = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=()), max_size=6)
    | st.sampled_from(["L1", "P1", "R1", "N1", "C1", "G1", "T1", "replace", "positive", ""]),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=6), inner, max_size=4)
    ),
    max_leaves=8,
)


@pytest.mark.parametrize("name", OPERATIONS)
def test_what_a_model_should_have_said_is_read_as_what_was_meant(name: str) -> None:
    operation = OPERATIONS[name]

    @settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
    @given(STRATEGIES[name])
    def holds(pair) -> None:
        request, value = pair
        said = operation.target(request, value)
        again = strict_json.loads(json.dumps(said))
        assert again == said
        assert operation.parse(request, again) == value

    holds()


@pytest.mark.parametrize("name", OPERATIONS)
def test_whatever_json_comes_back_is_read_or_refused(name: str) -> None:
    operation = OPERATIONS[name]
    request, reply = samples.REQUESTS[name](), samples.REPLIES[name]

    refused: list[Refused] = []

    @settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.too_slow])
    @given(data=st.data())
    def holds(data) -> None:
        said = data.draw(json_data | _damaged(reply))
        try:
            value = operation.parse(request, said)
        except Refused as error:
            refused.append(error)
            return
        assert operation.parse(request, operation.target(request, value)) == value

    holds()
    assert refused
    for error in refused:
        assert error.detail.strip().encode("utf-8")
        assert len(error.detail) < 600


@st.composite
def _damaged(draw, reply):
    """A good reply in which one place, at any depth, holds something else, is gone, or is new."""
    damaged = json.loads(json.dumps(reply))
    place = damaged
    while True:
        keys = list(place) if isinstance(place, dict) else list(range(len(place)))
        if not keys:
            return damaged
        key = draw(st.sampled_from(keys))
        if isinstance(place[key], dict | list) and place[key] and draw(st.booleans()):
            place = place[key]
            continue
        change = draw(st.sampled_from(["other", "gone", "new"]))
        if change == "gone":
            del place[key]
        elif change == "other" or isinstance(place, list):
            place[key] = draw(json_data)
        else:
            place[draw(st.text(max_size=5))] = draw(json_data)
        return damaged
