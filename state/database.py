"""The one open database of a home: write and read on it from anywhere, fully durable, in order."""

import asyncio
import contextlib
import logging
import os
import sqlite3
import threading
from collections.abc import Callable, Iterable
from datetime import datetime
from pathlib import Path
from typing import TypeVar

from sqlalchemy import Connection
from sqlalchemy.exc import DBAPIError

from state.books import Books
from state.calls import Call, Chore
from state.clock import Monotonic, Now, system_monotonic, system_now
from state.errors import ForkedError, MisuseError, StateClosedError, StateError
from state.identity import MOUNTS, FileGuard, note_path, refuse_unfit
from state.note import NoteFile
from state.readers import READERS, Readers
from state.sqlite import FencedConnection, Link, connect_reader, connect_writer, opening_failed
from state.wal import WalKeeper
from state.writer import Writer

T = TypeVar("T")
Prepare = Callable[[Path], None]
"""Brings the file at the path (which may be missing) to the layout that this program knows."""

VACUUM_PAGES = 100

log = logging.getLogger(__name__)


class Database:
    """One writer, two readers, three connections. Made by `Database.open`, shared by the registry.

    Safe from every thread and event loop of the process that opened it.
    """

    def __init__(
        self,
        path: Path,
        note: NoteFile,
        writer: Link[FencedConnection],
        readers: list[Link[sqlite3.Connection]],
        *,
        now: Now,
        monotonic: Monotonic,
    ) -> None:
        self.path = path
        self._pid = os.getpid()
        self._note = note
        self._link = writer
        self._raw = writer.raw
        self._files = FileGuard(path, note)
        self._books = Books(path, writer.raw, note, now=now, monotonic=monotonic)
        self._readers = Readers(path, readers)
        self._wal = WalKeeper(path, writer.raw, note, self._files, self._readers.gate)
        self._writer = Writer(
            path,
            writer,
            self._files,
            books=self._books,
            after_commit=self._committed,
            on_lost=self._tell_lost,
            monotonic=monotonic,
        )
        self._callbacks: tuple[Callable[[], None], ...] = ()
        self._lost_callbacks: tuple[Callable[[], object], ...] = ()
        self._lock = threading.Lock()
        self._is_closed = False

    @classmethod
    def open(
        cls,
        path: Path,
        *,
        prepare: Prepare,
        now: Now = system_now,
        monotonic: Monotonic = system_monotonic,
        mounts: Path = MOUNTS,
    ) -> "Database":
        """Open the file at an absolute, resolved path, creating it and its folder where missing.

        Raises DatabaseRefusedError, SchemaTooNewError, SchemaTooOldError, StateBusyError, DiskFullError,
        DiskFailedError, DamagedError, CopyFailedError.
        """
        try:
            return cls._open(path, prepare, now=now, monotonic=monotonic, mounts=mounts)
        except (OSError, sqlite3.Error, DBAPIError) as error:
            raise opening_failed(path, error) from error

    @classmethod
    def _open(cls, path: Path, prepare: Prepare, *, now: Now, monotonic: Monotonic, mounts: Path) -> "Database":
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        note = NoteFile(note_path(path))
        with contextlib.ExitStack() as undo:
            undo.callback(note.close)
            refuse_unfit(path, note.read(), mounts=mounts)
            _own(path)
            prepare(path)
            writer = connect_writer(path)
            undo.callback(writer.close)
            readers = [connect_reader(path) for _ in range(READERS)]
            for reader in readers:
                undo.callback(reader.close)
            database = cls(path, note, writer, readers, now=now, monotonic=monotonic)
            database._start()
            undo.pop_all()
        return database

    async def write(self, fn: Callable[[Connection], T]) -> T:
        """Run fn in the writer's thread and return its value when it is durable.

        First in, first out; functions that wait share one COMMIT, each in its own savepoint. fn touches
        nothing but its connection, returns plain values and may be run again. Its own error undoes it
        alone and is raised here. Nothing is answered before COMMIT and a look at the file. A caller that
        is cancelled waits for the verdict, then gets its CancelledError: a queued write is never taken back.

        Raises what fn raised, DiskFullError, DiskFailedError, StateBusyError (nothing happened),
        StateDbReplacedError, StateUnknown, StateClosedError, ForkedError, MisuseError.
        """
        call = Call(fn, asyncio.get_running_loop())
        self._submit(call, self._writer)
        return await call.verdict()  # type: ignore[no-any-return]

    async def read(self, fn: Callable[[Connection], T]) -> T:
        """Run fn in a read transaction of its own; it sees every write that was answered before.

        It fetches what it needs and returns plain values. It may be run again.
        """
        call = Call(fn, asyncio.get_running_loop())
        self._submit(call, self._readers)
        return await call.verdict()  # type: ignore[no-any-return]

    def write_sync(self, fn: Callable[[Connection], T]) -> T:
        """Do what `write` does, from a thread that runs no event loop."""
        self._refuse_blocking()
        call = Call(fn, None)
        self._submit(call, self._writer)
        return call.verdict_sync()  # type: ignore[no-any-return]

    def read_sync(self, fn: Callable[[Connection], T]) -> T:
        """Do what `read` does, from a thread that runs no event loop."""
        self._refuse_blocking()
        call = Call(fn, None)
        self._submit(call, self._readers)
        return call.verdict_sync()  # type: ignore[no-any-return]

    def on_commit(self, callback: Callable[[], None]) -> Callable[[], None]:
        """Call back after every commit, in the writer's thread; returns what ends it (idempotent)."""
        with self._lock:
            self._callbacks = (*self._callbacks, callback)

        def unsubscribe() -> None:
            with self._lock:
                self._callbacks = tuple(one for one in self._callbacks if one is not callback)

        return unsubscribe

    def on_lost(self, callback: Callable[[], object]) -> Callable[[], None]:
        """Call back, in the writer's thread, when a write finds that `lost` is set; returns what ends it."""
        with self._lock:
            self._lost_callbacks = (*self._lost_callbacks, callback)

        def unsubscribe() -> None:
            with self._lock:
                self._lost_callbacks = tuple(one for one in self._lost_callbacks if one is not callback)

        return unsubscribe

    @property
    def lost(self) -> StateError | None:
        """Why this database can never be written again: StateDbReplacedError, StateUnknown; else None.

        Looks at the file, so that a replacement is found while nobody writes.
        """
        return self._writer.unknown or self._files.trouble()

    @property
    def healthy(self) -> str | None:
        """None while all is well, else the sentence that says why nothing can be written."""
        error = self.lost or self._writer.last_error
        return None if error is None else str(error)

    @property
    def rewound_until(self) -> datetime | None:
        """The last instant before an older copy was put back, else None.

        It stays (`meta`, key `rewound`) until the daemon has dealt with it and deletes that row.
        """
        return self._books.rewound_until

    async def data_version(self) -> int:
        """Return a number that changes when another process has committed (ours come by `on_commit`)."""
        return await self._between(lambda: int(self._raw.execute("PRAGMA data_version").fetchone()[0]))

    async def give_back_space(self) -> int:
        """Return up to 100 free pages (some 5 ms) to the disk; the value is how many are still free."""
        return await self._between(self._vacuum_some)

    def is_replaced(self) -> bool:
        """Whether another file now stands behind the path."""
        return self._files.trouble() is not None

    def close(self) -> None:
        """Take no more calls, answer those that are queued, checkpoint, close. Blocks; idempotent."""
        with self._lock:
            if self._is_closed:
                return
            self._is_closed = True
        if os.getpid() != self._pid:
            return  # its threads and its locks are the parent's
        self._writer.drain()
        self._readers.drain()
        if self.is_replaced():
            # The last one to close would empty the -wal into the file and remove what now has the -wal's
            # name. With readers still open the writer cannot, and readers never do.
            self._link.close()
            self._readers.close()
        else:
            self._readers.close()
            self._wal.finish()
            self._link.close()
        self._note.close()

    async def _between(self, fn: Callable[[], T]) -> T:
        call = Chore(lambda _: fn(), asyncio.get_running_loop())
        self._submit(call, self._writer)
        return await call.verdict()  # type: ignore[no-any-return]

    def _vacuum_some(self) -> int:
        # execute() would free one page and keep the write lock while its cursor lives.
        self._raw.executescript(f"PRAGMA incremental_vacuum({VACUUM_PAGES})")
        return int(self._raw.execute("PRAGMA freelist_count").fetchone()[0])

    def _start(self) -> None:
        self._books.open()
        self._files.adopt()
        self._writer.start()
        self._readers.start()

    def _submit(self, call: Call, to: Writer | Readers) -> None:
        if os.getpid() != self._pid:
            raise ForkedError(self.path, opened_by=self._pid, pid=os.getpid())
        with self._lock:
            if self._is_closed:
                raise StateClosedError(self.path)
            to.submit(call)

    def _refuse_blocking(self) -> None:
        if self._writer.is_current_thread() or self._readers.is_current_thread():
            raise MisuseError("A database function or a commit callback may not wait for another one.")
        if asyncio._get_running_loop() is not None:
            raise MisuseError("This would block the event loop; await `write` or `read` instead.")

    def _committed(self, wal_size: int) -> None:
        _tell(self._callbacks)
        self._wal.after_batch(wal_size)

    def _tell_lost(self, error: StateError) -> None:
        _tell(self._lost_callbacks)


def _tell(callbacks: Iterable[Callable[[], object]]) -> None:
    for callback in callbacks:
        try:
            callback()
        except Exception:  # a listener's bug must not end the writer
            log.exception("A commit listener failed.", extra={"action": "commit_listener_failed"})


def _own(path: Path) -> None:
    """Create the file, or narrow its mode: it is for its owner's eyes only."""
    try:
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR | os.O_CLOEXEC, 0o600))
    except FileExistsError:
        at = path.stat()
        if at.st_mode & 0o077 and at.st_uid == os.geteuid():
            path.chmod(0o600)
