"""Everything that is particular to SQLite: how a connection is opened, and what its error codes mean."""

import enum
import sqlite3
import sys
from pathlib import Path
from typing import Any, Generic, Self, TypeVar

from sqlalchemy import Connection, Engine, create_engine, event
from sqlalchemy.exc import DBAPIError
from sqlalchemy.pool import StaticPool

from state.errors import (
    DamagedError,
    DatabaseRefusedError,
    DiskFailedError,
    DiskFullError,
    MisuseError,
    StateBusyError,
    StateError,
)

BUSY_SECONDS = 5.0
"""How long one BEGIN waits inside SQLite for the lock of another process."""

WAL_BYTES = 4 * 1024 * 1024
"""What the -wal may hold before it is moved into the database."""

CALL = "hermes_call"
"""The savepoint around each function; no function may touch it."""

# Spelled as nobody else spells them: a statement that is in the driver's cache is not shown to the
# authorizer again, so a function's plain "COMMIT" must not find ours there.
BEGIN = "BEGIN IMMEDIATE /* writer */"
COMMIT = "COMMIT /* writer */"
ROLLBACK = "ROLLBACK /* writer */"
SAVEPOINT = f"SAVEPOINT {CALL} /* writer */"
UNDO = f"ROLLBACK TO {CALL} /* writer */"
RELEASE = f"RELEASE {CALL} /* writer */"

_DDL = frozenset(
    getattr(sqlite3, f"SQLITE_{verb}_{noun}")
    for verb in ("CREATE", "DROP")
    for noun in ("INDEX", "TABLE", "TRIGGER", "VIEW", "TEMP_INDEX", "TEMP_TABLE", "TEMP_TRIGGER", "TEMP_VIEW")
) | {sqlite3.SQLITE_ALTER_TABLE, sqlite3.SQLITE_CREATE_VTABLE, sqlite3.SQLITE_DROP_VTABLE}
_OUTSIDE = frozenset({sqlite3.SQLITE_ATTACH, sqlite3.SQLITE_DETACH})


class Trouble(enum.Enum):
    """What an SQLite error means to the caller."""

    BUSY = "busy"
    FULL = "full"
    DISK = "disk"
    DAMAGED = "damaged"
    INTERRUPTED = "interrupted"
    OTHER = "other"


_BY_CODE = {
    sqlite3.SQLITE_BUSY: Trouble.BUSY,
    sqlite3.SQLITE_LOCKED: Trouble.BUSY,
    sqlite3.SQLITE_FULL: Trouble.FULL,
    sqlite3.SQLITE_IOERR: Trouble.DISK,
    sqlite3.SQLITE_CORRUPT: Trouble.DAMAGED,
    sqlite3.SQLITE_NOTADB: Trouble.DAMAGED,
    sqlite3.SQLITE_INTERRUPT: Trouble.INTERRUPTED,
}


def trouble_of(error: BaseException) -> Trouble:
    """Return what an error of the driver (bare, or wrapped by SQLAlchemy) means."""
    origin = error.orig if isinstance(error, DBAPIError) else error
    code = getattr(origin, "sqlite_errorcode", None)
    if not isinstance(origin, sqlite3.Error) or code is None:
        return Trouble.OTHER
    return _BY_CODE.get(code & 0xFF, Trouble.OTHER)


def for_caller(path: Path, error: BaseException) -> BaseException:
    """Return the error as the caller shall see it: full and failing disks by name, the rest as it is."""
    match trouble_of(error):
        case Trouble.FULL:
            mine: StateError = DiskFullError(path)
        case Trouble.DISK:
            mine = DiskFailedError(path, str(error))
        case Trouble.DAMAGED:
            mine = DamagedError(path, str(error))
        case _:
            return error
    mine.__cause__ = error
    return mine


def opening_failed(path: Path, error: BaseException) -> StateError:
    """Return why a database cannot be opened, as a sentence."""
    mine = for_caller(path, error)
    if isinstance(mine, StateError):
        return mine
    if trouble_of(error) is Trouble.BUSY:
        return StateBusyError(path, BUSY_SECONDS)
    cause = (error.strerror or str(error)) if isinstance(error, OSError) else str(getattr(error, "orig", error))
    way_out = "Check who may write it and its folder, and whether the disk is read-only or full."
    return DatabaseRefusedError(path, f"it cannot be opened ({cause})", way_out)


class _FencedCursor(sqlite3.Cursor):
    """Looks before each statement of a function whether the transaction is still open.

    After an INSERT OR ROLLBACK that a function swallowed, its next statement would commit by itself. (An event
    of SQLAlchemy would do too, at 18 microseconds a statement.)
    """

    connection: "FencedConnection"

    def execute(self, statement: str, parameters: Any = ()) -> Self:
        self.connection.look()
        return super().execute(statement, parameters)

    def executemany(self, statement: str, rows: Any) -> Self:
        self.connection.look()
        return super().executemany(statement, rows)


