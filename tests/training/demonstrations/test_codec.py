from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from controllers.prompts import OPERATIONS
from epimem.errors import RecordError
from epimem.protocols import Picture, SplitRequest
from tests.controllers.prompts import samples
from tests.controllers.prompts.strategies import STRATEGIES
from tests.training.demonstrations import made
from training.demonstrations.codec import from_plain, read_value, to_plain
from training.demonstrations.record import ROLE_OF, Demonstration, Provenance

PAGES = samples.PAGES


def nothing(_: int) -> None:
    return None


def again(found: Demonstration) -> Demonstration:
    return from_plain(json.loads(json.dumps(to_plain(found))), lambda _: nothing)


@pytest.mark.parametrize("name", OPERATIONS)
def test_what_is_written_comes_back_as_it_was(name: str) -> None:
    origins = st.builds(
        Provenance,
        teacher=st.text(),
        source=st.text(),
        reviser=st.text(),
        run_ids=st.lists(st.text()).map(tuple),
        seed=st.none() | st.integers(),
        prompt_version=st.text(),
    )

    @settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.too_slow])
    @given(pair=STRATEGIES[name], origin=origins)
    def holds(pair, origin) -> None:
        found = Demonstration("some id", name, "some group", *pair, origin)
        assert again(found) == found

    holds()


def test_the_operations_are_those_of_the_prompts() -> None:
    assert set(ROLE_OF) == set(OPERATIONS)


@settings(max_examples=30, deadline=None)
@given(
    st.dictionaries(
        st.text(max_size=5),
        st.lists(st.floats(width=32, allow_nan=False), max_size=5).map(
            lambda numbers: np.array(numbers, np.float32)
        ),
        max_size=4,
    )
)
def test_vectors_come_back_bit_for_bit(vectors) -> None:
    request = replace(samples.split_lift(), vectors=vectors)
    found = again(made.demonstration("split_lift", request)).request
    assert {key: value.tobytes() for key, value in found.vectors.items()} == {
        key: value.tobytes() for key, value in vectors.items()
    }
    assert all(value.dtype == np.float32 for value in found.vectors.values())
    assert replace(found, vectors={}) == replace(request, vectors={})


def test_a_likeness_that_numpy_computed_is_a_number() -> None:
    request = replace(samples.merge(), likeness=np.float32(0.1))
    found = again(made.demonstration("merge", request)).request
    assert found.likeness == float(np.float32(0.1))


def test_a_crop_keeps_the_id_of_its_image_and_is_read_by_the_name_of_its_own_pixels() -> None:
    request = replace(samples.update(), crop=Picture("image-a", 40, 30))
    found = made.demonstration("update", request)
    asked: list[str] = []

    def reader(name: str):
        asked.append(name)
        return lambda limit: f"{name} {limit}".encode()

    plain = to_plain(found, lambda picture: picture.image_id if picture.page else "crop-1")
    back = from_plain(plain, reader)
    assert back == found
    assert sorted(asked) == ["crop-1", "image-a", "image-b"]
    assert back.request.crop.png(7) == b"crop-1 7"
    assert back.request.pages[1].png(9) == b"image-b 9"


def test_merge_may_say_nothing_and_gate_says_nought_or_one() -> None:
    assert read_value("merge", None) is None
    assert read_value("gate", 0) == 0
    assert type(read_value("gate", 1)) is int
    for strange in (True, 2, "1", None, 1.0):
        with pytest.raises(RecordError, match="value"):
            read_value("gate", strange)
    with pytest.raises(RecordError):
        read_value("place", None)


def plain(name: str = "update"):
    return json.loads(json.dumps(to_plain(made.demonstration(name, samples.REQUESTS[name]()))))


def changed(name: str, change) -> dict:
    found = plain(name)
    change(found)
    return found


