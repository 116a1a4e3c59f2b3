"""What Alembic runs: apply migrations on the connection that was handed over."""

from __future__ import annotations

from alembic import context

from epimem.bank.tables import metadata

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=metadata,
    render_as_batch=True,
)
context.run_migrations()
