"""Runs one migration and its record in one transaction, on the connection that `state.migrate` hands over."""

from typing import Any

from alembic import context
from alembic.runtime.migration import MigrationContext


def check_foreign_keys(ctx: MigrationContext, *_: Any, **__: Any) -> None:
    """Refuse, before it commits, a migration that leaves a row without the row it points to."""
    connection = ctx.connection
    assert connection is not None
    if connection.dialect.name != "sqlite":
        return
    orphans = connection.exec_driver_sql("PRAGMA foreign_key_check").fetchall()
    if orphans:
        raise RuntimeError(f"A migration left {len(orphans)} rows without their parent, first {tuple(orphans[0])}.")


context.configure(
    connection=context.config.attributes["connection"],
    transactional_ddl=True,  # Alembic believes that SQLite has none
    on_version_apply=check_foreign_keys,
)
with context.begin_transaction():
    context.run_migrations()
