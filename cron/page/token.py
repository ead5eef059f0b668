"""The token of a page that others than this machine can reach: one per home, for its owner's eyes only."""

import os
import secrets
from pathlib import Path

TOKEN_FILE = "page-token"


def read_token(home: Path) -> str | None:
    """Return the home's token; None if none was ever needed."""
    try:
        return (home / TOKEN_FILE).read_text(encoding="ascii").strip() or None
    except (FileNotFoundError, UnicodeDecodeError):
        return None


def keep_token(home: Path) -> str:
    """Return the home's token, made at first use; the file is for its owner's eyes only. Raises OSError."""
    path = home / TOKEN_FILE
    home.mkdir(mode=0o700, parents=True, exist_ok=True)
    token = read_token(home)
    if token is not None:
        path.chmod(0o600)
        return token
    token = secrets.token_urlsafe(32)
    fresh = path.with_suffix(".new")
    fresh.unlink(missing_ok=True)
    with os.fdopen(os.open(fresh, os.O_CREAT | os.O_WRONLY | os.O_EXCL, 0o600), "w", encoding="ascii") as file:
        file.write(token)
    fresh.replace(path)
    return token
