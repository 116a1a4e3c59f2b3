"""Update: the memory of one question after an attempt: text, region, gate and stop together."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from controllers.prompts.conform import built, conform
from controllers.prompts.fence import cut
from controllers.prompts.material import BOX_RULE, DATA_RULE, Material, system
from controllers.prompts.message import Prompt, Refused
from controllers.prompts.schema import (
    BOX,
    NULL,
    STRING,
    Schema,
    closed,
    fields,
    listed,
    nullable,
    one_of,
    one_or_none,
)
from controllers.prompts.trace import TRACE_CHARS, aliases_of, shown_pages, transcript
from epimem.protocols import Picture, UpdateRequest
from epimem.schema.region import Region
from epimem.schema.run import Run
from epimem.schema.working_memory import Update, VisualEvidence, WorkingMemory

MAX_CAUTIONS = 4
QUESTION_CHARS = 3000
ANSWER_CHARS = 2000
MEMORY_CHARS = 2400
MAX_TOKENS = 800

_TEXTS = {
    "guidance": "<what to do in the next attempt>",
    "applies_when": "<when it holds>",
    "cautions": ["<what to watch out for>"],
}
_VISUAL = {
    "visual": "<one of the words above>",
    "image": "P0",
    "box": [0, 0, 0, 0],
    "note": "<what is seen there>",
    "gate": "<0 or 1>",
}
_STOP = {"stop": "<true or false>"}
EXAMPLE = {**_TEXTS, **_VISUAL, **_STOP}
TEXT_EXAMPLE = {**_TEXTS, **_STOP}
SYSTEM = f"""You keep the notes of a team of agents that tries one question several times.
After each attempt you see the question, its pages, the notes so far, the answer and what the agents \
did. Nobody tells you whether the answer is right: judge it from the pages.
Write the notes anew as a whole: guidance says what to do in the next attempt, applies_when its \
conditions, cautions what went wrong or is uncertain. Keep what still holds.
stop is true when the answer is ready to return, false when another attempt should follow.
{DATA_RULE}"""
_WORDS = {
    "retain": "retain (keep the evidence as it is, also when there is none)",
    "replace": "replace (point to a region: image, box and note)",
    "remove": "remove (drop the evidence)",
}


def render(request: UpdateRequest) -> Prompt:
    """Return the prompt for one attempt."""
    pages = _shown(request)
    material = Material()
    material.say(_shape(request))
    material.fence("question", [{"question": cut(request.question, QUESTION_CHARS)}])
    for name, picture in pages.items():
        material.picture(name, picture, f"page {picture.page or name[1:]} of the question")
    notes = _notes(request.memory, pages)
    material.fence("notes so far", notes)
    if not notes:
        material.say("There are no notes yet.")
    if request.crop is not None and request.visual != "none":
        material.picture("E1", request.crop, "the evidence that the notes hold")
    material.fence("what the agents did", _trace(request.trace, pages))
    material.fence("answer", [{"answer": cut(request.answer, ANSWER_CHARS)}])
    material.say(f"This was attempt {request.attempt}; {request.left} more may follow.")
    material.say("Return only the JSON object: the new notes as a whole, and stop.")
    return Prompt("update", (system(SYSTEM), material.message()), schema(request), MAX_TOKENS)


def schema(request: UpdateRequest) -> Schema:
    """Return the schema of a reply; in mode "none" it asks for text and stop alone."""
    pages = _shown(request)
    words = _words(request)
    texts = {"cautions": {"cautions": listed(STRING, most=MAX_CAUTIONS)}}
    if not words:
        asked = fields(Update, filled=("visual", "evidence", "gate"), changed=texts)
        return closed(asked)
    region = fields(
        VisualEvidence,
        changed={
            "image_id": {"image": one_or_none(tuple(pages) if "replace" in words else ())},
            "region": {"box": nullable(BOX) if "replace" in words else NULL},
        },
    )
    asked = fields(
        Update, changed={**texts, "visual": {"visual": one_of(words)}, "evidence": region}
    )
    return closed(asked)


def parse(request: UpdateRequest, reply: Mapping[str, Any]) -> Update:
    """Return the proposed revision.

    Raises:
        Refused: also `schema` where image, box and note do not go with "replace" and only with it;
            `image` for a box that is no region.
    """
    pages = _shown(request)
    example = EXAMPLE if _words(request) else TEXT_EXAMPLE
    found = conform(reply, schema(request), example=example, needed=("guidance",))
    visual = found.get("visual", "retain")
    region = (found.get("image"), found.get("box"))
    if visual == "replace" and None in region:
        raise Refused("schema", "visual replace needs image and box")
    if visual != "replace" and (region != (None, None) or found.get("note")):
        raise Refused("schema", f'visual {visual} goes with image null, box null and note ""')
    return built(
        lambda: Update(
            guidance=found["guidance"],
            applies_when=found["applies_when"],
            cautions=tuple(found["cautions"]),
            visual=visual,
            evidence=_evidence(found, pages) if visual == "replace" else None,
            gate=found.get("gate", 0),
            stop=found["stop"],
        )
    )


def target(request: UpdateRequest, value: Update) -> dict[str, Any]:
    """Return the reply that says this; KeyError where the evidence is on no page that is shown."""
    said: dict[str, Any] = {
        "guidance": value.guidance,
        "applies_when": value.applies_when,
        "cautions": list(value.cautions),
    }
    if _words(request):
        alias = aliases_of(_shown(request))
        seen = value.evidence
        said |= {
            "visual": value.visual,
            "image": alias[seen.image_id] if seen is not None else None,
            "box": list(seen.region.to_scaled()) if seen is not None else None,
            "note": seen.note if seen is not None else "",
            "gate": value.gate,
        }
    return {**said, "stop": value.stop}


def _shown(request: UpdateRequest) -> dict[str, Picture]:
    return shown_pages(request.pages, request.trace if isinstance(request.trace, Run) else None)


def _words(request: UpdateRequest) -> tuple[str, ...]:
    """Return what may become of the evidence in this mode; nothing where it is not asked."""
    if request.visual == "none":
        return ()
    held = request.memory.evidence is not None
    replace = ("replace",) if request.pages else ()
    if request.visual == "frozen":
        return ("retain",) if held else ("retain", *replace)
    return ("retain", *replace, "remove")


def _shape(request: UpdateRequest) -> str:
    """Return what a reply looks like: the mode decides, so it cannot stand in the system message."""
    words = _words(request)
    shape = "Reply with one JSON object of this shape, nothing else:"
    if not words:
        return f"{shape}\n{json.dumps(TEXT_EXAMPLE)}"
    choices = "; ".join(_WORDS[word] for word in words)
    return (
        f"visual says what becomes of the evidence: {choices}. Without replace: image null, box null, "
        f'note "". {BOX_RULE}\n'
        "gate is 1 when the next attempt should see a crop of the evidence, 0 when the text is enough.\n"
        f"{shape}\n{json.dumps(EXAMPLE)}"
    )


def _notes(memory: WorkingMemory, pages: Mapping[str, Picture]) -> list[dict[str, Any]]:
    if memory == WorkingMemory():
        return []
    note: dict[str, Any] = {
        "guidance": cut(memory.guidance, MEMORY_CHARS // 2),
        "applies_when": cut(memory.applies_when, MEMORY_CHARS // 6),
        "cautions": [cut(text, MEMORY_CHARS // 12) for text in memory.cautions[:MAX_CAUTIONS]],
    }
    if memory.evidence is not None:
        where = aliases_of(pages).get(memory.evidence.image_id, "an image that is not shown")
        note["evidence"] = f"{where} box {list(memory.evidence.region.to_scaled())}"
        note["evidence shows"] = cut(memory.evidence.note, MEMORY_CHARS // 12)
        note["gate"] = memory.gate
    return [note]


def _trace(trace: Run | str, pages: Mapping[str, Picture]) -> list[dict[str, Any]]:
    if isinstance(trace, Run):
        return list(transcript(trace, pages).lines)
    return [{"transcript": cut(trace, TRACE_CHARS)}] if trace else []


def _evidence(found: Mapping[str, Any], pages: Mapping[str, Picture]) -> VisualEvidence:
    picture = pages[found["image"]]
    return VisualEvidence(
        image_id=picture.image_id,
        region=Region.from_scaled(tuple(found["box"]), picture.width, picture.height),
        note=found["note"],
    )
