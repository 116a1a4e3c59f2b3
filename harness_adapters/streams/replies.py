"""Where the answer stands in a reply that may think aloud before it.

Nothing here takes longer than the reply is long, whatever it says.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator

# Possessive (`++`, `*+`) and tempered, so that no reply makes them go back.
_SAID = re.compile(r"answer[*_\s]*+(?:is\b|:|=)[*_\s:]*+(.+)", re.IGNORECASE)
_TAG = re.compile(r"<answer>((?:(?!</?answer>).)*+)</answer>", re.IGNORECASE | re.DOTALL)
_BRACE = re.compile(r"(?P<box>\\boxed\s*+\{)|\\.|(?P<open>\{)|(?P<close>\})", re.DOTALL)
_FENCE = re.compile(r"(?P<indent>[ \t]*+)(?P<mark>`{3,}+|~{3,}+)[ \t]*+(?P<info>[^`\s]*+)[^`]*+\r?")
_PYTHON = frozenset({"py", "python", "python3"})
_WORDS = re.compile(r"\\(?:text|textbf|textit|mathrm|mathbf)\s*+\{([^{}]*+)\}")
_FRACTION = re.compile(r"\\[dt]?frac\s*+\{\s*+(-?\d++)\s*+\}\s*+\{\s*+(\d++)\s*+\}")
_QUOTES = "\"'`*_ \t\u201c\u201d\u2018\u2019"
# A sign after a digit or a bracket joins two numbers.
_NUMBER = re.compile(
    r"(?:(?<![\w.)])[-\u2212+])?\d[\d,]*+(?:\.\d++)?(?:\s*+/\s*+\d++)?|(?:(?<![\w.)])[-+])?\.\d++"
)
MOST_DIGITS = 300
"""A longer number is none: nobody asks for it, and Python refuses to write very long ones."""


def answer_in(reply: str) -> str:
    """Return the answer: what is stated as one, else the last line; "" for none."""
    said = stated_in(reply)
    if said is not None:
        return said
    lines = [line for line in reply.splitlines() if line.strip()]
    return _bare(lines[-1]) if lines else ""


def stated_in(reply: str) -> str | None:
    """Return the last <answer>, the last box, or what follows the last "answer is"; else None."""
    tagged = _TAG.findall(reply)
    if tagged:
        return str(tagged[-1]).strip()
    boxed = last_box(reply)
    if boxed is not None:
        return _WORDS.sub(r"\1", boxed).strip()
    said = _SAID.findall(reply)
    return _bare(str(said[-1])) if said else None


def _bare(text: str) -> str:
    return text.strip(_QUOTES).removesuffix(".").strip(_QUOTES)


def last_box(reply: str) -> str | None:
    r"""Return what stands in the last balanced \boxed{...} of a reply, None where there is none."""
    open_: list[tuple[int, bool]] = []
    begin, end = -1, -1
    for found in _BRACE.finditer(reply):
        if found["box"] or found["open"]:
            open_.append((found.end(), bool(found["box"])))
        elif found["close"] and open_:
            start, is_box = open_.pop()
            if is_box and start > begin:
                begin, end = start, found.start()
    return reply[begin:end] if end >= 0 else None


def last_code(reply: str) -> str:
    """Return the code in the last fence for Python, else in the last without a language; "" for none."""
    fences = list(_fences(reply))
    for languages in (_PYTHON, {""}):
        found = [text for language, text in fences if language in languages]
        if found:
            return found[-1]
    return ""


def _fences(reply: str) -> Iterator[tuple[str, str]]:
    """Yield language and text of each fence (CommonMark 4.5); one left open goes to the end.

    As there, a text loses as much indentation as its fence has, which may stand in a list.
    """
    opened: re.Match[str] | None = None
    held: list[str] = []
    for line in reply.split("\n"):
        found = _FENCE.fullmatch(line)
        if opened is None:
            opened, held = found, []
        elif found and found["mark"].startswith(opened["mark"]) and not found["info"]:
            yield opened["info"].lower(), "".join(held)
            opened = None
        else:
            indent = len(opened["indent"])
            lead = line[:indent].lstrip(" \t")
            held.append(f"{lead}{line[indent:]}".removesuffix("\r") + "\n")
    if opened is not None:
        yield opened["info"].lower(), "".join(held)


def last_number(text: str) -> str:
    """Return the last number of a text without its commas, a fraction as it is; "" for none."""
    found = _NUMBER.findall(_FRACTION.sub(r"\1/\2", text))
    last = found[-1].replace(",", "").replace("\u2212", "-") if found else ""
    return "".join(last.split()) if len(last) <= MOST_DIGITS else ""


def folded(text: str) -> str:
    """Return a text as answers are compared: one case, one kind of space, no mark at the end."""
    plain = unicodedata.normalize("NFKC", text).casefold()
    return _bare(" ".join(plain.split()))
