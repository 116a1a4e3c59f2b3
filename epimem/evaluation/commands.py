"""Solvers and scorers that are other programs: they stay alive and speak JSON Lines.

One request a line on their standard input, one answer a line on their standard output, in order:

    solver  {"id": 7, "task": "q1", "question": "...", "images": ["/a.png"], "seed": 0,
             "memory": {"text": "...", "crops": ["/c.png"]}}         "memory": null where there is none
            {"id": 7, "answer": "...", "tokens_in": 900, "tokens_out": 40}         tokens may be left out
    scorer  {"id": 7, "task": "q1", "answer": "...", "reference": "..."}
            {"id": 7, "right": true}
    either  {"id": 7, "error": "..."}                                  this question failed, go on

The id is new in every request and comes back in its answer, so that no answer is taken for another's:
the same task is asked once for each arm and seed. The first request after a start comes twice, so that
loading a model is no cost of a question. Standard error is theirs. A program that ends, does
not answer in time or says something else is ended with its children and started anew for the next
question; five times in a row end the run.
"""

from __future__ import annotations

import os
import select
import shlex
import signal
import subprocess
import time
from contextlib import suppress
from typing import Any, ClassVar, Self

from epimem.errors import ConfigError, ControllerError, NotFoundError, RecordError
from epimem.evaluation.answers import SolverAnswer, SolverLostError
from epimem.evaluation.handout import Handout
from epimem.evaluation.tasks import PublicTask
from epimem.schema import strict_json

DEADLINE_S = 120.0
STARTUP_S = 600.0
IN_A_ROW = 5
MAX_LINE = 4 * 1024 * 1024
CLOSE_S = 5.0


