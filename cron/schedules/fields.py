"""The fields of a crontab expression: checked here, with the column of what is wrong, stepped by cronsim.

cronsim (https://github.com/cuu508/cronsim) knows Debian's rules but no wrapped ranges, reads `a-a/n` as `a/n`,
takes steps that no field is long enough for, and names a bad field without saying what is bad.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from difflib import get_close_matches

from cron.schedules.errors import ScheduleError

_DAYS = ("SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT")
_MONTHS = ("JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC")
_TERM = re.compile(r"(?P<first>\*|[0-9]+|[A-Z]+)(?:-(?P<last>[0-9]+|[A-Z]+))?(?:/(?P<step>[0-9]+))?")
_FOREIGN = re.compile(r"LW?([-/].*)?|[0-9]+W|.*\?.*")  # L and LW where they are known are read before
_LAST_DAY_OF_WEEK = re.compile(r"(?P<day>[0-9]+|[A-Z]{3})L")
_NTH_DAY_OF_WEEK = re.compile(r"(?P<day>[0-9]+|[A-Z]+)#(?P<nth>[0-9]+)")


@dataclass(frozen=True, slots=True, kw_only=True)
class CronExpression:
    """A checked expression: `text` as we print it, `steps` as cronsim takes it (six fields, no wrapped ranges).

    `is_fixed`: minute and hour are free of `*`, so it names wall times rather than a rhythm.
    """

    text: str
    steps: str
    is_fixed: bool

    @property
    def is_weekly(self) -> bool:
        """Whether nothing but the weekday says on which days it is due."""
        _, _, _, day, month, weekday = self.steps.split()
        return (day, month) == ("*", "*") and weekday != "*"

    def on_every_day(self) -> "CronExpression":
        """Return the same times on every day of the week."""
        return replace(
            self, text=" ".join([*self.text.split()[:-1], "*"]), steps=" ".join([*self.steps.split()[:-1], "*"])
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Field:
    name: str
    low: int
    high: int
    size: int  # how many different values there are; 7 and 0 are the same weekday
    names: Mapping[str, int] = field(default_factory=dict)
    wraps: bool = True
    beyond: str = "list the values that you mean"  # what to write instead of a step that is too long


def _numbered(names: tuple[str, ...], start: int) -> dict[str, int]:
    return {name: number for number, name in enumerate(names, start)}


_SECOND = _Field(name="second", low=0, high=59, size=60, wraps=False, beyond="write `every {step}s`")
_MINUTE = _Field(name="minute", low=0, high=59, size=60, wraps=False, beyond="write `every {step}m`")
_HOUR = _Field(name="hour", low=0, high=23, size=24, beyond="write `every {step}h`")
_DAY = _Field(name="day of month", low=1, high=31, size=31, beyond="write `every {step}d`")
_MONTH = _Field(name="month", low=1, high=12, size=12, names=_numbered(_MONTHS, 1))
_WEEKDAY = _Field(name="weekday", low=0, high=7, size=7, names=_numbered(_DAYS, 0), beyond="write `every {step}d`")
_FIELDS = (_SECOND, _MINUTE, _HOUR, _DAY, _MONTH, _WEEKDAY)


def parse_cron(text: str) -> CronExpression:
    """Read five fields, or six with the seconds first; raise ScheduleError with the column otherwise."""
    words = [(match.group().upper(), match.start() + 1) for match in re.finditer(r"\S+", text)]
    if len(words) not in (5, 6):
        raise ScheduleError(_wrong_count(len(words)), column=1)
    fields = _FIELDS[-len(words) :]
    parsed = [_parse_field(spec, word, column) for spec, (word, column) in zip(fields, words, strict=True)]
    shown, steps = [p[0] for p in parsed], [p[1] for p in parsed]
    if len(words) == 5:
        steps.insert(0, "0")
    return CronExpression(
        text=" ".join(shown),
        steps=" ".join(steps),
        is_fixed="*" not in steps[1] and "*" not in steps[2],
    )


def _wrong_count(count: int) -> str:
    if count == 7:
        return "seven fields are Quartz's form with a year; write six: second minute hour day month weekday"
    return f"there are {count} fields; write 5 (minute hour day month weekday), or 6 with seconds first"


def _parse_field(spec: _Field, word: str, column: int) -> tuple[str, str]:
    """Return the field as shown and as cronsim takes it."""
    shown, steps = [], []
    for term in word.split(","):
        as_shown, as_steps = _parse_term(spec, term, column)
        shown.append(as_shown)
        steps.append(as_steps)
        column += len(term) + 1
    return ",".join(shown), ",".join(steps)


def _parse_term(spec: _Field, term: str, column: int) -> tuple[str, str]:
    special = _special(spec, term, column)
    if special is not None:
        return special, special
    match = None if _FOREIGN.fullmatch(term) else _TERM.fullmatch(term)
    if match is None or (match["first"] == "*" and match["last"] is not None):
        raise ScheduleError(_explain_term(spec, term), column=column)
    step = None if match["step"] is None else _step(spec, match["step"], column + match.start("step"))
    tail = "" if step is None else f"/{step}"
    if match["first"] == "*":
        return f"*{tail}", f"*{tail}"
    first = _value(spec, match["first"], column)
    if match["last"] is None:
        return f"{first}{tail}", f"{first}{tail}"
    last = _value(spec, match["last"], column + match.start("last"))
    return f"{first}-{last}{tail}", _range(spec, first, last, step or 1, column)


def _range(spec: _Field, first: int, last: int, step: int, column: int) -> str:
    if first < last:
        return f"{first}-{last}" if step == 1 else f"{first}-{last}/{step}"
    if first == last:
        return str(first)
    if not spec.wraps:
        raise ScheduleError(
            f"{spec.name}: {first}-{last} runs backwards; write {first}-{spec.high},{spec.low}-{last} "
            "if it is meant to run over the full hour or minute",
            column=column,
        )
    if spec is _WEEKDAY and first == 7:
        first = 0
    length = (last - first) % spec.size
    values = [(first + n - spec.low) % spec.size + spec.low for n in range(0, length + 1, step)]
    return ",".join(str(value) for value in values)


def _special(spec: _Field, term: str, column: int) -> str | None:
    """Read what is no number or range: the last day, the last weekday, the last or nth Friday."""
    if spec is _DAY and term in ("L", "LW"):
        return term
    if spec is not _WEEKDAY:
        return None
    if match := _LAST_DAY_OF_WEEK.fullmatch(term):
        return f"{_value(spec, match['day'], column)}L"
    if match := _NTH_DAY_OF_WEEK.fullmatch(term):
        if not 1 <= int(match["nth"]) <= 5:
            raise ScheduleError(
                f"weekday: a month has at most five of each; write {match['day']}#1 to {match['day']}#5",
                column=column + match.start("nth"),
            )
        return f"{_value(spec, match['day'], column)}#{int(match['nth'])}"
    return None


def _step(spec: _Field, digits: str, column: int) -> int:
    step = int(digits)
    if step == 0:
        raise ScheduleError(f"{spec.name}: a step of 0 never moves; write a step of 1 or more", column=column)
    if step > spec.size:
        beyond = spec.beyond.format(step=step)
        raise ScheduleError(
            f"{spec.name}: a step of {step} is longer than the field ({spec.low}-{spec.high}); {beyond}",
            column=column,
        )
    return step


def _value(spec: _Field, word: str, column: int) -> int:
    if word in spec.names:
        return spec.names[word]
    if not word.isdigit():
        raise ScheduleError(_explain_name(spec, word), column=column)
    number = int(word)
    if not spec.low <= number <= spec.high:
        relation = "more" if number > spec.high else "less"
        bound = spec.high if number > spec.high else spec.low
        raise ScheduleError(
            f"{spec.name}: {number} is {relation} than {bound}; write a number from {spec.low} to {spec.high}",
            column=column,
        )
    return number


def _explain_name(spec: _Field, word: str) -> str:
    near = get_close_matches(word, spec.names, n=1, cutoff=0.5)
    known = f"a number from {spec.low} to {spec.high}"
    if near:
        return f'{spec.name}: "{word}" is not known; did you mean {near[0]}?'
    if spec.names:
        names = list(spec.names)
        known += f" or a name ({names[0]} ... {names[-1]})"
    return f'{spec.name}: "{word}" is not known; write {known}'


def _explain_term(spec: _Field, term: str) -> str:
    if term == "":
        return f"{spec.name}: there is an empty item in the list; remove the extra comma"
    if "?" in term:
        return f"{spec.name}: `?` is Quartz's word for any; write *"
    if re.fullmatch(r"[0-9]+W", term):
        return f"{spec.name}: {term}, the nearest working day, is Quartz's; write LW for the month's last working day"
    if spec is _DAY and term.startswith("L-"):
        return f"{spec.name}: {term}, days before the last, is Quartz's; write L for the last day"
    if term.startswith("L"):
        return f"{spec.name}: {term} is not known; write L as day of month, or 5L as weekday for the last Friday"
    return f'{spec.name}: "{term}" is not known; write a number, a-b, */n, a-b/n, or a list of these with commas'
