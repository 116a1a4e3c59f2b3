"""From a finished run to a folder that can be served: adapter, merged weights, model card, commands."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from controllers.backends.local_adapters import SETTINGS, WEIGHTS
from epimem.errors import ConfigError, NotFoundError, RecordError
from training.demonstrations.writing import CARD, CARD_TEXT
from training.evaluation.report import Report
from training.evaluation.subjects import identity
from training.evaluation.table import markdown
from training.export.fingerprint import fingerprint
from training.export.model_card import Facts, model_card
from training.export.run_folder import RunFolder, open_run
from training.export.serving import Serving, serving

ADAPTER, MERGED = "adapter", "merged"
MODEL_CARD, EXPORT = "MODEL_CARD.md", "export.json"


@dataclass(frozen=True)
class Exported:
    """What an export wrote; `commands` serve it, by "adapter" and "merged"."""

    out: Path
    role: str
    base: str
    fingerprint: str
    prompt_version: str
    commands: dict[str, Serving]

    def plain(self) -> dict[str, Any]:
        """Return it as plain JSON data."""
        commands = {name: it.plain() for name, it in self.commands.items()}
        return {**vars(self), "out": str(self.out), "commands": commands}


def export(
    run: Path,
    out: Path,
    *,
    merge: bool = False,
    model: str | None = None,
    demonstrations: Path | None = None,
    report: Path | None = None,
    tell: Callable[[str], None] = lambda _: None,
) -> Exported:
    """Write what a run learnt into a new folder, ready to be served; all of it, or nothing.

    Args:
        run: folder of a finished `epimem train sft`.
        out: the new folder.
        merge: also write the base with the adapter in its weights; full weights are always written.
        model: folder, hub name or preset of the base; by default the one the run was trained on.
        demonstrations: the set it was trained on, for the counts of the card.
        report: of `epimem train evaluate`, for the table of the card.
        tell: told in words how it goes on.

    Raises:
        NotFoundError: no run there, no report, or no set of demonstrations.
        ConfigError: the folder is taken; the run is not finished, was trained on another base or on
            other prompts, is pickled; the report is of other prompts; the set is another one.
        PluginError: a package of the extra `train` is missing.
    """
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise ConfigError("the folder is taken", got=out.name, hint="name a new one")
    found = open_run(run)
    base = found.base(model)
    base_fingerprint = found.check_base(base)
    data = _data(found, demonstrations) if demonstrations is not None else ""
    table = _table(found, base, report) if report is not None else ""
    partial = out.with_name(f"{out.name}.partial")
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir(parents=True)
    try:
        _write_weights(found, base, partial, merge=merge, tell=tell)
        facts = Facts(
            record=found.record,
            base=base if not Path(base).is_dir() else Path(base).name,
            base_fingerprint=base_fingerprint,
            fingerprint=fingerprint(found.weights),
            lora=found.lora,
            merged=merge or not found.lora,
            serving=_for_card(_commands(found, base, partial), base, partial),
            data=data,
            table=table,
        )
        (partial / MODEL_CARD).write_text(model_card(facts), encoding="utf-8")
        told = {
            "format": "epimem-export/1",
            "role": found.role,
            "prompts": found.prompt_version,
            "base": facts.base,
            "base_fingerprint": base_fingerprint,
            "fingerprint": facts.fingerprint,
        }
        (partial / EXPORT).write_text(json.dumps(told, indent=1) + "\n", encoding="utf-8")
        if out.is_dir():
            out.rmdir()
        partial.replace(out)
    except BaseException:
        shutil.rmtree(partial, ignore_errors=True)
        raise
    return Exported(
        out=out,
        role=found.role,
        base=facts.base,
        fingerprint=facts.fingerprint,
        prompt_version=found.prompt_version,
        commands=_commands(found, base, out),
    )


def _write_weights(
    run: RunFolder, path: str, out: Path, *, merge: bool, tell: Callable[[str], None]
) -> None:
    from controllers.backends.local_base import Base
    from training.export.weights import check_fit, merged, save

    tell(f"loading {Path(path).name}")
    base = Base(path)
    if run.lora:
        check_fit(run.weights, base.model)
        _copy_adapter(run.weights, out / ADAPTER, path)
    if merge or not run.lora:
        tell("merging" if run.lora else "writing all weights")
        save(merged(run.weights, base, path, lora=run.lora), base, path, out / MERGED)


def _copy_adapter(adapter: Path, target: Path, base: str) -> None:
    """Copy the two files of an adapter; of the base its settings keep a name, never a place."""
    target.mkdir()
    shutil.copyfile(adapter / WEIGHTS, target / WEIGHTS)
    settings = json.loads((adapter / SETTINGS).read_text(encoding="utf-8"))
    settings["base_model_name_or_path"] = base if not Path(base).is_dir() else Path(base).name
    text = json.dumps(settings, indent=2, sort_keys=True) + "\n"
    (target / SETTINGS).write_text(text, encoding="utf-8")


def _commands(run: RunFolder, base: str, out: Path) -> dict[str, Serving]:
    """Return the commands that serve what lies in a folder."""
    role: Any = run.role
    found = {}
    if (out / ADAPTER).is_dir():
        found[ADAPTER] = serving(role, base, out / ADAPTER)
    if (out / MERGED).is_dir():
        found[MERGED] = serving(role, str(out / MERGED), None)
    return found


def _for_card(commands: Mapping[str, Serving], base: str, out: Path) -> dict[str, Serving]:
    """Return the commands as typed in the folder of the card; they tell nothing of this machine."""
    places = {f"{out}/": "", **({base: "BASE"} if Path(base).is_dir() else {})}
    return {name: it.told(places) for name, it in commands.items()}


def _data(run: RunFolder, folder: Path) -> str:
    """Return the card of the set, which must be the one that the run was trained on."""
    try:
        digest = hashlib.sha256((folder / CARD).read_bytes()).hexdigest()
        text = (folder / CARD_TEXT).read_text(encoding="utf-8")
    except OSError as error:
        raise NotFoundError("no finished set of demonstrations here", got=folder.name) from error
    recorded = run.record.get("data", {}).get("card")
    if recorded and recorded != digest:
        raise ConfigError(
            "the run was trained on another set of demonstrations",
            field="--demonstrations",
            got=folder.name,
        )
    return text


def _table(run: RunFolder, base: str, path: Path) -> str:
    """Return the table of a report, and which of its controllers this one is."""
    try:
        report = Report.read(path.read_bytes())
    except FileNotFoundError:
        raise NotFoundError("no report of an evaluation there", got=path.name) from None
    except RecordError as error:
        raise ConfigError(f"not a report of an evaluation: {error}", got=path.name) from error
    if report.prompt_version != run.prompt_version:
        raise ConfigError(
            "the report is of prompts of another version", field="--report", got=path.name
        )
    model = f"{base}+{run.weights}" if run.lora else str(run.weights)
    own = {identity(f"{kind}:{model}")[1] for kind in ("transformers", "vllm")}
    names = [it.name for it in report.controllers if it.fingerprint in own]
    said = (
        f"This controller is {' and '.join(names)} in the table."
        if names
        else "No controller in the table could be recognised as this one by its weights."
    )
    return f"{said} {markdown(report)}"