class Command:
    """A program that answers one request at a time.

    Args:
        command: as typed in a shell, without one: `python solve.py --fast`.
        deadline_s: seconds for one answer.
        startup_s: seconds more for the first answer after a start, to load a model, say.

    Raises:
        ConfigError: the command is empty or cannot be split, or the program cannot be started.
        NotFoundError: there is no such program.
    """

    _role: ClassVar[str] = "command"

    def __init__(
        self,
        command: str,
        *,
        deadline_s: float = DEADLINE_S,
        startup_s: float = STARTUP_S,
    ) -> None:
        try:
            self._arguments = shlex.split(command)
        except ValueError as error:
            raise ConfigError(f"not a command: {error}", field=self._role, got=command) from error
        if not self._arguments:
            raise ConfigError("the command is empty", field=self._role)
        self._deadline_s, self._startup_s = deadline_s, startup_s
        self._process: subprocess.Popen[bytes] | None = None
        self._buffer = b""
        self._fresh = True
        self._failed = self._asked = 0
        self._started()

    def ask(self, request: dict[str, Any]) -> tuple[dict[str, Any], float]:
        """Send a request under a new id; return the answer that came back under it, and the seconds.

        Raises:
            ControllerError: this request failed.
            SolverLostError: it was one failure too many in a row, or it cannot be started again.
        """
        try:
            if self._fresh:
                self._exchange(request)
            started = time.perf_counter()
            answer = self._exchange(request)
            seconds = time.perf_counter() - started
        except ControllerError as error:
            self._end()
            self._failed += 1
            if self._failed >= IN_A_ROW:
                raise SolverLostError(
                    f"the {self._role} failed {self._failed} times in a row; the last time: "
                    f"{error.message}",
                    field=" ".join(self._arguments),
                    hint="mend it and run the same command again: it goes on where it stopped",
                ) from error
            raise
        self._failed = 0
        if "error" in answer:
            raise ControllerError(f"the {self._role} says: {answer['error']}")
        return answer, seconds

    def _exchange(self, request: dict[str, Any]) -> dict[str, Any]:
        self._asked += 1
        try:
            process = self._started()
        except (ConfigError, NotFoundError) as error:
            raise SolverLostError(error.message, field=error.field) from error
        allowed = self._deadline_s + (self._startup_s if self._fresh else 0.0)
        data = strict_json.dumps({"id": self._asked, **request}) + b"\n"
        line = self._talk(process, data, time.monotonic() + allowed)
        self._fresh = False
        shown = ascii(line[:80].decode("utf-8", "replace"))
        try:
            answer = strict_json.loads(line)
        except RecordError as error:
            raise ControllerError(
                f"the {self._role} printed a line that is no JSON: {shown}",
                hint="answers go to standard output, everything else to standard error",
            ) from error
        if not isinstance(answer, dict) or answer.get("id") != self._asked:
            raise ControllerError(f"the {self._role} answered something else: {shown}")
        return answer

    def _started(self) -> subprocess.Popen[bytes]:
        if self._process is not None:
            return self._process
        try:
            # A session of its own: Ctrl-C here is ours, and it can be ended with its children.
            self._process = subprocess.Popen(  # noqa: S603 - the user names the program
                self._arguments,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                bufsize=0,
                start_new_session=True,
            )
        except FileNotFoundError as error:
            raise NotFoundError(
                f"no such program: {self._arguments[0]}", field=self._role
            ) from error
        except OSError as error:
            raise ConfigError(
                f"{self._arguments[0]} cannot be started: {error.strerror}", field=self._role
            ) from error
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        for stream in (self._process.stdin, self._process.stdout):
            os.set_blocking(stream.fileno(), False)
        self._buffer, self._fresh = b"", True
        return self._process

    def _talk(self, process: subprocess.Popen[bytes], data: bytes, deadline: float) -> bytes:
        """Write a line and read one; both by the deadline, whichever side is slow."""
        assert process.stdin is not None
        assert process.stdout is not None
        into, out = process.stdin.fileno(), process.stdout.fileno()
        poll = select.poll()
        poll.register(out, select.POLLIN)
        poll.register(into, select.POLLOUT)
        left = memoryview(data)
        while True:
            line, found, rest = self._buffer.partition(b"\n")
            if found and not left:
                self._buffer = rest
                return line
            if found or len(self._buffer) > MAX_LINE:
                raise ControllerError(
                    f"the {self._role} printed what was not asked for",
                    hint="one line an answer, nothing else, on standard output",
                )
            remaining = deadline - time.monotonic()
            if remaining <= 0:
                raise ControllerError(f"the {self._role} did not answer in time")
            for descriptor, _ in poll.poll(min(remaining, 1.0) * 1000):
                if descriptor == out:
                    self._read(process, out)
                elif left:
                    left = left[self._write(process, into, left) :]
            if not left:
                with suppress(KeyError):
                    poll.unregister(into)

    def _read(self, process: subprocess.Popen[bytes], descriptor: int) -> None:
        data = os.read(descriptor, 65536)
        if not data:
            raise self._gone(process)
        self._buffer += data

    def _write(self, process: subprocess.Popen[bytes], descriptor: int, left: memoryview) -> int:
        try:
            return os.write(descriptor, left)
        except BrokenPipeError:
            raise self._gone(process) from None

    def _gone(self, process: subprocess.Popen[bytes]) -> ControllerError:
        with suppress(subprocess.TimeoutExpired):
            process.wait(CLOSE_S)
        status = process.returncode
        how = "closed its output" if status is None else f"ended with status {status}"
        if status is not None and status < 0:
            how = f"was ended by {signal.Signals(-status).name}"
        return ControllerError(f"the {self._role} {how}")

    def _end(self) -> None:
        """End the program and its children, at once."""
        process, self._process = self._process, None
        self._fresh = True
        if process is None:
            return
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        for stream in (process.stdin, process.stdout):
            if stream is not None:
                stream.close()

    def close(self) -> None:
        """Close its input, so that it can end by itself; end it after five seconds."""
        if self._process is not None and self._process.stdin is not None:
            self._process.stdin.close()
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(CLOSE_S)
        self._end()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *exc: object) -> None:
        if kind is None:
            self.close()
        else:  # whoever interrupts a run does not want to wait for the program
            self._end()


class CommandSolver(Command):
    """A solver that is a program; see the module for what it reads and writes."""

    _role: ClassVar[str] = "solver"

    def __call__(self, task: PublicTask, memory: Handout | None, seed: int, /) -> SolverAnswer:
        """Ask it one question."""
        given = None
        if memory is not None:
            given = {"text": memory.text, "crops": [str(path.resolve()) for path in memory.crops]}
        answer, seconds = self.ask(
            {
                "task": task.id,
                "question": task.question,
                "images": list(task.images),
                "seed": seed,
                "memory": given,
            }
        )
        text, tokens = answer.get("answer"), [answer.get(f"tokens_{way}") for way in ("in", "out")]
        if not isinstance(text, str) or not all(map(_is_count, tokens)):
            raise ControllerError(
                "the solver's answer is no answer",
                hint='{"id": ..., "answer": text}, with tokens_in and tokens_out as whole numbers',
            )
        return SolverAnswer(text, tokens[0], tokens[1], seconds)


class CommandScorer(Command):
    """A scorer that is a program; see the module for what it reads and writes."""

    _role: ClassVar[str] = "scorer"

    def __call__(self, task: PublicTask, answer: str, reference: str, /) -> bool:
        """Have it judge one answer."""
        request = {"task": task.id, "answer": answer, "reference": reference}
        said = self.ask(request)[0].get("right")
        if not isinstance(said, bool):
            raise ControllerError(
                "the scorer's answer is no judgement", hint='{"id": ..., "right": true}'
            )
        return said


def _is_count(value: Any) -> bool:
    return value is None or (isinstance(value, int) and not isinstance(value, bool) and value >= 0)
