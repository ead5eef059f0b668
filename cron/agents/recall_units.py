"""A brief cut into what can be quoted: list items with what hangs below them, rows of tables, lines. Pure."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum, auto

from cron.agents.recall_words import stems_of

LONGEST_LINE = 500  # characters of one line that are quoted
_LABEL = re.compile(r"\[(?:Cron delivery|Message sent): [^\n]*\]\n")
_ITEM = re.compile(r"(?P<indent>[ \t]*)(?:[-*+•·–]|(?P<number>\d{1,3})[.)])\s+\S")
_FENCE = re.compile(r"\s*(```|~~~)")
_ROW = re.compile(r"\s*\|.*\|\s*$")
_RULE = re.compile(r"\s*\|?\s*:?-{2,}:?\s*(\|\s*:?-{2,}:?\s*)*\|?\s*$")
_HEADING = re.compile(r"\s*#{1,6}\s|.*:\s*(\*\*|__)?\s*$|\s*\*\*[^*]+\*\*\s*$")


class UnitKind(Enum):
    """What a unit is; an item can be counted."""

    ITEM = auto()
    HEADING = auto()
    LINE = auto()


@dataclass(frozen=True, slots=True, kw_only=True)
class Unit:
    """One quotable piece. `number`: what the brief itself calls the item. `lead`: what must be quoted before it."""

    kind: UnitKind
    lines: tuple[str, ...]
    stems: frozenset[str]
    number: int | None = None
    lead: tuple[str, ...] = ()  # a table's head
    is_code: bool = False


def units_of(brief: str) -> tuple[Unit, ...]:
    """Cut a brief (label and all) into its units, in order. Where nothing is listed, its lines are what is counted."""
    units = tuple(_units(_LABEL.sub("", brief, count=1)))
    if any(unit.kind is UnitKind.ITEM for unit in units):
        return units
    return tuple(
        Unit(kind=UnitKind.ITEM, lines=unit.lines, stems=unit.stems, is_code=unit.is_code)
        if unit.kind is UnitKind.LINE
        else unit
        for unit in units
    )


def _units(text: str) -> Iterator[Unit]:
    lines = text.splitlines()
    at = 0
    while at < len(lines):
        line = lines[at]
        if not line.strip():
            at += 1
        elif _FENCE.match(line):
            end = _end_of_fence(lines, at)
            yield from (_unit(UnitKind.LINE, [one], is_code=True) for one in lines[at + 1 : end] if one.strip())
            at = end + 1
        elif _is_table(lines, at):
            end = next((n for n in range(at + 2, len(lines)) if not _ROW.match(lines[n])), len(lines))
            lead = (lines[at].strip(), lines[at + 1].strip())
            yield from (_unit(UnitKind.ITEM, [row.strip()], lead=lead) for row in lines[at + 2 : end])
            at = end
        elif item := _ITEM.match(line):
            end = _end_of_item(lines, at, len(item["indent"].expandtabs(4)))
            kept = [one for one in lines[at:end] if one.strip()]
            yield _unit(UnitKind.ITEM, kept, number=int(item["number"]) if item["number"] else None)
            at = end
        else:
            yield _unit(UnitKind.HEADING if _HEADING.match(line) else UnitKind.LINE, [line])
            at += 1


def _unit(
    kind: UnitKind, lines: list[str], *, number: int | None = None, lead: tuple[str, ...] = (), is_code: bool = False
) -> Unit:
    return Unit(
        kind=kind,
        lines=tuple(_shown(line) for line in lines),
        stems=stems_of("\n".join(lines)),
        number=number,
        lead=lead,
        is_code=is_code,
    )


def _shown(line: str) -> str:
    line = line.rstrip()
    return line if len(line) <= LONGEST_LINE else f"{line[:LONGEST_LINE].rstrip()} …"


def _is_table(lines: list[str], at: int) -> bool:
    return at + 1 < len(lines) and "|" in lines[at] and "|" in lines[at + 1] and bool(_RULE.match(lines[at + 1]))


def _end_of_fence(lines: list[str], at: int) -> int:
    mark = _FENCE.match(lines[at])
    assert mark is not None, "the caller saw it"
    return next((n for n in range(at + 1, len(lines)) if lines[n].strip().startswith(mark[1])), len(lines))


def _end_of_item(lines: list[str], at: int, indent: int) -> int:
    """Return where an item ends: at the next one of its level, or at a line that is not indented below it."""
    end = at + 1
    while end < len(lines):
        line = lines[end]
        if not line.strip():
            following = next((one for one in lines[end + 1 :] if one.strip()), "")
            if _indent(following) <= indent:
                return end
        elif _indent(line) <= indent:
            return end
        end += 1
    return end


def _indent(line: str) -> int:
    expanded = line.expandtabs(4)
    return len(expanded) - len(expanded.lstrip())
