"""Tables as aligned monospace text, for platforms that have none."""

import unicodedata
from collections.abc import Iterator
from dataclasses import replace
from itertools import zip_longest

from delivery.render.blocks import MarkKind, Row, Span, Table, TextLine, plain_span

WIDEST_COLUMN = 40
"""Columns of text up to which cells are padded; a longer cell pushes its row to the right."""


def draw_table(table: Table) -> tuple[Span, ...]:
    """Return the table's lines: the header, a line under it, and one line a row."""
    texts = [[_text(cell) for cell in row.cells] for row in (table.header, *table.rows)]
    widths = [
        min(WIDEST_COLUMN, max(display_width(cell) for cell in column)) for column in zip_longest(*texts, fillvalue="")
    ]
    lines = [_line(cells, widths, table.aligns) for cells in texts]
    under = "-+-".join("-" * width for width in widths)
    starts = [row.start for row in (table.header, *table.rows)]
    drawn = [plain_span(line, start) for line, start in zip(lines, starts, strict=True)]
    return (drawn[0], plain_span(under, table.start), *drawn[1:])


def links_in(table: Table) -> Iterator[TextLine]:
    """Give each link of a table once: monospace text can hold none."""
    last: Row = table.rows[-1] if table.rows else table.header
    seen: set[tuple[str, str]] = set()
    for row in (table.header, *table.rows):
        for cell in row.cells:
            for span in cell:
                link = next((mark for mark in span.marks if mark.kind is MarkKind.LINK), None)
                if link is not None and (link.value, span.text) not in seen and link.value != span.text:
                    seen.add((link.value, span.text))
                    yield (replace(span, start=last.start, cut=last.start, marks=(link,)),)


def display_width(text: str) -> int:
    """Return the columns that a text takes in a monospace font."""
    if text.isascii():
        return len(text)
    return sum(_char_width(char) for char in text)


def _char_width(char: str) -> int:
    if unicodedata.category(char) in ("Mn", "Me", "Cf"):
        return 0
    return 2 if unicodedata.east_asian_width(char) in "WF" else 1


def _text(cell: TextLine) -> str:
    return " ".join("".join(span.text for span in cell).split())


def _line(cells: list[str], widths: list[int], aligns: tuple[str, ...]) -> str:
    sides = (*aligns, *("left" for _ in cells[len(aligns) :]))
    return " | ".join(map(_pad, cells, widths, sides)).rstrip()


def _pad(text: str, width: int, align: str) -> str:
    room = max(0, width - display_width(text))
    if align == "right":
        return " " * room + text
    if align == "center":
        return " " * (room // 2) + text + " " * (room - room // 2)
    return text + " " * room
