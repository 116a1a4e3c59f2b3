"""Choices by likelihood, held against the whole text put through the model at once."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
import torch

from benchmarks.training.choices import NOTHING, Scorer, best, choices, chosen, lawful, value_of
from benchmarks.training.proof_plan import requests
from controllers.backends.local_base import acquire, release
from tests.benchmarks.training.small_families import ENCODER, PLAN, families
from tests.controllers.backends import tiny_llama
from training.sft.rows import RowMaker, reply


@pytest.fixture(scope="module")
def asked():
    return requests(families(), ENCODER, PLAN, 0).asked


@pytest.fixture(scope="module")
def base(tmp_path_factory):
    model = tiny_llama.write_checkpoint(tmp_path_factory.mktemp("choices") / "tiny-llama")
    made = acquire(str(model))
    yield made
    release(made)


def one_of(asked, operation, *, joins):
    return next(
        it
        for it in asked
        if it.operation == operation and (chosen(operation, it.value) != NOTHING) == joins
    )


def test_the_right_choice_is_one_of_those_there_are(asked):
    for each in asked:
        names = [choice.name for choice in choices(each)]
        assert names[-1] == NOTHING
        assert chosen(each.operation, each.value) in names
        for name in names:
            assert chosen(each.operation, value_of(each, name)) == name


def test_the_reply_of_the_right_choice_is_the_one_that_is_learnt(asked):
    for each in asked:
        right = chosen(each.operation, each.value)
        (found,) = [choice for choice in choices(each) if choice.name == right]
        assert found.reply == reply(each)


def test_a_choice_is_made_where_replies_part(asked):
    for each in asked:
        made = [choice.reply[: choice.made_at] for choice in choices(each)]
        assert len(set(made)) == len(made)
        assert not any(one != other and other.startswith(one) for one in made for other in made)
    place = choices(one_of(asked, "place", joins=False))
    assert [choice.reply[: choice.made_at] for choice in place] == [
        '{"category":"C1",',
        '{"category":null,',
    ]


@pytest.mark.parametrize("operation", ["place", "merge", "select"])
def test_a_score_is_the_likelihood_of_the_reply_up_to_its_choice(asked, base, operation):
    """Found again with one forward pass over prompt and reply, and no cache."""
    each = one_of(asked, operation, joins=True)
    scores = Scorer(base).scores(each)
    assert len(scores) == len(choices(each))
    for choice in choices(each):
        made = replace(each, value=value_of(each, choice.name))
        assert scores[choice.name] == pytest.approx(_likelihood(base, made, choice), abs=1e-3)


def test_choices_of_different_lengths_do_not_count_what_fills_up(asked, base, monkeypatch):
    each = one_of(asked, "place", joins=True)
    *others, last = choices(each)
    longer = (*others, replace(last, made_at=len(last.reply)))
    monkeypatch.setattr("benchmarks.training.choices.choices", lambda _: longer)
    scores = Scorer(base).scores(each)
    for choice in longer:
        made = replace(each, value=value_of(each, choice.name))
        assert scores[choice.name] == pytest.approx(_likelihood(base, made, choice), abs=1e-3)


def _likelihood(base, made, choice):
    row = RowMaker(base.processor, base.markers).row(made)
    said = int((row.labels == -100).sum())
    with torch.no_grad():
        logits = base.model(input_ids=row.input_ids[None]).logits[0].log_softmax(-1)
    total, text, place = 0.0, "", said
    while len(text) < choice.made_at:
        total += float(logits[place - 1, row.input_ids[place]])
        place += 1
        text = base.processor.tokenizer.decode(row.input_ids[said:place])
    return total


def test_the_best_choice_is_the_likeliest():
    assert best({"a": -3.0, "b": -1.0, NOTHING: -2.0}) == "b"
    assert best({"a": -1.0, NOTHING: -1.0}) == "a"


def test_only_a_whole_reply_of_the_schema_is_lawful(asked):
    each = one_of(asked, "place", joins=True)
    right = reply(each)
    assert lawful(each, right)
    assert lawful(each, f" {right}\n")
    data = json.loads(right)
    for wrong in (
        "",
        right[:-1],
        f"Here you are: {right}",
        "[]",
        "null",
        json.dumps({**data, "more": 1}),
        json.dumps({"category": data["category"]}),
        json.dumps({**data, "category": "C9"}),
        json.dumps({**data, "category": None}),
    ):
        assert not lawful(each, wrong), wrong
