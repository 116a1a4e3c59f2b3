"""Skills and a pool of them: an insight acts as text, and a killed run ends like an undisturbed one."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from benchmarks.evochamber import bbh
from benchmarks.evochamber.skills import SKILLS, SkilledModel, own_skills
from epimem.memory import ExperienceMemory
from harness_adapters.evochamber.chamber import Episode
from harness_adapters.llm import Message

ROOT = Path(__file__).parents[3]
needs_data = pytest.mark.skipif(not bbh.DATA.is_dir(), reason="no shared data beside the checkout")
TASKS = {
    "not ( True ) and ( True ) is": "False",
    "((-1 + 2 + 9 * 5) - (-2 + -4 + -4 * -7)) =": "24",
    "Sort the following words alphabetically: List: syndrome river oak": "oak river syndrome",
    "Complete the rest of the sequence, making sure that the parentheses are closed properly. "
    "Input: < [ [": "] ] >",
    "If you follow these instructions, do you return to the starting point? Take 2 steps. Turn around. "
    "Take 2 steps.\nOptions:\n- Yes\n- No": "Yes",
    "Question: Sherrie tells the truth. Vernell says Sherrie lies. Does Vernell tell the truth?": "No",
    "I have a flute, two trombones, and three drums. How many musical instruments do I have?": "6",
}


@pytest.mark.parametrize("question", TASKS)
def test_exactly_one_skill_fits_and_is_right(question):
    answers = [skill(question) for skill in SKILLS.values()]
    assert [answer for answer in answers if answer is not None] == [TASKS[question]]


def asked(system, question, tag="solve"):
    return (
        SkilledModel()
        .complete([Message("system", system), Message("user", question)], max_tokens=9, tag=tag)
        .text
    )


def test_a_skill_acts_when_its_sentence_is_known_and_not_otherwise():
    question = "((1 + 2) * 30) ="
    sentence = next(text for text, skill in SKILLS.items() if skill(question) is not None)
    name = next(
        f"agent-{n:03d}" for n in range(99) if sentence not in own_skills(f"You are agent-{n:03d}.")
    )
    persona = f"You are {name}."
    assert "90" not in asked(persona, question)
    assert asked(f"- {sentence}\n\n{persona}", question) == "The answer is 90."
    assert "90" not in asked(f"- {sentence[:-9]}\n\n{persona}", question), "half a sentence is none"
    others = [text for text in SKILLS if text != sentence]
    assert "90" not in asked("\n".join([*others, persona]), question)


def test_what_is_imagined_names_the_skill_that_solved_it():
    question = "((1 + 2) * 30) ="
    sentence = next(text for text, skill in SKILLS.items() if skill(question) is not None)
    said = asked(sentence, f"{question}\n\nYour answer was:\nThe answer is 90.", "reflect")
    assert said == sentence
    strategies = json.loads(asked("", f"{question}\n\nDifference 1:\n{said}", "imagine"))
    assert [each["text"] for each in strategies["strategies"]] == [sentence]


# -- real tasks -----------------------------------------------------------------------------------


def plain(folder):
    """Return a run's lines without times and ids."""
    episodes = [
        Episode.read(line) for line in (folder / "episodes.jsonl").read_bytes().splitlines()
    ]
    return [
        {
            **each.plain(),
            "own_s": 0,
            "retrieved": {name: len(ids) for name, ids in each.retrieved.items()},
            "spent": {tag: cost["calls"] for tag, cost in each.spent.items()},
        }
        for each in episodes
    ]


def state(folder):
    found = json.loads((folder / "state.json").read_bytes())
    return {**found, "outbox": []}


def lessons(bank):
    with ExperienceMemory.open(bank, read_only=True) as memory:
        ids = [row.node_id for row in memory.bank.index_rows(0) if row.alive]
        nodes = memory.bank.nodes(ids).values()
        return sorted(node.lesson.canonical() for node in nodes if node.lesson is not None)


def start(folder, items):
    words = [sys.executable, "-m", "benchmarks.evochamber.bbh", "--arm", "full", "--seed", "0"]
    return subprocess.Popen(
        [*words, "--items", str(items), "--folder", str(folder)],
        cwd=ROOT,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        stdout=subprocess.PIPE,
    )


@needs_data
def test_a_run_that_was_killed_twice_ends_like_an_undisturbed_one(tmp_path):
    items = 200
    whole = start(tmp_path / "whole", items)
    whole.communicate(timeout=120)
    assert whole.returncode == 0
    folder = tmp_path / "parts" / "full-0"
    for tasks in (40, 130):
        process = start(tmp_path / "parts", items)
        path = folder / "episodes.jsonl"
        until = time.monotonic() + 60
        while not path.exists() or path.read_bytes().count(b"\n") < tasks:
            assert time.monotonic() < until
            assert process.poll() is None
            time.sleep(0.01)
        process.send_signal(signal.SIGKILL)
        process.communicate()
        assert path.read_bytes().count(b"\n") < items
    last = start(tmp_path / "parts", items)
    last.communicate(timeout=120)
    expected = tmp_path / "whole" / "full-0"
    assert plain(folder) == plain(expected)
    assert len(plain(folder)) == items
    assert state(folder) == state(expected)
    assert lessons(folder / "bank") == lessons(expected / "bank")
    assert reported(folder) == reported(expected)


def reported(folder):
    """Return a run's report without times."""
    found = json.loads((folder / "report" / "report.json").read_bytes())
    return {
        name: value for name, value in found.items() if name not in {"spent", "time_over_single"}
    }


@needs_data
def test_without_codream_nothing_is_learnt_from_others(tmp_path):
    full = bbh.one("full", 0, 90, tmp_path / "full")
    alone = bbh.one("no codream", 0, 90, tmp_path / "alone")
    assert sum(len(each.insights) for each in full) > 0
    assert sum(len(each.insights) for each in alone) == 0
    assert sum(each.score for each in full) > sum(each.score for each in alone)
