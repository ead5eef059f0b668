"""Backups of a home's database, and the way back. For a process that has not opened it otherwise."""

import contextlib
import os
import sqlite3
from collections.abc import Iterator
from pathlib import Path

from state import sqlite
from state.copying import copy_out, refuse_unsound
from state.errors import (
    CopyFailedError,
    DamagedError,
    DatabaseRefusedError,
    NoDatabaseError,
    SchemaTooNewError,
)
from state.identity import note_path, refuse_unfit, wal_of
from state.migrate import knows, layout_of
from state.note import NoteFile
from state.readonly import attach

BACKUPS = "backups"
"""The folder in a home where copies are kept that the program makes by itself."""


def back_up(path: Path, to: Path) -> None:
    """Copy the database at the path into a file, beside a living daemon or without one.

    A file that is there is replaced. Raises NoDatabaseError, DatabaseRefusedError, DamagedError, CopyFailedError.
    """
    resolved = path.resolve()
    if not resolved.exists():
        raise NoDatabaseError(resolved)
    with contextlib.closing(attach(resolved)) as raw:
        copy_out(raw, resolved, to)


def restore(path: Path, source: Path, *, kept_as: str) -> Path | None:
    """Put a backup back: its rows replace those of the database at the path, in one transaction.

    What was there is kept under the name `kept_as` among the home's backups, which is returned (None if there was
    nothing). The caller holds the home's lock. Raises NoDatabaseError, DamagedError, SchemaTooNewError,
    DatabaseRefusedError, CopyFailedError; then what was there is there still, or among the backups.
    """
    resolved = path.resolve()
    with _sound(source, resolved) as good:
        kept = _keep(resolved, resolved.parent / BACKUPS / kept_as)
        _copy_in(good, resolved)
    return kept


@contextlib.contextmanager
def _sound(source: Path, path: Path) -> Iterator[sqlite3.Connection]:
    """Open a backup that may be put back."""
    given = source.resolve()
    if not given.is_file():
        raise NoDatabaseError(given)
    if path.exists() and given.samefile(path):
        raise DatabaseRefusedError(given, "it is the database itself", "Name a backup.")
    with contextlib.closing(attach(given)) as raw:
        found = layout_of(raw, given)
        if found is None:
            raise DamagedError(given, "it is empty")
        if not knows(found):
            raise SchemaTooNewError(given, found)
        refuse_unsound(raw, given)
        yield raw


def _keep(path: Path, to: Path) -> Path | None:
    """Keep what is at the path: as a copy, or, where it is not fit to be opened, by moving it away."""
    if not path.exists() and not wal_of(path).exists():
        return None
    to.parent.mkdir(mode=0o700, exist_ok=True)
    try:
        with contextlib.closing(NoteFile(note_path(path))) as note:
            refuse_unfit(path, note.read())
        with contextlib.closing(sqlite.connect_plain(path)) as raw:
            copy_out(raw, path, to)
    except (DatabaseRefusedError, DamagedError, sqlite3.DatabaseError):
        for suffix in ("", "-wal", "-shm"):
            with contextlib.suppress(FileNotFoundError):
                path.with_name(path.name + suffix).rename(to.with_name(to.name + suffix))
    return to


def _copy_in(good: sqlite3.Connection, path: Path) -> None:
    with contextlib.closing(NoteFile(note_path(path))) as note:
        refuse_unfit(path, note.read())
        with contextlib.suppress(FileExistsError):
            os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR | os.O_CLOEXEC, 0o600))
        try:
            with contextlib.closing(sqlite.connect_plain(path)) as raw:
                good.backup(raw)
                refuse_unsound(raw, path)
                with note.moving_pages(path):
                    raw.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
            with note.moving_pages(path):
                pass  # closing may have moved the last pages
        except sqlite3.Error as error:
            raise CopyFailedError(path, str(error)) from error
