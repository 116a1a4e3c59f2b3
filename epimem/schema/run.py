"""A run: `epimem-run/1`, one solving attempt by a harness (reference: harnesses.md 2.3).

    Run
    ├── task         question, public information, pages (images) in order
    ├── system       harness, backbones, snapshots
    ├── trajectory   an ATIF v1.8 document, one embedded chain per (agent, attempt, sample);
    │                its extra.epimem holds actors and events, a step's extra.epimem its `seq`
    ├── retrievals   what memory was shown
    ├── answer, costs (harness and memory apart), native (the original log, by hash)

One global `seq` is unique across steps and events, so sorting by it is
tau = Interleave(tau_1..tau_N, B), and filtering by actor gives each tau_i back exactly.
The reference answer and the score are not here: they live in `epimem.schema.outcome`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Literal, Self

from pydantic import Field, ValidationError, model_validator

from epimem.schema import strict_json
from epimem.schema.atif import ContentPart, Step, Trajectory
from epimem.schema.base import Bit, Record, StrictFloat, StrictInt, record_error
from epimem.schema.ids import question_key, sha256
from epimem.schema.region import Region
from epimem.schema.text import RunText, escape_tree

MAX_PAGES = 64
SCHEMA = "epimem-run/1"
IMAGE_PREFIX = "sha256:"
# Names under which a reference or score could slip into a run; the semantic level refuses them.
SEALED_KEYS = frozenset(
    {"ground_truth", "reference_answer", "gold_answer", "official_score", "sealed_outcome"}
)

EventKind = Literal[
    "message",
    "handoff",
    "artifact",
    "recruit",
    "stop",
    "finalize",
    "terminate",
    "vote",
    "route",
    "structure",
    "retrieve",
    "contribute",
    "verify",
    "lifecycle",
    "view",
    "other",
]


class Page(Record):
    """One page or image of the question, upright, in page order; `image_id` names its pixels."""

    page: StrictInt = Field(ge=1)
    image_id: str
    width: StrictInt = Field(ge=1)
    height: StrictInt = Field(ge=1)


class Task(Record):
    """What was asked. `family` and `house` are public; `group_key` keeps splits apart."""

    task_id: str
    family: str = ""
    house: str = ""
    split_role: Literal["construction", "evolution", "evaluation"] = "construction"
    question: RunText
    public: dict[str, Any] = Field(default_factory=dict)
    pages: tuple[Page, ...] = ()
    group: str | None = None

    @model_validator(mode="after")
    def _pages_in_order(self) -> Self:
        if len(self.pages) > MAX_PAGES:
            raise ValueError(f"more than {MAX_PAGES} pages")
        if [page.page for page in self.pages] != list(range(1, len(self.pages) + 1)):
            raise ValueError("pages must be numbered 1, 2, 3, ... in order")
        return self

    @property
    def question_key(self) -> str:
        """SHA-256 of the normalised question and its image ids in page order."""
        return question_key(self.question, [page.image_id for page in self.pages])

    @property
    def group_key(self) -> str:
        """The harness's group (map, document, task family), else the question key."""
        return self.group or self.question_key


class Backbone(Record):
    """A model the harness ran on."""

    id: str
    revision: str | None = None


class System(Record):
    """Who made the run."""

    harness: str
    harness_version: str = ""
    backbones: tuple[Backbone, ...] = ()
    scaffold_snapshot: str | None = None
    bank_snapshot: str | None = None
    seed: StrictInt | None = None


class Actor(Record):
    """One agent in one attempt and sample; `traj` is the trajectory_id of its chain."""

    id: str
    traj: str
    role: str = ""
    backbone: str | None = None
    adapter: str | None = None
    attempt: StrictInt = 1
    sample: StrictInt = 0


class StepRef(Record):
    """A step of one chain."""

    traj: str
    step: StrictInt = Field(ge=1)


class Event(Record):
    """Something that happened between agents; `view` looks at a region of a page."""

    seq: StrictInt = Field(ge=0)
    kind: EventKind
    ts: str | None = None
    sender: str | None = Field(default=None, alias="from")
    to: tuple[str, ...] = ()
    step_ref: StepRef | None = None
    parts: tuple[ContentPart, ...] = ()
    page: StrictInt | None = None
    region: Region | None = None
    data: dict[str, Any] = Field(default_factory=dict)


class Retrieval(Record):
    """What memory was shown to the harness during the run."""

    retrieval_id: str
    item_ids: tuple[str, ...] = ()
    shown_text_hash: str | None = None
    images: tuple[str, ...] = ()
    visual_gate: Bit = 0
    bank_snapshot: str | None = None
    seq: StrictInt | None = None


class Answer(Record):
    """The last completed answer."""

    text: RunText = ""
    by_actor: dict[str, RunText] = Field(default_factory=dict)
    finish_reason: str = ""


class Cost(Record):
    """Wall time in seconds, tokens and calls."""

    time_s: StrictFloat | StrictInt = 0
    tokens_in: StrictInt = 0
    tokens_out: StrictInt = 0
    cached: StrictInt = 0
    reasoning: StrictInt = 0
    calls: StrictInt = 0


