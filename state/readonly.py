"""Looking without touching: what the command line's lists use, beside a daemon or without one."""

import asyncio
import os
import sqlite3
import threading
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Self, TypeVar

from sqlalchemy import Connection

from state import sqlite
from state.calls import Call
from state.errors import DatabaseRefusedError, NoDatabaseError, SchemaTooNewError, SchemaTooOldError
from state.identity import wal_of
from state.migrate import HEAD, knows, layout_of

T = TypeVar("T")


class ReadOnlyDatabase:
    """One connection that takes no write lock, does no schema work and no checkpoint."""

    def __init__(self, path: Path, link: sqlite.Link[sqlite3.Connection]) -> None:
        self.path = path
        self._link = link
        self._lock = threading.Lock()

    def read_sync(self, fn: Callable[[Connection], T]) -> T:
        """Run fn in a read transaction; it fetches what it needs and returns plain values."""
        call = Call(fn, None)
        with self._lock:
            self._link.raw.execute("BEGIN")
            try:
                call.run(self._link.core)
            except sqlite3.Error as error:
                raise sqlite.for_caller(self.path, error) from error
            finally:
                self._link.raw.execute("COMMIT")
        return call.value  # type: ignore[no-any-return]

    async def read(self, fn: Callable[[Connection], T]) -> T:
        """Do what `read_sync` does without blocking the event loop."""
        return await asyncio.to_thread(self.read_sync, fn)

    def data_version(self) -> int:
        """Return a number that changes when anybody commits; outside transactions only."""
        with self._lock:
            return int(self._link.raw.execute("PRAGMA data_version").fetchone()[0])

    def close(self) -> None:
        """Close the connection; idempotent."""
        with self._lock:
            self._link.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def open_readonly(path: Path | str) -> ReadOnlyDatabase:
    """Attach to the database at the path for reading.

    Raises NoDatabaseError, SchemaTooOldError, SchemaTooNewError, DamagedError, DatabaseRefusedError.
    """
    resolved = Path(path).resolve()
    if not resolved.exists():
        raise NoDatabaseError(resolved)
    raw = attach(resolved)
    try:
        _refuse_layout(raw, resolved)
        return ReadOnlyDatabase(resolved, sqlite.Link(raw))
    except BaseException:
        raw.close()
        raise


def attach(path: Path) -> sqlite3.Connection:
    """Open a bare connection that cannot write and makes no checkpoint. Raises DatabaseRefusedError."""
    try:
        return sqlite.connect_plain(path, mode="ro&immutable=1" if _is_frozen(path) else "ro")
    except sqlite3.OperationalError as error:
        raise _unreadable(path, error) from error


def _is_frozen(path: Path) -> bool:
    """Nobody can write there and nothing waits in a -wal: then no -shm is needed, nor could be made."""
    wal = wal_of(path)
    return not os.access(path.parent, os.W_OK) and not (wal.exists() and wal.stat().st_size)


def _refuse_layout(raw: sqlite3.Connection, path: Path) -> None:
    try:
        found = layout_of(raw, path)
    except sqlite3.OperationalError as error:
        raise _unreadable(path, error) from error
    if found is None:
        raise NoDatabaseError(path)
    if not knows(found):
        raise SchemaTooNewError(path, found)
    if found != HEAD:
        raise SchemaTooOldError(path, found)


def _unreadable(path: Path, error: sqlite3.OperationalError) -> DatabaseRefusedError:
    return DatabaseRefusedError(path, f"it cannot be read ({error})", "Check who may read it and its folder.")
