"""Starting and stopping a server, with the fake server in place of vLLM."""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import sys
import textwrap
import time
from contextlib import suppress
from pathlib import Path

import pytest

from controllers.backends import guard, vllm
from controllers.backends.specs import load_vllm
from controllers.backends.vllm import VllmServer, adapter_rank, command, context
from epimem.config import TreeConfig
from epimem.errors import ConfigError, ControllerError
from tests.controllers.backends.chat_prompts import prompt

ROOT = Path.cwd()


def ended(pid, seconds=20):
    """Wait until a process has ended; a zombie has."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        try:
            state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        except OSError:
            return True
        if state == "Z":
            return True
        time.sleep(0.02)
    return False


@pytest.fixture
def note(tmp_path, monkeypatch):
    """Put the fake in place of a Python with vLLM; return what it noted."""
    script = tmp_path / "python"
    fake = ROOT / "tests/controllers/backends/fake_vllm.py"
    script.write_text(f'#!/bin/sh\nexec {sys.executable} -I {fake} "$@"\n')
    script.chmod(0o755)
    path = tmp_path / "note.json"
    monkeypatch.setenv("PYTHONPATH", str(ROOT))  # for processes that import what is tested
    monkeypatch.setenv("EPIMEM_VLLM_PYTHON", str(script))
    monkeypatch.setenv("EPIMEM_VLLM_ARGS", f"--note {shlex.quote(str(path))}")
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    yield lambda: json.loads(path.read_text(encoding="utf-8"))
    with suppress(OSError, ValueError):
        found = json.loads(path.read_text(encoding="utf-8"))
        for pid in (found["pid"], found["engine"]):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


@pytest.fixture
def models(tmp_path):
    """Return a base and two adapters, as far as the start looks at them."""
    base = tmp_path / "base"
    base.mkdir()
    (base / "config.json").write_text('{"text_config": {"max_position_embeddings": 4096}}')
    folders = [tmp_path / "one=1", tmp_path / "two"]
    for folder, rank in zip(folders, (4, 24), strict=True):
        folder.mkdir()
        (folder / "adapter_config.json").write_text(json.dumps({"r": rank}))
    return base, *folders


def load(left, right):
    return load_vllm(
        memory_controller=left, tree_organizer=right, settings=TreeConfig(), deadline_s=20.0
    )


def value_of(argv, name):
    return argv[argv.index(name) + 1]


def test_two_adapters_on_one_base_are_served_together(note, models, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-not-for-this-server")
    base, one, two = models
    left, right = load(f"{base}+{one}", f"{base}+{two}")
    got = note()
    try:
        argv = got["argv"]
        assert value_of(argv, "--model") == str(base)
        assert value_of(argv, "--host") == "127.0.0.1"
        assert value_of(argv, "--max-model-len") == "4096"
        assert value_of(argv, "--max-lora-rank") == "32"
        assert [json.loads(it)["path"] for it in argv if it.startswith('{"name"')] == [
            str(one),
            str(two),
        ]
        # The key is in the environment alone, where the list of processes does not show it.
        key = got["environment"]["VLLM_API_KEY"]
        assert len(key) > 20
        assert not any(key in it for it in argv)
        assert "OPENAI_API_KEY" not in got["environment"]
        assert got["environment"]["VLLM_NO_USAGE_STATS"] == "1"
        texts = [it._backend.complete([prompt("hi")])[0].text for it in (left, right)]
        assert texts == ["adapter-1", "adapter-2"]
        assert (left.name, right.name) == ("vllm/base+one=1", "vllm/base+two")
    finally:
        left.close()
        assert not ended(got["pid"], 0.3), "the other role still needs it"
        right.close()
    assert ended(got["pid"])
    assert ended(got["engine"])


@pytest.mark.usefixtures("note")
def test_the_server_ends_with_its_backend_and_takes_its_log_along(models, tmp_path):
    left, _ = load(str(models[0]), None)
    assert left.name == "vllm/base"
    server = left._backend._vllm
    assert "loading" in server.log.read_text()
    assert server.log.is_relative_to(tmp_path)
    left.close()
    left.close()
    assert not server.log.parent.exists()
    with pytest.raises(ControllerError, match="stopped"):
        left._backend.complete([prompt()])


def test_two_bases_are_two_servers(note, models):
    base, one, _ = models
    left, right = load(str(base), str(one))
    assert left._backend._vllm is not right._backend._vllm
    left.close()
    right.close()
    assert value_of(note()["argv"], "--max-model-len") == str(vllm.CONTEXT)


def test_one_adapter_for_both_roles_is_served_once(note, models):
    base, one, _ = models
    spec = f"{base}+{one}"
    left, right = load(spec, spec)
    argv = note()["argv"]
    assert value_of(argv, "--max-loras") == "1"
    assert left._backend._model == right._backend._model == "adapter-1"
    left.close()
    right.close()


def test_a_server_that_ends_at_once_is_told_with_its_log(note, models, monkeypatch):
    monkeypatch.setenv("EPIMEM_VLLM_ARGS", f"{os.environ['EPIMEM_VLLM_ARGS']} --mode die")
    with pytest.raises(ControllerError, match="ended while it started") as caught:
        load(str(models[0]), None)
    log = Path(caught.value.hint.removeprefix("its log: "))
    assert "no such model" in log.read_text()
    assert ended(note()["engine"])


def test_a_server_that_is_never_ready_is_given_up_and_ended(note, models, monkeypatch):
    monkeypatch.setenv("EPIMEM_VLLM_ARGS", f"{os.environ['EPIMEM_VLLM_ARGS']} --mode never")
    monkeypatch.setattr(vllm, "BEAT_S", 0.0)
    told = []
    with pytest.raises(ControllerError, match="not ready in time"):
        VllmServer(str(models[0]), {}, start_s=0.8, tell=told.append)
    assert "starting" in told[0]
    got = note()
    assert ended(got["pid"])
    assert ended(got["engine"])


@pytest.mark.parametrize("mode", ["serve", "stubborn"])
@pytest.mark.parametrize("end", ["kill", "raise"])
def test_nothing_outlives_the_process_that_started_it(end, mode, note, models, tmp_path):
    hasty = tmp_path / "guard.py"
    text = Path(guard.__file__).read_text(encoding="utf-8")
    hasty.write_text(text.replace("GRACE_S = 10.0", "GRACE_S = 1.0"), encoding="utf-8")
    program = f"""
        import os, pathlib, signal, sys
        from controllers.backends import vllm
        if {mode!r} == "stubborn":
            vllm.GUARD = pathlib.Path({str(hasty)!r})
        os.environ["EPIMEM_VLLM_ARGS"] += " --mode {mode}"
        server = vllm.VllmServer({str(models[0])!r}, {{}})
        print("up", flush=True)
        sys.stdin.readline()
        if {end!r} == "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        raise RuntimeError
    """
    with subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(program)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as process:
        assert process.stdout.readline() == "up\n"
        got = note()
        assert not ended(got["pid"], 0)
        process.communicate("\n", timeout=20)
    assert ended(got["pid"])
    assert ended(got["engine"])
    if mode == "stubborn":
        assert (tmp_path / "note.asked").exists(), "all are asked to end before they are made to"


@pytest.mark.usefixtures("note")
def test_a_server_under_our_port_that_is_not_ours_is_not_used(models, monkeypatch):
    monkeypatch.setattr(vllm, "BASE", "base-of-ours")
    assert not vllm._serves("http://127.0.0.1:1", "key", ["base"])
    left, _ = load(str(models[0]), None)
    address = left._backend._vllm._address
    assert vllm._serves(address, "key", ["base-of-ours"])
    assert not vllm._serves(address, "key", ["adapter-1"])
    left.close()


class TestArguments:
    def test_further_arguments_come_last_so_that_they_win(self):
        line = command("python", "org/name", {}, 9, ["--dtype", "float32"])
        assert line[-2:] == ["--dtype", "float32"]
        assert "--enable-lora" not in line

    @pytest.mark.parametrize(
        ("config", "tokens"),
        [
            ('{"max_position_embeddings": 2048}', 2048),
            ('{"text_config": {"max_position_embeddings": 262144}}', vllm.CONTEXT),
            ("{}", vllm.CONTEXT),
            ("[]", vllm.CONTEXT),
            ("no json", vllm.CONTEXT),
            ('{"max_position_embeddings": "many"}', vllm.CONTEXT),
            ('{"max_position_embeddings": -1}', vllm.CONTEXT),
        ],
    )
    def test_the_context_is_that_of_the_model_up_to_a_bound(self, config, tokens, tmp_path):
        (tmp_path / "config.json").write_text(config)
        assert context(str(tmp_path)) == tokens
        assert context("org/name") == vllm.CONTEXT

    @pytest.mark.parametrize(
        ("settings", "rank"),
        [
            ({"r": 4}, 4),
            ({"r": 4, "rank_pattern": {"q_proj": 12, "v_proj": 2}}, 12),
            ({"r": 512, "rank_pattern": None}, 512),
        ],
    )
    def test_the_rank_of_an_adapter_is_its_largest(self, settings, rank, tmp_path):
        (tmp_path / "adapter_config.json").write_text(json.dumps(settings))
        assert adapter_rank(tmp_path) == rank

    @pytest.mark.parametrize(
        "settings",
        [
            None,
            "no json",
            "{}",
            "[]",
            '{"r": "x"}',
            '{"r": 4, "rank_pattern": 3}',
            '{"r": 513}',
            '{"r": 0}',
        ],
    )
    def test_what_is_no_adapter_is_refused(self, settings, tmp_path):
        if settings is not None:
            (tmp_path / "adapter_config.json").write_text(settings)
        with pytest.raises(ConfigError, match="adapter") as caught:
            adapter_rank(tmp_path)
        assert str(tmp_path) not in str(caught.value)

    def test_an_adapter_is_checked_before_anything_is_started(self, note, models, tmp_path):
        (tmp_path / "empty").mkdir()
        with pytest.raises(ConfigError, match="not a LoRA adapter"):
            load(f"{models[0]}+{tmp_path / 'empty'}", None)
        with pytest.raises(OSError, match="note"):
            note()

    def test_an_adapter_of_the_hub_is_refused(self, models):
        with pytest.raises(ConfigError, match="not a folder"):
            load(f"{models[0]}+team/adapter", None)
