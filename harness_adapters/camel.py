"""CAMEL as a harness: one agent, one question, in an interpreter that has CAMEL.

CAMEL needs an older MCP SDK than our server, so it lives in an environment of its own.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping

from epimem.errors import ControllerError
from harness_adapters import camel_driver
from harness_adapters.camel_records import CamelImporter
from harness_adapters.harness import Asked, Solved
from harness_adapters.processes import ended

SYSTEM = "You solve the question that you are asked."


class Camel:
    """Runs a `ChatAgent` on one question.

    Args:
        endpoint: base URL of a server of Chat Completions.
        model: its name there.
        key_env: the variable that holds its key.
        system: what the agent is told to be.
        python: an interpreter that has CAMEL.
        env: added to the environment.
        timeout_s: of one question.
    """

    name = "camel"

    def __init__(
        self,
        *,
        endpoint: str,
        model: str,
        key_env: str = "OPENAI_API_KEY",
        system: str = SYSTEM,
        python: str = sys.executable,
        env: Mapping[str, str] | None = None,
        timeout_s: float = 1800,
    ) -> None:
        self.importer = CamelImporter()
        self._endpoint = endpoint
        self._model = model
        self._key_env = key_env
        self._system = system
        self._python = python
        self._env = dict(env or {})
        self._timeout_s = timeout_s

    def solve(self, asked: Asked) -> Solved:
        """Run one agent; see `Harness.solve`."""
        log, spec = asked.folder / "agent.camel.jsonl", asked.folder / "session.json"
        told = {
            "endpoint": self._endpoint,
            "model": self._model,
            "key": self._env.get(self._key_env) or os.environ.get(self._key_env) or "none",
            "system": self._system,
            "prompt": asked.prompt,
            "pictures": [str(path) for path in asked.pictures],
            "log": str(log),
        }
        spec.touch(0o600)  # it holds the key
        spec.write_text(json.dumps(told), "utf-8")
        try:
            done = ended(
                [self._python, "-P", camel_driver.__file__, str(spec)],
                cwd=asked.folder,
                env=self._env,
                timeout_s=self._timeout_s,
                log=asked.folder / "camel.log",
            )
        finally:
            spec.unlink()
        if done.returncode or not log.is_file():
            raise ControllerError(
                f"CAMEL ended with status {done.returncode}", hint=str(asked.folder / "camel.log")
            )
        said = json.loads(done.stdout.splitlines()[-1])
        return Solved(said["answer"], log, said["reason"])
