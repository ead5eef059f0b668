"""From the tree to a stream of pieces: what both chat platforms write, line by line, word by word."""

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace

from delivery.render.blocks import (
    Block,
    Code,
    Document,
    Item,
    ItemList,
    Mark,
    Note,
    Paragraph,
    Quote,
    Rule,
    Span,
    Table,
    TextLine,
    plain_span,
)
from delivery.render.links import write_out_links
from delivery.render.tables import draw_table, links_in
from delivery.split import Rank, is_extender, stretches

MAX_DEPTH = 5
"""Levels of lists, and of quotes, that are shown as such; deeper ones stay at this depth."""

LONGEST_HEADER = 400
"""Characters of a table's first two lines that a part beginning inside the table may repeat."""

FEW_WORDS = 48
"""Characters of a piece of several words; the end of a full part wastes up to so many."""

_RULE = "\u2500" * 10
_BREAKS = " \t\u3001\u3002\uff01\uff0c\uff1b\uff1f"
_WORDS = re.compile(f"[^{_BREAKS}]*[{_BREAKS}]+|[^{_BREAKS}]+")


@dataclass(frozen=True, slots=True, kw_only=True)
class Frame:
    """A monospace block; `header` is what a part that begins inside it repeats (a table's first two lines).

    `ticks` is the length of the longest run of backticks in it.
    """

    id: int
    language: str = ""
    ticks: int = 0
    header: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """What all pieces of one line share.

    `indent` columns and `marker` stand before its first piece (a list's bullet); a part that begins in the middle
    of the line goes without them. `quote` counts the quotes around it, `quote_id` names the outermost one.
    """

    is_after_gap: bool
    indent: int = 0
    marker: str = ""
    quote: int = 0
    quote_id: int = 0
    level: int = 0
    frame: Frame | None = None
    is_header: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece:
    """A few words with the spaces after them; `cut` is where the source is cut if a part begins with it."""

    text: str
    marks: tuple[Mark, ...]
    line: Line
    is_first: bool
    rank: Rank
    cut: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Dialect:
    """What differs between platforms before anything is written."""

    bullet: str
    can_link: Callable[[str], bool]
    defuse: Callable[[TextLine], TextLine]


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """A brief ready to be split."""

    pieces: tuple[Piece, ...]
    notes: tuple[Note, ...]


def lay_out(document: Document, dialect: Dialect) -> Layout:
    """Return the pieces of a brief in reading order, their `cut`s never decreasing."""
    setter = _Setter(source=document.source, dialect=dialect)
    for index, block in enumerate(document.blocks):
        setter.begin_block(is_after_heading=index > 0 and _is_heading(document.blocks[index - 1]))
        setter.block(block, _Place())
    return Layout(pieces=tuple(setter.pieces), notes=(*document.notes, *setter.notes))


def _is_heading(block: Block) -> bool:
    return isinstance(block, Paragraph) and block.level > 0


@dataclass(frozen=True, slots=True, kw_only=True)
class _Place:
    """Inside which lists and quotes the walk is."""

    indent: int = 0
    depth: int = 0
    quote: int = 0
    quote_id: int = 0


