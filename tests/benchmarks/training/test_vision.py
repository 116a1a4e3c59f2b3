"""The small model that learns to see: what it is shown, what it is held against, and one whole run."""

from __future__ import annotations

import io
import json

import pytest
from PIL import Image

from benchmarks.training import vision, vision_data, vision_model, vision_start
from benchmarks.training.vision_data import Counts, blank, drawn, small, texts, with_pictures
from controllers.prompts import OPERATIONS
from epimem.schema.region import Region

COUNTS = Counts(gates=12, regions=4, others=4)


@pytest.fixture(scope="module")
def found():
    return drawn(COUNTS, 7)


def shown(demonstration, most=10**6):
    prompt = OPERATIONS[demonstration.operation].render(demonstration.request)
    files = [image.picture.png(most) for image in prompt.images]
    return [Image.open(io.BytesIO(png)).convert("RGB") for png in files]


def updates(found):
    return [each for each in found if each.operation == "update"]


def test_as_many_updates_as_asked_for_point_to_a_region(found):
    assert sum(each.operation == "gate" for each in found) == COUNTS.gates
    assert [vision._wanted(each) is not None for each in updates(found)].count(True) == 4
    assert len(updates(found)) == 8


def test_other_seeds_have_other_houses(found):
    others = {each.group for each in drawn(Counts(6, 1, 1), 8)}
    assert not others & {each.group for each in found}


def test_pictures_are_shown_small_and_words_stay_as_they_are(found):
    for each in found:
        prompt = OPERATIONS[each.operation].render(each.request)
        for image, seen in zip(prompt.images, shown(each), strict=True):
            assert seen.width * seen.height <= vision_data.PIXELS
            size = f"{image.picture.width} x {image.picture.height} pixels"
            assert size in prompt.messages[1].text
            # The bound of whoever asks holds too.
            assert image.picture.png(2_000) is not None


def test_a_bound_below_the_own_one_is_kept(found):
    picture = small(updates(found)[0].request.pages[0])
    seen = Image.open(io.BytesIO(picture.png(2_000)))
    assert seen.width * seen.height <= 2_000


def test_blank_pictures_have_the_size_and_show_nothing(found):
    for each in updates(found):
        for one, other in zip(shown(each), shown(with_pictures(each, blank)), strict=True):
            assert one.size == other.size
            assert len(one.getcolors(10**6)) > 1
            assert len(other.getcolors(10**6)) == 1
    each = updates(found)[0]
    words = [
        OPERATIONS["update"].render(it.request).messages[1].text
        for it in (each, with_pictures(each, blank))
    ]
    assert words[0] == words[1]


def test_the_mean_box_is_taken_over_all_and_by_size(found):
    mean = vision.boxes(found)
    wanted = [region for each in found if (region := vision._wanted(each)) is not None]
    lefts = [region.to_scaled()[0] for region in wanted]
    assert mean[None][0] == round(sum(lefts) / len(lefts))
    sizes = {(region.width, region.height) for region in wanted}
    assert set(mean) == {None, *sizes}
    for size in sizes:
        rights = [it.to_scaled()[2] for it in wanted if (it.width, it.height) == size]
        assert mean[size][2] == round(sum(rights) / len(rights))


def test_what_is_right_counts_by_group(found):
    result = vision.measured(
        found,
        {
            "right": lambda it: it.value if it.operation == "gate" else vision._wanted(it),
            "refused": lambda _: None,
            "whole": lambda it: Region.whole(*vision._size(it)) if updates([it]) else 1,
        },
    )
    assert result["n"] == {"gate": 12, "update": 4}
    assert result["right"]["gate accuracy"]["mean"] == 1
    assert result["right"]["region IoU"]["mean"] == 1
    assert result["refused"]["gate accuracy"]["mean"] == 0
    assert result["refused"]["region IoU"]["mean"] == 0
    assert 0 < result["whole"]["region IoU"]["mean"] < 0.3
    printed = vision.table(result)
    assert "| right | 1.00 [1.00, 1.00] | 1.00 [1.00, 1.00] |" in printed
    assert "gate accuracy (n 12)" in printed


def test_what_is_gained_is_counted_question_by_question(found):
    def right(it):
        return it.value if it.operation == "gate" else vision._wanted(it)

    def whole(it):
        return Region.whole(*vision._size(it)) if updates([it]) else 1 - it.value

    gained, lost, none = (
        vision.gained(found, *pair) for pair in ((right, whole), (whole, right), (right, right))
    )
    assert gained["gate accuracy"]["mean"] == 1
    assert 0.7 < gained["region IoU"]["low"] <= gained["region IoU"]["mean"] < 1
    assert lost["region IoU"]["mean"] == pytest.approx(-gained["region IoU"]["mean"])
    assert none["gate accuracy"]["high"] == none["region IoU"]["high"] == 0


def test_the_tokenizer_is_made_for_what_is_read(found, tmp_path):
    from transformers import AutoConfig, AutoTokenizer

    folder = vision_model.write(tmp_path / "model", texts(found), seed=0)
    tokenizer = AutoTokenizer.from_pretrained(folder)
    text = OPERATIONS["gate"].render(found[0].request).messages[1].text
    ids = tokenizer.encode(text, add_special_tokens=False)
    assert tokenizer.decode(ids) == text
    assert len(ids) < len(text) / 2.5
    config = AutoConfig.from_pretrained(folder)
    assert config.text_config.vocab_size == len(tokenizer)
    assert config.model_type == "qwen3_vl"


def test_pages_to_see_on_are_of_other_houses_and_most_have_a_key():
    pages = [vision_start.drawn(3, number) for number in range(40)]
    assert pages[5].image_id == vision_start.drawn(3, 5).image_id
    assert len({page.house.name for page in pages}) == 40
    assert 20 < sum(page.key is not None for page in pages) < 40
    shown_in_requests = " ".join(texts(drawn(COUNTS, 3)))
    assert not any(page.house.name in shown_in_requests for page in pages)


@pytest.mark.torchvision
def test_learning_to_see_moves_every_part_of_the_model(found, tmp_path):
    from safetensors.torch import load_file

    folder = vision_model.write(tmp_path / "start", texts(found), seed=0)
    before, told = load_file(folder / "model.safetensors"), []
    vision_start.learn_to_see(folder, 50, seed=1, rows=1, tell=told.append)
    after = load_file(folder / "model.safetensors")
    parts = {name.split(".")[1] for name in after if not after[name].equal(before[name])}
    assert {"visual", "language_model"} <= parts
    assert told[0].startswith("step 50 of 50: loss ")


@pytest.mark.long
@pytest.mark.torchvision
def test_a_run_ends_in_a_result_and_is_not_trained_again(tmp_path):
    plan = vision.Plan(learnt=Counts(8, 4, 4), asked=Counts(4, 2, 2), epochs=1, start=2)
    first = vision.run(tmp_path, plan, seed=0)
    assert first["n"] == {"gate": 4, "update": 2}
    assert (tmp_path / "exported" / "merged" / "model.safetensors").is_file()
    assert json.loads((tmp_path / "result.json").read_text()) == first
    log = (tmp_path / "training" / "log.jsonl").read_text()
    again = vision.run(tmp_path, plan, seed=0)
    assert (tmp_path / "training" / "log.jsonl").read_text() == log
    assert {**again, "minutes": 0} == {**first, "minutes": 0}
