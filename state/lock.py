"""The home's lock: who holds it is the one daemon (or inline command) of that home.

It is an flock on `state.lock` beside the resolved state.db. The file is never unlinked and nobody needs to
read it; the kernel lets go when the holder ends, however it ends. The pid stands in another file and is for
messages only.
"""

import contextlib
import fcntl
import os
import threading
from pathlib import Path
from types import TracebackType
from typing import Self

from state.errors import HomeLockedError, HomeRefusedError

DATABASE = "state.db"
_LOCK = "state.lock"
_PID = "state.pid"
_TRIES = 200
_PAUSE_SECONDS = 0.005


def folder_of(home: Path) -> Path:
    """Return the folder in which the home's database really lies (state.db may be a link)."""
    return (home / DATABASE).resolve().parent


class HomeLock:
    """Held from `acquire` until `release` or the end of the process; not inherited by children."""

    def __init__(self, home: Path, descriptor: int) -> None:
        self.home = home
        self._descriptor: int | None = descriptor

    @classmethod
    def acquire(cls, home: Path, *, pid: int) -> "HomeLock":
        """Take the lock, creating the home where missing; `pid` is left for the messages of others.

        Raises HomeLockedError at once if a live process holds it, HomeRefusedError if nobody could.
        """
        try:
            return cls._acquire(home, pid)
        except OSError as error:
            raise HomeRefusedError(home, error.strerror or str(error)) from error

    @classmethod
    def _acquire(cls, home: Path, pid: int) -> "HomeLock":
        home.mkdir(mode=0o700, parents=True, exist_ok=True)
        folder = folder_of(home)
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        descriptor = os.open(folder / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        if not _take(descriptor):
            os.close(descriptor)
            raise HomeLockedError(home, _read_pid(folder))
        lock = cls(home, descriptor)
        try:
            (folder / _PID).write_text(f"{pid}\n", encoding="ascii")
        except OSError:
            lock.release()
            raise
        return lock

    @staticmethod
    def is_alive(home: Path) -> int | None:
        """Return the pid of the process that holds the home's lock, None if nobody does.

        The answer is the lock's; if the holder left no readable pid it is 0.
        """
        folder = folder_of(home)
        try:
            descriptor = os.open(folder / _LOCK, os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            return None  # nobody can hold what is not there; who may not look is told so when they act
        try:
            if _flock(descriptor, fcntl.LOCK_SH):
                return None
        finally:
            os.close(descriptor)
        return _read_pid(folder) or 0

    def release(self) -> None:
        """Give the lock back; idempotent. The daemon does this last."""
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is not None:
            os.close(descriptor)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()


def _take(descriptor: int) -> bool:
    """Try for the lock; somebody who only looks (a shared lock, for microseconds) does not count."""
    looking = threading.Event()
    for _ in range(_TRIES):
        if _flock(descriptor, fcntl.LOCK_EX):
            return True
        if not _flock(descriptor, fcntl.LOCK_SH):
            return False
        fcntl.flock(descriptor, fcntl.LOCK_UN)  # two that start at once must not wait for each other's look
        looking.wait(_PAUSE_SECONDS)
    return False


def _flock(descriptor: int, kind: int) -> bool:
    try:
        fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _read_pid(folder: Path) -> int | None:
    with contextlib.suppress(OSError, ValueError):
        return int((folder / _PID).read_text(encoding="ascii"))
    return None
