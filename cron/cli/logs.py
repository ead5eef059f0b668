"""Logs go to stderr, one line per event, without secrets and without anybody's words."""

import logging
import sys
from collections.abc import Callable, Iterable

from cron.redact import Redactor

_STANDARD = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}


class EventFormatter(logging.Formatter):
    """Writes `time level sentence key=value ...`."""

    def __init__(self, redactor: Callable[[], Redactor]) -> None:
        super().__init__("%(asctime)s %(levelname)-7s %(message)s", datefmt="%Y-%m-%dT%H:%M:%S%z")
        self.redactor = redactor

    def format(self, record: logging.LogRecord) -> str:
        """Add the event's facts, and take secrets out of all of it, tracebacks included."""
        facts = {key: value for key, value in vars(record).items() if key not in _STANDARD}
        line = super().format(record)
        if facts:
            first, newline, rest = line.partition("\n")
            line = first + "".join(f" {key}={value}" for key, value in facts.items()) + newline + rest
        return self.redactor().redact(line)


def set_up_logging(secrets: Iterable[str], level: int = logging.INFO) -> EventFormatter:
    """Send every logger to stderr; libraries only from WARNING on.

    Whoever reads jobs.yaml again hands the formatter a new `redactor`: its secrets may be others.
    """
    handler = logging.StreamHandler(sys.stderr)
    known = Redactor(secrets)
    formatter = EventFormatter(lambda: known)
    handler.setFormatter(formatter)
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(logging.WARNING)
    for package in ("cron", "seeding", "delivery", "state"):
        logging.getLogger(package).setLevel(level)
    return formatter
