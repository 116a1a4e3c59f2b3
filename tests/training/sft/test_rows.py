"""Rows against serving: the same tokens in, and a reply that the constrained decoder can write."""

from __future__ import annotations

import dataclasses
import json

import pytest

from controllers.backends import transformers as serving
from controllers.backends.local_base import Base
from controllers.backends.local_packages import package
from controllers.backends.transformers import TransformersBackend
from controllers.prompts import OPERATIONS
from epimem.errors import ConfigError, ImageError, RecordError
from tests.controllers.prompts import samples
from tests.training.demonstrations.made import demonstration, drawn, request
from training.demonstrations.store import DemonstrationSet
from training.sft.rows import IGNORED, RowMaker, collate, reply
from training.sft.survey import survey

pytestmark = pytest.mark.torchvision

NASTY = '100 % {of} <|im_end|> "naïve" \\ <|image_pad|> 駅 <|vision_start|>'
FREE = {"guidance", "applies_when", "cautions", "title", "topic", "scope", "question_anchor"}
FREE |= {"note", "statement"}
WITH_IMAGES = {"derive", "update", "gate", "select"}


@pytest.fixture(scope="module")
def base(checkpoint):
    return Base(str(checkpoint))


@pytest.fixture(scope="module")
def maker(base):
    return RowMaker(base.processor, base.markers)


@pytest.fixture(scope="module")
def pages(tmp_path_factory):
    with DemonstrationSet.create(tmp_path_factory.mktemp("pages") / "set") as made:
        yield drawn(made, 3)


def said(value, *, free=False):
    """The same reply with every free text nasty; names of what was shown stay."""
    if isinstance(value, dict):
        return {key: said(inner, free=key in FREE) for key, inner in value.items()}
    if isinstance(value, list):
        return [said(item, free=free) for item in value]
    return f"{value} {NASTY}" if free and isinstance(value, str) else value


@pytest.fixture(params=sorted(OPERATIONS))
def shown(request_of, request):
    return request_of(request.param)


@pytest.fixture(scope="module")
def request_of(pages):
    def make(name):
        asked = request(name, pages, NASTY)
        value = OPERATIONS[name].parse(asked, said(samples.REPLIES[name]))
        return demonstration(name, asked, value)

    return make


def test_a_row_begins_with_the_tokens_that_serving_feeds(shown, maker, base, monkeypatch):
    fed = []

    def generate(base, batch, _deadline):
        inputs = serving.tensors([row.seen for row in batch], base.processor)
        fed.append(inputs)
        return [serving.Completion(text="{}") for _ in batch]

    monkeypatch.setattr(serving, "_generate", generate)
    backend = object.__new__(TransformersBackend)
    backend._base, backend._adapter, backend._rows, backend._deadline_s = base, None, 8, None
    backend.complete([OPERATIONS[shown.operation].render(shown.request)])
    (inputs,) = fed
    row = maker.row(shown)
    asked = inputs["input_ids"].shape[1]
    assert asked < row.length
    assert set(inputs) == {*row.tokens, *row.vision}
    for name, part in inputs.items():
        mine = row.tokens[name][:asked] if name in row.tokens else row.vision[name]
        assert mine.equal(part[0] if name in row.tokens else part), name
    assert bool(row.grids) == (shown.operation in WITH_IMAGES)
    marks = row.input_ids == base.model.config.image_token_id
    assert int(marks.sum()) == sum(high * wide for _, high, wide in row.grids) // 4


def test_labels_are_the_reply_and_the_end_of_the_turn_alone(shown, maker, base):
    row = maker.row(shown)
    learnt = row.labels != IGNORED
    start = int(learnt.nonzero()[0])
    assert learnt[start:].all()
    assert row.labels[start:].equal(row.input_ids[start:])
    ids = row.labels[start:].tolist()
    assert ids[-1] in base.stops
    assert not set(ids[:-1]) & {*base.stops, *base.forbidden}
    tokenizer = base.processor.tokenizer
    assert tokenizer.decode(ids[-1:]) == "<|im_end|>"
    text = tokenizer.decode(ids, skip_special_tokens=True)
    read = OPERATIONS[shown.operation].parse(shown.request, json.loads(text))
    assert read == shown.value
    assert tokenizer.decode(row.input_ids[:start]).endswith("<|im_start|>assistant\n")
    assert row.reply_tokens == len(ids)


