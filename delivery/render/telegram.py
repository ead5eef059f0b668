"""Telegram: text and entities, never a parse mode, so that no character can break the markup.

Offsets and lengths are UTF-16 units. https://core.telegram.org/bots/api#messageentity
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from delivery.render.blocks import MarkKind, TextLine
from delivery.render.layout import Dialect, Line, Piece, lay_out
from delivery.render.paging import render_parts
from delivery.render.parts import RenderedPart
from delivery.render.tree import parse
from delivery.split import utf16_units

MAX_UNITS = 4_096
MAX_ENTITIES = 100

_TYPES = {
    MarkKind.BOLD: "bold",
    MarkKind.ITALIC: "italic",
    MarkKind.STRIKE: "strikethrough",
    MarkKind.CODE: "code",
    MarkKind.LINK: "text_link",
}


def render_telegram(markdown: str) -> tuple[RenderedPart, ...]:
    """Return the parts of a brief, each payload `{"text": ..., "entities": [...]}`; none for an empty one.

    Each text is at most 4,096 UTF-16 units, with at most 100 entities that are inside it and well nested.
    """
    document = parse(markdown)
    return render_parts(document, lay_out(document, _DIALECT), TelegramWriter)


def _can_link(address: str) -> bool:
    try:
        parts = urlsplit(address)
    except ValueError:
        return False
    return parts.scheme == "tg" or (parts.scheme in ("http", "https") and bool(parts.netloc))


def _as_it_is(line: TextLine) -> TextLine:
    return line


_DIALECT = Dialect(bullet="\u2022", can_link=_can_link, defuse=_as_it_is)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Entity:
    """An entity's type and its other fields; `id` tells neighbours apart."""

    type: str
    id: int
    url: str | None = None
    language: str | None = None


@dataclass(slots=True)
class TelegramWriter:
    """Writes one part; `room` is what may be put at its end."""

    room: str
    chunks: list[str] = field(default_factory=list)
    units: int = 0
    open: list[tuple[_Entity, int]] = field(default_factory=list)
    closed: list[tuple[int, int, int, _Entity]] = field(default_factory=list)
    trailing: int = 0

    def add(self, piece: Piece) -> None:
        """Take the next piece."""
        line, entities = piece.line, _entities(piece)
        outer = entities[: _outer(line)]
        self._close_beyond(outer if piece.is_first else entities)
        if self.chunks and piece.is_first:
            self._write("\n\n" if line.is_after_gap else "\n")
        is_opening = not self.chunks
        self._open(outer)
        if is_opening and line.frame is not None and not line.is_header:
            for text in line.frame.header:
                self._write(f"{text}\n")
        if piece.is_first and line.frame is None:
            indent = "" if is_opening else " " * line.indent
            self._write(indent + "> " * (line.quote - 1) + line.marker)
        self._open(entities)
        self._write(piece.text)

    def size(self) -> float:
        """Return how much of the limit is used, of characters or of entities."""
        return max((self.units + len(self.room)) / MAX_UNITS, (len(self.closed) + len(self.open)) / MAX_ENTITIES)

    def finish(self, marker: str) -> dict[str, object]:
        """Return the payload, ending in `marker` on a line of its own (if it is not empty)."""
        is_code = bool(self.open) and self.open[-1][0].type == "pre"
        self._close_beyond(())
        text = "".join(self.chunks)
        text = text.rstrip("\n") if is_code else text.rstrip()
        end = utf16_units(text)
        entities = [
            _as_json(entity, start, min(stop, end) - start)
            for start, stop, _, entity in sorted(self.closed, key=lambda item: (item[0], -item[1], item[2]))
            if min(stop, end) > start
        ]
        return {"text": f"{text}\n\n{marker}" if marker else text, "entities": entities}

    def _write(self, text: str) -> None:
        if text:
            self.chunks.append(text)
            units = utf16_units(text)
            self.units += units
            bare = utf16_units(text.rstrip())
            self.trailing = units - bare if bare else self.trailing + units

    def _open(self, entities: Sequence[_Entity]) -> None:
        for entity in entities[len(self.open) :]:
            self.open.append((entity, self.units))

    def _close_beyond(self, entities: Sequence[_Entity]) -> None:
        """Close what is open and not among `entities`, which are in order from the outermost."""
        kept = 0
        while kept < min(len(self.open), len(entities)) and self.open[kept][0] == entities[kept]:
            kept += 1
        for depth, (entity, start) in enumerate(self.open[kept:], start=kept):
            end = self.units if entity.type == "pre" else self.units - self.trailing
            if end > start:
                self.closed.append((start, end, depth, entity))
        del self.open[kept:]


def _outer(line: Line) -> int:
    """Return how many of a line's entities go on into the next line: a quote, or a monospace block."""
    return 1 if line.frame is not None or line.quote else 0


def _entities(piece: Piece) -> list[_Entity]:
    """Return the entities over a piece, outermost first, as Telegram lets them nest.

    Monospace blocks stand alone; inline code and links hold nothing and no other of their kind, code is under
    no emphasis; quotes do not nest.
    """
    line = piece.line
    if line.frame is not None:
        return [_Entity(type="pre", id=line.frame.id, language=line.frame.language or None)]
    found = [_Entity(type="blockquote", id=line.quote_id)] if line.quote else []
    kinds = {mark.kind for mark in piece.marks}
    if line.level and (MarkKind.CODE not in kinds or MarkKind.LINK in kinds):
        found.append(_Entity(type="bold", id=0))
    for mark in piece.marks:
        if mark.kind is MarkKind.BOLD and line.level:
            continue
        if mark.kind is MarkKind.CODE and MarkKind.LINK in kinds:
            continue
        if mark.kind not in (MarkKind.CODE, MarkKind.LINK) and MarkKind.CODE in kinds and MarkKind.LINK not in kinds:
            continue
        url = mark.value if mark.kind is MarkKind.LINK else None
        found.append(_Entity(type=_TYPES[mark.kind], id=mark.id, url=url))
    return found


def _as_json(entity: _Entity, offset: int, length: int) -> dict[str, object]:
    fields: dict[str, object] = {"type": entity.type, "offset": offset, "length": length}
    if entity.url is not None:
        fields["url"] = entity.url
    if entity.language is not None:
        fields["language"] = entity.language
    return fields
