"""Checkers: what is right, what is nearly right, and that no reply is an error."""

from __future__ import annotations

import json
import threading
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from epimem.errors import RecordError
from harness_adapters.streams.checkers import CHECKERS, check
from harness_adapters.streams.replies import answer_in, last_box, last_code, last_number
from harness_adapters.streams.task import StreamTask


def task(checker, reference):
    return StreamTask(task_id="t", niche="n", question="q", checker=checker, reference=reference)


def reward(checker, reference, reply):
    return check(task(checker, reference), reply).reward


@pytest.mark.parametrize(
    ("reply", "answer"),
    [
        ("Let me see.\nThe answer is **Yes**.", "Yes"),
        ("The answer is: 12", "12"),
        ("answer = x\nso the answer is y", "y"),
        ("<answer> ] ] </answer> and so on", "] ]"),
        (r"so \boxed{\frac{1}{2}} it is", r"\frac{1}{2}"),
        ("only a line", "only a line"),
        ("first\n\nlast line.\n\n", "last line"),
        ("", ""),
    ],
)
def test_where_the_answer_stands(reply, answer):
    assert answer_in(reply) == answer


def test_the_last_balanced_box_and_the_last_fence_count():
    assert last_box(r"\boxed{7} no, \boxed{12}") == "12"
    assert last_box(r"\boxed{a} then \boxed{b") == "a"
    assert last_box(r"\boxed {x^{2}}") == "x^{2}"
    assert last_box("none") is None
    assert last_code("```python\na\n```\ntext\n```py\nb\n```") == "b\n"
    assert last_code("```json\n{}\n```") == ""
    assert last_box("\\boxed{" * 3 + "x}") == "x"
    assert last_box(r"\boxed{\{1} and } \boxed{2") == r"\{1"


@pytest.mark.parametrize(
    "reply",
    [
        "```json\n{}\n```\ntext\n```python\nX\n```",
        "```bash\npip\n```\nthen\n```python\nX\n```\nprints\n```text\n5\n```",
        "```python\nX\n```\nOutput:\n```\n5\n```",
        "```python3\nX\n```",
        "```Python title=a.py\r\nX\r\n```\r\n",
        "~~~py\nX\n~~~",
        "````python\nX\n````",
        "1. So:\n   ```python\n   X\n   ```\n",
        "```\nX\n```",
        "```python\nX",
    ],
)
def test_the_code_is_found_among_other_fences(reply):
    assert last_code(reply) == "X\n"


@pytest.mark.parametrize("reader", [answer_in, last_box, last_code, last_number])
@pytest.mark.parametrize(
    "piece",
    [
        "\\boxed{",
        "<answer>",
        "<answer> ",
        "answer is\n",
        "answer ",
        "```python\n",
        "```a`",
        "1 / ",
        "{}",
        "-",
    ],
)
def test_no_reply_is_read_slowly(reader, piece):
    began = time.process_time()
    reader(piece * 20_000)
    reader(piece + " " * 100_000)
    reader(piece + "\n" * 100_000)
    assert time.process_time() - began < 1.0


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("costs $1,234.50 today", "1234.50"),
        ("3 / 4", "3/4"),
        ("\u22127", "-7"),
        ("none", ""),
        (".5", ".5"),
        ("10-4", "4"),
        ("x = -4", "-4"),
        (r"-\frac{1}{2}", "-1/2"),
        ("9" * 400, ""),
    ],
)
def test_the_last_number(text, number):
    assert last_number(text) == number


