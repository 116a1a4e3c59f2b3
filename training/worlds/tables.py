"""Tables: rows and columns of houses that mark subtotals, estimates, zeros and columns in thousands."""

from __future__ import annotations

import random

from training.worlds.page import Page
from training.worlds.pen import GREY, PALE, Box, Pen
from training.worlds.sheet import Sample, Sheet, finished
from training.worlds.table_topics import BLANKS, COLUMNS, ESTIMATES, ROWS, SUBJECTS, SUBTOTALS
from training.worlds.topic import Mark
from training.worlds.world import Order, World, dealt

TINT = (214, 224, 236)
MOST_ROWS, LEAST_HEIGHT = 9, 18


def draw(order: Order, chance: random.Random) -> Page:
    """Draw a table: several columns where it is about columns, else one of figures."""
    return _columns(order, chance) if order.topic is COLUMNS else _rows(order, chance)


TABLES = World(
    name="tables",
    family="tables",
    page="table",
    topics=(SUBTOTALS, ESTIMATES, BLANKS, COLUMNS),
    draw=draw,
)


def _rows(order: Order, chance: random.Random) -> Page:
    subject = chance.choice(SUBJECTS)
    sheet = Sheet(order, f"{subject}, by place", chance)
    grid = _Grid(sheet, chance, columns=1)
    options = dealt(order, len(grid.names), chance)
    marks = []
    for at, (name, option) in enumerate(zip(grid.names, options, strict=True)):
        value = chance.randint(11, 480)
        marks.append(_DRAWN[order.topic.name](grid, at, name, option, value))
    grid.head(0, "number")
    return finished(order, sheet, chance, subject, marks, _SAMPLES)


def _columns(order: Order, chance: random.Random) -> Page:
    """Draw a table whose heads differ; the mark that counts is on the column that is asked for."""
    asked, other = chance.sample(SUBJECTS, 2)
    sheet = Sheet(order, "by place", chance)
    grid = _Grid(sheet, chance, columns=2)
    at = chance.randrange(2)
    wrong = [name for name in order.topic.options if name != order.want]
    row = chance.randrange(len(grid.names))
    for column in range(2):
        style = order.want if column == at else chance.choice(wrong)
        box = grid.head_box(column)
        _head_mark(sheet, box, style)
        grid.head(column, asked if column == at else other)
    value = 0
    for number, name in enumerate(grid.names):
        grid.name(number, name)
        for column in range(2):
            figure = chance.randint(11, 480)
            grid.figure(number, column, str(figure))
            value = figure if (number, column) == (row, at) else value
    mark = Mark(order.want, value, sheet.region(grid.head_box(at)))
    subject = f"{asked} at {grid.names[row]}"
    return finished(order, sheet, chance, subject, [mark], _SAMPLES)


