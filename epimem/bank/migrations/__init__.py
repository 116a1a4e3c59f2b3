"""Schema changes of the database, applied by Alembic to SQLite and PostgreSQL alike."""

from __future__ import annotations

from pathlib import Path

from sqlalchemy import Connection


def upgrade(connection: Connection) -> None:
    """Bring an empty or older database to the present schema, inside the caller's transaction."""
    from alembic import command
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", str(Path(__file__).parent))
    config.attributes["connection"] = connection
    command.upgrade(config, "head")
