"""From a layout to parts: split, written, numbered, each with its source."""

from collections.abc import Callable, Sequence
from typing import Protocol

from delivery.render.blocks import Document, Note
from delivery.render.clean import is_blank
from delivery.render.layout import Layout, Piece
from delivery.render.parts import RenderedPart
from delivery.split import Writer, split

MARKER_ROOM = "\n\n(9999/9999)"
"""What a writer keeps free where there are several parts: the number of one, on a line of its own."""


class PartWriter(Writer[Piece], Protocol):
    """A platform's writer of one part."""

    def finish(self, marker: str) -> dict[str, object]:
        """Return the payload with `marker` at its end, unless that is empty."""


def render_parts(
    document: Document, layout: Layout, new_writer: Callable[[str], PartWriter]
) -> tuple[RenderedPart, ...]:
    """Return the parts of a brief. Their texts add up to `document.source`; without visible text there are none.

    `new_writer` is given what it is to keep free at the end.
    """
    pieces = layout.pieces
    ranges = _ranges(pieces, new_writer)
    if not ranges:
        return ()
    starts = [0, *(pieces[begin].cut for begin, _ in ranges[1:])]
    ends = [*starts[1:], len(document.source)]
    parts = []
    for number, ((begin, end), start, stop) in enumerate(zip(ranges, starts, ends, strict=True), start=1):
        writer = new_writer("")
        for piece in pieces[begin:end]:
            writer.add(piece)
        payload = writer.finish(f"({number}/{len(ranges)})" if len(ranges) > 1 else "")
        text = document.source[start:stop]
        parts.append(RenderedPart(payload=payload, text=text, degraded=_reasons(layout.notes, start, stop)))
    return tuple(parts)


def _ranges(pieces: Sequence[Piece], new_writer: Callable[[str], PartWriter]) -> list[tuple[int, int]]:
    first = next(split(pieces, lambda: new_writer("")), (0, 0))
    if first[1] == len(pieces):
        return _visible(pieces, [first])
    return _visible(pieces, list(split(pieces, lambda: new_writer(MARKER_ROOM))))


def _visible(pieces: Sequence[Piece], ranges: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Leave out ranges in which a reader would see nothing: platforms refuse an empty message."""
    return [
        (begin, end)
        for begin, end in ranges
        if not all(is_blank(piece.text) and not piece.line.marker for piece in pieces[begin:end])
    ]


def _reasons(notes: Sequence[Note], start: int, stop: int) -> str | None:
    reasons = dict.fromkeys(note.reason for note in notes if start <= note.start < stop)
    return "; ".join(reasons) or None
