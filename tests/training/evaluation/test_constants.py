"""Constant predictors: what is most frequent in the training groups, and nothing else."""

from __future__ import annotations

import pytest

from controllers.prompts import OPERATIONS
from epimem.protocols import Derived
from epimem.schema.lesson import Evidence, LessonDraft
from epimem.schema.proposal import Consolidate, Merge
from epimem.schema.region import Region
from epimem.schema.working_memory import Update, VisualEvidence
from tests.controllers.prompts import samples
from training.demonstrations.record import Demonstration, Provenance
from training.evaluation.constants import Habits, constant
from training.evaluation.measures import score


def habits(operation, *values):
    origin = Provenance(teacher="test", source="test")
    return Habits(
        Demonstration(f"d{at}", operation, "g", None, value, origin)
        for at, value in enumerate(values)
    )


def answer(operation, *values, region="whole", request=None):
    asked = samples.REQUESTS[operation]() if request is None else request
    return constant(habits(operation, *values), operation, asked, region)


def joined():
    request = samples.merge()
    return Merge(kept_id=request.kept.node_id, absorbed_id=request.absorbed.node_id)


def test_decisions_are_the_most_frequent_ones():
    assert answer("gate", 1, 1, 0) == 1
    assert answer("gate", 0, 1, 0) == 0
    assert answer("merge", joined(), joined(), None) == joined()
    assert answer("merge", joined(), None, None) is None


def test_without_training_groups_nothing_is_done():
    assert answer("gate") == 0
    assert answer("merge") is None
    assert answer("update").visual == "retain"
    assert answer("select").item_ids == ()


def test_the_first_candidate_is_the_parent_and_a_new_one_where_there_is_none():
    request = samples.place()
    assert answer("place").category_id == request.candidates[0].node.node_id
    assert answer("place", request=samples.place(categories=0)).new is not None


def test_a_split_is_two_halves_of_all_children():
    parts = answer("split_lift").parts
    ids = [key for part in parts for key in part.child_ids]
    assert [len(part.child_ids) for part in parts] == [4, 4]
    assert sorted(ids) == sorted(child.node_id for child in samples.split_lift().children)


def test_every_lesson_supports_unless_most_training_categories_share_nothing():
    said = Consolidate(node_id="n", guidance="something", supported_by=("node-0001",))
    found = answer("consolidate", said)
    assert found.supported_by == ("node-0000", "node-0001", "node-0002")
    assert found.guidance == samples.lesson(0).lesson.guidance
    nothing = Consolidate(node_id="n")
    assert answer("consolidate", said, nothing, nothing).guidance == ""


def seen(*box, image="other"):
    region = Region(**dict(zip(("x0", "y0", "x1", "y1"), box, strict=True)), width=100, height=50)
    return VisualEvidence(image_id=image, region=region)


def test_the_region_is_the_whole_first_page_or_the_mean_one_in_its_shares():
    values = (
        Update(evidence=seen(0, 0, 50, 25), visual="replace", gate=1),
        Update(evidence=seen(20, 10, 100, 50), visual="replace", gate=1),
        Update(stop=True),
    )
    whole, mean = (answer("update", *values, region=kind) for kind in ("whole", "mean"))
    assert whole.evidence.region == Region.whole(800, 600)
    assert mean.evidence.region.box == (80, 60, 600, 450)
    assert {it.evidence.image_id for it in (whole, mean)} == {"image-a"}
    assert (mean.visual, mean.gate, mean.stop) == ("replace", 1, False)


def test_a_thin_mean_region_still_has_a_pixel():
    for edge, box in ((0, (0, 0, 1, 1)), (9999, (799, 599, 800, 600))):
        region = Region(x0=edge, y0=edge, x1=edge + 1, y1=edge + 1, width=10_000, height=10_000)
        evidence = VisualEvidence(image_id="other", region=region)
        values = [Update(evidence=evidence, visual="replace")]
        assert answer("update", *values, region="mean").evidence.region.box == box


def test_a_lesson_is_the_most_frequent_guidance_with_a_region():
    region = seen(0, 0, 50, 50).region
    drafts = [LessonDraft(guidance=text) for text in ("b", "a", "a")]
    drafts[0] = drafts[0].model_copy(update={"evidence": (Evidence(image_id="x", region=region),)})
    values = [Derived((draft,)) for draft in drafts]
    found = answer("derive", *values, region="mean")
    (draft,) = found.drafts
    assert draft.guidance == "a"
    assert draft.evidence[0].region.box == (0, 0, 400, 600)
    nothing = Derived((), nothing="x")
    assert answer("derive", *values, *[nothing] * 4).drafts == ()


@pytest.mark.parametrize("operation", OPERATIONS)
def test_constants_can_be_measured_in_every_operation(operation):
    request = samples.REQUESTS[operation]()
    wanted = OPERATIONS[operation].parse(request, samples.REPLIES[operation])
    found = score(operation, request, wanted, answer(operation, wanted))
    assert 0.0 <= found.accuracy <= 1.0


def test_the_order_of_training_demonstrations_does_not_matter():
    assert answer("gate", 1, 0) == answer("gate", 0, 1) == 0
    texts = [Update(guidance=f"text {at}") for at in (5, 3, 8, 1, 9, 2, 7, 4, 6)]
    for order in (texts, texts[::-1]):
        assert answer("update", *order).guidance == "text 1"