class _Grid:
    """Rows of a table on a sheet: names on the left, one or two columns of figures."""

    def __init__(self, sheet: Sheet, chance: random.Random, *, columns: int) -> None:
        self.sheet = sheet
        left, top, right, bottom = sheet.body
        count = min(chance.randint(6, MOST_ROWS), (bottom - top) // LEAST_HEIGHT - 1)
        self.names = chance.sample(ROWS, count)
        self.height = min((bottom - top) // (count + 1), 30)
        self._left, self._top, self._right = left, top, right
        self._columns, self._width = columns, (right - left) // (columns + 1)
        sheet.line([(left, top + self.height - 1), (right, top + self.height - 1)], color=GREY)

    def row_box(self, at: int) -> Box:
        """Return the box of a row of figures, counted from 0 below the head."""
        top = self._top + self.height * (at + 1)
        return self._left, top, self._right, top + self.height

    def cell(self, at: int, column: int) -> Box:
        """Return the box of a figure."""
        _, top, _, bottom = self.row_box(at)
        left = self._right - self._width * (self._columns - column)
        return left, top, left + self._width, bottom

    def head_box(self, column: int) -> Box:
        """Return the box of the head of a column."""
        left, _, right, _ = self.cell(0, column)
        return left + 6, self._top + 1, right, self._top + self.height - 2

    def head(self, column: int, words: str) -> None:
        """Write the head of a column."""
        _, top, right, bottom = self.head_box(column)
        self.sheet.text((right - 8, (top + bottom) // 2), words, size=11, anchor="rm")

    def name(self, at: int, words: str, *, shift: int = 0) -> Box:
        """Write the name of a row; return the box it covers."""
        left, top, _, bottom = self.row_box(at)
        return self.sheet.text((left + 6 + shift, (top + bottom) // 2), words, anchor="lm")

    def figure(self, at: int, column: int, words: str) -> Box:
        """Write a figure into a cell; return the box it covers."""
        _, top, right, bottom = self.cell(at, column)
        return self.sheet.text((right - 22, (top + bottom) // 2), words, anchor="rm")


def _subtotal(grid: _Grid, at: int, name: str, option: str, value: int) -> Mark:
    box = grid.row_box(at)
    _row_mark(grid.sheet, box, option)
    grid.name(at, name, shift=16 if option == "indented" else 0)
    grid.figure(at, 0, str(value))
    return Mark(option, value, grid.sheet.region(box))


def _estimate(grid: _Grid, at: int, name: str, option: str, value: int) -> Mark:
    grid.name(at, name)
    covered = grid.figure(at, 0, str(value))
    if option:
        sign = grid.sheet.glyph(option, (covered[2] + 7, covered[1] + 3), 4)
        covered = (covered[0], min(covered[1], sign[1]), sign[2], max(covered[3], sign[3]))
    return Mark(option, value, grid.sheet.region(_grown(covered)))


def _blank(grid: _Grid, at: int, name: str, option: str, value: int) -> Mark:
    grid.name(at, name)
    if not option:
        covered = grid.figure(at, 0, str(value))
        return Mark("", value, grid.sheet.region(_grown(covered)))
    _, top, right, bottom = grid.cell(at, 0)
    middle = (top + bottom) // 2
    box = _blank_mark(grid.sheet, (right - 42, middle - 6, right - 22, middle + 6), option)
    return Mark(option, 0, grid.sheet.region(_grown(box)))


def _row_mark(pen: Pen, box: Box, option: str) -> None:
    x0, y0, x1, _ = box
    if option == "tinted":
        pen.fill(box, "solid", TINT)
    elif option == "ruled":
        pen.line([(x0, y0 + 1), (x1, y0 + 1)], width=3)
    elif option == "framed":
        pen.frame(box)
    else:
        pen.line([(x0, y0), (x1, y0)], color=PALE)


def _head_mark(pen: Pen, box: Box, option: str) -> None:
    x0, _, x1, y1 = box
    if option == "tinted":
        pen.fill(box, "solid", TINT)
    elif option == "framed":
        pen.frame(box)
    elif option == "underlined":
        for y in (y1 - 4, y1 - 1):
            pen.line([(x0 + 2, y), (x1 - 2, y)], width=2)
    else:
        pen.line([(x1 - 10, box[1]), (x1 - 1, box[1] + 9)], width=2)
        pen.line([(x1 - 10, box[1]), (x1 - 10, box[1] + 9), (x1 - 1, box[1] + 9)], width=1)


def _blank_mark(pen: Pen, box: Box, option: str) -> Box:
    x0, y0, x1, y1 = box
    middle = (y0 + y1) // 2
    if option == "dash":
        pen.line([(x0 + 4, middle), (x1 - 4, middle)], width=2)
    elif option == "dots":
        for x in (x0 + 6, x1 - 6):
            pen.glyph("disc", (x, middle), 2)
    elif option == "slash":
        pen.line([(x0 + 6, y1 - 2), (x1 - 6, y0 + 1)], width=2)
    else:
        pen.frame((x0 + 5, y0 + 1, x1 - 5, y1 - 1), color=GREY, width=2)
    return box


def _grown(box: Box) -> Box:
    return box[0] - 3, box[1] - 2, box[2] + 3, box[3] + 2


def _row_sample(pen: Pen, box: Box, option: str) -> Box:
    x0, y0, x1, y1 = box
    _row_mark(pen, (x0 - 6, y0, x1 + 8, y1), option)
    pen.text((x0 + (6 if option == "indented" else -4), y0), "row", size=10)
    return x0 - 6, y0, x1 + 8, y1


def _figure_sample(pen: Pen, box: Box, option: str) -> Box:
    x0, y0, _, _ = box
    covered = pen.text((x0, y0 - 1), "00", size=11)
    return pen.glyph(option, (covered[2] + 7, y0 + 3), 4)


def _head_sample(pen: Pen, box: Box, option: str) -> Box:
    x0, y0, x1, y1 = box
    wide = (x0 - 4, y0 - 2, x1 + 8, y1 + 2)
    _head_mark(pen, wide, option)
    return wide


_DRAWN = {SUBTOTALS.name: _subtotal, ESTIMATES.name: _estimate, BLANKS.name: _blank}
_SAMPLES: dict[str, Sample] = {
    SUBTOTALS.name: _row_sample,
    ESTIMATES.name: _figure_sample,
    BLANKS.name: _blank_mark,
    COLUMNS.name: _head_sample,
}
