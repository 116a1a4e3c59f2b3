"""Runs one session of DeepSeek Harness in an interpreter that has its SDK; imports nothing of ours.

    python dsh_driver.py session.json

Prints one line of JSON: the answer, and why the last turn ended.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any


def main(path: str) -> None:
    """Run the session that a file describes."""
    from deepseek_harness import DeepSeekHarness

    spec: dict[str, Any] = json.loads(Path(path).read_text("utf-8"))
    with DeepSeekHarness(**spec["harness"]) as harness:
        done = harness.run(spec["input"], session_id=spec["session"])
    print(json.dumps({"answer": done.final_response, "reason": done.finish_reason}))  # noqa: T201


if __name__ == "__main__":
    main(sys.argv[1])
