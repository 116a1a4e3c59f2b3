"""What a reply is worth: a checker for each kind of task, from a library where there is one.

exact           the same text, but for case and spaces
choice          the same letter in brackets
number          the same number (one part in a million)
math            the same expression in the last box, by math-verify
f1              words in common with the best of several answers (as HotpotQA and DROP are marked)
gym             the scorer of reasoning-gym
code            the share of tests that the last code of the reply passes
"""

from __future__ import annotations

import re
import string
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Any

from epimem.errors import PluginError, RecordError
from harness_adapters.streams import code, expressions
from harness_adapters.streams.replies import (
    answer_in,
    folded,
    last_box,
    last_code,
    last_number,
    stated_in,
)
from harness_adapters.streams.task import StreamTask

MOST_MATH = 400
"""Characters of an expression that is compared: a longer one takes for ever."""


@dataclass(frozen=True)
class Marked:
    """What a reply is worth, in [0, 1], and its answer in the form in which answers are compared."""

    reward: float
    answer: str


Checker = Callable[[Any, str], Marked]


def check(task: StreamTask, reply: str) -> Marked:
    """Mark a reply; whatever it says, nothing is raised for it.

    Raises:
        RecordError: no such checker, or the task lacks what it needs.
        PluginError: the checker's library is not installed.
    """
    checker = CHECKERS.get(task.checker)
    if checker is None:
        known = ", ".join(CHECKERS)
        raise RecordError("no such checker", field="checker", got=task.checker, hint=known)
    return checker(task.reference, reply)


def _exact(reference: Any, reply: str) -> Marked:
    answer, wanted = folded(answer_in(reply)), folded(_text(reference))
    return Marked(float(bool(answer) and answer == wanted), answer)


def _choice(reference: Any, reply: str) -> Marked:
    said, wanted = stated_in(reply) or "", _letter(_text(reference))
    answer = _first_letter(said) or _letter(said) or _letter(reply) or _letter(answer_in(reply))
    return Marked(float(bool(answer) and answer == wanted), answer)


def _first_letter(text: str) -> str:
    """Return the letter that a stated answer begins with: "(B), since (A) ...", "B) Friday"."""
    found = re.match(r"[^\w(]*+(?:\(([A-Za-z])\)|([A-Za-z])\s*+(?:[).:,;]|$))", text)
    return (found[1] or found[2]).upper() if found else ""


def _letter(text: str) -> str:
    """Return the last letter in brackets, or the letter that is all there is."""
    found = re.findall(r"\(([A-Za-z])\)", text)
    return found[-1].upper() if found else _first_letter(text)


def _number(reference: Any, reply: str) -> Marked:
    answer = last_number(answer_in(reply)) or last_number(reply)
    given, wanted = _value(answer), _value(last_number(_text(reference)))
    if given is None or wanted is None:
        return Marked(0.0, answer)
    same = abs(given - wanted) <= max(abs(wanted), Fraction(1)) / 1_000_000
    return Marked(float(same), str(given))


def _value(text: str) -> Fraction | None:
    try:
        return Fraction(text)
    except (ValueError, ZeroDivisionError):
        return None


def _math(reference: Any, reply: str) -> Marked:
    boxed = last_box(reply)
    answer = (boxed if boxed is not None else answer_in(reply)).strip()
    if not answer or len(answer) > MOST_MATH:
        return Marked(0.0, answer[:MOST_MATH])
    wanted = last_box(_text(reference)) or _text(reference)
    return Marked(float(_same_math(wanted, answer)), "".join(answer.split()))


def _same_math(wanted: str, given: str) -> bool:
    try:
        return expressions.same(wanted, given)
    except ImportError as error:
        raise _missing("math-verify", "pip install 'epimem[streams]'") from error


def _f1(reference: Any, reply: str) -> Marked:
    answer = answer_in(reply)
    wanted = reference if isinstance(reference, list) else [reference]
    best = max((_common(_words(_text(each)), _words(answer)) for each in wanted), default=0.0)
    return Marked(best, " ".join(_words(answer)))


def _words(text: str) -> list[str]:
    """Return the words that count: no articles, no punctuation (the rule of SQuAD)."""
    plain = "".join(each for each in text.casefold() if each not in string.punctuation)
    return [word for word in plain.split() if word not in {"a", "an", "the"}]


def _common(wanted: list[str], given: list[str]) -> float:
    """Return F1 of two lists of words; a yes or no has no part (the rule of HotpotQA)."""
    if not wanted or not given or (wanted != given and (_is_verdict(wanted) or _is_verdict(given))):
        return 0.0
    both = (Counter(wanted) & Counter(given)).total()
    return 2 * both / (len(wanted) + len(given))


def _is_verdict(words: list[str]) -> bool:
    return words in (["yes"], ["no"], ["noanswer"])


def _gym(reference: Any, reply: str) -> Marked:
    answer = answer_in(reply)
    entry, name = _field(reference, "entry", dict), _field(reference, "dataset", str)
    try:
        reward = float(_gym_dataset(name).score_answer(answer, entry))
    except (PluginError, RecordError):
        raise
    except Exception:  # noqa: BLE001 - a scorer of the library meets a reply that it cannot read
        reward = 0.0
    return Marked(min(max(reward, 0.0), 1.0) if answer else 0.0, folded(answer))


@lru_cache(maxsize=128)
def _gym_dataset(name: str) -> Any:
    try:
        import reasoning_gym
    except ImportError as error:
        raise _missing("reasoning-gym", "pip install 'epimem[gym]'") from error
    try:
        return reasoning_gym.create_dataset(name, size=1, seed=0)
    except ValueError as error:
        raise RecordError(
            "reasoning-gym has no such data set", field="dataset", got=name
        ) from error


def _code(reference: Any, reply: str) -> Marked:
    tests = [code.Test.read(each) for each in _field(reference, "tests", list)]
    if not tests:
        raise RecordError("a task of code has no tests", field="reference.tests")
    source, setup = last_code(reply), reference.get("setup", "")
    if not source.strip():
        return Marked(0.0, "")
    return Marked(code.share_passed(f"{setup}\n{source}", tests), source.strip())


def _field(reference: Any, name: str, kind: type) -> Any:
    value = reference.get(name) if isinstance(reference, dict) else None
    if not isinstance(value, kind):
        raise RecordError("the task lacks what its checker needs", field=f"reference.{name}")
    return value


def _text(reference: Any) -> str:
    if isinstance(reference, dict | list) or reference is None:
        raise RecordError("this checker needs one answer", field="reference")
    return str(reference)


def _missing(name: str, hint: str) -> PluginError:
    return PluginError(f"the checker needs the package {name}", hint=hint)


CHECKERS: Mapping[str, Checker] = {
    "exact": _exact,
    "choice": _choice,
    "number": _number,
    "math": _math,
    "f1": _f1,
    "gym": _gym,
    "code": _code,
}
