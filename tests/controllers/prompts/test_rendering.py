from __future__ import annotations

import hashlib
import json
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given, settings

from controllers.prompts import MAX_CHARS, MAX_IMAGES, OPERATIONS, VERSION, Image, Prompt, Text
from epimem.protocols import Picture
from epimem.schema.outcome import SealedOutcome
from epimem.schema.run import Run
from tests.controllers.prompts import samples
from tests.controllers.prompts.strategies import STRATEGIES

GOLDEN = Path(__file__).parent / "golden.json"
CANARY = "KESTREL-93417"


def plain(prompt: Prompt) -> dict:
    return {
        "messages": [
            [
                m.role,
                *(
                    p.text if isinstance(p, Text) else [p.label, p.picture.image_id]
                    for p in m.parts
                ),
            ]
            for m in prompt.messages
        ],
        "schema": prompt.schema,
        "limits": [prompt.operation, prompt.max_tokens, prompt.max_pixels],
    }


def everything(prompt: Prompt) -> str:
    return "\n".join(message.text for message in prompt.messages)


VARIANTS = {
    **samples.REQUESTS,
    "derive:wrong": lambda text: samples.derive(text, "wrong", 60),
    "derive:unknown": lambda text: samples.derive(text, "unknown"),
    "update:none": lambda text: samples.update(text, "none"),
    "update:frozen": lambda text: samples.update(text, "frozen"),
    "update:first": lambda text: replace(samples.update(text, held=False), trace=f"said {text}"),
    "place:new": lambda text: samples.place(text, 0),
    "select:strict": lambda text: samples.select(text, 3, strict=True),
}


def rendered(variant: str, text: str) -> Prompt:
    return OPERATIONS[variant.partition(":")[0]].render(VARIANTS[variant](text))


def digests() -> dict[str, str]:
    return {
        variant: hashlib.sha256(json.dumps(plain(rendered(variant, "of {0}"))).encode()).hexdigest()
        for variant in VARIANTS
    }


def test_no_byte_of_a_prompt_changes_without_a_new_version() -> None:
    golden = json.loads(GOLDEN.read_text(encoding="utf-8"))
    assert list(golden) == [VERSION], "the file holds the digests of this version alone"
    found = digests()
    changed = [key for key in found if found[key] != golden[VERSION].get(key)]
    if changed:
        pytest.fail(
            f"rendered bytes of {changed} changed: raise controllers.prompts.VERSION and write "
            f"golden.json anew:\n{json.dumps({'NEW VERSION': found}, indent=2)}"
        )


@pytest.mark.parametrize("name", OPERATIONS)
def test_equal_requests_give_equal_bytes_and_one_system_message(name: str) -> None:
    system = rendered(name, "").messages[0]

    @settings(max_examples=25, deadline=None)
    @given(STRATEGIES[name])
    def holds(pair) -> None:
        request, _ = pair
        prompt = OPERATIONS[name].render(request)
        assert plain(OPERATIONS[name].render(request)) == plain(prompt)
        assert prompt.operation == name
        assert prompt.messages[0] == system
        assert [message.role for message in prompt.messages] == ["system", "user"]

    holds()


@pytest.mark.parametrize("variant", VARIANTS)
def test_no_text_of_an_item_reaches_the_system_message(variant: str) -> None:
    prompt = rendered(variant, CANARY)
    assert CANARY not in prompt.messages[0].text
    assert CANARY in prompt.messages[1].text
    assert not any(isinstance(part, Image) for part in prompt.messages[0].parts)
    # Nor the schema, which some servers render into the system message.
    assert CANARY not in json.dumps(prompt.schema)


@pytest.mark.parametrize("variant", VARIANTS)
def test_item_text_stands_between_the_marks_and_nowhere_else(variant: str) -> None:
    lines = rendered(variant, CANARY).messages[1].text.splitlines()
    inside, marks = False, set()
    for row in lines:
        if row.startswith("<<"):
            marks.add(row[2:14])
            inside = not row.endswith(" end>>")
            assert CANARY not in row
        else:
            assert inside or CANARY not in row
    assert not inside
    assert len(marks) == 1


@pytest.mark.parametrize("variant", VARIANTS)
def test_braces_and_signs_of_any_text_survive(variant: str) -> None:
    text = "a {0} b {name} {{ }} c %s %(x)d 100% $x ${y}"
    assert text in everything(rendered(variant, text))


def test_every_image_follows_the_line_that_announces_it() -> None:
    expected = {
        "derive": ["P1", "P2"],
        "update": ["P1", "P2", "E1"],
        "gate": ["P1", "P2"],
        "select": ["P1", "P2", *(f"E{at}" for at in range(1, 9))],
    }
    for name in OPERATIONS:
        prompt = rendered(name, "")
        labels = []
        for before, part in pairwise(prompt.messages[1].parts):
            if isinstance(part, Image):
                assert isinstance(before, Text)
                picture = part.picture
                last = before.text.splitlines()[-1]
                assert last.startswith(f"Image {part.label}: ")
                assert last.endswith(f", {picture.width} x {picture.height} pixels.")
                labels.append(part.label)
        assert labels == expected.get(name, [])
        assert [image.label for image in prompt.images] == labels
    assert "Image P2: page 2 of the question, 333 x 1201 pixels." in everything(
        rendered("gate", "")
    )


