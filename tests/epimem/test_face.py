"""The face of the package: its names, what importing it costs, its error codes, the README's code."""

from __future__ import annotations

import ast
import json
import re
import subprocess
import sys
import textwrap
from importlib.util import find_spec
from pathlib import Path

import pytest

import epimem
from epimem import errors

ROOT = Path(__file__).parents[2]
PACKAGES = ("epimem", "controllers", "harness_adapters", "training")
HEAVY = (
    "torch",
    "faiss",
    "onnxruntime",
    "sqlalchemy",
    "alembic",
    "PIL",
    "rich",
    "click",
    "numpy",
    "pydantic",
)
PUBLIC = (
    "Attempt",
    "Bank",
    "Budget",
    "Caller",
    "Config",
    "EpimemError",
    "Evidence",
    "ExperienceMemory",
    "IndexText",
    "LessonDraft",
    "MemoryInput",
    "Receipt",
    "RefineResult",
    "Region",
    "Run",
    "SealedOutcome",
    "WorkingMemory",
)


def in_a_fresh_process(code):
    """Run code in a new interpreter; return what its last line of output says as JSON."""
    command = [sys.executable, "-c", textwrap.dedent(code)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


# -- names -------------------------------------------------------------------------------------------


def test_the_public_names_are_these_sorted_and_importable():
    assert tuple(epimem.__all__) == PUBLIC
    assert tuple(sorted(epimem._HOMES)) == PUBLIC
    for name in PUBLIC:
        found = getattr(epimem, name)
        assert found.__name__ == name
        assert found.__module__ == epimem._HOMES[name]
        assert found.__doc__
    assert set(PUBLIC) <= set(dir(epimem))


def test_type_checkers_see_the_same_names_as_programs():
    tree = ast.parse((ROOT / "epimem" / "__init__.py").read_text(encoding="utf-8"))
    (block,) = [node for node in tree.body if isinstance(node, ast.If)]
    seen = {
        alias.name: node.module
        for node in block.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    assert seen == epimem._HOMES


def test_a_name_that_is_not_public_is_an_attribute_error():
    with pytest.raises(AttributeError, match="has no attribute 'Tree'"):
        _ = epimem.Tree
    with pytest.raises(ImportError):
        exec("from epimem import Journal")


# -- what importing costs ----------------------------------------------------------------------------


def test_importing_the_package_loads_nothing_heavy():
    loaded = in_a_fresh_process("import epimem, json, sys; print(json.dumps(sorted(sys.modules)))")
    found = {name.split(".")[0] for name in loaded}
    assert found & set(HEAVY) == set()
    assert {name for name in loaded if name.startswith("epimem")} == {"epimem"}


def test_the_facade_loads_no_model_image_or_drawing_library():
    code = """
        import json, sys
        from epimem import ExperienceMemory, LessonDraft
        heavy = ("torch", "faiss", "onnxruntime", "transformers", "PIL", "rich", "click", "alembic")
        print(json.dumps([name for name in heavy if name in sys.modules]))
    """
    assert in_a_fresh_process(code) == []


# Run by something else: as a program, in a child process, inside a migration.
NO_MODULES = {"__main__", "decode_child", "env"}


def modules():
    for package in PACKAGES:
        for path in sorted((ROOT / package).rglob("*.py")):
            parts = path.relative_to(ROOT).with_suffix("").parts
            if parts[-1] not in NO_MODULES:
                yield ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def test_no_import_opens_a_socket_starts_a_process_or_writes_a_file(tmp_path):
    names = list(modules())
    assert len(names) > 80
    code = f"""
        import importlib, json, os, sys
        sys.dont_write_bytecode = True
        calls = []
        def watch(event, arguments):
            if event.startswith(("socket.", "subprocess.", "os.exec", "os.fork", "os.system")):
                calls.append(event)
            if event == "open" and isinstance(arguments[1], str) and set(arguments[1]) & set("wax+"):
                calls.append(f"open {{arguments[0]}}")
        # Libraries may look for what they find on this machine; ours may not.
        import sqlalchemy, alembic, faiss, numpy, PIL.Image, rich.console, click, platformdirs
        sys.addaudithook(watch)
        os.chdir({str(tmp_path)!r})
        sys.path.insert(0, {str(ROOT)!r})
        for name in {names!r}:
            importlib.import_module(name)
        print(json.dumps(calls))
    """
    assert in_a_fresh_process(code) == []
    assert list(tmp_path.iterdir()) == []


# -- error codes -------------------------------------------------------------------------------------


def raised_codes():
    """Yield (file, code) for every code that stands in a call of an error, and every default."""
    for package in PACKAGES:
        for path in sorted((ROOT / package).rglob("*.py")):
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                if isinstance(node, ast.Call) and _called(node).endswith("Error"):
                    for keyword in node.keywords:
                        if keyword.arg == "code":
                            yield from ((path.name, code) for code in _texts(keyword.value))
                if isinstance(node, ast.AnnAssign) and _target(node) == "default_code":
                    yield path.name, node.value.value
                if isinstance(node, ast.Assign) and _target(node) == "default_code":
                    yield path.name, node.value.value


def _called(node):
    return getattr(node.func, "id", getattr(node.func, "attr", ""))


def _target(node):
    return getattr(getattr(node, "target", None) or node.targets[0], "id", "")


def _texts(value):
    """Return the texts that an expression can be where it is a constant or a choice of two."""
    if isinstance(value, ast.IfExp):
        return [*_texts(value.body), *_texts(value.orelse)]
    return [value.value] if isinstance(value, ast.Constant) and value.value is not None else []


def test_every_code_that_is_raised_has_its_exit_status():
    found = set(raised_codes())
    assert len({code for _, code in found}) > 20, "the walk finds them"
    assert {(file, code) for file, code in found if code not in errors.EXIT_CODES} == set()


def test_every_error_class_has_a_code_of_the_table_and_one_shape():
    classes = [errors.EpimemError]
    for kind in classes:
        classes += kind.__subclasses__()
    assert len(classes) >= 15
    for kind in classes:
        fault = kind("what", field="where", got="a\u202eb" * 40, limit=3, hint="do")
        assert fault.code == kind.default_code
        assert fault.exit_code == errors.EXIT_CODES[kind.default_code]
        body = fault.as_dict()["error"]
        assert set(body) == {"code", "message", "field", "limit", "got", "hint"}
        assert len(body["got"]) <= 40
        assert str(fault).isascii()
        assert kind.__doc__
    assert errors.RETRYABLE - errors.EXIT_CODES.keys() == set()


def test_a_fault_that_was_told_is_raised_as_what_it_was():
    for code in errors.EXIT_CODES.keys() - {"internal", "tree_limit"}:
        kind = next(kind for kind, codes in errors._KINDS if code in codes)
        fault = kind("what", code=code, field="where", got=3, limit=2, hint="do")
        again = errors.fault_of(fault.as_dict(), "lost")
        assert (type(again), str(again)) == (kind, str(fault))
    for rubbish in ({}, {"error": 1}, {"error": {"code": ["x"]}}, {"error": {"code": "new"}}):
        assert type(errors.fault_of(rubbish, "lost")) is errors.EpimemError
    assert str(errors.fault_of({}, "lost")) == "internal: lost"


def test_the_table_in_the_docstring_names_every_code():
    for code in errors.EXIT_CODES.keys() - {"internal", "tree_limit"}:
        assert code in errors.__doc__, code


# -- the README --------------------------------------------------------------------------------------


def readme():
    path = ROOT / "README.md"
    return path.read_text(encoding="utf-8") if path.exists() else ""


def test_the_python_of_the_readme_runs(tmp_path, monkeypatch):
    blocks = re.findall(r"^```python\n(.*?)^```$", readme(), flags=re.MULTILINE | re.DOTALL)
    if not blocks:
        pytest.skip("the README shows no Python")
    if find_spec("onnxruntime") is None:
        pytest.skip("the extra [encoder] is not installed, and the README uses the default")
    monkeypatch.chdir(tmp_path)
    namespace = {"__name__": "readme"}
    for number, block in enumerate(blocks, 1):
        exec(compile(block, f"README.md, block {number}", "exec"), namespace)


def test_the_readme_names_only_commands_and_settings_that_exist():
    from epimem.cli.reference import commands as all_commands
    from epimem.config import Config

    commands = set(re.findall(r"(?<!from )\bepimem ([a-z][a-z-]+)\b", readme()))
    assert commands <= {name.split()[0] for name, _ in all_commands()}
    known = set()
    for name, value in Config().model_dump().items():
        known |= {f"{name}.{key}" for key in value} if isinstance(value, dict) else {name}
    _, _, section = readme().partition("\n## Settings\n")
    rows = re.findall(r"^\| (`.*?) \|", section.partition("\n## ")[0], flags=re.MULTILINE)
    for row in rows:
        first, *others = re.findall(r"`([a-z_.]+)`", row)
        prefix = first.rpartition(".")[0]
        assert first in known
        assert {key if key in known else f"{prefix}.{key}" for key in others} <= known
