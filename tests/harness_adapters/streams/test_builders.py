"""Streams: read and written, built from real files and from rows as the hub has them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from epimem.cli.program import program
from epimem.errors import NotFoundError, RecordError
from harness_adapters.streams import bbh, gsm8k, gym, papers
from harness_adapters.streams.checkers import check
from harness_adapters.streams.sampling import per_niche, shuffled
from harness_adapters.streams.task import StreamTask, lines, read_stream

DATA = Path(__file__).parents[3].parent / "shared" / "data"
needs_data = pytest.mark.skipif(not DATA.is_dir(), reason="no shared data beside the checkout")


def task(number, niche="n", **more):
    values = {"question": "q", "checker": "exact", "reference": "a", **more}
    return StreamTask(task_id=f"t-{number}", niche=niche, **values)


# -- the file -------------------------------------------------------------------------------------


def test_a_stream_is_read_as_it_was_written(tmp_path):
    tasks = [
        task(1, images=("a.png",)),
        task(2, reference={"tests": [1, None]}),
        task(3, question="é\n"),
    ]
    path = tmp_path / "s.jsonl"
    path.write_bytes(b"\n".join([*(line.strip() for line in lines(tasks)), b"", b""]))
    assert list(read_stream(path)) == tasks
    assert "reference" not in repr(tasks[0])


@pytest.mark.parametrize(
    ("text", "word"),
    [
        (b"", "empty"),
        (b"\n \n", "empty"),
        (b"{}\n", "line 1"),
        (b'{"task_id": 1}\n', "line 1"),
        (b"no json\n", "line 1"),
        (b"\xff\xfe\n", "line 1"),
        (next(lines([task(1)])) * 2, "twice"),
        (next(lines([task(1)])) + b'{"task_id": "x", "niche": "n", "question": ""}', "line 2"),
    ],
)
def test_what_is_no_stream_is_named(tmp_path, text, word):
    path = tmp_path / "s.jsonl"
    path.write_bytes(text)
    with pytest.raises(RecordError, match=word) as caught:
        list(read_stream(path))
    assert word in f"{caught.value} {caught.value.field}"


def test_a_missing_stream_is_said(tmp_path):
    with pytest.raises(NotFoundError):
        list(read_stream(tmp_path / "none.jsonl"))


def test_drawing_is_by_seed_and_keeps_the_order():
    tasks = [task(number, "ab"[number % 2]) for number in range(40)]
    first = per_niche(tasks, 5, 0)
    assert first == per_niche(tasks, 5, 0) != per_niche(tasks, 5, 1)
    assert [each.niche for each in first] == ["a"] * 5 + ["b"] * 5
    assert [each.task_id for each in first[:5]] == sorted(
        (each.task_id for each in first[:5]), key=lambda name: int(name[2:])
    )
    assert len(per_niche(tasks, 99, 0)) == 40
    mixed = shuffled(tasks, 0)
    assert mixed == shuffled(tasks, 0) != shuffled(tasks, 1)
    assert sorted(each.task_id for each in mixed) == sorted(each.task_id for each in tasks)


# -- real files -----------------------------------------------------------------------------------


@needs_data
def test_big_bench_hard_is_whole_and_every_reference_marks_itself():
    tasks = list(bbh.tasks(DATA / "bbh"))
    assert len(tasks) == 6511
    assert len({each.niche for each in tasks}) == 27
    assert {each.checker for each in tasks} == {"choice", "exact"}
    for each in tasks:
        assert check(each, f"I think.\nThe answer is {each.reference}.").reward == 1.0, each.task_id
    assert not any("canary" in each.question.casefold() for each in tasks)


@needs_data
def test_gsm8k_is_whole_and_every_reference_marks_itself():
    tasks = list(gsm8k.tasks(DATA / "gsm8k" / "test.jsonl"))
    assert len(tasks) == 1319
    for each in tasks:
        assert "####" not in str(each.reference)
        assert check(each, f"So it is {each.reference}.").reward == 1.0, each.task_id


def test_a_folder_without_files_is_said(tmp_path):
    with pytest.raises(NotFoundError):
        list(bbh.tasks(tmp_path))
    with pytest.raises(NotFoundError):
        list(gsm8k.tasks(tmp_path / "test.jsonl"))


@pytest.mark.parametrize("text", ["{}", "[]", "no", '{"examples": [{"input": "q"}]}'])
def test_a_damaged_file_is_named(tmp_path, text):
    (tmp_path / "navigate.json").write_text(text)
    with pytest.raises(RecordError) as caught:
        list(bbh.tasks(tmp_path))
    assert caught.value.got == "navigate.json"
    file = tmp_path / "test.jsonl"
    file.write_text('{"question": "q", "answer": "#### 1"}\n' + text + "\n")
    with pytest.raises(RecordError) as caught:
        list(gsm8k.tasks(file))
    assert caught.value.field == "line 2"


# -- the paper's streams --------------------------------------------------------------------------


def test_the_manifests():  # row 55
    sums = {name: sum(counts.values()) for name, counts in papers.COUNTS.items()}
    assert sums == {"hard-math": 382, "hard-code": 586, "aflow": 600}
    assert sums["hard-code"] - papers.COUNTS["hard-code"]["humaneval"] == 422
    assert set(papers.DOMAINS) == {name for counts in papers.COUNTS.values() for name in counts}


ROWS = {
    "EleutherAI/hendrycks_math": lambda n: {
        "problem": f"What is {n}+1?",
        "level": f"Level {1 + n % 5}" if n % 50 else "Level ?",
        "solution": f"It is $\\boxed{{{n + 1}}}$.",
    },
    "AI-MO/aimo-validation-aime": lambda n: {
        "problem": f"p{n}",
        "answer": str(n),
        "url": f"https://x/{2022 + n % 3}_AIME_I_Problems/Problem_{n}",
    },
    "math-ai/aime25": lambda n: {"problem": f"p{n}", "answer": str(n)},
    "google-research-datasets/mbpp": lambda n: {
        "task_id": n,
        "prompt": "Add.",
        "test_imports": ["import math"],
        "test_list": ["assert add(1, 2) == 3", "assert add(1, 1) == 2 * math.gcd(1, 1)"],
    },
    "deepmind/code_contests": lambda n: {
        "description": f"Double. {n}",
        "public_tests": {"input": ["1"], "output": ["2"]},
        "private_tests": {"input": ["3"], "output": ["6"]},
    },
    "openai/openai_humaneval": lambda n: {
        "task_id": f"HumanEval/{n}",
        "prompt": "from math import pi\n\n\ndef area(r):\n    ...\n",
        "entry_point": "area",
        "test": "def check(candidate):\n    assert candidate(2) == 4 * pi\n",
    },
    "openai/gsm8k": lambda n: {"question": f"q{n}", "answer": f"way\n#### {n:,}"},
    "hotpotqa/hotpot_qa": lambda n: {
        "id": f"h{n}",
        "question": "who?",
        "answer": "Ann",
        "context": {"title": ["A", "B"], "sentences": [["One.", " Two."], ["Three."]]},
    },
    "ucinlp/drop": lambda n: {
        "query_id": f"d{n}",
        "passage": "P.",
        "question": "how many?",
        "answers_spans": {"spans": ["3", "3", "three"]},
    },
}
REPLIES = {
    "mbpp": "```python\ndef add(a, b):\n    return a + b\n```",
    "codecontests": "```python\nprint(int(input()) * 2)\n```",
    "humaneval": "```python\ndef area(r):\n    return pi * r * r\n```",
    "hotpotqa": "Ann",
    "drop": "three",
}
SIZES = {
    "math-ai/aime25": 30,
    "AI-MO/aimo-validation-aime": 90,
    "google-research-datasets/mbpp": 257,
}


def hub(name, config, split):
    assert split in {"test", "train", "validation"}
    del config
    return [ROWS[name](number) for number in range(SIZES.get(name, 300))]


@pytest.mark.parametrize("name", sorted(papers.COUNTS))
def test_a_stream_of_the_paper_is_built_in_blocks_and_its_references_mark_themselves(name):
    tasks = list(papers.tasks(name, 0, hub))
    counts = papers.COUNTS[name]
    blocks = list(dict.fromkeys(each.niche for each in tasks))
    assert blocks == list(counts)
    assert {niche: sum(each.niche == niche for each in tasks) for niche in blocks} == counts
    assert len({each.task_id for each in tasks}) == len(tasks)
    firsts = {each.niche: each for each in tasks}
    for niche, each in firsts.items():
        reply = REPLIES.get(niche) or f"\\boxed{{{_plain(each.reference)}}}"
        assert check(each, reply).reward == 1.0, niche
        assert check(each, "I do not know").reward == 0.0, niche
    assert tasks == list(papers.tasks(name, 0, hub))


def _plain(reference):
    return reference.rpartition("{")[2].rstrip("}$.") if "{" in str(reference) else reference


def test_a_set_that_is_too_small_is_said():
    with pytest.raises(RecordError, match="math_hard"):
        list(papers.tasks("hard-math", 0, lambda *given: hub(*given)[:80]))


def test_a_data_set_with_other_columns_is_said():
    with pytest.raises(RecordError, match="columns"):
        list(papers.tasks("hard-math", 0, lambda *_: [{"text": "?"}]))


def test_a_hub_that_cannot_be_reached_is_said(monkeypatch):
    datasets = pytest.importorskip("datasets")

    def broken(*_given, **_named):
        raise ConnectionError

    monkeypatch.setattr(datasets, "load_dataset", broken)
    with pytest.raises(NotFoundError, match="ConnectionError"):
        list(papers.tasks("aflow", 0))


def test_rows_of_the_hub_are_streamed(monkeypatch):
    datasets = pytest.importorskip("datasets")
    rows = datasets.Dataset.from_list([{"question": "q", "answer": "#### 4"}] * 3)
    seen = {}

    def load(name, config, **named):
        seen.update(named, name=name, config=config)
        return rows.to_iterable_dataset()

    monkeypatch.setattr(datasets, "load_dataset", load)
    assert len(list(papers.from_hub("openai/gsm8k", "main", "test"))) == 3
    assert seen == {"name": "openai/gsm8k", "config": "main", "split": "test", "streaming": True}


# -- the command ----------------------------------------------------------------------------------


def run(*words):
    return CliRunner().invoke(program, ["stream", *map(str, words)], catch_exceptions=False)


def test_a_stream_is_made_and_checked_by_command(tmp_path):
    source = tmp_path / "test.jsonl"
    rows = [ROWS["openai/gsm8k"](number) for number in range(9)]
    source.write_text("".join(json.dumps(row) + "\n" for row in rows))
    out = tmp_path / "s.jsonl"
    done = run("gsm8k", source, "--each", 4, "--shuffle", "--seed", 2, "--out", out)
    assert json.loads(done.stdout)["tasks"] == 4
    assert len(list(read_stream(out))) == 4
    checked = json.loads(run("check", out).stdout)
    assert checked == {"tasks": 4, "niches": {"gsm8k": 4}, "checkers": {"number": 4}}
    before = out.read_bytes()
    run("gsm8k", source, "--each", 4, "--shuffle", "--seed", 2, "--out", out)
    assert out.read_bytes() == before


def test_generated_tasks_are_the_same_for_a_seed(tmp_path):
    pytest.importorskip("reasoning_gym")
    for name in ("a", "b"):
        run("gym", "leg_counting", "spell_backward", "--each", 3, "--out", tmp_path / name)
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()
    tasks = list(read_stream(tmp_path / "a"))
    assert [each.niche for each in tasks] == ["leg_counting"] * 3 + ["spell_backward"] * 3
    for each in tasks:
        assert check(each, f"<answer>{each.reference['entry']['answer']}</answer>").reward == 1.0


def test_a_set_that_its_scorer_cannot_mark_from_a_file_is_refused():
    pytest.importorskip("reasoning_gym")
    with pytest.raises(RecordError, match="JSON"):
        list(gym.tasks(["rearc"], 1, 7))


def test_a_broken_task_is_found_by_the_check(tmp_path):
    path = tmp_path / "s.jsonl"
    path.write_bytes(next(lines([task(1, checker="code", reference={})])))
    with pytest.raises(RecordError):
        run("check", path)