@pytest.mark.parametrize(
    ("checker", "reference", "right", "wrong"),
    [
        ("exact", "Yes", ["The answer is yes.", "YES", "so\n'Yes'"], ["No", "yes and no", ""]),
        ("exact", "] ] >", ["] ] >", "The answer is ] ] >"], ["] >", "] ]  ] >"]),
        (
            "choice",
            "(B)",
            ["It is (B).", "The answer is (b)", "B", "(A) no: (B)"],
            ["(A)", "Bob", ""],
        ),
        (
            "choice",
            "(B)",
            [
                "The answer is B) Friday",
                "**Answer**: B. Friday",
                "The answer is (B), since (A) is late",
                r"\boxed{\text{B}}",
            ],
            ["The answer is Bob", "The answer is (A), not (B)"],
        ),
        ("exact", "Yes", [r"\boxed{\text{Yes}}", "**Answer:** yes"], ["The answer island yes"]),
        ("exact", ".", [], ["", "."]),
        ("number", "0.5", [r"\boxed{\frac{1}{2}}", r"\boxed{\dfrac{1}{2}}"], ["9" * 5000]),
        ("number", "3", [], ["1" * 3000 + "." + "1" * 3000]),
        ("f1", ["no"], ["No."], ["no it is not", "yes"]),
        ("f1", ["The"], [], [""]),
        ("number", "1,000", ["= 1000", "The answer is 1000.0", "$1,000.00"], ["1001", "ten", ""]),
        ("number", "0.5", ["1/2", "The answer is .5"], ["1/0", "2"]),
        ("math", r"so \boxed{\frac{1}{2}}", [r"\boxed{0.5}", r"\boxed{1/2}"], [r"\boxed{2}", ""]),
        ("math", "x^2+1", [r"\boxed{1+x^2}"], [r"\boxed{1-x^2}", r"\boxed{" + "x+" * 400 + "1}"]),
        ("f1", ["Paris", "the city of Paris"], ["Paris.", "The answer is a Paris"], ["Rome", ""]),
    ],
)
def test_right_and_wrong(checker, reference, right, wrong):
    assert [reward(checker, reference, reply) for reply in right] == [1.0] * len(right)
    assert [reward(checker, reference, reply) for reply in wrong] == [0.0] * len(wrong)


def test_words_in_common_count_by_f1():
    assert reward("f1", "the red house on the hill", "a red house") == pytest.approx(
        2 * 2 / (4 + 2)
    )
    assert reward("f1", ["x", "red house"], "red house") == 1.0
    assert reward("f1", "New York, N.Y.", "the New York NY") == 1.0


def test_two_replies_with_one_answer_have_one_form():
    for checker, reference, replies in (
        ("choice", "(B)", ["(b)", "It is (B)."]),
        ("number", "5", ["5", "The answer is 5.0", "5.00"]),
        ("exact", "yes", ["Yes.", "the answer is  YES"]),
        ("math", "1", [r"\boxed{x + 1}", r"\boxed{x+1}"]),
    ):
        found = {check(task(checker, reference), reply).answer for reply in replies}
        assert len(found) == 1, checker


def test_mathematics_is_compared_in_any_thread():
    seen = []
    work = threading.Thread(target=lambda: seen.append(reward("math", "2", r"\boxed{1+1}")))
    work.start()
    work.join()
    assert seen == [1.0]


def test_no_expression_stops_another_thread():
    seen = []
    work = threading.Thread(target=lambda: seen.append(reward("math", "2", r"\boxed{9^{9^{9}}}")))
    work.daemon = True
    work.start()
    work.join(60)
    assert seen == [0.0]


def test_a_generated_task_is_marked_by_its_library():
    gym = pytest.importorskip("reasoning_gym")
    entry = gym.create_dataset("leg_counting", size=1, seed=3)[0]
    reference = json.loads(json.dumps({"dataset": "leg_counting", "entry": entry}))
    assert reward("gym", reference, f"The answer is {entry['answer']}.") == 1.0
    assert reward("gym", reference, f"<answer>{entry['answer']}</answer>") == 1.0
    assert reward("gym", reference, "no idea") < 1.0
    with pytest.raises(RecordError):
        check(task("gym", {"dataset": "no such", "entry": {}}), "x")


@pytest.mark.parametrize(
    ("checker", "reference"),
    [
        ("unknown", "x"),
        ("exact", ["x"]),
        ("number", None),
        ("code", {"tests": []}),
        ("code", "x"),
        ("gym", {"dataset": "leg_counting"}),
    ],
)
def test_a_task_without_what_its_checker_needs_is_a_fault(checker, reference):
    with pytest.raises(RecordError):
        check(task(checker, reference), "```python\nx = 1\n```")


REFERENCES = {
    "exact": "x",
    "choice": "(A)",
    "number": "3",
    "math": "3",
    "f1": ["a b"],
}


@settings(max_examples=150, deadline=None)
@given(
    st.sampled_from(sorted(REFERENCES)),
    st.one_of(st.text(), st.text(alphabet=r"\boxed{}()0123456789/.,-^ answeris:")),
)
def test_no_reply_is_an_error(checker, reply):
    found = check(task(checker, REFERENCES[checker]), reply)
    assert 0.0 <= found.reward <= 1.0
    assert isinstance(found.answer, str)


def test_the_table_of_checkers():
    assert set(CHECKERS) == {*REFERENCES, "gym", "code"}
