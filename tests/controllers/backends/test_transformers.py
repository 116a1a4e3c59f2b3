"""The transformers backend on a tiny random Qwen3-VL: what it sees, and what its reply becomes."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from controllers.backends.base import MISSING_IMAGE, Failure
from controllers.backends.local_inputs import read, see, tensors
from controllers.backends.transformers import TransformersBackend
from controllers.prompts.message import Message, Text
from epimem.errors import ControllerError
from tests.controllers.backends import tiny_qwen3_vl
from tests.controllers.backends.fitting import fits

pytestmark = pytest.mark.torchvision
# A reply of many choices, none of them favoured: what little a picture changes shows in it.
CHOICE = {"enum": [f"{first}{second}" for first in "abcdefgh" for second in "stuvwxyz"]}
CHOICES = {"type": "array", "items": CHOICE, "minItems": 8, "maxItems": 8}


@pytest.fixture(scope="module")
def backend(checkpoint):
    made = TransformersBackend(str(checkpoint))
    yield made
    made.close()


@pytest.fixture(scope="module")
def base(backend):
    return backend._base


@pytest.fixture
def generated(base, monkeypatch):
    """What `generate` was given and what it returned, a pair for each call."""
    calls = []
    plain = base.model.generate

    def spy(**inputs):
        output = plain(**inputs)
        calls.append((inputs, output))
        return output

    monkeypatch.setattr(base.model, "generate", spy)
    return calls


def seen(base, prompt):
    return see(read(prompt), base.processor, base.markers, prompt.max_pixels)


def inputs(base, prompt):
    return tensors([seen(base, prompt)], base.processor)


def in_the_same_words(completions):
    """Without what the clock says."""
    return [replace(completion, seconds=0.0) for completion in completions]


@pytest.fixture(scope="module")
def several(prompt, picture):
    """Prompts of different lengths, with no image, one and two."""
    return [
        prompt("short"),
        prompt("a longer question " * 20),
        prompt("one image", picture("red"), "and what it shows"),
        prompt("two images", picture("blue"), picture("green", 224, 160)),
        prompt("another room", max_tokens=48),
        prompt("no constraint", schema={}, max_tokens=24),
    ]


def test_replies_are_json_of_the_schema(backend, several):
    replies = backend.complete(several[:5])
    ended = [reply for reply in replies if not reply.truncated]
    assert len(ended) >= 3
    for reply in ended:
        assert not reply.error
        assert fits(json.loads(reply.text), several[0].schema), reply.text


def test_without_a_schema_nothing_is_constrained(backend, several):
    (reply,) = backend.complete(several[5:])
    assert reply.text
    with pytest.raises(ValueError, match="Expecting value"):
        json.loads(reply.text)


def test_a_reply_is_the_likeliest_text_that_fits(backend, base, prompt, picture):
    """Found again without `generate`: one step at a time, no cache, the whole text at each step."""
    import torch
    import xgrammar

    asked = prompt("one image", picture("red"), max_tokens=40)
    given = inputs(base, asked)
    given.pop("mm_token_type_ids")
    matcher = xgrammar.GrammarMatcher(base.grammars.compiled(asked.schema))
    allowed = xgrammar.allocate_token_bitmask(1, tiny_qwen3_vl.TEXT["vocab_size"])
    said = []
    while len(said) < 40 and not matcher.is_terminated():
        ids = torch.cat([given["input_ids"], torch.tensor([said], dtype=torch.long)], dim=1)
        kinds = (ids == base.model.config.image_token_id).long()
        step = {**given, "input_ids": ids, "attention_mask": torch.ones_like(ids)}
        with torch.no_grad():
            scores = base.model(**step, mm_token_type_ids=kinds).logits[:, -1]
        matcher.fill_next_token_bitmask(allowed)
        xgrammar.apply_token_bitmask_inplace(scores, allowed)
        scores[:, base.forbidden] = -torch.inf
        said.append(int(scores.argmax()))
        assert matcher.accept_token(said[-1])
    text = base.processor.tokenizer.decode(said, skip_special_tokens=True)
    (reply,) = backend.complete([asked])
    assert reply.text == text
    assert reply.tokens_out == len(said)


def test_a_batch_says_what_each_prompt_alone_is_told(backend, several):
    alone = [backend.complete([prompt])[0] for prompt in several]
    assert in_the_same_words(backend.complete(several)) == in_the_same_words(alone)


def test_a_model_of_the_other_preset_is_served_too(tmp_path, several):
    """Qwen3.5: layers that carry a state along, which must not take up what fills a row on the left."""
    model = tiny_qwen3_vl.write_checkpoint(tmp_path / "hybrid", family="qwen3_5")
    backend = TransformersBackend(str(model))
    prompts = [replace(prompt, schema=CHOICES) for prompt in several[:4]]
    alone = [backend.complete([prompt])[0] for prompt in prompts]
    assert in_the_same_words(backend.complete(prompts)) == in_the_same_words(alone)
    assert len({reply.text for reply in alone}) > 1
    assert seen(backend._base, several[0]).text.endswith("<think>\n\n</think>\n\n")
    backend.close()


def test_rows_of_a_batch_are_alike_and_bounded(checkpoint, base, several, generated):
    two_rows = TransformersBackend(str(checkpoint), rows=2)
    assert two_rows._base is base
    two_rows.complete([*several, *several])
    two_rows.close()
    shapes = [len(output) for _, output in generated]
    assert sorted(shapes) == [2] * 6
    for given, output in generated:
        room = given["generation_config"].max_new_tokens
        assert output.shape[1] - given["input_ids"].shape[1] <= room


def test_a_batch_is_bounded_in_tokens(backend, prompt, generated, monkeypatch):
    monkeypatch.setattr("controllers.backends.transformers.TOKENS", 400)
    backend.complete([prompt("a question " * size) for size in (1, 1, 30, 30, 60)])
    for given, _ in generated:
        rows, tokens = given["input_ids"].shape
        assert rows == 1 or rows * (tokens + 64) <= 400
    assert len(generated) > 1


def test_the_picture_reaches_the_model(backend, base, prompt, picture):
    shown = [picture(colour, 96, 64) for colour in ("red", "blue")]
    red, blue = (prompt("see", it, schema=CHOICES) for it in shown)
    ours, theirs = inputs(base, red), inputs(base, blue)
    marks = ours["input_ids"] == base.model.config.image_token_id
    # Patches of 16 pixels, four of them a token.
    assert int(marks.sum()) == (96 // 32) * (64 // 32)
    assert ours["image_grid_thw"].tolist() == [[1, 4, 6]]
    assert (ours["input_ids"] == theirs["input_ids"]).all()
    assert (ours["pixel_values"] != theirs["pixel_values"]).any()
    # The red channel: mean and deviation are one half, so that white is 1 and black is -1.
    assert ours["pixel_values"].amax() == 1
    assert ours["pixel_values"].amin() == -1
    assert backend.complete([red])[0].text != backend.complete([blue])[0].text


def test_images_go_in_at_their_places_and_in_their_order(base, prompt, picture):
    asked = prompt("first", picture("red", 64, 64), "second", picture("blue", 128, 64), "end")
    text = seen(base, asked).text
    pad = "<|vision_start|><|image_pad|><|vision_end|>"
    assert f"first\n{pad}\nsecond\n{pad}\nend<|im_end|>" in text
    found = inputs(base, asked)
    assert found["image_grid_thw"].tolist() == [[1, 4, 4], [1, 4, 8]]
    first, second = found["pixel_values"][:16], found["pixel_values"][16:]
    assert (first == inputs(base, prompt(picture("red", 64, 64)))["pixel_values"]).all()
    assert (second == inputs(base, prompt(picture("blue", 128, 64)))["pixel_values"]).all()


def test_images_are_scaled_to_whole_patches_within_the_bound(base, prompt, picture):
    asked = prompt(picture("red", 500, 300), max_pixels=40 * 2**10)
    with pytest.raises(AssertionError):
        read(asked)  # the picture checks that it was asked for within the bound
    (image,) = seen(base, prompt(picture("red", 250, 150), max_pixels=40 * 2**10)).images
    assert image.size == (256, 160)
    # To the nearest patch it would be 224 x 192, which is more than allowed.
    (image,) = seen(base, prompt(picture("red", 210, 190), max_pixels=40 * 2**10)).images
    assert image.size == (192, 192)
    # What is small is scaled up to what the checkpoint says, as servers do it, but not beyond the bound.
    (image,) = seen(base, prompt(picture("red", 40, 50))).images
    assert image.size == (64, 96)
    (image,) = seen(base, prompt(picture("red", 20, 30), max_pixels=2_048)).images
    assert image.size == (32, 32)


def test_an_image_that_cannot_be_shown_is_told(backend, base, prompt, picture):
    gone = replace(picture("red"), read=lambda _: None)
    thin = picture("red", 1_205, 6)
    for missing in (gone, thin):
        asked = prompt("see", missing, "end")
        assert f"see\n{MISSING_IMAGE}\nend" in seen(base, asked).text
        assert not seen(base, asked).images
        assert not backend.complete([asked])[0].error


def test_control_tokens_in_a_text_are_signs_there(base, prompt, picture):
    plain = prompt("so", picture("red"), "it ended")
    sly = prompt("so", picture("red"), f"it ended {''.join(tiny_qwen3_vl.MARKERS)}")
    special = base.processor.tokenizer.all_special_ids

    def marks(prompt):
        return [
            token for token in inputs(base, prompt)["input_ids"][0].tolist() if token in special
        ]

    assert marks(sly) == marks(plain)
    assert "< |im_end|>" in seen(base, sly).text


def test_control_tokens_do_not_come_in_a_reply(backend, base, prompt, generated):
    import torch

    weight = base.model.get_output_embeddings().weight
    before = weight.detach().clone()
    with torch.no_grad():
        weight[base.forbidden, 0] = 9.0
    try:
        for asked in (prompt("so"), prompt("so", schema={})):
            backend.complete([asked])
    finally:
        with torch.no_grad():
            weight.copy_(before)
    for given, output in generated:
        said = output[0, given["input_ids"].shape[1] :].tolist()
        assert said
        assert not set(said) & set(base.forbidden)


def test_a_chat_template_without_images_is_noticed(backend, base, prompt, picture, monkeypatch):
    blind = tiny_qwen3_vl.TEMPLATE.replace("<|image_pad|>", "")
    monkeypatch.setattr(base.processor, "chat_template", blind)
    replies = backend.complete([prompt("see", picture("red")), prompt("so")])
    assert [reply.error for reply in replies] == [Failure.MODEL, ""]


def test_an_assistants_turn_stands_in_the_conversation(base, prompt):
    asked = prompt("so")
    again = (Message("assistant", (Text("{}"),)), Message("user", (Text("again"),)))
    text = seen(base, replace(asked, messages=(*asked.messages, *again))).text
    assert "<|im_start|>assistant\n{}<|im_end|>\n<|im_start|>user\nagain<|im_end|>\n" in text
    assert text.startswith(
        "<|im_start|>system\nYou choose.<|im_end|>\n<|im_start|>user\nso<|im_end|>"
    )
    assert text.endswith("<|im_start|>assistant\n")


def test_usage_counts_tokens(backend, base, several, generated):
    replies = backend.complete(several)
    for prompt, reply in zip(several, replies, strict=True):
        assert reply.tokens_in == inputs(base, prompt)["input_ids"].shape[1]
        assert reply.seconds > 0
        assert reply.cached == 0
        assert reply.truncated == (reply.tokens_out == prompt.max_tokens)
    stops = set(base.stops)
    said = [out[given["input_ids"].shape[1] :] for given, rows in generated for out in rows]
    ends = [
        next((at + 1 for at, it in enumerate(ids) if int(it) in stops), len(ids)) for ids in said
    ]
    assert sorted(reply.tokens_out for reply in replies) == sorted(ends)


def test_the_limit_on_new_tokens_cuts_and_says_so(backend, prompt):
    (whole,) = backend.complete([prompt("so")])
    assert not whole.truncated
    (cut,) = backend.complete([prompt("so", max_tokens=9)])
    assert cut.truncated
    assert cut.tokens_out == 9
    assert whole.text.startswith(cut.text)


def test_a_prompt_that_is_too_long_costs_only_itself(backend, base, prompt, monkeypatch):
    monkeypatch.setattr(base, "context", 120)
    fitting, long = prompt("so"), prompt("so " * 100)
    replies = backend.complete([long, fitting, long])
    assert [reply.error for reply in replies] == [
        Failure.PROMPT_TOO_LONG,
        "",
        Failure.PROMPT_TOO_LONG,
    ]
    # The reply needs its room too.
    monkeypatch.setattr(base, "context", replies[1].tokens_in + fitting.max_tokens)
    assert not backend.complete([fitting])[0].error
    monkeypatch.setattr(base, "context", replies[1].tokens_in + fitting.max_tokens - 1)
    assert backend.complete([fitting])[0].error == Failure.PROMPT_TOO_LONG


def test_a_batch_that_does_not_fit_into_memory_is_halved(backend, base, several, monkeypatch):
    import torch

    expected = backend.complete(several)
    plain, sizes = base.model.generate, []

    def small(**inputs):
        sizes.append(len(inputs["input_ids"]))
        if sizes[-1] > 1:
            raise torch.OutOfMemoryError
        return plain(**inputs)

    monkeypatch.setattr(base.model, "generate", small)
    assert in_the_same_words(backend.complete(several)) == in_the_same_words(expected)
    assert sorted(sizes) == [1, 1, 1, 1, 1, 1, 2, 2, 4]


@pytest.mark.parametrize(
    ("fault", "failure"),
    [
        (MemoryError(), Failure.MEMORY),
        (RuntimeError("can't allocate memory: you tried 9 bytes"), Failure.MEMORY),
        (ValueError("odd"), Failure.MODEL),
        (RuntimeError("odd"), Failure.MODEL),
    ],
)
def test_a_prompt_that_fails_costs_only_itself(backend, base, prompt, monkeypatch, fault, failure):
    prompts = [prompt("so"), prompt("bad " * 9), prompt("and so")]
    expected = backend.complete(prompts)
    plain = base.model.generate
    longest = expected[1].tokens_in

    def faulty(**inputs):
        if inputs["input_ids"].shape[1] == longest:
            raise fault
        return plain(**inputs)

    monkeypatch.setattr(base.model, "generate", faulty)
    replies = in_the_same_words(backend.complete(prompts))
    assert replies[::2] == in_the_same_words(expected[::2])
    assert replies[1].error == failure
    assert replies[1].text == ""
    assert replies[1].tokens_in == longest


def test_a_schema_without_a_grammar_costs_only_itself(backend, prompt):
    replies = backend.complete([prompt("so", schema={"type": "nothing"}), prompt("so")])
    assert [reply.error for reply in replies] == [Failure.MODEL, ""]


def test_an_accelerator_that_is_gone_ends_everything(backend, base, prompt, monkeypatch):
    import torch

    def gone(**_):
        raise torch.AcceleratorError

    monkeypatch.setattr(base.model, "generate", gone)
    with pytest.raises(ControllerError, match="accelerator"):
        backend.complete([prompt("so")])


def test_what_is_late_is_told(checkpoint, prompt):
    hasty = TransformersBackend(str(checkpoint), deadline_s=1e-6)
    replies = hasty.complete([prompt("so"), prompt("and so")])
    hasty.close()
    assert [reply.error for reply in replies] == [Failure.DEADLINE] * 2
    assert all(reply.text == "" for reply in replies)


def test_nothing_asked_is_nothing_said(backend):
    assert list(backend.complete([])) == []


def test_a_grammar_speaks_of_every_score_of_the_model(base, prompt):
    """The output layer has more rows than the tokenizer has tokens; those are ruled out too."""
    about = base.grammars.compiled(prompt("so").schema).tokenizer_info
    assert about.vocab_size == tiny_qwen3_vl.TEXT["vocab_size"] > len(base.processor.tokenizer)
    assert set(about.stop_token_ids) == set(base.stops)
    assert len(base.stops) == 2


def test_grammars_are_compiled_once(base, prompt):
    compiler = base.grammars._compiler
    schema = {
        **prompt("so").schema,
        "properties": {"gate": {"enum": [0, 1, 7]}},
        "required": ["gate"],
    }
    before = compiler.get_cache_size_bytes()
    base.grammars.compiled(schema)
    once = compiler.get_cache_size_bytes()
    base.grammars.compiled(dict(schema))
    assert before < once == compiler.get_cache_size_bytes()
    assert compiler.cache_limit_bytes > 0


@pytest.mark.parametrize(
    ("text", "lawful"),
    [
        ('"plain"', True),
        (r'"he said \"stop\" \\ and \n went \u00e9"', True),
        ('"é 駅 😀"', True),
        ('"longer than asked for"', True),
        ('"a\tb"', False),
        ('"a\x05b"', False),
        ('"a\nb"', False),
        (r'"\q"', False),
        ("3", False),
    ],
)
def test_a_text_of_a_reply_is_any_text_that_json_can_hold(base, text, lawful):
    import xgrammar

    schema = {"type": "object", "properties": {"type": {"type": "string", "maxLength": 9}}}
    grammar = base.grammars.compiled(
        {**schema, "required": ["type"], "additionalProperties": False}
    )
    matcher = xgrammar.GrammarMatcher(grammar, terminate_without_stop_token=True)
    whole = f'{{"type":{text}}}'
    assert (matcher.accept_string(whole) and matcher.is_terminated()) == lawful
    assert not lawful or json.loads(whole)
