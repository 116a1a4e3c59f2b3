"""Ledgers: pages under letterheads of houses that mark payments, void and carried entries, and units."""

from __future__ import annotations

import random

from training.worlds.ledger_topics import BOOKS, CARRIED, EMBLEM, ENTRIES, OUTGOINGS, VOID
from training.worlds.page import Page
from training.worlds.pen import GREY, PALE, Box, Pen, Point
from training.worlds.sheet import Sample, Sheet, finished
from training.worlds.topic import Mark
from training.worlds.world import Order, World, dealt

MOST_ROWS, LEAST_HEIGHT = 8, 19
MARGIN = 26


def draw(order: Order, chance: random.Random) -> Page:
    """Draw a ledger page: entries with their amounts, day by day."""
    book = chance.choice(BOOKS)
    sheet = Sheet(order, f"ledger of {book}", chance)
    left, top, right, bottom = sheet.body
    count = min(chance.randint(5, MOST_ROWS), (bottom - top) // LEAST_HEIGHT)
    height = min((bottom - top) // count, 30)
    whole = order.topic is EMBLEM
    options = [""] * count if whole else dealt(order, count, chance)
    entries = chance.sample(ENTRIES, count)
    marks = []
    sheet.line([(left + MARGIN, top), (left + MARGIN, top + height * count)], color=GREY)
    day = chance.randint(1, 8)
    for at, (entry, option) in enumerate(zip(entries, options, strict=True)):
        row = (left, top + height * at, right, top + height * (at + 1))
        sheet.line([(left, row[3] - 1), (right, row[3] - 1)], color=PALE)
        value = chance.randint(12, 940)
        region = sheet.region(_entry(sheet, order, row, f"{day}. {entry}", option, value))
        marks.append(Mark(option, value, region))
        day += chance.randint(1, 3)
    if whole:
        at = chance.randrange(count)
        box = sheet.glyph(order.want, (right - 60, 18), 9, order.house.color)
        marks = [Mark(order.want, marks[at].value, sheet.region(_grown(box)))]
        return finished(order, sheet, chance, f"{entries[at]} at {book}", marks, _SAMPLES)
    return finished(order, sheet, chance, book, marks, _SAMPLES)


LEDGERS = World(
    name="ledgers",
    family="ledgers",
    page="ledger",
    topics=(OUTGOINGS, VOID, CARRIED, EMBLEM),
    draw=draw,
)


def _entry(sheet: Sheet, order: Order, row: Box, words: str, option: str, value: int) -> Box:
    """Draw one entry with its mark; return the box of what the mark is on."""
    left, top, right, bottom = row
    middle = (top + bottom) // 2
    inside = (left + MARGIN + 2, top + 2, right, bottom - 2)
    if option == "tinted":
        sheet.fill(inside, "solid", PALE)
    named = sheet.text((left + MARGIN + 24, middle), words, anchor="lm")
    amount = sheet.text((right - 30, middle), f"{value}.00", anchor="rm")
    if order.topic is OUTGOINGS:
        return _amount_mark(sheet, amount, option)
    if order.topic is CARRIED:
        if option:
            sheet.glyph(option, (left + MARGIN // 2, middle), 5)
        return left + 2, top + 2, named[2] + 4, bottom - 2
    if order.topic is VOID:
        _void_mark(sheet, (named[0], top + 2, amount[2], bottom - 2), option)
    return inside


def _amount_mark(pen: Pen, box: Box, option: str) -> Box:
    x0, y0, x1, y1 = box
    if option == "bracketed":
        pen.text((x0 - 3, (y0 + y1) // 2), "(", anchor="rm")
        pen.text((x1 + 2, (y0 + y1) // 2), ")", anchor="lm")
    elif option == "trailing":
        pen.line([(x1 + 4, (y0 + y1) // 2), (x1 + 11, (y0 + y1) // 2)], width=2)
    elif option == "boxed":
        pen.frame((x0 - 4, y0 - 2, x1 + 4, y1 + 2))
    elif option == "underlined":
        pen.line([(x0 - 1, y1 + 1), (x1, y1 + 1)], width=2)
    return x0 - 9, y0 - 3, x1 + 13, y1 + 4


def _void_mark(pen: Pen, box: Box, option: str) -> None:
    x0, y0, x1, y1 = box
    middle = (y0 + y1) // 2
    if option == "struck":
        pen.line([(x0 - 2, middle), (x1 + 2, middle)], width=2)
    elif option == "crossed":
        pen.glyph("cross", (x0 - 12, middle), 5)
    elif option == "waved":
        points: list[Point] = [
            (x, y1 - 2 + (2 if at % 2 else 0)) for at, x in enumerate(range(x0, x1 + 1, 5))
        ]
        pen.line(points)


def _grown(box: Box) -> Box:
    return box[0] - 3, box[1] - 3, box[2] + 3, box[3] + 3


def _amount_sample(pen: Pen, box: Box, option: str) -> Box:
    covered = pen.text((box[0] + 4, box[1]), "0.00", size=11)
    return _amount_mark(pen, covered, option)


def _void_sample(pen: Pen, box: Box, option: str) -> Box:
    x0, y0, x1, y1 = box
    wide = (x0, y0 - 2, x1 + 26, y1 + 2)
    if option == "tinted":
        pen.fill(wide, "solid", PALE)
    pen.text((x0 + 18, y0), "entry", size=10)
    _void_mark(pen, (x0 + 16, y0 - 2, x1 + 26, y1 + 2), option)
    return wide


def _sign_sample(pen: Pen, box: Box, option: str) -> Box:
    return pen.glyph(option, ((box[0] + box[2]) // 2, (box[1] + box[3]) // 2), 5)


_SAMPLES: dict[str, Sample] = {
    OUTGOINGS.name: _amount_sample,
    VOID.name: _void_sample,
    CARRIED.name: _sign_sample,
    EMBLEM.name: _sign_sample,
}