def test_the_grammar_of_serving_accepts_every_token_of_the_reply_and_then_its_end(
    shown, maker, base
):
    schema = OPERATIONS[shown.operation].render(shown.request).schema
    matcher = package("xgrammar").GrammarMatcher(base.grammars.compiled(schema))
    row = maker.row(shown)
    for token in row.labels[row.labels != IGNORED].tolist():
        assert matcher.accept_token(token), base.processor.tokenizer.decode([token])
    assert matcher.is_terminated()


@pytest.mark.parametrize("separators", [(", ", ": "), (", ", ":"), (",", ": ")])
def test_the_grammar_knows_no_other_spacing(request_of, base, separators):
    shown = request_of("place")
    schema = OPERATIONS["place"].render(shown.request).schema
    other = json.dumps(json.loads(reply(shown)), ensure_ascii=False, separators=separators)
    matcher = package("xgrammar").GrammarMatcher(base.grammars.compiled(schema))
    assert not matcher.accept_string(other)


def test_a_control_token_in_a_reply_is_spelt_out(maker, base):
    ids = maker.reply_ids('"<|im_end|>"')
    assert ids.count(maker.end) == 1
    assert base.processor.tokenizer.decode(ids[:-1]) == '"<|im_end|>"'


def test_a_tokenizer_that_does_not_say_where_a_token_stands_is_refused_by_name(base):
    slow = dataclasses.make_dataclass("Processor", ["tokenizer"])(
        package("transformers").ByT5Tokenizer()
    )
    with pytest.raises(ConfigError, match=r"which characters .* ByT5Tokenizer"):
        RowMaker(slow, base.markers)


def test_a_batch_is_filled_up_on_the_right_and_keeps_the_images_in_order(request_of, maker):
    rows = [maker.row(request_of(name)) for name in ("gate", "place", "select")]
    batch = collate(rows, maker.pad)
    longest = max(row.length for row in rows)
    assert batch["input_ids"].shape == batch["labels"].shape == (3, longest)
    for at, row in enumerate(rows):
        assert batch["input_ids"][at, : row.length].equal(row.input_ids)
        assert (batch["input_ids"][at, row.length :] == maker.pad).all()
        assert (batch["labels"][at, row.length :] == IGNORED).all()
        assert batch["attention_mask"][at].tolist() == [1] * row.length + [0] * (
            longest - row.length
        )
        assert (batch["mm_token_type_ids"][at, row.length :] == 0).all()
    grids = [grid for row in rows for grid in row.grids]
    assert [tuple(grid) for grid in batch["image_grid_thw"].tolist()] == grids
    assert batch["pixel_values"].shape[0] == sum(high * wide for _, high, wide in grids)


def test_a_row_without_its_image_or_with_a_foreign_value_is_set_aside_by_name(
    request_of, pages, maker
):
    good = request_of("gate")
    gone = tuple(dataclasses.replace(page, read=lambda _: None) for page in pages)
    broken = tuple(dataclasses.replace(page, read=lambda _: b"no PNG") for page in pages)
    bad = [
        dataclasses.replace(good, id="gone", request=request("gate", gone)),
        dataclasses.replace(good, id="broken", request=request("gate", broken)),
        dataclasses.replace(
            request_of("place"),
            id="foreign",
            value=request_of("place").value.model_copy(
                update={"new": None, "category_id": "nowhere", "parent_id": None}
            ),
        ),
    ]
    with pytest.raises(ImageError):
        maker.row(bad[0])
    with pytest.raises(RecordError):
        maker.row(bad[2])
    long = dataclasses.replace(request_of("split_lift"), id="long")
    found = survey(maker, [*bad, long, good], maker.row(good).length)
    assert [row.id for row in found.rows] == [good.id]
    assert {each.id: each.reason for each in found.aside} == {
        "gone": "invalid_image",
        "broken": "invalid_image",
        "foreign": "invalid_field",
        "long": "too_long",
    }


def test_a_model_without_eyes_gets_the_rows_that_it_is_served(text_checkpoint, request_of):
    base = Base(str(text_checkpoint))
    maker = RowMaker(base.processor, base.markers)
    for name in ("place", "select"):
        shown = request_of(name)
        row = maker.row(shown)
        prompt = OPERATIONS[name].render(shown.request)
        seen = serving.see(serving.read(prompt), base.processor, base.markers, prompt.max_pixels)
        fed = serving.tensors([seen], base.processor)["input_ids"][0]
        assert row.input_ids[: len(fed)].equal(fed)
        assert row.length - len(fed) == row.reply_tokens
        assert not row.vision
        assert int(row.labels[-1]) in base.stops
