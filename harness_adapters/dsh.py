"""DeepSeek Harness as a harness, through its Python SDK in an interpreter of its own.

The SDK lives where `python` says (the package is `deepseek-harness-sdk`; others of a like name are
somebody else's). Each run gets a fresh home, so that no session knows of another.
"""

from __future__ import annotations

import base64
import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from epimem.errors import ControllerError
from harness_adapters import dsh_driver
from harness_adapters.dsh_session import DshSessionImporter
from harness_adapters.harness import Asked, Solved
from harness_adapters.processes import ended

SESSION = "epimem"
SHUTDOWN_S = 60.0
KINDS = {".png": "image/png", ".jpg": "image/jpeg", ".jpeg": "image/jpeg", ".webp": "image/webp"}
# Parts that send a session and the list of plugins along with each request.
_TELL_ALL = ("session-log-deepseek", "plugin-package-inventory-deepseek")


class Dsh:
    """Runs one session of the SDK.

    Args:
        provider: a route of the harness's configuration, or the name for `endpoint`.
        model: of that route; it has to take images for crops to be seen.
        endpoint: base URL of a server of Chat Completions, added as the route `provider`.
        key_env: the variable that holds its key.
        python: an interpreter that has the SDK.
        env: added to the environment.
        timeout_s: of one session.
    """

    name = "dsh"

    def __init__(
        self,
        *,
        provider: str = "deepseek-official",
        model: str = "",
        endpoint: str | None = None,
        key_env: str = "DEEPSEEK_API_KEY",
        python: str = sys.executable,
        env: Mapping[str, str] | None = None,
        timeout_s: float = 1800,
    ) -> None:
        self.importer = DshSessionImporter()
        self._provider = provider
        self._model = model
        self._endpoint = endpoint
        self._key_env = key_env
        self._python = python
        self._env = dict(env or {})
        self._timeout_s = timeout_s

    def solve(self, asked: Asked) -> Solved:
        """Run one session; see `Harness.solve`."""
        home = asked.folder / "home"
        home.mkdir(exist_ok=True)
        patch, spec = asked.folder / "patch.yml", asked.folder / "session.json"
        patch.write_text(json.dumps(self._patch()), "utf-8")  # JSON is YAML as well
        spec.write_text(json.dumps(self._spec(asked, home, patch)), "utf-8")
        done = ended(
            [self._python, "-P", dsh_driver.__file__, str(spec)],
            cwd=asked.folder,
            env=self._env,
            timeout_s=self._timeout_s,
            log=asked.folder / "dsh.log",
        )
        log = next(home.glob(f"sessions/*/{SESSION}/session.v*.jsonl"), None)
        if done.returncode or log is None:
            raise ControllerError(
                f"the SDK ended with status {done.returncode}", hint=str(asked.folder / "dsh.log")
            )
        told = json.loads(done.stdout.splitlines()[-1])
        completed = told["reason"] == "completed"
        return Solved(told["answer"] if completed else None, log, told["reason"] or "")

    def _patch(self) -> list[dict[str, Any]]:
        rows: list[dict[str, Any]] = [{"id": name, "disabled": True} for name in _TELL_ALL]
        if self._endpoint is not None:
            model = {
                "id": self._model,
                "contextWindow": 128_000,
                "maxTokens": 8192,
                "input": ["text", "image"],
            }
            route = {
                "api": "openai-completions",
                "baseURL": self._endpoint,
                "apiKeyEnv": self._key_env,
                "models": [model],
            }
            entry = {
                "id": "epimem-route",
                "name": "@deepseek-ai/dsh-llm-pi-ai",
                "config": {"providers": {self._provider: route}},
            }
            rows.append({"insert": [entry]})
        return rows

    def _spec(self, asked: Asked, home: Path, patch: Path) -> dict[str, Any]:
        pictures = [
            {
                "type": "image",
                "mimeType": KINDS.get(path.suffix.lower(), "image/png"),
                "data": base64.b64encode(path.read_bytes()).decode("ascii"),
            }
            for path in asked.pictures
        ]
        return {
            "harness": {
                "dsh_home": str(home),
                "cwd": str(asked.folder),
                "profile": "sdk-minimal",
                "patches": [str(patch)],
                "provider": self._provider,
                "model": self._model,
                # The log is flushed when the runtime ends; it is killed after a second otherwise.
                "shutdown_timeout_seconds": SHUTDOWN_S,
            },
            "session": SESSION,
            "input": [*pictures, {"type": "text", "text": asked.prompt}],
        }
