"""Two tables for changing the encoder while the old one serves; both start empty.

Nothing that was there changes, so a bank keeps its format number.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Create the tables."""
    op.create_table(
        "next_vectors",
        sa.Column("node_id", sa.Text(), nullable=False),
        sa.Column("text_hash", sa.Text(), nullable=False),
        sa.Column("index_vector", sa.LargeBinary(), nullable=False),
        sa.Column("scope_vector", sa.LargeBinary(), nullable=False),
        sa.Column("anchor_vector", sa.LargeBinary(), nullable=False),
        sa.Column("checksum", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("node_id", "text_hash"),
    )
    op.create_table(
        "reembedding",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("target", sa.Text(), nullable=False),
        sa.Column("holder", sa.Text(), nullable=False),
        sa.Column("until", sa.BigInteger(), nullable=False),
        sa.Column("ready", sa.Integer(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
    )