class Costs(Record):
    """Cost of the harness (`mas`) and of memory operations, apart."""

    mas: Cost = Cost()
    memory: Cost = Cost()


class Native(Record):
    """The original log, by blob hash, so that nothing is lost."""

    format: str
    version: str = ""
    blob: str | None = None


class Run(Record):
    """One solving attempt with its whole trajectory. See the module for its parts.

    `replaced` counts characters of its text that nothing could store and that stand as visible
    escapes; `read` sets it.
    """

    schema_: Literal["epimem-run/1"] = Field(default="epimem-run/1", alias="schema")
    run_id: str
    created_at: str
    task: Task
    system: System
    trajectory: Trajectory
    retrievals: tuple[Retrieval, ...] = ()
    answer: Answer = Answer()
    costs: Costs = Costs()
    native: Native | None = None
    replaced: StrictInt = Field(default=0, ge=0)

    @classmethod
    def read(cls, data: bytes | str | dict[str, Any]) -> Self:
        """Read a run from JSON bytes, text or plain data; no text of it is refused.

        Raises:
            RecordError: `bad_json` or `invalid_field`, naming the field.
        """
        if not isinstance(data, dict):
            data = strict_json.loads(data, max_depth=strict_json.RUN_DEPTH, keep_surrogates=True)
        value, replaced = escape_tree(data)
        if replaced and isinstance(value, dict):
            value["replaced"] = replaced + _count(value.get("replaced"))
        try:
            return cls.model_validate(value)
        except ValidationError as error:
            raise record_error(error) from error

    @model_validator(mode="after")
    def _envelope_holds(self) -> Self:
        for chain in self.trajectory.walk():
            for step in chain.steps:
                seq = _envelope(step.extra).get("seq", 0)
                if type(seq) is not int or seq < 0:
                    raise ValueError("a step's extra.epimem.seq must be a whole number from 0")
        for name, record in (("actors", Actor), ("events", Event)):
            try:
                for item in self._listed(name):
                    record.model_validate(item)
            except ValidationError as error:
                raise ValueError(f"extra.epimem.{name}: {record_error(error)}") from None
        return self

    def plain(self) -> dict[str, Any]:
        """Return plain JSON data; a run always says which schema it follows."""
        return {"schema": self.schema_, **super().plain()}

    @property
    def actors(self) -> tuple[Actor, ...]:
        """The agents named in the envelope."""
        return tuple(Actor.model_validate(item) for item in self._listed("actors"))

    @property
    def events(self) -> tuple[Event, ...]:
        """The events of the bus, in stored order."""
        return tuple(Event.model_validate(item) for item in self._listed("events"))

    def _listed(self, name: str) -> list[Any]:
        items = _envelope(self.trajectory.extra).get(name, [])
        if not isinstance(items, list | tuple):
            raise ValueError(f"extra.epimem.{name} must be a list")  # noqa: TRY004 (for pydantic)
        return list(items)

    @property
    def image_ids(self) -> tuple[str, ...]:
        """The ids of all images the run refers to: pages, then those shown in steps and events."""
        paths = [part.source.path for _, part in _image_parts(self) if part.source is not None]
        shown = [path.removeprefix(IMAGE_PREFIX) for path in paths if path.startswith(IMAGE_PREFIX)]
        return tuple(dict.fromkeys((*(page.image_id for page in self.task.pages), *shown)))

    @property
    def content_hash(self) -> str:
        """SHA-256 of the canonical record without id and creation time: equal for a re-import."""
        plain = self.plain()
        plain.pop("run_id", None)
        plain.pop("created_at", None)
        return sha256(strict_json.dumps(plain))


class Turn(Record):
    """One entry of the interleaved run: a step of a chain, or an event of the bus."""

    seq: StrictInt
    actor: str
    traj: str | None = None
    step: Step | None = None
    event: Event | None = None

    @property
    def text(self) -> str:
        """The visible text of the entry."""
        if self.step is not None:
            return self.step.text
        parts = self.event.parts if self.event else ()
        return "\n".join(part.text for part in parts if part.text is not None)


def interleave(run: Run) -> tuple[Turn, ...]:
    """Return tau: all steps and events of the run in the order of their global `seq`.

    Steps without a `seq` (foreign documents) follow in document order after the last one.
    """
    actor_of = {actor.traj: actor.id for actor in run.actors}
    turns: list[Turn] = []
    loose: list[tuple[str, Trajectory, Step]] = []
    for chain in run.trajectory.walk():
        name = chain.trajectory_id or ""
        actor = actor_of.get(name, chain.agent.name)
        for step in chain.steps:
            seq = step_seq(step)
            if seq is None:
                loose.append((actor, chain, step))
            else:
                turns.append(Turn(seq=seq, actor=actor, traj=name, step=step))
    turns += [Turn(seq=event.seq, actor=event.sender or "", event=event) for event in run.events]
    after = max((turn.seq for turn in turns), default=-1) + 1
    for offset, (actor, chain, step) in enumerate(loose):
        name = chain.trajectory_id or ""
        turns.append(Turn(seq=after + offset, actor=actor, traj=name, step=step))
    return tuple(sorted(turns, key=lambda turn: turn.seq))


