"""The transformers backend on a language model without eyes: a tiny random Llama."""

from __future__ import annotations

import json
import sys

import peft
import pytest
import torch
from transformers import AutoModelForCausalLM

from controllers.backends.base import MISSING_IMAGE, pieces
from controllers.backends.local_inputs import read, see, tensors
from controllers.backends.transformers import TransformersBackend
from epimem.errors import ConfigError
from tests.controllers.backends import tiny_llama
from tests.controllers.backends.fitting import fits


@pytest.fixture(scope="module")
def llama(tmp_path_factory):
    return tiny_llama.write_checkpoint(tmp_path_factory.mktemp("llama") / "tiny-llama")


@pytest.fixture
def opened(llama):
    backends = []

    def make(adapter=None):
        backends.append(TransformersBackend(str(llama), adapter and str(adapter)))
        return backends[-1]

    yield make
    for backend in backends:
        backend.close()


@pytest.fixture
def adapter(llama, tmp_path):
    model = AutoModelForCausalLM.from_pretrained(llama)
    adapted = peft.get_peft_model(
        model, peft.LoraConfig(r=4, target_modules=["q_proj", "v_proj", "o_proj", "down_proj"])
    )
    torch.manual_seed(5)
    for name, weight in adapted.named_parameters():
        if "lora_B" in name:
            torch.nn.init.normal_(weight, std=0.3)
    adapted.save_pretrained(str(tmp_path / "adapter"))
    return tmp_path / "adapter"


def seen(base, prompt):
    return see(read(prompt), base.processor, base.markers, prompt.max_pixels)


def test_replies_are_json_of_the_schema(opened, prompt):
    replies = opened().complete([prompt("so"), prompt("and so"), prompt("a question " * 9)])
    ended = [reply for reply in replies if not reply.truncated]
    assert len(ended) >= 2
    for reply in ended:
        assert not reply.error
        assert fits(json.loads(reply.text), prompt("so").schema)


def test_an_image_is_told_in_words_as_one_that_is_gone(opened, prompt, picture):
    backend = opened()
    asked = prompt("see", picture("red"), "and", picture("blue"), "end")
    shown = seen(backend._base, asked)
    gone = prompt("see", picture("red").__class__("gone", 9, 9), "end")
    assert f"user\nsee\n{MISSING_IMAGE}\nand\n{MISSING_IMAGE}\nend<|im_end|>" in shown.text
    assert not shown.images
    (words,) = pieces(gone.messages[1], 99)
    assert f"user\n{words}<|im_end|>" in seen(backend._base, gone).text
    assert not backend.complete([asked])[0].error


def test_a_row_is_the_text_of_the_template_and_nothing_more(opened, prompt):
    base = opened()._base
    base.processor.tokenizer.model_input_names = ["input_ids", "token_type_ids", "attention_mask"]
    shown = [seen(base, prompt("so")), seen(base, prompt("a longer question"))]
    assert shown[0].text == (
        "<|im_start|>system\nYou choose.<|im_end|>\n<|im_start|>user\nso<|im_end|>\n"
        "<|im_start|>assistant\n"
    )
    batch = tensors(shown, base.processor)
    assert set(batch) == {"input_ids", "attention_mask"}
    tokenizer = base.processor.tokenizer
    for row, counts, each in zip(batch["input_ids"], batch["attention_mask"], shown, strict=True):
        assert tokenizer.decode(row[counts.bool()]) == each.text
    # Filled up on the left, where the prompt does not end.
    assert batch["attention_mask"][:, -1].tolist() == [1, 1]
    assert batch["attention_mask"][0, 0] == 0


def test_control_tokens_in_a_text_are_signs_there(opened, prompt):
    base = opened()._base
    text = seen(base, prompt("it ended <|im_end|>")).text
    assert "it ended < |im_end|><|im_end|>" in text


def test_a_batch_says_what_each_prompt_alone_is_told(opened, prompt):
    backend = opened()
    prompts = [prompt("so"), prompt("a longer question " * 9), prompt("and so")]
    alone = [backend.complete([each])[0].text for each in prompts]
    assert [reply.text for reply in backend.complete(prompts)] == alone


def test_an_adapter_speaks_in_its_own_role_only(opened, prompt, adapter):
    alone = opened().complete([prompt("so")])[0].text
    tuned = opened(adapter)
    assert tuned.complete([prompt("so")])[0].text != alone
    assert opened().complete([prompt("so")])[0].text == alone
    assert tuned.name == "transformers/tiny-llama+adapter"


def test_a_language_model_needs_no_package_for_images(opened, prompt, monkeypatch):
    monkeypatch.setitem(sys.modules, "qwen_vl_utils", None)
    assert not opened().complete([prompt("so")])[0].error


def test_a_language_model_without_chat_template_is_refused(tmp_path):
    mute = tiny_llama.write_checkpoint(tmp_path / "mute", template=None)
    with pytest.raises(ConfigError, match="chat template"):
        TransformersBackend(str(mute))
