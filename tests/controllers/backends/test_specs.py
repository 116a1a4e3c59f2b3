from __future__ import annotations

import builtins
import importlib.util
from importlib.metadata import entry_points

import pytest

from controllers.backends import scripted, specs
from controllers.backends.fake_server import FakeServer
from controllers.backends.specs import (
    ModelSpec,
    load_openai,
    load_scripted,
    load_transformers,
    load_vllm,
    read_model,
    read_openai,
)
from epimem.config import TreeConfig
from epimem.errors import ConfigError, PluginError
from tests.controllers.prompts import samples

LOADERS = {
    "openai": load_openai,
    "transformers": load_transformers,
    "vllm": load_vllm,
    "scripted": load_scripted,
}
URL = "http://127.0.0.1:1/v1"


def load(kind, left, right, deadline_s=20.0):
    return LOADERS[kind](
        memory_controller=left,
        tree_organizer=right,
        settings=TreeConfig(),
        deadline_s=deadline_s,
    )


def test_every_entry_point_is_the_function_of_its_name():
    found = {point.name: point for point in entry_points(group="epimem.controllers")}
    for kind, function in LOADERS.items():
        assert found[kind].load() is function


@pytest.mark.parametrize("kind", LOADERS)
@pytest.mark.parametrize(("left", "right"), [("", None), (None, ""), ("", "")])
def test_a_spec_without_an_argument_gives_an_example(kind, left, right):
    with pytest.raises(ConfigError, match=f"nothing stands after {kind}:") as caught:
        load(kind, left, right)
    assert specs.EXAMPLES[kind] in str(caught.value)


class TestOpenAI:
    @pytest.mark.parametrize(
        ("argument", "expected"),
        [
            ("http://localhost:8000/v1#qwen", ("http://localhost:8000/v1", "qwen")),
            ("https://models.example/v1/#org/name", ("https://models.example/v1", "org/name")),
            ("http://[::1]:9#a#b", ("http://[::1]:9", "a#b")),
            ("http://h/v1# m ", ("http://h/v1", "m")),
        ],
    )
    def test_a_spec_is_an_address_and_a_model(self, argument, expected):
        assert read_openai(argument) == expected

    @pytest.mark.parametrize(
        ("argument", "word"),
        [
            ("http://localhost:8000/v1", "no model"),
            ("http://localhost:8000/v1# ", "no model"),
            ("localhost:8000/v1#m", "http://"),
            ("ftp://localhost/v1#m", "http://"),
            ("file:///etc/passwd#m", "http://"),
            ("http:///v1#m", "http://"),
            ("#m", "http://"),
            ("http://h:port/v1#m", "not a URL"),
            ("http://h:99999/v1#m", "not a URL"),
            ("http://[::1/v1#m", "not a URL"),
            ("http://user:pa55word@h/v1#m", "password"),
            ("http://h/v1?api_key=pa55word#m", "query"),
        ],
    )
    def test_what_is_wrong_is_said_with_an_example(self, argument, word):
        with pytest.raises(ConfigError, match=word) as caught:
            read_openai(argument)
        assert specs.EXAMPLES["openai"] in str(caught.value)
        assert "pa55word" not in str(caught.value)

    def test_roles_of_one_server_share_it(self):
        left, right = load("openai", f"{URL}#a", f"{URL}/#b")
        assert left._backend._server is right._backend._server
        assert (left.name, right.name) == ("openai/a", "openai/b")
        assert left.concurrency == 16
        apart, _ = load("openai", f"{URL}#a", "http://127.0.0.1:2/v1#a")
        assert apart._backend._server is not left._backend._server

    @pytest.mark.parametrize("asked", [0, 1])
    def test_a_role_not_asked_for_is_none(self, asked):
        arguments = [None, None]
        arguments[asked] = f"{URL}#a"
        pair = load("openai", *arguments)
        assert pair[asked].name == "openai/a"
        assert pair[1 - asked] is None

    def test_the_deadline_is_that_of_the_settings(self):
        left, _ = load("openai", f"{URL}#a", None, deadline_s=7.5)
        assert left._backend._server.limits.deadline_s == 7.5

    @pytest.mark.parametrize("key", ["", " sk-1234 \n"])
    def test_the_key_comes_from_the_environment(self, key, monkeypatch):
        monkeypatch.setenv("OPENAI_API_KEY", key)
        with FakeServer() as server:
            controller, _ = load("openai", f"{server.url}#a", None)
            controller.gate([samples.gate()])
            controller.close()
            sent = {head.get("authorization") for head in server.headers}
        assert sent == ({f"Bearer {key.strip()}"} if key else {None})

    @pytest.mark.parametrize("key", ["sk-1\n2", "sk-ä"])
    def test_a_key_that_is_no_header_is_refused_unsaid(self, key, monkeypatch):
        monkeypatch.setenv("OPENAI_API_KEY", key)
        with pytest.raises(ConfigError, match="OPENAI_API_KEY") as caught:
            load("openai", f"{URL}#a", None)
        assert key not in str(caught.value)

    def test_a_controller_whose_partner_fails_is_closed(self, monkeypatch):
        closed = []
        monkeypatch.setattr(
            "controllers.backends.openai.OpenAIBackend.close", lambda it: closed.append(it.name)
        )
        with pytest.raises(ConfigError):
            load("openai", f"{URL}#a", "nothing")
        assert closed == ["openai/a"]

    @pytest.mark.parametrize(("kind", "extra"), [("openai", "openai"), ("vllm", "vllm")])
    def test_a_missing_package_names_the_extra(self, kind, extra, monkeypatch):
        monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
        with pytest.raises(PluginError, match=rf"epimem\[{extra}\]"):
            load(kind, f"{URL}#a", None)


