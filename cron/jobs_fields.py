"""How single values of jobs.yaml are read: typed text in, values out, one sentence for what does not fit.

Every function takes what `jobs_yaml` made of a node and raises ValueError. The annotated types at the end pair
each with what an editor's schema says about it.
"""

import re
import shlex
import unicodedata
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date, timedelta
from typing import Annotated, Any, Final, TypeVar
from urllib.parse import urlsplit

from pydantic import PlainValidator, WithJsonSchema

from cron.schedules.days import PREFIX, DaySpan
from cron.schedules.durations import parse_duration

NO_VALUE: Final = "nothing stands here: write a value, or remove the line"
LONGEST_NAME: Final = 200

T = TypeVar("T")

_TRUE: Final = frozenset({"true", "yes", "on"})
_FALSE: Final = frozenset({"false", "no", "off"})
_VARIABLE_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_BIDI: Final = frozenset("\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")


@dataclass(frozen=True, slots=True, kw_only=True)
class DayWords:
    """One item of `except` or `also`, as typed, and as what it was read: a span, a calendar's name, or a file's."""

    text: str
    span: DaySpan | None = None
    calendar: str | None = None
    file: str | None = None


class ItemError(ValueError):
    """What is wrong with one item of a list or mapping; `item` is its position or key."""

    def __init__(self, item: int | str, reason: str) -> None:
        super().__init__(reason)
        self.item = item


def _each(items: list[Any], read: Callable[[object], str]) -> tuple[str, ...]:
    found: list[str] = []
    for index, item in enumerate(items):
        try:
            found.append(read(item))
        except ValueError as error:
            raise ItemError(index, str(error)) from None
    return tuple(found)


def text(value: object) -> str:
    """Read a text as it was typed; empty is allowed when it stands in quotes."""
    if value is None:
        raise ValueError(NO_VALUE)
    if isinstance(value, dict):
        raise ValueError(f"a text is wanted here, not a mapping{_one_pair(value)}")
    if not isinstance(value, str):
        raise ValueError("one text is wanted here, not a list")
    return value


def _one_pair(value: dict[Any, Any]) -> str:
    """Undo `slack: "#ops"`, which YAML reads as a mapping."""
    if len(value) != 1:
        return ""
    key, item = next(iter(value.items()))
    return (
        f': put it in quotes, "{key}: {item}" (in a place without the space: "{key}:{item}")'
        if isinstance(item, str)
        else ""
    )


def filled_text(value: object) -> str:
    """Read a text that must not be empty."""
    read = text(value)
    if not read.strip():
        raise ValueError("an empty text: write something, or remove the line")
    return read


def texts(value: object) -> tuple[str, ...]:
    """Read a list of texts, or one text."""
    if isinstance(value, list):
        return _each(value, filled_text)
    return (filled_text(value),)


def comma_texts(value: object) -> tuple[str, ...]:
    """Read a list of texts, one text, or texts between commas; empty pieces are dropped."""
    pieces = (piece.strip() for item in texts(value) for piece in item.split(","))
    return tuple(piece for piece in pieces if piece)


def boolean(value: object) -> bool:
    """Read true or false (yes, no, on and off will do)."""
    word = text(value).strip().lower()
    if word in _TRUE:
        return True
    if word in _FALSE:
        return False
    raise ValueError(f'"{word}" is neither true nor false')


def whole_number(value: object) -> int:
    """Read a number of 1 or more."""
    word = text(value).strip()
    if not re.fullmatch(r"\d{1,9}", word) or int(word) < 1:
        raise ValueError(f'"{word}" is no whole number of 1 or more')
    return int(word)


def duration_or_zero(value: object) -> timedelta:
    """Read a length of time: 90s, 10m, 1h30m, 2 days, 0s."""
    word = text(value).strip()
    if word.isdecimal():
        raise ValueError(f'"{word}" has no unit: write {word}s, {word}m or {word}h')
    length = parse_duration(word)
    if length is None:
        raise ValueError(f'"{word}" is no length of time: write 90s, 10m, 2h, 1h30m or 1d')
    return length


def duration(value: object) -> timedelta:
    """Read a length of time of at least a second."""
    length = duration_or_zero(value)
    if length < timedelta(seconds=1):
        raise ValueError(f'"{text(value).strip()}" is too short: one second (1s) is the least')
    return length


def environment(value: object) -> dict[str, str]:
    """Read variables for a command: names to texts."""
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise ValueError("a mapping is wanted here: env: {NAME: value}")
    read: dict[str, str] = {}
    for name, item in value.items():
        if not _VARIABLE_NAME.fullmatch(name):
            raise ItemError(name, f'"{name}" is no name of a variable: letters, digits and _ only')
        if item is None:
            raise ItemError(name, f'{name} has no value: write "" for an empty one')
        if not isinstance(item, str):
            raise ItemError(name, f"{name} must be one text")
        if "\0" in item:
            raise ItemError(name, f"{name} holds a NUL character, which no command can be given")
        read[name] = item
    return read


