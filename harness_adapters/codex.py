"""Codex CLI as a harness: `codex exec` with the memory before the question.

The question's images go in by `-i`, the crops of the memory after them. Codex keeps its own
configuration; what is given here is laid over it for one session.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from epimem.errors import ControllerError
from harness_adapters.codex_rollout import CodexRolloutImporter
from harness_adapters.harness import Asked, Solved
from harness_adapters.processes import ended

ANSWER = "answer.txt"


class Codex:
    """Runs `codex exec`.

    Args:
        program: the binary.
        home: its home; that of the environment where None.
        overrides: laid over its configuration, each `key=value` with a TOML value.
        env: added to the environment.
        timeout_s: of one session.
    """

    name = "codex"

    def __init__(
        self,
        *,
        program: str = "codex",
        home: Path | None = None,
        overrides: Sequence[str] = (),
        env: Mapping[str, str] | None = None,
        timeout_s: float = 1800,
    ) -> None:
        self.importer = CodexRolloutImporter()
        self._program = program
        self._home = home or Path(os.environ.get("CODEX_HOME") or Path.home() / ".codex")
        self._overrides = tuple(overrides)
        self._env = dict(env or {})
        self._timeout_s = timeout_s

    def solve(self, asked: Asked) -> Solved:
        """Run one session; see `Harness.solve`."""
        answer = asked.folder / ANSWER
        words = [self._program, "exec", "--json", "--skip-git-repo-check", "-o", str(answer)]
        for override in self._overrides:
            words += ["-c", override]
        for path in asked.pictures:
            words += ["-i", str(path)]
        # Standard input is closed: Codex would read it and add it to the prompt.
        done = ended(
            [*words, "--", asked.prompt],
            cwd=asked.folder,
            env={**self._env, "CODEX_HOME": str(self._home)},
            timeout_s=self._timeout_s,
            log=asked.folder / "codex.log",
        )
        thread = _thread(done.stdout)
        log = next(self._home.glob(f"sessions/*/*/*/rollout-*-{thread}.jsonl"), None)
        if done.returncode or not thread or log is None:
            raise ControllerError(
                f"codex ended with status {done.returncode}", hint=str(asked.folder / "codex.log")
            )
        return Solved(answer.read_text("utf-8") if answer.is_file() else None, log)


def _thread(events: str) -> str:
    """Return the thread that a stream of events began."""
    for line in events.splitlines():
        try:
            event = json.loads(line)
        except ValueError:
            continue
        if isinstance(event, dict) and event.get("type") == "thread.started":
            return str(event.get("thread_id", ""))
    return ""
