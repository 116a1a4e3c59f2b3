"""A house whose lessons are all alike keeps coming: its categories are split, and stay split."""

from __future__ import annotations

import pytest

from controllers.embedded.memory_controller import EmbeddedMemoryController
from controllers.embedded.tree_organizer import EmbeddedTreeOrganizer
from epimem.config import Config, EncoderConfig, TreeConfig
from epimem.memory import ExperienceMemory
from epimem.protocols import Reply
from epimem.schema.lesson import IndexText, LessonDraft
from epimem.schema.proposal import Part, SplitLift

LESSONS = 60


def _draft(number: int) -> LessonDraft:
    return LessonDraft(
        guidance=f"Count the bars of chart {number} before the lines are read.",
        index=IndexText(
            scope="Norden Statistik bar charts",
            question_anchor="How many bars does a chart of Norden Statistik show?",
        ),
        question_key=f"question-{number}",
    )


def _grown(folder, organizer, batch=4):
    config = Config(encoder=EncoderConfig(model="table:64"), tree=TreeConfig(batch=batch))
    controller = EmbeddedMemoryController()
    with ExperienceMemory.create(
        folder / "bank", config, controllers=(controller, organizer)
    ) as memory:
        for number in range(LESSONS):
            memory.contribute(_draft(number))
        report = memory.maintain()
        tree = memory.tree()
        sizes = [len(tree.children_of(node.node_id)) for node in tree.walk() if node.height == 1]
        return report.operations, sizes


@pytest.mark.parametrize("batch", [1, 4, 60])
def test_parts_of_a_split_grow_and_are_not_merged_and_split_again(tmp_path, batch):
    operations, sizes = _grown(tmp_path, EmbeddedTreeOrganizer(merge_min=0.8), batch)
    assert sum(sizes) == LESSONS
    assert operations["merge"] == 0
    assert all(8 <= size <= 16 for size in sizes)


class _Leftovers(EmbeddedTreeOrganizer):
    """Sabotage twin: splits off as few lessons as are allowed."""

    def split_lift(self, requests):
        replies = []
        for request in requests:
            keys = sorted(child.node_id for child in request.children)
            parts = (keys[:4], keys[4:]) if len(keys) - 4 <= request.capacity else ()
            proposal = SplitLift(
                node_id=request.node.node_id,
                parts=tuple(Part(child_ids=tuple(part)) for part in parts),
            )
            replies.append(Reply(proposal))
        return replies


def test_leftovers_of_a_split_are_merged_and_split_again(tmp_path):
    operations, sizes = _grown(tmp_path, _Leftovers(merge_min=0.8))
    assert sum(sizes) == LESSONS
    assert operations["merge"] > 0
