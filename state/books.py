"""The database's own few rows: its uuid and its batch count, kept in step with state.id beside it.

The count rises with the first batch of every busy second. A database whose count is behind what state.id
remembers is an older backup: what happened since is unknown, and `meta` says so until somebody deals with it.
"""

import logging
import sqlite3
import uuid
from datetime import datetime
from pathlib import Path

from state.clock import Monotonic, Now
from state.note import Note, NoteFile
from state.sqlite import BEGIN, COMMIT, ROLLBACK
from state.types import from_micros, to_micros

REWOUND = "rewound"
"""The key in `meta` under which the last instant before an older backup was put back is kept, in microseconds."""

_EVERY_SECONDS = 1.0

log = logging.getLogger(__name__)


class Books:
    """Lives in the writer's thread once the writer runs."""

    def __init__(self, path: Path, raw: sqlite3.Connection, note: NoteFile, *, now: Now, monotonic: Monotonic) -> None:
        self._path = path
        self._raw = raw
        self._note = note
        self._now = now
        self._monotonic = monotonic
        self._counted_at: float | None = None
        self._open_count: tuple[int, int] | None = None
        self.rewound_until: datetime | None = None

    def open(self) -> None:
        """Give a new database its uuid, notice an older backup, and bring state.id up to date."""
        before = self._note.read()
        with self._note.moving_pages(self._path):
            pass  # notes the modification time before anything is written
        self._raw.execute(BEGIN)
        try:
            mine = self._meta("uuid") or self._set("uuid", str(uuid.uuid4()))
            count = int(self._meta("batch") or self._set("batch", "0"))
            if before is not None and before.uuid == mine and before.batch > count:
                count = before.batch
                self._set("batch", str(count))
                self._set(REWOUND, str(before.at))
            rewound = self._meta(REWOUND)
            self._raw.execute(COMMIT)
        except BaseException:
            self._raw.execute(ROLLBACK)
            raise
        at = self._path.stat()
        instant = to_micros(self._now())
        self._note.write(
            Note(
                device=at.st_dev,
                inode=at.st_ino,
                mtime_ns=at.st_mtime_ns,
                uuid=mine,
                batch=count,
                at=instant,
            )
        )
        self._tell(rewound)

    def _tell(self, rewound: str | None) -> None:
        if rewound is None:
            return
        self.rewound_until = from_micros(int(rewound))
        log.warning(
            "An older copy of the database was put back; what happened since is unknown.",
            extra={"action": "database_rewound", "until": self.rewound_until.isoformat()},
        )

    def begun(self) -> None:
        """Count this batch, inside its transaction, if none was counted within the last second."""
        self._open_count = None
        tick = self._monotonic()
        if self._counted_at is not None and tick - self._counted_at < _EVERY_SECONDS:
            return
        count = self._raw.execute(
            "UPDATE meta SET value = CAST(CAST(value AS INTEGER) + 1 AS TEXT) WHERE key = 'batch' RETURNING value"
        ).fetchall()
        if count:
            self._open_count = int(count[0][0]), to_micros(self._now())

    def committed(self) -> None:
        """Note the batch that was just stored, if it was counted."""
        if self._open_count is not None:
            self._counted_at = self._monotonic()
            self._note.write_batch(*self._open_count)
            self._open_count = None

    def _meta(self, key: str) -> str | None:
        row = self._raw.execute("SELECT value FROM meta WHERE key = ?", (key,)).fetchone()
        return None if row is None else str(row[0])

    def _set(self, key: str, value: str) -> str:
        self._raw.execute(
            "INSERT INTO meta (key, value) VALUES (?, ?) ON CONFLICT (key) DO UPDATE SET value = excluded.value",
            (key, value),
        )
        return value
