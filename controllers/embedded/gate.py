"""The visual gate: whether crops go along with the text (DESIGN.md 5 C; our rule).

Decided on the question and the descriptions of what was selected, never on pixels: 1 exactly when

1. a selected item has a crop,
2. the question has images of its own, or speaks of something seen, and
3. that item's text or the notes of its evidence speak of something seen.
"""

from __future__ import annotations

from typing import Literal

from controllers.embedded.words import content_words, stem
from epimem.protocols import GateRequest
from epimem.schema.memory_input import Item

_VISUAL_LIST = """
    arrow axis background bar black blank blue bold border box bracket brown caption cell chart
    circle color colored colour coloured column corner crop cyan dash dashed diagram diamond dot
    dotted figure filled font frame gray green grey grid hatched hatching heading highlight hollow
    icon image italic italics label layout left legend line logo map mark marker marking orange
    outline page panel parenthesis pattern photo picture pie pink pixel plot printed purple
    rectangle red region rotated row screenshot shade shaded shading shape sign sketch slanted solid
    square stamp stroke symbol table tick tile title triangle underline underlined watermark white
    yellow
"""
_VISUAL = frozenset(map(stem, _VISUAL_LIST.split()))
_VISUAL_CJK = (
    "图",
    "颜色",
    "标记",
    "三角",
    "圆",
    "方块",
    "线条",
    "表格",
    "箭头",
    "页",
    "红",
    "蓝",
    "绿",
)


def visual_gate(request: GateRequest) -> Literal[0, 1]:
    """Return 1 when the crops of the selected items go along, else 0."""
    if not (request.question_images > 0 or speaks_of_sight(request.question)):
        return 0
    for item in request.items:
        if request.crops.get(item.node_id, 0) > 0 and speaks_of_sight(_description(request, item)):
            return 1
    return 0


def speaks_of_sight(text: str) -> bool:
    """Tell whether a text holds a word for something seen."""
    return not _VISUAL.isdisjoint(content_words(text)) or any(sign in text for sign in _VISUAL_CJK)


def _description(request: GateRequest, item: Item) -> str:
    notes = request.notes.get(item.node_id, ())
    return "\n".join((item.title, item.guidance, item.applies_when, *notes))
