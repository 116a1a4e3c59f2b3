"""Read the recorded replies of a small model: how many are recovered, asked again, refused.

    python -m benchmarks.replies.read                      the table
    python -m benchmarks.replies.read --sample FILE        beside it 100 acceptances to judge by eye

A first reply that is refused counts by the re-ask that was recorded after it. Of each acceptance is
checked, by means other than the reader's: that nothing in the value is missing in the reply, that it
holds no example of the prompt, no schema and no refusal, and no alias that was not shown.
"""

from __future__ import annotations

import argparse
import json
import random
import re
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.replies import bare, recording
from benchmarks.replies.recording import Entry, Said
from controllers.prompts import OPERATIONS
from controllers.prompts.message import Prompt
from controllers.replies.reading import Read, read

SAMPLE, SEED = 100, 4
_DECLINES = re.compile(
    r"\b(sorry|as an ai|language model|i can(?:'|no)t|unable to)\b", re.IGNORECASE
)


@dataclass(frozen=True)
class Outcome:
    """What became of one recorded reply: `first` and, where that was refused, `again`."""

    entry: Entry
    first: Read[Any]
    again: Read[Any] | None

    @property
    def accepted(self) -> tuple[Said, Read[Any]] | None:
        """The reply that was accepted and how it was read, None for none."""
        if self.first.refused is None:
            return self.entry.first, self.first
        if self.again is not None and self.again.refused is None:
            assert self.entry.again is not None
            return self.entry.again, self.again
        return None


@dataclass
class Count:
    """Outcomes of one operation."""

    replies: int = 0
    recovered: int = 0
    asked_again: int = 0
    recovered_again: int = 0
    in_sections: int = 0
    refused: int = 0
    reasons: Counter[str] = field(default_factory=Counter)


def outcomes(entries: Sequence[Entry]) -> list[Outcome]:
    """Read every reply, as `controllers.model` would."""
    return [_outcome(entry) for entry in entries]


def _outcome(entry: Entry) -> Outcome:
    operation = OPERATIONS[entry.operation]
    request = bare.rebuilt(entry.operation, entry.request)
    prompt = operation.render(request)
    parse = partial(operation.parse, request)
    first = read(entry.first.text, prompt, parse, truncated=entry.first.truncated)
    again = None
    if first.refused is not None and entry.again is not None:
        again = read(
            entry.again.text,
            prompt,
            parse,
            sections=entry.sections,
            truncated=entry.again.truncated,
        )
    return Outcome(entry, first, again)


def counts(found: Sequence[Outcome]) -> dict[str, Count]:
    """Return the counts by operation, and in all under "all"."""
    result: dict[str, Count] = {}
    for outcome in found:
        for name in (outcome.entry.operation, "all"):
            _add(result.setdefault(name, Count()), outcome)
    return result


def _add(count: Count, outcome: Outcome) -> None:
    count.replies += 1
    if outcome.first.refused is None:
        count.recovered += 1
        return
    count.asked_again += 1
    accepted = outcome.accepted
    if accepted is not None:
        count.recovered_again += 1
        count.in_sections += accepted[1].protocol == "sections"
        return
    count.refused += 1
    last = outcome.again or outcome.first
    assert last.refused is not None
    count.reasons[last.refused.reason] += 1


# -- what may not be accepted ----------------------------------------------------------------------


def faults(outcome: Outcome) -> Iterator[str]:
    """Yield what is wrong with an acceptance, by checks of their own."""
    if outcome.accepted is None:
        return
    said, result = outcome.accepted
    operation = OPERATIONS[outcome.entry.operation]
    request = bare.rebuilt(outcome.entry.operation, outcome.entry.request)
    prompt = operation.render(request)
    try:
        value = operation.target(request, result.value)
    except KeyError as error:
        yield f"not shown: {error}"
        return
    raw = _letters(said.text)
    for text in _texts(value):
        if _letters(text) not in raw and text not in _FILLED:
            yield f"not in the reply: {text!r}"
        if f"<{text.strip('<> ')}>" in _own_words(prompt) and text.strip("<> "):
            yield f"copied from the example: {text!r}"
        if _DECLINES.search(text):
            yield f"declines: {text!r}"
    if '"properties"' in said.text or '"additionalProperties"' in said.text:
        yield "a schema in the reply"


# Texts that code may fill in where a reply leaves them out (`derive`).
_FILLED = frozenset({bare.TEXT})


def _own_words(prompt: Prompt) -> str:
    return "\n".join(message.text for message in prompt.messages)


def _letters(text: str) -> str:
    """What is left of a text without white space, escapes and quotes, in one case."""
    text = re.sub(r"\\[nrt]", "", text)
    return "".join(filter(str.isalnum, text)).casefold()


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        for item in value.values() if isinstance(value, dict) else value:
            yield from _texts(item)


# -- output ----------------------------------------------------------------------------------------


def table(found: dict[str, Count]) -> str:
    """Return the counts as lines."""
    titles = ("replies", "recovered", "asked again", "recovered then", "in sections", "refused")
    lines = [f"{'operation':12}" + "".join(f"{title:>15}" for title in titles) + "  reasons"]
    for name, count in sorted(found.items(), key=lambda pair: (pair[0] == "all", pair[0])):
        reasons = ", ".join(f"{key} {number}" for key, number in count.reasons.most_common())
        numbers = (
            count.replies,
            count.recovered,
            count.asked_again,
            count.recovered_again,
            count.in_sections,
            count.refused,
        )
        lines.append(f"{name:12}" + "".join(f"{number:15}" for number in numbers) + f"  {reasons}")
    return "\n".join(lines)


def sample(found: Sequence[Outcome], size: int = SAMPLE, seed: int = SEED) -> list[Outcome]:
    """Return acceptances drawn at random, all of them where there are no more."""
    accepted = [outcome for outcome in found if outcome.accepted is not None]
    return random.Random(seed).sample(accepted, min(size, len(accepted)))


def shown(outcome: Outcome) -> str:
    """Return one acceptance to judge by eye: the reply as it came, and what was read."""
    assert outcome.accepted is not None
    said, result = outcome.accepted
    operation = OPERATIONS[outcome.entry.operation]
    request = bare.rebuilt(outcome.entry.operation, outcome.entry.request)
    value = json.dumps(operation.target(request, result.value), ensure_ascii=False)
    which = "first" if said is outcome.entry.first else "again"
    head = (
        f"{outcome.entry.operation} {outcome.entry.number} at {outcome.entry.temperature}, {which}"
    )
    how = f"{result.protocol}: {'; '.join(result.notes)}"
    return f"##### {head}\n{said.text}\n##### read ({how})\n{value}\n"


def main() -> int:
    """Print the table; exit 1 where an acceptance is at fault."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--sample", type=Path, help="write acceptances to judge to this file")
    args = parser.parse_args()
    header, entries = recording.load()
    found = outcomes(entries)
    print(f"{header['model']}; {header['server']}; prompts {header['prompts']}")
    print(table(counts(found)))
    wrong = [(outcome, fault) for outcome in found for fault in faults(outcome)]
    for outcome, fault in wrong:
        print(f"{outcome.entry.key}: {fault}")
    print(f"{len(wrong)} faults in {sum(1 for outcome in found if outcome.accepted)} acceptances")
    if args.sample:
        args.sample.write_text("\n".join(map(shown, sample(found))), "utf-8")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
