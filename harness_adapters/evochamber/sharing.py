"""The pool and the bank: what is read before a task, and what is handed in after it.

A lesson that CODREAM gave to some agents is stored once, with them as its audience: so the bank itself
hands it to nobody else of this pool, and to any other harness. What comes from elsewhere enters an
agent only where the pool says that it has a deficit.

Everything that is to be written is first a plain value (`Parcel`), kept with the state of the pool, and
sent afterwards: a run that was interrupted in between sends the same bytes under the same keys again.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from epimem.errors import ConfigError
from epimem.schema.base import Record
from epimem.schema.ids import question_key, sha256
from epimem.schema.lesson import IndexText, LessonDraft, VerdictSource
from epimem.schema.memory_input import Crop, Item, MemoryInput
from epimem.schema.names import checked_name
from epimem.schema.outcome import SealedOutcome
from epimem.schema.run import Page, Run
from epimem.schema.text import clean_text
from harness_adapters.client import Client
from harness_adapters.evochamber.archive import Insight
from harness_adapters.evochamber.problem import Problem
from harness_adapters.pictures import page

METHOD = "evochamber"
LEADERS = "evochamber leaders"
"""The reader that structures are for: any pool's leader, and no solver."""
HELD = "nobody yet"
"""The audience of an insight in quarantine."""
# Bytes; a lesson may have more.
LONG = 4000
SHORT = 1000
TITLE = 120
TAG = 60
GROUP = 40


class Parcel(Record):
    """One thing to be sent: a run with its outcome, a lesson, or feedback."""

    kind: Literal["run", "lesson", "feedback"]
    key: str
    body: dict[str, Any]
    outcome: dict[str, Any] | None = None


@dataclass(frozen=True)
class Shown:
    """What the bank gave one agent for one task.

    Attributes:
        given: the memory input with what was shown of it; None where nothing was.
        whole: nothing of it was left out, so that a verdict on it is one on what was shown.
        texts: what goes into the prompt.
        foreign: what came from outside the pool, to be taken into the agent's archive.
        crops: files of the pictures that go along.
    """

    given: MemoryInput | None = None
    whole: bool = True
    texts: tuple[str, ...] = ()
    foreign: tuple[Insight, ...] = ()
    crops: tuple[Path, ...] = ()


