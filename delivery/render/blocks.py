"""A brief as a small immutable tree: blocks of lines of spans, each knowing where in the source it began.

Every `start` is an offset (code points) into the cleaned source. They never decrease in reading order, so that a
part may be cut before any of them and the sources of all parts still add up to the brief.
"""

from dataclasses import dataclass
from enum import Enum


class MarkKind(Enum):
    """What may be done to a run of text."""

    BOLD = "bold"
    ITALIC = "italic"
    STRIKE = "strike"
    CODE = "code"
    LINK = "link"


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """One bold, one link, ... in the source; `id` tells neighbours of the same kind apart.

    `value` is the address of a link, the delimiter of anything else as it was typed.
    """

    kind: MarkKind
    value: str
    id: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """Text as a reader sees it, under the same marks (outermost first), within one line.

    `start` is where its text begins in the source, `cut` where the marks that it opens begin: a part that begins
    with this span is cut there.
    """

    text: str
    marks: tuple[Mark, ...]
    start: int
    cut: int


def plain_span(text: str, start: int) -> Span:
    """Return a span without marks."""
    return Span(text=text, marks=(), start=start, cut=start)


TextLine = tuple[Span, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Paragraph:
    """Lines of text; `level` is that of a heading, 0 for a plain paragraph."""

    start: int
    lines: tuple[TextLine, ...]
    level: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Code:
    """A fenced or indented block; each line with its own start, the first with that of the fence."""

    start: int
    language: str
    lines: tuple[Span, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One row of a table."""

    start: int
    cells: tuple[TextLine, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """A table; `aligns` has "left", "right" or "center" for each column of the header."""

    start: int
    header: Row
    rows: tuple[Row, ...]
    aligns: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """A horizontal rule."""

    start: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Quote:
    """A block quote."""

    start: int
    children: tuple["Block", ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Item:
    """One item of a list; `number` is None for a bullet ("3." otherwise), `done` None where it is no task."""

    start: int
    number: str | None
    done: bool | None
    children: tuple["Block", ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ItemList:
    """A list; a loose one has blank lines between its items."""

    start: int
    items: tuple[Item, ...]
    is_loose: bool


Block = Paragraph | Code | Table | Rule | Quote | ItemList


@dataclass(frozen=True, slots=True, kw_only=True)
class Note:
    """Something that could not be shown as asked, and where it stands in the source."""

    start: int
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """A parsed brief; `source` is the cleaned text."""

    source: str
    blocks: tuple[Block, ...]
    notes: tuple[Note, ...] = ()
