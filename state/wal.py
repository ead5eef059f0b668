"""When the -wal is moved into the database: between batches, by size, never by SQLite itself."""

import contextlib
import logging
import sqlite3
from collections.abc import Iterator
from pathlib import Path

from state.identity import FileGuard
from state.note import NoteFile
from state.readers import Gate
from state.sqlite import WAL_BYTES

MEGABYTE = 1024 * 1024
TRUNCATE_AT = 16 * MEGABYTE

log = logging.getLogger(__name__)


class WalKeeper:
    """Runs in the writer's thread, outside any transaction."""

    def __init__(self, path: Path, raw: sqlite3.Connection, note: NoteFile, guard: FileGuard, gate: Gate) -> None:
        self._path = path
        self._raw = raw
        self._note = note
        self._guard = guard
        self._gate = gate
        self._next = WAL_BYTES

    def after_batch(self, wal_size: int) -> None:
        """Checkpoint if the -wal holds more than 4 MB; from 16 MB on with the readers held back."""
        if wal_size <= WAL_BYTES:
            self._next = WAL_BYTES
        elif wal_size > self._next:
            # A reader may keep it from beginning anew: not again before it has grown further.
            self._next = wal_size + WAL_BYTES
            if wal_size < TRUNCATE_AT:
                self._next = min(self._next, TRUNCATE_AT)
                self._checkpoint("PASSIVE")
            else:
                with self._gate.closed():
                    self._checkpoint("TRUNCATE")

    def finish(self) -> None:
        """Move everything into the database before the last connection closes."""
        self._checkpoint("TRUNCATE")

    def _checkpoint(self, mode: str) -> None:
        with self._note.moving_pages(self._path) as mine, self._patience(0):
            if not mine:
                return
            try:
                busy, pages, moved = self._raw.execute(f"PRAGMA wal_checkpoint({mode})").fetchone()
            except sqlite3.OperationalError as error:
                log.warning("Checkpoint refused.", extra={"action": "checkpoint_refused", "error": str(error)})
                return
            log.debug(
                "Checkpointed the database.",
                extra={"action": "checkpointed", "mode": mode, "busy": busy, "pages": pages, "moved": moved},
            )
        self._guard.check()  # adopts the new modification time

    @contextlib.contextmanager
    def _patience(self, milliseconds: int) -> Iterator[None]:
        before = self._raw.execute("PRAGMA busy_timeout").fetchone()[0]
        self._raw.execute(f"PRAGMA busy_timeout={milliseconds}").fetchall()
        try:
            yield
        finally:
            self._raw.execute(f"PRAGMA busy_timeout={before}").fetchall()
