"""One open database per file and process, lent out in counted leases.

Opening and closing happen outside the registry's lock and one at a time per path, so a slow checkpoint
never stalls an acquire of another path. A database whose file was replaced is retired: never lent again,
kept for those that still hold it.
"""

import asyncio
import functools
import logging
import sys
import threading
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

from state.clock import Monotonic, Now, system_monotonic, system_now
from state.database import Database, Prepare
from state.errors import DatabaseRefusedError, StateClosedError
from state.migrate import bring_up_to_date

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Leak:
    """A lease that nobody has given back, and the line that took it."""

    path: Path
    site: str


class _Entry:
    """One generation of one path's database, and who holds it."""

    def __init__(self, database: Database) -> None:
        self.database = database
        self.leases: set[Lease] = set()


class Lease:
    """A borrowed share of the open database. Give it back once; more often does no harm."""

    def __init__(self, registry: "Registry", entry: _Entry, site: str) -> None:
        self._registry = registry
        self._entry = entry
        self._is_closed = False
        self.path = entry.database.path
        self.site = site

    @property
    def db(self) -> Database:
        """The shared database; StateClosedError once the lease was given back."""
        if self._is_closed:
            raise StateClosedError(self.path)
        return self._entry.database

    def close(self) -> None:
        """Give the share back. The last one closes the database, which drains it and blocks."""
        self._is_closed = True
        self._registry._give_back(self, self._entry)

    async def aclose(self) -> None:
        """Give the share back without blocking the event loop."""
        self._is_closed = True
        await asyncio.shield(asyncio.to_thread(self.close))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()


class Registry:
    """The process's open databases. The wiring makes one and hands it on."""

    def __init__(
        self,
        *,
        prepare: Prepare = bring_up_to_date,
        now: Now = system_now,
        monotonic: Monotonic = system_monotonic,
    ) -> None:
        self._open_database = functools.partial(Database.open, prepare=prepare, now=now, monotonic=monotonic)
        self._lock = threading.Lock()
        self._live: dict[Path, _Entry] = {}
        self._retired: set[_Entry] = set()
        self._busy: dict[Path, threading.Event] = {}  # paths that are being opened or closed just now
        self._is_draining = False

    def acquire(self, path: Path | str) -> Lease:
        """Lease the one open database of a path, opening (and migrating) it if nobody has.

        Blocks while it is being opened or closed. Raises what `Database.open` raises, and StateClosedError
        after `drain`.
        """
        return self._acquire(path, _calling_site())

    async def acquire_async(self, path: Path | str) -> Lease:
        """Do what `acquire` does without blocking; a cancelled caller leaves no lease behind."""
        loop = asyncio.get_running_loop()
        opening = loop.run_in_executor(None, self._acquire, path, _calling_site())
        try:
            return await asyncio.shield(opening)
        except asyncio.CancelledError:
            opening.add_done_callback(functools.partial(_give_back_unseen, loop))
            raise

    def leaks(self) -> tuple[Leak, ...]:
        """Return every lease that is out, with the line that took it."""
        with self._lock:
            entries = [*self._live.values(), *self._retired]
            return tuple(Leak(path=lease.path, site=lease.site) for one in entries for lease in one.leases)

    def drain(self) -> tuple[Leak, ...]:
        """Lend nothing any more, answer what is queued, close everything; returns what was still out."""
        with self._lock:
            self._is_draining = True
        leaks = self.leaks()
        if leaks:
            log.warning(
                "%d live database handles at shutdown.",
                len(leaks),
                extra={"action": "leases_leaked", "sites": [leak.site for leak in leaks]},
            )
        with self._lock:
            entries = [*self._live.values(), *self._retired]
            self._live.clear()
            self._retired.clear()
        for entry in entries:
            entry.database.close()
        return leaks

    # --- lending --------------------------------------------------------------------------------------

    def _acquire(self, given: Path | str, site: str) -> Lease:
        path = Path(given).resolve()
        while True:
            lease, busy, mine = self._try_lend(path, site)
            if lease is not None:
                if not lease.db.is_replaced():
                    return lease
                self._retire(path, lease._entry)
                lease.close()
            elif busy is not None:
                busy.wait()
            elif mine is not None:
                return self._open(path, site, mine)

    def _try_lend(self, path: Path, site: str) -> tuple[Lease | None, threading.Event | None, threading.Event | None]:
        """Return a lease, or whom to wait for, or the event that makes us the one to open it."""
        with self._lock:
            if self._is_draining:
                raise StateClosedError(path)
            if (busy := self._busy.get(path)) is not None:
                return None, busy, None
            if (entry := self._live.get(path)) is not None:
                return self._lend(entry, site), None, None
            mine = self._busy[path] = threading.Event()
            return None, None, mine

    def _lend(self, entry: _Entry, site: str) -> Lease:
        lease = Lease(self, entry, site)
        entry.leases.add(lease)
        return lease

    def _open(self, path: Path, site: str, mine: threading.Event) -> Lease:
        try:
            self._refuse_second_path(path)
            entry = _Entry(self._open_database(path))
            with self._lock:
                if not self._is_draining:
                    self._live[path] = entry
                    return self._lend(entry, site)
            entry.database.close()
            raise StateClosedError(path)
        finally:
            self._done(path, mine)

    def _done(self, path: Path, mine: threading.Event) -> None:
        with self._lock:
            del self._busy[path]
        mine.set()

    def _refuse_second_path(self, path: Path) -> None:
        """The same file under two paths (a bind mount) would get two -wal files."""
        with self._lock:
            others = [other for other in self._live if other != path]
        for other in others:
            if path.exists() and other.exists() and path.samefile(other):
                raise DatabaseRefusedError(path, f"it is already open as {other}", "Use that path.")

    # --- taking back ----------------------------------------------------------------------------------

    def _retire(self, path: Path, entry: _Entry) -> None:
        with self._lock:
            if self._live.get(path) is not entry:
                return
            del self._live[path]
            self._retired.add(entry)
        log.error(
            "The database file was replaced; the old one is retired.",
            extra={"action": "database_retired", "path": str(path)},
        )

    def _give_back(self, lease: Lease, entry: _Entry) -> None:
        path = lease.path
        mine: threading.Event | None = None
        with self._lock:
            if lease not in entry.leases:
                return
            entry.leases.remove(lease)
            if entry.leases or self._is_draining:
                return
            if entry in self._retired:
                self._retired.remove(entry)
            else:
                del self._live[path]
                mine = self._busy[path] = threading.Event()
        try:
            entry.database.close()
        finally:
            if mine is not None:
                self._done(path, mine)


def _give_back_unseen(loop: asyncio.AbstractEventLoop, opening: asyncio.Future[Lease]) -> None:
    if not opening.cancelled() and opening.exception() is None:
        loop.run_in_executor(None, opening.result().close)


def _calling_site() -> str:
    """Return file:line of the nearest caller outside this file."""
    frame = sys._getframe(1)
    while frame.f_code.co_filename == __file__ and frame.f_back is not None:
        frame = frame.f_back
    return f"{frame.f_code.co_filename}:{frame.f_lineno}"
