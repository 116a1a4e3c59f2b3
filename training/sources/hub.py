"""The data sets by their hub id, and their rows: streamed from the hub, or out of a local folder.

Images are left undecoded, so that a damaged one costs its own row and is decoded where every image of
epimem is: in a limited process.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from epimem.errors import ConfigError, NotFoundError, PluginError, StorageError
from training.sources import readers
from training.sources.question import SourceQuestion

Reader = Callable[[Mapping[str, Any], "Path | None"], SourceQuestion]


@dataclass(frozen=True)
class Source:
    """A data set of the hub.

    Attributes:
        hub_id: owner and name.
        read: from a row to a question; takes the folder of images where these lie apart.
        config: configuration of the hub, "" for the only one.
        split: the one to read unless another is asked for.
        licence: what its card says of its terms, for whoever uses it.
        annotations: the one file to read where the rows are not parquet.
        images_apart: rows name images as paths below a folder that has to be given.
    """

    hub_id: str
    read: Reader
    config: str = ""
    split: str = "train"
    licence: str = "not declared"
    annotations: str = ""
    images_apart: bool = False

    @property
    def name(self) -> str:
        """The hub id, with the configuration after a colon where there are several."""
        return f"{self.hub_id}:{self.config}" if self.config else self.hub_id


_RRC = "packaging Apache-2.0; pictures under the terms of the Robust Reading Competition"
SOURCES: Mapping[str, Source] = {
    source.name: source
    for source in (
        Source("ShadenA/MathNet", readers.mathnet, licence="CC-BY-4.0"),
        Source(
            "Zhiqiang007/MathV360K",
            readers.mathv360k,
            licence="not declared; 24 source sets with terms of their own",
            annotations="train_samples_all_tuning.json",
            images_apart=True,
        ),
        Source("HuggingFaceM4/ChartQA", readers.chartqa, licence="GPL-3.0"),
        Source("lmms-lab/ChartQA", readers.chartqa_test, split="test"),
        Source(
            "lmms-lab/DocVQA", readers.docvqa, config="DocVQA", split="validation", licence=_RRC
        ),
        Source(
            "lmms-lab/DocVQA",
            readers.infographicvqa,
            config="InfographicVQA",
            split="validation",
            licence=_RRC,
        ),
        Source(
            "ibm-granite/ChartNet",
            readers.chartnet,
            config="reasoning",
            licence="terms differ by subset; see the card",
        ),
    )
}


def source(name: str) -> Source:
    """Return a data set by its name, or by its hub id where that has one configuration here.

    Raises:
        ConfigError: lists those there are.
    """
    found = [item for item in SOURCES.values() if name in {item.name, item.hub_id}]
    if len(found) == 1:
        return found[0]
    names = ", ".join(item.name for item in found) if found else ", ".join(SOURCES)
    message = "several configurations" if found else "no reader for this data set"
    raise ConfigError(message, field="HUB_ID", got=name, hint=f"one of {names}")


def rows(source: Source, *, folder: Path | None, split: str) -> Iterator[dict[str, Any]]:
    """Yield the rows of a split, images undecoded.

    Args:
        source: which data set.
        folder: a local copy, its parquet files anywhere below (or the file of annotations); None: the
            hub.
        split: by its name in the data set; in a folder, files whose name begins with it are read, all
            where there are none.

    Raises:
        NotFoundError: no such folder, data set, configuration or split.
        StorageError: the stream broke off; what was yielded stands.
        PluginError: the library `datasets` is missing.
    """
    stream = iter(_stream(source, folder, split))
    while True:
        try:
            row = next(stream)
        except StopIteration:
            return
        except Exception as error:
            raise StorageError(
                f"the data set broke off: {type(error).__name__}",
                field=source.name,
                hint="the same command goes on",
            ) from error
        yield row


def _stream(source: Source, folder: Path | None, split: str) -> Any:
    try:
        import datasets
    except ImportError as error:
        raise PluginError(
            "reading data sets of the hub needs datasets", hint="pip install 'epimem[train]'"
        ) from error
    # A progress bar would stand in the way of ours.
    datasets.disable_progress_bars()
    try:
        opened = _opened(datasets, source, folder, split)
        # Rows without a schema (JSON) hold no picture that would be decoded.
        return opened.decode(False) if opened.features else opened
    except NotFoundError:
        raise
    except Exception as error:
        raise NotFoundError(
            f"the data set cannot be opened: {type(error).__name__}",
            field=source.name,
            got=str(error),
            hint="check the split and the network, or give a local copy with --folder",
        ) from error


def _opened(datasets: Any, source: Source, folder: Path | None, split: str) -> Any:
    if folder is None:
        files = {"data_files": {split: source.annotations}} if source.annotations else {}
        name = source.config or None
        return datasets.load_dataset(source.hub_id, name, split=split, streaming=True, **files)
    kind, found = _local(source, folder, split)
    return datasets.load_dataset(kind, data_files=found, split="train", streaming=True)


def _local(source: Source, folder: Path, split: str) -> tuple[str, list[str]]:
    pattern = source.annotations or "*.parquet"
    found = sorted(folder.rglob(pattern)) if folder.is_dir() else []
    for word in (source.config, split):
        narrower = [path for path in found if _bears(path.relative_to(folder), word)]
        found = narrower or found
    if not found:
        raise NotFoundError(f"no {pattern} below this folder", field="--folder", got=str(folder))
    return ("json" if source.annotations else "parquet"), [str(path) for path in found]


def _bears(path: Path, word: str) -> bool:
    return bool(word) and (word in path.parts[:-1] or path.name.startswith(word))
