"""Which way a demonstration decides, over all operations of a drawn world."""

from __future__ import annotations

from collections import Counter

from training.demonstrations.record import ROLE_OF
from training.sft.kinds import kind
from training.worlds import demonstrations


def test_every_operation_decides_both_ways_but_for_a_split():
    found = [each for each, _ in demonstrations("tables", seed=3, count=128)]
    count = Counter(map(kind, found))
    for operation in ROLE_OF:
        assert count[f"{operation}: something"] > 0
        assert (count[f"{operation}: nothing"] > 0) == (operation != "split_lift")


def test_a_new_category_a_closed_gate_and_a_retained_picture_are_nothing():
    for each, _ in demonstrations("charts", seed=4, count=64):
        said = kind(each)
        if each.operation == "place":
            assert said.endswith("nothing") == (each.value.new is not None)
        elif each.operation == "gate":
            assert said.endswith("nothing") == (each.value == 0)
        elif each.operation == "update":
            assert said.endswith("something") == (each.value.visual == "replace")
        elif each.operation == "merge":
            assert said.endswith("nothing") == (each.value is None)
