"""How the same fact is put in different words; which ones is drawn per use.

`naming` says whether a wording names the mark or leaves it to a picture.
"""

from __future__ import annotations

import random
from dataclasses import dataclass

from training.worlds.topic import Topic
from training.worlds.world import World

SUBJECT = "a quantity"
"""Stands for the subject of a question in its anchor."""
_ADVICE = (
    "On {pages} of {house}, {what} {means}: {action}.",
    "{House} {pages}: {what} {means}, so {action}.",
    "{Action} on {pages} of {house}: there {what} {means}.",
    "When a {page} is by {house}, {action}, as {what} {means} there.",
)
_COMMON = (
    "On all {pages} of {house}, {what} {means}: {action}.",
    "{Pages} of {house}: {what} {means}; {action}.",
)
_SAID = (
    "By the usage of {house}, {what} {means}.",
    "{What} {means} on a {page} of {house}.",
    "I take it that {what} {means} here, as this is a {page} of {house}.",
    "This {page} is by {house}; {what} {means}.",
)
_WRONG = (
    "Judged wrong: “{said}” Check again what that mark means on {pages} of {house}.",
    "On a {page} of {house} this was judged wrong: “{said}” Look at that region again first.",
    "The answer that rested on “{said}” was judged wrong; re-check that step on {pages} of {house}.",
)
_OPEN = ("{Pages} of {house}", "Questions about {pages} of {house}", "A {page} is by {house}")
_UNKEYED = (
    "{Pages} of {house} without a key",
    "A {page} of {house} prints no key",
    "Questions about {pages} of {house} on which no key is printed",
)
_CAUTIONS = (
    "Other houses use other marks for the same thing.",
    "Other marks on the same {page} do not mean this.",
    "Where a key is printed, the key decides.",
    "Look at every mark; two of them may look alike when small.",
)
_NOT_KNOWN = (
    "Which mark has this meaning for {house} cannot be told from this run.",
    "The other marks of the {page} were not tried in this run.",
)
_INDEX_TOPICS = ("{name}", "{family}: {name}", "{name} of a {page}")


@dataclass(frozen=True)
class Words:
    """The words for one topic of one house, drawn from the templates by a generator."""

    world: World
    topic: Topic
    house: str

    def what(self, option: str | None) -> str:
        """Return the words for what carries a mark; None leaves the mark to a picture."""
        return self.topic.pointed if option is None else self.topic.options[option]

    def advice(self, chance: random.Random, option: str | None) -> str:
        """Return guidance for one lesson."""
        return self._put(chance.choice(_ADVICE), option)

    def common(self, chance: random.Random, option: str | None) -> str:
        """Return guidance for a whole category."""
        return self._put(chance.choice(_COMMON), option)

    def said(self, chance: random.Random, option: str | None) -> str:
        """Return what an agent says when it looks at the mark."""
        return self._put(chance.choice(_SAID), option)

    def wrong(self, chance: random.Random, said: str) -> str:
        """Return guidance from a run whose answer was judged wrong, quoting what was said."""
        return self._put(chance.choice(_WRONG), None, said=said)

    def applies_when(self, chance: random.Random, *, unkeyed: bool) -> str:
        """Return conditions; `unkeyed` excludes pages on which a key is printed."""
        return self._put(chance.choice(_UNKEYED if unkeyed else _OPEN), None)

    def condition(self, *, unkeyed: bool) -> str:
        """Return conditions in the words of a category: always the same."""
        return self._put((_UNKEYED if unkeyed else _OPEN)[0], None)

    def statement(self, option: str) -> str:
        """Return what a named mark means, in the words of a category: always the same."""
        return self._put(_COMMON[1], option)

    def general_question(self) -> str:
        """Return the question of a category: always the same."""
        return self.topic.asked[0].format(subject=SUBJECT, house=self.house)

    def cautions(self, chance: random.Random, count: int) -> tuple[str, ...]:
        """Return so many different cautions that hold everywhere."""
        return tuple(self._put(text, None) for text in chance.sample(_CAUTIONS, count))

    def not_known(self, chance: random.Random) -> str:
        """Return the caution of a wrong run."""
        return self._put(chance.choice(_NOT_KNOWN), None)

    def title(self) -> str:
        """Return the name of the lesson, and of the category of such lessons."""
        return f"{self.topic.name}, {self.house}"

    def index_topic(self, chance: random.Random) -> str:
        """Return what index text gives as topic."""
        return self._put(chance.choice(_INDEX_TOPICS), None)

    def scope(self) -> str:
        """Return family and house, as the public scope of a task."""
        return f"{self.world.family}, {self.house}"

    def anchor(self, chance: random.Random) -> str:
        """Return a question about the topic in general words."""
        return self.question(chance, SUBJECT)

    def question(self, chance: random.Random, subject: str) -> str:
        """Return a question."""
        return chance.choice(self.topic.asked).format(subject=subject, house=self.house)

    def note(self, option: str | None) -> str:
        """Return what the picture of a mark shows."""
        if option is None:
            return f"{self.topic.one} for {self.house}"
        return f"{self.topic.one} for {self.house}: {self.topic.options[option]}"

    def _put(self, template: str, option: str | None, *, said: str = "") -> str:
        what, action = self.what(option), self.topic.action
        return template.format(
            page=self.world.page,
            pages=self.world.pages,
            Pages=_upper(self.world.pages),
            house=self.house,
            House=self.house,
            what=what,
            What=_upper(what),
            means=self.topic.means,
            action=action,
            Action=_upper(action),
            said=said,
            name=self.topic.name,
            family=self.world.family,
        )


def _upper(text: str) -> str:
    return text[:1].upper() + text[1:]
