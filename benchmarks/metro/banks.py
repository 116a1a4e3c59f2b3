"""Banks of episodes: contribute, ingest, maintain, freeze; each made once and found again."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.metro.learner import Episode
from benchmarks.metro.questions import FAMILY, Oracle
from benchmarks.metro.run_record import outcome_of, run_of
from epimem import ExperienceMemory
from epimem.config import CallerConfig, Config, ControllerConfig, TreeConfig
from epimem.evaluation.side_banks import drop_bank
from epimem.protocols import Encoder, MemoryController, TreeOrganizer
from epimem.schema.ids import uuid7

CREATED_AT = "2026-01-01T00:00:00Z"
CAPACITY = 32
"""Children of a node (the default is 16): room for the 30 lessons of an operator in one category."""
Controllers = tuple[MemoryController, TreeOrganizer]


def config_of(memory_controller: str = "embedded", tree_organizer: str = "embedded") -> Config:
    """Return the settings of the banks of this experiment with these controllers."""
    return Config(
        namespace=FAMILY,
        caller=CallerConfig(contributor="metro", organisation="metro-experiment"),
        tree=TreeConfig(capacity=CAPACITY),
        memory_controller=ControllerConfig(spec=memory_controller),
        tree_organizer=ControllerConfig(spec=tree_organizer),
    )


@dataclass(frozen=True)
class Banks:
    """Makes and opens the banks of one seed.

    Attributes:
        folder: takes one folder a bank.
        config: of all of them.
        encoder: of all of them, loaded once.
        controllers: of all of them; None: each loads its own by the settings.
    """

    folder: Path
    config: Config
    encoder: Encoder | None
    controllers: Controllers | None = None

    def built(
        self,
        name: str,
        make: Callable[[ExperienceMemory], None],
        controllers: Controllers | None = None,
    ) -> Path:
        """Return the folder of the frozen bank of this name, made by a function where it is missing."""
        path = self.folder / name
        done = path.with_suffix(".done")
        if not done.exists():
            drop_bank(path)
            path.parent.mkdir(parents=True, exist_ok=True)
            with ExperienceMemory.create(
                path,
                self.config,
                encoder=self.encoder,
                controllers=controllers or self.controllers,
            ) as memory:
                make(memory)
                memory.freeze()
            done.touch()
        return path

    def open(self, path: Path, **changes: object) -> ExperienceMemory:
        """Open a frozen bank for evaluation, with changed settings where some are named."""
        return ExperienceMemory.open(
            path,
            read_only=True,
            phase="evaluation",
            config=self.config.model_copy(update=changes),
            encoder=self.encoder,
            controllers=self.controllers,
        )


def contribute(memory: ExperienceMemory, episodes: Sequence[Episode], oracle: Oracle) -> None:
    """Hand in the runs of episodes with their sealed outcomes."""
    for episode in episodes:
        memory.add_image(episode.question.map.png)
        run_id = uuid7()
        memory.contribute(
            run_of(episode, run_id=run_id, created_at=CREATED_AT),
            outcome=outcome_of(episode, oracle, run_id=run_id),
        )


def organize(memory: ExperienceMemory) -> None:
    """Derive lessons from what was handed in, and put them into the tree."""
    memory.ingest()
    memory.maintain()


def builder(episodes: Sequence[Episode], oracle: Oracle) -> Callable[[ExperienceMemory], None]:
    """Return the function that fills a bank with episodes."""

    def make(memory: ExperienceMemory) -> None:
        contribute(memory, episodes, oracle)
        organize(memory)

    return make
