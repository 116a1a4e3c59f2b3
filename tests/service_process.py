"""A real server of a bank in a process of its own, for tests."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from epimem.memory import ExperienceMemory
from epimem.service.access import Grant, TokenFile, new_token, token_file

START_S = 60


@dataclass
class Server:
    """A running server."""

    url: str
    process: subprocess.Popen
    log: Path
    tokens: dict[str, str] = field(default_factory=dict)

    @property
    def port(self) -> int:
        return int(self.url.rpartition(":")[2])

    def stop(self, how: int = signal.SIGTERM) -> int:
        self.process.send_signal(how)
        return self.process.wait(30)

    def raw(self, data: bytes) -> bytes:
        """Send bytes as they are and return everything that comes back until the server closes."""
        with socket.create_connection(("127.0.0.1", self.port), timeout=10) as connection:
            connection.sendall(data)
            parts = []
            while part := connection.recv(65536):
                parts.append(part)
        return b"".join(parts)


def grant(bank: Path, name: str, *rights: str, **more: object) -> str:
    """Make a token; return it."""
    token = new_token()
    values = {
        "name": name,
        "sha256": "0" * 64,
        "contributor": name,
        "organisation": "local",
        "rights": list(rights),
        "writes_per_minute": 0,
        **more,
    }
    TokenFile(token_file(bank)).add(Grant.read(values), token)
    return token


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "epimem", *arguments]


@contextmanager
def serving(bank: Path, *options: str, log: Path) -> Iterator[Server]:
    """Serve a bank until the block ends."""
    with log.open("ab") as errors:
        process = subprocess.Popen(
            command("serve", str(bank), "--port", "0", *options),
            stdout=subprocess.PIPE,
            stderr=errors,
            env={**os.environ, "OMP_NUM_THREADS": "1"},
        )
    try:
        line = process.stdout.readline()
        assert line, log.read_text()
        yield Server(json.loads(line)["url"], process, log)
    finally:
        if process.poll() is None:
            process.terminate()
            try:
                process.wait(30)
            except subprocess.TimeoutExpired:
                process.kill()
        process.stdout.close()


def illustrated(memory: ExperienceMemory, png: bytes, *lessons: dict, namespace: str) -> list[str]:
    """Contribute lessons that all point to a corner of one image; return their ids."""
    image = memory.add_image(png)
    region = {"width": image.width, "height": image.height, "x0": 0, "y0": 0, "x1": 24, "y1": 16}
    found = []
    for lesson in lessons:
        evidence = [{"image_id": image.image_id, "region": region, "note": "the mark"}]
        receipt = memory.contribute({**lesson, "evidence": evidence}, namespace=namespace)
        found.append(receipt.id)
    return found


def environment(**more: str) -> dict[str, str]:
    return {**os.environ, "OMP_NUM_THREADS": "1", **more}
