"""The hook as a process: memory for a prompt, the session handed in, and never in anybody's way."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from epimem.memory import ExperienceMemory
from harness_adapters import contract
from harness_adapters.fake_model import FakeModel
from tests.harness_adapters.real_clients import KEY, LOCAL, codex_program

ROOT = Path(__file__).resolve().parents[2]
LOGS = Path(__file__).parent / "logs"
ROLLOUT = next((LOGS / "codex").rglob("rollout-*"))
WORDS = [sys.executable, "-m", "epimem", "hook"]


@pytest.fixture
def bank(tmp_path):
    contract._fill(tmp_path / "bank")
    return tmp_path / "bank"


def hook(event, *words, **env):
    data = event if isinstance(event, bytes) else json.dumps(event).encode()
    done = subprocess.run(
        [*WORDS, *map(str, words)],
        input=data,
        capture_output=True,
        timeout=60,
        check=False,
        env={**os.environ, "OMP_NUM_THREADS": "1", **env},
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.count(b"\n") == 1
    return json.loads(done.stdout)


def asked(prompt=contract.QUESTION, **more):
    return {"hook_event_name": "UserPromptSubmit", "session_id": "s", "prompt": prompt, **more}


def test_a_prompt_is_answered_with_what_the_bank_knows_once_a_turn(bank):
    first, again = (hook(asked(turn_id="t"), bank) for _ in range(2))
    told = first["hookSpecificOutput"]
    assert told["hookEventName"] == "UserPromptSubmit"
    assert contract.LESSON in told["additionalContext"]
    assert again == first
    assert hook(asked(turn_id="u"), bank) != first


def test_what_the_bank_does_not_know_adds_nothing(bank):
    assert hook(asked("Who wrote the first opera in Swahili?"), bank) == {}
    assert hook(asked(" "), bank) == {}
    assert hook({"hook_event_name": "PreToolUse", "tool_name": "bash"}, bank) == {}


def test_a_session_is_handed_in_once_under_the_name_given(bank):
    event = {"hook_event_name": "Stop", "session_id": "s", "transcript_path": str(ROLLOUT)}
    for _ in range(2):
        assert hook(event, bank, "--contributor", "codex") == {}
    with ExperienceMemory.open(bank, read_only=True) as memory:
        (queued,) = memory.bank.queued_runs(limit=5)
    assert queued.contributor == "codex"
    assert queued.run.answer.text == "six"


@pytest.mark.parametrize(
    ("event", "words"),
    [
        (b"", "bad_json"),
        (b"[]", "an event is an object"),
        (b'{"hook_event_name": "UserPromptSubmit", "prompt": "a\\u202eb"}', "invalid_text"),
        ({"hook_event_name": "Stop", "transcript_path": "/x/chat.jsonl"}, "no importer"),
        ({"hook_event_name": "Stop", "transcript_path": "/x/rollout-y.jsonl"}, "no session log"),
    ],
)
def test_an_event_that_cannot_be_answered_is_a_notice(bank, event, words):
    assert words in hook(event, bank)["systemMessage"]


def test_a_bank_that_is_not_there_is_a_notice(tmp_path):
    assert "not_found" in hook(asked(), tmp_path / "nowhere")["systemMessage"]
    assert (
        "unreachable"
        in hook(asked(), "http://127.0.0.1:9", "--deadline", "30", EPIMEM_TOKEN="x")[
            "systemMessage"
        ]
    )
    assert "EPIMEM_TOKEN" in hook(asked(), "http://127.0.0.1:9", EPIMEM_TOKEN="")["systemMessage"]


def test_a_server_that_never_answers_costs_the_deadline_and_no_more():
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        began = time.monotonic()
        told = hook(asked(), url, "--deadline", "2", EPIMEM_TOKEN="x")
        assert time.monotonic() - began < 10
    assert told == {"systemMessage": "epimem: no answer within 2 s"}


@pytest.mark.clients
def test_codex_shows_its_model_what_the_hook_says_and_hands_the_session_in(bank, tmp_path):
    home = tmp_path / "home"
    home.mkdir()
    line = " ".join([*WORDS, str(bank), "--contributor", "codex", "--deadline", "30"])
    entry = [{"hooks": [{"type": "command", "command": line}]}]
    hooks = {"hooks": {"UserPromptSubmit": entry, "Stop": entry}}
    (home / "hooks.json").write_text(json.dumps(hooks), "utf-8")
    with FakeModel(answer="six") as model:
        overrides = [*LOCAL, f'model_providers.local.base_url="{model.url}"']
        settings = [word for override in overrides for word in ("-c", override)]
        flags = ["--skip-git-repo-check", "--dangerously-bypass-hook-trust"]
        done = subprocess.run(
            [codex_program(), "exec", "--json", *flags, *settings, contract.QUESTION],
            cwd=tmp_path,
            env={**os.environ, **KEY, "CODEX_HOME": str(home), "PYTHONPATH": str(ROOT)},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
    assert done.returncode == 0, done.stderr
    assert contract.LESSON in model.seen[0].text
    with ExperienceMemory.open(bank, read_only=True) as memory:
        (queued,) = memory.bank.queued_runs(limit=5)
    assert queued.run.task.question == contract.QUESTION
    assert contract.LESSON not in queued.run.canonical().decode()
    assert len(queued.run.retrievals) == 1