def test_a_crop_is_announced_with_the_candidate_it_belongs_to() -> None:
    prompt = rendered("select", "")
    parts = prompt.messages[1].parts
    first = next(at for at, p in enumerate(parts) if isinstance(p, Image) and p.label == "E1")
    assert parts[first].picture.image_id == "crop-0"
    assert parts[first - 1].text.splitlines()[-1].startswith("Image E1: evidence of candidate R1,")
    fifth = next(at for at, p in enumerate(parts) if isinstance(p, Image) and p.label == "E5")
    assert parts[fifth].picture.image_id == "other-0"
    assert "evidence of candidate R1," in parts[fifth - 1].text


@pytest.mark.parametrize("name", OPERATIONS)
@pytest.mark.parametrize("filler", ["a", '"', "<|"])
def test_the_size_of_a_prompt_is_bounded_whatever_the_bank_holds(name: str, filler: str) -> None:
    text = filler * (16_000 // len(filler))
    large = {
        "derive": lambda: samples.derive(text, turns=200),
        "update": lambda: samples.update(text),
        "gate": lambda: replace(samples.gate(text), items=samples.gate(text).items * 30),
        "place": lambda: samples.place(text, 64),
        "merge": lambda: samples.merge(text, 64),
        "split_lift": lambda: samples.split_lift(text, 64),
        "consolidate": lambda: samples.consolidate(text, 64),
        "select": lambda: samples.select(text, 64),
    }
    request = large[name]()
    if hasattr(request, "pages"):
        request = replace(request, pages=samples.PAGES * 20)
    prompt = OPERATIONS[name].render(request)
    assert len(everything(prompt)) <= MAX_CHARS
    assert len(prompt.images) <= MAX_IMAGES


def test_at_most_eight_pages_are_shown_those_that_were_looked_at_among_them() -> None:
    pages = tuple(Picture(f"image-{at}", 100, 100, at) for at in range(1, 41))
    run = samples.run()
    shown = [
        {"page": at, "image_id": f"image-{at}", "width": 100, "height": 100} for at in range(1, 41)
    ]
    data = run.plain()
    data["task"]["pages"] = shown
    views = [
        {"seq": 50 + at, "kind": "view", "from": "x", "page": page}
        for at, page in enumerate([33, 20, 33, 5])
    ]
    data["trajectory"]["extra"]["epimem"]["events"] = views
    request = replace(samples.derive(), run=Run.read(data), pages=pages)
    prompt = OPERATIONS["derive"].render(request)
    labels = [image.label for image in prompt.images]
    assert labels == ["P1", "P2", "P3", "P4", "P5", "P6", "P20", "P33"]
    assert "Image P33: page 33 of the question" in everything(prompt)
    assert '"looked at": "P20"' in everything(prompt)


def test_a_sealed_reference_and_what_is_not_meant_for_it_stay_out_of_a_prompt() -> None:
    outcome = SealedOutcome(run_id="run-1", verdict="wrong", source="oracle", reference=CANARY)
    assert outcome.reference == CANARY
    run = samples.run(task_id=CANARY, public={"note": CANARY}, group=CANARY)
    data = run.plain()
    data["run_id"] = f"run-{CANARY}"
    data["native"] = {"format": CANARY}
    data["system"]["harness"] = CANARY
    data["retrievals"] = [{"retrieval_id": CANARY}]
    data["answer"]["finish_reason"] = CANARY
    data["answer"]["by_actor"] = {"judge": CANARY}
    data["trajectory"]["notes"] = CANARY
    data["trajectory"]["extra"]["reference"] = CANARY
    data["trajectory"]["extra"]["epimem"]["events"][0]["data"] = {"reference": CANARY}
    data["trajectory"]["steps"][0]["extra"]["score"] = CANARY
    data["trajectory"]["steps"][0]["reasoning_content"] = CANARY
    for verdict in ("right", "wrong", "unknown"):
        request = replace(samples.derive(verdict=verdict), run=Run.read(data))
        assert CANARY not in json.dumps(plain(OPERATIONS["derive"].render(request)))
    request = replace(samples.update(), trace=Run.read(data))
    assert CANARY not in json.dumps(plain(OPERATIONS["update"].render(request)))


@pytest.mark.parametrize("variant", VARIANTS)
def test_instructions_come_first_and_the_last_line_says_what_to_return(variant: str) -> None:
    prompt = rendered(variant, CANARY)
    assert "Reply with one JSON object" in everything(prompt).split(CANARY)[0]
    assert prompt.messages[1].text.splitlines()[-1].startswith("Return only the JSON object")
