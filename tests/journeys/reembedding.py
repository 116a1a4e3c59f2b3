"""What the tests of a change of the encoder share: whose vectors a bank has, looked at byte by byte."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

from epimem.bank.bank import Bank
from epimem.bank.encoder import node_vectors
from epimem.protocols import Encoder
from epimem.schema.tree import Node
from tests.journeys.crash import problems


def all_nodes(bank: Bank) -> list[Node]:
    """Return the live nodes, placed and waiting."""
    found: list[Node] = []
    for namespace in bank.namespaces():
        tree = bank.tree(namespace)
        found += [*(tree.walk() if tree is not None else ()), *bank.inbox(namespace, limit=1000)]
    return found


def assert_all_vectors_are_of(bank: Bank, encoder: Encoder) -> None:
    """Every live index text has exactly the vectors of this encoder."""
    nodes = [node for node in all_nodes(bank) if node.index.text.strip()]
    stored = bank.vectors(nodes)
    made = node_vectors(encoder, [node.index for node in nodes])
    assert stored.keys() == {node.node_id for node in nodes} != set()
    for node, own in zip(nodes, made, strict=True):
        assert stored[node.node_id].index.tobytes() == own.index.tobytes()
        assert stored[node.node_id].scope.tobytes() == own.scope.tobytes()
        assert stored[node.node_id].anchor.tobytes() == own.anchor.tobytes()
    assert problems(bank) == []


def rows_in(folder: Path, table: str) -> int:
    """Return how many rows a table of the bank has."""
    with closing(sqlite3.connect(folder / "bank.db")) as raw:
        return int(raw.execute(f"SELECT count(*) FROM {table}").fetchone()[0])
