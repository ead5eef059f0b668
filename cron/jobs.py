"""Read jobs.yaml: all of it is good, or it is refused with every mistake at once."""

import gc
import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path

from cron.jobs_env import Substitution
from cron.jobs_errors import ConfigError, Mistake, Unreadable
from cron.jobs_file import FileReader
from cron.jobs_schema import config_schema
from cron.jobs_text import decode, read_bytes, read_env
from cron.jobs_traps import compose
from cron.jobs_yaml import Document
from cron.model import Config
from cron.redact import Redactor

__all__ = ["ConfigError", "config_schema", "load_config"]


def load_config(
    path: Path, *, environ: Mapping[str, str], host_zone: str | None, now: datetime | None = None
) -> Config:
    """Read and check a jobs.yaml; nothing is contacted.

    `environ` beats the `.env` beside the file. `host_zone` is the host's IANA zone, or None if it names none.
    With `now` (aware), warnings about schedules are made as well. Raises ConfigError; its mistakes hold no
    secrets. Blocks on the file; may run in a thread.
    """
    with _collector_resting():
        return _load(path, environ, host_zone, now)


@contextmanager
def _collector_resting() -> Iterator[None]:
    """Keep the garbage collector out: nothing here is garbage yet, and it doubles the time for 10,000 jobs."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def _load(path: Path, environ: Mapping[str, str], host_zone: str | None, now: datetime | None) -> Config:
    dotenv, notes = read_env(path.absolute().parent)
    substitution = Substitution(environ=environ, dotenv=dotenv)
    try:
        data = read_bytes(path)
        document = _document(decode(data), substitution)
        reader = FileReader(path=path, document=document, now=now, host_zone=host_zone)
        config = reader.config(notes, lambda: _fingerprint(data, substitution, host_zone, reader.files))
        mistakes: Iterable[Mistake] = document.mistakes
    except Unreadable as error:
        config, mistakes = None, error.mistakes
    if config is None:
        redactor = Redactor(substitution.secrets)
        raise ConfigError([redactor.redact(mistake.at(path)) for mistake in sorted(set(mistakes))]) from None
    return config


def _document(text: str, substitution: Substitution) -> Document:
    root, mistakes = compose(text)
    if root is None:
        message = "the file is empty: `hermes-cron init` writes one to begin with"
        raise Unreadable(*mistakes, Mistake(line=0, column=0, message=message))
    return Document(root=root, lines=text.split("\n"), substitution=substitution, mistakes=list(mistakes))


def _fingerprint(data: bytes, substitution: Substitution, host_zone: str | None, files: Mapping[Path, str]) -> str:
    used = json.dumps([sorted(substitution.used.items()), host_zone, sorted(files.values())])
    return hashlib.sha256(data + b"\0" + used.encode()).hexdigest()
