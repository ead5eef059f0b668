"""`backup` and `restore`: a consistent copy of the home's database, and the way back."""

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

import click

from cron.cli.main import FilePath, Options
from cron.cli.setup import Failure, InputError, home_of, told
from cron.home import state_path
from state.backup import back_up, restore
from state.clock import system_now
from state.lock import HomeLock, folder_of

_DATABASE = frozenset(f"state.db{suffix}" for suffix in ("", "-wal", "-shm", "-journal"))
_LIVE = _DATABASE | {"state.id", "state.lock", "state.pid", "daemon.json", "page-token", "jobs.yaml", ".env"}
_MAGIC = b"SQLite format 3\0"


@click.command("backup")
@click.argument("file", type=FilePath(path_type=Path))
@click.option("--force", is_flag=True, help="Replace a backup that is there.")
@click.pass_obj
def backup_command(options: Options, file: Path, force: bool) -> None:
    """Copy the database into FILE, whole and checked, while a daemon works on it or not."""
    path, to = state_path(home_of(options)), file.expanduser().absolute()
    _refuse_name(home_of(options), path, to)
    if to.exists():
        if not force:
            raise InputError(f"{to} is there already; --force replaces it.")
        if not _is_database(to):
            raise InputError(f"{to} is no database, so it is no backup; choose another name.")
    with told(), _writing(to):
        back_up(path, to)
    click.echo(f"Wrote {to}, {to.stat().st_size:,} bytes, checked. `hermes-cron restore {file}` puts it back.")


@click.command("restore")
@click.argument("file", type=FilePath(path_type=Path))
@click.pass_obj
def restore_command(options: Options, file: Path) -> None:
    """Put the backup FILE back. Stop the daemon first; what was there is kept in the home's backups/.

    What happened since the backup was made is then unknown: the next start tells it, and runs nothing of it.
    """
    home = home_of(options)
    source = file.expanduser().absolute()
    if not source.is_file():
        raise InputError(f"There is no file {source}.")
    with told(), _writing(home), HomeLock.acquire(home, pid=os.getpid()):
        kept = restore(
            state_path(home), source, kept_as=f"state-before-restore-{system_now():%Y%m%dT%H%M%S}.{os.getpid()}.db"
        )
    was = "" if kept is None else f" What was there is in {kept}."
    click.echo(f"Restored {source}.{was} Start the daemon again.")


@contextlib.contextmanager
def _writing(place: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise Failure(f"{place} cannot be written: {error.strerror}.") from error


def _refuse_name(home: Path, path: Path, to: Path) -> None:
    if to.is_dir():
        raise InputError(f"{to} is a folder; name a file in it.")
    if not to.parent.is_dir():
        raise InputError(f"There is no folder {to.parent}.")
    folders = {home.resolve(), folder_of(home)}
    is_live = to.resolve().parent in folders and to.resolve().name in _LIVE
    if is_live or (to.exists() and path.exists() and to.samefile(path)):
        raise InputError(f"{to} belongs to the running program; choose another name.")


def _is_database(path: Path) -> bool:
    with path.open("rb") as file:
        return file.read(len(_MAGIC)) == _MAGIC
