"""The one thread that writes: first in first out, many functions per COMMIT, nobody told before it is safe."""

import contextlib
import logging
import queue
import sqlite3
import threading
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from state import sqlite
from state.books import Books
from state.calls import Call, Chore, answer
from state.clock import Monotonic
from state.errors import MisuseError, StateBusyError, StateDbReplacedError, StateError, StateUnknown
from state.identity import FileGuard
from state.sqlite import FencedConnection, Link, Trouble, for_caller, trouble_of

BATCH_FUNCTIONS = 256
BATCH_SECONDS = 0.020
TRIES = 3
LOCK_TRIES = 8
"""How often one BEGIN waits `BUSY_SECONDS` for another process's lock: 40 s, as a database browser may hold it."""

log = logging.getLogger(__name__)


class TransactionLostError(Exception):
    """Nothing of the open transaction happened, for `cause`; its functions may be run again."""

    def __init__(self, cause: BaseException) -> None:
        self.cause = cause


class Writer:
    """Contract: see `Database.write`. Everything but `submit` and `close` runs in its own thread."""

    def __init__(
        self,
        path: Path,
        link: Link[FencedConnection],
        guard: FileGuard,
        *,
        books: Books,
        after_commit: Callable[[int], None],
        on_lost: Callable[[StateError], None],
        monotonic: Monotonic,
    ) -> None:
        self._path = path
        self._link = link
        self._raw = link.raw
        self._files = guard
        self._books = books
        self._after_commit = after_commit
        self._on_lost = on_lost
        self._monotonic = monotonic
        self._queue: queue.SimpleQueue[Call | None] = queue.SimpleQueue()
        self._ahead: list[Call | None] = []  # what ended a batch and comes next
        self._thread = threading.Thread(target=self._serve, name=f"{path.name}-writer", daemon=True)
        self.last_error: StateError | None = None
        self.unknown: StateUnknown | None = None

    def start(self) -> None:
        self._thread.start()

    def submit(self, call: Call) -> None:
        self._queue.put(call)

    def is_current_thread(self) -> bool:
        return threading.current_thread() is self._thread

    def drain(self) -> None:
        """Run what is queued, then end the thread. Nothing may be submitted any more."""
        self._queue.put(None)
        self._thread.join()

    # --- the thread -----------------------------------------------------------------------------------

    def _serve(self) -> None:
        while (item := self._ahead.pop() if self._ahead else self._queue.get()) is not None:
            if isinstance(item, Chore):
                self._do(item)
            else:
                self._serve_batch(item)

    def _do(self, chore: Chore) -> None:
        try:
            chore.run(self._link.core)
        except BaseException as error:  # noqa: BLE001 - it is the caller's; the thread lives on
            chore.error = for_caller(self._path, error)
        answer((chore,))

    def _tell_committed(self, wal_size: int) -> None:
        try:
            self._after_commit(wal_size)
        except Exception:  # what is between two writes must not end the thread that others wait for
            log.exception("Work after a commit failed.", extra={"action": "after_commit_failed"})

    def _queued(self, first: Call) -> Iterator[Call]:
        """Yield the batch: first, and what is waiting, within the limits; a chore ends it."""
        yield first
        ends = self._monotonic() + BATCH_SECONDS
        for _ in range(BATCH_FUNCTIONS - 1):
            if self._monotonic() >= ends:
                return
            try:
                item = self._queue.get_nowait()
            except queue.Empty:
                return
            if item is None or isinstance(item, Chore):
                self._ahead.append(item)
                return
            yield item

    def _serve_batch(self, first: Call) -> None:
        taken: list[Call] = []
        wal_size: int | None = None
        try:
            wal_size = self._transact(self._queued(first), taken)
        except TransactionLostError as lost:
            if len(taken) == 1 and trouble_of(lost.cause) is not Trouble.BUSY:
                taken[0].error = for_caller(self._path, lost.cause)
            else:
                for call in taken:
                    alone = self._alone(call)
                    wal_size = wal_size if alone is None else alone
        except BaseException as error:  # noqa: BLE001 - a broken disk or file: the whole batch is told
            self._fail(taken or [first], error)
        answer(taken or [first])
        if wal_size is not None:
            self._tell_committed(wal_size)

    def _alone(self, call: Call) -> int | None:
        """Run one function in a transaction of its own; its error is staged."""
        for tries_left in reversed(range(TRIES)):
            try:
                return self._transact((call,), [])
            except TransactionLostError as lost:
                if tries_left and trouble_of(lost.cause) is Trouble.BUSY:
                    continue
                call.error = for_caller(self._path, lost.cause)
            except BaseException as error:  # noqa: BLE001 - as above
                self._fail([call], error)
            break
        return None

    def _fail(self, calls: list[Call], error: BaseException) -> None:
        error = for_caller(self._path, error)
        if isinstance(error, StateError):
            self.last_error = error
        for call in calls:
            call.error = error
        if isinstance(error, (StateUnknown, StateDbReplacedError)):
            self._on_lost(error)

    def _transact(self, calls: Iterable[Call], taken: list[Call]) -> int:
        """Run calls in one transaction and commit it; `taken` gets each as it begins.

        Returns the size of the -wal. Raises TransactionLostError if nothing happened and it is worth
        looking at one by one, StateError if the file or the disk is at fault.
        """
        if self.unknown is not None:
            raise self.unknown
        self._files.check()
        self._begin()
        try:
            self._books.begun()
            for call in calls:
                taken.append(call)
                self._run(call)
        except BaseException:
            self._roll_back()
            raise
        self._commit()
        wal_size = self._files.check(committed=True)
        self._books.committed()
        self.last_error = None
        return wal_size

    def _begin(self) -> None:
        for _ in range(LOCK_TRIES):
            try:
                self._raw.execute(sqlite.BEGIN)
                return
            except sqlite3.OperationalError as error:
                if trouble_of(error) is not Trouble.BUSY:
                    raise for_caller(self._path, error) from error
                log.warning("Another process holds the database's lock.", extra={"action": "database_locked"})
        raise StateBusyError(self._path, LOCK_TRIES * sqlite.BUSY_SECONDS)

    def _run(self, call: Call) -> None:
        """Run one function in its savepoint; its own error is staged, a lost transaction is raised."""
        self._raw.execute(sqlite.SAVEPOINT)
        self._raw.inside = True
        try:
            call.run(self._link.core)
        except BaseException as error:  # noqa: BLE001 - whatever it is, it is the caller's; the thread lives on
            call.error = self._named(error)
        finally:
            self._raw.inside = False
        if not self._raw.in_transaction:
            raise TransactionLostError(call.error or MisuseError("A function ended the transaction it was given."))
        if self._link.is_entangled():
            raise TransactionLostError(call.error or MisuseError("A function left a savepoint open."))
        if call.error is not None:
            self._raw.execute(sqlite.UNDO)
        self._raw.execute(sqlite.RELEASE)

    def _named(self, error: BaseException) -> BaseException:
        refused, self._raw.refused = self._raw.refused, None
        if refused is None:
            return for_caller(self._path, error)
        mine = MisuseError(f"A function given to write() may not run {refused}: the writer commits.")
        mine.__cause__ = error
        return mine

    def _commit(self) -> None:
        try:
            self._raw.execute(sqlite.COMMIT)
        except sqlite3.Error as error:
            self._roll_back()
            if trouble_of(error) in (Trouble.FULL, Trouble.DISK):
                self._mark(error)
            raise TransactionLostError(error) from error

    def _mark(self, cause: sqlite3.Error) -> None:
        """Commit a row over the failed frames: they could otherwise come back after a crash."""
        try:
            self._raw.execute(sqlite.BEGIN)
            self._raw.execute(
                "INSERT INTO meta (key, value) VALUES ('marker', '1') ON CONFLICT (key)"
                " DO UPDATE SET value = CAST(CAST(value AS INTEGER) + 1 AS TEXT)"
            )
            self._raw.execute(sqlite.COMMIT)
        except sqlite3.Error as error:
            self._roll_back()
            log.critical(
                "The disk failed during a commit; what was stored is unknown.",
                extra={"action": "state_unknown", "error": str(cause)},
            )
            self.unknown = StateUnknown(self._path, str(cause))
            raise self.unknown from error

    def _roll_back(self) -> None:
        if self._raw.in_transaction:
            with contextlib.suppress(sqlite3.Error):  # it is gone either way; BEGIN would say so
                self._raw.execute(sqlite.ROLLBACK)
        if self._link.is_entangled():
            self._link.renew()
