"""A vLLM server of our own: started with one base and its adapters, stopped with the last backend.

The server listens on this machine only, behind a random key, in a process group of its own under
`guard`, so that nothing is left of it when this process ends, is killed or crashes.

Environment: `EPIMEM_VLLM_PYTHON` names the Python that has vLLM (this one unless given), and
`EPIMEM_VLLM_ARGS` holds further arguments of the server, which win over those given here.
"""

from __future__ import annotations

import atexit
import json
import os
import secrets
import shlex
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from controllers.backends.base import Completion
from controllers.backends.chat_server import ChatServer, Limits
from controllers.backends.openai import OpenAIBackend
from controllers.prompts.message import Prompt
from epimem.errors import ConfigError, ControllerError

LOOPBACK = "127.0.0.1"
START_S = 900.0  # loading weights from a slow disk takes minutes (ours)
BEAT_S = 10.0
STOP_S = 15.0
CONTEXT = (
    32_768  # tokens; a model's own limit may need more memory for its cache than there is (ours)
)
RANKS = (8, 16, 32, 64, 128, 256, 320, 512)  # what the server takes for --max-lora-rank
BASE = "base"
GUARD = Path(__file__).with_name("guard.py")


def command(
    python: str, base: str, adapters: Mapping[str, Path], port: int, more: Sequence[str]
) -> list[str]:
    """Return the command of the server; `adapters` maps served names to folders.

    Raises:
        ConfigError: an adapter has no readable settings.
    """
    result = [
        python,
        "-m",
        "vllm.entrypoints.openai.api_server",
        *("--model", base, "--served-model-name", BASE),
        *("--host", LOOPBACK, "--port", str(port)),
        *("--max-model-len", str(context(base))),
        # White space without end is lawful JSON, and small models write it.
        *("--structured-outputs-config", '{"backend":"xgrammar","disable_any_whitespace":true}'),
    ]
    if adapters:
        rank = max(adapter_rank(folder) for folder in adapters.values())
        modules = [
            json.dumps({"name": name, "path": str(folder)}) for name, folder in adapters.items()
        ]
        result += ["--enable-lora", "--max-loras", str(len(adapters))]
        result += ["--max-lora-rank", str(next(size for size in RANKS if size >= rank))]
        result += ["--lora-modules", *modules]
    return [*result, *more]


def context(base: str) -> int:
    """Return the tokens of context to serve: `CONTEXT`, or what the model in a folder has, if fewer."""
    try:
        config = json.loads((Path(base) / "config.json").read_text(encoding="utf-8"))
        own = int(config.get("text_config", config)["max_position_embeddings"])
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return CONTEXT
    return min(own, CONTEXT) if own > 0 else CONTEXT


def adapter_rank(folder: Path) -> int:
    """Return the largest rank of a LoRA adapter.

    Raises:
        ConfigError: the folder holds no LoRA adapter, or one of a rank beyond what the server takes.
    """
    try:
        settings = json.loads((folder / "adapter_config.json").read_text(encoding="utf-8"))
        rank = max([int(settings["r"]), *map(int, (settings.get("rank_pattern") or {}).values())])
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        raise ConfigError(
            "not a LoRA adapter: no adapter_config.json with a rank",
            got=folder.name,
            hint="name a folder that PEFT saved",
        ) from None
    if not 0 < rank <= RANKS[-1]:
        raise ConfigError("no adapter of this rank can be served", got=rank, limit=RANKS[-1])
    return rank


