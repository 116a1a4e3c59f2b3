"""What houses have conventions for in their ledgers."""

from __future__ import annotations

from training.worlds.topic import Topic

ENTRIES = (
    "rope", "lime", "wages", "oats", "coal", "slate", "nails", "hire of carts", "rent", "flour",
    "stamps", "soap", "repairs", "insurance", "ink", "wool",
)  # fmt: skip
BOOKS = (
    "the stable", "the kitchen", "the yard", "the school", "the mill", "the ferry", "the choir",
    "the garden", "the workshop", "the library",
)  # fmt: skip

OUTGOINGS = Topic(
    name="money paid out",
    options={
        "bracketed": "amounts in brackets",
        "trailing": "amounts with a minus behind them",
        "boxed": "amounts in a box",
        "underlined": "underlined amounts",
    },
    pointed="amounts set like the one shown here",
    one="an amount that was paid out",
    means="were paid out",
    action="subtract amounts paid out from the balance",
    key=("paid out", "paid in cash"),
    asked=(
        "What is the balance of {subject} on this ledger page of {house}?",
        "Received less paid out: what does the {house} ledger leave for {subject}?",
        "Work out the balance of {subject} from this page by {house}.",
    ),
    effect="minus",
)
VOID = Topic(
    name="void entries",
    options={
        "struck": "entries struck through",
        "crossed": "entries with a cross before them",
        "tinted": "entries on a grey band",
        "waved": "entries with a wavy line below",
    },
    pointed="entries marked like the one shown here",
    one="an entry that is void",
    means="are void",
    action="leave void entries out of the sum",
    key=("void", "settled"),
    asked=(
        "What do the valid entries for {subject} come to on this ledger page of {house}?",
        "How much stands in the books of {house} for {subject}, void entries apart?",
        "Sum what is valid for {subject} on this page by {house}.",
    ),
    effect="out",
)
CARRIED = Topic(
    name="amounts carried forward",
    options={
        "arrow": "entries with an arrow in the margin",
        "disc": "entries with a dot in the margin",
        "square": "entries with a square in the margin",
        "triangle": "entries with a triangle in the margin",
    },
    pointed="entries with the margin sign shown here",
    one="an entry that was carried forward",
    means="were carried forward from the page before",
    action="leave amounts carried forward out of the turnover of the page",
    key=("carried forward", "seen by two"),
    asked=(
        "What is the turnover of {subject} on this ledger page of {house} alone?",
        "How much was booked for {subject} on this page by {house}, nothing carried over?",
        "Give the new bookings for {subject} on the {house} page as one sum.",
    ),
    effect="out",
)
EMBLEM = Topic(
    name="unit of the letterhead",
    options={
        "ring": "pages with a ring in the letterhead",
        "square": "pages with a square in the letterhead",
        "triangle": "pages with a triangle in the letterhead",
        "cross": "pages with a cross in the letterhead",
    },
    pointed="pages with the letterhead sign shown here",
    one="a letterhead sign that stands for thousands",
    means="are kept in thousands",
    action="multiply amounts of such a page by 1,000",
    key=("in thousands", "audited"),
    asked=(
        "How much was booked for {subject} on this ledger page of {house}, in single units?",
        "What is the full amount for {subject} in the {house} ledger?",
        "Read the amount for {subject} from this page by {house} and give it in full.",
    ),
    effect="thousand",
)
