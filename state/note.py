"""`state.id`: what was last known of state.db, written beside it by whoever changed it.

One line of JSON, padded to one size and overwritten in place, so that a reader sees the old line or the
new one. Its lock (flock) belongs to the one process that is moving pages into state.db right now.
"""

import contextlib
import fcntl
import json
import os
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path

_SIZE = 512


@dataclass(frozen=True, slots=True, kw_only=True)
class Note:
    """What stands in state.id. `mtime_ns` 0: a checkpoint was under way. `at`: microseconds."""

    device: int
    inode: int
    mtime_ns: int
    uuid: str
    batch: int
    at: int


class NoteFile:
    """The open state.id of one database. Reading and writing are one system call each."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)

    def read(self) -> Note | None:
        """Return the note, or None where there is none that can be read."""
        try:
            return Note(**json.loads(os.pread(self._fd, _SIZE, 0)))
        except (ValueError, TypeError):
            return None

    def write(self, note: Note) -> None:
        """Replace the note."""
        line = json.dumps(asdict(note)).encode()
        os.pwrite(self._fd, line.ljust(_SIZE - 1) + b"\n", 0)

    def write_batch(self, batch: int, at: int) -> None:
        """Note the newest batch that is known to be stored, and its instant."""
        if (note := self.read()) is not None:
            self.write(replace(note, batch=batch, at=at))

    @contextlib.contextmanager
    def moving_pages(self, database: Path) -> Iterator[bool]:
        """Hold the right to checkpoint; yields False if another process has it.

        On the way out the file's new modification time is noted, so that every process that has it
        open can tell our checkpoint from somebody who copied another file over it.
        """
        try:
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
            return
        try:
            self._note_mtime(0)
            yield True
            self._note_mtime(database.stat().st_mtime_ns)
        finally:
            fcntl.flock(self._fd, fcntl.LOCK_UN)

    def _note_mtime(self, mtime_ns: int) -> None:
        if (note := self.read()) is not None:
            self.write(replace(note, mtime_ns=mtime_ns))

    def close(self) -> None:
        os.close(self._fd)
