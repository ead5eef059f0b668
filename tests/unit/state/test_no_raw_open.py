"""Closing any descriptor of a live database drops the process's locks on it: nothing opens it but SQLite."""

import ast
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[3]
PACKAGES = ("cron", "seeding", "delivery", "state")
OPENING = {"open", "fdopen", "read_bytes", "write_bytes", "read_text", "write_text", "copy", "copy2", "copyfile"}

ALLOWED = {
    "state/backup.py _copy_in": "O_EXCL: only a file that is not there yet",
    "state/copying.py copy_out": "O_EXCL, and the copy is nobody's database yet",
    "state/database.py _own": "O_EXCL: only a file that is not there yet",
    "state/identity.py _refuse_network": "/proc/self/mounts",
    "state/lock.py _acquire": "state.lock and state.pid",
    "state/lock.py is_alive": "state.lock",
    "state/lock.py _read_pid": "state.pid",
    "state/note.py __init__": "state.id",
    "cron/cli/backup.py _is_database": "a backup, in a process that has no database open",
}


def calls(package: str) -> Iterator[tuple[str, str, ast.Call]]:
    """Yield every call of a package with its file and function."""
    for path in sorted((ROOT / package).rglob("*.py")):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        for function in ast.walk(tree):
            if isinstance(function, (ast.FunctionDef, ast.AsyncFunctionDef)):
                for node in ast.walk(function):
                    if isinstance(node, ast.Call):
                        yield str(path.relative_to(ROOT)), function.name, node


def name_of(call: ast.Call) -> str:
    return call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")


def receiver_of(call: ast.Call) -> str:
    return ast.unparse(call.func.value) if isinstance(call.func, ast.Attribute) else ""


def test_in_the_rooms_that_know_the_databases_path_every_opened_file_is_accounted_for() -> None:
    found = {
        f"{path} {function}"
        for package in ("state", "cron")
        for path, function, call in calls(package)
        if (package == "state" or path == "cron/cli/backup.py")
        and name_of(call) in OPENING
        and receiver_of(call) not in ("Database", "cls", "self._books", "db")
    }
    assert found - ALLOWED.keys() == set()


def test_sqlite_is_opened_in_one_place() -> None:
    found = {
        path
        for package in PACKAGES
        for path, _, call in calls(package)
        if name_of(call) == "connect" and receiver_of(call) in ("sqlite3", "apsw")
    }
    assert found == {"state/sqlite.py"}


def test_nothing_copies_whole_files_maps_them_or_forks() -> None:
    banned = {"shutil", "tarfile", "zipfile", "mmap", "apsw", "multiprocessing"}
    found = set()
    for package in PACKAGES:
        for path in (ROOT / package).rglob("*.py"):
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
                names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
                found |= {f"{path.relative_to(ROOT)} {name}" for name in names if name.split(".")[0] in banned}
        found |= {f"{path} os.fork" for path, _, call in calls(package) if ast.unparse(call.func) == "os.fork"}
    assert found == set()
