"""Where a home is, and what lies in it: state.db, the lock, and the note of the daemon that lives there."""

import json
import os
import sys
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from zoneinfo import ZoneInfo

CONFIG_NAME = "jobs.yaml"


@dataclass(frozen=True, slots=True, kw_only=True)
class Beacon:
    """`<home>/daemon.json`, there while a daemon lives."""

    pid: int
    port: int
    started_at: str


def default_home(environ: Mapping[str, str]) -> Path:
    """Return `$HERMES_CRON_HOME`, else the platform's folder for a user's data."""
    if given := environ.get("HERMES_CRON_HOME"):
        return Path(given).expanduser().absolute()
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Application Support" / "hermes-cron"
    data = environ.get("XDG_DATA_HOME", "")
    base = Path(data) if data.startswith("/") else Path.home() / ".local" / "share"
    return base / "hermes-cron"


def find_config(given: Path | None, home: Path) -> Path:
    """Return `--config`, else ./jobs.yaml, else <home>/jobs.yaml; it need not exist."""
    if given is not None:
        return given.expanduser().absolute()
    here = Path.cwd() / CONFIG_NAME
    return here if here.exists() or not (home / CONFIG_NAME).exists() else home / CONFIG_NAME


def state_path(home: Path) -> Path:
    """Return where the home's database lies."""
    return home / "state.db"


def host_zone(environ: Mapping[str, str]) -> str | None:
    """Return the host's IANA zone: `$TZ`, /etc/localtime, or /etc/timezone; None if it names none."""
    for name in (environ.get("TZ", "").lstrip(":"), _linked_zone(), _written_zone()):
        if name and _is_zone(name):
            return name
    return None


def read_beacon(home: Path) -> Beacon | None:
    """Return the note of the daemon that lives in this home; None if there is none or it cannot be read."""
    try:
        data = json.loads((home / "daemon.json").read_text(encoding="utf-8"))
        return Beacon(pid=int(data["pid"]), port=int(data["port"]), started_at=str(data["started_at"]))
    except (OSError, ValueError, KeyError, TypeError):
        return None


def write_beacon(home: Path, beacon: Beacon) -> None:
    """Write the note in one piece, for its owner's eyes only."""
    path = home / "daemon.json"
    fresh = path.with_suffix(".json.new")
    fresh.unlink(missing_ok=True)
    with os.fdopen(os.open(fresh, os.O_CREAT | os.O_WRONLY | os.O_EXCL, 0o600), "w", encoding="utf-8") as file:
        json.dump(asdict(beacon), file)
    fresh.replace(path)


def remove_beacon(home: Path) -> None:
    """Take the note away. Idempotent."""
    (home / "daemon.json").unlink(missing_ok=True)


def _linked_zone() -> str:
    try:
        target = os.readlink("/etc/localtime")
    except OSError:
        return ""
    return target.partition("zoneinfo/")[2]


def _written_zone() -> str:
    try:
        return Path("/etc/timezone").read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError):
        return ""


def _is_zone(name: str) -> bool:
    try:
        ZoneInfo(name)
    except (OSError, ValueError, KeyError):  # a name that is no zone is a KeyError
        return False
    return True
