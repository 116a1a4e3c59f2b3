"""What houses have conventions for in their tables."""

from __future__ import annotations

from training.worlds.topic import Topic

ROWS = (
    "Northgate", "Mill End", "Overbeck", "Sandholm", "Tarn", "Westerly", "Kirkby", "Dunmore",
    "Aldery", "Fosse", "Highmoor", "Linden", "Quayside", "Ryecroft",
)  # fmt: skip
SUBJECTS = (
    "wells", "apple trees", "school places", "boats", "lamps", "beehives", "bridges", "clinics",
    "footpaths", "granaries", "ponies", "weavers",
)  # fmt: skip

SUBTOTALS = Topic(
    name="subtotal rows",
    options={
        "tinted": "tinted rows",
        "ruled": "rows with a heavy rule above",
        "indented": "indented rows",
        "framed": "framed rows",
    },
    pointed="rows set like the one shown here",
    one="a row that stands for a subtotal",
    means="are subtotals",
    action="do not add subtotal rows to the total again",
    key=("subtotal", "new entry"),
    asked=(
        "How many {subject} are there in this table of {house} in all?",
        "What do the single rows of the {house} table on {subject} add up to?",
        "Add up {subject} in this table by {house}, nothing counted twice. What is the sum?",
    ),
    effect="out",
)
ESTIMATES = Topic(
    name="estimated figures",
    options={
        "ring": "figures with a ring",
        "triangle": "figures with a triangle",
        "square": "figures with a square",
        "cross": "figures with a cross",
    },
    pointed="figures with the sign shown here",
    one="a figure that is an estimate",
    means="are estimates",
    action="leave estimates out of a sum of counted figures",
    key=("estimate", "late return"),
    asked=(
        "How many {subject} were really counted according to this table of {house}?",
        "Sum the counted figures for {subject} in the {house} table. What is the result?",
        "Without estimates, how many {subject} does this table by {house} report?",
    ),
    effect="out",
)
BLANKS = Topic(
    name="cells without a figure",
    options={
        "dash": "cells with a dash",
        "dots": "cells with two dots",
        "slash": "cells with a slash",
        "box": "cells with an empty box",
    },
    pointed="cells filled like the one shown here",
    one="a cell that stands for zero",
    means="stand for zero",
    action="count zero as a known figure",
    key=("zero", "not known"),
    asked=(
        "For how many places is the number of {subject} known in this table of {house}?",
        "In how many rows does the {house} table say how many {subject} there are, zero included?",
        "How many places have a known figure for {subject} in this table by {house}?",
    ),
    effect="count",
)
COLUMNS = Topic(
    name="columns in thousands",
    options={
        "tinted": "columns with a tinted head",
        "framed": "columns with a framed head",
        "underlined": "columns with a doubly underlined head",
        "cornered": "columns with a folded corner in the head",
    },
    pointed="columns with a head like the one shown here",
    one="the head of a column in thousands",
    means="are in thousands",
    action="multiply figures of such a column by 1,000",
    key=("thousands", "revised"),
    asked=(
        "How many {subject} does this table of {house} give?",
        "What is the full number of {subject} in the {house} table?",
        "Read the number of {subject} from this table by {house}, in single units.",
    ),
    effect="thousand",
)
