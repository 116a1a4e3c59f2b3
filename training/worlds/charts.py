"""Charts: bars and lines of houses that mark forecasts, scales, broken axes and revised series."""

from __future__ import annotations

import random

from training.worlds.chart_topics import AXIS, FORECAST, REVISED, SCALE, SUBJECTS
from training.worlds.page import Page
from training.worlds.pen import GREY, PALE, PAPER, SERIES, Box, Pen, Point
from training.worlds.sheet import Sample, Sheet, finished
from training.worlds.topic import Mark
from training.worlds.world import Order, World, dealt


def draw(order: Order, chance: random.Random) -> Page:
    """Draw a chart: lines where it is about series, else bars."""
    return _lines(order, chance) if order.topic is REVISED else _bars(order, chance)


CHARTS = World(
    name="charts",
    family="charts",
    page="chart",
    topics=(FORECAST, SCALE, AXIS, REVISED),
    draw=draw,
)


def _bars(order: Order, chance: random.Random) -> Page:
    topic = order.topic
    subject, first = chance.choice(SUBJECTS), chance.randint(1950, 2015)
    count = chance.randint(5, 7)
    values = [chance.randint(23, 398) for _ in range(count)]
    looks = dealt(order, count, chance) if topic is FORECAST else [""] * count
    sheet = Sheet(order, f"{subject}, {first} to {first + count - 1}", chance)
    boxes = _columns(sheet, values, looks, first=first)
    if topic is FORECAST:
        marks = [
            Mark(look, value, sheet.region(box))
            for look, value, box in zip(looks, values, boxes, strict=True)
        ]
    else:
        at = chance.randrange(count)
        draw_mark = _corner if topic is SCALE else _axis_foot
        marks = [Mark(order.want, values[at], sheet.region(draw_mark(sheet, order.want)))]
        subject = f"{subject} in {first + at}" if topic is SCALE else subject
    return finished(order, sheet, chance, subject, marks, _SAMPLES)


def _columns(sheet: Sheet, values: list[int], looks: list[str], *, first: int) -> list[Box]:
    """Draw grid, bars with their values, and years; return the boxes of the bars."""
    left, top, right, bottom = sheet.body
    left, top, base = left + 22, top + 22, bottom - 18
    for step in range(1, 5):
        y = base - (base - top) * step // 4
        sheet.line([(left, y), (right, y)], color=PALE)
        sheet.text((left - 4, y), str(100 * step), size=9, color=GREY, anchor="rm")
    pitch = (right - left) // len(values)
    boxes = []
    for at, (value, look) in enumerate(zip(values, looks, strict=True)):
        x = left + pitch * at + pitch // 6
        box = (x, base - (base - top) * value // 400, x + pitch * 2 // 3, base)
        sheet.fill(box, look or "solid", SERIES[at % len(SERIES)])
        middle = x + pitch // 3
        sheet.text((middle, box[1] - 2), str(value), size=10, anchor="mb")
        sheet.text((middle, base + 3), str(first + at), size=10, anchor="ma")
        boxes.append(box)
    sheet.line([(left, top - 8), (left, base)])
    sheet.line([(left, base), (right, base)])
    return boxes


def _corner(sheet: Sheet, option: str) -> Box:
    _, top, right, _ = sheet.body
    return sheet.glyph(option, (right - 10, top + 8), 6)


def _axis_foot(sheet: Sheet, option: str) -> Box:
    left, _, _, bottom = sheet.body
    x, y = left + 22, bottom - 18
    return _foot_mark(sheet, (x - 6, y - 22, x + 6, y - 4), option)


def _foot_mark(pen: Pen, box: Box, option: str) -> Box:
    """Break a vertical line that runs through the middle of a box."""
    x0, y0, x1, y1 = box
    x = (x0 + x1) // 2
    pen.fill((x - 1, y0, x + 2, y1), "solid", PAPER)
    if option == "zigzag":
        step = (y1 - y0) // 4
        points: list[Point] = [(x, y0 + 1), (x1 - 3, y0 + step), (x0 + 2, y1 - step), (x, y1 - 2)]
        pen.line(points, width=2)
    elif option == "gap":
        pen.line([(x - 4, y0 + 1), (x + 4, y0 + 1)], width=2)
        pen.line([(x - 4, y1 - 2), (x + 4, y1 - 2)], width=2)
    elif option == "slashes":
        middle = (y0 + y1) // 2
        for y in (middle - 3, middle + 3):
            pen.line([(x0 + 1, y + 3), (x1 - 2, y - 3)], width=2)
    else:
        pen.glyph("disc", (x, (y0 + y1) // 2), 4)
    return box


def _lines(order: Order, chance: random.Random) -> Page:
    subject, first = chance.choice(SUBJECTS), chance.randint(1950, 2015)
    count = chance.randint(4, 6)
    styles = [style for style in dealt(order, 5, chance) if style]
    sheet = Sheet(order, f"{subject}, {first} to {first + count - 1}", chance)
    left, top, right, bottom = sheet.body
    left, right, top, base = left + 4, right - 34, top + 8, bottom - 18
    sheet.line([(left, base), (right, base)])
    xs = [left + (right - left) * at // (count - 1) for at in range(count)]
    for at, x in enumerate(xs):
        anchor = "la" if at == 0 else "ma"
        sheet.text((x, base + 3), str(first + at), size=10, anchor=anchor)
    marks = []
    room = (base - top) // len(styles)
    for at, style in enumerate(styles):
        low = base - room * at - room // 4
        points = [(x, low - chance.randint(0, room // 2)) for x in xs]
        value = 40 + (base - points[-1][1]) * 300 // (base - top)
        sheet.stroke(points, style, SERIES[at % len(SERIES)])
        sheet.text((right + 5, points[-1][1]), str(value), size=10, anchor="lm")
        marks.append(Mark(style, value, sheet.region(_around(points[-2:]))))
    return finished(order, sheet, chance, subject, marks, _SAMPLES)


def _around(points: list[Point]) -> Box:
    xs, ys = [x for x, _ in points], [y for _, y in points]
    return min(xs), min(ys) - 5, max(xs) + 1, max(ys) + 6


def _bar_sample(pen: Pen, box: Box, option: str) -> Box:
    pen.fill(box, option, SERIES[0])
    return box


def _line_sample(pen: Pen, box: Box, option: str) -> Box:
    x0, y0, x1, y1 = box
    middle = (y0 + y1) // 2
    pen.stroke([(x0 - 4, middle), (x1 + 4, middle)], option, SERIES[0])
    return x0 - 4, y0, x1 + 4, y1


def _corner_sample(pen: Pen, box: Box, option: str) -> Box:
    return pen.glyph(option, ((box[0] + box[2]) // 2, (box[1] + box[3]) // 2), 5)


def _foot_sample(pen: Pen, box: Box, option: str) -> Box:
    x0, y0, x1, y1 = box
    middle = (x0 + x1) // 2
    pen.line([(middle, y0 - 2), (middle, y1 + 2)])
    _foot_mark(pen, (middle - 7, y0 - 1, middle + 8, y1 + 1), option)
    return box


_SAMPLES: dict[str, Sample] = {
    FORECAST.name: _bar_sample,
    SCALE.name: _corner_sample,
    AXIS.name: _foot_sample,
    REVISED.name: _line_sample,
}