@dataclass(slots=True, kw_only=True)
class _Setter:
    """Walks the tree; `marker`, `has_gap` and `rank` are what the next line begins with."""

    source: str
    dialect: Dialect
    pieces: list[Piece] = field(default_factory=list)
    notes: list[Note] = field(default_factory=list)
    marker: str = ""
    marker_indent: int = 0
    has_gap: bool = False
    rank: Rank = Rank.BLOCK
    latest: int = 0
    count: int = 0

    def begin_block(self, *, is_after_heading: bool) -> None:
        """A block of the top level follows; a heading would rather not be the last thing in a part."""
        self.has_gap = True
        self.rank = Rank.SPACE if is_after_heading else Rank.BLOCK

    def block(self, block: Block, place: _Place) -> None:
        match block:
            case Paragraph():
                self._paragraph(block, place)
            case Code():
                frame = Frame(id=self._number(), language=block.language, ticks=_ticks(block.lines))
                self._framed(block.lines, place, frame, ())
            case Table():
                self._table(block, place)
            case Rule():
                self._line((plain_span(_RULE, block.start),), place)
            case Quote():
                depth = min(place.quote + 1, MAX_DEPTH)
                inner = replace(place, quote=depth, quote_id=place.quote_id or self._number())
                self._children(block.children, inner, is_loose=True)
            case ItemList():
                for index, item in enumerate(block.items):
                    self.has_gap = block.is_loose if index else self.has_gap
                    self._item(item, place, is_loose=block.is_loose)

    def _children(self, blocks: tuple[Block, ...], place: _Place, *, is_loose: bool) -> None:
        for index, block in enumerate(blocks):
            if index:
                self.has_gap = is_loose or not isinstance(block, Paragraph | ItemList) or _is_heading(block)
            self.block(block, place)

    def _item(self, item: Item, place: _Place, *, is_loose: bool) -> None:
        bullet = f"{item.number or self.dialect.bullet} "
        if not self.marker:
            self.marker_indent = place.indent
        self.marker += bullet + {None: "", True: "\u2611 ", False: "\u2610 "}[item.done]
        inner = replace(place, depth=place.depth + 1)
        if inner.depth < MAX_DEPTH:
            inner = replace(inner, indent=place.indent + len(bullet))
        first = item.children[0] if item.children else None
        if first is None or isinstance(first, Code | Table):
            self._line((plain_span("", item.start),), place)
        self._children(item.children, inner, is_loose=is_loose)
        if self.marker:  # children that show nothing
            self._line((plain_span("", item.start),), place)

    def _paragraph(self, block: Paragraph, place: _Place) -> None:
        for line in self._linked(block.lines):
            self._line(line or (plain_span("", block.start),), place, level=block.level)

    def _table(self, table: Table, place: _Place) -> None:
        drawn = draw_table(table)
        header, *_ = lines = [self._defused(line) for line in drawn]
        # A header that is long itself would leave its rows no room.
        is_short = sum(len(line.text) for line in lines[:2]) <= LONGEST_HEADER
        repeated = (header.text, lines[1].text) if is_short else ()
        frame = Frame(id=self._number(), ticks=_ticks(lines), header=repeated)
        self._framed(lines, place, frame, lines[:2])
        self.has_gap = True
        for link in links_in(table):
            self._line(self._linked((link,))[0], place)

    def _linked(self, lines: tuple[TextLine, ...]) -> tuple[TextLine, ...]:
        written, notes = write_out_links(lines, self.dialect.can_link)
        self.notes.extend(notes)
        return written

    def _defused(self, span: Span) -> Span:
        return replace(span, text="".join(part.text for part in self.dialect.defuse((span,))))

    def _framed(self, lines: Iterable[Span], place: _Place, frame: Frame, header: Iterable[Span]) -> None:
        heading = {id(span) for span in header}
        for span in lines:
            self._line((span,), place, frame=frame, is_header=id(span) in heading)

    def _line(
        self,
        spans: TextLine,
        place: _Place,
        *,
        level: int = 0,
        frame: Frame | None = None,
        is_header: bool = False,
    ) -> None:
        line = Line(
            is_after_gap=self.has_gap,
            indent=self.marker_indent if self.marker else place.indent,
            marker=self.marker,
            quote=place.quote,
            quote_id=place.quote_id,
            level=level,
            frame=frame,
            is_header=is_header,
        )
        rank = self.rank
        self.marker, self.has_gap, self.rank = "", False, Rank.LINE
        before: tuple[str, tuple[Mark, ...]] | None = None
        for span in self.dialect.defuse(spans):
            at = span.start
            for word in _words(span.text):
                if before is None:
                    cut = self.source.rfind("\n", 0, span.cut) + 1
                else:
                    rank = _rank(before, word, span.marks)
                    cut = span.cut if at == span.start else at
                self._piece(word, span.marks, line, before is None, rank, cut)
                before = word, span.marks
                at += len(word)

    def _piece(self, text: str, marks: tuple[Mark, ...], line: Line, is_first: bool, rank: Rank, cut: int) -> None:
        self.latest = max(self.latest, min(cut, len(self.source)))
        self.pieces.append(Piece(text=text, marks=marks, line=line, is_first=is_first, rank=rank, cut=self.latest))

    def _number(self) -> int:
        self.count += 1
        return self.count


def _ticks(lines: Iterable[Span]) -> int:
    return max((len(run) for line in lines for run in re.findall("`+", line.text)), default=0)


def _words(text: str) -> Iterator[str]:
    """Give a text in pieces: a few words each, cut after spaces; stretches of what has none."""
    if not text:
        yield ""
    held: list[str] = []
    length = 0
    for match in _WORDS.finditer(text):
        word = match.group()
        if held and (length + len(word) > FEW_WORDS or is_extender(word[0])):
            yield "".join(held)
            held, length = [], 0
        if len(word) > FEW_WORDS:
            yield from stretches(word)
        else:
            held.append(word)
            length += len(word)
    if held:
        yield "".join(held)


def _rank(before: tuple[str, tuple[Mark, ...]], word: str, marks: tuple[Mark, ...]) -> Rank:
    text, marks_before = before
    if text[-1:] not in _BREAKS or is_extender(word[:1]):
        return Rank.GLUED
    return Rank.INSIDE if set(marks_before) & set(marks) else Rank.SPACE
