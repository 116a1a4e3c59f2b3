"""`epimem eval`: what a user types, sees, and is told when something is wrong."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from epimem import ExperienceMemory, IndexText, LessonDraft
from epimem.config import Config, EncoderConfig
from tests.cli_program import Epimem, lines_of, write
from tests.epimem.evaluation import houses

ROOT = Path(__file__).resolve().parents[3]
# Says what the memory says, and stops working where a file of that name is there.
PARROT = """
import json, os, sys
for line in sys.stdin:
    asked = json.loads(line)
    if os.path.exists(sys.argv[1]): sys.exit(1)
    memory = asked["memory"] or {"text": "nothing"}
    known = "lantern" in memory["text"]
    print(json.dumps({"id": asked["id"], "answer": "mill" if known else "dunno"}), flush=True)
"""
SCORER = """
import json, sys
for line in sys.stdin:
    asked = json.loads(line)
    print(json.dumps({"id": asked["id"], "right": asked["answer"] in asked["reference"]}), flush=True)
"""


@pytest.fixture(scope="module")
def gates(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Make a folder with a frozen bank, one that is not, tasks, and programs."""
    folder = tmp_path_factory.mktemp("gates")
    config = Config(encoder=EncoderConfig(model="none"))
    for name in ("bank", "living"):
        with ExperienceMemory.create(folder / name, config) as memory:
            for number, word in enumerate(("lantern", "bell")):
                memory.contribute(
                    LessonDraft(
                        guidance=f"Look for the {word}.",
                        index=IndexText(scope="gates", question_anchor=f"Which {word} gate?"),
                        question_key=f"q{number}",
                    )
                )
            if name == "bank":
                memory.freeze()
    asked = [
        {
            "id": f"t{number}",
            "question": f"Which lantern gate is open, {number}?",
            "reference": "mill",
        }
        for number in range(3)
    ]
    write(folder / "tasks.jsonl", *asked)
    (folder / "parrot.py").write_text(PARROT, encoding="utf-8")
    (folder / "scorer.py").write_text(SCORER, encoding="utf-8")
    return folder


@pytest.fixture
def call(gates: Path, tmp_path: Path, epimem: Epimem) -> Epimem:
    """Evaluate the bank of gates; what is given comes after, and wins."""
    settings = {
        "--tasks": gates / "tasks.jsonl",
        "--solver": f"{sys.executable} -S {gates / 'parrot.py'} {tmp_path / 'stop'}",
        "--arms": "none,product",
        "--seeds": 2,
        "--work": tmp_path / "work",
    }

    def run(*given: object, bank: str = "bank") -> object:
        options = [part for pair in settings.items() for part in pair]
        return epimem("eval", gates / bank, *options, *given)

    return run  # type: ignore[return-value]


def test_the_houses_pass_on_the_command_line(tmp_path: Path, epimem: Epimem) -> None:
    bank = houses.build(tmp_path / "bank", supports=1)
    drawn = houses.tasks(tmp_path / "lines", each=1)[:8]
    tasks = [
        {
            "id": task.id,
            "question": task.question,
            "images": [str(Path(task.images[0]).relative_to(tmp_path))],
            "family": "lines",
            "reference": task.reference.get_secret_value(),
        }
        for task in drawn
    ]
    write(tmp_path / "tasks.jsonl", *tasks)
    code = f"import sys; sys.path.insert(0, {str(ROOT)!r}); from {houses.__name__} import serve; serve()"
    solver = f'{sys.executable} -c "{code}"'

    result = epimem(
        "eval", bank, "--tasks", tmp_path / "tasks.jsonl", "--solver", solver, "--seeds", 1,
        "--arms", "product,shuffled,frequency,none",
    )  # fmt: skip

    assert result.status == 0, result.err
    (line,) = result.lines
    shares = {arm["arm"]: arm["share"] for arm in line["arms"]}
    assert shares["product"] == 1.0
    assert shares["none"] == 0.0
    over = {item["second"]: item["low"] for item in line["differences"]}
    assert over["shuffled"] > 0.0
    assert over["frequency"] > 0.0
    assert line["verdict"]["reasons"] == [
        f"1 seeds in {arm}, a claim needs 10" for arm in ("product", "shuffled", "frequency")
    ]
    assert line["leaks"] == []
    assert "rows" not in line
    work = tmp_path / "bank.eval"
    assert sorted(path.name for path in work.iterdir()) == [
        "report.json",
        "results.jsonl",
        "setup.json",
    ]
    assert len(json.loads((work / "report.json").read_text())["rows"]) == 4 * 8
    assert len(lines_of(work / "results.jsonl")) == 4 * 8


