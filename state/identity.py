"""Is the file behind the path still the one that was opened, and may it be used at all?

Nothing here opens state.db or its -wal: closing any descriptor of them would drop this process's locks.
"""

import os
import sys
from pathlib import Path

from state.errors import DatabaseRefusedError, StateDbReplacedError
from state.note import Note, NoteFile

_NETWORK = frozenset({"nfs", "nfs4", "cifs", "smb3", "smbfs", "9p", "fuse.sshfs", "sshfs", "afs", "ncpfs"})
MOUNTS = Path("/proc/self/mounts")

Stamp = tuple[int, int, int, int]
"""device, inode, links, modification time in ns (0 for a -wal, whose time every commit moves)."""


def wal_of(path: Path) -> Path:
    return path.with_name(path.name + "-wal")


def note_path(path: Path) -> Path:
    """state.db's note is state.id; another database in the same folder has its own."""
    return path.with_suffix(".id")


class FileGuard:
    """Compares the files behind the path with those that were opened; a mismatch is for ever."""

    def __init__(self, path: Path, note: NoteFile) -> None:
        self._path = path
        self._db = str(path)
        self._wal = str(wal_of(path))
        self._note = note
        self._seen: tuple[Stamp, Stamp] | None = None
        self._replaced: str | None = None

    def adopt(self) -> None:
        """Take what is there now as ours. Called with all connections open."""
        self._seen = _db_stamp(os.stat(self._db)), _wal_stamp(os.stat(self._wal))

    def check(self, *, committed: bool = False) -> int:
        """Return the size of the -wal in bytes, or raise StateDbReplacedError."""
        if self._replaced is None:
            try:
                db, wal = os.stat(self._db), os.stat(self._wal)
            except OSError as error:
                self._replaced = f"{error.filename} is gone"
            else:
                if (_db_stamp(db), _wal_stamp(wal)) == self._seen:
                    return wal.st_size
                self._replaced = self._difference(_db_stamp(db), _wal_stamp(wal))
                if self._replaced is None:
                    return wal.st_size
        raise StateDbReplacedError(self._path, self._replaced, committed=committed)

    def trouble(self) -> StateDbReplacedError | None:
        """Return what `check` would raise."""
        try:
            self.check()
        except StateDbReplacedError as error:
            return error
        return None

    def _difference(self, db: Stamp, wal: Stamp) -> str | None:
        assert self._seen is not None
        seen_db, seen_wal = self._seen
        if db[:2] != seen_db[:2]:
            return "another file stands in its place"
        if db[2] != seen_db[2]:
            return f"it now has {db[2]} hard links" if db[2] else "it was deleted"
        if wal != seen_wal:
            return "its -wal file is another one"
        return self._overwritten(seen_db, seen_wal)

    def _overwritten(self, seen_db: Stamp, seen_wal: Stamp) -> str | None:
        """Only checkpoints move the modification time, and each is noted by the process that did it.

        A note that is the same before and after a look at the file, and does not fit it, is not
        explained by a checkpoint that began or ended in between.
        """
        note = self._note.read()
        while note is not None:
            at = os.stat(self._db).st_mtime_ns
            if note.mtime_ns == 0:
                return None
            if note.mtime_ns == at:
                self._seen = (*seen_db[:3], at), seen_wal
                return None
            before, note = note, self._note.read()
            if note == before:
                break
        return "another program changed it (a file was copied over it, or a database tool worked on it)"


def _db_stamp(at: os.stat_result) -> Stamp:
    return at.st_dev, at.st_ino, at.st_nlink, at.st_mtime_ns


def _wal_stamp(at: os.stat_result) -> Stamp:
    return at.st_dev, at.st_ino, at.st_nlink, 0


def refuse_unfit(path: Path, note: Note | None, *, mounts: Path = MOUNTS) -> None:
    """Raise DatabaseRefusedError for a file that SQLite would lose rows on; a missing file is fine."""
    _refuse_network(path, mounts)
    if not path.exists():
        _refuse_lone_wal(path)
        return
    at = path.stat()
    if not path.is_file():
        raise DatabaseRefusedError(path, "it is no file", "Move it away, or choose another --home.")
    if at.st_nlink > 1:
        raise DatabaseRefusedError(
            path,
            f"the file has {at.st_nlink} names (hard links), and writing under two names loses rows",
            "Remove the other names (find -samefile shows them).",
        )
    _refuse_foreign_wal(path, at, note)


def _refuse_lone_wal(path: Path) -> None:
    if _size(wal_of(path)):
        raise DatabaseRefusedError(
            path,
            f"there is a {wal_of(path).name} with changes in it, but no {path.name} that it belongs to",
            f"Put {path.name} back, or move {wal_of(path).name} away to begin anew.",
        )


def _refuse_foreign_wal(path: Path, at: os.stat_result, note: Note | None) -> None:
    if note is None or not _size(wal_of(path)):
        return
    same = (note.device, note.inode) == (at.st_dev, at.st_ino)
    if same and note.mtime_ns in (0, at.st_mtime_ns):
        return
    raise DatabaseRefusedError(
        path,
        f"this is another file than the one that {wal_of(path).name} belongs to (a backup was put beside it,"
        " or the folder was copied)",
        f"To use {path.name} as it is, move {wal_of(path).name} and {path.name}-shm away; if the whole folder"
        f" was copied while nothing ran, remove {note_path(path).name}; backups go back with"
        " `hermes-cron restore`.",
    )


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0


def _refuse_network(path: Path, mounts: Path) -> None:
    if not sys.platform.startswith("linux"):
        return
    try:
        table = mounts.read_text(encoding="utf-8", errors="surrogateescape")
    except OSError:
        return
    kind = filesystem_of(path, table)
    if kind in _NETWORK:
        raise DatabaseRefusedError(
            path, f"it is on a network file system ({kind}), where locks do not hold", "Choose a local --home."
        )


def filesystem_of(path: Path, mounts: str) -> str | None:
    """Return the type of the file system that holds an absolute path, by the text of /proc/self/mounts."""
    best: tuple[int, str] | None = None
    for line in mounts.splitlines():
        fields = line.split(" ")
        if len(fields) < 3:
            continue
        point = Path(_unescape(fields[1]))
        depth = len(point.parts)
        # A later mount on the same point hides the earlier one.
        if path.is_relative_to(point) and (best is None or depth >= best[0]):
            best = depth, fields[2]
    return best[1] if best else None


def _unescape(field: str) -> str:
    for code, char in (("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")):
        field = field.replace(code, char)
    return field