def command(value: object) -> str | tuple[str, ...]:
    """Read a command: a list (argv), or one text."""
    if isinstance(value, list) and not value:
        raise ValueError("an empty command: write [program, argument, ...]")
    read = _each(value, text) if isinstance(value, list) else filled_text(value)
    if any("\0" in part for part in read):
        raise ValueError("a command holds no NUL characters")
    if isinstance(read, tuple) and not read[0].strip():
        raise ValueError("the program's name is empty")
    return read


def argv(read: str | tuple[str, ...], *, shell: bool) -> tuple[str, ...]:
    """Return what is started: one text for the shell, else a program and its arguments. Raises ValueError."""
    if isinstance(read, tuple):
        if shell:
            raise ValueError("with shell: true the command is one text, not a list")
        return read
    if shell:
        return (read,)
    try:
        return tuple(shlex.split(read))
    except ValueError as error:
        raise ValueError(f"the quotes in this command do not fit ({error}): write it as a list") from None


def url(value: object) -> str:
    """Read a web address."""
    word = text(value).strip()
    try:
        parts = urlsplit(word)
        is_good = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        is_good = False
    if not is_good or any(char.isspace() for char in word):
        raise ValueError(f'"{word}" is no address: write one such as https://api.example.com/v1')
    return word


def days(value: object) -> tuple[DayWords, ...]:
    """Read days (2026-12-25), spans of days (2026-12-24..2027-01-02), calendars (holidays:DE-BY) and .ics files."""
    found: list[DayWords] = []
    for piece in comma_texts(value):
        if piece.startswith(PREFIX):
            found.append(DayWords(text=piece, calendar=piece.removeprefix(PREFIX).strip()))
        elif piece.lower().endswith(".ics"):
            found.append(DayWords(text=piece, file=piece))
        else:
            found.append(DayWords(text=piece, span=_span(piece)))
    return tuple(found)


def _span(piece: str) -> DaySpan:
    first, dots, last = piece.partition("..")
    start, end = _day(first), _day(last) if dots else _day(first)
    if not timedelta(0) <= end - start <= timedelta(days=400):
        raise ValueError(f'"{piece}" is no span of days: the first comes first, and 400 days are the most')
    return DaySpan(first=start, last=end)


def _day(word: str) -> date:
    try:
        return date.fromisoformat(word.strip())
    except ValueError:
        shapes = "2026-12-25, 2026-12-24..2027-01-02, holidays:DE or team.ics"
        raise ValueError(f'"{word.strip()}" is no day: write it as {shapes}') from None


def check_name(name: str, what: str) -> None:
    """Refuse names that could not be shown on one line. Raises ValueError."""
    if not name.strip():
        raise ValueError(f"the name of {what} is empty")
    if len(name) > LONGEST_NAME:
        raise ValueError(f"the name of {what} has {len(name)} characters; {LONGEST_NAME} are the most")
    if any(unicodedata.category(char) in ("Cc", "Cs", "Zl", "Zp") or char in _BIDI for char in name):
        raise ValueError(f"the name of {what} holds control characters: {name!a}")


def one_of(*words: str, also: dict[str, str] | None = None) -> Callable[[object], str]:
    """Make a reader for one of a few words; `also` maps other spellings to them."""

    def read(value: object) -> str:
        word = text(value).strip().lower()
        word = (also or {}).get(word, word)
        if word not in words:
            raise ValueError(f'"{text(value).strip()}" is not known here: write {", ".join(words[:-1])} or {words[-1]}')
        return word

    return read


# --- the same, paired with what an editor is told -------------------------------------------------

_SCALAR: Final[dict[str, Any]] = {"type": ["string", "number", "boolean"]}
_LIST: Final[dict[str, Any]] = {"anyOf": [_SCALAR, {"type": "array", "items": _SCALAR}]}
_LENGTH: Final[dict[str, Any]] = {"type": "string", "examples": ["90s", "10m", "2h", "1h30m", "1d"]}

Text = Annotated[str, PlainValidator(text), WithJsonSchema(_SCALAR)]
FilledText = Annotated[str, PlainValidator(filled_text), WithJsonSchema(_SCALAR)]
Texts = Annotated[tuple[str, ...], PlainValidator(texts), WithJsonSchema(_LIST)]
CommaTexts = Annotated[tuple[str, ...], PlainValidator(comma_texts), WithJsonSchema(_LIST)]
Boolean = Annotated[bool, PlainValidator(boolean), WithJsonSchema({"type": "boolean"})]
Count = Annotated[int, PlainValidator(whole_number), WithJsonSchema({"type": "integer", "minimum": 1})]
Duration = Annotated[timedelta, PlainValidator(duration), WithJsonSchema(_LENGTH)]
DurationOrZero = Annotated[timedelta, PlainValidator(duration_or_zero), WithJsonSchema(_LENGTH)]
Environment = Annotated[
    dict[str, str],
    PlainValidator(environment),
    WithJsonSchema({"type": "object", "additionalProperties": _SCALAR}),
]
Command = Annotated[str | tuple[str, ...], PlainValidator(command), WithJsonSchema(_LIST)]
Url = Annotated[str, PlainValidator(url), WithJsonSchema({"type": "string", "pattern": r"^https?://|\$\{"})]
Days = Annotated[tuple[DayWords, ...], PlainValidator(days), WithJsonSchema(_LIST)]
