"""The jobs behind `epimem train demonstrations`: from worlds, from worked examples, from runs."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from epimem.cli.output import note
from epimem.cli.progress import Report
from epimem.protocols import Encoder
from training.demonstrations.asking import Controllers
from training.demonstrations.store import DemonstrationSet

WORK = "work"


@dataclass(frozen=True)
class Wanted:
    """What is to be collected, as it was typed."""

    runs: Path | None
    teacher: str
    reviser: str | None
    format_name: str
    images: tuple[str, ...]
    worlds: tuple[str, ...]
    count: int
    observed: Path | None
    seed: int
    mix: int
    deadline_s: float


def collected(
    wanted: Wanted, made: DemonstrationSet, encoder: Encoder | None, report: Report
) -> dict[str, Any]:
    """Put everything that is wanted into a set; return what was gone through, by where it is from.

    Args:
        wanted: what to collect.
        made: receives demonstrations.
        encoder: of practice banks and worlds; None: by words alone.
        report: shows progress.
    """
    found: dict[str, Any] = {}
    if wanted.worlds:
        found["worlds"] = _from_worlds(wanted, made, encoder, report)
    if wanted.observed is not None:
        from training.demonstrations.observed import observe

        found["observed"] = observe(
            wanted.observed, made, made.path / WORK, encoder=encoder, progress=report
        )
    if wanted.runs is not None:
        found["runs"] = _from_runs(wanted, made, encoder, report)
    return found


def _from_worlds(
    wanted: Wanted, made: DemonstrationSet, encoder: Encoder | None, report: Report
) -> dict[str, int]:
    from training import worlds

    drawn: dict[str, int] = {}
    for name in wanted.worlds:
        drawn[name] = 0
        for found, _ in worlds.demonstrations(
            name, seed=wanted.seed, count=wanted.count, encoder=encoder
        ):
            if found.id not in made.done:
                made.add(found)
            drawn[name] += 1
            report(f"world {name}", drawn[name], 0)
    return drawn


def _from_runs(
    wanted: Wanted, made: DemonstrationSet, encoder: Encoder | None, report: Report
) -> dict[str, Any]:
    from training.demonstrations.collect import collect
    from training.demonstrations.intake import opened_runs
    from training.demonstrations.teacher import Teacher

    assert wanted.runs is not None
    work = made.path / WORK
    with ExitStack() as stack:
        first = stack.enter_context(Loaded(wanted.teacher, wanted.deadline_s))
        second = None
        if wanted.reviser is not None:
            second = stack.enter_context(Loaded(wanted.reviser, wanted.deadline_s))
        source = stack.enter_context(
            opened_runs(
                wanted.runs,
                work,
                format_name=wanted.format_name,
                images=wanted.images,
                progress=report,
            )
        )
        teacher = Teacher(made, first, second, source=wanted.runs.name, seed=wanted.seed)
        found = collect(
            source,
            teacher,
            work,
            encoder=encoder,
            seed=wanted.seed,
            mix=wanted.mix,
            progress=report,
        )
    taught = teacher.taught
    return {
        **asdict(found),
        "runs": len(source.runs),
        "runs_refused": source.refused,
        "accepted": taught.accepted,
        "set_aside": taught.set_aside,
        "revised": taught.revised,
        "known": taught.known,
        "usage": (first.usage + second.usage if second is not None else first.usage).plain(),
    }


class Loaded:
    """Both roles of one spec, loaded here and ended here."""

    def __init__(self, spec: str, deadline_s: float) -> None:
        self._spec, self._deadline_s = spec, deadline_s
        self._roles: Any = None

    def __enter__(self) -> Controllers:
        from epimem.config import Config, ControllerConfig
        from epimem.plugins import Controllers as Plugins

        section = ControllerConfig(spec=self._spec, deadline_s=self._deadline_s)
        config = Config(memory_controller=section, tree_organizer=section)
        self._roles = Plugins(None)
        try:
            return Controllers(
                self._roles.memory_controller(config),
                self._roles.tree_organizer(config),
                self._deadline_s,
            )
        except BaseException:
            self._roles.close()
            raise

    def __exit__(self, *error: object) -> None:
        self._roles.close()


def encoder_of(model: str | None) -> Encoder | None:
    """Return the encoder asked for, or the usual one where it is installed; None for words alone.

    Raises:
        ConfigError: the one that was asked for cannot be had.
    """
    if model == "none":
        return None
    from epimem.bank.encoder import load_encoder
    from epimem.config import EncoderConfig
    from epimem.errors import ConfigError

    try:
        return load_encoder(model or EncoderConfig().model)
    except ConfigError as error:
        if model is not None:
            raise
        note(f"epimem: no text encoder: {error.message}; practice banks recall by words alone")
        return None
