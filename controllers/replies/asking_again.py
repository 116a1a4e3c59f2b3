"""The one re-ask: the conversation so far, the reply as it came, and what was wrong with it."""

from __future__ import annotations

from dataclasses import replace

from controllers.prompts.fence import cut, defused
from controllers.prompts.message import Message, Prompt, Refused, Text
from controllers.replies.sections import instructions

# Of the reply that is quoted back, and of what was wrong with it (ours).
QUOTED_CHARS = 1500
DETAIL_CHARS = 400


def in_sections(prompt: Prompt) -> Prompt:
    """Return a prompt that asks for sections from the start; no backend may constrain it to JSON."""
    last = prompt.messages[-1]
    asked = Message(last.role, (*last.parts, Text(instructions(prompt.schema))))
    return replace(prompt, messages=(*prompt.messages[:-1], asked), schema={})


def again(prompt: Prompt, reply: str, refused: Refused, *, sections: bool) -> Prompt:
    """Return the prompt that asks once more.

    Args:
        prompt: as it was first rendered, for JSON.
        reply: what came.
        refused: why it was of no use; quoted.
        sections: ask for sections, without JSON.
    """
    wrong = f"That reply cannot be used: {cut(refused.detail, DETAIL_CHARS)}."
    if sections:
        asked = f"{wrong}\n{instructions(prompt.schema)}"
    else:
        fields = ", ".join(prompt.schema["properties"])
        asked = f"{wrong}\nReply again with one JSON object and nothing else. Its fields: {fields}."
    quoted = defused(cut(reply, QUOTED_CHARS)).strip() or "(nothing)"
    messages = (
        *prompt.messages,
        Message("assistant", (Text(quoted),)),
        Message("user", (Text(asked),)),
    )
    return replace(prompt, messages=messages, schema={} if sections else prompt.schema)