def test_a_scorer_of_ones_own(call: Epimem, gates: Path) -> None:
    write(
        gates / "long.jsonl", {"id": "t", "question": "Which lantern gate?", "reference": "a mill"}
    )
    scorer = f"{sys.executable} -S {gates / 'scorer.py'}"

    plain = call("--tasks", gates / "long.jsonl")
    judged = call("--tasks", gates / "long.jsonl", "--scorer", scorer, "--work", gates / "judged")

    assert [arm["share"] for arm in plain.lines[0]["arms"]] == [0.0, 0.0]
    assert [arm["share"] for arm in judged.lines[0]["arms"]] == [0.0, 1.0]
    assert judged.lines[0]["setup"]["scorer"] == scorer


@pytest.mark.usefixtures("on_terminal")
def test_a_table_is_drawn_on_a_terminal(call: Epimem) -> None:
    result = call()

    assert result.status == 0
    assert "Questions solved of 3, mean over 2 seeds" in result.out
    assert "+3.0 [+3.0, +3.0] 2/2 1.00+0.00 1.00+0.00" in " ".join(result.out.split())
    assert "No claim is supported:" in result.out
    assert "the arm shuffled is missing" in result.out
    assert len(call("--json").lines) == 1


def test_what_knows_a_question_does_not_count(call: Epimem, tmp_path: Path) -> None:
    asked = {"id": "t", "question": "Which gate?", "reference": "look for the lantern."}
    write(tmp_path / "leak.jsonl", asked)

    result = call("--tasks", tmp_path / "leak.jsonl")

    assert result.status == 1
    assert "CONTAMINATED, this run does not count" in result.err
    assert "t (reference in bank)" in result.err
    assert result.lines[0]["leaks"] == [{"task": "t", "what": "reference", "where": "bank"}]
    assert not result.lines[0]["verdict"]["passed"]
    assert call("--canary", "for the BELL", "--work", tmp_path / "other").status == 1


def test_a_broken_solver_stops_the_run_and_a_mended_one_goes_on(
    call: Epimem, tmp_path: Path
) -> None:
    (tmp_path / "stop").touch()

    broken = call()
    assert broken.status == 8
    assert "5 times in a row" in broken.err
    assert "ended with status 1" in broken.err

    (tmp_path / "stop").unlink()
    mended = call()
    assert mended.status == 0
    assert [arm["errors"] for arm in mended.lines[0]["arms"]] == [0, 0]
    assert {arm["arm"]: arm["mean"] for arm in mended.lines[0]["arms"]} == {
        "none": 0.0,
        "product": 3.0,
    }


def test_another_set_up_is_refused_and_more_seeds_are_welcome(call: Epimem) -> None:
    assert call().status == 0

    other = call("--k", 3)
    assert other.status == 5
    assert "asked with changed" in other.err
    more = call("--seeds", 3)
    assert more.status == 0
    assert more.lines[0]["arms"][0]["by_seed"] == {"0": 0, "1": 0, "2": 0}


@pytest.mark.parametrize(
    ("given", "status", "told"),
    [
        (("--arms", "none,best"), 2, "no such arm: best"),
        (("--solver", "no-such-program-here"), 4, "no such program: no-such-program-here"),
        (("--tasks", "missing.jsonl"), 4, "no such file"),
        (("--seeds", "0"), 2, "--seeds"),
        (("--deadline", "0"), 2, "--deadline"),
    ],
)
def test_mistakes_are_told(call: Epimem, given: tuple[str, ...], status: int, told: str) -> None:
    result = call(*given)

    assert result.status == status
    assert told in result.err


def test_a_wrong_line_is_named(call: Epimem, tmp_path: Path) -> None:
    write(tmp_path / "bad.jsonl", {"id": "a", "question": "What?"}, {"id": "b"})

    result = call("--tasks", tmp_path / "bad.jsonl")

    assert result.status == 2
    assert "bad.jsonl:2 question" in result.err


def test_a_living_bank_is_refused_with_a_way_out(call: Epimem, gates: Path) -> None:
    result = call(bank="living")

    assert result.status == 5
    assert "only a frozen bank is evaluated" in result.err
    assert f"cp -r {gates / 'living'} COPY; epimem freeze COPY" in result.err