@pytest.mark.parametrize(
    ("name", "change", "where"),
    [
        ("update", lambda d: d.update(format="epimem-demonstration/2"), "format"),
        ("update", lambda d: d.pop("format"), "format"),
        ("update", lambda d: d.update(more=1), "more"),
        ("update", lambda d: d.pop("group"), "group is missing"),
        ("update", lambda d: d.update(id=""), "id"),
        ("update", lambda d: d.update(operation="forget"), "operation"),
        ("update", lambda d: d.update(operation="gate"), "request"),
        ("update", lambda d: d["request"].update(hint="x"), "hint"),
        ("update", lambda d: d["request"].pop("left"), "left is missing"),
        ("update", lambda d: d["request"].update(left="3"), "request.left"),
        ("update", lambda d: d["request"].update(left=True), "request.left"),
        ("update", lambda d: d["request"].update(trace=None), "request.trace"),
        ("update", lambda d: d["request"].update(pages={}), "request.pages"),
        ("update", lambda d: d["request"]["pages"][0].update(page=True), "page"),
        ("update", lambda d: d["request"].update(visual="often"), "request.visual"),
        ("update", lambda d: d["request"]["memory"].update(more=""), "request.memory.more"),
        ("update", lambda d: d["request"]["pages"][1].update(width=0), r"request.pages\[1\].width"),
        ("update", lambda d: d["request"]["pages"][0].update(image_id=3), "image_id"),
        ("update", lambda d: d["request"]["pages"][0].pop("page"), "page is missing"),
        ("update", lambda d: d["request"]["crop"].update(png=3), "request.crop.png"),
        ("update", lambda d: d["request"]["trace"].pop("run_id"), "request.trace.run_id"),
        ("update", lambda d: d["value"].update(gate=2), "value.gate"),
        ("place", lambda d: d["request"]["candidates"][0].pop("size"), "size is missing"),
        ("place", lambda d: d["request"]["lesson"].update(kind="tree"), "request.lesson.kind"),
        ("split_lift", lambda d: d["request"].update(vectors={"a": "?"}), "request.vectors.a"),
        ("split_lift", lambda d: d["request"].update(vectors={"a": "AAA="}), "request.vectors.a"),
        ("merge", lambda d: d["request"].update(likeness="0.5"), "request.likeness"),
        ("merge", lambda d: d["request"].update(likeness=True), "request.likeness"),
        ("merge", lambda d: d["provenance"].update(run_ids="run-1"), "provenance.run_ids"),
        ("merge", lambda d: d["provenance"].pop("teacher"), "teacher is missing"),
    ],
)
def test_what_is_not_as_it_was_written_is_refused_with_its_place(name, change, where) -> None:
    assert from_plain(plain(name), lambda _: nothing).operation == name
    with pytest.raises(RecordError, match=where) as caught:
        from_plain(changed(name, change), lambda _: nothing)
    assert caught.value.code == "invalid_field"


@pytest.mark.parametrize("strange", [None, [], "x", 3])
def test_what_is_no_object_is_refused(strange) -> None:
    with pytest.raises(RecordError):
        from_plain(strange, lambda _: nothing)


json_data = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-3, 3)
    | st.floats(allow_nan=False)
    | st.text(max_size=4),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3)
    ),
    max_leaves=5,
)


@settings(max_examples=100, deadline=None)
@given(name=st.sampled_from(list(OPERATIONS)), data=st.data())
def test_whatever_stands_in_its_place_is_read_or_refused_by_name(name, data) -> None:
    found = plain(name)
    place, key = found, "request"
    while isinstance(place[key], dict | list) and place[key] and data.draw(st.booleans()):
        place = place[key]
        keys = list(place) if isinstance(place, dict) else range(len(place))
        key = data.draw(st.sampled_from(keys))
    place[key] = data.draw(json_data)
    where = refused_at(found)
    if where is None:
        back = from_plain(found, lambda _: nothing)
        assert from_plain(to_plain(back), lambda _: nothing).value == back.value
    else:
        assert where


def refused_at(found) -> str | None:
    """Return the place that is refused, None where nothing is."""
    try:
        from_plain(found, lambda _: nothing)
    except RecordError as error:
        return error.field or ""
    return None


def test_a_request_of_split_is_no_shared_state() -> None:
    request = replace(samples.split_lift(), vectors={"a": np.ones(2, np.float32)})
    found = again(made.demonstration("split_lift", request)).request
    assert isinstance(found, SplitRequest)
    found.vectors["a"][0] = 5  # writable, as a caller may normalise it in place
    assert request.vectors["a"][0] == 1
