"""Stands for a Python that has vLLM: takes its arguments, serves a minimum, notes what it got.

Standard library alone, so that it starts at once.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path


class Handler(BaseHTTPRequestHandler):
    names = ()

    def do_GET(self):
        self.answer({"data": [{"id": name} for name in self.names]})

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        message = {"role": "assistant", "content": body["model"]}
        self.answer({"model": body["model"], "choices": [{"message": message}]})

    def answer(self, value):
        data = json.dumps(value).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_):
        pass


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("-m", dest="module")
    for name in ("model", "host", "served-model-name", "max-model-len", "max-lora-rank"):
        parser.add_argument(f"--{name}")
    parser.add_argument("--port", type=int)
    parser.add_argument("--lora-modules", nargs="*", default=[])
    parser.add_argument("--note", type=Path)
    parser.add_argument("--mode", default="serve", choices=("serve", "die", "never", "stubborn"))
    given, _ = parser.parse_known_args()
    # Engines of the real one are processes of their own. A shell cannot trap what it was told to ignore.
    trap = 'trap ": > $0; exit" TERM; sleep 600 & wait'
    engine = subprocess.Popen(["sh", "-c", trap, str(given.note.with_suffix(".asked"))])
    note = {"argv": sys.argv[1:], "environment": dict(os.environ), "engine": engine.pid}
    given.note.write_text(json.dumps(note | {"pid": os.getpid()}), encoding="utf-8")
    sys.stdout.write("loading the weights\n")
    sys.stdout.flush()
    if given.mode == "die":
        sys.exit("no such model")
    if given.mode == "stubborn":
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    if given.mode == "never":
        threading.Event().wait()
    Handler.names = (
        given.served_model_name,
        *(json.loads(it)["name"] for it in given.lora_modules),
    )
    ThreadingHTTPServer((given.host, given.port), Handler).serve_forever()


main()