class TestModels:
    def test_a_preset_stands_for_its_name_on_the_hub(self):
        assert read_model("vllm", "qwen3.5-2b") == ModelSpec("Qwen/Qwen3.5-2B")
        assert read_model("vllm", "qwen3-vl-2b").base == "Qwen/Qwen3-VL-2B-Instruct"

    def test_a_name_of_the_hub_is_passed_on_as_it_is(self):
        found = read_model("transformers", "org/Name-2B+team/adapter")
        assert found == ModelSpec("org/Name-2B", "team/adapter")
        assert found.identity == "Name-2B+adapter"

    def test_a_folder_may_have_a_plus_in_its_name(self, tmp_path):
        base, adapter = tmp_path / "c++" / "base", tmp_path / "one+two"
        base.mkdir(parents=True)
        adapter.mkdir()
        assert read_model("vllm", str(base)) == ModelSpec(str(base))
        assert read_model("vllm", str(adapter)) == ModelSpec(str(adapter))
        (tmp_path / "plain").mkdir()
        found = read_model("vllm", f"{base}+{tmp_path / 'plain'}")
        assert found == ModelSpec(str(base), str(tmp_path / "plain"))

    def test_the_home_folder_is_filled_in(self, tmp_path, monkeypatch):
        monkeypatch.setenv("HOME", str(tmp_path))
        (tmp_path / "base").mkdir()
        assert read_model("vllm", "~/base").base == str(tmp_path / "base")

    @pytest.mark.parametrize(
        ("argument", "word"),
        [
            ("", "model is missing"),
            ("+adapter", "model is missing"),
            ("qwen3.5-2b+", "no adapter"),
            ("qwen3.5-3b", "neither"),
            ("/no/such/folder", "neither"),
            ("./no/such", "neither"),
            ("~/nosuch", "neither"),
            ("a/b/c", "neither"),
            ("qwen3.5-2b+nosuch", "neither"),
        ],
    )
    def test_what_is_wrong_is_said_with_an_example(self, argument, word):
        with pytest.raises(ConfigError, match=word) as caught:
            read_model("transformers", argument)
        assert specs.EXAMPLES["transformers"] in str(caught.value)

    def test_roles_of_transformers_get_base_and_adapter(self, monkeypatch, tmp_path):
        made = []

        class Backend:
            concurrency = 1

            def __init__(self, model, adapter=None, *, deadline_s=None):
                made.append((model, adapter, deadline_s))
                self.name = "x"

        monkeypatch.setattr("controllers.backends.transformers.TransformersBackend", Backend)
        load("transformers", f"qwen3-vl-2b+{tmp_path}", "qwen3-vl-2b", deadline_s=9.0)
        hub = "Qwen/Qwen3-VL-2B-Instruct"
        assert made == [(hub, str(tmp_path), 9.0), (hub, None, 9.0)]


class TestScripted:
    def test_roles_of_one_file_use_its_lines_up_together(self, tmp_path):
        path = tmp_path / "replies.jsonl"
        path.write_text('{"reply": {}}\n', encoding="utf-8")
        left, right = load("scripted", str(path), str(path))
        assert left._backend is right._backend
        assert left.name == "scripted/replies"

    def test_the_example_works(self, tmp_path):
        path = tmp_path / "replies.jsonl"
        path.write_text(scripted.EXAMPLE, encoding="utf-8")
        controller, _ = load("scripted", str(path), None)
        assert [reply.value for reply in controller.gate([samples.gate()] * 2)] == [1, None]

    def test_a_home_folder_is_filled_in(self, tmp_path, monkeypatch):
        monkeypatch.setenv("HOME", str(tmp_path))
        (tmp_path / "replies.jsonl").write_text("", encoding="utf-8")
        assert load("scripted", None, "~/replies.jsonl")[1].name == "scripted/replies"


def test_nothing_heavy_is_imported_before_it_is_used(monkeypatch):
    heavy = {"openai", "torch", "transformers", "peft", "httpx2", "vllm"}
    real = builtins.__import__

    def watched(name, *arguments, **more):
        assert name.partition(".")[0] not in heavy, f"{name} is heavy"
        return real(name, *arguments, **more)

    monkeypatch.setattr(builtins, "__import__", watched)
    for module in ("specs", "openai", "chat_server", "vllm", "scripted", "fake_server"):
        spec = importlib.util.find_spec(f"controllers.backends.{module}")
        spec.loader.exec_module(importlib.util.module_from_spec(spec))
    pair = load("openai", f"{URL}#a", f"{URL}#b")
    assert all(pair)
