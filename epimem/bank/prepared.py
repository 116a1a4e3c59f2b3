"""Statements compiled once and run on the driver: the few that every contribute runs.

A SQLAlchemy Core statement costs some 100 microseconds a call, mostly to find out what it compiled to
before. These are the same statements, for either database, compiled on first use.
"""

from __future__ import annotations

from typing import Any

from sqlalchemy import Connection
from sqlalchemy.sql import ClauseElement


class Prepared:
    """One statement with named parameters, compiled once a dialect.

    Args:
        statement: of SQLAlchemy Core, its values given as `bindparam`; an INSERT takes its columns.
        columns: the parameter names, for an INSERT without values.
    """

    def __init__(self, statement: ClauseElement, columns: tuple[str, ...] = ()) -> None:
        self._statement = statement
        self._columns = list(columns) or None
        self._compiled: dict[str, tuple[str, tuple[str, ...] | None]] = {}

    def run(self, connection: Connection, values: dict[str, Any]) -> None:
        """Execute without a result."""
        self._cursor(connection, values).close()

    def first(self, connection: Connection, values: dict[str, Any]) -> tuple[Any, ...] | None:
        """Execute and return the first row."""
        cursor = self._cursor(connection, values)
        row: tuple[Any, ...] | None = cursor.fetchone()
        cursor.close()
        return row

    def _cursor(self, connection: Connection, values: dict[str, Any]) -> Any:
        name = connection.dialect.name
        if name not in self._compiled:
            compiled = self._statement.compile(
                dialect=connection.dialect, column_keys=self._columns
            )
            order = getattr(compiled, "positiontup", None)
            self._compiled[name] = str(compiled), tuple(order) if order else None
        text, order = self._compiled[name]
        parameters = tuple(values[key] for key in order) if order is not None else values
        cursor = connection.connection.cursor()
        cursor.execute(text, parameters)
        return cursor