class FencedConnection(sqlite3.Connection):
    """The writer's: keeps functions from ending its transaction or changing the layout."""

    inside = False
    """Whether a function is running; only then anything is refused."""

    def cursor(self, factory: Any = _FencedCursor) -> Any:
        return super().cursor(factory)

    def put_up(self) -> None:
        self.refused: str | None = None
        self.set_authorizer(self._authorize)

    def look(self) -> None:
        if self.inside and not self.in_transaction:
            raise MisuseError("SQLite ended the transaction inside this function; it may not go on.")

    def _authorize(self, action: int, one: str | None, two: str | None, *_: str | None) -> int:
        if not self.inside or not _is_forbidden(action, two):
            return sqlite3.SQLITE_OK
        self.refused = one or "this statement"
        return sqlite3.SQLITE_DENY


def _is_forbidden(action: int, two: str | None) -> bool:
    if action == sqlite3.SQLITE_SAVEPOINT:
        return two == CALL
    return action == sqlite3.SQLITE_TRANSACTION or action in _DDL or action in _OUTSIDE


Raw = TypeVar("Raw", bound=sqlite3.Connection)


class Link(Generic[Raw]):
    """One connection: SQLAlchemy's face for functions, the driver's for our own BEGIN and COMMIT."""

    def __init__(self, raw: Raw) -> None:
        self.raw = raw
        self._engine = _engine_over(raw)
        self.core: Connection = self._engine.connect()

    def is_entangled(self) -> bool:
        """Whether a function left SQLAlchemy with a savepoint open, or with a commit that was refused."""
        transaction = self.core.get_transaction()
        return self.core.in_nested_transaction() or (transaction is not None and not transaction.is_active)

    def renew(self) -> None:
        """Forget what SQLAlchemy believes about open savepoints. Only outside a transaction."""
        self.core.close()
        self.core = self._engine.connect()

    def close(self) -> None:
        self.core.close()
        self._engine.dispose()
        self.raw.close()


def _engine_over(raw: sqlite3.Connection) -> Engine:
    return create_engine("sqlite+pysqlite://", creator=lambda: raw, poolclass=StaticPool, pool_reset_on_return=None)


def connect(path: Path, *, mode: str, factory: type[Raw]) -> Raw:
    """Open a bare connection; mode as in SQLite's URIs: ro, rw. Transactions are begun by us."""
    raw = sqlite3.connect(
        f"{path.as_uri()}?mode={mode}",
        uri=True,
        timeout=BUSY_SECONDS,
        isolation_level=None,
        check_same_thread=False,
        cached_statements=512,
        factory=factory,
    )
    assert isinstance(raw, factory)
    return raw


def connect_plain(path: Path, *, mode: str = "rw") -> sqlite3.Connection:
    """Open a bare connection without a fence."""
    return connect(path, mode=mode, factory=sqlite3.Connection)


def connect_writer(path: Path) -> Link[FencedConnection]:
    """Open the one writing connection: WAL, synchronous=FULL, foreign keys on, no autocheckpoint."""
    raw = connect(path, mode="rw", factory=FencedConnection)
    for pragma in ("journal_mode=WAL", "synchronous=FULL", "foreign_keys=ON", "wal_autocheckpoint=0"):
        raw.execute(f"PRAGMA {pragma}").fetchall()
    # The file keeps this size when it begins anew: overwriting is several times faster than appending, and
    # whatever is larger holds that much that is not yet in the database.
    raw.execute(f"PRAGMA journal_size_limit={WAL_BYTES}").fetchall()
    # What a savepoint may have to undo stays in memory; else every function that changes more than 64 KB of
    # pages writes a temporary file first, a third of the time of a seed.
    raw.execute("PRAGMA temp_store=MEMORY").fetchall()
    if sys.platform == "darwin":
        raw.execute("PRAGMA fullfsync=ON").fetchall()
    raw.execute("SELECT count(*) FROM sqlite_schema").fetchall()  # creates the -wal
    raw.put_up()
    return Link(raw)


def connect_reader(path: Path, *, mode: str = "ro") -> Link[sqlite3.Connection]:
    """Open a connection that cannot write, and that keeps any other from being the file's last."""
    raw = connect_plain(path, mode=mode)
    raw.execute("PRAGMA wal_autocheckpoint=0").fetchall()
    raw.execute("SELECT count(*) FROM sqlite_schema").fetchall()  # from here on it holds SQLite's shared lock
    return Link(raw)


def migration_engine(raw: sqlite3.Connection) -> Engine:
    """Return an engine over one connection whose every transaction is begun as IMMEDIATE."""
    engine = _engine_over(raw)
    event.listen(engine, "begin", lambda connection: connection.exec_driver_sql("BEGIN IMMEDIATE"))
    return engine


def set_up_file(raw: sqlite3.Connection) -> None:
    """Give a file that is still empty its lasting settings; one that has pages is left as it is."""
    if raw.execute("PRAGMA page_count").fetchone()[0] == 0:
        raw.execute("PRAGMA auto_vacuum=INCREMENTAL").fetchall()  # ignored after journal_mode=WAL
    raw.execute("PRAGMA journal_mode=WAL").fetchall()
