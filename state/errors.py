"""What may go wrong with the database: one root, each error with its data and a sentence with a way out."""

from pathlib import Path


class StateError(Exception):
    """Root of this package's errors; `str(error)` is a sentence for the person at the keyboard."""


class StateDbReplacedError(StateError):
    """The file behind the path is no longer the one that was opened. Nothing more is written to it.

    Raised before BEGIN (nothing happened) or after COMMIT (`committed`: the write went into a file
    that nobody will read again).
    """

    def __init__(self, path: Path, what: str, *, committed: bool = False) -> None:
        self.path = path
        self.what = what
        self.committed = committed
        lost = " The last write went into the old file and is lost." if committed else ""
        super().__init__(
            f"{path} was replaced while it was open: {what}.{lost} Restart the daemon;"
            " to put a backup back, stop it and use `hermes-cron restore`."
        )


class StateUnknown(StateError):
    """A COMMIT failed and it cannot be told whether its rows will be there after a restart.

    Nobody may act on such a write, in either direction; the daemon ends.
    """

    def __init__(self, path: Path, cause: str) -> None:
        self.path = path
        self.cause = cause
        super().__init__(
            f"{path}: the disk failed during a commit ({cause}), so it is unknown what was stored."
            " Check the disk and its free space, then start the daemon again."
        )


class DiskFullError(StateError):
    """There is no space for this write; nothing of it happened."""

    def __init__(self, path: Path) -> None:
        self.path = path
        super().__init__(f"{path}: the disk is full, nothing was written. Free some space and try again.")


class DiskFailedError(StateError):
    """The disk refused to read or write; nothing of this call happened."""

    def __init__(self, path: Path, cause: str) -> None:
        self.path = path
        self.cause = cause
        super().__init__(f"{path}: the disk failed ({cause}), nothing was written. Check the disk.")


class DamagedError(StateError):
    """What is in the file is not a sound database; nothing of this call happened."""

    def __init__(self, path: Path, cause: str) -> None:
        self.path = path
        self.cause = cause
        super().__init__(f"{path} is damaged or no database ({cause}). Put a backup back: `hermes-cron restore`.")


class CopyFailedError(StateError):
    """A copy of the database could not be made; `path` is the copy, and nothing of it is left."""

    def __init__(self, path: Path, cause: str) -> None:
        self.path = path
        self.cause = cause
        super().__init__(f"{path} could not be written ({cause}). Check the folder, its disk and its free space.")


class StateBusyError(StateError):
    """Another process held the write lock for longer than we wait; nothing happened."""

    def __init__(self, path: Path, waited: float) -> None:
        self.path = path
        self.waited = waited
        super().__init__(
            f"{path} was locked by another process for {waited:g} seconds."
            " End the program that holds it open (a database browser, a backup) and try again."
        )


class StateClosedError(StateError):
    """The database, or this lease of it, was closed; nothing happened."""

    def __init__(self, path: Path) -> None:
        self.path = path
        super().__init__(f"{path} was closed. Acquire it again before use.")


class ForkedError(StateError):
    """This process is a fork of the one that opened the database; its rows would be lost."""

    def __init__(self, path: Path, *, opened_by: int, pid: int) -> None:
        self.path = path
        self.opened_by = opened_by
        self.pid = pid
        super().__init__(
            f"{path} was opened by process {opened_by} and cannot be used in its fork {pid}."
            " Start a new process (subprocess, or multiprocessing with 'spawn') and open it there."
        )


class MisuseError(StateError):
    """A function given to `write` or `read` did what none may do; nothing of it happened."""


class DatabaseRefusedError(StateError):
    """The file is there but must not be used as it stands (links, a network disk, a foreign -wal)."""

    def __init__(self, path: Path, why: str, way_out: str) -> None:
        self.path = path
        self.why = why
        super().__init__(f"{path}: {why}. {way_out}")


class NoDatabaseError(StateError):
    """There is no database at the path."""

    def __init__(self, path: Path) -> None:
        self.path = path
        super().__init__(f"There is no database at {path} yet. Start the daemon once, or check --home.")


class SchemaTooOldError(StateError):
    """The database was written by an older version and this caller may not migrate it."""

    def __init__(self, path: Path, found: str | None) -> None:
        self.path = path
        self.found = found
        super().__init__(f"{path} has an older layout. Start the daemon once, it brings it up to date.")


class SchemaTooNewError(StateError):
    """The database was written by a newer version of the program."""

    def __init__(self, path: Path, found: str) -> None:
        self.path = path
        self.found = found
        super().__init__(
            f"{path} was written by a newer version (layout {found}), which this one does not know."
            " Install that version again, or restore a backup made before the update."
        )


class HomeRefusedError(StateError):
    """The home cannot be made or written."""

    def __init__(self, home: Path, cause: str) -> None:
        self.home = home
        self.cause = cause
        super().__init__(
            f"{home} cannot be used as a home ({cause})."
            " Check who may write there and whether the disk is read-only or full, or choose another with --home."
        )


class HomeLockedError(StateError):
    """Another daemon works on this home; `pid` is what it left for messages, None if it left nothing."""

    def __init__(self, home: Path, pid: int | None) -> None:
        self.home = home
        self.pid = pid
        who = f"process {pid}" if pid is not None else "another process"
        super().__init__(f"{home} is in use by {who}. Stop it first, or choose another folder with --home.")
