"""Brings a database to the layout that this program knows, one transaction per migration, or says why not.

Alembic is imported only if there is something to do. The rules for SQLite: an own connection with foreign
keys off (a table rebuilt with them on would take its children along), our BEGIN IMMEDIATE, the record in the
same transaction, and a look at every foreign key before it commits.
"""

import contextlib
import logging
import os
import sqlite3
from collections.abc import Iterator
from pathlib import Path

from state import sqlite
from state.copying import copy_out
from state.errors import DatabaseRefusedError, HomeLockedError, SchemaTooNewError, SchemaTooOldError
from state.lock import HomeLock

HEAD = "0003"
"""The newest migration under `migrations/versions`."""

_SCRIPTS = Path(__file__).parent / "migrations"

log = logging.getLogger(__name__)


def layout_of(raw: sqlite3.Connection, path: Path) -> str | None:
    """Return the database's newest migration, None for a blank one.

    Raises DamagedError for a file that is no database, DatabaseRefusedError for another program's.
    """
    try:
        names = {row[0] for row in raw.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")}
        if "alembic_version" in names:
            row = raw.execute("SELECT version_num FROM alembic_version").fetchone()
            return None if row is None else str(row[0])
    except sqlite3.DatabaseError as error:
        raise sqlite.for_caller(path, error) from error
    if names:
        raise DatabaseRefusedError(path, "it is a database of another program", "Choose another --home.")
    return None


def bring_up_to_date(path: Path) -> None:
    """Create or migrate the database at the path; doing it twice is doing it once.

    Raises SchemaTooNewError for one from the future, SchemaTooOldError if a daemon of an older version is
    working on it.
    """
    raw = sqlite.connect_plain(path)
    try:
        found = layout_of(raw, path)
        if found == HEAD:
            return
        if found is not None and not knows(found):
            raise SchemaTooNewError(path, found)
        sqlite.set_up_file(raw)
        with _alone(path, found):
            if found is not None:
                _keep_copy(raw, path, found)
            _upgrade(raw, path)
    finally:
        raw.close()


def knows(version: str) -> bool:
    """Whether this program has that migration (else the database is from the future)."""
    return any((_SCRIPTS / "versions").glob(f"{version}_*.py"))


def _keep_copy(raw: sqlite3.Connection, path: Path, found: str) -> None:
    """Keep the rows as they were: the version that wrote them can still read the copy."""
    copy = path.parent / "backups" / f"{path.stem}-before-{HEAD}-from-{found}.db"
    copy.parent.mkdir(mode=0o700, exist_ok=True)
    copy_out(raw, path, copy)
    log.info("Kept a copy from before the migration.", extra={"action": "migration_backed_up", "path": str(copy)})


@contextlib.contextmanager
def _alone(path: Path, found: str | None) -> Iterator[None]:
    """Hold the home's lock while an existing layout changes; a daemon that holds it itself may go on."""
    if found is None or HomeLock.is_alive(path.parent) == os.getpid():
        yield
        return
    try:
        held = HomeLock.acquire(path.parent, pid=os.getpid())
    except HomeLockedError as error:
        raise SchemaTooOldError(path, found) from error
    with held:
        yield


def _upgrade(raw: sqlite3.Connection, path: Path) -> None:
    from alembic import command
    from alembic.config import Config
    from alembic.script import ScriptDirectory

    raw.execute("PRAGMA foreign_keys=OFF")
    engine = sqlite.migration_engine(raw)
    config = Config()
    config.set_main_option("script_location", str(_SCRIPTS).replace("%", "%%"))
    after = {script.down_revision: script.revision for script in ScriptDirectory.from_config(config).walk_revisions()}
    with engine.connect() as connection:
        config.attributes["connection"] = connection
        while (found := layout_of(raw, path)) != HEAD:
            command.upgrade(config, after[found])  # does nothing if another process was quicker
            log.info(
                "Migrated the database.",
                extra={"action": "migrated", "before": found, "after": layout_of(raw, path)},
            )
