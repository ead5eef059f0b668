"""What is wrong in a jobs.yaml, and where."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

LONGEST: Final = 600


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class Mistake:
    """One mistake: line and column count from 1; line 0 means that it has no place in the file."""

    line: int
    column: int
    message: str

    def at(self, path: Path) -> str:
        """Write it on one line, as `FILE:LINE:COL: message` or `FILE: message`."""
        message = one_line(self.message)
        if self.line < 1:
            return f"{path}: {message}"
        return f"{path}:{self.line}:{self.column}: {message}"


def one_line(message: str) -> str:
    """Return a message that quotes anything from a file, fit for a terminal: one line, no control characters."""
    shown = "".join(char if char.isprintable() else " " if char.isspace() else "\ufffd" for char in message)
    return shown if len(shown) <= LONGEST else f"{shown[: LONGEST // 2]} ... {shown[-LONGEST // 2 :]}"


class ConfigError(Exception):
    """A jobs.yaml that is refused whole. `mistakes` are all of them, each with its place and the way out."""

    def __init__(self, mistakes: Sequence[str]) -> None:
        super().__init__("\n".join(mistakes))
        self.mistakes = tuple(mistakes)


class Unreadable(Exception):
    """Carries mistakes that leave nothing to go on with (inside the loader only)."""

    def __init__(self, *mistakes: Mistake) -> None:
        super().__init__("; ".join(mistake.message for mistake in mistakes))
        self.mistakes = mistakes
