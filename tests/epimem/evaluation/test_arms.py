"""Each arm by itself, and the side banks of two of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from epimem import Caller, ExperienceMemory, IndexText, LessonDraft
from epimem.config import Config, EncoderConfig
from epimem.errors import ConfigError
from epimem.evaluation import (
    Asking,
    Best,
    EvalTask,
    Frequent,
    Handout,
    PublicTask,
    Retrieved,
    StandardArms,
    Wrong,
    flat_bank,
)
from epimem.evaluation.side_banks import live_lessons, permuted
from epimem.evaluation.tasks import with_image_ids
from epimem.schema.memory_input import Budget, Item, MemoryInput
from tests.epimem.evaluation import houses


@pytest.fixture(scope="module")
def asked(stream: list[EvalTask]) -> list[PublicTask]:
    return [task.public for task in with_image_ids(stream)]


def guidance(given: Handout) -> list[str]:
    return [item.guidance for item in given.input.items]


def draft(text: str, question: str, **more: object) -> LessonDraft:
    index = IndexText(topic=question, scope="letters", question_anchor=f"What about {question}?")
    return LessonDraft(guidance=text, index=index, question_key=question, **more)


@pytest.fixture(scope="module")
def letters(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ExperienceMemory]:
    """A bank without an encoder: contributors, supports, cautions, families and an inbox."""
    config = Config(encoder=EncoderConfig(model="none"))
    path = tmp_path_factory.mktemp("letters") / "bank"
    with ExperienceMemory.create(path, config) as memory:
        for question in "abc":
            memory.contribute(draft("Say it twice.", question, family="speech"))
        memory.caller = Caller("guest", "elsewhere", authority="none")
        memory.contribute(draft("Say it twice.", "d", family="speech", cautions=("Not at night.",)))
        memory.contribute(draft("Write it once.", "e", family="script"))
        memory.contribute(draft("Shout it.", "f", polarity="negative"))
        memory.maintain()
        memory.contribute(draft("Whisper it.", "g", audience=("nurse",)))
        memory.freeze()
        yield memory


def test_retrieved_asks_its_bank_once_a_task(
    memory: ExperienceMemory, asked: list[PublicTask], monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[str] = []
    honest = memory.retrieve
    monkeypatch.setattr(
        memory,
        "retrieve",
        lambda question, **more: calls.append(question) or honest(question, **more),
    )
    arm = Retrieved(memory, Asking(budget=Budget(images=0)))

    first = list(arm.handouts(asked[0], 0))
    assert list(arm.handouts(asked[0], 1)) == first
    assert calls == [asked[0].question]
    assert first[0].seconds > 0.0
    assert first[0].crops == ()


def test_a_crop_goes_along_as_a_file(memory: ExperienceMemory, asked: list[PublicTask]) -> None:
    (given,) = Retrieved(memory).handouts(asked[0], 0)

    assert houses.read(given.crops[0]) == Counter([houses.convention("Rubra").color])


def test_wrong_is_about_something_else_and_of_the_same_size(
    memory: ExperienceMemory, asked: list[PublicTask]
) -> None:
    product = Retrieved(memory)
    arm = Wrong(product)
    arm.prepare(asked)

    for task in asked:
        own = product.answer(task)
        (given,) = arm.handouts(task, 0)
        assert len(given.input.items) == len(own.input.items)
        assert not set(guidance(given)) & set(guidance(own))
        assert given.key in {product.answer(other).key for other in asked if other.id != task.id}
    drawn = {tuple(given.key for given in arm.handouts(asked[0], seed)) for seed in range(8)}
    assert len(drawn) > 1
    assert list(arm.handouts(asked[0], 3)) == list(arm.handouts(asked[0], 3))


def test_wrong_comes_nearest_in_size(memory: ExperienceMemory) -> None:
    sizes = {"own": 2, "one": 1, "two": 2, "three": 3, "four": 4, "none": 0}
    tasks = {name: PublicTask(id=name, question=name) for name in sizes}
    product = Retrieved(memory)
    for name, size in sizes.items():
        items = [
            Item(node_id=f"{name}{n}", kind="lesson", guidance=f"{name}{n}") for n in range(size)
        ]
        given = MemoryInput(retrieval_id=name, bank_seq=1, items=tuple(items))
        product._known[tasks[name]] = Handout(given)
    arm = Wrong(product)
    arm.prepare(list(tasks.values()))

    for seed in range(6):
        assert [given.input.retrieval_id for given in arm.handouts(tasks["own"], seed)] == ["two"]
        assert [given.input.retrieval_id for given in arm.handouts(tasks["four"], seed)] == [
            "three"
        ]
        assert not arm.handouts(tasks["none"], seed)


def test_wrong_is_empty_where_there_is_nothing_to_exchange(
    memory: ExperienceMemory, asked: list[PublicTask]
) -> None:
    arm = Wrong(Retrieved(memory))
    arm.prepare(asked[:1])
    assert not arm.handouts(asked[0], 0)

    together = [task.model_copy(update={"group": "g"}) for task in asked[::11]]
    arm.prepare(together)
    assert not arm.handouts(together[0], 0)
    arm.prepare(asked[::11])
    assert arm.handouts(asked[0], 0)

    alike = [asked[0].model_copy(update={"id": f"t{n}"}) for n in range(2)]
    arm.prepare(alike)
    assert not arm.handouts(alike[0], 0)


def test_frequency_hands_out_what_most_questions_support(letters: ExperienceMemory) -> None:
    arm = Frequent(letters)
    anything = PublicTask(id="q", question="Who wrote the first opera?")

    (given,) = arm.handouts(anything, 0)

    assert guidance(given) == ["Say it twice.", "Write it once."]  # no caution, nobody else's
    (script,) = arm.handouts(anything.model_copy(update={"family": "Script"}), 0)
    assert guidance(script) == ["Write it once."]
    (one,) = Frequent(letters, Asking(budget=Budget(max_rules=0))).handouts(anything, 0)
    assert guidance(one) == ["Say it twice."]
    (nurse,) = Frequent(letters, Asking(reader="nurse")).handouts(anything, 0)
    assert "Whisper it." in guidance(nurse)
    (trusted,) = Frequent(letters, Asking(minimum_authority="observed")).handouts(anything, 0)
    assert guidance(trusted) == ["Say it twice."]


def test_the_oracle_tries_the_product_then_the_nearest_then_nothing(
    memory: ExperienceMemory, asked: list[PublicTask]
) -> None:
    product = Retrieved(memory)

    given = list(Best(product, nearest=3).handouts(asked[0], 0))

    assert given[0] is product.answer(asked[0])
    assert [len(one.input.items) for one in given[1:]] == [1, 1, 1, 0]
    assert len({one.key for one in given[1:]}) == 4
    assert guidance(given[1]) == [houses.LEFT_OUT]


def test_a_flat_bank_holds_the_same_lessons_without_a_tree(
    letters: ExperienceMemory, tmp_path: Path
) -> None:
    with flat_bank(letters, tmp_path / "flat", namespace="default") as flat:
        before, after = (live_lessons(memory, "default") for memory in (letters, flat))
        assert flat.tree() is None
        assert flat.bank.frozen is not None
        assert flat.caller.phase == "evaluation"
    assert [told(node) for node in after] == [told(node) for node in before]


def told(node: object) -> dict[str, object]:
    """Return what must be the same of a lesson in a side bank."""
    lesson = node.lesson  # type: ignore[attr-defined]
    return {
        **lesson.model_dump(exclude={"run_ids", "parents", "supports", "folded"}),
        "supports": [
            (support.question_key, support.contributor, support.organisation)
            for support in lesson.supports
        ],
    }


def test_evidence_is_copied_to_the_pixel(memory: ExperienceMemory, tmp_path: Path) -> None:
    with flat_bank(memory, tmp_path / "flat", namespace="default") as flat:
        before, after = (live_lessons(one, "default") for one in (memory, flat))
        for old, new in zip(before, after, strict=True):
            assert told(old) == told(new)
            assert new.lesson is not None
            evidence = new.lesson.evidence[0]
            pixels = [
                one.bank.images.pixels(one.bank.image(evidence.image_id)) for one in (memory, flat)
            ]
            assert pixels[0] == pixels[1]


def test_permuting_moves_contents_and_leaves_episodes(memory: ExperienceMemory) -> None:
    lessons = live_lessons(memory, "default")

    stored = permuted(lessons, 0)

    assert [one.episode for one in stored] == lessons
    assert sorted(one.content.node_id for one in stored) == [node.node_id for node in lessons]
    drafts = [one.draft for one in stored]
    assert [one.index for one in drafts] == [node.index for node in lessons]
    assert [one.evidence for one in drafts] != [node.lesson.evidence for node in lessons]
    assert [one.content.node_id for one in permuted(lessons, 0)] == [
        one.content.node_id for one in stored
    ]
    assert permuted(lessons, 1) != stored


def test_permuting_keeps_polarity_and_audience_where_they_are(letters: ExperienceMemory) -> None:
    for seed in range(5):
        for one in permuted(live_lessons(letters, "default"), seed):
            assert one.content.polarity == one.episode.polarity
            assert one.content.audience == one.episode.audience


def test_side_banks_are_made_once_and_go_when_they_have_served(
    letters: ExperienceMemory, tmp_path: Path
) -> None:
    task = PublicTask(id="q", question="What about a?")
    with StandardArms(letters, tmp_path / "work") as arms:
        for seed in (0, 1):
            made = arms(seed)
            assert list(made) == [
                "none",
                "product",
                "flat",
                "shuffled",
                "wrong",
                "frequency",
                "oracle",
            ]
            for name in ("flat", "shuffled"):
                assert list(made[name].handouts(task, seed))
                made[name].close()
        (banks,) = (tmp_path / "work").iterdir()
        there = {path.name for path in banks.iterdir()}
        assert {"flat", "shuffled-1"} <= there
        assert "shuffled-0" not in there
    assert not list((tmp_path / "work").iterdir())


def test_an_arm_that_does_not_exist_is_refused(letters: ExperienceMemory) -> None:
    with pytest.raises(ConfigError, match="no such arm: best"):
        StandardArms(letters, names=("none", "best"))
