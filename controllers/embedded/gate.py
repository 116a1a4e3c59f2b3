"""The visual gate: whether crops go along with the text (DESIGN.md 5 C; our rule).

Decided on the question and the descriptions of what was selected, never on pixels: 1 exactly when

1. a selected item has a crop,
2. the question has images of its own, or speaks of something seen, and
3. that item's text or the notes of its evidence speak of something seen, and
4. that item's own conditions do not exclude the question: one says that a thing is printed where the
   other says that it is not ("charts without a legend", "the chart has a legend"). Such an item's text
   may still be worth reading; its picture shows what this question's own images do not look like.
"""

from __future__ import annotations

import re
from typing import Literal

from controllers.embedded.presence import excludes
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
_LEADING_CONDITION = re.compile(
    r"(?:at|for|if|in|on|when|where|with|without)\b[^,:;.]*", re.IGNORECASE
)


def visual_gate(request: GateRequest) -> Literal[0, 1]:
    """Return 1 when the crops of the selected items go along, else 0."""
    if not (request.question_images > 0 or speaks_of_sight(request.question)):
        return 0
    return 1 if any(_opens(request, item) for item in request.items) else 0


def _opens(request: GateRequest, item: Item) -> bool:
    if request.crops.get(item.node_id, 0) == 0 or not speaks_of_sight(_description(request, item)):
        return False
    leading = _LEADING_CONDITION.match(item.guidance)
    conditions = (item.applies_when, leading.group() if leading is not None else "")
    return not excludes(conditions, request.question)


def speaks_of_sight(text: str) -> bool:
    """Tell whether a text holds a word for something seen."""
    return not _VISUAL.isdisjoint(content_words(text)) or any(sign in text for sign in _VISUAL_CJK)


def _description(request: GateRequest, item: Item) -> str:
    notes = request.notes.get(item.node_id, ())
    return "\n".join((item.title, item.guidance, item.applies_when, *notes))