class VllmServer:
    """A running server; `chat` talks to it.

    Args:
        base: a folder or a name of the hub.
        adapters: served name -> folder.
        limits: bounds of the calls.
        start_s: the longest that the start may take, seconds.
        tell: told in words how the start goes on.

    Raises:
        ConfigError: an adapter is none.
        ControllerError: `model_failed`: it ended, or was not ready in time; the hint names its log.
    """

    def __init__(
        self,
        base: str,
        adapters: Mapping[str, Path],
        *,
        limits: Limits | None = None,
        start_s: float = START_S,
        tell: Callable[[str], None] = lambda _: None,
    ) -> None:
        python = os.environ.get("EPIMEM_VLLM_PYTHON") or sys.executable
        more = shlex.split(os.environ.get("EPIMEM_VLLM_ARGS", ""))
        port = _free_port()
        line = command(python, base, adapters, port, more)
        key = secrets.token_urlsafe(32)
        self._address = f"http://{LOOPBACK}:{port}"
        self.chat = ChatServer(
            f"{self._address}/v1",
            key=key,
            limits=limits,
            # Thoughts before the reply would use up its tokens, and a schema leaves no room for them.
            extra={"chat_template_kwargs": {"enable_thinking": False}},
        )
        self._lock = threading.Lock()
        self._users = 0
        self._folder = Path(tempfile.mkdtemp(prefix="epimem-vllm-"))
        self.log = self._folder / "server.log"
        self._process: subprocess.Popen[bytes] | None = _start(line, key, self.log)
        atexit.register(self.stop)
        try:
            self._wait(key, (*adapters, BASE), start_s, tell)
        except BaseException:
            self.stop(keep_log=True)
            raise

    @property
    def pid(self) -> int | None:
        """Process group of the server; None once it is stopped."""
        return None if self._process is None else self._process.pid

    def enter(self) -> None:
        """Count one more user."""
        with self._lock:
            self._users += 1

    def leave(self) -> None:
        """Count one user less; the last one stops the server."""
        with self._lock:
            self._users -= 1
            last = self._users == 0
        if last:
            self.stop()

    def stop(self, *, keep_log: bool = False) -> None:
        """Stop the server with all its processes; safe to call twice."""
        with self._lock:
            process, self._process = self._process, None
        if process is None:
            return
        atexit.unregister(self.stop)
        self.chat.close()
        _stop(process)
        if not keep_log:
            shutil.rmtree(self._folder, ignore_errors=True)

    def _wait(
        self, key: str, names: Sequence[str], start_s: float, tell: Callable[[str], None]
    ) -> None:
        start = time.monotonic()
        beat = start + BEAT_S
        while not _serves(self._address, key, names):
            now = time.monotonic()
            if self._process is None or self._process.poll() is not None:
                raise ControllerError(
                    "the vLLM server ended while it started", hint=f"its log: {self.log}"
                )
            if now - start > start_s:
                raise ControllerError(
                    "the vLLM server was not ready in time",
                    limit=start_s,
                    hint=f"its log: {self.log}",
                )
            if now > beat:
                tell(f"the vLLM server is starting, {now - start:.0f} s so far")
                beat += BEAT_S
            time.sleep(0.2)


class VllmBackend(OpenAIBackend):
    """The base of a server, or one adapter on it; the last backend to be closed stops the server."""

    def __init__(self, server: VllmServer, served: str, *, name: str) -> None:
        super().__init__(server.chat, served, name=name)
        self._vllm: VllmServer | None = server
        server.enter()

    def complete(self, prompts: Sequence[Prompt]) -> Sequence[Completion]:
        """Return one completion per prompt, in order.

        Raises:
            ControllerError: `model_failed`: the server is gone, or see `OpenAIBackend`.
        """
        if self._vllm is None or self._vllm.pid is None:
            raise ControllerError("the vLLM server of this controller was stopped")
        return super().complete(prompts)

    def close(self) -> None:
        """Leave the server."""
        server, self._vllm = self._vllm, None
        if server is not None:
            server.leave()


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind((LOOPBACK, 0))
        port: int = probe.getsockname()[1]
        return port


def _start(line: Sequence[str], key: str, log: Path) -> subprocess.Popen[bytes]:
    # The key goes by the environment, where other users of the machine cannot read it.
    environment = os.environ | {
        "VLLM_API_KEY": key,
        "VLLM_NO_USAGE_STATS": "1",
        "DO_NOT_TRACK": "1",
    }
    environment.pop("OPENAI_API_KEY", None)
    with log.open("wb") as sink:
        return subprocess.Popen(  # noqa: S603 - the command is ours
            [sys.executable, "-I", str(GUARD), *line],
            stdin=subprocess.PIPE,
            stdout=sink,
            stderr=subprocess.STDOUT,
            env=environment,
            start_new_session=True,
        )


def _stop(process: subprocess.Popen[bytes]) -> None:
    if process.stdin is not None:
        with suppress(OSError):
            process.stdin.close()
    try:
        process.wait(STOP_S)
    except subprocess.TimeoutExpired:
        with suppress(OSError):
            os.killpg(process.pid, 9)
        process.wait()


def _serves(address: str, key: str, names: Sequence[str]) -> bool:
    """Say whether the server is healthy and serves these models: so it is ours, not another's."""
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    request = urllib.request.Request(  # noqa: S310 - an address of our own
        f"{address}/v1/models", headers={"Authorization": f"Bearer {key}"}
    )
    try:
        with opener.open(f"{address}/health", timeout=5), opener.open(request, timeout=5) as reply:
            listed: Any = json.load(reply)
        return set(names) <= {model["id"] for model in listed["data"]}
    except (OSError, ValueError, KeyError, TypeError):
        return False
