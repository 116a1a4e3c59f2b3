"""The model card: what was trained, on what, how good it is, what it is not, and how to serve it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from training.export.serving import Serving

ROLES = {
    "memory_controller": "memory controller (derive, update, gate)",
    "tree_organizer": "tree organizer (place, merge, split_lift, consolidate, select)",
}


@dataclass(frozen=True)
class Facts:
    """What a card is made of.

    Attributes:
        record: `run.json` of the run.
        base: hub name or last part of the folder of the base.
        base_fingerprint: of its weights, empty where they are on the hub.
        fingerprint: of the adapter, or of all weights.
        lora: whether an adapter was trained.
        merged: whether merged weights lie beside it.
        serving: commands by the name of what they serve, "adapter" or "merged".
        data: the card of the demonstrations as Markdown, empty where it was not given.
        table: the table of an evaluation as Markdown, empty where there is none.
    """

    record: Mapping[str, Any]
    base: str
    base_fingerprint: str
    fingerprint: str
    lora: bool
    merged: bool
    serving: Mapping[str, Serving]
    data: str = ""
    table: str = ""


def model_card(facts: Facts) -> str:
    """Return the card as Markdown."""
    sections = (_head, _data, _training, _evaluation, _serving, _limits, _licence)
    return "\n\n".join("\n".join(section(facts)) for section in sections) + "\n"


def _head(facts: Facts) -> Iterator[str]:
    kind = "LoRA adapter" if facts.lora else "full weights"
    yield f"# {ROLES[facts.record['role']].split(' (')[0].capitalize()} on {facts.base}"
    yield ""
    yield f"- fills: the {ROLES[facts.record['role']]} of epimem"
    yield f"- base: {facts.base}{_short(facts.base_fingerprint)}"
    yield f"- kind: {kind}{', merged weights beside it' if facts.lora and facts.merged else ''}"
    yield f"- weights: safetensors{_short(facts.fingerprint)}"
    yield f"- prompt version: {facts.record['prompts']}; it was trained on these prompts and no others"
    accuracy = facts.record["result"].get("accuracy")
    if accuracy is not None:
        yield f"- accuracy on the split dev, at the checkpoint that was kept: {accuracy:.3f}"


def _data(facts: Facts) -> Iterator[str]:
    yield "## Data"
    yield ""
    if facts.data:
        # The card of the set is a page of its own; here it stands a step lower.
        lines = facts.data.strip().splitlines()[2:]
        yield from (f"#{line}" if line.startswith("#") else line for line in lines)
        return
    yield "The card of the demonstrations was not at hand when this was exported."


def _training(facts: Facts) -> Iterator[str]:
    yield "## Training"
    yield ""
    yield "`epimem train sft`, the loss on the reply alone, with these settings:"
    yield ""
    yield "```json"
    yield json.dumps(facts.record["config"], indent=1, sort_keys=True)
    yield "```"
    versions = facts.record.get("versions") or {}
    if versions:
        yield ""
        yield (
            "Versions: " + ", ".join(f"{name} {it}" for name, it in sorted(versions.items())) + "."
        )


def _evaluation(facts: Facts) -> Iterator[str]:
    yield "## Evaluation"
    yield ""
    yield facts.table.rstrip() or "Not evaluated: no report was given when this was exported."


def _serving(facts: Facts) -> Iterator[str]:
    yield "## Serving"
    yield ""
    yield (
        "Run these in the folder of this card. `BASE` stands for the folder of the base where it is no "
        "name of the hub. There are three ways: the model in the process of epimem (first line), a "
        "server that epimem starts and stops (second), or a server of your own (third) and epimem on "
        "it (fourth)."
    )
    for name, commands in facts.serving.items():
        yield ""
        yield {"adapter": "The adapter:", "merged": "Merged weights:"}[name]
        yield ""
        yield "```sh"
        yield commands.transformers
        yield commands.vllm
        yield commands.server
        yield commands.openai
        yield "```"


def _limits(facts: Facts) -> Iterator[str]:
    yield "## Limits"
    yield ""
    yield "- It answers the prompts of epimem of the version above, and is of no use as a chat model."
    yield "- Replies are proposals: epimem checks each one and refuses what is unlawful."
    yield "- What it learnt is what its teacher said, mistakes included; see the data above."
    yield "- It was measured on held-out groups of the same sources, not on sources of another kind."
    if not facts.table:
        yield "- Nothing is known of its quality beyond the line on the split dev."


def _licence(facts: Facts) -> Iterator[str]:
    yield "## Licence"
    yield ""
    yield (
        f"The licence of {facts.base} holds for merged weights, and may bind the adapter too; so may "
        "the licences of the data sources and the terms of the teacher named above. Read them before "
        "you pass this on."
    )


def _short(fingerprint: str) -> str:
    return f", fingerprint {fingerprint[:12]}" if fingerprint else ""
