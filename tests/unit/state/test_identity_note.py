"""What stands in state.id, and how it tells a checkpoint from a copy."""

import os
from pathlib import Path

import pytest

from state.errors import StateDbReplacedError
from state.identity import FileGuard, wal_of
from state.note import Note, NoteFile


def note_of(path: Path, mtime_ns: int) -> Note:
    at = path.stat()
    return Note(device=at.st_dev, inode=at.st_ino, mtime_ns=mtime_ns, uuid="u", batch=3, at=4)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "state.db"
    path.touch()
    wal_of(path).touch()
    return path


def touched(path: Path, mtime_ns: int) -> None:
    os.utime(path, ns=(mtime_ns, mtime_ns))


def test_a_note_is_read_as_it_was_written_and_nothing_is_read_from_noise(tmp_path: Path, path: Path) -> None:
    file = NoteFile(tmp_path / "state.id")
    assert file.read() is None
    note = note_of(path, 5)
    file.write(note)
    assert file.read() == note
    file.write_batch(7, 8)
    read = file.read()
    assert read is not None
    assert (read.batch, read.at, read.uuid) == (7, 8, "u")
    file.path.write_bytes(b"noise")
    assert file.read() is None
    file.close()


def test_a_time_that_is_noted_is_ours_and_one_that_is_not_is_somebody_elses(tmp_path: Path, path: Path) -> None:
    file = NoteFile(tmp_path / "state.id")
    guard = FileGuard(path, file)
    touched(path, 1_000)
    guard.adopt()
    file.write(note_of(path, 2_000))
    touched(path, 2_000)
    guard.check()
    touched(path, 3_000)
    with pytest.raises(StateDbReplacedError, match="copied over it"):
        guard.check()
    file.close()


def test_a_checkpoint_that_begins_while_we_look_is_no_replacement(tmp_path: Path, path: Path) -> None:
    class Racing(NoteFile):
        """The other process notes its checkpoint right after we have read."""

        def read(self) -> Note | None:
            note = super().read()
            self.write(note_of(path, 0))
            return note

    file = Racing(tmp_path / "state.id")
    guard = FileGuard(path, file)
    touched(path, 1_000)
    guard.adopt()
    file.write(note_of(path, 1_000))
    touched(path, 1_500)
    guard.check()
    file.close()


def test_only_one_process_moves_pages_at_a_time(tmp_path: Path, path: Path) -> None:
    first, second = NoteFile(tmp_path / "state.id"), NoteFile(tmp_path / "state.id")
    first.write(note_of(path, 1))
    with first.moving_pages(path) as mine, second.moving_pages(path) as theirs:
        assert (mine, theirs) == (True, False)
        during = second.read()
        assert during is not None and during.mtime_ns == 0
    after = second.read()
    assert after is not None and after.mtime_ns == path.stat().st_mtime_ns
    for file in (first, second):
        file.close()
