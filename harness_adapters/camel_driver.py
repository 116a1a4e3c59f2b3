"""Runs one question through a CAMEL agent in an interpreter that has CAMEL; imports nothing of ours.

    python camel_driver.py session.json

Writes the agent's memory, record by record, as lines of JSON beside the session file, and prints
one line of JSON: the answer, and why it ended.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any


def main(path: str) -> None:
    """Run the session that a file describes."""
    from camel.agents import ChatAgent
    from camel.messages import BaseMessage
    from camel.models import ModelFactory
    from camel.types import ModelPlatformType
    from PIL import Image

    spec: dict[str, Any] = json.loads(Path(path).read_text("utf-8"))
    model = ModelFactory.create(
        model_platform=ModelPlatformType.OPENAI_COMPATIBLE_MODEL,
        model_type=spec["model"],
        url=spec["endpoint"],
        api_key=spec["key"],
        token_counter=_counter(),
    )
    agent = ChatAgent(system_message=spec["system"], model=model)
    pictures = [Image.open(picture) for picture in spec["pictures"]]
    asked = BaseMessage.make_user_message(
        role_name="User", content=spec["prompt"], image_list=pictures or None
    )
    done = agent.step(asked)
    head = {"model": spec["model"], "version": _version(), "usage": done.info.get("usage") or {}}
    records = [record.memory_record.to_dict() for record in agent.memory.retrieve()]
    lines = [head, *records]
    Path(spec["log"]).write_text(
        "".join(json.dumps(line, default=str) + "\n" for line in lines), "utf-8"
    )
    said = done.msgs[-1].content if done.msgs else None
    reasons = done.info.get("termination_reasons") or ["completed"]
    print(json.dumps({"answer": said, "reason": str(reasons[0])}))  # noqa: T201


def _version() -> str:
    from importlib.metadata import version

    return version("camel-ai")


def _counter() -> Any:
    """Return a counter of tokens that fetches nothing: CAMEL's own loads a file for unknown models."""
    from camel.utils import BaseTokenCounter

    class Counter(BaseTokenCounter):  # type: ignore[misc, no-any-unimported, unused-ignore]
        def count_tokens_from_messages(self, messages: Any) -> int:
            return len(json.dumps(messages, default=str)) // 4

        def encode(self, text: str) -> list[int]:
            return [*text.encode()]

        def decode(self, token_ids: list[int]) -> str:
            return bytes(token_ids).decode()

    return Counter()


if __name__ == "__main__":
    main(sys.argv[1])
