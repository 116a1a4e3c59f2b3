"""docs/evaluation.md: what it shows works as it stands."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

from epimem import ExperienceMemory, IndexText, LessonDraft
from epimem.config import Config, EncoderConfig
from epimem.evaluation import EvalTask
from epimem.evaluation.commands import CommandSolver

PAGE = Path(__file__).resolve().parents[3] / "docs" / "evaluation.md"


def blocks(language: str) -> list[str]:
    return re.findall(
        rf"^```{language}\n(.*?)^```", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL
    )


def test_the_solver_answers(tmp_path: Path) -> None:
    (tmp_path / "solve.py").write_text(blocks("python")[0], encoding="utf-8")

    with CommandSolver(f"{sys.executable} {tmp_path / 'solve.py'}") as solver:
        assert solver(EvalTask(id="q", question="How many?").public, None, 0).text == "7"


def test_the_python_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (line,) = blocks("json")
    task = line.replace('"images": ["map1.png"], ', "")
    Path("tasks.jsonl").write_text(task, encoding="utf-8")
    config = Config(encoder=EncoderConfig(model="none"))
    with ExperienceMemory.create("my-bank-v1", config) as memory:
        index = IndexText(
            scope="metro", question_anchor="How many stations does the train call at?"
        )
        memory.contribute(LessonDraft(guidance="Count the stations.", index=index, family="metro"))
        memory.freeze()

    exec(compile(blocks("python")[1].replace("range(10)", "range(1)"), str(PAGE), "exec"), {})

    assert "'1 seeds in product, a claim needs 10'" in capsys.readouterr().out
