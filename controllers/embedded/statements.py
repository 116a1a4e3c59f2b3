"""Salient statements of a run: which of its sentences are worth a lesson.

A sentence scores the sum of simple features (features and weights are ours):

| feature | weight | value |
|---|---|---|
| answer | 1.2 | 1 when it holds the run's answer and four words, less with fewer |
| verdict line | 0.8 | 1 when it says that it gives the answer or result |
| recency | 0.8 | place of its turn in the run, 0 first to 1 last |
| question | 0.8 | share of the question's words in it |
| checker | 0.7 | 1 when speaker or role is named for checking |
| conclusion | 0.6 | 1 when it holds a word of concluding or judging |
| echo | 0.6 | share of its words that other speakers' turns have |
| substance | 1.0 | words in it (numbers not counted) over eight, at most 1 |
| convention | 1.0 | 1 when it says what to do and names the house of the task |
| machine | -0.8 | 1 when a tool, a user or a system prompt speaks |
| restated | -0.8 | 1 when it adds at most one word to question and scope, and no answer |
| copied | -1.0 | 1 when it stands in several turns: more often an order than a finding |
| opening | -0.6 | 1 when it announces what comes, or asks |
| gap | -0.8 | 1 when it only says that something is not done yet |
| program | -1.5 | 1 when it is program text or a trace |

The last three are looked at for the best two dozen only. A sentence of the question is never a
statement. Nothing but the run is read: no reference, outcome or label reaches this module.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from controllers.embedded.claims import instructs
from controllers.embedded.scopes import public_scope
from controllers.embedded.sentences import sentences
from controllers.embedded.words import STOP_WORDS, TOKEN, overlap
from epimem.schema.run import Run, Turn

MAX_STATEMENTS = 3
LAST_TURNS = 10
CHECKER_TURNS = 4
_MINIMUM_WORDS = 3
_FULL_SUBSTANCE = 8
_FULL_REASON = 4
_SAME_SHARE = 0.7
_FINALISTS = 24
_CHECKING = re.compile(
    r"check|verif|valid|review|critic|audit|judge|inspect|test|proof|检查|验证|审核|校对|核对",
    re.IGNORECASE,
)
_MACHINE = re.compile(
    r"terminal|tool|executor|interpreter|sandbox|console|environment|\bhuman\b|\buser\b|\bsystem\b",
    re.IGNORECASE,
)
_CONCLUDING_LIST = """
    therefore thus hence so answer final total result results conclude concluded conclusion confirm
    confirmed confirms correct correctly agree agreed agrees wrong incorrect error errors mistake
    mistaken means mean because must should verified unclear unsure object
