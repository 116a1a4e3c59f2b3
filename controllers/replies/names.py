"""Field names as models write them, matched with the names that a schema has (the lists are ours).

    exact  >  same letters and digits (appliesWhen, Applies-When)  >  a synonym  >  a name that only adds
    a word of no meaning of its own (selected_rules, category_id)

A field is renamed only where one field of the reply matches one that is missing: anything else would be
a choice.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

# Words for the same thing, by letters and digits alone. A line is one meaning.
_SYNONYMS = """
    guidance: advice recommendation instruction lessontext guideline lessonlearned
    applieswhen: when conditions condition applicability whentoapply whenitapplies appliesif
    cautions: caution warnings warning caveats caveat
    title: heading headline
    topic: subject theme
    scope: range
    questionanchor: anchor generalquestion generalizedquestion generalisedquestion
    evidence: evidences visualevidence proof
    note: notes comment description
    supportedby: supports support supporting supporters supportedbyids
    conflicts: conflict contradictions contradiction disagreements
    parts: groups partition partitions clusters
    children: childids members items
    rules: ruleids selectedrules
    lesson: lessonid selectedlesson
    lessons: lessonlist drafts
    nothing: whynothing nothingtolearn
    category: categoryid
    parent: parentid
    new: newcategory
    merge: join shouldmerge
    gate: visualgate opengate
    stop: done finished
    visual: visualaction
    box: bbox boundingbox region
    page: pageid image
    reason: why explanation rationale justification
    polarity: sign
"""
SYNONYMS: Mapping[str, frozenset[str]] = {
    name.strip(): frozenset(words.split())
    for name, _, words in (
        line.partition(":") for line in _SYNONYMS.strip().splitlines() if line.strip()
    )
}
_WITHOUT_MEANING = """
    id ids list the my selected chosen final proposed suggested extracted best text name value
"""
_EMPTY_WORDS = frozenset(_WITHOUT_MEANING.split())
_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+|[^\W\d_]+")


def plain(name: str) -> str:
    """Return a name's letters and digits alone, in one case."""
    return "".join(filter(str.isalnum, name)).casefold()


def renamed(given: Iterable[str], wanted: Iterable[str]) -> dict[str, str]:
    """Return the fields of a reply under the names the schema has: {name in the reply: name wanted}.

    Fields that match nothing, or that match as well as another does, are not in the result.
    """
    result: dict[str, str] = {}
    given, missing = list(given), list(wanted)
    for matches in (_exact, _letters, _synonym, _essence):
        free = [name for name in given if name not in result]
        pairs = [(name, field) for name in free for field in missing if matches(name, field)]
        for name, field in pairs:
            alone = sum(1 for pair in pairs if pair[0] == name or pair[1] == field) == 1
            if alone:
                result[name] = field
        missing = [field for field in missing if field not in result.values()]
    return result


def same_name(name: str, field: str) -> bool:
    """Tell whether a name stands for a field, taken by itself."""
    return any(matches(name, field) for matches in (_exact, _letters, _synonym, _essence))


def _exact(name: str, field: str) -> bool:
    return name == field


def _letters(name: str, field: str) -> bool:
    return plain(name) == plain(field)


def _synonym(name: str, field: str) -> bool:
    return plain(name) in SYNONYMS.get(plain(field), ())


def _essence(name: str, field: str) -> bool:
    return _words(name) == _words(field) != frozenset()


def _words(name: str) -> frozenset[str]:
    found = (word.casefold().removesuffix("s") for word in _WORD.findall(name))
    return frozenset(word for word in found if word not in _EMPTY_WORDS)


def rename(
    value: Mapping[str, Any], wanted: Iterable[str]
) -> tuple[dict[str, Any], dict[str, str]]:
    """Return the fields that are wanted, under the names wanted, and how each was called."""
    names = renamed(value, wanted)
    return {field: value[name] for name, field in names.items()}, names
