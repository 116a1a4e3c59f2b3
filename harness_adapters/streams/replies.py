"""Where the answer stands in a reply that may think aloud before it."""

from __future__ import annotations

import re
import unicodedata

_SAID = re.compile(r"answer\s*(?:is|:|=)\s*:?\s*(.+)", re.IGNORECASE)
_TAG = re.compile(r"<answer>\s*(.*?)\s*</answer>", re.IGNORECASE | re.DOTALL)
_FENCE = re.compile(r"```(?:python|py)?[ \t]*\n(.*?)```", re.IGNORECASE | re.DOTALL)
_QUOTES = "\"'`*_ \t\u201c\u201d\u2018\u2019"
_NUMBER = re.compile(r"[-\u2212+]?\d[\d,]*(?:\.\d+)?(?:\s*/\s*\d+)?|[-+]?\.\d+")


def answer_in(reply: str) -> str:
    """Return the answer: the last <answer> or box, what follows the last "answer is", the last line."""
    tagged = _TAG.findall(reply)
    if tagged:
        return str(tagged[-1]).strip()
    boxed = last_box(reply)
    if boxed is not None:
        return boxed.strip()
    said = _SAID.findall(reply)
    lines = [line for line in reply.splitlines() if line.strip()]
    found = said[-1] if said else (lines[-1] if lines else "")
    return str(found).strip(_QUOTES).removesuffix(".").strip(_QUOTES)


def last_box(reply: str) -> str | None:
    r"""Return what stands in the last balanced \boxed{...} of a reply, None where there is none."""
    for start in reversed([found.end() for found in re.finditer(r"\\boxed\s*\{", reply)]):
        depth = 1
        for at in range(start, len(reply)):
            depth += {"{": 1, "}": -1}.get(reply[at], 0)
            if not depth:
                return reply[start:at]
    return None


def last_code(reply: str) -> str:
    """Return the code in the last Python fence of a reply; "" where there is none."""
    found = _FENCE.findall(reply)
    return str(found[-1]) if found else ""


def last_number(text: str) -> str:
    """Return the last number of a text without its commas, a fraction as it is; "" for none."""
    found = _NUMBER.findall(text)
    return found[-1].replace(",", "").replace("\u2212", "-").replace(" ", "") if found else ""


def folded(text: str) -> str:
    """Return a text as answers are compared: one case, one kind of space, no mark at the end."""
    plain = unicodedata.normalize("NFKC", text).casefold()
    return " ".join(plain.split()).strip(_QUOTES).removesuffix(".").strip(_QUOTES)