"""
_CONCLUDING = frozenset(_CONCLUDING_LIST.split())
_CONCLUDING_CJK = re.compile("因此|所以|答案|结果|结论|正确|错误|同意")
_VERDICT_WORDS = frozenset({"answer", "result", "output"})
_VERDICT_LINE = re.compile(
    r"(?:[Aa]nswer|ANSWER|[Rr]esult)(?: is\b|:)|[Oo]utput\W{0,4}:|答案[是为:\uff1a]"
)
_INSTRUCTING = frozenset({"system", "developer"})
_OPENING = re.compile(
    r"\A(?:let['\u2019]?s|let us|let me|please|next\b|now\b|here (?:is|are)|step\b)|[:?\uff1f]\Z"
    r"|\b(?:i|we)(?:['\u2019]ll| will| can now| can proceed| need to| shall)\b|\bnext speaker\b"
    r"|\bexit ?code\b|\bno agent selected\b|\bgroup chat manager\b|\bterminate\b",
    re.IGNORECASE,
)
_GAP = re.compile(
    r"\bnot (?:yet|fully|been)\b|\bhave not\b|\bhas not\b|\bhaven['\u2019]t\b|\bstill need",
    re.IGNORECASE,
)
_PROGRAM = re.compile(
    r"\w\(\S*\)|\w\[\S*\]\s*=|[{}]|\b[\w.]+(?:Error|Exception)\b|\bTraceback\b|\bFile \"|\bawait\b"
    r"|\]\(https?:|\s[=!]=\s|^\w+ = |\bimport \w|https?://\S{60}|[!#$%^&*=~|\\]{3}"
)


@dataclass(frozen=True)
class Salient:
    """A sentence worth keeping: its text, the turns that hold it (as indices), its score.

    A `convention` says what to do and names the house of the task.
    """

    text: str
    turns: tuple[int, ...]
    score: float
    convention: bool = False


@dataclass(frozen=True)
class _Read:
    """A turn that was read: index in the run, place in (0, 1], speaker, sentences as tokens."""

    index: int
    place: float
    speaker: str
    is_checker: bool
    is_machine: bool
    said: dict[str, list[str]]
    words: frozenset[str]


def salient_statements(run: Run, turns: Sequence[Turn]) -> tuple[Salient, ...]:
    """Return one to three statements of a run, best first; none when nothing was said.

    Args:
        run: the run; its question and answer are used, never an outcome.
        turns: `interleave(run)`.
    """
    read = _read(run, turns)
    question = " ".join(run.task.question.split())
    asked = frozenset(_words(question))
    known = asked | _words(public_scope(run.task))
    house = _words(run.task.house)
    answer = tuple(_tokens(run.answer.text))
    heard = {turn.speaker: _heard_beside(turn.speaker, read) for turn in read}
    places: dict[str, list[_Read]] = {}
    for turn in read:
        for sentence in turn.said:
            places.setdefault(sentence, []).append(turn)
    scored: list[Salient] = []
    for sentence, holders in places.items():
        said = holders[0].said[sentence]
        words = frozenset(said) - STOP_WORDS
        substance = len([word for word in words if not word[0].isdigit()])
        states_answer = _holds(said, answer)
        too_little = substance < _MINIMUM_WORDS and not (states_answer and substance)
        if too_little or sentence in question:
            continue
        score = _gain(sentence, said) + _place(holders)
        score += 1.2 * states_answer * min(1.0, substance / _FULL_REASON)
        score += 0.8 * _share(words & asked, asked) + min(1.0, substance / _FULL_SUBSTANCE)
        convention = bool(house) and house <= words and instructs(sentence)
        score += 1.0 * convention
        score -= 0.8 * (len(words - known) <= 1 and not states_answer)
        score += 0.6 * _share(words & heard[holders[0].speaker], words)
        score -= 1.0 * (len(holders) > 1)
        held = tuple(turn.index for turn in holders)
        scored.append(Salient(sentence, held, score, convention))
    return _distinct(_ranked(_less_penalties(item) for item in _ranked(scored)[:_FINALISTS]))


def message_text(turn: Turn) -> str:
    """Return what the speaker said: the message without the observations that came back."""
    if turn.step is None:
        return turn.text
    message = turn.step.message
    if isinstance(message, str):
        return message
    return "\n".join(part.text for part in message if part.text is not None)


def _read(run: Run, turns: Sequence[Turn]) -> list[_Read]:
    """Read the last turns of the run and the last turns of its checkers."""
    roles = {actor.traj: actor.role for actor in run.actors}
    spoken: list[tuple[int, str, bool, bool]] = []
    for index, turn in enumerate(turns):
        if turn.seq < 0 or not message_text(turn) or _instructs_the_agents(turn):
            continue
        title = f"{turn.actor} {roles.get(turn.traj or '', '')}"
        source = turn.step.source if turn.step else "agent"
        is_machine = source != "agent" or _MACHINE.search(title) is not None
        spoken.append((index, turn.actor, _CHECKING.search(title) is not None, is_machine))
    chosen = {entry[0] for entry in spoken[-LAST_TURNS:]}
    chosen |= {entry[0] for entry in [entry for entry in spoken if entry[2]][-CHECKER_TURNS:]}
    read: list[_Read] = []
    for rank, (index, speaker, is_checker, is_machine) in enumerate(spoken, start=1):
        if index in chosen:
            said = {line: _tokens(line) for line in sentences(message_text(turns[index]))}
            words = frozenset().union(*said.values()) - STOP_WORDS
            place = rank / len(spoken)
            read.append(_Read(index, place, speaker, is_checker, is_machine, said, words))
    return read


def _instructs_the_agents(turn: Turn) -> bool:
    """Say whether a turn is what a harness tells its agents before it asks them: nobody found it out."""
    return turn.step is not None and (turn.step.extra or {}).get("role") in _INSTRUCTING


def _tokens(text: str) -> list[str]:
    return TOKEN.findall(text.casefold())


def _words(text: str) -> frozenset[str]:
    return frozenset(_tokens(text)) - STOP_WORDS


def _heard_beside(speaker: str, read: Sequence[_Read]) -> frozenset[str]:
    return frozenset().union(*(turn.words for turn in read if turn.speaker != speaker))


def _share(part: frozenset[str], whole: frozenset[str]) -> float:
    return len(part) / len(whole) if whole else 0.0


def _place(holders: Sequence[_Read]) -> float:
    """Score where and by whom a sentence was said."""
    score = 0.8 * holders[0].place
    score += 0.7 * max(turn.is_checker for turn in holders)
    return score - 0.8 * min(turn.is_machine for turn in holders)


def _gain(sentence: str, said: Sequence[str]) -> float:
    """Score the words of concluding in a sentence."""
    foreign = not sentence.isascii()
    concluding = not _CONCLUDING.isdisjoint(said) or (
        foreign and _CONCLUDING_CJK.search(sentence) is not None
    )
    likely = foreign or not _VERDICT_WORDS.isdisjoint(said)
    return 0.6 * concluding + 0.8 * (likely and _VERDICT_LINE.search(sentence) is not None)


def _less_penalties(item: Salient) -> Salient:
    """Take off what announcing, asking, reporting a gap, or being program text costs."""
    loss = 0.6 * (_OPENING.search(item.text) is not None)
    loss += 0.8 * (_GAP.search(item.text) is not None)
    loss += 1.5 * (_PROGRAM.search(item.text) is not None)
    return replace(item, score=item.score - loss)


def _ranked(items: Iterable[Salient]) -> list[Salient]:
    return sorted(items, key=lambda item: (-item.score, -item.turns[0], item.text))


def _holds(said: Sequence[str], answer: tuple[str, ...]) -> bool:
    """Tell whether the answer stands in the sentence as a whole token sequence."""
    size = len(answer)
    if not size or answer[0] not in said:
        return False
    return any(tuple(said[at : at + size]) == answer for at in range(len(said) - size + 1))


def _distinct(ranked: Sequence[Salient]) -> tuple[Salient, ...]:
    """Return up to three statements, leaving out those that repeat a better one."""
    chosen: list[Salient] = []
    for item in ranked:
        words = _words(item.text)
        if all(overlap(words, _words(other.text)) < _SAME_SHARE for other in chosen):
            chosen.append(item)
        if len(chosen) == MAX_STATEMENTS:
            break
    return tuple(chosen)
