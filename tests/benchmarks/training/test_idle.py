"""Gaps between kernels, and what they are put down to."""

from __future__ import annotations

import pytest

from benchmarks.training.idle import Span, idle


def test_a_gap_counts_for_the_innermost_call_in_its_middle():
    kernels = [Span("mm", 0, 10), Span("mm", 30, 40), Span("mm", 45, 50)]
    calls = [Span("step", 0, 100), Span("collate", 12, 28), Span("item", 41, 44)]
    found = idle(kernels, calls)
    assert found.share == pytest.approx(25 / 50)
    assert found.causes == (("collate", 20 / 50), ("item", 5 / 50))


def test_kernels_of_several_streams_overlap_and_only_the_largest_causes_are_named():
    kernels = [Span("a", 0, 30), Span("b", 5, 10), Span("c", 34, 40), Span("d", 41, 42)]
    found = idle(kernels, [], most=1)
    assert found.share == pytest.approx(5 / 42)
    assert found.causes == (("nothing of torch", 5 / 42),)