@dataclass
class Sharing:
    """One pool's side of a bank.

    Attributes:
        bank: asked and written to; its owner closes it.
        group: name of the pool, unique among the pools on a bank: up to 40 bytes, no slash.
        folder: where crops are put.
        namespace: of the bank; its own where None.
        backbone: name of the model.
        run_name: of the pool's run, unique among its runs on the bank; a seed will do where there is
            one run a seed.

    Raises:
        ConfigError: the group's name is too long, or has a slash.
        RecordError: it is none.
    """

    bank: Client
    group: str
    folder: Path
    namespace: str | None = None
    backbone: str = ""
    run_name: str = ""
    _pages: dict[Path, Page] = field(default_factory=dict)

    def __post_init__(self) -> None:
        checked_name(self.group, "group")
        if "/" in self.group or len(self.group.encode()) > GROUP:
            raise ConfigError(
                f"the name of a pool has at most {GROUP} bytes and no slash",
                field="group",
                got=self.group,
            )

    def reader(self, agent: str) -> str:
        """Return an agent's name on the bank as a reader: one of a group."""
        return f"@{self.group}/{agent}"

    def giver(self, agent: str) -> str:
        """Return an agent's name on the bank as the one that a lesson came from."""
        return f"{self.group}/{agent}"

    def pages(self, problem: Problem) -> tuple[Page, ...]:
        """Store the images of a task, once each, and return them as pages."""
        for path in problem.images:
            if path not in self._pages:
                self._pages[path] = page(1, self.bank.add_image(path.read_bytes()))
        return tuple(
            self._pages[path].model_copy(update={"page": number})
            for number, path in enumerate(problem.images, 1)
        )

    def before(self, problem: Problem, agent: str, run_id: str, *, deficit: bool) -> Shown:
        """Ask for what one agent is to know before a task.

        Args:
            problem: the task.
            agent: who asks.
            run_id: of the task: asked again, the answer is the same.
            deficit: whether the agent may be given what comes from outside the pool.
        """
        given = self._ask(problem, agent, run_id)
        if not deficit and any(self._is_foreign(item) for item in given.items):
            # Foreign items may have crowded out those of the pool that are addressed to it.
            foreign = [item.node_id for item in given.items if self._is_foreign(item)]
            given = self._ask(problem, agent, f"{run_id}-own", exclude=foreign)
        wanted = [item for item in given.items if deficit or not self._is_foreign(item)]
        kept = {item.node_id for item in wanted}
        crops = [self._stored(crop) for crop in given.crops if crop.node_id in kept]
        return Shown(
            given=given.model_copy(update={"items": tuple(wanted)}) if wanted else None,
            whole=len(wanted) == len(given.items),
            texts=tuple(map(_told, wanted)),
            foreign=tuple(_insight(item, problem) for item in wanted if self._is_foreign(item)),
            crops=tuple(crops),
        )

    def advice(self, niche: str, run_id: str) -> tuple[str, ...]:
        """Return what other pools say of how teams work in a niche."""
        given = self.bank.retrieve(
            _structure_question(niche),
            reader=LEADERS,
            run_id=f"{run_id}-lead",
            namespace=self.namespace,
        )
        return tuple(
            item.guidance
            for item in given.items
            if item.form == "structure" and self._is_foreign(item)
        )

    def run(self, run: Run, outcome: SealedOutcome) -> Parcel:
        """Return a run as something to be sent."""
        return Parcel(
            kind="run", key=f"run-{run.run_id}", body=run.plain(), outcome=outcome.plain()
        )

    def insight(
        self, insight: Insight, problem: Problem, run_id: str, recipients: Sequence[str] | None
    ) -> list[Parcel]:
        """Return an insight as a lesson to be sent; none where nothing of its text can be shown.

        Args:
            insight: as it was stored in the pool.
            problem: the task that it came from.
            run_id: of the task.
            recipients: agents whom it is addressed to; none of the pool's where empty, all readers
                where None; `HELD` keeps it from everybody.
        """
        wide = insight.reach == "cross_domain"
        text, niche = fitted(insight.text, LONG), fitted(insight.niche, TITLE)
        if not text:
            return []
        index = IndexText(
            topic=fitted(text, TITLE) if wide else niche,
            scope="any niche" if wide else niche,
            question_anchor="" if wide else fitted(problem.question, SHORT),
        )
        names = () if recipients is None else tuple(map(self._addressed, recipients))
        lesson = self._lesson(
            LessonDraft(
                guidance=text,
                title=fitted(text, TITLE),
                index=index,
                audience=names if names or recipients is None else (self.reader(insight.giver),),
                tags=(insight.reach,),
                verdict_source=_source(problem) if insight.verified else "none",
                agent=fitted(self.giver(insight.giver), TAG),
                **self._origin(problem, run_id),
            ),
            run_id,
        )
        return [lesson]

    def structure(
        self, problem: Problem, run_id: str, leader: str, structure: str, said: str, *, right: bool
    ) -> Parcel:
        """Return what a leader found about a way of working as a lesson to be sent."""
        found = "worked" if right else "did not work"
        niche = fitted(problem.niche, TITLE)
        return self._lesson(
            LessonDraft(
                form="structure",
                guidance=fitted(said, LONG)
                or f"{structure} {found} on a task of the niche {niche}.",
                title=fitted(f"{structure} {found}: {niche}", TITLE),
                index=IndexText(
                    topic="collaboration structure",
                    scope=niche,
                    question_anchor=_structure_question(problem.niche),
                ),
                audience=(LEADERS,),
                tags=(structure,),
                verdict_source=_source(problem),
                agent=fitted(self.giver(leader), TAG),
                **self._origin(problem, run_id),
            ),
            run_id,
        )

    def feedback(self, shown: Iterable[Shown], problem: Problem, *, right: bool) -> list[Parcel]:
        """Return the verdict on what was shown, one for each retrieval that was shown as a whole.

        A verdict counts for all that a retrieval gave; what was left out had no part in the answer.
        """
        verdict = "right" if right else "wrong"
        return [
            Parcel(
                kind="feedback",
                key=each.given.retrieval_id,
                body={"verdict": verdict, "source": _source(problem)},
            )
            for each in shown
            if each.given is not None and each.whole
        ]

    def send(self, parcels: Iterable[Parcel]) -> None:
        """Send; what was sent before has no effect.

        Raises:
            EpimemError: the bank refused something, or could not be reached.
        """
        for parcel in parcels:
            if parcel.kind == "feedback":
                self.bank.feedback(parcel.key, **parcel.body)
            else:
                sealed = SealedOutcome.read(parcel.outcome) if parcel.outcome else None
                self.bank.contribute(
                    parcel.body,
                    outcome=sealed,
                    namespace=self.namespace,
                    idempotency_key=parcel.key,
                )

    def _ask(
        self, problem: Problem, agent: str, run_id: str, exclude: Sequence[str] = ()
    ) -> MemoryInput:
        return self.bank.retrieve(
            problem.question,
            images=[each.image_id for each in self.pages(problem)],
            reader=self.reader(agent),
            run_id=run_id,
            family=problem.niche,
            namespace=self.namespace,
            exclude=list(exclude),
        )

    def _is_foreign(self, item: Item) -> bool:
        prefix = f"{self.group}/"
        return not item.agents or not all(name.startswith(prefix) for name in item.agents)

    def _addressed(self, name: str) -> str:
        return name if name == HELD else self.reader(name)

    def _origin(self, problem: Problem, run_id: str) -> Mapping[str, Any]:
        images = [each.image_id for each in self.pages(problem)]
        return {
            "family": fitted(problem.niche, TITLE),
            "question_key": question_key(problem.question, images),
            "method": METHOD,
            "harness": METHOD,
            "backbone": fitted(self.backbone, TAG),
            "run_ids": (run_id,),
        }

    def _lesson(self, draft: LessonDraft, run_id: str) -> Parcel:
        body = draft.plain()
        return Parcel(kind="lesson", key=f"{run_id}-{sha256(draft.canonical())[:24]}", body=body)

    def _stored(self, crop: Crop) -> Path:
        path = self.folder / f"{crop.blob}.png"
        if not path.exists():
            self.folder.mkdir(parents=True, exist_ok=True)
            path.write_bytes(self.bank.crop_png(crop))
        return path


def fitted(text: str, limit: int) -> str:
    """Return what of a model's text a lesson can hold: one line, clean, of at most so many bytes."""
    line = clean_text(" ".join(text.split()))
    return clean_text(line.encode("utf-8")[:limit].decode("utf-8", "ignore")).strip()


def _told(item: Item) -> str:
    """Return an item as one line of a prompt."""
    lines = [item.guidance]
    lines += [f"(when: {item.applies_when})"] if item.applies_when else []
    lines += [f"(caution: {text})" for text in item.cautions]
    return " ".join(" ".join(lines).split())


def _insight(item: Item, problem: Problem) -> Insight:
    """Return what came from elsewhere as an agent keeps it: a rule reaches further than a lesson."""
    giver = (item.agents or item.contributors or ("unknown",))[0]
    return Insight(
        text=_told(item),
        reach="subdomain" if item.kind == "lesson" else "cross_domain",
        niche=problem.niche,
        question=problem.question,
        giver=f"external:{giver}",
    )


def _structure_question(niche: str) -> str:
    return f"How should a team work together on tasks of the niche {fitted(niche, TITLE)}?"


def _source(problem: Problem) -> VerdictSource:
    return problem.source
