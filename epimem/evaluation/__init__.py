"""Evaluation: whether a bank helps a solver, beside the controls without which no number counts.

tasks       what is asked; references are sealed
answers     what a solver and a scorer are
handout     what an arm hands to the solver
arms        none, product, wrong, of the host      composed    frequency, oracle
side_banks  the lessons again, flat or shuffled    standard    all seven arms over one bank
guards      frozen banks, sealed references        statistics  paired bootstrap
rows        results as they come, to go on with    report      table, costs, verdict
run         the evaluation                         commands    solvers that are other programs
"""

from __future__ import annotations

from epimem.evaluation.answers import Scorer, Solver, SolverAnswer, exact_match
from epimem.evaluation.arms import Arm, Asking, Given, Nothing, Retrieved, Wrong
from epimem.evaluation.composed import Best, Frequent
from epimem.evaluation.handout import Handout
from epimem.evaluation.report import EvalResult, EvalVerdict, summarize, verdict
from epimem.evaluation.run import evaluate
from epimem.evaluation.side_banks import flat_bank, shuffled_bank, side_bank
from epimem.evaluation.standard import ARMS, StandardArms
from epimem.evaluation.statistics import Difference, paired_difference
from epimem.evaluation.tasks import EvalTask, PublicTask, read_tasks

__all__ = [
    "ARMS",
    "Arm",
    "Asking",
    "Best",
    "Difference",
    "EvalResult",
    "EvalTask",
    "EvalVerdict",
    "Frequent",
    "Given",
    "Handout",
    "Nothing",
    "PublicTask",
    "Retrieved",
    "Scorer",
    "Solver",
    "SolverAnswer",
    "StandardArms",
    "Wrong",
    "evaluate",
    "exact_match",
    "flat_bank",
    "paired_difference",
    "read_tasks",
    "shuffled_bank",
    "side_bank",
    "summarize",
    "verdict",
]
