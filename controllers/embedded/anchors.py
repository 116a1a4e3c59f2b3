"""Question anchors: a question with what is peculiar to it blanked.

What is blanked: quoted strings and numbers, always (no two questions that differ only there
should get two anchors); names, where no other question of the batch has them. Words of the public
scope (family, house) stay, because every question of that scope has them. Both rules are ours;
DESIGN.md 5 A says what is to be blanked.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence

from controllers.embedded.fitting import cleaned, fitted, joined
from controllers.embedded.names import name_runs
from controllers.embedded.words import tokens

BLANK = "…"
ANCHOR_BYTES = 1200
_READ_CHARACTERS = 4000
_QUOTED = re.compile(
    r"\"[^\"\n]{1,300}\"|“[^”\n]{1,300}”|«[^»\n]{1,300}»|「[^」\n]{1,300}」|『[^』\n]{1,300}』"
    r"|《[^》\n]{1,300}》|\u2018[^\u2019\n]{1,300}\u2019|(?<![\w'])'(?=[^\s'])[^'\n]{0,300}?[^\s']?'(?!\w)"
)
_NUMBER = re.compile(r"(?<![\w.])[-+]?[$€£¥]?\d+(?:[.,:/\-]\d+)*%?")
_BLANKS = re.compile(rf"{BLANK}(?:[\s,&()\uff08\uff09/+-]*{BLANK})+")


def anchor(question: str, scope: str, shared_names: frozenset[tuple[str, ...]]) -> str:
    """Return the anchor of a question, at most `ANCHOR_BYTES` bytes.

    Args:
        question: the question as it was asked.
        scope: the public scope; names that hold one of its words stay.
        shared_names: names (case-folded words) that other questions of the batch have as well.
    """
    text = joined(cleaned(question[:_READ_CHARACTERS]))
    kept = frozenset(token.casefold() for token in tokens(scope))
    pieces: list[str] = []
    position = 0
    for run in name_runs(text):
        if kept.intersection(run.words) or run.words in shared_names:
            continue
        pieces += [text[position : run.start], BLANK]
        position = run.end
    text = "".join([*pieces, text[position:]])
    text = _QUOTED.sub(lambda match: _unless_kept(match, kept), text)
    text = _NUMBER.sub(lambda match: _unless_kept(match, kept), text)
    return fitted(_BLANKS.sub(BLANK, text), ANCHOR_BYTES)


def shared_names(questions: Sequence[str]) -> frozenset[tuple[str, ...]]:
    """Return the names that at least two different questions of a batch have."""
    count: Counter[tuple[str, ...]] = Counter()
    for question in sorted(set(questions)):
        text = joined(cleaned(question[:_READ_CHARACTERS]))
        count.update({run.words for run in name_runs(text)})
    return frozenset(words for words, seen in count.items() if seen > 1)


def _unless_kept(match: re.Match[str], kept: frozenset[str]) -> str:
    words = {token.casefold() for token in tokens(match.group())}
    return match.group() if words and words <= kept else BLANK
