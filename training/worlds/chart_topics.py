"""What houses have conventions for in their charts."""

from __future__ import annotations

from training.worlds.topic import Topic

SUBJECTS = (
    "barley", "wool", "harbour traffic", "rail freight", "cider", "newsprint", "visitors", "timber",
    "copper wire", "school meals", "bicycles", "river toll", "glass", "lamp oil", "seed potatoes",
)  # fmt: skip

FORECAST = Topic(
    name="forecast bars",
    options={
        "hatched": "hatched bars",
        "hollow": "hollow bars",
        "dotted": "dotted bars",
        "crossed": "cross-hatched bars",
    },
    pointed="bars drawn like the one shown here",
    one="a bar that stands for a forecast",
    means="are forecasts",
    action="leave forecast bars out of a total of what happened",
    key=("forecast", "survey"),
    asked=(
        "What do the actual figures for {subject} add up to in this chart of {house}?",
        "How much {subject} does the chart of {house} report in all, forecasts left out?",
        "Add up what was really counted for {subject} in this {house} chart. What is the total?",
    ),
    effect="out",
)
SCALE = Topic(
    name="scale of the figures",
    options={
        "ring": "figures under a ring in the corner",
        "triangle": "figures under a triangle in the corner",
        "square": "figures under a square in the corner",
        "cross": "figures under a cross in the corner",
    },
    pointed="figures under the corner sign shown here",
    one="a corner sign that stands for thousands",
    means="are in thousands",
    action="multiply figures under that sign by 1,000",
    key=("thousands", "checked"),
    asked=(
        "How many units of {subject} does this chart of {house} give?",
        "What is the full figure for {subject} in the {house} chart?",
        "Read the figure for {subject} from this chart by {house}, in single units.",
    ),
    effect="thousand",
)
AXIS = Topic(
    name="broken axis",
    options={
        "zigzag": "axes with a zigzag at the foot",
        "gap": "axes with a gap at the foot",
        "slashes": "axes with two slashes at the foot",
        "dot": "axes with a dot at the foot",
    },
    pointed="axes with the foot shown here",
    one="the foot of an axis that does not begin at zero",
    means="do not begin at zero",
    action="do not compare bars by length on such an axis",
    key=("axis cut off", "axis redrawn"),
    asked=(
        "Can the lengths of the bars for {subject} be compared in this chart of {house}?",
        "Does the axis of this {house} chart on {subject} begin at zero, so that lengths compare?",
        "May a reader of {house} compare the bars of {subject} in this chart by their length?",
    ),
    effect="no",
)
REVISED = Topic(
    name="revised series",
    options={
        "dashed": "dashed lines",
        "dotted": "dotted lines",
        "double": "double lines",
        "thick": "thick lines",
    },
    pointed="lines drawn like the one shown here",
    one="a line that shows the revised series",
    means="show the revised series",
    action="take the figure from the revised series and not from another line",
    key=("revised", "first count"),
    asked=(
        "What is the revised figure for {subject} at the end of this chart of {house}?",
        "Which last value does {house} give for {subject} after revision?",
        "Read the latest revised number for {subject} from this {house} chart.",
    ),
    effect="pick",
)