def chains(turns: Iterable[Turn]) -> dict[str, tuple[Step, ...]]:
    """Return tau_i for each chain: the inverse of `interleave` for steps."""
    result: dict[str, list[Step]] = {}
    for turn in turns:
        if turn.step is not None and turn.traj is not None:
            result.setdefault(turn.traj, []).append(turn.step)
    return {name: tuple(steps) for name, steps in result.items()}


def step_seq(step: Step) -> int | None:
    """Return the global sequence number of a step, None where the source had none."""
    seq = _envelope(step.extra).get("seq")
    return seq if isinstance(seq, int) else None


def _envelope(extra: dict[str, Any] | None) -> dict[str, Any]:
    found = (extra or {}).get("epimem", {})
    if not isinstance(found, dict):
        raise ValueError("extra.epimem must be an object")  # noqa: TRY004 (for pydantic)
    return found


def _count(value: object) -> int:
    return value if isinstance(value, int) else 0


class Finding(Record):
    """What a validator found; `level` 1 schema, 2 semantic, 3 leak. Level 3 is a warning."""

    level: Literal[1, 2, 3]
    code: str
    detail: str


def check_semantics(run: Run, blob_exists: Callable[[str], bool]) -> tuple[Finding, ...]:
    """Second level: `seq` unique, references resolve, images exist, no sealed key anywhere.

    Args:
        run: a run that passed the schema.
        blob_exists: tells whether an image id is stored.
    """
    found = (*_order(run), *_references(run), *_images(run, blob_exists), *_sealed(run))
    return tuple(Finding(level=2, code=code, detail=detail) for code, detail in found)


def find_leaks(run: Run, references: Sequence[str]) -> tuple[Finding, ...]:
    """Third level: reference strings (three characters and more) in what a model can see.

    Looked through are all texts of a turn, tool arguments and reasoning among them.
    """
    wanted = [text.strip().casefold() for text in references if len(text.strip()) >= 3]
    found = []
    for turn in interleave(run):
        texts = [text.casefold() for text in _texts((turn.step or turn).plain())]
        if any(reference in text for reference in wanted for text in texts):
            found.append(Finding(level=3, code="reference_visible", detail=f"seq {turn.seq}"))
    return tuple(found)


_Findings = Iterator[tuple[str, str]]


def _order(run: Run) -> _Findings:
    turns = interleave(run)
    if len({turn.seq for turn in turns}) != len(turns):
        yield "seq_repeated", "two entries share one seq"
    names = [chain.trajectory_id or "" for chain in run.trajectory.walk()]
    if len(set(names)) != len(names):
        yield "chain_repeated", "two chains share one trajectory_id"


def _references(run: Run) -> _Findings:
    steps = {chain.trajectory_id or "": len(chain.steps) for chain in run.trajectory.walk()}
    pages = {page.page: (page.width, page.height) for page in run.task.pages}
    for actor in run.actors:
        if actor.traj not in steps:
            yield "unknown_chain", f"actor names chain {actor.traj!r}"
    for event in run.events:
        if event.step_ref and event.step_ref.step > steps.get(event.step_ref.traj, 0):
            yield "unknown_step", f"event {event.seq} names a step that does not exist"
        if event.page is not None and event.page not in pages:
            yield "unknown_page", f"event {event.seq} names page {event.page}"
        elif event.region and (event.region.width, event.region.height) != pages.get(
            event.page or 0
        ):
            yield "region_size", f"event {event.seq} has a region of another image"


def _images(run: Run, blob_exists: Callable[[str], bool]) -> _Findings:
    for page in run.task.pages:
        if not blob_exists(page.image_id):
            yield "image_missing", f"page {page.page}"
    for seq, part in _image_parts(run):
        path = part.source.path if part.source else ""
        if not path.startswith(IMAGE_PREFIX):
            yield "image_path", f"seq {seq} holds an image by path, not by hash"
        elif not blob_exists(path.removeprefix(IMAGE_PREFIX)):
            yield "image_missing", f"seq {seq}"


def _image_parts(run: Run) -> Iterator[tuple[int, ContentPart]]:
    for turn in interleave(run):
        parts = turn.step.parts if turn.step else turn.event.parts if turn.event else ()
        yield from ((turn.seq, part) for part in parts if part.type == "image")


def _sealed(run: Run) -> _Findings:
    found = {key for key, _ in _items(run.plain()) if key in SEALED_KEYS}
    yield from (("sealed_key", key) for key in sorted(found))


def _texts(value: dict[str, Any]) -> list[str]:
    return [item for _, item in _items(value) if isinstance(item, str)]


def _items(value: Any) -> Iterator[tuple[str, Any]]:
    """Yield every key with its value, and every list item under an empty key."""
    stack = [value]
    while stack:
        item = stack.pop()
        pairs = item.items() if isinstance(item, dict) else [("", child) for child in item]
        for key, child in pairs:
            yield key, child
            if isinstance(child, dict | list):
                stack.append(child)
