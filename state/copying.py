"""Copies a database whole, by SQLite's backup API: consistent whatever is written meanwhile, and proven sound."""

import contextlib
import os
import sqlite3
from pathlib import Path

from state import sqlite
from state.errors import CopyFailedError, DamagedError


def copy_out(raw: sqlite3.Connection, source: Path, to: Path) -> None:
    """Copy the database of an open connection into a file of its own, replacing one that is there.

    The copy is in one piece (no -wal), passes integrity_check, is for its owner only, and has its name only when
    it is complete. Raises CopyFailedError, DamagedError.
    """
    part = to.with_name(f"{to.name}.part")
    try:
        part.unlink(missing_ok=True)
        os.close(os.open(part, os.O_CREAT | os.O_EXCL | os.O_RDWR | os.O_CLOEXEC, 0o600))
        with contextlib.closing(sqlite.connect_plain(part)) as copy:
            raw.backup(copy)
            copy.execute("PRAGMA journal_mode=DELETE").fetchall()
            refuse_unsound(copy, source)
        part.replace(to)
    except (OSError, sqlite3.Error) as error:
        if sqlite.trouble_of(error) is sqlite.Trouble.DAMAGED:
            raise DamagedError(source, str(error)) from error
        raise CopyFailedError(to, str(error)) from error
    finally:
        for name in (part, part.with_name(f"{part.name}-journal")):
            with contextlib.suppress(OSError):
                name.unlink(missing_ok=True)


def refuse_unsound(raw: sqlite3.Connection, path: Path) -> None:
    """Raise DamagedError unless SQLite finds every page in order."""
    try:
        found = raw.execute("PRAGMA integrity_check(1)").fetchone()[0]
    except sqlite3.DatabaseError as error:
        raise sqlite.for_caller(path, error) from error
    if found != "ok":
        raise DamagedError(path, str(found).splitlines()[0])
